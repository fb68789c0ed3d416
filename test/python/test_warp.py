"""Shuffles, votes and reductions among the threads of a warp, against NumPy."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import cuda_text, load, simulate

SIM = "sim:sm_80"


# ── shuffles ──────────────────────────────────────────────────────────────────────────────────────────
def shuffles(dtype, width):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((5, 64), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            x = A[tx]
            B[0, tx] = T.shfl_sync(x, tx * 3 + 1, width)
            B[1, tx] = T.shfl_xor(x, 5, width)
            B[2, tx] = T.shfl_up(x, 3, width)
            B[3, tx] = T.shfl_down(x, 3, width)
            B[4, tx] = T.tvm_warp_shuffle(-1, x, 2, width, 32)

    return main


def shuffles_expected(a, width):
    lane = np.arange(64)
    base = lane // width * width
    across = lane ^ 5
    across = np.where(across < base + width, across, lane)
    up = np.where(lane - 3 >= base, lane - 3, lane)
    down = np.where(lane + 3 < base + width, lane + 3, lane)
    return np.stack([a[base + (lane * 3 + 1) % width], a[across], a[up], a[down], a[base + 2 % width]])


@pytest.mark.parametrize("width", [32, 16, 8, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "float64", "int8"])
def test_shuffles(dtype, width):
    a = (np.random.default_rng(0).standard_normal(64) * 50).astype(dtype)
    b = np.zeros((5, 64), dtype)
    simulate(shuffles(dtype, width), a, b)
    assert np.array_equal(b, shuffles_expected(a, width))
    if width != 2:
        cuda_text(shuffles(dtype, width))


def masked():
    """The lower half of each warp shuffles by itself."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if T.get_lane_idx() < 16:
                B[tx] = T.shfl_sync(A[tx], 15 - T.get_lane_idx(), mask=0xFFFF)
            else:
                B[tx] = 100

    return main


def test_masked_shuffle():
    a, b = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    simulate(masked(), a, b)
    expected = np.full((2, 32), 100)
    expected[:, :16] = a.reshape(2, 32)[:, 15::-1]
    assert np.array_equal(b.reshape(2, 32), expected)
    cuda_text(masked())


def test_shuffle_in_a_block_of_few_threads():
    """Lanes that do not exist need not come; what is read from them must not be used."""

    def shifted(uses):
        @T.prim_func
        def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=8):
                tx = T.get_thread_binding()
                x = T.alloc_local((1,), "float32")
                x[0] = T.shfl_down(A[tx], 2)
                if tx < uses:
                    B[tx] = x[0]

        return main

    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    simulate(shifted(6), a, b)
    assert np.array_equal(b[:6], a[2:]) and (b[6:] == 0).all()
    with pytest.raises(tilelang.SimulationError, match="reads the value of lane 8, which does not take part"):
        simulate(shifted(7), a, b)


# ── votes ─────────────────────────────────────────────────────────────────────────────────────────────
def votes():
    @T.prim_func
    def main(A: T.Tensor((96,), "int32"), I: T.Tensor((2, 96), "int32"), U: T.Tensor((5, 96), "uint32")):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            x = A[tx]
            I[0, tx] = T.any_sync(x > 6)
            I[1, tx] = T.all_sync(x > 1)
            U[0, tx] = T.ballot(x > 4)
            U[1, tx] = T.match_any_sync(x)
            U[2, tx] = T.match_all_sync(x)
            U[3, tx] = T.activemask()
            if tx % 32 < 8:
                U[4, tx] = T.ballot_sync(x > 4, 0xFF)
            else:
                U[4, tx] = T.activemask()

    return main


def votes_expected(a):
    i, u = np.zeros((2, 96), np.int32), np.zeros((5, 96), np.uint32)
    for w in range(3):
        s = slice(32 * w, 32 * w + 32)
        x = a[s]
        i[0, s], i[1, s] = (x > 6).any(), (x > 1).all()
        bits = lambda yes: np.uint32(sum(1 << lane for lane in range(32) if yes[lane]))
        u[0, s] = bits(x > 4)
        u[1, s] = [bits(x == v) for v in x]
        u[2, s] = 0xFFFFFFFF if (x == x[0]).all() else 0
        u[3, s] = 0xFFFFFFFF
        u[4, s] = 0xFFFFFF00
        u[4, s][:8] = bits(x > 4) & np.uint32(0xFF)
    return i, u


