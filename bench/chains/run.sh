#!/bin/sh
# Every claim about chains, measured: bench/chains/run.sh, about fourteen minutes on two idle cores.
# Needs Python; with numpy and pyrevolve 2.2.8 (PYTHON names the one that has them) also the comparison with it.
set -eu
cd "$(dirname "$0")/../.."
cargo build --release --workspace --bin reprop --example wave_adjoint --example long_chain
"${PYTHON:-python3}" bench/chains/run.py "$@"
cargo xtask docs
