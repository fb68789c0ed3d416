"""Forms that kernels written elsewhere use: unused tensors, elements by thread number, narrow shifts,
CUDA's names."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import run

# ── tensors that a kernel does not name ───────────────────────────────────────────────────────────────


def scaled(with_scale):
    n, m, k = T.dynamic("n, m, k")

    @T.prim_func
    def main(
        scale: T.StridedTensor((n, m), (k, 1), "float32"),
        x: T.Tensor((n, 8), "float32"),
        out: T.Tensor((n, 8), "float32"),
    ):
        with T.Kernel(n, threads=32) as row:
            for i in T.Parallel(8):
                out[row, i] = x[row, i] * (scale[row, 0] if with_scale else 2.0)

    return main


def test_a_tensor_that_nothing_names_may_be_none(target):
    kernel = tilelang.compile(scaled(False), target=target)
    for rows in (5, 0, 1):
        x = np.random.default_rng(rows).standard_normal((rows, 8), dtype=np.float32)
        out = np.full((rows, 8), np.nan, np.float32)
        kernel(None, x, out)
        assert np.array_equal(out, x * 2)
    wrong = np.zeros((4, 3), np.float32)  # given all the same, it is checked
    with pytest.raises(Exception, match="argument 0 'scale' is float32\\[4, 3\\]"):
        kernel(wrong, np.zeros((5, 8), np.float32), np.zeros((5, 8), np.float32))


def test_a_tensor_that_is_named_may_not(target):
    kernel = tilelang.compile(scaled(True), target=target)
    x = np.ones((3, 8), np.float32)
    with pytest.raises(Exception, match="argument 0 'scale' is None"):
        kernel(None, x, x.copy())
    scale = np.arange(6, dtype=np.float32).reshape(3, 2)
    out = np.full((3, 8), np.nan, np.float32)
    kernel(scale, x, out)
    assert np.array_equal(out, np.repeat(scale[:, :1], 8, 1))


def test_an_extent_that_only_none_would_tell():
    n = T.dynamic("n")

    @T.prim_func
    def main(unused: T.Tensor((n,), "float32"), out: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                out[i] = n

    kernel = tilelang.compile(main, target="cpu")
    out = np.zeros(4, np.int32)
    kernel(np.zeros(7, np.float32), out)
    assert out.tolist() == [7] * 4
    with pytest.raises(
        Exception, match="'unused' is None, but the kernel needs n, which is extent 0 of that tensor"
    ):
        kernel(None, out)


def test_alignment_is_not_taken_from_none():
    """The strides of a tensor that is None say nothing; those of the others are looked at."""
    n, s = T.dynamic("n, s")

    @T.prim_func
    def main(
        unused: T.StridedTensor((n, 64), (s, 1), "float32"),
        x: T.StridedTensor((n, 64), (s, 1), "float32"),
        out: T.Tensor((n, 64), "float32"),
    ):
        with T.Kernel(n, threads=32) as row:
            tile = T.alloc_fragment((64,), "float32")
            T.copy(x[row, 0], tile)
            T.copy(tile, out[row, 0])

    kernel = tilelang.compile(main, target="sim:sm_80")
    for stride in (64, 65):
        whole = np.random.default_rng(1).standard_normal((5, stride), dtype=np.float32)
        out = np.full((5, 64), np.nan, np.float32)
        kernel(None, whole[:, :64], out)
        assert np.array_equal(out, whole[:, :64])


# ── elements of fragments by the thread's number ──────────────────────────────────────────────────────


@pytest.mark.parametrize("annotate", [True, False])
def test_each_thread_stores_its_own_element(annotate):
    @T.prim_func
    def main(
        x: T.Tensor((64, 2), "float32"), out: T.Tensor((4, 16), "float32"), back: T.Tensor((64,), "float32")
    ):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            row, column = t // 16, t % 16
            part = T.alloc_fragment((4, 16), "float32")
            if annotate:
                T.annotate_layout({part: T.Fragment((4, 16), forward_thread_fn=lambda i, j: i * 16 + j)})
            part[row, column] = x[t, 0] + x[t, 1]
            back[t] = part[row, column]
            T.copy(part, out)

    x = np.random.default_rng(0).standard_normal((64, 2), dtype=np.float32)
    out, back = np.full((4, 16), np.nan, np.float32), np.full(64, np.nan, np.float32)
    run(main, "sim:sm_80", x, out, back)
    want = x[:, 0] + x[:, 1]
    assert np.array_equal(out.reshape(-1), want) and np.array_equal(back, want)
    text = tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    assert "part_shared" not in text


def test_elements_of_other_threads_go_through_shared_memory():
    @T.prim_func
    def main(out: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            part = T.alloc_fragment((64,), "int32")
            T.annotate_layout({part: T.Fragment((64,), forward_thread_fn=lambda i: i)})
            part[63 - t] = t * 3
            T.copy(part, out)

    out = np.full(64, -1, np.int32)
    run(main, "sim:sm_80", out)
    assert out.tolist() == [3 * (63 - i) for i in range(64)]


# ── vectors that meet themselves ──────────────────────────────────────────────────────────────────────


def test_lanes_that_update_one_element(target):
    @T.prim_func
    def main(x: T.Tensor((4, 8), "float32"), out: T.Tensor((4, 2), "float32")):
        with T.Kernel(4, threads=1) as row:
            sums = T.alloc_local((2,), "float32")
            T.clear(sums)
            for i in T.vectorized(8):
                sums[i % 2] += x[row, i]
            for i in T.vectorized(2):
                out[row, i] = sums[i]

    x = np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32)
    out = np.full((4, 2), np.nan, np.float32)
    run(main, target, x, out)
    want = x.astype(np.float64).reshape(4, 4, 2).sum(1)
    assert np.linalg.norm(out - want) < 1e-6 * np.linalg.norm(want)


# ── narrow integers ───────────────────────────────────────────────────────────────────────────────────


def test_narrow_shifts_wrap_at_the_type_where_their_sides_meet(target):
    @T.prim_func
    def main(x: T.Tensor((16,), "uint16"), out: T.Tensor((16, 4), "uint32")):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(16):
                out[i, 0] = T.cast(x[i] << 8, "uint32")
                out[i, 1] = x[i] << T.uint32(8)
                out[i, 2] = (x[i] << 12) | T.uint32(1)
                out[i, 3] = T.cast(x[i], "uint32") << 20

    x = np.random.default_rng(0).integers(0, 2**16, 16).astype(np.uint16)
    out = np.zeros((16, 4), np.uint32)
    run(main, target, x, out)
    wide = x.astype(np.uint64)
    narrow = [(wide << 8) & 0xFFFF, wide << 8, (wide << 12) & 0xFFFF | 1]
    want = np.stack([*narrow, (wide << 20) & 0xFFFFFFFF], 1)
    assert np.array_equal(out, want.astype(np.uint32))


# ── CUDA's own functions by name ──────────────────────────────────────────────────────────────────────


def test_cuda_functions_that_the_language_has():
    @T.prim_func
    def main(
        x: T.Tensor((32,), "float32"), half: T.Tensor((32,), "float16"), out: T.Tensor((32, 4), "int32")
    ):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            half[t] = T.call_extern("float16", "__float2half_rz", x[t])
            out[t, 0] = T.call_extern("uint32", "__match_any_sync", 0xFFFFFFFF, t % 3)
            out[t, 1] = T.call_extern("int32", "__popc", t)
            out[t, 2] = T.call_extern("int32", "__shfl_xor_sync", 0xFFFFFFFF, t, 5)
            out[t, 3] = T.call_extern("int32", "__float_as_int", x[t])
            T.call_extern("handle", "__syncwarp")

    x = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    half, out = np.zeros(32, np.float16), np.zeros((32, 4), np.int32)
    run(main, "sim:sm_80", x, half, out)
    near = x.astype(np.float16)
    truncated = np.where(np.abs(near.astype(np.float32)) > np.abs(x), np.nextafter(near, np.float16(0)), near)
    assert np.array_equal(half, truncated)
    lanes = np.arange(32)
    votes = [sum(1 << j for j in range(32) if j % 3 == i % 3) for i in range(32)]
    assert np.array_equal(out[:, 0].astype(np.uint32), np.array(votes, np.uint32))
    assert out[:, 1].tolist() == [bin(i).count("1") for i in lanes]
    assert out[:, 2].tolist() == (lanes ^ 5).tolist()
    assert np.array_equal(out[:, 3], x.view(np.int32))
    for arch in ("sm_80", "sm_90"):
        tilelang.compile(main, target=f"cuda -arch={arch}")

    with pytest.raises(tilelang.CompileError, match="CUDA's __popc takes 1 argument, not 2"):

        @T.prim_func
        def wrong(out: T.Tensor((32,), "int32")):
            with T.Kernel(1, threads=32):
                out[0] = T.call_extern("int32", "__popc", 1, 2)


# ── spellings ─────────────────────────────────────────────────────────────────────────────────────────


def test_spellings():
    torch = pytest.importorskip("torch")
    assert T.dtype(torch.float8_e4m3fn) == T.float8_e4m3fn and T.dtype("half") == T.float16
    assert (
        T.dtype(T.int8) == T.int8 and T.dtype("float16x2") == T.dtype("f16x2") and isinstance(T.int8, T.dtype)
    )
    with pytest.raises(tilelang.CompileError, match="unknown dtype 'flaot16'; did you mean float16"):
        T.dtype("flaot16")
    assert tilelang.PassConfigKey.TL_DISABLE_OUT_OF_BOUND_WARNING == "tl.disable_out_of_bound_warning"
    with pytest.raises(AttributeError):
        tilelang.PassConfigKey.FAST  # noqa: B018

    @T.prim_func
    def main(out: T.Tensor((8,), "int32")):
        with T.Kernel(8, threads=1) as (block,):
            for i in T.Serial(1):
                out[block] = block + i

    out = np.zeros(8, np.int32)
    run(main, "cpu", out)
    assert out.tolist() == list(range(8))


# ── parameters by their published names ───────────────────────────────────────────────────────────────


def test_spans_are_accepted(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                square = T.pow(T.abs(A[i]), 2.0, span=None)
                B[i] = T.Select(A[i] > 0, square, -T.infinity("float32", span=None), span=None)
                C[i] = T.reinterpret(
                    T.cast(T.if_then_else(cond=A[i] > 0, t=1, f=2), "float32", span=None), "uint32", span=None
                )

    a = np.random.default_rng(0).standard_normal(64).astype("float32")
    b, c = np.zeros(64, "float32"), np.zeros(64, "uint32")
    run(main, target, a, b, c)
    assert np.allclose(b, np.where(a > 0, a * a, -np.inf), rtol=1e-5)
    assert (c == np.where(a > 0, 1, 2).astype("float32").view("uint32")).all()


def test_dp4a_by_name():
    @T.prim_func
    def main(A: T.Tensor((32, 4), "int8"), C: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            a = T.alloc_local((4,), "int8")
            c = T.alloc_local((1,), "int32")
            for v in T.vectorized(4):
                a[v] = A[tx, v]
            c[0] = 1
            T.dp4a(A=a, B=a, C=c)
            C[tx] = c[0]

    a, c = np.random.default_rng(0).integers(-128, 128, (32, 4)).astype("int8"), np.zeros(32, "int32")
    run(main, "sim:sm_80", a, c)
    assert (c == 1 + (a.astype(int) ** 2).sum(1)).all()


# ── one name for all block indices ────────────────────────────────────────────────────────────────────


def blocks(extents, body):
    """Each block writes 1 + its number, by what `body` makes of the name that all its indices have."""

    @T.prim_func
    def main(A: T.Tensor((24,), "int32")):
        with T.Kernel(*extents, threads=32) as bs:
            A[body(bs)] = body(bs) + 1

    return main


def unpacked(bs):
    x, y, z = bs
    return (z * 3 + y) * 2 + x


@pytest.mark.parametrize(
    "extents, body",
    [
        ((2, 3), lambda bs: bs[1] * 2 + bs[0]),
        ((2, 3), lambda bs: bs[-1] * 2 + sum(bs[:1])),
        ((2, 3), lambda bs: sum(b * w for b, w in zip(bs, (1, 2), strict=True)) if len(bs) == 2 else 0),
        ((2, 3, 4), unpacked),
        ((6,), lambda bs: bs),
        ((6,), lambda bs: bs + 0 * bs),
    ],
)
def test_one_name_for_the_indices_of_a_block(extents, body, target):
    a, count = np.zeros(24, np.int32), int(np.prod(extents))
    run(blocks(extents, body), target, a)
    assert a.tolist() == [*range(1, count + 1), *[0] * (24 - count)]


def test_one_name_in_the_text_of_a_kernel(target):
    @T.prim_func
    def main(A: T.Tensor((3, 2), "int32")):
        with T.Kernel(2, 3, threads=32) as bs:
            bx, by = bs
            for b, weight in zip(bs, (10, 1), strict=True):
                if weight == 1:
                    A[bs[1], bs[0]] = b + 10 * bx + 0 * by

    a = np.zeros((3, 2), np.int32)
    run(main, target, a)
    assert a.tolist() == [[0, 10], [1, 11], [2, 12]]
