#!/bin/sh
# Archives anew the runs that README and GUIDE show, and makes their tables and pictures: bench/runs/documents.sh
#
# About five minutes on two idle cores; with `peers` as argument also the comparison with PyTorch (its virtual environment is
# made on first use, REPROP_PEERS moves it), which runs every network of it. Do nothing else meanwhile.
set -eu
cd "$(dirname "$0")/../.."
program="${REPROP:-target/release/reprop}"
[ -n "${REPROP:-}" ] || cargo build --release --workspace --bin reprop
runs=bench/runs

# What `cargo run --release -- train` prints, without its last line for scripts.
out=$(mktemp -d)
"$program" train --out "$out/run" >"$out/train.txt"
sed '$d' "$out/train.txt" | sed -e 's/ *$//' -e '${/^$/d;}' >"$runs/train-digits.txt"
rm -r "$out"

"$program" bench --model rev-vit-s --depth 6,24 --batch 2 --warmup 1 --steps 5 --export "$runs/strategies.json"
"$program" bench --model rev-vit-s --batch 8 --strategy stored,reprop,pareprop,auto --budget 96MiB,160MiB,240MiB,320MiB \
    --warmup 1 --steps 5 --export "$runs/ladder.json"
if [ "${1:-}" = peers ]; then
    bench/peers/run.sh steps --rounds 5 --warmup 1 --json "$runs/steps-2-threads.json"
fi
cargo xtask docs
