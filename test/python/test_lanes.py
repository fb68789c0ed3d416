"""Elements of several lanes, float16x2: one more dimension, whose elements are accessed and computed with at
once.
"""

import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel


def numbers(*shape, dtype=np.float16):
    return (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_tensors_of_lanes(target, lanes):
    dtype = T.float16.with_lanes(lanes)

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype), C: T.Tensor((64,), dtype)):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                C[b * 32 + i] = A[b * 32 + i] * T.float16(2) + B[b * 32 + i] - dtype(1)

    assert [p.shape for p in main.params] == [(64, lanes)] * 3 and main.params[0].dtype is T.float16
    a, b, c = numbers(64, lanes), numbers(64, lanes)[::-1].copy(), np.zeros((64, lanes), np.float16)
    tilelang.compile(main, target=target)(a, b, c)
    np.testing.assert_array_equal(c, a * 2 + b - 1)


def test_one_access():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32x4"), B: T.Tensor((64,), "float32x4")):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                B[b * 32 + i] = A[b * 32 + i] + A[b * 32 + i]

    source = tilelang.compile(main, target="cuda -arch=sm_90").get_kernel_source()
    source = source.partition("main_kernel(")[2]
    assert "tl_load<4>" in source and "tl_store(&B" in source


def test_tiles_views_and_casts(target):
    @T.prim_func
    def main(
        A: T.Tensor((32,), "float16x4"), B: T.Tensor((32,), "float32x4"), C: T.Tensor((32, 2), "float16x2")
    ):
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((32,), "float16x4")
            local = T.alloc_local((2,), "float32x4")
            T.copy(A, shared)
            pairs = T.view(shared, (32, 2), "float16x2")
            T.copy(pairs, C)
            for i in T.Parallel(32):
                local[0] = T.cast(shared[i], "float32x4")
                local[1] = local[0] * T.cast(0.5, "float32x4")
                B[i] = local[1] + shared[i].astype(T.float32x4)

    a, b, c = numbers(32, 4), np.zeros((32, 4), np.float32), np.zeros((32, 2, 2), np.float16)
    tilelang.compile(main, target=target)(a, b, c)
    np.testing.assert_array_equal(b, a.astype(np.float32) * 1.5)
    np.testing.assert_array_equal(c, a.reshape(32, 2, 2))


def test_eager_outputs_strides_and_addresses():
    @tilelang.jit(target="cpu")
    def f(A, p: T.ptr):
        N = T.const("N")
        A: T.StridedTensor((N,), (2,), "float32x2")
        out = T.empty((N,), "float32x2")
        B = T.make_tensor(p, (N,), "float32x2")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                out[i] = A[i] * 2 + B[i]
        return out

    wide = numbers(8, 4, dtype=np.float32)
    b = numbers(8, 2, dtype=np.float32)
    np.testing.assert_array_equal(f(wide[:, :2], b), wide[:, :2] * 2 + b)


def test_lanes_one_by_one(target):
    @T.prim_func
    def main(A: T.Tensor((32,), "float32x4"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.extract_lane(A[i] * 2, 0) + A[i, 1] - T.extract_lane(A[i, 0:2], 1)

    a, b = numbers(32, 4, dtype=np.float32), np.zeros(32, np.float32)
    tilelang.compile(main, target=target)(a, b)
    np.testing.assert_array_equal(b, a[:, 0] * 2)
    with refused("T.extract_lane: 4 elements have the lanes 0 to 3, not 4"):

        @T.prim_func
        def beyond(A: T.Tensor((32,), "float32x4")):
            with T.Kernel(1, threads=32):
                A[0, 0] = T.extract_lane(A[0], 4)


def test_packed_lanes():
    kind = T.Tensor((8,), "int4x8")
    assert kind.shape == (8, 8) and kind.dtype is T.int4


def refused(words):
    return pytest.raises(tilelang.CompileError, match=words)


def test_what_has_one_lane():
    with refused(
        r"a value has one lane, and float16x2 has 2: only tensors and tiles have such elements, as "
        r"one more dimension, T.alloc_local\(\(2,\), 'float16'\)"
    ):

        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), x: T.float16x2):
            with T.Kernel(1, threads=32):
                A[0] = 1

    with refused("the slice has 2 elements, and float32x4 has 4 lanes"):

        @T.prim_func
        def cast(A: T.Tensor((8,), "float16x2"), B: T.Tensor((8,), "float32x4")):
            with T.Kernel(1, threads=32):
                B[0] = T.cast(A[0], "float32x4")

    with refused("a slice of 2 elements is stored to one of 4 of B"):

        @T.prim_func
        def store(A: T.Tensor((8,), "float16x2"), B: T.Tensor((8,), "float16x4")):
            with T.Kernel(1, threads=32):
                B[0] = A[0]


