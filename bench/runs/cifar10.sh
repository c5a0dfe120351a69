#!/bin/sh
# Archived curves on CIFAR-10: bench/runs/cifar10.sh [EPOCHS [NAME...]]      (10 epochs of all by default)
#
# Trains small reversible networks and the plain twins of two of them for the same number of epochs, one after the other,
# each by the recipe of its family; then a small RevRoBERTa on the embedded text. Settings, the metrics of each epoch and
# the outcome of each run are kept under bench/runs/cifar10/ and bench/runs/sotu/, drawn, and told in the README. Needs
# `reprop data get cifar10` once, or the folder of its binary files in REPROP_DATA.
set -eu
cd "$(dirname "$0")/../.."
epochs="${1:-10}"
[ $# -eq 0 ] || shift
chosen="$*"
program="${REPROP:-target/release/reprop}"
[ -n "${REPROP:-}" ] || cargo build --release --workspace --bin reprop

# run SET NAME ARGUMENTS...
run() {
    set="$1" name="$2"
    shift 2
    case " ${chosen:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    out="run/$set/$name"
    kept="bench/runs/$set"
    rm -rf "$out"
    mkdir -p "$kept"
    "$program" train --out "$out" "$@" | tail -n 1 >"$kept/$name.json"
    grep test_accuracy "$out/metrics.jsonl" >"$kept/$name.jsonl"
    cp "$out/settings.json" "$kept/$name.settings.json"
    cargo xtask curves "$kept/curves.svg" "$kept"/*.jsonl
}
cifar10() {
    run cifar10 "$@" --data cifar10 ${REPROP_DATA:+--from "$REPROP_DATA"} --epochs "$epochs"
}
cifar10 rev-vit --model rev-vit-cifar
cifar10 vit --model vit-cifar
# A quarter of the published width: 16 channels a stream in the first stage.
cifar10 rev-resnet-18-w16 --model rev-resnet-18 --width 16
cifar10 resnet-18-w16 --model resnet-18 --width 16
cifar10 rev-swin --model rev-swin-cifar
cifar10 rev-mvit --model rev-mvit-cifar
# As many epochs as its recipe says: in three of them the loss on the test set does not come below 6.
run sotu rev-roberta --model rev-roberta-base --depth 4 --width 128 --data sotu --sequence 64
# The table of the README.
cargo xtask docs
