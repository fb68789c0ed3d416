"""AMD's gfx942 in the simulator: warps of 64 threads, no matrix instructions."""

import harness
import numpy as np
import pytest
import tilelang
import tilelang.language as T

TARGET = "sim:gfx942"


def rows_summed(pause):
    """Each of 64 rows by a warp, through shared memory and back; `pause` stands between the two."""

    @T.prim_func
    def main(A: T.Tensor((64, 128), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            X = T.alloc_shared((256,), "float32")
            for r in T.serial(16):
                row = r * 4 + tx // 64
                X[tx] = A[row, tx % 64] + A[row, tx % 64 + 64]
                pause()
                v = T.warp_reduce_sum(X[tx // 64 * 64 + 63 - tx % 64])
                if tx % 64 == 0:
                    B[row] = v
                pause()

    return main


def test_a_warp_is_64_threads():
    a = np.random.default_rng(1).standard_normal((64, 128)).astype("float32")
    b = np.full(64, np.nan, "float32")
    for seed in range(20):
        tilelang.compile(rows_summed(T.sync_warp), target=TARGET).simulate(a, b, seed=seed)
        assert np.abs(b - a.sum(1)).max() <= 1e-4


def test_races_are_told_by_warps_of_64():
    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            X = T.alloc_shared((128,), "float32")
            X[tx] = A[tx]
            T.sync_warp()
            B[tx] = X[(tx + 64) % 128]

    a, b = np.zeros(128, "float32"), np.zeros(128, "float32")
    own = {"tl.disable_thread_storage_sync": True}
    kernel = tilelang.compile(main, target=TARGET, pass_configs=own)
    with pytest.raises(tilelang.SimulationError, match="data race on X"):
        kernel.simulate(a, b)


@pytest.mark.parametrize("columns", [48, 64])
def test_layouts_suit_the_banks_of_loads_and_stores(columns):
    """Stores of 8 bytes are served for 16 lanes at once, loads for 32: no layout suits one count for both."""

    @T.prim_func
    def main(A: T.Tensor((columns, 16), "float64"), B: T.Tensor((16, columns), "float64")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((16, columns), "float64")
            for i, j in T.Parallel(columns, 16):
                S[j, i] = A[i, j]
            for i, j in T.Parallel(16, columns):
                B[i, j] = S[i, j]

    a, b = np.random.default_rng(0).random((columns, 16)), np.zeros((16, columns))
    count, least = tilelang.compile(main, target=TARGET).simulate(a, b, count=True).requests("shared")
    assert np.array_equal(b, a.T) and count == least


@T.prim_func
def votes(A: T.Tensor((128,), "int32"), I: T.Tensor((2, 128), "int32"), U: T.Tensor((5, 128), "uint64")):
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding()
        x = A[tx]
        I[0, tx] = T.any_sync(x > 6)
        I[1, tx] = T.all_sync(x > 1)
        U[0, tx] = T.ballot(x > 4, dtype="uint64")
        U[1, tx] = T.match_any_sync(x, dtype="uint64")
        U[2, tx] = T.match_all_sync(x, dtype="uint64")
        U[3, tx] = T.activemask("uint64")
        if tx % T.warp_size() < 40:
            U[4, tx] = T.ballot_sync(x > 4, (1 << 40) - 1, "uint64")
        else:
            U[4, tx] = T.activemask("uint64")


def test_votes_of_64_lanes():
    a = np.random.default_rng(0).integers(2, 9, 128).astype(np.int32)
    a[64:], a[3] = 7, 1
    i, u = np.full((2, 128), -1, np.int32), np.zeros((5, 128), np.uint64)
    tilelang.compile(votes, target=TARGET).simulate(a, i, u)
    bits = lambda yes: np.uint64(sum(1 << lane for lane in range(64) if yes[lane]))
    every, low = np.uint64((1 << 64) - 1), np.uint64((1 << 40) - 1)
    for warp in range(2):
        s = slice(64 * warp, 64 * warp + 64)
        x = a[s]
        assert (i[0, s] == (x > 6).any()).all() and (i[1, s] == (x > 1).all()).all()
        assert (u[0, s] == bits(x > 4)).all() and np.array_equal(u[1, s], [bits(x == v) for v in x])
        assert (u[2, s] == (every if (x == x[0]).all() else 0)).all() and (u[3, s] == every).all()
        assert (u[4, s][:40] == bits(x > 4) & low).all() and (u[4, s][40:] == every - low).all()


@pytest.mark.parametrize("statement, why", [
    ("B[tx] = T.ballot(A[tx] > 1)", "a warp of gfx942 has 64; ask for 64: dtype='uint64'"),
    ("B[tx] = T.match_any_sync(A[tx])", "a warp of gfx942 has 64; ask for 64: dtype='uint64'"),
    ("B[tx] = T.match_all_sync(A[tx])", "a warp of gfx942 has 64; ask for 64: dtype='uint64'"),
    ("B[tx] = T.activemask()", "a warp of gfx942 has 64; ask for 64: dtype='uint64'"),
    ("B[tx] = T.any_sync(A[tx] > 1, 0xFFFFFFFF)", "thread 32 .* does not contain it: bit 32"),
    ("B[tx] = T.shfl_xor(A[tx], 1, mask=0xFFFFFFFF)", "thread 32 .* does not contain it: bit 32"),
])  # fmt: skip
def test_32_bits_are_not_all_lanes(statement, why, tmp_path):
    text = f"""
import tilelang.language as T
@T.prim_func
def main(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "uint32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        {statement}
"""
    file = tmp_path / "kernel.py"
    file.write_text(text)
    space = {"__name__": "kernel", "__file__": str(file)}
    exec(compile(text, str(file), "exec"), space)
    a, b = np.zeros(64, np.int32), np.zeros(64, np.uint32)
    with pytest.raises((tilelang.CompileError, tilelang.SimulationError), match=why) as caught:
        tilelang.compile(space["main"], target=TARGET).simulate(a, b)
    assert "kernel.py:7" in str(caught.value)


def test_shuffles_reach_across_all_lanes():
    @T.prim_func
    def main(A: T.Tensor((128,), "int32"), B: T.Tensor((3, 128), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            B[0, tx] = T.shfl_xor(A[tx], 32)
            B[1, tx] = T.shfl_xor(A[tx], 3, 64)
            B[2, tx] = T.shfl_sync(A[tx], T.warp_size() - 1)

    a, b = np.arange(128, dtype=np.int32), np.zeros((3, 128), np.int32)
    tilelang.compile(main, target=TARGET).simulate(a, b)
    assert np.array_equal(b, [a ^ 32, a ^ 3, a | 63])
    with pytest.raises(tilelang.CompileError, match="32 is not a distance within a warp of sm_80"):
        tilelang.compile(main, target="sim:sm_80")


CASES = {case.name: case for case in harness.small_cases("gpu")}


@pytest.mark.parametrize("name", CASES)
def test_examples(name):
    right, said = harness.judge(CASES[name], TARGET)
    assert right, said
