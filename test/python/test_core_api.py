"""The binding: it is what `_core.pyi` says, converts what Python hands over, and names what is wrong."""

import ast
import ctypes
import inspect
import re
from pathlib import Path

import numpy as np
import pytest
from tilelang import _core
from tilelang.front.dtypes import as_dtype

PYI = Path(_core.__file__).with_name("_core.pyi")
if not PYI.exists():
    PYI = Path(__file__).resolve().parents[2] / "python" / "tilelang" / "_core.pyi"
F32, F16, BF16, I32, I64 = (as_dtype(n) for n in ("f32", "f16", "bf16", "i32", "i64"))


# ── the stub ──────────────────────────────────────────────────────────────────────────────────────────


def parameters(signature):
    """The names of the parameters in `def f(self, a: int = 1) -> …`, and which may be left out."""
    tree = ast.parse(re.sub(r"->.*$", "", signature, flags=re.S).rstrip().rstrip(":") + ": ...").body[0].args
    names = [a.arg for a in tree.args]
    return names, len(tree.defaults)


def bound_parameters(function):
    """The same of a bound function, from the signature that nanobind writes first into its docstring."""
    line = function.__doc__.splitlines()[0]
    names, depth, current = [], 0, ""
    end = line.rindex(")", 0, line.rindex(" ->") if " ->" in line else len(line))
    for c in line[line.index("(") + 1 : end] + ",":
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            names.append(current.strip())
            current = ""
        else:
            current += c
    names = [n for n in names if n and n not in "/*"]
    return [re.split(r"[:=]", n)[0].strip() for n in names], sum("=" in n for n in names)


def public(names):
    return {n for n in names if not n.startswith("_")}


def stub():
    return ast.parse(PYI.read_text()).body


def test_module_has_the_names_of_the_stub():
    wanted = {n.name for n in stub() if isinstance(n, (ast.ClassDef, ast.FunctionDef))}
    wanted |= {n.target.id for n in stub() if isinstance(n, ast.AnnAssign) and n.target.id != "_Dim"}
    assert public(vars(_core)) == wanted


