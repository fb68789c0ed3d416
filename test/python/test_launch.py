"""The path of a call: doors of the array libraries, outputs, what is refused, threads and re-entry."""

import threading

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import _core
from tilelang._core import ArgumentError


def scaled(dtype="float32", n=16, blocks=1):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), s: T.float32 = 2.0):
        with T.Kernel(blocks, threads=32) as bx:
            for i in T.Parallel(n // blocks):
                B[bx * (n // blocks) + i] = T.cast(T.cast(A[bx * (n // blocks) + i], "float32") * s, dtype)

    return main


def dynamic():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32"), C: T.Tensor((M, 3), "float32")):
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(N):
                B[j, bx] = A[bx, j]
            for j in T.Parallel(3):
                C[bx, j] = 2.0

    return main


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


# ── results ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8", "uint8"])
def test_torch_and_numpy_agree(torch, target, dtype):
    kernel = tilelang.compile(scaled(dtype), out_idx=1, target=target)
    x = torch.arange(16).to(getattr(torch, dtype))
    for _ in range(2):  # what is learnt at the first call serves the second
        y = kernel(x)
        assert y.dtype == x.dtype and y.device == x.device and y.shape == x.shape
        assert (y.double() == x.double() * 2).all()
    a = np.arange(16).astype(getattr(T, dtype).as_numpy())
    for _ in range(2):
        b = kernel(a)
        assert type(b) is np.ndarray and b.dtype == a.dtype
        assert (b.astype(np.float64) == np.arange(16) * 2).all()


def test_shapes_of_outputs_come_from_the_inputs(torch, target):
    kernel = tilelang.compile(dynamic(), out_idx=[1, 2], target=target)
    for m, n in ((1, 1), (3, 5), (16, 2)):
        a = np.random.default_rng(0).standard_normal((m, n), np.float32)
        for array in (a, torch.from_numpy(a)):
            b, c = kernel(array)
            assert type(b) is type(array) and tuple(c.shape) == (m, 3)
            assert (np.asarray(b) == a.T).all() and (np.asarray(c) == 2).all()


def test_parameters_subclasses_and_views(torch):
    kernel = tilelang.compile(scaled(), out_idx=1, target="cpu")

    class Mine(torch.Tensor):
        pass

    base = torch.arange(40.0)
    for x in (torch.nn.Parameter(base[:16].clone()), base[:16].as_subclass(Mine), base[20:36]):
        assert (torch.as_tensor(kernel(x)) == x.detach() * 2).all()
    a = np.arange(40, dtype=np.float32)
    for x in (a[:16], a[20:36], a[:16].view(np.ndarray), np.ma.masked_array(a[:16]), memoryview(a[:16])):
        assert (kernel(x) == np.asarray(x) * 2).all()
    frozen = a[:16].copy()
    frozen.flags.writeable = False
    assert (kernel(frozen) == frozen * 2).all()


def test_arrays_of_numpy_that_mean_more_than_their_numbers(target):
    kernel = tilelang.compile(scaled(n=4), target=target)
    a, b = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    masked = np.ma.masked_array(a, mask=a > 2)
    for args in ((masked, b), (a, masked), (np.ma.masked_array(a, mask=True), b), (masked[1:], b)):
        with pytest.raises(
            ArgumentError, match=r"a masked array, but kernels do not see the mask: pass a.filled"
        ):
            kernel(*args)
    for whole in (np.ma.masked_array(a), np.ma.masked_array(a, mask=False), masked.filled(0), masked.data):
        kernel(whole, b)
        assert (b == np.asarray(whole) * 2).all()
    frozen = b.copy()
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        kernel(a, frozen)
    for strange in (a.astype("M8[s]"), a.astype("c8"), a.astype(object), a.view("V4"), a.astype(">f4")):
        with pytest.raises(ArgumentError):
            kernel(strange, b)


@tilelang.jit(target="cpu")
def doubled(A: T.Tensor):
    B = T.empty(A.shape, A.dtype)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(A.shape[0]):
            B[i] = A[i] * 2
    return B


def test_masked_arrays_of_eager_kernels():
    a = np.arange(4, dtype=np.float32)
    assert doubled(a)[3] == 6
    with pytest.raises(ArgumentError, match="a masked array"):
        doubled(np.ma.masked_array(a, mask=a > 2))


@pytest.mark.parametrize("way", ["lazy", "eager"])
def test_tensors_of_torch_that_mean_more_than_their_numbers(torch, way):
    kernel = doubled if way == "eager" else tilelang.compile(scaled(n=4), out_idx=1, target="cpu")
    x = torch.arange(4.0)
    assert kernel(x).tolist() == kernel(x.clone().requires_grad_()).tolist() == [0, 2, 4, 6]
    for strange, why in (
        (torch._neg_view(x), "resolve_neg"),
        (torch.complex(x, x).conj(), "complex64"),
        (x.to_sparse(), "to_dense"),
        (torch.nested.nested_tensor([x, x]), "nested tensor"),
        (torch.nested.nested_tensor([x, x], layout=torch.jagged), "nested tensor"),
        (torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), "int_repr"),
        (x.to("meta"), "no elements"),
        (torch._efficientzerotensor(4), "no memory"),
    ):
        with pytest.raises((TypeError, tilelang.CompileError), match=why):
            kernel(strange)
        assert kernel(x).tolist() == [0, 2, 4, 6]
    assert kernel(torch._neg_view(x).resolve_neg()).tolist() == [0, -2, -4, -6]


def test_strided_arrays_where_strides_are_asked_for(torch):
    M, N, s = T.dynamic("M, N, s")

    @T.prim_func
    def main(A: T.StridedTensor((M, N), (s, 1), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=32) as bx:
            for j in T.Parallel(N):
                B[bx, j] = A[bx, j]

    kernel = tilelang.compile(main, out_idx=1, target="cpu")
    a = np.arange(60, dtype=np.float32).reshape(6, 10)[:, 2:9]
    assert (kernel(a) == a).all()
    assert (kernel(torch.from_numpy(a)).numpy() == a).all()


# ── what is refused ───────────────────────────────────────────────────────────────────────────────────
def frozen(n=16):
    a = np.zeros(n, np.float32)
    a.flags.writeable = False
    return a


A16 = np.ones(16, np.float32)
REFUSED = {
    "a lambda": (lambda: (lambda: 1, A16), "'A' is a function; a tensor of type float32 was expected"),
    "text": (lambda: ("abc", A16), "argument 0 'A' is a str; a tensor"),
    "an object": (lambda: (object(), A16), "argument 0 'A' is a object; a tensor"),
    "None": (lambda: (None, A16), r"argument 0 'A' is None but float32\[16\] was expected"),
    "a number": (lambda: (1.5, A16), r"argument 0 'A' is the number 1.5 but float32\[16\]"),
    "read-only output": (lambda: (A16, frozen()), "argument 1 'B' is read-only, but the function writes"),
    "byte order": (lambda: (A16.astype(">f4"), A16.copy()), r"'A' is an array in foreign byte order \(>f4\)"),
    "complex": (lambda: (A16.astype(complex), A16.copy()), "'A' is an array of complex128; a tensor"),
    "strides": (lambda: (np.ones(32, np.float32)[::2], A16.copy()), r"strides \(2\) but \(1\) was expected"),
    "overlap": (lambda: (A16, A16), "argument 1 'B' is written, but shares memory with argument 0 'A'"),
    "dtype": (
        lambda: (A16.astype(np.float64), A16.copy()),
        r"'A' is float64\[16\] but float32\[16\] was expected; pass A.astype\(\"float32\"\), of a PyTorch",
    ),
    "dtype of an output": (
        lambda: (A16, A16.astype(np.float64)),
        r"'B' is float64\[16\] but float32\[16\] was expected; the kernel writes to it, so make the array",
    ),
    "kind": (lambda: (A16.view(np.int32), A16.copy()), r"'A' is int32\[16\] but float32\[16\] was expected"),
    "scalar": (lambda: (A16, A16.copy(), "x"), "'s' is a str; a number of type float32 was expected"),
    "fields": (lambda: (np.zeros(16, [("a", "f4")]), A16.copy()), "argument 0 'A' is an array of "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(target, case):
    make, message = REFUSED[case]
    kernel = tilelang.compile(scaled(), target=target)
    arguments = make()
    arguments += (2.0,) * (3 - len(arguments))
    for _ in range(2):
        with pytest.raises(_core.ArgumentError, match=message):
            kernel(*arguments)


def test_torch_tensors_that_are_refused(torch):
    kernel = tilelang.compile(scaled(), target="cpu")
    x, y = torch.ones(16), torch.zeros(16)
    with pytest.raises(_core.ArgumentError, match="argument 1 'B' is a tensor that requires grad.*no_grad"):
        kernel(x, y.clone().requires_grad_())
    leaf = y.clone().requires_grad_()
    with torch.no_grad():
        kernel(x.clone().requires_grad_(), leaf)
    assert (leaf == 2).all()
    kernel(x.requires_grad_(), y)  # reading is no affair of autograd's
    assert (y == 2).all()
    for odd in (torch.ones(16, device="meta"), torch.ones(16).to_sparse()):
        with pytest.raises(Exception):  # noqa: B017 — PyTorch's words
            kernel(odd, y)
    with pytest.raises(_core.ArgumentError, match=r"float32\[4, 4\] but float32\[16\]"):
        kernel(torch.ones(4, 4), y)


def test_count_and_names():
    kernel = tilelang.compile(scaled(), out_idx=1, target="cpu")
    assert (kernel(A16) == 2).all() and (kernel(A16, 3) == 3).all()
    assert (kernel(s=4, A=A16) == 4).all() and (kernel(A16, s=np.float32(0.5)) == 0.5).all()
    with pytest.raises(TypeError, match=r"it takes \(A: float32\[16\], s: float32\); B is returned"):
        kernel(A16, 1, 2)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 't'"):
        kernel(A16, t=1)
    with pytest.raises(_core.ArgumentError, match=r"3 arguments were expected \(A, B, s\) but 2 were given"):
        kernel.launch([A16, A16.copy()])
    with pytest.raises(TypeError, match="not initialised"):
        _core.Launcher.__new__(_core.Launcher)(A16)


def test_a_call_leaves_no_references_behind(torch):
    import sys

    kernel = tilelang.compile(scaled(), target="cpu")
    for x, y in ((A16.copy(), A16.copy()), (torch.ones(16), torch.ones(16))):
        kernel(x, y, 2.0)
        before = sys.getrefcount(x), sys.getrefcount(y)
        for _ in range(100):
            kernel(x, y, 2.0)
        with pytest.raises(TypeError):
            kernel(x, None, 2.0)
        assert (sys.getrefcount(x), sys.getrefcount(y)) == before


class Foreign:
    """Some library's array by DLPack capsules; `versioned` as new libraries do, with the read-only flag."""

    def __init__(self, array, versioned):
        self.array, self.versioned, self.calls = array, versioned, 0

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        self.calls += 1
        if not self.versioned and "max_version" in options:
            raise TypeError("max_version is not known")
        return self.array.__dlpack__(**options)


def test_capsules_old_and_new():
    kernel = tilelang.compile(scaled(), target="cpu")
    new = type("New", (Foreign,), {})
    old = type("Old", (Foreign,), {})
    for kind, versioned in ((new, True), (old, False)):
        x, y = kind(A16, versioned), kind(np.zeros(16, np.float32), versioned)
        kernel(x, y, 3.0)
        kernel(x, y, 3.0)
        assert (y.array == 3).all()
    assert (x.calls, y.calls) == (3, 2)  # asked for a version once
    kernel(new(frozen(), True), y, 3.0)
    with pytest.raises(_core.ArgumentError, match="'B' is read-only"):
        kernel(x, new(frozen(), True), 3.0)


# ── threads ───────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("target", ["cpu", "sim:sm_80"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_many_threads_at_once(target, blocks):
    kernel = tilelang.compile(scaled(n=64, blocks=blocks), out_idx=1, target=target)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            x = rng.standard_normal(64, np.float32)
            if not (kernel(x, float(seed)) == x * np.float32(seed)).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_grids_of_few_and_of_many_blocks_are_complete():
    for blocks in (1, 2, 3, 7, 64, 500):
        kernel = tilelang.compile(scaled(n=blocks * 4, blocks=blocks), out_idx=1, target="cpu")
        x = np.random.default_rng(1).standard_normal(blocks * 4, np.float32)
        for _ in range(5):  # with the pool first, then, where it is quick, without
            assert (kernel(x) == x * 2).all()


def test_a_subclass_keeps_the_quick_call():
    kernel = tilelang.compile(scaled(), out_idx=1, target="cpu")
    assert isinstance(kernel, _core.Launcher)
    assert type(kernel).__call__ is _core.Launcher.__call__
    kernel.note = "attributes are free"
    assert kernel.note
