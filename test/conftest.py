"""Makes shared cases and examples importable from everywhere; keeps the tests of a GPU on one worker."""

import gc
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "examples")]


@pytest.fixture(params=["cpu", "reference", "sim"])
def target(request):
    """Each way to run a kernel without a GPU; what is simulated is the SIM of the test's file, or sm_80."""
    return getattr(request.module, "SIM", "sim:sm_80") if request.param == "sim" else request.param


@pytest.fixture
def kernels(monkeypatch):
    """The kernels that are made while a test runs."""
    import tilelang

    made = []
    complete = tilelang.JITKernel._complete

    def remember(self, *args):
        complete(self, *args)
        made.append(self)

    monkeypatch.setattr(tilelang.JITKernel, "_complete", remember)
    return made


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE / "device" in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("gpu"))


def pytest_collection_finish():
    """The collector need not look at thousands of collected tests again and again."""
    gc.collect()
    gc.freeze()
