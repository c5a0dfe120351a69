#!/bin/sh
# PETRA beside backpropagation on CIFAR-10: bench/petra/cifar10.sh [EPOCHS [RUN...]]      (10 epochs of all nine runs by default)
#
# RevResNet-18 at a quarter of its width, batches of 64, k in {1, 4, 16}, by the paper's recipe: rate 0.1 * 64 k / 256, a tenth
# of it after half and three quarters of the epochs. The paper warms up for 5 of 300 epochs; here it is a quarter of the epochs,
# at most 5. The test set goes through the pipeline after each epoch. Two balanced stages, as many as there are cores; PETRA's
# gradients are compared with true ones every 50 updates. About 20 minutes a run on two cores. Three more runs of PETRA: one
# stage for each part, as in the paper, which makes gradients up to 18 batches old, with k = 1; and inputs of down-sampling parts
# kept in half precision and in 8 bits, with k = 4.
#
# Results go to bench/runs/petra-cifar10/: tested epochs, compared gradients, settings and the outcome of each run, curves.svg and
# alignment-*.svg. RUN is a name such as petra-k4. REPROP_SMOKE=N trains on N batches a run, to see that all of it works.
# Needs `reprop data get cifar10` once, or the folder of its binary files in REPROP_DATA.
set -eu
cd "$(dirname "$0")/../.."
epochs="${1:-10}"
[ $# -eq 0 ] || shift
chosen="$*"
program="${REPROP:-target/release/reprop}"
[ -n "${REPROP:-}" ] || cargo build --release --workspace --bin reprop
kept="${REPROP_KEPT:-bench/runs/petra-cifar10}"
mkdir -p "$kept"
rise=$(awk "BEGIN { quarter = $epochs / 4; print (quarter < 5 ? quarter : 5) }")
length="--epochs $epochs"
[ -z "${REPROP_SMOKE:-}" ] || length="--steps $REPROP_SMOKE"

# run NAME ARGUMENTS...
run() {
    name="$1"
    shift
    case " ${chosen:-$name} " in *" $name "*) ;; *) return 0 ;; esac
    out="run/petra-cifar10/$name"
    rm -rf "$out"
    # shellcheck disable=SC2086
    "$program" train --model rev-resnet-18 --width 16 --data cifar10 ${REPROP_DATA:+--from "$REPROP_DATA"} --batch 64 \
        $length --rate-warm-up "$rise" --out "$out" "$@" | tail -n 1 >"$kept/$name.json"
    grep test_accuracy "$out/metrics.jsonl" >"$kept/$name.jsonl" || true
    cp "$out/settings.json" "$kept/$name.settings.json"
    if grep alignment "$out/metrics.jsonl" >"$kept/$name.alignment.jsonl"; then
        cargo xtask alignment "$kept/alignment-$name.svg" "$kept/$name.alignment.jsonl"
    else
        rm "$kept/$name.alignment.jsonl"
    fi
    cat "$kept/$name.json"
}
for k in 1 4 16; do
    run "backprop-k$k" --method backprop --stages 2 --accumulate "$k"
    run "petra-k$k" --method petra --stages 2 --accumulate "$k" --alignment 50
done
run petra-k1-j10 --method petra --stages 10 --accumulate 1 --alignment 50
for queue in f16 u8; do
    run "petra-k4-$queue" --method petra --stages 2 --accumulate 4 --queue "$queue"
done

curves=""
for metrics in "$kept"/*-k*.jsonl; do
    case "$metrics" in *.alignment.jsonl) ;; *) curves="$curves $metrics" ;; esac
done
# shellcheck disable=SC2086
[ -n "${REPROP_SMOKE:-}" ] || cargo xtask curves "$kept/curves.svg" $curves
