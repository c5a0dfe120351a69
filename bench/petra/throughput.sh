#!/bin/sh
# PETRA in two stages of one thread each beside the `reversible` method on one thread: bench/petra/throughput.sh [ROUNDS [BATCHES]]
#
# Both methods in turn, in one process, for a RevResNet-18 at a quarter of its width and a RevViT, on noise; stages are cut by
# measured times. Prints the ratio of batches a second of each round and its median, by the clock and by processor time. Needs
# two cores that do nothing else: on a busy machine only the ratio by processor time means something.
set -eu
cd "$(dirname "$0")/../.."
cargo build --release --workspace --example petra_throughput
out=bench/runs/petra-throughput.txt
target/release/examples/petra_throughput "${1:-5}" "${2:-16}" | tee "$out"
