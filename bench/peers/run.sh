#!/bin/sh
# Compares with PyTorch: builds both sides, interleaves them, prints ratios.
#
#   bench/peers/run.sh [units|steps] [arguments of compare.py: --rounds, --threads, --units, --json]
#   bench/peers/run.sh check [FILE of `reprop models --format json`]
#
# `units` are bare kernels (A and B), `steps` whole training steps with their optimizer; `check` tells whether the networks
# of steps do the same work. The virtual environment lies outside the repository; REPROP_PEERS moves it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
what=units
case "${1:-}" in
units | steps | check)
    what=$1
    shift
    ;;
esac
venv=${REPROP_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/reprop-peers}
if [ ! -x "$venv/bin/python" ]; then
    python3 -m venv "$venv"
fi
if ! "$venv/bin/python" -c 'import torch, numpy' 2>/dev/null; then
    "$venv/bin/pip" install --quiet torch numpy
fi
if [ "$what" = check ]; then
    exec "$venv/bin/python" "$here/steps.py" check "$@"
fi
cd "$here/../.."
target=${CARGO_TARGET_DIR:-target}
if [ "$what" = steps ]; then
    cargo build --quiet --release --workspace --example steps
    exec "$venv/bin/python" "$here/compare.py" --steps "$@" --ours "$target/release/examples/steps" \
        --peer "$venv/bin/python" "$here/steps.py"
fi
cargo build --quiet --release --package reprop-kernels --example unit
exec "$venv/bin/python" "$here/compare.py" "$@" --ours "$target/release/examples/unit" \
    --peer "$venv/bin/python" "$here/units.py"
