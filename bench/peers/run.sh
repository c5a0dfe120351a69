#!/bin/sh
# Compares the kernels with PyTorch on units A and B: builds both sides, interleaves them, prints ratios.
# Arguments go to compare.py (--rounds, --threads, --units, --json). The virtual environment lies outside the repository;
# REPROP_PEERS moves it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${REPROP_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/reprop-peers}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
if ! "$venv/bin/python" -c 'import torch, numpy' 2>/dev/null; then
    "$venv/bin/pip" install --quiet torch numpy
fi
cd "$here/../.."
cargo build --quiet --release --package reprop-kernels --example unit
target=${CARGO_TARGET_DIR:-target}
exec "$venv/bin/python" "$here/compare.py" "$@" --ours "$target/release/examples/unit" \
    --peer "$venv/bin/python" "$here/units.py"
