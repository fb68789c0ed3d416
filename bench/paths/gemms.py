"""GEMMs in the published package's style: grouped, of a convolution, with a divided K, of narrow types."""

import convolution
import gemm_fp8
import gemm_grouped
import gemm_int8
import gemm_splitk
import numpy as np
import tilelang
import tilelang.language as T
from tilelang.layout import make_swizzled_layout

from .program import Case, Tensor, blank


@tilelang.jit(out_idx=[3])
def matmul(M, N, K, block_M, block_N, block_K, num_stages, threads, trans_B):
    """With a bias and relu."""
    dtype = "float16"
    B_shape, B_shared_shape = ((N, K), (block_N, block_K)) if trans_B else ((K, N), (block_K, block_N))

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor(B_shape, dtype),
        Bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared(B_shared_shape, dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            C_shared = T.alloc_shared((block_M, block_N), dtype)
            T.use_swizzle(panel_size=10)
            T.annotate_layout({C_shared: make_swizzled_layout(C_shared)})
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], B_shared)
                else:
                    T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=trans_B)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j] + Bias[bx * block_N + j], 0)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return main


def matmul_case(name, size, tile, num_stages, threads, trans_B):
    m, n, k = size

    def exact(a, b, bias, out):
        return {3: np.maximum(a @ (b.T if trans_B else b) + bias, 0)}

    arguments = [Tensor((m, k)), Tensor((n, k) if trans_B else (k, n)), Tensor((n,)), blank(m, n)]
    label = "x".join(map(str, tile))
    label += f", {num_stages} stages, {threads} threads, B {'K' if trans_B else 'N'}-major"
    return Case(name, label, matmul, (*size, *tile, num_stages, threads, trans_B), arguments, exact)


def matmul_cases(small):
    size = (256, 256, 384) if small else (4096, 4096, 4096)
    for block_K, threads in ((32, 128), (32, 256), (64, 128)):
        for trans_B in (False, True):
            yield matmul_case("gemm", size, (128, 128, block_K), 3, threads, trans_B)


def thin_cases(small):
    """Of few rows, with tiles lower than the 64 rows of a warpgroup's instruction."""
    n, k = (256, 384) if small else (8192, 8192)
    for *tile, threads in ((16, 64, 128, 128), (16, 128, 64, 128), (32, 64, 64, 128), (32, 64, 128, 128),
                           (48, 128, 64, 256)):  # fmt: skip
        for trans_B in (False, True):
            yield matmul_case("thin", (tile[0], n, k), tile, 4, threads, trans_B)


