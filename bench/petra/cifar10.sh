#!/usr/bin/env bash
# PETRA beside backpropagation on CIFAR-10: RevResNet-18 at a quarter of its width, k in {1, 4, 16}, equal epochs.
#
#   bench/petra/cifar10.sh [EPOCHS]        # default 3; results under bench/runs/petra-cifar10/
#
# Needs the data (`reprop data get cifar10`, or --from PATH in REPROP_DATA) and the built program. Each run leaves its
# metrics and its last line (test accuracy, digest); `summary.tsv` has one row a run.
set -euo pipefail
cd "$(dirname "$0")/../.."
epochs=${1:-3}
program=${REPROP:-target/release/reprop}
out=bench/runs/petra-cifar10
from=()
if [ -n "${REPROP_DATA:-}" ]; then from=(--from "$REPROP_DATA"); fi
batch=64
per_epoch=$(((50000 + batch - 1) / batch))
mkdir -p "$out"
printf 'method\tstages\taccumulate\tbatches\ttest_accuracy\n' > "$out/summary.tsv"
for accumulate in 1 4 16; do
    # A whole number of updates.
    steps=$(((epochs * per_epoch + accumulate - 1) / accumulate * accumulate))
    for run in backprop:2 petra:10; do
        method=${run%:*} stages=${run#*:}
        folder=$(mktemp -d)/run
        "$program" train --model rev-resnet-18 --width 16 --data cifar10 "${from[@]}" --batch $batch --steps $steps \
            --method "$method" --stages "$stages" --accumulate $accumulate --out "$folder" \
            | tail -n 1 > "$out/$method-k$accumulate.json"
        cp "$folder/metrics.jsonl" "$out/$method-k$accumulate.jsonl"
        accuracy=$(sed 's/.*"test_accuracy":\([0-9.]*\).*/\1/' "$out/$method-k$accumulate.json")
        printf '%s\t%s\t%s\t%s\t%s\n' "$method" "$stages" $accumulate $steps "$accuracy" | tee -a "$out/summary.tsv"
    done
done
