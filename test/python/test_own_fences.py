"""Fences of the asynchronous proxy where the thread that wrote a tile has the accelerator move it itself."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

ONCE = "fence_proxy_async"


@pytest.mark.parametrize("threads", [1, 32])
def test_blocks_of_few_threads(threads):
    @T.prim_func
    def main(Z: T.Tensor((2, 3, 12), "int32")):
        with T.Kernel(2, threads=threads) as g:
            s = T.alloc_shared((12,), "int32")
            for k in T.serial(3):
                T.fill(s, k + g)
                T.copy(s, Z[g, k, 0:12])

    z = np.full((2, 3, 12), -1, np.int32)
    tilelang.compile(main, target="sim:sm_90a")(z)
    np.testing.assert_array_equal(z, np.broadcast_to(np.add.outer([0, 1], [0, 1, 2])[..., None], z.shape))
    text = tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source()
    assert ("cp_async_bulk" in text) == (ONCE in text) == (threads == 1)


def test_one_thread_of_many():
    @T.prim_func
    def main(C: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((4, 64), "float32")
            if T.get_thread_binding() == 0:
                for i in T.serial(4):
                    for j in T.serial(64):
                        s[i, j] = i * 64 + j
                T.tma_copy(s, C)
                T.tma_store_wait(0)

    c = np.zeros((4, 64), np.float32)
    tilelang.compile(main, target="sim:sm_90a")(c)
    np.testing.assert_array_equal(c.ravel(), np.arange(256))
    assert (
        tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source().count(ONCE + "_shared();") == 1
    )


def test_the_programs_own_fence_is_enough():
    @T.prim_func
    def main(C: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            if T.get_thread_binding() == 0:
                for i in T.serial(64):
                    s[i] = i
                T.fence_proxy_async()
                T.tma_copy(s, C)
                T.tma_store_wait(0)

    text = tilelang.compile(main, target="cuda -arch=sm_90a").get_kernel_source()
    assert text.split("main_kernel")[1].count("fence_proxy_async") == 1