# ── bits of several values ────────────────────────────────────────────────────────────────────────────
def unpacked(n):
    """Eight codes of 4 bits to a word, of which each `and` takes two; their products with pairs of X."""

    @T.prim_func
    def main(
        W: T.Tensor((n,), "uint32"),
        X: T.Tensor((n, 4), "uint32"),
        products: T.Tensor((n, 8), "float16"),
        sums: T.Tensor((n,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                word, sum_ = W[i], T.alloc_var("float32", 0)
                for c in T.unroll(4):
                    code = word >> T.uint32(4 * c) & T.uint32(0x000F000F) | T.uint32(0x64006400)
                    pair = T.add2(T.reinterpret(code, "float16x2"), T.float16(-1032))
                    pair = T.mul2(pair, T.reinterpret(X[i, c], "float16x2"))
                    products[i, 2 * c : 2 * c + 2] = pair
                    sum_ += T.float32(pair[0]) + T.float32(pair[1])
                sums[i] = sum_

    return main


def test_a_word_is_a_pair(target):
    rng = np.random.default_rng(5)
    w, x = rng.integers(0, 2**32, 64, dtype=np.uint32), rng.standard_normal((64, 8)).astype(np.float16)
    products, sums = np.full((64, 8), np.nan, np.float16), np.full(64, np.nan, np.float32)
    tilelang.compile(unpacked(64), target=target)(w, x.view(np.uint32), products, sums)
    codes = np.stack([w >> shift & 15 for shift in (0, 16, 4, 20, 8, 24, 12, 28)], 1).astype(np.float64) - 8
    assert np.array_equal(products, (codes * x).astype(np.float16))
    assert np.allclose(sums, products.astype(np.float64).sum(1), rtol=1e-5, atol=1e-4)


def test_pairs_are_taken_apart_without_cutting_bits_off():
    """One instruction for `and` and `or`; halves of what an instruction gave are its halves."""
    source = tilelang.compile(unpacked(64), target="sim:sm_90").get_kernel_source()
    kernel = source[source.index("__global__") :]
    assert kernel.count("tl_logic<0xea>(") == 1 and "0x000f000fu, 0x64006400u)" in kernel
    assert "tl_low_bits" not in kernel and kernel.count("half_t::raw(u16(pair") >= 3


def test_words_of_slices_pairs_and_tuples(target):
    @T.prim_func
    def main(
        A: T.Tensor((8, 4), "int8"),
        B: T.Tensor((8,), "int32"),
        C: T.Tensor((8, 2), "float16"),
        D: T.Tensor((8,), "uint32"),
        E: T.Tensor((8, 4), "uint16"),
    ):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[i] = T.reinterpret(A[i, 0:4], "int32")
                D[i] = T.reinterpret(T.max2(C[i, 0:2], T.float16(0)), "uint32")
                four = T.reinterpret(T.reinterpret((D[i], B[i].astype("uint32")), "uint64"), "uint16x4")
                E[i, 0], E[i, 1], E[i, 2], E[i, 3] = four[0], four[1], four[2], four[3]

    rng = np.random.default_rng(6)
    a, c = rng.integers(-128, 128, (8, 4), dtype=np.int8), rng.standard_normal((8, 2)).astype(np.float16)
    b, d, e = np.zeros(8, np.int32), np.zeros(8, np.uint32), np.zeros((8, 4), np.uint16)
    tilelang.compile(main, target=target)(a, b, c, d, e)
    assert np.array_equal(b, a.view(np.int32)[:, 0])
    assert np.array_equal(d, np.maximum(c, np.float16(0)).view(np.uint32)[:, 0])
    assert np.array_equal(e, np.stack([d, b.view(np.uint32)], 1).view(np.uint16))


def test_bits_that_do_not_fit(tmp_path):
    def words(body):
        return failure(
            tmp_path, body, signature="A: T.Tensor((4,), 'int8'), B: T.Tensor((4,), 'uint32')"
        ).args[0]

    assert "4 of int8 are 32 bits, and 1 of float16 are 16" in words("x = T.reinterpret(A[0:4], 'float16')")
    assert "1 of uint32 are 32 bits, and 4 of float16 are 64" in words("x = T.reinterpret(B[0], 'float16x4')")
    assert "3 of int8 are 24 bits, and 2 of float16 are 32" in words("x = T.reinterpret(A[0:3], 'float16x2')")
    assert "not of whole bytes each" in words("x = T.reinterpret(A[0:4], 'int4x8')")
    assert "have one dtype, and these have int8, uint32" in words("x = T.reinterpret((A[0], B[0]), 'int64')")


# ── neighbours in one iteration ───────────────────────────────────────────────────────────────────────
def swapped(laid_out_first):
    """Neighbours change places, in a fragment that follows the loop, or that has been laid out before."""

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float16"), B: T.Tensor((32, 64), "float16")):
        with T.Kernel(1, threads=64):
            F, G = T.alloc_fragment((32, 64), "float16"), T.alloc_fragment((32, 64), "float16")
            T.copy(A, F)
            for i, p in T.Parallel(32, 32):
                G[i, 2 * p] = F[i, 2 * p + 1] if laid_out_first else A[i, 2 * p + 1]
                G[i, 2 * p + 1] = F[i, 2 * p] if laid_out_first else A[i, 2 * p]
            T.copy(G, B)

    return main


@pytest.mark.parametrize("laid_out_first", [False, True])
def test_neighbours_stay_on_their_thread(target, laid_out_first):
    kernel = tilelang.compile(swapped(laid_out_first), target=target)
    a, b = numbers(32, 64), np.full((32, 64), np.nan, np.float16)
    kernel(a, b)
    assert np.array_equal(b, a.reshape(32, 32, 2)[:, :, ::-1].reshape(32, 64))


def test_neighbours_need_no_shared_memory():
    for laid_out_first in (False, True):
        report = tilelang.compile(swapped(laid_out_first), target="sim:sm_80").report
        assert not any(b.scope == "shared" for b in report.buffers), [b.name for b in report.buffers]


# ── lanes by number and by CUDA's names ──
LANES = {
    "of an element": ("Z[i] = X[i][2]", 2),
    "from the end": ("Z[i] = X[i][-1]", 3),
    "of an element, x": ("Z[i] = X[i].x", 0),
    "of an element, w": ("Z[i] = X[i].w", 3),
    "computed": ("Z[i] = X[i][T.cast(Z[i], 'int32')]", 0),
    "under a name": ("v = X[i]\nZ[i] = v[1]", 1),
    "read where it is named": ("v = X[i]\nX[i] = 0.0\nZ[i] = v.z", 2),
    "of a sum": ("Z[i] = (X[i] + 0.0).y", 1),
    "unpacked": ("a, b, c, d = X[i]\nZ[i] = c", 2),
    "of a function": ("v = X[i]\nZ[i] = T.sqrt(v * v).y", 1),
    "of a variable": ("v = T.alloc_var('float32x4', X[i])\nZ[i] = v.w", 3),
    "of an array": ("L = T.alloc_local((2,), 'float32x4')\nL[1] = X[i]\nZ[i] = L[1].y", 1),
    "of a view": ("V = T.view(X, (8, 2), 'float32x2')\nZ[i] = V[i, 1].x", 2),
    "of all": (
        "s = T.alloc_var('float32', -X[i, 0])\nfor x in X[i, :]:\n    s += x\nZ[i] = s - X[i].y - X[i].z", 3
    ),
}  # fmt: skip
SIGNATURE = "X: T.Tensor((8,), 'float32x4'), Z: T.Tensor((8,), 'float32')"


@pytest.mark.parametrize("case", list(LANES))
def test_lanes_are_read(target, case, tmp_path):
    body, lane = LANES[case]
    loop = "for i in T.serial(8):\n" + textwrap.indent(body, "    ")
    x, z = numbers(8, 4, dtype=np.float32), np.zeros(8, np.float32)
    wanted = x[:, lane].copy()
    program = kernel(tmp_path, loop, signature=SIGNATURE, launch="T.Kernel(1, threads=1)")
    tilelang.compile(program, target=target)(x, z)
    np.testing.assert_array_equal(z, wanted)


@pytest.mark.parametrize("lane", ["[1]", "[-3]", ".y"])
@pytest.mark.parametrize("how", ["X[i]{0} = 5.0", "X[i]{0} += 5.0 - X[i]{0}", "v{0} = 5.0\n    X[i] = v"])
def test_lanes_are_stored(target, lane, how, tmp_path):
    first = "v = T.alloc_var('float32x4', X[i])\n    " if "v" in how else ""
    loop = "for i in T.serial(8):\n    " + first + how.format(lane)
    x, z = numbers(8, 4, dtype=np.float32), np.zeros(8, np.float32)
    wanted = x.copy()
    wanted[:, 1] = 5
    program = kernel(tmp_path, loop, signature=SIGNATURE, launch="T.Kernel(1, threads=1)")
    tilelang.compile(program, target=target)(x, z)
    np.testing.assert_array_equal(x, wanted)


NO_LANES = {
    "beyond": ("Z[0] = X[0][4]", "a vector of 4 has the lanes 0 to 3, not 4"),
    "beyond, of a variable": ("v = T.alloc_var('float32x4', X[0])\nv[4] = 1.0", "the lanes 0 to 3, not 4"),
    "w of two": ("V = T.view(X, (8, 2), 'float32x2')\nZ[0] = V[0, 0].w", "of 2 lanes has no lane 'w'"),
    "as one number": (
        "Z[0] = X[0]",
        "an element of X is a vector of 4, not one number: take a lane",
    ),
    "of a value": ("v = X[0]\nv[1] = 1.0", "the lanes of a value cannot be assigned: make it a variable"),
    "of a value, by name": ("v = X[0]\nv.y = 1.0", "the lanes of a value cannot be assigned"),
    "of a row of numbers": ("V = T.view(X, (8, 4), 'float32')\nZ[0] = V[0][1]", "all indices of a buffer"),
}


@pytest.mark.parametrize("case", list(NO_LANES))
def test_what_is_no_lane(case, tmp_path):
    body, wanted = NO_LANES[case]
    assert wanted in str(failure(tmp_path, body, signature=SIGNATURE))
