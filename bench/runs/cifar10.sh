#!/bin/sh
# Archived curves on CIFAR-10: bench/runs/cifar10.sh [EPOCHS]
#
# Trains small networks for the same number of epochs, one after the other, and keeps settings, metrics and outcome of
# each beside this file. Needs `reprop data get cifar10` once.
set -eu
cd "$(dirname "$0")/../.."
epochs="${1:-10}"
cargo build --release
run() {
    name="$1"
    shift
    out="run/cifar10/$name"
    rm -rf "$out"
    target/release/reprop train --data cifar10 --epochs "$epochs" --out "$out" "$@" | tail -n 1 >"bench/runs/cifar10-$name.json"
    cp "$out/metrics.jsonl" "bench/runs/cifar10-$name.jsonl"
    cp "$out/settings.json" "bench/runs/cifar10-$name.settings.json"
}
# A quarter of the published width: 16 channels a stream in the first stage.
run rev-resnet-18-width-16 --model rev-resnet-18 --width 16
run rev-vit-small --model rev-vit-digits --image 32 --width 128 --recipe vit-small-images
