"""GEMMs with weights of 4 bits in the published package's style: through shared memory, and in registers."""

import dequant_gemm
import gemm_w4a16
import numpy as np
import tilelang
import tilelang.language as T

from .program import Case, Tensor, blank

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def int4_to_half(value, pos, dtype):
    """The bits of 1024 + n are 0x6400 | n."""
    nibble = (value >> (pos * T.uint8(4))) & T.uint8(0xF)
    return T.reinterpret(T.uint16(0x6400) | nibble.astype("uint16"), dtype) - T.float16(1032)


def fp4_to_half(value, pos, dtype):
    """The exponent of float16 is that of e2m1 plus 14, but for the numbers that have none."""
    f4 = (value >> (pos.astype("uint8") * T.uint8(4))) & T.uint8(0xF)
    s, e, m = f4 >> T.uint8(3), (f4 & T.uint8(6)) >> T.uint8(1), f4 & T.uint8(1)
    sign = s.astype("uint16") << T.uint16(15)
    normal = ((e.astype("uint16") + T.uint16(14)) << T.uint16(10)) | (m.astype("uint16") << T.uint16(9))
    small = T.if_then_else(m == T.uint8(1), T.uint16(0x3800), T.uint16(0))  # 0.5, 0
    return T.reinterpret(sign | T.if_then_else(e == T.uint8(0), small, normal), dtype)


@tilelang.jit(out_idx=[-1])
def matmul_shared(M, N, K, kind, block_M, block_N, block_K, num_stages, threads):
    dtype, convert = "float16", fp4_to_half if kind == "fp4" else int4_to_half

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K // 2), "uint8"), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_dequantize_local = T.alloc_fragment((block_N, block_K), dtype)
            B_dequantize_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // 2], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    B_dequantize_local[i, j] = convert(B_local[i, j // 2], j % 2, dtype)
                T.copy(B_dequantize_local, B_dequantize_shared)
                T.gemm(A_shared, B_dequantize_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@tilelang.jit(out_idx=[-1])
def matmul_registers(M, N, K, kind, block_M, block_N, block_K, num_stages, threads):
    """C is made transposed, as only the first operand of a product may be in registers."""
    dtype, convert = "float16", fp4_to_half if kind == "fp4" else int4_to_half

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K // 2), "uint8"), Ct: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_dequantize_local = T.alloc_fragment((block_N, block_K), dtype)
            B_dequantize_prev_local = T.alloc_fragment((block_N, block_K), dtype)
            Ct_local = T.alloc_fragment((block_N, block_M), "float")
            Ct_shared = T.alloc_shared((block_N, block_M), dtype)
            T.clear(Ct_local)
            for k in T.Pipelined(K // block_K, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // 2], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    B_dequantize_local[i, j] = convert(B_local[i, j // 2], j % 2, dtype)
                T.copy(B_dequantize_local, B_dequantize_prev_local)
                T.gemm(B_dequantize_prev_local, A_shared, Ct_local, transpose_B=True)
            T.copy(Ct_local, Ct_shared)
            T.copy(Ct_shared, Ct[bx * block_N, by * block_M])

    return main


def codes_of(packed):
    packed = packed.astype(np.int64)
    return np.stack([packed & 15, packed >> 4], -1).reshape(packed.shape[0], -1)


def bytes_exact(kind, is_transposed):
    def exact(a, packed, out):
        codes = codes_of(packed)
        c = a @ (E2M1[codes] if kind == "fp4" else codes - 8.0).T
        return {2: c.T if is_transposed else c}

    return exact


def scaled_exact(a, packed, scales, table, out):
    values = table[codes_of(packed)] * np.repeat(scales, packed.shape[1] * 2 // scales.shape[1], 1)
    return {4: a @ values.T}


def words_exact(a, words, scales, out):
    """Of gemm_w4a16, whose words hold the codes as the tensor core takes them."""
    k, n = 16 * words.shape[0], words.shape[1] // 2
    words = words.astype(np.int64).reshape(k // 16, n // 16, 8, 4)
    codes = np.empty((k // 16, 2, 4, 2, n // 16, 2, 8))
    for below, second, right in np.ndindex(2, 2, 2):
        part = words >> (4 * below + 16 * second + 8 * right) & 15
        codes[:, below, :, second, :, right, :] = (part - 8).transpose(0, 3, 1, 2)
    return {3: a @ (codes.reshape(k, n) * np.repeat(scales, k // scales.shape[0], 0))}


def thin_cases(n, k):
    """Of few rows, with tiles lower than the 64 rows of a warpgroup's instruction."""
    for m, block_N, threads in ((16, 64, 128), (16, 128, 128), (32, 128, 128)):
        arguments = [Tensor((m, k), high=0.1), Tensor((n, k // 2), "uint8", "ints", 0, 256), blank(m, n)]
        label = f"m {m}, int4, {m}x{block_N}x64, 4 stages, {threads} threads, shared"
        sizes = (m, n, k, "int4", m, block_N, 64, 4, threads)
        yield Case("dequant", label, matmul_shared, sizes, arguments, bytes_exact("int4", False))


def own_cases(m, n, k):
    arguments = [Tensor((m, k), high=0.1), Tensor((n, k // 2), "uint8", "ints", 0, 256)]
    for kind, stages, threads in (("int4", 3, 256), ("int4", 4, 256), ("int4", 3, 128), ("fp4", 3, 256)):
        tiles = f"m {m}, {kind}, 128x128x64, {stages} stages, {threads} threads"
        sizes = (m, n, k, kind, 128, 128, 64, stages, threads)
        for how, factory in (("shared", matmul_shared), ("registers", matmul_registers)):
            is_transposed = how == "registers"
            out = blank(n, m) if is_transposed else blank(m, n)
            exact = bytes_exact(kind, is_transposed)
            yield Case("dequant", f"{tiles}, {how}", factory, sizes, [*arguments, out], exact)


def example_cases(m, n, k):
    a, group = Tensor((m, k), high=0.1), 128
    packed, scale = Tensor((n, k // 2), "uint8", "ints", 0, 256), {"kind": "uniform", "low": 0.5, "high": 1.5}
    for kind in ("int4", "e2m1"):
        table = Tensor((16,), "float32", "given", value=dequant_gemm.VALUES[kind])
        arguments = [a, packed, Tensor((n, k // group), **scale), table, blank(m, n)]
        sizes = (m, n, k, kind, group, 128, 128, 64, 256)
        label = f"m {m}, example {kind}, 128x128x64, 256 threads"
        yield Case("dequant", label, dequant_gemm.dequant_gemm, sizes, arguments, scaled_exact)
    words = Tensor((k // 16, 2 * n), "uint32", "ints", 0, 2**31)
    arguments = [a, words, Tensor((k // group, n), **scale), blank(m, n)]
    for tile in ((128, 128, 64, 4, 128), (128, 128, 64, 3, 256), (128, 256, 64, 3, 256)):
        label = "m {}, example w4a16, {}x{}x{}, {} stages, {} threads".format(m, *tile)
        sizes = (m, n, k, group, *tile)
        yield Case("dequant", label, gemm_w4a16.gemm_w4a16, sizes, arguments, words_exact)


def cases(small):
    yield from thin_cases(*((256, 384) if small else (8192, 8192)))
    for m in (128,) if small else (128, 4096):
        n, k = (256, 384) if small else (8192, 8192)
        yield from own_cases(m, n, k)
        yield from example_cases(m, n, k)