@pytest.mark.parametrize("node", [n for n in stub() if isinstance(n, ast.ClassDef)], ids=lambda n: n.name)
def test_class_is_what_the_stub_says(node):
    cls = getattr(_core, node.name)
    if issubclass(cls, Exception):
        assert [b.id for b in node.bases] == [b.__name__ for b in cls.__bases__]
        return
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    fields = {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
    assert fields | public(methods) <= public(vars(cls))
    # The front adds Python functions and properties of its own; what is bound comes from nanobind.
    bound = {n for n, v in vars(cls).items() if type(getattr(v, "fget", v)).__name__.startswith("nb_")}
    assert public(bound) <= fields | public(methods)
    for name, method in methods.items():
        if name.startswith("__") or inspect.isfunction(vars(cls).get(name)):
            continue
        text = ast.unparse(method).splitlines()[0]
        assert bound_parameters(getattr(cls, name)) == parameters(text), name


@pytest.mark.parametrize("node", [n for n in stub() if isinstance(n, ast.FunctionDef)], ids=lambda n: n.name)
def test_function_is_what_the_stub_says(node):
    assert bound_parameters(getattr(_core, node.name)) == parameters(ast.unparse(node).splitlines()[0])


# ── building ──────────────────────────────────────────────────────────────────────────────────────────


def axpy(n=40, dtype=F32, block=8, scalar=F32):
    """Y[i] = X[i] * s + Y[i]"""
    b = _core.Builder("axpy")
    x, y = b.tensor("X", (n,), dtype), b.tensor("Y", (n,), dtype)
    s = b.scalar("s", scalar)
    (bx,) = b.begin_kernel([-(-n // block) if isinstance(n, int) else n], None, {})
    (i,) = b.begin_for("parallel", ["i"], [0], [block], [1], {})
    at = [b.binary("add", b.binary("mul", bx, block), i)]
    b.store(y, at, b.binary("add", b.binary("mul", b.load(x, at), s), b.load(y, at)))
    b.end_for()
    b.end_kernel()
    return b.finish()


def test_values_know_what_they_are():
    b = _core.Builder("f")
    n = b.scalar("n", I32)
    assert n.dtype == I32 and n.dtype != I64 and not n.is_const and str(n) == "n"
    with pytest.raises(TypeError, match="known only when the kernel runs"):
        n.value  # noqa: B018
    two = b.const(2, I32)
    assert two.is_const and two.value == 2 and type(two.value) is int
    assert b.const(True, as_dtype("bool")).value is True
    assert b.const(1.5, F16).value == 1.5
    assert b.const(2**64 - 1, as_dtype("u64")).value == 2**64 - 1
    assert b.binary("add", two, 3).value == 5
    assert b.binary("mul", n, 0.5).dtype == F32
    assert b.select(b.binary("lt", n, 3), n, 0).dtype == I32
    assert b.call("exp", [b.scalar("x", F16)]).dtype == F16
    assert b.cast(I64, np.int32(7)).value == 7
    assert b.const(np.float32(0.25), F32).value == 0.25


def test_dtypes():
    assert (BF16.name, BF16.bits, BF16.bytes, BF16.is_float, BF16.is_int) == ("bf16", 16, 2, True, False)
    assert as_dtype("u8").is_int and not as_dtype("bool").is_int
    assert len({as_dtype("f32"), as_dtype("f32"), F16}) == 2
    with pytest.raises(_core.CompileError, match="unknown dtype 'f33'"):
        as_dtype("f33")


def test_buffers():
    b = _core.Builder("f")
    m = b.dynamic("m")
    a = b.tensor("A", [m, 8], F32)
    assert (a.name, a.scope, a.dtype, a.shape[1]) == ("A", "global", F32, 8)
    assert str(a.shape[0]) == "m"
    b.begin_kernel([m], [64], {}, ["block"])
    scopes = {s: b.alloc("t", s, [4, 4], F32, {}) for s in ("shared", "fragment", "local")}
    scopes["var"] = b.alloc("t", "var", (), F32, {})
    assert all(buffer.scope == s for s, buffer in scopes.items())
    assert scopes["var"].shape == ()
    assert len({buffer.id for buffer in scopes.values()}) == 4
    assert _core.Region(a, [0, 0], [4, None], [False, False]).buffer.id == a.id
    b.end_kernel()
    f = b.finish()
    assert "block" in f.text()
    assert f.params == [{"name": "A", "is_tensor": True, "dtype": F32, "shape": ("m", 8)}]


def test_compile_error_has_its_place(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("first\n    A[0, 0, 0]\n")
    b = _core.Builder("f")
    a = b.tensor("A", [8, 8], F32)
    b.begin_kernel([1], None, {})
    b.at(str(file), 2, 5, 2, 15)
    with pytest.raises(_core.CompileError) as caught:
        b.load(a, [0, 0, 0])
    e = caught.value
    assert (e.file, e.line, e.column) == (str(file), 2, 5)
    assert e.text == "A: float32[8, 8] has 2 dimensions, but 3 indices were given"
    assert str(e) == f"{file}:2:5: error: {e.text}\n      A[0, 0, 0]\n      ^~~~~~~~~~"


@pytest.mark.parametrize(
    "value, said",
    [("x", "not str"), (2**70, "does not fit in 64 bits"), ([1], "not list")],
)
def test_what_is_no_value(value, said):
    b = _core.Builder("f")
    with pytest.raises(TypeError, match=said):
        b.binary("add", value, 1)


def test_attributes():
    b = _core.Builder("f")
    a = b.tensor("A", [8], F32)
    b.begin_kernel([1], None, {})
    with pytest.raises(_core.CompileError, match="no option `disable_tme`; did you mean `disable_tma`"):
        b.tile("copy", [a, a], {"disable_tme": True})
    with pytest.raises(TypeError, match="order must be a list of integers, not str"):
        b.begin_for("pipelined", ["i"], [0], [4], [1], {"order": ["a"]})
    b.annotate("note", [1, 2])
    b.end_kernel()
    assert "note" in b.finish().text()


def test_tile_ops_are_listed():
    rows = {row["name"]: row for row in _core.tile_ops()}
    assert rows["gemm"]["operands"] == [("A", "read"), ("B", "read"), ("C", "update")]
    assert ("trans_a", "flag") in rows["gemm"]["attrs"]
    assert rows["fill"]["operands"][1] == ("value", "value")
    assert all(row["doc"] for row in rows.values())


def test_text_is_read_back():
    f = axpy()
    assert _core.parse(f.text()).text() == f.text()
    with pytest.raises(_core.CompileError) as caught:
        _core.parse("kernel nonsense", "bad.ir")
    assert caught.value.file == "bad.ir" and caught.value.line == 1


# ── calling ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["reference", "cpu", "sim:sm_80"])
def target(request):
    return request.param


def compiled(function, target):
    return _core.compile(function, target, {"cache": False})


def test_numbers_come_out_right(target):
    k = compiled(axpy(), target)
    assert k.device_type == "cpu" and k.target.split()[0] == target
    x, y = np.arange(40, dtype=np.float32), np.ones(40, np.float32)
    for s in (2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.array(2.0)):
        y[:] = 1
        k.launch([x, y, s], 0)
        assert (y == 2 * x + 1).all()


def test_bfloat16(target):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    k = compiled(axpy(dtype=BF16), target)
    x = np.arange(40).astype(ml_dtypes.bfloat16)
    y = np.zeros(40, ml_dtypes.bfloat16)
    k.launch((x, y, 3), 0)
    assert (y.astype(np.float32) == (3 * np.arange(40)).astype(ml_dtypes.bfloat16).astype(np.float32)).all()


class Foreign:
    """Some library's array, known by DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack(target):
    k = compiled(axpy(), target)
    x, y = np.ones(40, np.float32), np.zeros(40, np.float32)
    k.launch([Foreign(x), Foreign(y), 1.5], 0)
    assert (y == 1.5).all()


class DlTensor(ctypes.Structure):
    """The struct of dlpack.h."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Quick:
    """An array whose type offers DLPack's C table, as PyTorch's does; it lends, and counts how often."""

    lent = 0

    def __init__(self, array):
        self.array = array
        self.shape = (ctypes.c_int64 * 1)(array.size - 2)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
    def borrow(self, out):
        Quick.lent += 1
        out[0] = DlTensor(self.array.ctypes.data, 1, 0, 1, 2, 32, 1, self.shape, None, 8)
        return 0

    borrow_address = ctypes.cast(borrow, ctypes.c_void_p).value
    table = (ctypes.c_void_p * 7)(1 | 3 << 32, None, None, None, None, borrow_address)
    ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
    ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"dlpack_exchange_api"
    __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(table), name, None)


def test_the_c_table_of_dlpack(target):
    k = compiled(axpy(), target)
    x, y = np.ones(42, np.float32), np.zeros(42, np.float32)
    before = Quick.lent
    k.launch([Quick(x), Quick(y), 1.5], 0)
    assert (y[2:] == 1.5).all() and (y[:2] == 0).all()
    assert Quick.lent == before + 2


class Elsewhere(Quick):
    """A tensor on a GPU that no machine has: calls are checked, variants made, nothing runs."""

    def __init__(self, shape, address, bits=16):
        self.array, self.shape, self.address = None, (ctypes.c_int64 * len(shape))(*shape), address
        self.bits = bits

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DlTensor))
    def borrow(self, out):
        out[0] = DlTensor(self.address, 2, 99, len(self.shape), 2, self.bits, 1, self.shape, None, 0)
        return 0

    borrow_address = ctypes.cast(borrow, ctypes.c_void_p).value
    table = (ctypes.c_void_p * 7)(1 | 3 << 32, None, None, None, None, borrow_address)
    __dlpack_c_exchange_api__ = ctypes.pythonapi.PyCapsule_New(ctypes.addressof(table), Quick.name, None)


def copy_rows():
    b = _core.Builder("copy_rows")
    m, n = b.dynamic("m"), b.dynamic("n")
    x, y = b.tensor("X", [m, n], F16), b.tensor("Y", [m, n], F16)
    (bx,) = b.begin_kernel([b.binary("floordiv", b.binary("add", m, 15), 16)], [32], {})
    s = b.alloc("S", "shared", [16, 64], F16, {})
    start = [b.binary("mul", bx, 16), 0]
    b.tile("copy", [_core.Region(x, start, [16, 64], [False, False]), s], {})
    b.tile("copy", [s, _core.Region(y, start, [16, 64], [False, False])], {})
    b.end_kernel()
    return b.finish()


def test_a_call_that_breaks_an_assumption_makes_a_variant():
    try:
        k = _core.compile(copy_rows(), "cuda -arch=sm_80", {"cache": False})
    except RuntimeError as e:
        assert "nvrtc" in str(e)
        pytest.skip("NVRTC is not installed")

    def variants_after(shape, address):
        with pytest.raises(RuntimeError):  # there is no such GPU
            k.launch([Elsewhere(shape, address), Elsewhere(shape, address + 2**20)], 0)
        return [i["text"] for i in k.report.notes if i["subject"] == "generic variant"]

    assert "tl_store(&Y" in k.source  # several elements at once, which takes both assumptions
    assert variants_after((64, 64), 0x10000) == []
    with pytest.raises(_core.ArgumentError):
        k.launch([Elsewhere((64, 61), 0x10002), 3], 0)
    assert variants_after((64, 64), 0x10000) == []
    reason = "an address is divisible by 4 bytes only, not 16"
    made = [f"for all other calls; made for one where {reason}; has run"]
    assert variants_after((64, 64), 0x10004) == made
    assert variants_after((64, 64), 0x20002) == made
    assert variants_after((64, 60), 0x10000) == made


def test_torch(target):
    torch = pytest.importorskip("torch")
    k = compiled(axpy(), target)
    x, y = torch.ones(40), torch.zeros(40)
    k.launch([x, y, 1.5], 0)
    assert (y == 1.5).all()


GOOD = (np.ones(40, np.float32), np.zeros(40, np.float32), 1.0)
READONLY = np.zeros(40, np.float32)
READONLY.flags.writeable = False


@pytest.mark.parametrize(
    "place, value, said",
    [
        (1, None, "'Y' is None"),
        (1, 3, "'Y' is the number 3 but float32"),
        (1, "abc", "'Y' is a str; a tensor of type float32 was expected"),
        (1, np.zeros(40), r"'Y' is float64\[40\] but float32\[40\] was expected"),
        (1, np.zeros(41, np.float32), r"'Y' is float32\[41\] but float32\[40\]"),
        (1, np.zeros((40, 1), np.float32), "'Y'"),
        (1, np.zeros(80, np.float32)[::2], "'Y'"),
        (1, READONLY, "'Y'"),
        (1, GOOD[0], "shares memory"),
        (1, np.zeros(40, complex), "'Y' is an array of"),
        (1, np.zeros(40, "S4"), "'Y' is an array of"),
        (2, GOOD[0], "'s'"),
        (2, None, "'s'"),
        (2, "abc", "'s' is a str; a number of type float32 was expected"),
        (2, 2**70, "does not fit in 64 bits"),
    ],
    ids=lambda v: None if isinstance(v, np.ndarray) else str(v)[:20],
)
def test_arguments_that_do_not_fit(target, place, value, said):
    k = compiled(axpy(), target)
    args = list(GOOD)
    args[place] = value
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        k.launch(args, 0)
    assert isinstance(caught.value, _core.ArgumentError)
    assert "axpy: argument" in str(caught.value)


def test_the_number_of_arguments(target):
    k = compiled(axpy(), target)
    with pytest.raises(TypeError, match=r"3 arguments were expected \(X, Y, s\) but 2 were given"):
        k.launch(GOOD[:2], 0)
    with pytest.raises(TypeError, match="but 4 were given"):
        k.launch([*GOOD, 1], 0)


def test_unaligned_arrays(target):
    k = compiled(axpy(), target)
    memory = np.zeros(164, np.uint8)
    y = memory[4:].view(np.float32)
    assert y.ctypes.data % 16 != 0 or memory[8:].ctypes.data % 16 != 0
    k.launch([GOOD[0], y, 2.0], 0)
    assert (y == 2).all()


def test_shapes_of_outputs(target):
    b = _core.Builder("f")
    m = b.dynamic("m")
    x, y = b.tensor("X", [m, 4], F32), b.tensor("Y", [4, m], F32)
    (bx,) = b.begin_kernel([m], None, {})
    (i,) = b.begin_for("parallel", ["i"], [0], [4], [1], {})
    b.store(y, [i, bx], b.load(x, [bx, i]))
    b.end_for()
    b.end_kernel()
    k = compiled(b.finish(), target)
    a = np.arange(28, dtype=np.float32).reshape(7, 4)
    (b,) = _core.Launcher(k, [1]).allocate_outputs([a])
    assert b.shape == (4, 7)
    out = np.empty((4, 7), np.float32)
    k.launch([a, out], 0)
    assert (out == a.T).all()


def test_empty_tensors(target):
    k = compiled(axpy(n=0), target)
    k.launch([np.zeros(0, np.float32), np.zeros(0, np.float32), 1.0], 0)


def test_the_report(target):
    k = compiled(axpy(), target)
    text = k.report.text()
    assert text.startswith(f"axpy for {k.target}, compiled in")
    assert [b["name"] for b in k.report.buffers][:2] == ([] if target == "reference" else ["X", "Y"])
    assert all(ms >= 0 for ms in k.phases.values())
    if target == "cpu":
        assert "define" in k.source and k.phases


def test_the_disk_cache(tmp_path):
    options = {"cache": True, "cache_dir": str(tmp_path)}
    first = _core.compile(axpy(), "cpu", options)
    second = _core.compile(axpy(), "cpu", options)
    other = _core.compile(axpy(n=41), "cpu", options)
    assert (first.from_cache, second.from_cache, other.from_cache) == (False, True, False)
    assert second.source == first.source
    assert second.report.kernels == first.report.kernels and first.report.toolchain == second.report.toolchain
    assert second.report.accesses == first.report.accesses != []
    assert "from the disk cache" in second.report.text()
    x, y = np.ones(40, np.float32), np.ones(40, np.float32)
    second.launch([x, y, 4.0], 0)
    assert (y == 5).all()


def test_dumps(tmp_path):
    _core.compile(axpy(), "cpu", {"cache": False, "dump_dir": str(tmp_path)})
    names = sorted(p.name for p in (tmp_path / "axpy").iterdir())
    assert names[0] == "00.tile.ir" and "kernel.ll" in names and any("lower_tile_ops" in n for n in names)
    _core.parse((tmp_path / "axpy" / "00.tile.ir").read_text())


def test_options_that_are_not_known():
    with pytest.raises(_core.CompileError, match="no option `cash`; did you mean `cache`"):
        _core.compile(axpy(), "cpu", {"cash": True})


def test_targets():
    assert _core.resolve_target("reference") == "reference"
    assert re.fullmatch(r"cpu -mcpu=\S+", _core.resolve_target("cpu"))
    assert _core.resolve_target("llvm") == _core.resolve_target("cpu")
    assert _core.resolve_target("auto").split()[0] in ("cpu", "cuda")
    for wrong in ("metal", "cuda -arch=none", "cpu -march=haswell", ""):
        with pytest.raises(_core.CompileError, match="target"):
            _core.resolve_target(wrong)
