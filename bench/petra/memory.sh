#!/bin/sh
# What stages keep by formula, for the published sizes, as docs/petra.md shows it: bench/petra/memory.sh
set -eu
cd "$(dirname "$0")/../.."
cargo build --release --workspace --example petra_memory
target/release/examples/petra_memory >bench/runs/petra-memory.md
cargo xtask docs