def votes_input():
    a = np.random.default_rng(0).integers(2, 9, 96).astype(np.int32)
    a[64:], a[3] = 7, 1
    return a


def test_votes():
    i, u = np.full((2, 96), -1, np.int32), np.zeros((5, 96), np.uint32)
    simulate(votes(), votes_input(), i, u)
    expected = votes_expected(votes_input())
    assert np.array_equal(i, expected[0]) and np.array_equal(u, expected[1])
    cuda_text(votes())


def test_votes_as_64_bits():
    """What warps of 64 lanes need has no upper bits where a warp has 32."""

    @T.prim_func
    def main(A: T.Tensor((96,), "int32"), U: T.Tensor((5, 96), "uint64")):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            x = A[tx]
            U[0, tx] = T.ballot(x > 4, dtype="uint64")
            U[1, tx] = T.match_any_sync(x, dtype="uint64")
            U[2, tx] = T.match_all_sync(x, dtype="uint64")
            U[3, tx] = T.activemask("uint64")
            if tx % 32 < 8:
                U[4, tx] = T.ballot_sync(x > 4, 0xFF, "uint64")
            else:
                U[4, tx] = T.activemask("uint64")

    u = np.zeros((5, 96), np.uint64)
    simulate(main, votes_input(), u)
    assert np.array_equal(u, votes_expected(votes_input())[1])
    cuda_text(main)


def test_a_mask_of_all_lanes_may_be_left_out():
    def voted(mask):
        @T.prim_func
        def main(A: T.Tensor((64,), "int32")):
            with T.Kernel(1, threads=64):
                tx = T.get_thread_binding()
                A[tx] = T.shfl_xor(A[tx], 1, mask=mask) + T.any_sync(A[tx] > 3, mask)
                T.sync_warp(mask)

        return cuda_text(main)

    assert len({voted(mask) for mask in (None, -1, 0xFFFFFFFF, (1 << 64) - 1)}) == 1
    assert voted(None) != voted(0xFFFF)


