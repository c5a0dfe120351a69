#!/bin/sh
# Compares with PyTorch: builds both sides, interleaves them, prints ratios.
#
#   bench/peers/run.sh [units|steps] [arguments of compare.py: --rounds, --threads, --units, --json]
#   bench/peers/run.sh check [FILE of `reprop models --format json`]
#
# `units` are bare kernels (A and B), `steps` whole training steps with their optimizer; `check` tells whether the networks
# of steps do the same work. The virtual environment lies outside the repository; REPROP_PEERS moves it.
#
# PyTorch's products are MKL's, which on a CPU that is not Intel's leaves AVX-512 unused. PEER_MKL=intel tells MKL that it is on an
# Intel CPU: a faster peer than PyTorch as it is installed. Needs a C compiler.
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
case "${PEER_MKL:-}" in
"") ;;
intel)
    # The answer that MKL asks for before it chooses its kernels.
    echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' > "$venv/intel.c"
    cc -shared -fPIC -o "$venv/intel.so" "$venv/intel.c"
    # For Python alone: other programs have no MKL.
    set -- "$@" --peer-preload "$venv/intel.so"
    ;;
*)
    echo "error: PEER_MKL=$PEER_MKL is unknown; it may be intel, or not set" >&2
    exit 2
    ;;
esac
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
