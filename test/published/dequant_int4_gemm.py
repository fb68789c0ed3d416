"""W4A16: weights of four bits, two to a byte, become float16 by shifts and T.reinterpret."""

import tilelang
import tilelang.language as T
import torch
from tilelang.quantize import _tir_packed_to_unsigned_convert


def int4_to_half(value: tilelang.tvm.tirx.PrimExpr, pos: tilelang.tvm.tirx.PrimExpr, dtype: str):
    """The bits of 1024 + n are 0x6400 | n."""
    assert dtype == "float16" and value.dtype == "uint8"
    nibble = (value >> (pos * T.uint8(4))) & T.uint8(0xF)
    bits = T.uint16(0x6400) | nibble.astype("uint16")
    return T.reinterpret(bits, dtype) - T.float16(1032)


@tilelang.jit(out_idx=[-1])
def matmul_bits(
    M,
    N,
    K,
    in_dtype=T.float16,
    out_dtype=T.float16,
    accum_dtype=T.float32,
    block_M=16,
    block_N=32,
    block_K=32,
    threads=128,
):
    num_elems_per_byte = 2
    storage_dtype = T.uint8
    B_shape = (N, K // num_elems_per_byte)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), in_dtype), B: T.Tensor(B_shape, storage_dtype), C: T.Tensor((M, N), out_dtype)
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K // num_elems_per_byte), storage_dtype)
            B_local = T.alloc_fragment((block_N, block_K // num_elems_per_byte), storage_dtype)
            B_dequantize_local = T.alloc_fragment((block_N, block_K), in_dtype)
            B_dequantize_shared = T.alloc_shared((block_N, block_K), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // num_elems_per_byte], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    B_dequantize_local[i, j] = int4_to_half(
                        B_local[i, j // num_elems_per_byte], j % num_elems_per_byte, dtype=in_dtype
                    )
                T.copy(B_dequantize_local, B_dequantize_shared)
                T.gemm(A_shared, B_dequantize_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def matmul_converted(M, N, K, num_bits=4, in_dtype="float16", block_M=16, block_N=32, block_K=32):
    num_elems_per_byte = 8 // num_bits
    convert = _tir_packed_to_unsigned_convert("int", 8)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), in_dtype),
        B: T.Tensor((N, K // num_elems_per_byte), "int8"),
        C: T.Tensor((M, N), in_dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), in_dtype)
            B_shared = T.alloc_shared((block_N, block_K // num_elems_per_byte), "int8")
            B_local = T.alloc_fragment((block_N, block_K), in_dtype)
            B_prev = T.alloc_shared((block_N, block_K), in_dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=1):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // num_elems_per_byte], B_shared)
                for i, j in T.Parallel(block_N, block_K):
                    B_local[i, j] = convert(
                        num_bits, B_shared[i, j // num_elems_per_byte], j % num_elems_per_byte, dtype=in_dtype
                    )
                T.copy(B_local, B_prev)
                T.gemm(A_shared, B_prev, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def torch_convert(packed):
    low, high = packed & 0xF, packed.to(torch.uint8) >> 4
    return torch.stack([low, high], dim=-1).reshape(packed.shape[0], -1)


def main(M=24, N=64, K=96):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    packed = torch.randint(0, 256, (N, K // 2), device=device, dtype=torch.uint8)
    unpacked = torch_convert(packed).float()
    ref = a.float() @ (unpacked - 8).T
    torch.testing.assert_close(matmul_bits(M, N, K)(a, packed).float(), ref, rtol=1e-2, atol=0.5)
    ref = a.float() @ unpacked.T
    got = matmul_converted(M, N, K)(a, packed.view(torch.int8))
    torch.testing.assert_close(got.float(), ref, rtol=1e-2, atol=1.0)
    print("All checks pass.")


if __name__ == "__main__":
    main()
