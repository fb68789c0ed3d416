"""`import tilelang` is quick and brings nothing along."""

import shutil
import subprocess
import sys
from pathlib import Path

import tilelang


def run(code, *options):
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_imports_neither_numpy_nor_torch():
    assert (
        run("import tilelang, sys; print([m for m in ('numpy', 'torch', 'ml_dtypes') if m in sys.modules])")
        == "[]\n"
    )
    code = "import tilelang.language as T, sys; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    assert run(code) == "[]\n"


def test_an_import_loads_one_module_of_ours():
    """The rest comes where it is asked for."""
    code = "import sys; before = set(sys.modules); import tilelang; print(*(set(sys.modules) - before))"
    loaded = run(code).split()
    assert [name for name in loaded if name.startswith("tilelang")] == ["tilelang"]
    assert len(loaded) <= 12  # of the standard library


def test_names_of_the_package():
    import tilelang

    for name in tilelang.__all__:
        assert getattr(tilelang, name) is not None
    assert set(tilelang.__all__) <= set(dir(tilelang))
    for name in ("codegen", "no_such_thing"):
        assert not hasattr(tilelang, name)


def test_names_are_not_hidden_by_modules():
    for name in ("jit", "compile", "clear_cache", "Profiler"):
        code = "import tilelang.tools.command_line, tilelang.profiler, tilelang.cache\n"
        assert run(code + f"print(type(tilelang.{name}).__name__)") in ("function\n", "type\n")


def test_empty_folders_of_an_older_version_hide_nothing(tmp_path):
    """Git leaves folders with compiled files behind, which Python would take for packages."""
    package = tmp_path / "tilelang"
    shutil.copytree(Path(tilelang.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("testing", "layout", "carver/arch", "tvm", "cuda/intrinsics"):
        (package / name / "__pycache__").mkdir(parents=True)
    code = f"""import sys; sys.path.insert(0, {str(tmp_path)!r})
import tilelang.testing, tilelang.layout.swizzle
from tilelang import tvm
from tilelang.carver.arch import CUDA
from tilelang.cuda.intrinsics import TensorCoreIntrinEmitter
print(tilelang.__file__, tilelang.testing.regression, tilelang.layout.Layout)"""
    assert str(package) in run(code, "-S")  # where no installation is found first
