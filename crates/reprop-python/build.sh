#!/usr/bin/env bash
# Checks the sources, makes the wheel, installs it into a virtual environment of its own and tests it there:
#   crates/reprop-python/build.sh            all of it
#   crates/reprop-python/build.sh wheel      the wheel alone, in target/wheels
# PYTHON names another interpreter. SITE names a folder with packages to see too, such as another environment's PyTorch.
# Ends with 3 where the package index does not answer.
set -euo pipefail
cd "$(dirname "$0")"
export CARGO_TARGET_DIR="$PWD/target"
environment="$PWD/target/venv"
python="$environment/bin/python"
"${PYTHON:-python3}" -m venv "$environment"
site="$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/site.pth"
if [ -n "${SITE:-}" ]; then
    echo "$SITE" > "$site"
else
    rm -f "$site"
fi
packages=('maturin>=1.9,<2')
if [ "${1:-}" != wheel ]; then
    packages+=(pytest numpy mypy checkpoint_schedules)
fi
install=("$python" -m pip install --quiet --disable-pip-version-check)
"${install[@]}" "${packages[@]}" || exit 3
if [ "${1:-}" != wheel ]; then
    cargo fmt --check
    # With the interpreter that maturin names, PyO3 is built for both at once.
    PYO3_PYTHON="$python" cargo clippy --quiet --release --locked -- -D warnings
fi
rm -rf target/wheels
"$environment/bin/maturin" build --release --locked --quiet --out target/wheels --interpreter "$python"
if [ "${1:-}" = wheel ]; then
    exit
fi
"${install[@]}" --force-reinstall --no-deps target/wheels/*.whl
pytest=("$python" -m pytest -q -p no:cacheprovider)
"${pytest[@]}" tests
"${pytest[@]}" --doctest-modules --doctest-ignore-import-errors --pyargs reprop
"$python" -m mypy --no-error-summary --cache-dir target/mypy tests/typed.py
"$python" -m mypy.stubtest --ignore-disjoint-bases reprop._reprop
# Their own suite comes from the package index, and is not needed to know that ours is right.
PYTHON="$python" compat/peer_suite.sh || [ $? = 3 ]
