"""Every golden program that a GPU can run is compiled by NVRTC for every chip, without a GPU."""

import re
from pathlib import Path

import pytest
import tilelang
from helpers import in_turn
from tilelang import _core

GOLDEN = Path(__file__).parent.parent / "golden"
CHIPS = ["sm_80", "sm_86", "sm_89", "sm_90"]
OTHERS = ["sm_75", "sm_100", "sm_103", "sm_120", "sm_121"]


def programs():
    """The tile-level programs among the goldens, each once."""
    found = {}
    for path in sorted(GOLDEN.glob("*/*.ir")):
        text = path.read_text().split("\n# ----\n")[0]
        if path.parent.name != "parse" and "# error" not in text:
            body = "\n".join(line for line in text.splitlines() if not line.startswith("# run:"))
            found.setdefault(body, f"{path.parent.name}/{path.stem}")
    return [pytest.param(body, id=name) for body, name in found.items()]


def has(chip, text):
    """Barriers in memory are for sm_80 and later, copies by the tensor memory accelerator for sm_90, products
    in flight and roles, whose timeline it is, for sm_90a."""
    if "{timeline=" in text or "wgmma_" in text:
        return chip == "sm_90a"
    least = 90 if re.search(r"\b(cp_async_bulk|tma)_", text) else 80 if "mbarrier_" in text else 0
    return int(chip[3:].rstrip("a")) >= least


def compiles(chip, text):
    if not has(chip, text):
        return
    try:
        kernel = _core.compile(_core.parse(text, "golden"), f"cuda -arch={chip}", {})
    except RuntimeError as missing:
        if "libnvrtc" in str(missing):
            pytest.skip("NVRTC is not installed")
        raise
    assert f"for {chip}" in kernel.source
    report = kernel.report.text()
    assert "NVRTC" in report
    # By ptxas's choice: of a GEMM of dynamic shape, whose 255 registers are all taken there, 16 to 48 bytes.
    few = chip in OTHERS and all(row["spill_stores"] <= 48 for row in kernel.resources)
    assert "no spills" in report or few, report


@pytest.mark.parametrize("text", programs())
@pytest.mark.parametrize("chip", CHIPS)
def test_compiles(chip, text):
    compiles(chip, text)


def test_other_chips_in_turn():
    for i, program in enumerate(programs()):
        for chip in in_turn(OTHERS, i):
            compiles(chip, program.values[0])  # sm_75 copies at once what is begun by cp.async


def test_the_source_needs_no_cuda_header():
    for program in programs():
        chip = next(chip for chip in ("sm_80", "sm_90", "sm_90a") if has(chip, program.values[0]))
        source = _core.compile(_core.parse(program.values[0], "golden"), f"cuda -arch={chip}", {}).source
        assert "#include" not in source
    assert tilelang.__version__
