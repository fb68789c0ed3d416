"""The scripts in the published style as their users run them: on the GPU that is there."""

import runpy
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

SCRIPTS = Path(__file__).resolve().parents[1] / "published"


@pytest.mark.parametrize("name", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_script(name, monkeypatch, capsys, kernels):
    path = str(SCRIPTS / f"{name}.py")
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setattr(sys, "argv", [path])
    torch.manual_seed(0)
    runpy.run_path(path, run_name="__main__")  # it checks its results itself
    assert kernels or name in ("carver_hints", "layouts_and_analysis")
