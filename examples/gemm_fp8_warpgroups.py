"""C = A @ B.T in float8 (e4m3) on Hopper, by hand, with sums that keep float32's precision.

Tensor cores sum products of 8-bit floats to fewer bits than float32 has. So each product of 128 columns of A
and B begins from 0, and threads add its result to the sum in float32 (promotion). The two consumers begin
their products in turns, so that one adds while the other one's product runs. Else the parts are those of
gemm_warpgroups.py: a producer, two consumers, slots.

Usage:
    python examples/gemm_fp8_warpgroups.py [--target auto|cuda|sim:sm_90a] [--m M] [--n N] [--k K]
"""

import harness
import ml_dtypes
import numpy as np
import tilelang
import tilelang.language as T

SMALL = {"m": 200, "n": 272, "k": 336, "blocks": 3}


@tilelang.jit(out_idx=[-1])
def gemm(M, N, K, promote=True, block_N=192, slots=4, blocks=132, group=12):
    """promote: False leaves the sum to the tensor cores, as torch._scaled_mm(use_fast_accum=True) does."""
    block_M, block_K, part = 128, 128, 64
    rows, columns, steps = (
        -(-extent // block) for extent, block in ((M, block_M), (N, block_N), (K, block_K))
    )
    tiles, parts = rows * columns, block_N // part
    producer, consumers, turn = 2, (0, 1), (8, 9)  # turn: named barriers
    height = block_M // len(consumers)  # of a consumer's share of a tile

    @T.macro
    def place(tile):
        first = tile // (group * columns) * group
        tall = T.min(rows - first, group)
        inside = tile - first * columns
        return first + inside % tall, inside // tall

    @T.macro
    def add_product(A_shared, B_shared, product, C_local, full, empty, c, i, last):
        s = i % slots
        T.barrier_wait(full[s], i // slots % 2)
        T.sync_threads(turn[c], 256)
        T.wgmma_gemm(
            A_shared[s, c * height : (c + 1) * height, :],
            B_shared[s, :, :],
            product,
            transpose_B=True,
            clear_accum=True,
        )
        if c == 0 or not last:
            T.named_barrier_arrive(turn[1 - c], 256)
        T.wait_wgmma(0)
        if T.get_thread_binding() % 32 == 0:
            T.barrier_arrive(empty[s])
        for y, x in T.Parallel(height, block_N):
            C_local[y, x] += product[y, x]

    @T.macro
    def multiply(A_shared, B_shared, C_local, full, empty, c, i, k):
        s, lane = i % slots, T.get_thread_binding() % 32
        T.barrier_wait(full[s], i // slots % 2)
        T.wgmma_gemm(
            A_shared[s, c * height : (c + 1) * height, :],
            B_shared[s, :, :],
            C_local,
            transpose_B=True,
            clear_accum=(k == 0),
        )
        T.wait_wgmma(1)
        if k > 0 and lane == 0:
            T.barrier_arrive(empty[(i - 1) % slots])

    @T.macro
    def finish(empty, i):
        T.wait_wgmma(0)
        if T.get_thread_binding() % 32 == 0:
            T.barrier_arrive(empty[i % slots])

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float8_e4m3fn"),
        B: T.Tensor((N, K), "float8_e4m3fn"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(blocks, threads=384) as block:
            A_shared = T.alloc_shared((slots, block_M, block_K), "float8_e4m3fn")
            B_shared = T.alloc_shared((slots, block_N, block_K), "float8_e4m3fn")
            C_shared = T.alloc_shared((len(consumers), 2, height, part), "bfloat16")
            full = T.alloc_barrier([4] * slots)
            empty = T.alloc_barrier([4 * len(consumers)] * slots)
            count = T.ceildiv(tiles - block, blocks)  # of this block

            with T.ws(producer):
                T.set_max_nreg(24, 0)
                for t in T.serial(count):
                    row, column = place(block + t * blocks)
                    for k in T.serial(steps):
                        i = t * steps + k
                        s = i % slots
                        T.barrier_wait(empty[s], (i // slots + 1) % 2)
                        T.tma_copy(A[row * block_M, k * block_K], A_shared[s, :, :], barrier=full[s])
                        T.tma_copy(B[column * block_N, k * block_K], B_shared[s, :, :], barrier=full[s])
                        if T.get_thread_binding() % 32 == 0:
                            T.barrier_arrive(full[s])

            for c in consumers:
                with T.ws(c):
                    T.set_max_nreg(240, 1)
                    C_local = T.alloc_fragment((height, block_N), "float32")
                    product = T.alloc_fragment((height, block_N), "float32")
                    if promote and c == 1:
                        T.named_barrier_arrive(turn[0], 256)
                    for t in T.serial(count):
                        row, column = place(block + t * blocks)
                        if promote:
                            T.clear(C_local)
                        for k in T.serial(steps):
                            i = t * steps + k
                            if promote:
                                last = i == count * steps - 1
                                add_product(A_shared, B_shared, product, C_local, full, empty, c, i, last)
                            else:
                                multiply(A_shared, B_shared, C_local, full, empty, c, i, k)
                        if not promote:
                            finish(empty, t * steps + steps - 1)
                        for p in T.unroll(parts):
                            b = (t * parts + p) % 2
                            T.tma_store_wait(1)  # the part before the last has left its buffer
                            T.copy(C_local[:, p * part : (p + 1) * part], C_shared[c, b, :, :])
                            y, x = row * block_M + c * height, column * block_N + p * part
                            T.tma_copy(C_shared[c, b, :, :], C[y, x])
                    T.tma_store_wait(0)

    return main


def cases(kind, m=1000, n=1304, k=704, blocks=132):
    rng = np.random.default_rng(0)
    for promote in (True, False):
        a, b = (rng.standard_normal(s).astype(ml_dtypes.float8_e4m3fn) for s in ((m, k), (n, k)))
        expected = a.astype(np.float64) @ b.astype(np.float64).T
        arguments = [a, b, harness.blank((m, n), "bfloat16")]
        kernel = gemm.get_tir(m, n, k, promote, blocks=blocks)
        name = f"{m} x {n} x {k}{', promoted' if promote else ''}"
        yield harness.Case(name, kernel, arguments, {2: expected}, 4e-3, True, chips=("sm_90a",))


if __name__ == "__main__":
    harness.main(__doc__, cases)
