"""Persistent GEMM: as many blocks as the device has multiprocessors, each goes over several tiles."""

import argparse

import tilelang
import tilelang.language as T
import torch
from tilelang.carver.arch import driver


@tilelang.jit(out_idx=[-1])
def matmul_non_persistent(
    M, N, K, block_M, block_N, block_K, threads, num_stages, dtype=T.float16, accum_dtype=T.float32
):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.use_swizzle(10)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[bx * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, by * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[bx * block_M, by * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def matmul_persistent(
    M,
    N,
    K,
    block_M,
    block_N,
    block_K,
    threads,
    num_stages,
    sm_num,
    dtype=T.float16,
    accum_dtype=T.float32,
    use_persistent_primitive=True,
):
    m_blocks, n_blocks = T.ceildiv(M, block_M), T.ceildiv(N, block_N)
    waves = T.ceildiv(m_blocks * n_blocks, sm_num)

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(sm_num, threads=threads) as (block_id):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            for w in T.serial(waves):
                tile_id = sm_num * w + block_id
                bx = tile_id % m_blocks
                by = tile_id // m_blocks
                if by * block_N < N:
                    T.clear(C_local)
                    for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                        T.copy(A[bx * block_M, k * block_K], A_shared)
                        T.copy(B[k * block_K, by * block_N], B_shared)
                        T.gemm(A_shared, B_shared, C_local)
                    T.copy(C_local, C[bx * block_M, by * block_N])

    @T.prim_func
    def main_persistent_primitive(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(sm_num, threads=threads) as (block_id):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            for bx, by in T.Persistent([m_blocks, n_blocks], sm_num, block_id):
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                    T.copy(A[bx * block_M, k * block_K], A_shared)
                    T.copy(B[k * block_K, by * block_N], B_shared)
                    T.gemm(A_shared, B_shared, C_local)
                T.copy(C_local, C[bx * block_M, by * block_N])

    return main_persistent_primitive if use_persistent_primitive else main


@tilelang.jit
def matmul_scheduled(A, B, sm_num: int = 4, block_M: int = 32, block_N: int = 32, block_K: int = 32):
    M, N, K = T.const("M, N, K")
    m_blocks, n_blocks = T.ceildiv(M, block_M), T.ceildiv(N, block_N)
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(sm_num, threads=128) as block_id:
        A_shared = T.alloc_shared((block_M, block_K), T.float16)
        B_shared = T.alloc_shared((block_K, block_N), T.float16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        sched = T.PersistentTileScheduler(m_blocks, n_blocks, sm_num, 2)
        sched.init(block_id)
        while sched.valid():
            bx, by = sched.m_idx, sched.n_idx
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, block_K)):
                T.copy(A[bx * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, by * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[bx * block_M, by * block_N])
            sched.next_tile()
    return C


def ref_program(A, B):
    return A @ B


def main(M=96, N=160, K=64):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    sm_num = driver.get_num_sms() if device == "cuda" else 8
    for primitive in (True, False):
        kernel = matmul_persistent(M, N, K, 32, 32, 32, 128, 2, sm_num, use_persistent_primitive=primitive)
        profiler = kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Randn)
        profiler.assert_allclose(ref_program, rtol=0.01, atol=0.01)
    kernel = matmul_non_persistent(M, N, K, 32, 32, 32, 128, 2)
    kernel.get_profiler(tensor_supply_type=tilelang.TensorSupplyType.Randn).assert_allclose(ref_program)
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(K, N, device=device, dtype=torch.float16)
    torch.testing.assert_close(matmul_scheduled(a, b), a @ b, rtol=1e-2, atol=1e-2)
    print("All check passed.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--M", type=int, default=96, help="M dimension")
    parser.add_argument("--N", type=int, default=160, help="N dimension")
    parser.add_argument("--K", type=int, default=64, help="K dimension")
    args = parser.parse_args()
    main(args.M, args.N, args.K)
