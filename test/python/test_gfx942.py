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


# Code of single threads is written for the warps that it names, of 32 threads.
CASES = {case.name: case for case in harness.small_cases("gpu") if not case.thread_level}


@pytest.mark.parametrize("name", CASES)
def test_examples(name):
    right, said = harness.judge(CASES[name], TARGET)
    assert right, said
