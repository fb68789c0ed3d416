"""Makes the shared cases importable from every test folder, and keeps the tests of a GPU on one worker."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))


def pytest_collection_modifyitems(items):
    for item in items:
        if FOLDER / "device" in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("gpu"))
