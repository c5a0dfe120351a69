"""The examples run, at sizes that take a moment."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def output(name, *arguments):
    run = subprocess.run([sys.executable, EXAMPLES / name, *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_wave(on_disk, tmp_path):
    folder = [tmp_path] if on_disk else []
    assert output("wave.py", 40, 150, 5, *folder).endswith("gradient agrees with finite differences\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.torch
def test_the_lstm():
    assert output("lstm.py", 2000).endswith("memory stayed inside 16 MiB\n")
