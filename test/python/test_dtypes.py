"""dtypes of 4 and 8 bits, tf32: their values against ml_dtypes, in every executor; gemm on them."""

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import kernel

FLOATS = {"float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
          "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu, "float4_e2m1fn": ml_dtypes.float4_e2m1fn}  # fmt: skip
TARGETS = ["cpu", "cpu -mcpu=haswell", "reference", "sim:sm_80", "sim:sm_89"]
CUDA = ["cuda -arch=sm_80", "cuda -arch=sm_90"]


def stored(dtype, codes):
    """An array of these codes, as a kernel takes it: of 4 bits two to a byte, the even one low."""
    codes = np.asarray(codes, np.uint8)
    if T.dtypes.as_dtype(dtype).bits == 4:
        return codes[..., 0::2] | codes[..., 1::2] << 4
    return codes.view(FLOATS[dtype])


def codes_of(array, dtype):
    array = array.view(np.uint8)
    if T.dtypes.as_dtype(dtype).bits == 4:
        return np.stack([array & 15, array >> 4], -1).reshape(*array.shape[:-1], -1)
    return array


def convert(n, source, dest, **how):
    @T.prim_func
    def main(A: T.Tensor((n,), source), B: T.Tensor((n,), dest)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(n):
                B[i] = T.cast(A[i], dest, **how)

    return main


def compiled_for_cuda(kernel):
    for target in CUDA:
        assert "__global__" in tilelang.compile(kernel, target=target).get_kernel_source()


def same_floats(ours, theirs):
    nans = np.isnan(theirs)
    return np.array_equal(np.isnan(ours), nans) and np.array_equal(
        ours[~nans].view(np.uint32), theirs[~nans].view(np.uint32)
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_value(dtype):
    bits = T.dtypes.as_dtype(dtype).bits
    codes = (np.arange(256) % 2**bits).astype(np.uint8)
    expected = codes.view(FLOATS[dtype]).astype(np.float32)
    kernel = convert(256, dtype, "float32")
    for target in TARGETS:
        got = np.full(256, 77, np.float32)
        tilelang.compile(kernel, target=target)(stored(dtype, codes), got)
        assert same_floats(got, expected), target
    compiled_for_cuda(kernel)


def hard_numbers(dtype):
    """Each value and each middle between two, float32 neighbours, overflow, tiny and random numbers."""
    bits = T.dtypes.as_dtype(dtype).bits
    values = np.arange(2**bits, dtype=np.uint8).view(FLOATS[dtype]).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    beyond = values[-1] + (values[-1] - values[-2]) * np.array([0.25, 0.5, 0.75, 1, 8])
    rng = np.random.default_rng(0)
    exact = np.concatenate([values, middles, beyond, -beyond, [0.0, -0.0]]).astype(np.float32)
    spread = np.ldexp(rng.standard_normal(4000), rng.integers(-140, 120, 4000)).astype(np.float32)
    near = (rng.standard_normal(4000) * np.abs(values[np.isfinite(values)]).max() / 8).astype(np.float32)
    all_of = np.concatenate(
        [
            exact,
            np.nextafter(exact, np.float32(np.inf)),
            np.nextafter(exact, np.float32(-np.inf)),
            spread,
            near,
            np.array([np.inf, -np.inf, np.nan, 1e-45], np.float32),
        ]
    )
    return np.concatenate([all_of, np.zeros(-len(all_of) % 256, np.float32)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding(dtype):
    x = hard_numbers(dtype)
    with np.errstate(all="ignore"):
        exact = x.astype(np.float64).astype(FLOATS[dtype])
    for sat in (True, False):
        expected = exact.view(np.uint8).copy()
        values = exact.astype(np.float32)
        if sat and dtype == "float8_e8m0fnu":
            expected[x == 0] = 0
        if dtype == "float8_e8m0fnu":  # ml_dtypes rounds these up, though 2^-127 is nearer
            expected[(x > 2.0**-127) & (x < 1.5 * 2.0**-127)] = 0
        if sat and dtype == "float8_e8m0fnu":
            expected[x >= 1.5 * 2.0**127] = 254
        elif sat:
            top = {"float8_e4m3fn": 0x7E, "float8_e5m2": 0x7B, "float4_e2m1fn": 7}[dtype]
            over = ~np.isfinite(values) & ~np.isnan(x)
            expected[over] = top | np.where(x[over] < 0, 0x80 if dtype != "float4_e2m1fn" else 8, 0)
        nan = np.isnan(x)
        kernel = convert(len(x), "float32", dtype, sat=sat)
        for target in TARGETS:
            got = stored(dtype, np.full(len(x), 5, np.uint8))
            tilelang.compile(kernel, target=target)(x, got)
            got = codes_of(got, dtype)
            if dtype == "float4_e2m1fn":
                assert (got[nan] == 7).all()
            else:
                assert np.isnan(got[nan].view(FLOATS[dtype]).astype(np.float32)).all()
                finite_nan = np.isnan(expected.view(FLOATS[dtype]).astype(np.float32))
                assert np.isnan(got[finite_nan].view(FLOATS[dtype]).astype(np.float32)).all(), (target, sat)
                nan = nan | finite_nan
            wrong = np.flatnonzero((got != expected) & ~nan)
            assert len(wrong) == 0, (target, sat, x[wrong[:5]], got[wrong[:5]], expected[wrong[:5]])
        compiled_for_cuda(kernel)


@pytest.mark.parametrize("mode", ["rz", "rm", "rp", "rn", "rna"])
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float16", "bfloat16",
                                   "tfloat32"])  # fmt: skip
def test_directed(dtype, mode):
    """Against the neighbours that a search among all values finds."""
    d = T.dtypes.as_dtype(dtype)
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(1000) * 2, [0.0, 1.0, -1.0, 0.3, 5.5]]).astype(np.float32)
    x = np.concatenate([x, np.zeros(-len(x) % 128, np.float32)])
    if dtype == "tfloat32":
        step = np.ldexp(1.0, np.frexp(np.where(x == 0, 1, x))[1] - 11)
        low, high = np.floor(x / step) * step, np.ceil(x / step) * step
    else:
        kind = FLOATS.get(dtype) or d.as_numpy().type
        codes = np.arange(2**d.bits, dtype=np.uint16 if d.bits == 16 else np.uint8)
        values = codes.view(kind).astype(np.float64)
        values = np.unique(values[np.isfinite(values)])
        high = values[np.searchsorted(values, x, "left").clip(0, len(values) - 1)]
        low = values[(np.searchsorted(values, x, "right") - 1).clip(0)]
    x64 = x.astype(np.float64)
    nearest = np.where(x64 - low < high - x64, low, high)  # ties are not among these
    ties = (x64 - low == high - x64) & (low != high)
    expected = {"rz": np.where(x < 0, high, low), "rm": low, "rp": high, "rn": nearest, "rna": nearest}[mode]
    kernel = convert(len(x), "float32", dtype, round=mode)
    for target in TARGETS:
        got = stored(dtype, np.zeros(len(x), np.uint8)) if dtype in FLOATS else np.zeros(len(x), d.as_numpy())
        tilelang.compile(kernel, target=target)(x, got)
        values = (
            got.astype(np.float64)
            if dtype not in FLOATS
            else codes_of(got, dtype).astype(np.uint8).view(FLOATS[dtype]).astype(np.float64)
        )
        keep = ~ties if mode in ("rn", "rna") else slice(None)
        assert np.array_equal(values[keep], expected[keep]), target
    compiled_for_cuda(kernel)


@pytest.mark.parametrize("dtype, bits", [("float8_e4m3fn", 3), ("float16", 10), ("bfloat16", 7)])
def test_from_float64_rounds_once(dtype, bits):
    """Around 1 the type counts by `step`, around 16 by 16 of them; float32 would lose what decides."""
    step = 2.0**-bits
    x = np.array([1 + step / 2 + 2.0**-40, 1 + step / 2 - 2.0**-40, 1 + step / 2, 16 + 8 * step + 1e-9] * 32)
    expected = np.array([1 + step, 1.0, 1.0, 16 + 16 * step] * 32)
    kernel = convert(len(x), "float64", dtype)
    for target in TARGETS:
        got = np.zeros(len(x), getattr(ml_dtypes, dtype, dtype))
        tilelang.compile(kernel, target=target)(x, got)
        assert np.array_equal(got.astype(np.float64), expected), target


@pytest.mark.parametrize("dtype,low", [("int4", -8), ("uint4", 0)])
def test_four_bits(dtype, low):
    M, N = 20, 64

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), "int32"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 16), threads=64) as (bx, by):
            S = T.alloc_shared((16, 32), dtype)
            F = T.alloc_fragment((16, 32), dtype)
            T.copy(A[by * 16, bx * 32], S)
            T.copy(S, F)
            for i, j in T.Parallel(16, 32):
                B[by * 16 + i, bx * 32 + j] = F[i, j] * 3
            T.copy(F, C[by * 16, bx * 32])

    rng = np.random.default_rng(0)
    numbers = rng.integers(low, low + 16, (M, N))
    a = stored(dtype, (numbers & 15).astype(np.uint8))
    for target in TARGETS:
        b, c = np.full((M, N), -99, np.int32), np.full((M, N // 2), 0x55, np.uint8)
        tilelang.compile(main, target=target)(a if dtype == "uint4" else a.view(np.int8), b, c)
        assert np.array_equal(b, numbers * 3), target
        assert np.array_equal(c, a), target
    compiled_for_cuda(main)


@pytest.mark.parametrize("body", [
    "B[bx, 63 - tx] = 5",  # two threads to a byte
    "B[bx, A[0] % 64] = 5",  # all threads, and none knows where
    "B[tx % 2, 3 * (tx // 2)] = 5",
    "if tx == 0:\n    T.view(B, (128,), 'int4')[bx] = 5",  # two blocks to a byte
    "S[tx] = 5\nT.copy(S, B[bx, 0:64])",
    "for i in T.serial(3):\n    B[bx, 2 * tx + i] = 5",
])  # fmt: skip
def test_single_nibbles_that_threads_may_share_are_refused(tmp_path, body):
    before = "tx = T.get_thread_binding()\nS = T.alloc_shared((64,), 'int4')\n"
    signature = "A: T.Tensor((64,), 'int32'), B: T.Tensor((2, 64), 'int4')"
    program = kernel(tmp_path, before + body, signature, launch="T.Kernel(2, threads=64)")
    with pytest.raises(tilelang.CompileError, match="two threads could write one byte"):
        tilelang.compile(program, target="cuda -arch=sm_80")


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_90a"])
def test_single_nibbles_of_one_owner(target, dtype):
    """What a thread has for itself it stores one by one, beside what stands in the other half of a byte."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((2, 64), dtype), C: T.Tensor((2, 8, 6), dtype)):
        with T.Kernel(2, threads=8) as bx:
            tx = T.get_thread_binding()
            S = T.alloc_shared((8, 8), dtype)
            if tx == 0:
                for i in T.serial(9):
                    B[bx, 7 * i] = T.cast(A[i], dtype)
            for i in T.serial(8):
                S[tx, 7 - i] = T.cast(A[8 * tx + i], dtype)
            for i in T.serial(5):
                if i % 2 == bx:
                    C[bx, tx, i] = T.cast(S[tx, i], dtype)

    codes = np.random.default_rng(0).integers(0, 4, 64).astype("i4")
    given = [np.random.default_rng(1).integers(0, 256, n).astype("u1") for n in ((2, 32), (2, 8, 3))]
    b, c = ([x & 15, x >> 4] for x in given)
    b, c = np.stack(b, -1).reshape(2, 64), np.stack(c, -1).reshape(2, 8, 6)
    as_code = codes if "int" in dtype else np.array([0, 2, 4, 5])[codes]  # of 0, 1, 2, 3
    b[:, 0:57:7] = as_code[:9]
    for bx in range(2):
        c[bx, :, bx:5:2] = as_code.reshape(8, 8)[:, ::-1][:, bx:5:2]
    tilelang.compile(main, target=target)(codes, *(x.view("i1" if dtype == "int4" else "u1") for x in given))
    for wanted, got in zip((b, c), given, strict=True):
        assert (np.stack([got & 15, got >> 4], -1).reshape(wanted.shape) == wanted).all()
    compiled_for_cuda(main)


def test_single_nibbles_on_one_thread_per_block(target="cpu"):
    @T.prim_func
    def main(A: T.Tensor((4, 6), "int32"), B: T.Tensor((4, 6), "uint4")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.serial(5):
                B[bx, i] = T.cast(A[bx, i], "uint4")

    a, b = np.arange(24, dtype="i4").reshape(4, 6) % 16, np.full((4, 3), 0xF0, "u1")
    tilelang.compile(main, target=target)(a, b)
    assert (b == [[r[0] | r[1] << 4, r[2] | r[3] << 4, r[4] | 0xF0] for r in a]).all()


def test_odd_rows_of_nibbles_are_refused():
    with pytest.raises(tilelang.CompileError, match="must be an even constant, not 7; give the rows an even"):

        @T.prim_func
        def main(A: T.Tensor((4, 7), "int4"), B: T.Tensor((4, 7), "int32")):
            with T.Kernel(1):
                for i, j in T.Parallel(4, 7):
                    B[i, j] = T.cast(A[i, j], "int32")

        tilelang.compile(main, target="cpu")


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80"])
@pytest.mark.parametrize("strides, said", [
    ((9, 1), "but the stride of dimension 0 is 9; give the rows an even distance"),
    ((16, 2), "but the stride of dimension 1 is 2"), ((T.dynamic("s"), 1), "dimension 0 is s"),
])  # fmt: skip
def test_rows_of_nibbles_begin_at_a_byte(target, strides, said):
    @T.prim_func
    def main(A: T.StridedTensor((4, 8), strides, "int4"), B: T.Tensor((4, 8), "int32")):
        with T.Kernel(1):
            for i, j in T.Parallel(4, 8):
                B[i, j] = T.cast(A[i, j], "int32")

    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(main, target=target)(np.zeros((4, 8), "i1")[:, :4], np.zeros((4, 8), "i4"))
    assert "A has packed type int4 (two elements per byte): its strides must be even constants" in str(
        caught.value
    )
    assert said in str(caught.value) and caught.value.file == __file__


def test_constants_of_tensors_of_nibbles(target):
    """What is passed has half as many bytes as the rows have elements."""

    @tilelang.jit(target=target)
    def scaled(A, X):
        M, K, S = T.const("M, K, S")
        A: T.StridedTensor((M, K), (S, 1), "int4")
        X: T.Tensor((M, K), "float32")
        B = T.empty((M, K), "int4")
        with T.Kernel(M, threads=32) as m:
            for k in T.Parallel(K):
                B[m, k] = T.cast(T.cast(A[m, k], "float32") * X[m, k], "int4")
        return B

    a = np.arange(32, dtype="u1").reshape(4, 8)[:, :4] * 5
    assert np.array_equal(scaled(a.view("i1"), np.ones((4, 8), "f4")).view("u1"), a)
    with pytest.raises(tilelang.CompileError) as caught:
        scaled(a.view("i1"), np.ones((4, 4), "f4"))
    assert "K cannot be both: it is 8 by extent 1 of A (shape (4, 4), two elements to a byte), but 4" in str(
        caught.value
    )


def test_nibbles_of_pytorch():
    torch = pytest.importorskip("torch")

    @T.prim_func
    def main(A: T.Tensor((4, 16), "float4_e2m1fn"), B: T.Tensor((4, 16), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 16):
                B[i, j] = T.cast(A[i, j], "float32")

    @tilelang.jit(target="cpu")
    def made(B: T.Tensor((4, 16), "float32")):
        A = T.empty((4, 16), "float4_e2m1fn")
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 16):
                A[i, j] = T.cast(B[i, j], "float4_e2m1fn")
        return A

    kernel_, codes = (
        tilelang.compile(main, target="cpu"),
        torch.arange(32, dtype=torch.uint8).reshape(4, 8) * 7,
    )
    kinds = ["uint8", "int8", *(["float4_e2m1fn_x2"] if hasattr(torch, "float4_e2m1fn_x2") else [])]
    for kind in kinds:
        numbers = torch.full((4, 16), 77.0)
        kernel_(codes.view(getattr(torch, kind)), numbers)
        assert numbers[1, :3].tolist() == [-0.0, 1.5, -6.0]
        back = made(numbers)
        assert back.dtype == torch.uint8 and (back == codes).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_dp4a(dtype):
    N = 256

    @T.prim_func
    def main(A: T.Tensor((N, 4), dtype), B: T.Tensor((N, 4), dtype), C: T.Tensor((N,), "int32")):
        with T.Kernel(N // 64, threads=64) as bx:
            for i in T.Parallel(64):
                T.dp4a(A[bx * 64 + i, 0], B[bx * 64 + i, 0], C[bx * 64 + i])

    rng = np.random.default_rng(0)
    info = np.iinfo(dtype)
    a, b = (rng.integers(info.min, info.max + 1, (N, 4)).astype(dtype) for _ in "ab")
    start = rng.integers(-1000, 1000, N).astype(np.int32)
    expected = start + (a.astype(np.int32) * b.astype(np.int32)).sum(1)
    for target in TARGETS:
        c = start.copy()
        tilelang.compile(main, target=target)(a, b, c)
        assert np.array_equal(c, expected), target
    for target in CUDA:
        assert "__dp4a" in tilelang.compile(main, target=target).get_kernel_source()


def test_what_is_refused():
    with pytest.raises(tilelang.CompileError, match="needs sm_100"):
        convert(128, "float32", "float8_e4m3fn", round="rs")
    with pytest.raises(tilelang.CompileError, match="there is no rounding mode 'up'"):
        convert(128, "float32", "float8_e4m3fn", round="up")
    with pytest.raises(tilelang.CompileError, match="float8_e4m3fn.*has no infinity"):

        @T.prim_func
        def main(A: T.Tensor((64,), "float8_e4m3fn")):
            with T.Kernel(1, threads=64):
                for i in T.Parallel(64):
                    A[i] = T.infinity("float8_e4m3fn")


def test_spellings():
    torch = pytest.importorskip("torch")
    for spelling, dtype in [("e4m3", T.float8_e4m3fn), ("e5m2", T.float8_e5m2), ("tf32", T.tfloat32),
                            (torch.float8_e4m3fn, "float8_e4m3fn"), ("int4", T.int4),
                            (ml_dtypes.float8_e8m0fnu, T.float8_e8m0fnu)]:  # fmt: skip
        assert T.dtypes.as_dtype(spelling) == dtype
    assert T.int4.bits == 4 and T.float8_e4m3.bytes == 1 and T.float8_e5m2.as_torch() == torch.float8_e5m2
    assert str(T.dtype("float16x2")) == "float16x2"
    with pytest.raises(tilelang.CompileError, match="nothing here can have the dtype float8_e3m4"):
        T.dtypes.as_dtype(ml_dtypes.float8_e3m4)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    kernel = tilelang.compile(convert(128, "float32", "float8_e4m3fn"), target="cpu")
    x, y = torch.randn(128), torch.empty(128, dtype=torch.float8_e4m3fn)
    kernel(x, y)
    assert torch.equal(y.float(), x.to(torch.float8_e4m3fn).float())
    with pytest.raises(Exception, match="float8_e4m3fn\\[128\\] was expected"):
        kernel(x, torch.empty(128, dtype=torch.float8_e5m2))
