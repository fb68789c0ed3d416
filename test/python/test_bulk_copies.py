"""Copies of bytes by the tensor memory accelerator (T.ptx_cp_async_bulk)."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure


@pytest.mark.parametrize("by_number", [True, False])
def test_rows_of_a_tensor(by_number):
    @T.prim_func
    def main(A: T.Tensor((4, 256), "float32"), B: T.Tensor((4, 128), "float32")):
        with T.Kernel(4, threads=64) as bx:
            t = T.get_thread_binding()
            S = T.alloc_shared((2, 128), "float32")
            bars = T.create_barriers(2)
            if t == 0:
                T.ptx_arrive_barrier_expect_tx(1, 512)
                T.ptx_cp_async_bulk("float32", S.data, 128, A.data, 256 * bx + 64, 256, 1)
                if by_number:
                    T.ptx_cp_async_bulk("float32", T.access_ptr(S[1, 64], "w"), 0, A, 256 * bx + 128, 256, 1)
                else:
                    T.ptx_cp_async_bulk("float32", S, 192, T.access_ptr(A[bx, 128]), 0, 256, bars[1])
            T.ptx_wait_barrier(1)
            for i in T.Parallel(128):
                B[bx, i] = S[1, i]

    a, b = np.random.default_rng(0).random((4, 256), np.float32), np.zeros((4, 128), np.float32)
    kernel = tilelang.compile(main, target="sim:sm_90")
    assert not kernel.simulate(a, b, schedules=5).findings and np.array_equal(b, a[:, 64:192])
    assert kernel._kernel.machine_text.count("cp_async_bulk_load(") == 2


BEGIN = """
S = T.alloc_shared((64, 8), "float32")
full = T.create_barriers(1)
"""
ERRORS = {
    "T.ptx_cp_async_bulk('float32', A, 0, A, 0, 16, 0)": "shared_ptr is a shared buffer, its .data",
    "T.ptx_cp_async_bulk('float32', S, 0, S, 0, 16, 0)": "global_ptr is a tensor, its .data",
    "T.ptx_cp_async_bulk('float16', S, 0, A, 0, 16, 0)": "dtype is float16, but S is float32",
    "T.ptx_cp_async_bulk('float32', S, 0, A, 0, 24, 0)": "bytes is a multiple of 16, at least 16, not 24",
    "T.ptx_cp_async_bulk('float32', S, 0, A, 0, 16, S)": "barrier_id is a barrier of T.alloc_barrier",
}


@pytest.mark.parametrize("body", ERRORS)
def test_errors(tmp_path, body):
    assert ERRORS[body] in str(failure(tmp_path, BEGIN + body))
