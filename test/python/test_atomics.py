"""Atomic updates: scalar, vector and tile forms, types, orders, bounds; on the simulator, the CPU and the
reference, and as CUDA text that compiles."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import assert_round_trip, source

EVERYWHERE = ["sim:sm_80", "sim:sm_90", "cpu", "reference"]
CHIPS = ["cuda -arch=sm_80", "cuda -arch=sm_90"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int32", "uint32", "int64", "uint64"]
PTX = dict(zip(FLOATS + INTS, ["f16", "bf16", "f32", "f64", "s32", "u32", "s64", "u64"], strict=True))


def numpy_type(dtype):
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def numbers(shape, dtype, seed=0):
    """Small whole numbers: sums in any order are exact."""
    low = 0 if dtype.startswith("u") else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(numpy_type(dtype))


def histogram(N, bins, block=64):
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), H: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(H[X[bx * block + i]], 1)

    return main


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("N", [64, 1000, 37])
def test_histogram(N, target):
    x = np.random.default_rng(1).integers(0, 11, N).astype(np.int32)
    h = np.zeros(11, np.int32)
    tilelang.compile(histogram(N, 11), target=target)(x, h)
    assert (h == np.bincount(x, minlength=11)).all()


def scatter(op, N, M, dtype):
    """dst[idx[i]] op= x[i], for indices of which some fall outside of dst."""
    update = getattr(T, op)

    @T.prim_func
    def main(I: T.Tensor((N,), "int32"), X: T.Tensor((N,), dtype), D: T.Tensor((M,), dtype)):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                if bx * 32 + i < N:
                    update(D[I[bx * 32 + i]], X[bx * 32 + i])

    return main


UFUNC = {"atomic_add": np.add, "atomic_max": np.maximum, "atomic_min": np.minimum, "atomic_or": np.bitwise_or}


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("op", UFUNC)
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_every_type(dtype, op, target):
    if op == "atomic_or" and dtype in FLOATS:
        return
    N, M = 77, 9
    index = np.random.default_rng(2).integers(-2, M + 2, N).astype(np.int32)  # outside: dropped
    x, d = numbers((N,), dtype), numbers((M,), dtype, 3)
    expected = d.astype(np.float64 if dtype in FLOATS else d.dtype)
    inside = (index >= 0) & (index < M)
    UFUNC[op].at(expected, index[inside], x[inside].astype(expected.dtype))
    tilelang.compile(scatter(op, N, M, dtype), target=target)(index, x, d)
    assert (d.astype(expected.dtype) == expected).all()


@pytest.mark.parametrize("op", UFUNC)
@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("target", CHIPS)
def test_every_type_compiles(target, dtype, op):
    if op == "atomic_or" and dtype in FLOATS:
        return
    text = source(scatter(op, 77, 9, dtype), target)
    native = (op == "atomic_add" and (dtype != "bfloat16" or "90" in target)) or dtype in INTS
    kind = PTX[dtype]
    if op == "atomic_or" or not native:
        kind = f"b{8 * numpy_type(dtype).itemsize}"
    elif (op, dtype) == ("atomic_add", "int64"):
        kind = "u64"  # the same bits: PTX has no other
    called = re.findall(r"(?:red|atom)\.relaxed\.gpu\.global\.(\w+)(?:\.noftz)?\.(\w+)", text)
    assert called == [(op.removeprefix("atomic_") if native else "cas", kind)]


def old_values(dtype, scope):
    @T.prim_func
    def main(X: T.Tensor((64,), dtype), C: T.Tensor((1,), dtype), O: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((1,), dtype)
            if scope == "shared":
                for i in T.Parallel(1):
                    S[i] = C[i]
            for i in T.Parallel(64):
                if scope == "global":
                    O[i] = T.atomic_add(C[0], X[i], return_prev=True)
                else:
                    old = T.atomic_add(S[0], X[i], return_prev=True, memory_order="acq_rel")
                    O[i] = old
            if scope == "shared":
                for i in T.Parallel(1):
                    C[i] = S[i]

    return main


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("scope", ["global", "shared"])
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float16", "bfloat16"])
def test_old_values(dtype, scope, target):
    """Ones are added: the old values are 5, 6, 7, … in some order."""
    x, c, o = np.ones(64, numpy_type(dtype)), np.full(1, 5, numpy_type(dtype)), numbers((64,), dtype)
    tilelang.compile(old_values(dtype, scope), target=target)(x, c, o)
    assert sorted(o.astype(np.float64)) == list(range(5, 69)) and float(c[0]) == 69


@pytest.mark.parametrize("target", EVERYWHERE)
def test_old_values_of_a_tile(target):
    @T.prim_func
    def main(
        X: T.Tensor((8, 32), "float32"),
        C: T.Tensor((16, 32), "float32"),
        O: T.Tensor((8, 32), "float32"),
        P: T.Tensor((8,), "float32"),
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 32), "float32")
            T.copy(X, x)
            old = T.atomic_add(C[8, 0], x, return_prev=True)
            T.copy(old, O)
            one = T.atomic_max(C[0:8, 3], 2.0, return_prev=True)
            T.copy(one, P)

    x, c = numbers((8, 32), "float32"), numbers((16, 32), "float32", seed=1)
    o, p = np.zeros((8, 32), "float32"), np.zeros(8, "float32")
    before = c.copy()
    tilelang.compile(main, target=target)(x, c, o, p)
    assert (o == before[8:]).all() and (c[8:] == before[8:] + x).all()
    assert (p == before[:8, 3]).all() and (c[:8, 3] == np.maximum(before[:8, 3], 2)).all()


@pytest.mark.parametrize("count", [2, 4])
def test_old_values_of_neighbours(count):
    add = {2: T.atomic_addx2, 4: T.atomic_addx4}[count]

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32"), O: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64 // count):
            tx = T.get_thread_binding()
            old = add(C[tx * count], X[tx * count], return_prev=True)
            O[tx * count] = T.extract_lane(old, 0)
            O[tx * count + 1] = T.extract_lane(old, count - 1)

    x, c, o = numbers((64,), "float32"), numbers((64,), "float32", seed=1), np.zeros(64, "float32")
    before = c.copy()
    tilelang.compile(main, target="sim:sm_80")(x, c, o)
    assert (o[::count] == before[::count]).all() and (o[1::count] == before[count - 1 :: count]).all()
    assert (c == before + x).all()


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("scope", ["global", "shared"])
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float16", "bfloat16", "float64"])
def test_old_values_compile(dtype, scope, target):
    text = source(old_values(dtype, scope), target)
    assert f"atom.{'relaxed.gpu.global' if scope == 'global' else 'acq_rel.cta.shared'}" in text


def tiles(op, M, N, dtype, via, value_dtype="float32"):
    """C op= A, tile by tile over a ragged matrix, each block twice: A goes through a fragment or a shared
    tile.
    """
    update = getattr(T, op)

    @T.prim_func
    def main(A: T.Tensor((M, N), value_dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 16), 2, threads=64) as (bx, by, bz):
            tile = (
                T.alloc_fragment((16, 32), value_dtype)
                if via == "fragment"
                else T.alloc_shared((16, 32), value_dtype)
            )
            T.copy(A[by * 16, bx * 32], tile)
            update(C[by * 16, bx * 32], tile)

    return main


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("via", ["fragment", "shared"])
@pytest.mark.parametrize("op", ["atomic_add", "atomic_max", "atomic_min"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
def test_tiles(dtype, op, via, target):
    for shape in [(16, 32), (48, 96), (33, 50), (7, 5)]:
        a, c = numbers(shape, "float32"), numbers(shape, dtype, 5)
        expected = c.astype(np.float64)
        for _ in range(2):
            expected = UFUNC[op](expected, a)
        tilelang.compile(tiles(op, *shape, dtype, via), target=target)(a, c)
        assert (c.astype(np.float64) == expected).all()


@pytest.mark.parametrize("dtype, on_80, on_90", [
    ("float32", "red.relaxed.gpu.global.add.f32", "red.relaxed.gpu.global.add.v4.f32"),
    ("float16", "red.relaxed.gpu.global.add.noftz.f16x2", "red.relaxed.gpu.global.add.noftz.v4.f16x2"),
    ("bfloat16", "atom.relaxed.gpu.global.cas.b16", "red.relaxed.gpu.global.add.noftz.v4.bf16x2"),
])  # fmt: skip
def test_tiles_join_neighbours(dtype, on_80, on_90):
    """As wide as the chip can where rows are aligned; one by one where they are not."""
    whole, ragged = (
        tiles("atomic_add", 64, 64, dtype, "fragment", dtype),
        tiles("atomic_add", 64, 63, dtype, "shared", dtype),
    )
    assert on_80 in source(whole, CHIPS[0]) and on_90 in source(whole, CHIPS[1])
    assert ".v4." not in source(ragged, CHIPS[1]) and "x2" not in source(ragged, CHIPS[0])


def test_a_layout_of_the_tensor():
    """A tensor that its program places by a layout (flash attention's dQ) is updated where its elements
    lie.
    """

    @T.prim_func
    def main(A: T.Tensor((32, 64), "float32"), Q: T.Tensor((32, 64), "float32")):
        with T.Kernel(2, threads=64) as bx:
            T.annotate_layout({Q: T.Layout((32, 64), lambda i, j: [i // 8, j // 8, i % 8, (j % 8)])})
            tile = T.alloc_fragment((16, 64), "float32")
            T.copy(A[bx * 16, 0], tile)
            T.atomic_add(Q[bx * 16, 0], tile)

    a, q = numbers((32, 64), "float32"), np.zeros((32, 64), np.float32)
    tilelang.compile(main, target="reference")(a, q)
    placed = a.reshape(4, 8, 8, 8).transpose(0, 2, 1, 3).reshape(32, 64)
    assert (q == placed).all()
    for target in ("sim:sm_80", "sim:sm_90", "cpu"):
        q = np.zeros((32, 64), np.float32)
        tilelang.compile(main, target=target)(a, q)
        assert (q == placed).all()
    for target in CHIPS:
        assert "red." in source(main, target)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("name, dtype", [("atomic_addx2", "float16"), ("atomic_addx2", "bfloat16"),
                                         ("atomic_addx2", "float32"),
                                         ("atomic_addx4", "float32")])  # fmt: skip
def test_vector_forms(name, dtype, target):
    n = int(name[-1])
    update = getattr(T, name)

    @T.prim_func
    def main(A: T.Tensor((8, 64), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(8, threads=16) as bx:
            for i in T.Parallel(64 // n):
                update(B[i * n], A[bx, i * n])

    a, b = numbers((8, 64), dtype), numbers((64,), dtype, 9)
    expected = b.astype(np.float64) + a.astype(np.float64).sum(0)
    tilelang.compile(main, target=target)(a, b)
    assert (b.astype(np.float64) == expected).all()
    for chip in CHIPS:
        text = source(main, chip)
        joined = dtype == "float16" or "90" in chip
        assert (".v2.f32" in text or ".v4.f32" in text or "16x2" in text) == joined


@pytest.mark.parametrize("target", EVERYWHERE)
def test_load_and_store(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.atomic_store(B[i], T.atomic_load(A[i], "acquire") * 2, "release")
                if i < n:
                    T.atomic_store(B[i], T.atomic_load(A[i]) * 3)

    a, b = numbers((64,), "float32"), np.full(64, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b, 10)
    assert (b == np.where(np.arange(64) < 10, 3, 2) * a).all()
    for chip in CHIPS:
        text = source(main, chip)
        assert (
            "ld.acquire.gpu.global.b32" in text
            and "st.release.gpu.global.b32" in text
            and "fence.sc.gpu" in text
        )


@pytest.mark.parametrize("order", ["relaxed", "acquire", "release", "acq_rel", "seq_cst"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_orders(order, dtype):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), dtype)
            T.copy(A, tile)
            T.atomic_add(B, tile, memory_order=order)

    for target in EVERYWHERE:
        a, b = numbers((64,), dtype), numbers((64,), dtype, 1)
        expected = a.astype(np.float64) + b.astype(np.float64)
        tilelang.compile(main, target=target)(a, b)
        assert (b.astype(np.float64) == expected).all()
    for chip in CHIPS:
        text = source(main, chip)
        assert (f".{order}." in text) == (order != "seq_cst")
        assert ("fence.sc.gpu" in text) == (order == "seq_cst")


@pytest.mark.parametrize("target", EVERYWHERE)
def test_shared_tiles_meet_barriers(target):
    """A block's histogram in shared memory, over several rounds: what an atomic wrote is read after a
    barrier.
    """

    @T.prim_func
    def main(X: T.Tensor((4, 96), "int32"), H: T.Tensor((16,), "int32")):
        with T.Kernel(2, threads=96) as bx:
            counts = T.alloc_shared((16,), "int32")
            T.clear(counts)
            for r in T.serial(2):
                for i in T.Parallel(96):
                    T.atomic_add(counts[X[bx * 2 + r, i]], r + 1)
            T.atomic_add(H, counts)

    x, h = np.random.default_rng(4).integers(0, 16, (4, 96)).astype(np.int32), np.zeros(16, np.int32)
    expected = sum(np.bincount(x[r], minlength=16) * (r % 2 + 1) for r in range(4))
    tilelang.compile(main, target=target)(x, h)
    assert (h == expected).all()
    for chip in CHIPS:
        text = source(main, chip)
        assert text.count("__syncthreads()") >= 2 and "red.relaxed.cta.shared.add.s32" in text


@pytest.mark.parametrize("target", EVERYWHERE)
def test_replicated_fragments_count_once(target):
    """A row of sums that every thread of the row holds is added once."""

    @T.prim_func
    def main(A: T.Tensor((16, 64), "float32"), S: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=128):
            tile, sums = T.alloc_fragment((16, 64), "float32"), T.alloc_fragment((16,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, sums, dim=1)
            T.atomic_add(S, sums)
            for i in T.Parallel(16):
                T.atomic_add(S[i], sums[i])

    a, s = numbers((16, 64), "float32"), np.zeros(16, np.float32)
    tilelang.compile(main, target=target)(a, s)
    assert (s == 2 * a.sum(1)).all()


def test_one_value_everywhere():
    @T.prim_func
    def main(C: T.Tensor((20, 30), "int32")):
        with T.Kernel(3, threads=32):
            T.atomic_add(C[2:10, 5:20], 2)
            T.atomic_max(C, 1)

    for target in EVERYWHERE:
        c = np.zeros((20, 30), np.int32)
        tilelang.compile(main, target=target)(c)
        expected = np.ones((20, 30), np.int32)
        expected[2:10, 5:20] = c[2, 5]
        assert (c == expected).all() and c[2, 5] in (6, 7)


def test_float_extremes_and_nan():
    @T.prim_func
    def main(X: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32"), D: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                T.atomic_max(C[i], X[i])
                T.atomic_min(D[i], X[i])

    for target in EVERYWHERE:
        x = np.array([np.nan, -np.inf, np.inf, -1], np.float32)
        c, d = np.array([1, 2, 3, np.nan], np.float32), np.array([1, 2, 3, np.nan], np.float32)
        tilelang.compile(main, target=target)(x, c, d)
        assert (c == [1, 2, np.inf, -1]).all() and (d == [1, -np.inf, 3, -1]).all()


def test_cpu_blocks_run_on_several_threads():
    """Many blocks, one counter, also of a type that LLVM must compare and swap."""

    @T.prim_func
    def main(C: T.Tensor((1,), "int32"), F: T.Tensor((1,), "float32"), H: T.Tensor((1,), "float16")):
        with T.Kernel(1000, threads=1):
            for i in T.Parallel(1):
                T.atomic_add(C[i], 1)
                T.atomic_add(F[i], 1.0)
                T.atomic_add(H[i], 1.0)

    c, f, h = np.zeros(1, np.int32), np.zeros(1, np.float32), np.zeros(1, np.float16)
    tilelang.compile(main, target="cpu")(c, f, h)
    assert c[0] == 1000 and f[0] == 1000 and h[0] == 1000


def test_text_ir_round_trips():
    function = old_values("float32", "shared").function
    assert 'atomic_add<f32>(address_of(S[0]), X[i], "acq_rel")' in function.text()
    assert_round_trip(function.text())
    assert_round_trip(tiles("atomic_add", 64, 64, "float32", "fragment").function.text())
    assert_round_trip(histogram(100, 10).function.text())


@pytest.mark.parametrize("tensor", [(6, 6), (5, 6, 6), (5, 5, 6, 6)])
@pytest.mark.parametrize(
    "tile", [(4,), (4, 4), (1, 4, 4), (4, 1, 4), (1, 4, 1, 4), (4, 1), (1, 1), (2, 4, 4)]
)
def test_a_tile_from_an_element_on_of_more_or_fewer_dimensions(tensor, tile):
    """What was there before is asked for element by element: at the same places as without."""

    def update(returns):
        @T.prim_func
        def main(W: T.Tensor(tensor, "int32"), G: T.Tensor(tile, "int32"), H: T.Tensor(tile, "int32")):
            with T.Kernel(1, threads=32):
                given = T.alloc_fragment(tile, "int32")
                T.copy(G, given)
                if returns:
                    held = T.atomic_add(W[(1,) * len(tensor)], given, return_prev=True)
                    T.copy(held, H)
                else:
                    T.atomic_add(W[(1,) * len(tensor)], given)

        return main

    if tile == (2, 4, 4) and len(tensor) == 2:
        with pytest.raises(tilelang.CompileError, match="does not fit into W, of 2 dimensions"):
            tilelang.compile(update(True), target="cpu")
        return
    extents = tile if len(tile) <= len(tensor) else [e for e in tile if e != 1]
    place = (1,) * (len(tensor) - len(extents))
    at = tuple(slice(p, p + e) for p, e in zip((1,) * len(tensor), (*place, *extents), strict=True))
    rng = np.random.default_rng(0)
    w, g = rng.integers(0, 9, tensor).astype(np.int32), rng.integers(0, 9, tile).astype(np.int32)
    wanted = w.copy()
    wanted[at] += g.reshape(wanted[at].shape)
    for target in ("reference", "cpu", "sim:sm_80"):
        for returns in (False, True):
            got, h = w.copy(), np.full(tile, -1, np.int32)
            tilelang.compile(update(returns), target=target)(got, g, h)
            np.testing.assert_array_equal(got, wanted, err_msg=f"{target} {returns}")
            if returns:
                np.testing.assert_array_equal(h, w[at].reshape(tile), err_msg=target)


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", "sim:sm_90a"])
def test_what_a_turn_is_told_is_what_the_turns_before_left(target):
    """Another thread updates the element in each turn; nothing else in the kernel touches the tensor."""

    @T.prim_func
    def main(Z: T.Tensor((128,), "int32"), H: T.Tensor((4, 128), "int32")):
        with T.Kernel(1, threads=128):
            for k in T.serial(4):
                for i in T.Parallel(128):
                    H[k, i] = T.atomic_add(Z[(i + k * 37) % 128], 1, return_prev=True)

    kernel = tilelang.compile(main, target=target)
    for seed in range(4):
        z, h = np.zeros(128, np.int32), np.full((4, 128), -1, np.int32)
        kernel.simulate(z, h, seed=seed) if target.startswith("sim") else kernel(z, h)
        np.testing.assert_array_equal(h, np.repeat(np.arange(4), 128).reshape(4, 128), err_msg=str(seed))
