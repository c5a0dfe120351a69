"""What is asked of the surroundings of a test."""

import importlib.util

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "torch: needs PyTorch")


def pytest_collection_modifyitems(items):
    """Tests of PyTorch are skipped by name where it is not installed."""
    if importlib.util.find_spec("torch") is not None:
        return
    for item in items:
        if item.get_closest_marker("torch"):
            item.add_marker(pytest.mark.skip(reason="PyTorch is not installed"))
