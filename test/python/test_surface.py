"""Published names that do not work here can be imported, have their signature, and say why when they are
called.
"""

import importlib
import inspect
from pathlib import Path

import pytest
import tilelang
import tilelang.language as T
from tilelang.language import surface

ABSENT = surface.table()[0]
REASONS = {entry.reason for entry in ABSENT.values()}


@pytest.mark.parametrize("path", [path for path, entry in ABSENT.items() if " = " not in entry.declared])
def test_a_name_that_does_not_work(path):
    module, _, name = path.rpartition(".")
    scope = {}
    source = f"from {module} import {name}\n\n\ndef use(**kwargs):\n    return {name}(**kwargs)\n"
    exec(compile(source, "user.py", "exec"), scope)
    found = scope[name]
    declared = ABSENT[path].declared
    assert inspect.isclass(found) == declared.startswith("class ") and found.__name__ == name
    parameters = inspect.signature(found).parameters.values()
    told = declared.partition("(")[2][:-1].split(", ")
    assert len(parameters) == len([p for p in told if p not in ("", "*")])
    needed = [p for p in parameters if p.default is p.empty and not p.kind.name.startswith("VAR")]
    with pytest.raises(tilelang.CompileError) as error:
        scope["use"](**{p.name: None for p in needed})
    assert str(error.value).startswith(f"user.py:5:12: error: {surface.short(path)} {ABSENT[path].reason}")
    assert not hasattr(T, name) or name not in T.__all__


def test_at_the_line_of_a_kernel(tmp_path):
    from helpers import FIRST_LINE, kernel

    with pytest.raises(tilelang.CompileError) as error:
        kernel(tmp_path, "x = 1\ndescriptor = T.create_tma_descriptor(x)")
    assert error.value.line == FIRST_LINE + 1
    assert error.value.text.startswith(
        "T.create_tma_descriptor needs descriptors of the tensor memory accelerator"
    )


def test_members():
    emitter = T.SparseTensorCoreIntrinEmitter
    assert str(inspect.signature(emitter)).startswith("(a_dtype='float16', e_dtype='uint8', ")
    assert inspect.signature(T.wgmma_gemm).parameters["policy"].default is T.GemmWarpPolicy.Square


def test_reasons_read_well():
    """Each continues `T.name`, tells what is needed, and what to write today if a later version has it."""
    for path, entry in ABSENT.items():
        verb = entry.reason.split()[0]
        assert verb in ("needs", "is", "belongs", "calls", "makes", "binds", "lays", "slices"), path
        assert entry.status == "closed" or "which this version does not have yet; " in entry.reason
    assert {entry.status for entry in ABSENT.values()} == {"later", "closed"}


def test_no_reason_denies_a_target():
    """That something is not among the targets is said of no chip, and of no vendor, that compile() takes."""
    vendors, chips = {"cuda": "NVIDIA", "hip": "AMD"}, tilelang._core.chips()
    there = {vendors[tilelang._core.target_info(f"sim:{chip}")["language"]] for chip in chips}
    dtypes = [T.dtype(name).why_not for name in ("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e3m4", "int2")]
    for reason in [*REASONS, *dtypes]:
        named = [word for word in (*chips, *there) if word in reason]
        assert not (named and "not among the targets" in reason), reason


@pytest.mark.parametrize("name", "sync_global __ldg __ffs __fns prefetch".split())
def test_a_name_of_cuda_is_listed(name):
    page = (Path(__file__).parents[2] / "docs" / "surface.md").read_text()
    what = "here" if name != "prefetch" else T.prefetch.missing.partition(" ")[2]
    assert f"\n| `T.{name}` | {what} |" in page


def test_a_name_in_a_file_of_its_folder():
    from tilelang.rocm.intrinsics.mfma_macro_generator import MatrixCorePreshuffleIntrinEmitter

    with pytest.raises(tilelang.CompileError, match="Emitter needs AMD's matrix instructions by hand"):
        MatrixCorePreshuffleIntrinEmitter()


@pytest.mark.parametrize(
    "path",
    """language.copy_op language.atomic language.builtin language.tir
    language.fp8 language.dtypes layout.swizzle layout.gemm_sp cuda.intrinsics.layout.utils
    cuda.intrinsics.sparse_layout cuda.intrinsics.macro.mma_macro_generator rocm.intrinsics.utils
    metal.intrinsics tileop.base analysis ir backend backend.target jit.param jit.exceptions
    utils.sparse tvm.testing""".split(),
)
def test_a_published_path(path):
    module = importlib.import_module(f"tilelang.{path}")
    parent, _, name = f"tilelang.{path}".rpartition(".")
    assert getattr(importlib.import_module(parent), name) is module
    for public in getattr(module, "__all__", ()):
        assert getattr(module, public) is not None


def test_modules_of_the_language_are_attributes():
    assert T.copy_op.copy is T.copy and T.builtin.exp is T.exp and T.tir.Add is T.Add
    assert T.fp8.determine_fp8_type("e5m2") == "float8_e5m2" == str(T.float8_e5m2)
    assert not hasattr(T, "no_such_module")


def test_fp8_types():
    torch = pytest.importorskip("torch")
    from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

    assert determine_fp8_type() == T.float8_e4m3fn and determine_torch_fp8_type("e5m2") is torch.float8_e5m2
    with pytest.raises(tilelang.CompileError, match="the format is 'e4m3' or 'e5m2', not 'e3m4'"):
        determine_fp8_type("e3m4")


def test_other_names_of_what_is_here():
    assert T.BaseTileScheduler is T.PersistentTileScheduler and T.Ptr is T.ptr is T.buffer_var
    assert issubclass(importlib.import_module("tilelang.jit.exceptions").JITNoBuilderError, Exception)
    import tvm.testing
    from tilelang.jit.param import Kernel
    from tvm import tirx

    assert issubclass(tilelang.JITKernel, Kernel) and tirx.Min is T.Min and tirx.exp is T.exp
    assert callable(tvm.testing.requires_package) and callable(tilelang.tvm.testing.requires_package)
    with pytest.raises(AttributeError, match="there is no TVM here"):
        _ = tirx.no_such_node
