#!/bin/sh
# The wave equation under pyrevolve and under reprop, one thread each, and the table of constant overhead.
# Needs a quiet machine, and Python with numpy and pyrevolve 2.2.8 (PYTHON names it).
set -e
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
export OMP_NUM_THREADS=1
cargo build --release -p reprop --example wave_adjoint --example long_chain
for problem in "100 500 10" "200 1000 10" "200 1000 30"; do
    echo "== grid, steps, slots: $problem"
    # The words of a problem are three arguments.
    # shellcheck disable=SC2086
    "$PYTHON" bench/chains/wave.py $problem
    # shellcheck disable=SC2086
    "$PYTHON" bench/chains/wave.py $problem disk
    # shellcheck disable=SC2086
    target/release/examples/wave_adjoint $problem
done
echo "== constant overhead"
target/release/examples/long_chain
echo "== a million steps"
target/release/examples/long_chain 256 8 async 1000000
