"""Every golden program that a GPU can run is compiled by NVRTC for every chip, without a GPU."""

from pathlib import Path

import pytest
import tilelang
from tilelang import _core

GOLDEN = Path(__file__).parent.parent / "golden"
CHIPS = ["sm_80", "sm_86", "sm_89", "sm_90"]


def programs():
    """The tile-level programs among the goldens, each once."""
    found = {}
    for path in sorted(GOLDEN.glob("*/*.ir")):
        text = path.read_text().split("\n# ----\n")[0]
        if path.parent.name != "parse" and "# error" not in text:
            body = "\n".join(line for line in text.splitlines() if not line.startswith("# run:"))
            found.setdefault(body, f"{path.parent.name}/{path.stem}")
    return [pytest.param(body, id=name) for body, name in found.items()]


@pytest.mark.parametrize("text", programs())
@pytest.mark.parametrize("chip", CHIPS)
def test_compiles(chip, text):
    try:
        kernel = _core.compile(_core.parse(text, "golden"), f"cuda -arch={chip}", {})
    except RuntimeError as missing:
        if "libnvrtc" in str(missing):
            pytest.skip("NVRTC is not installed")
        raise
    assert f"for {chip}" in kernel.source
    report = kernel.report.text()
    assert "NVRTC" in report
    assert "no spills" in report, report


def test_the_source_needs_no_cuda_header():
    for program in programs():
        source = _core.compile(_core.parse(program.values[0], "golden"), "cuda -arch=sm_80", {}).source
        assert "#include" not in source
    assert tilelang.__version__