# ── reductions ────────────────────────────────────────────────────────────────────────────────────────
def reductions(dtype):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((3, 64), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[0, tx] = T.warp_reduce_sum(A[tx])
            B[1, tx] = T.warp_reduce_max(A[tx])
            B[2, tx] = T.warp_reduce_min(A[tx])

    return main


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64"])
def test_warp_reductions(dtype):
    a = (np.random.default_rng(0).standard_normal(64) * 9).astype(dtype)
    b = np.zeros((3, 64), dtype)
    simulate(reductions(dtype), a, b)
    rows = a.reshape(2, 32).astype(np.float64)
    for row, expected in zip(b.astype(np.float64), (rows.sum(1), rows.max(1), rows.min(1)), strict=True):
        assert np.linalg.norm(row - np.repeat(expected, 32)) <= 4e-3 * np.linalg.norm(expected) + 1e-9
        assert (row.reshape(2, 32) == row.reshape(2, 32)[:, :1]).all()
    cuda_text(reductions(dtype))


def test_warp_bit_reductions():
    @T.prim_func
    def main(A: T.Tensor((32,), "uint32"), B: T.Tensor((2, 32), "uint32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            B[0, tx] = T.warp_reduce_bitand(A[tx])
            B[1, tx] = T.warp_reduce_bitor(A[tx])

    a = np.random.default_rng(0).integers(0, 2**32, 32).astype(np.uint32) | np.uint32(0x1000)
    a &= np.uint32(0xFFFFFFF0)
    b = np.zeros((2, 32), np.uint32)
    simulate(main, a, b)
    assert (b[0] == np.bitwise_and.reduce(a)).all() and (b[1] == np.bitwise_or.reduce(a)).all()
    cuda_text(main)


def gemv(N, K, threads, rows, dtype="float16"):
    """The published GEMV: threads along x share a row and reduce over threads."""

    @T.prim_func
    def main(A: T.Tensor((K,), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, rows), threads=(threads, rows)) as bn:
            tk = T.get_thread_binding(0)
            tn = T.get_thread_binding(1)
            acc = T.alloc_local((1,), "float32")
            total = T.alloc_local((1,), "float32")
            T.clear(acc)
            for k in T.serial(T.ceildiv(K, threads)):
                if k * threads + tk < K and bn * rows + tn < N:
                    a = A[k * threads + tk].astype("float32")
                    acc[0] += a * B[bn * rows + tn, k * threads + tk].astype("float32")
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.cast(0, "float32")]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(T.tvm_thread_allreduce(1, acc[0], True, total[0], tk, dtype="handle"))
            if tk == 0 and bn * rows + tn < N:
                C[bn * rows + tn] = total[0]

    return main


CASES = [((37, 100), 32, 4), ((16, 64), 8, 8), ((9, 130), 64, 2), ((5, 50), 24, 3)]


@pytest.mark.parametrize("shape, threads, rows", CASES)
def test_thread_allreduce(shape, threads, rows):
    N, K = shape
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((K,), (N, K)))
    c = np.full(N, np.nan, np.float16)
    simulate(gemv(N, K, threads, rows), a, b, c)
    expected = b.astype(np.float64) @ a.astype(np.float64)
    assert np.linalg.norm(c - expected) <= 1e-3 * np.linalg.norm(expected)
    cuda_text(gemv(N, K, threads, rows))


@pytest.mark.parametrize("bound", ["named", "loop"])
def test_thread_allreduce_along_a_bound_variable(bound):
    @T.macro
    def fold(A, B, tx):
        out = T.alloc_local((1,), "int32")
        with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), A[tx], True, out[0], tx, dtype="handle"))
        B[tx] = out[0]

    @T.prim_func
    def main(A: T.Tensor((48,), "int32"), B: T.Tensor((48,), "int32")):
        with T.Kernel(1, threads=48):
            if bound == "named":
                tx = T.thread_binding(0, 48, thread="threadIdx.x")
                fold(A, B, tx)
            else:
                for tx in T.thread_binding(48, "threadIdx.x"):
                    fold(A, B, tx)

    a, b = np.random.default_rng(0).integers(-9, 9, 48).astype(np.int32), np.zeros(48, np.int32)
    simulate(main, a, b)
    assert (b == a.sum()).all()
    cuda_text(main)


def test_thread_allreduce_along_y():
    @T.prim_func
    def main(A: T.Tensor((6, 32), "int32"), B: T.Tensor((6, 32), "int32")):
        with T.Kernel(1, threads=(32, 6)):
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            out = T.alloc_local((1,), "int32")
            with T.attr(T.comm_reducer(lambda x, y: T.max(x, y), [T.min_value("int32")]), "reduce_scope", 0):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), A[ty, tx], ty != 2, out[0], ty))
            B[ty, tx] = out[0]

    a, b = np.random.default_rng(0).integers(-9, 9, (6, 32)).astype(np.int32), np.zeros((6, 32), np.int32)
    simulate(main, a, b)
    assert np.array_equal(b, np.tile(np.delete(a, 2, 0).max(0), (6, 1)))
    cuda_text(main)


# ── faults ────────────────────────────────────────────────────────────────────────────────────────────
FAULTS = {
    "not in its mask": ("B[tx] = T.shfl_sync(A[tx], 0, mask=0xFFFF)", "which does not contain it: bit 16"),
    "does not arrive": ("if tx < 16:\n    B[tx] = T.shfl_sync(A[tx], 0)", "thread 16 of block (0) of main,"),
}
REFUSED = {
    "width": ("B[tx] = T.shfl_sync(A[tx], 0, width=12)", "a power of two, at most 64"),
    "a number": ("B[tx] = T.shfl_xor(1.0, 2)", "the same in all threads"),
    "integers": ("B[tx] = T.warp_reduce_bitor(A[tx])", "takes integers, not float32"),
    "dtype": ("B[tx] = T.ballot(A[tx] > 1, 'int32')", "the bits of a uint32, or of a uint64"),
    "match": ("B[tx] = T.match_any_sync(T.cast(A[tx], 'float16'))", "32 or 64 bits"),
    "scope": ("T.tvm_thread_allreduce(1, A[tx], True, B[0], tx)", "outside `with T.attr"),
}


