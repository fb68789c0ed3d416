"""Hadamard transform by threads: within a thread, within a warp by shuffles, among warps by shared memory."""

import argparse
import math

import tilelang
import tilelang.language as T
import torch
from tilelang.intrinsics import make_mma_swizzle_layout


def is_pow_of_2(n):
    return isinstance(n, int) and n > 0 and (n & (n - 1)) == 0


@tilelang.jit(out_idx=[1])
def hadamard(b, n, dtype):
    assert is_pow_of_2(n), "n must be a power of 2"
    logN = int(math.log2(n))
    threads = [0, 1, 1, 1, 2, 4, 8, 16, 32, 32, 128][logN]
    thread_elem = n // threads
    thread_round = int(math.log2(thread_elem))
    warps = 1 if threads <= 32 else threads // 32
    warp_round = int(math.log2(threads / warps))
    warp_size = threads // warps
    exchange_round = int(math.log2(warps))

    @T.macro
    def warp_shfl(
        local: T.LocalBuffer((thread_elem,), dtype), buf: T.LocalBuffer((thread_elem,), dtype), round: int
    ):
        tx = T.get_thread_binding(0)
        for i in T.serial(round):
            tx_stride = 1 << i
            another_tx = tx ^ tx_stride
            sign = (
                tx >> i
            ) & 1  # get i-th lowest bit of tx, which determines the operation type for shared[tx, :]
            for j in T.Pipelined(thread_elem, num_stages=1):
                buf[j] = T.tvm_warp_shuffle(
                    0xFFFFFFFF, local[j], another_tx % warp_size, warp_size, warp_size
                )
                local[j] = T.if_then_else(sign == 0, local[j] + buf[j], buf[j] - local[j])

    @T.prim_func
    def main(A: T.Tensor((b, n), dtype), B: T.Tensor((b, n), dtype)):
        with T.Kernel(b, threads=threads) as bx:
            local = T.alloc_local((thread_elem,), dtype)
            buf = T.alloc_local((thread_elem,), dtype)
            shared = T.alloc_shared((threads, thread_elem), dtype)
            T.annotate_layout({shared: make_mma_swizzle_layout(shared)})
            tx = T.get_thread_binding(0)

            # 1. Load from HBM to registers, and the rounds within a thread.
            for i in T.vectorized(thread_elem):
                local[i] = A[bx, tx * thread_elem + i]
            for i in T.serial(thread_round):
                chunksize = 1 << (i + 1)
                chunknum = thread_elem // chunksize
                for j in T.serial(chunknum):
                    chunkbase = j * chunksize
                    for k in T.serial(chunksize // 2):
                        local[chunkbase + k] = local[chunkbase + k] + local[chunkbase + k + chunksize // 2]
                        local[chunkbase + k + chunksize // 2] = (
                            local[chunkbase + k] - 2 * local[chunkbase + k + chunksize // 2]
                        )

            # 2. The rounds within a warp.
            warp_shfl(local, buf, warp_round)

            # 3. The rounds among warps: what differs in the number of the warp meets in one thread.
            for i in T.serial(exchange_round):
                another = tx ^ (32 << i)
                sign = (tx >> (5 + i)) & 1
                for j in T.serial(thread_elem):
                    shared[tx, j] = local[j]
                T.sync_threads()
                for j in T.serial(thread_elem):
                    local[j] = T.if_then_else(
                        sign == 0, local[j] + shared[another, j], shared[another, j] - local[j]
                    )
                T.sync_threads()

            for i in T.vectorized(thread_elem):
                B[bx, tx * thread_elem + i] = local[i]

    return main


def ref_program(x: torch.Tensor):
    n = x.shape[-1]
    H = torch.ones(1, 1, dtype=x.dtype, device=x.device)
    while H.shape[0] < n:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)], 0)
    return x @ H.T


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=2, help="Batch size")
    parser.add_argument("--dim", type=int, default=1024, help="Dimension")
    args = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for D in (16, 256, args.dim):
        x = torch.randn((args.batch, D), device=device)
        y = hadamard(args.batch, D, T.float32)(x)
        torch.testing.assert_close(y, ref_program(x), atol=1e-2, rtol=1e-2)
    print("All tests passed.")


if __name__ == "__main__":
    main()