@tilelang.jit(out_idx=[2])
def grouped_gemm(batch_sizes_list, K, N, block_M, block_N, block_K, num_stages, threads):
    dtype, batch_count = "float16", len(batch_sizes_list)
    total_m_blocks = sum((size + block_M - 1) // block_M for size in batch_sizes_list)

    @T.prim_func
    def kernel(
        A: T.Tensor([sum(batch_sizes_list), K], dtype),
        B: T.Tensor([batch_count, K, N], dtype),
        C: T.Tensor([sum(batch_sizes_list), N], dtype),
        batch_sizes: T.Tensor([batch_count], "int32"),
        batch_offsets: T.Tensor([batch_count], "int32"),
        batch_padded_offsets: T.Tensor([batch_count], "int32"),
    ):
        with T.Kernel(total_m_blocks, T.ceildiv(N, block_N), threads=threads) as (bx, by):
            A_shared = T.alloc_shared([block_M, block_K], dtype)
            B_shared = T.alloc_shared([block_K, block_N], dtype)
            C_local = T.alloc_fragment([block_M, block_N], "float")
            cur_batch_idx = T.alloc_var(dtype="int32")
            cur_batch_size = T.alloc_var(dtype="int32")

            m_start_padded = bx * block_M
            cur_batch_idx = 0
            for i in range(batch_count):
                in_cur_batch_idx = m_start_padded >= batch_padded_offsets[i]
                cur_batch_idx = T.if_then_else(in_cur_batch_idx, i, cur_batch_idx)
            cur_batch_size = batch_sizes[cur_batch_idx]
            m_start = m_start_padded - batch_padded_offsets[cur_batch_idx] + batch_offsets[cur_batch_idx]
            end = cur_batch_size + batch_padded_offsets[cur_batch_idx]
            actual_rows = T.max(0, T.min(block_M, end - m_start_padded))
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[m_start : m_start + block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(
                    B[cur_batch_idx, k * block_K : (k + 1) * block_K, by * block_N : (by + 1) * block_N],
                    B_shared,
                )
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                if i < actual_rows:
                    C[m_start + i, by * block_N + j] = C_local[i, j]

    return kernel


def products(a, b, sizes):
    parts = np.split(a, np.cumsum(sizes)[:-1])
    return np.concatenate([part @ weights for part, weights in zip(parts, b, strict=True)])


def grouped_cases(small):
    sizes = [150, 10, 96] if small else [1000, 280, 768, 128, 512, 640, 384, 384]
    groups, rows = len(sizes), sum(sizes)
    n, k = (256, 256) if small else (4096, 2048)
    whole = lambda values: Tensor((len(values),), "int32", "given", value=values)
    padded = [-(-size // 128) * 128 for size in sizes]
    offsets = lambda lengths: whole(np.cumsum([0, *lengths[:-1]]).tolist())
    arguments = [Tensor((rows, k)), Tensor((groups, k, n)), blank(rows, n)]
    tables = [whole(sizes), offsets(sizes), offsets(padded)]
    exact = lambda a, b, out, *tables: {2: products(a, b, sizes)}
    for threads in (128, 256):
        factory_sizes = (sizes, k, n, 128, 128, 64, 3, threads)
        label = f"128x128x64, {threads} threads"
        yield Case("grouped", label, grouped_gemm, factory_sizes, arguments + tables, exact)
    ends = Tensor((groups + 1,), "int32", "given", value=np.cumsum([0, *sizes]).tolist())
    arguments = [arguments[0], arguments[1], ends, max(sizes), arguments[2]]
    by_ends = lambda a, b, ends, longest, out: {4: products(a, b, sizes)}
    for block_M, threads in ((64, 128), (128, 128), (128, 256)):
        factory_sizes = (groups, n, k, block_M, 128, 64, threads)
        label = f"example, {block_M}x128x64, {threads} threads"
        yield Case("grouped", label, gemm_grouped.gemm_grouped, factory_sizes, arguments, by_ends)


@tilelang.jit(out_idx=[2])
def gathered_convolution(N, C, H, W, F, K, S, D, P, block_M, block_N, block_K, num_stages, threads):
    dtype = "float16"
    OH, OW = (H + 2 * P - D * (K - 1) - 1) // S + 1, (W + 2 * P - D * (K - 1) - 1) // S + 1

    @T.prim_func
    def main(
        data: T.Tensor((N, H, W, C), dtype),
        kernel: T.Tensor((K, K, C, F), dtype),
        out: T.Tensor((N, OH, OW, F), dtype),
    ):
        with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(N * OH * OW, block_M), threads=threads) as (bx, by):
            data_shared = T.alloc_shared((block_M, block_K), dtype)
            kernel_shared = T.alloc_shared((block_K, block_N), dtype)
            out_local = T.alloc_fragment((block_M, block_N), "float")
            out_shared = T.alloc_shared((block_M, block_N), dtype)
            kernel_flat = T.Tensor((K * K * C, F), dtype, kernel.data)
            out_flat = T.Tensor((N * OH * OW, F), dtype, out.data)
            T.annotate_layout({out_shared: make_swizzled_layout(out_shared)})
            T.clear(out_local)
            for k_iter in T.Pipelined(T.ceildiv(K * K * C, block_K), num_stages=num_stages):
                for i, j in T.Parallel(block_M, block_K):
                    k = k_iter * block_K + j
                    m = by * block_M + i
                    access_h = m % (OH * OW) // OW * S + k // (K * C) * D - P
                    access_w = m % OW * S + k // C % K * D - P
                    in_bound = (access_h >= 0) and (access_w >= 0) and (access_h < H) and (access_w < W)
                    data_shared[i, j] = T.if_then_else(
                        in_bound, data[m // (OH * OW), access_h, access_w, k % C], 0
                    )
                T.copy(kernel_flat[k_iter * block_K, bx * block_N], kernel_shared)
                T.gemm(data_shared, kernel_shared, out_local)
            T.copy(out_local, out_shared)
            T.copy(out_shared, out_flat[by * block_M, bx * block_N])

    return main


def convolution_cases(small):
    batch, height, width, channels = (1, 3, 56, 128) if small else (16, 56, 56, 128)
    filters = 128
    image = (batch, height, width)
    arguments = [Tensor((*image, channels)), Tensor((3, 3, channels, filters)), blank(*image, filters)]
    exact = lambda x, w, out: {2: convolution.exact(x, w)}
    for block_X, threads in ((64, 128), (64, 256)):
        sizes = (*image, channels, filters, 3, 3, block_X, 128, 64, threads)
        label = f"example, {block_X}x128x64, {threads} threads"
        yield Case("convolution", label, convolution.convolution, sizes, arguments, exact)
    for tile in ((128, 128, 64, 3, 256), (64, 128, 32, 3, 256)):
        sizes = (batch, channels, height, width, filters, 3, 1, 1, 1, *tile)
        label = "gathered, {}x{}x{}, {} stages, {} threads".format(*tile)
        yield Case("convolution", label, gathered_convolution, sizes, arguments, exact)


@tilelang.jit
def matmul_splitk(M, N, K, block_M, block_N, block_K, split_k, num_stages, threads):
    dtype, splitK = "float16", K // split_k

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float")):
        grid = T.ceildiv(N, block_N), T.ceildiv(M, block_M), split_k
        with T.Kernel(*grid, threads=threads) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            C_shared = T.alloc_shared((block_M, block_N), "float")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(splitK, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, bz * splitK + ko * block_K], A_shared)
                T.copy(B[bz * splitK + ko * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C_shared)
            T.atomic_add(C[by * block_M, bx * block_N], C_shared)

    return main


def splitk_cases(small):
    m, n, k = (128, 256, 1024) if small else (256, 4096, 16384)
    exact = lambda a, b, c: {2: a @ b}
    inputs = [Tensor((m, k)), Tensor((k, n))]
    sums, out = Tensor((m, n), "float32", "zero"), blank(m, n, dtype="float32")
    for threads in (128, 256):
        sizes = (m, n, k, 128, 128, 64, 4, 3, threads)
        label = f"published, 4 parts, 128x128x64, {threads} threads"
        yield Case("splitk", label, matmul_splitk, sizes, [*inputs, sums], exact)
    for how, last in (("atomic", sums), ("two_kernels", out)):
        for block_K in (32, 64):
            label = f"example {how}, 4 parts, 128x128x{block_K}, 128 threads"
            sizes = (m, n, k, 4, how, 128, 128, block_K, 128)
            yield Case("splitk", label, gemm_splitk.gemm_splitk, sizes, [*inputs, last], exact)


@tilelang.jit
def promoted_fp8(M, N, K, block_M, block_N, block_K, num_stages, threads):
    """The sums of every second step go to sums of their own."""
    dtype = "float8_e4m3fn"

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float")
            C_accum = T.alloc_fragment((block_M, block_N), "float")
            T.clear(C_local)
            T.clear(C_accum)
            K_iters = T.ceildiv(K, block_K)
            for k in T.Pipelined(K_iters, num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
                if (k + 1) % 2 == 0 or k == K_iters - 1:
                    for i, j in T.Parallel(block_M, block_N):
                        C_accum[i, j] += C_local[i, j]
                    T.clear(C_local)
            T.copy(C_accum, C[by * block_M, bx * block_N])

    return main


def narrow_cases(small):
    m, n, k = (256, 256, 768) if small else (4096, 4096, 4096)
    scale = {"dtype": "float32", "kind": "uniform", "low": 1e-4, "high": 1e-3}
    whole = [Tensor((rows, k), "int8", "ints", -127, 128) for rows in (m, n)]
    arguments = [*whole, Tensor((m,), **scale), Tensor((n,), **scale), blank(m, n)]
    exact = lambda a, b, a_scale, b_scale, out: {4: a @ b.T * a_scale[:, None] * b_scale}
    for tile in ((128, 256, 64, 256), (128, 128, 64, 128), (128, 128, 128, 256)):
        label = "{}x{}x{}, {} threads".format(*tile)
        yield Case("int8", label, gemm_int8.gemm_int8, (m, n, k, *tile), arguments, exact)
    floats = [Tensor((rows, k), "float8_e4m3fn") for rows in (m, n)]
    exact_fp8 = lambda a, b, out: {2: a @ b.T}
    for threads in (128, 256):
        sizes = (m, n, k, 128, 128, 64, 3, threads)
        label = f"promoted every second step, 128x128x64, {threads} threads"
        yield Case("fp8", label, promoted_fp8, sizes, [*floats, blank(m, n)], exact_fp8)
    scale = {"dtype": "float32", "kind": "uniform", "low": 0.5, "high": 1.5}
    scales = [Tensor((m, k // 128), **scale), Tensor((n // 128, k // 128), **scale)]

    def exact_scaled(a, b, a_scale, b_scale, out):
        wide = np.repeat(np.repeat(b_scale, 128, 0), 128, 1)
        return {4: (a * np.repeat(a_scale, 128, 1)) @ (b * wide).T}

    for tile in ((128, 128, 256), (128, 128, 128)):
        label = "scaled blocks, {}x{}x128, {} threads".format(*tile)
        arguments = [*floats, *scales, blank(m, n)]
        yield Case("fp8", label, gemm_fp8.gemm_fp8, (m, n, k, *tile), arguments, exact_scaled)


def cases(small):
    for of in (matmul_cases, thin_cases, grouped_cases, convolution_cases, splitk_cases, narrow_cases):
        yield from of(small)