def function_of(folder, body):
    lines = "\n".join("        " + line for line in ("tx = T.get_thread_binding()\n" + body).split("\n"))
    path = folder / "faulty.py"
    path.write_text(
        "import tilelang.language as T\n@T.prim_func\n"
        "def main(A: T.Tensor((32,), 'float32'), B: T.Tensor((32,), 'float32')):\n"
        f"    with T.Kernel(1, threads=32):\n{lines}\n"
    )
    return load(path).main


@pytest.mark.parametrize("case", FAULTS)
def test_faults(tmp_path, case):
    body, text = FAULTS[case]
    with pytest.raises(tilelang.CompileError, match=re.escape(text)):
        simulate(function_of(tmp_path, body), np.ones(32, np.float32), np.ones(32, np.float32))


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    body, text = REFUSED[case]
    with pytest.raises(tilelang.CompileError, match=re.escape(text)) as caught:
        function_of(tmp_path, body)
    assert caught.value.line == 6


# ── values that are the same in all threads ──────────────────────────────────────────────────────────
def test_votes_of_numbers():
    @T.prim_func
    def main(B: T.Tensor((9, 32), "int64"), F: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            odd = T.if_then_else(tx % 2 == 1, 0xAAAAAAAA, 0x55555555)
            B[0, tx] = T.match_all_sync(7)
            B[1, tx] = T.match_any_sync(2.5)
            B[2, tx] = T.any_sync(2)
            B[3, tx] = T.all_sync(0)
            B[4, tx] = T.ballot_sync(True)
            B[5, tx] = T.warp_reduce_sum(3)
            B[6, tx] = T.warp_reduce_max(1 << 40)
            B[7, tx] = T.warp_reduce_bitor(5)
            B[8, tx] = T.match_all_sync(1, mask=T.cast(odd, "uint32"))
            F[tx] = T.warp_reduce_sum(0.5)

    b, f = np.zeros((9, 32), np.int64), np.zeros(32, np.float32)
    simulate(main, b, f)
    full = 0xFFFFFFFF
    for row, want in enumerate([full, full, 1, 0, full, 96, 1 << 40, 5]):
        assert (b[row] == want).all(), row
    assert np.array_equal(b[8], np.where(np.arange(32) % 2 == 1, 0xAAAAAAAA, 0x55555555)) and (f == 16).all()
    cuda_text(main)


@pytest.mark.parametrize("call, says", [
    ("shfl_sync(0xFFFFFFFF, x, 3)", "the value is the number 4294967295, the same in all threads"),
    ("shfl_sync(0xFFFFFFFF, x, lane, 32)", "the value is the number 4294967295, the same in all threads"),
    ("shfl_down(0xFFFFFFFF, x, 16)", "the value is the number 4294967295, the same in all threads"),
    ("shfl_sync(mask, x, 3)", "the lane is float32, not an integer"),
    ("shfl_xor(mask, x, 3)", "the distance is float32, not an integer"),
    ("shfl_up(mask, lane, lane)", "width must be an integer known while the kernel is built"),
    ("shfl_up(mask, lane, 5)", "width is 5; it must be a power of two"),
])  # fmt: skip
def test_shuffles_in_the_order_of_cuda_are_refused(tmp_path, call, says):
    body = "x, lane, mask = T.cast(tx, 'float32'), T.cast(tx, 'int32'), T.activemask()\n"
    with pytest.raises(tilelang.CompileError, match=says) as error:
        function_of(tmp_path, body + f"B[tx] = T.cast(T.{call}, 'int32')")
    assert "; the order is (value, " in str(error.value) and "the mask comes last" in str(error.value)


@pytest.mark.parametrize("vote", ["any_sync", "all_sync", "ballot_sync", "match_any_sync", "match_all_sync"])
def test_masks_in_front_are_refused(tmp_path, vote):
    """As CUDA has them."""
    with pytest.raises(tilelang.CompileError, match="a mask of all lanes; the order is"):
        function_of(tmp_path, f"B[tx] = T.{vote}(0xFFFFFFFF, T.cast(tx, 'int32'))")
