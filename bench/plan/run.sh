#!/bin/sh
# Plans against the clock and the meter, on a quiet machine: 20 to 25 minutes with 6 SECONDS.
#
#   bench/plan/run.sh [SECONDS [NETWORK...]]
#
# SECONDS are those that each case is measured for, 10 by default. The tables go to stdout and, unless networks are named, to
# bench/runs/plans.md; the exit code is 1 if any line is out of bounds.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --workspace --example budgets
[ $# -le 1 ] || exec "${CARGO_TARGET_DIR:-target}/release/examples/budgets" "$@"
out=bench/runs/plans.md
# What a pipe hides: the exit code of the program.
status=0
"${CARGO_TARGET_DIR:-target}/release/examples/budgets" "$@" >"$out.part" || status=$?
mv "$out.part" "$out"
cat "$out"
exit "$status"
