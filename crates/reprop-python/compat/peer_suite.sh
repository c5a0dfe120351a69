#!/usr/bin/env bash
# Runs the test suite of checkpoint_schedules on reprop's schedules: their source distribution is downloaded from the
# package index into a temporary folder, and their tests see our classes under their names. Needs an environment with
# reprop, checkpoint_schedules and pytest, as build.sh makes one:
#   PYTHON=crates/reprop-python/target/venv/bin/python crates/reprop-python/compat/peer_suite.sh
# Ends with 3 where the index does not have it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
version=$("$python" -c 'from importlib.metadata import version; print(version("checkpoint_schedules"))')
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
    --dest "$folder" "checkpoint_schedules==$version" || {
    echo "checkpoint_schedules' own tests were NOT run: no source distribution of $version"
    exit 3
}
tar -xzf "$folder"/*.tar.gz -C "$folder"
cd "$folder"/*/tests
# Their package folder must not hide the installed one, so the tests run where they are.
PYTHONPATH="$here" "$python" -m pytest -p swap -p no:cacheprovider -q -rs --rootdir . . "$@"
