"""Tiles of C with fewer rows than an instruction of a warpgroup (64): in loops that are divided among roles
they are computed transposed, as the product of B and A."""

import warnings

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T

SIMULATOR, CHIP = "sim:sm_90a", "cuda -arch=sm_90a"
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


def gemm(M, N, K, tile, threads=128, trans=(False, False), dtype="float16", out="float16", end="copy"):
    """end: what is done with the sums."""
    block_M, block_N, block_K = tile
    trans_A, trans_B = trans
    A_tile = (block_K, block_M) if trans_A else (block_M, block_K)
    B_tile = (block_N, block_K) if trans_B else (block_K, block_N)

    @T.prim_func
    def main(
        A: T.Tensor((K, M) if trans_A else (M, K), dtype),
        B: T.Tensor((N, K) if trans_B else (K, N), dtype),
        C: T.Tensor((M, N), out),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            a, b = T.alloc_shared(A_tile, dtype), T.alloc_shared(B_tile, dtype)
            sums = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                if trans_A:
                    T.copy(A[k * block_K, by * block_M], a)
                else:
                    T.copy(A[by * block_M, k * block_K], a)
                if trans_B:
                    T.copy(B[bx * block_N, k * block_K], b)
                else:
                    T.copy(B[k * block_K, bx * block_N], b)
                if end == "fills B":
                    for i, j in T.Parallel(*B_tile):
                        b[i, j] = b[i, j] * 2
                T.gemm(a, b, sums, transpose_A=trans_A, transpose_B=trans_B)
            if end == "elements":
                for i, j in T.Parallel(block_M, block_N):
                    sums[i, j] = sums[i, j] * 2
            if end == "reduced":
                largest = T.alloc_fragment((block_M,), "float32")
                T.reduce_max(sums, largest, dim=1)
                for i, j in T.Parallel(block_M, block_N):
                    sums[i, j] = T.max(sums[i, j] * 2, largest[i] - 1e9)
            if end == "fragment":
                twice = T.alloc_fragment((block_M, block_N), "float32")
                T.copy(sums, twice)
                for i, j in T.Parallel(block_M, block_N):
                    twice[i, j] = twice[i, j] * 2
                T.copy(twice, C[by * block_M, bx * block_N])
            else:
                T.copy(sums, C[by * block_M, bx * block_N])

    return main


def said(kernel, passed, subject):
    return "; ".join(n.text for n in kernel.report.notes if (n.decided_by, n.subject) == (passed, subject))


def check(program, M, N, K, trans=(False, False), dtype="float16", out="float16", factor=1):
    kernel = tilelang.compile(program, target=SIMULATOR)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((M, K)).astype(NUMPY[dtype]), rng.standard_normal((K, N)).astype(NUMPY[dtype])
    c = np.full((M, N), np.nan, NUMPY[out])
    given = (np.ascontiguousarray(x.T) if other else x for x, other in zip((a, b), trans, strict=True))
    kernel(*given, c)
    wanted = factor * (a.astype(np.float64) @ b.astype(np.float64))
    error = np.linalg.norm(c.astype(np.float64) - wanted) / np.linalg.norm(wanted)
    assert error < {"float16": 5e-4, "bfloat16": 4e-3, "float32": 1e-5}[out]
    return kernel


@pytest.mark.parametrize("trans", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("shape", "tile", "threads"),
    [
        ((16, 128, 192), (16, 64, 64), 128),
        ((13, 120, 200), (16, 64, 64), 128),
        ((56, 264, 136), (48, 128, 64), 256),
        ((104, 200, 256), (96, 192, 64), 384),
    ],
)
def test_roles_compute_it_transposed(shape, tile, threads, trans):
    if trans[0] and shape[0] % 8:
        pytest.skip("rows of A do not begin at whole 16 bytes, which TMA demands")
    kernel = check(gemm(*shape, tile, threads, trans), *shape, trans)
    assert "C transposed" in said(kernel, "lower_tile_ops", "gemm")
    assert "load a and b" in said(kernel, "assign_roles", "loop k")


@pytest.mark.parametrize(("dtype", "out"), [("bfloat16", "bfloat16"), ("float16", "float32")])
def test_types(dtype, out):
    kernel = check(gemm(24, 128, 256, (24, 64, 64), dtype=dtype, out=out), 24, 128, 256, dtype=dtype, out=out)
    assert "C transposed" in said(kernel, "lower_tile_ops", "gemm")


def test_threads_may_change_the_sums():
    kernel = check(gemm(16, 128, 192, (16, 64, 64), end="elements"), 16, 128, 192, factor=2)
    assert "C transposed" in said(kernel, "lower_tile_ops", "gemm")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("reduced", "more is done with sums than storing it"),
        ("fragment", "more is done with sums than storing it"),
        ("fills B", "its product is waited for at once"),
    ],
)
def test_where_warps_multiply_as_they_stand(end, why):
    """Rows that lie transposed are spread over all warps; and what is waited for at once is not faster."""
    kernel = check(gemm(16, 128, 192, (16, 64, 64), end=end), 16, 128, 192, factor=2)
    assert "mma.sync" in said(kernel, "lower_tile_ops", "gemm")
    texts = said(kernel, "assign_roles", "loop k") + said(kernel, "lower_tile_ops", "gemm")
    assert f"not computed transposed, as {why}" in texts


def by_hand():
    """Products that the program begins and waits for itself, and what it finds in rows of their sums."""

    @T.prim_func
    def main(
        A: T.Tensor((16, 128), "float16"), B: T.Tensor((128, 64), "float16"), R: T.Tensor((16,), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((16, 128), "float16"), T.alloc_shared((128, 64), "float16")
            sums, largest = T.alloc_fragment((16, 64), "float32"), T.alloc_fragment((16,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, sums, clear_accum=True)
            T.wait_wgmma(0)
            T.reduce_max(sums, largest, dim=1)
            T.copy(largest, R)

    return main


def test_a_program_may_begin_such_a_product():
    kernel = tilelang.compile(by_hand(), target=SIMULATOR)
    assert "C transposed" in said(kernel, "lower_tile_ops", "gemm")
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((16, 128), (128, 64)))
    largest = np.full(16, np.nan, np.float32)
    kernel(a, b, largest)
    assert np.allclose(largest, (a.astype(np.float64) @ b.astype(np.float64)).max(1), rtol=1e-5)


def of_one_tile(left, right, threads, policy):
    """A and B are columns of one buffer, which begin within different patterns."""
    (a, b), (c, d) = left, right

    @T.prim_func
    def main(X: T.Tensor((64, 512), "float16"), C: T.Tensor((b - a, d - c), "float32")):
        with T.Kernel(1, threads=threads):
            x = T.alloc_shared((64, 128), "float16")
            sums = T.alloc_fragment((b - a, d - c), "float32")
            T.clear(sums)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(X[0, k * 128], x)
                T.gemm(x[0:64, a:b], x[0:64, c:d], sums, transpose_A=True, policy=policy)
            T.copy(sums, C)

    return main


@pytest.mark.parametrize(
    ("left", "right", "threads", "policy"),
    [
        ((32, 80), (0, 128), 128, T.GemmWarpPolicy.Square),
        ((48, 72), (0, 128), 128, T.GemmWarpPolicy.Square),
        ((32, 128), (0, 128), 256, T.GemmWarpPolicy.FullRow),
        ((0, 128), (32, 128), 256, T.GemmWarpPolicy.FullCol),
    ],
)
def test_one_tile_is_both_operands(left, right, threads, policy):
    kernel = tilelang.compile(of_one_tile(left, right, threads, policy), target=SIMULATOR)
    x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float16)
    c = np.full((left[1] - left[0], right[1] - right[0]), np.nan, np.float32)
    kernel(x, c)
    parts = [x[:, i : i + 128].astype(np.float64) for i in range(0, 512, 128)]
    wanted = sum(part[:, slice(*left)].T @ part[:, slice(*right)] for part in parts)
    assert np.linalg.norm(c - wanted) / np.linalg.norm(wanted) < 1e-5


def stored_transposed(M, N, K, by="nothing"):
    """The program stores C transposed: the elements of a thread lie in different rows."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((N, K), "float16"), C: T.Tensor((N, M), "float16")):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 64), threads=128) as (bx, y):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((128, 64), "float16")
            sums = T.alloc_fragment((64, 128), "float32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=4):
                T.copy(A[y * 64, k * 64], a)
                T.copy(B[bx * 128, k * 64], b)
                T.gemm(a, b, sums, transpose_B=True)
            if by == "a name":
                for i, j in T.Parallel(64, 128):
                    x = sums[i, j]
                    C[bx * 128 + j, y * 64 + i] = x
            elif by == "a variable":
                for i, j in T.Parallel(64, 128):
                    v = T.alloc_var("float32")
                    v = sums[i, j]
                    C[bx * 128 + j, y * 64 + i] = v
            else:
                for i, j in T.Parallel(64, 128):
                    C[bx * 128 + j, y * 64 + i] = sums[i, j]

    return main


@pytest.mark.parametrize(
    "program",
    [
        stored_transposed(64, 8192, 8192),
        stored_transposed(64, 8192, 8192, "a name"),
        stored_transposed(64, 8192, 8192, "a variable"),
        gemm(16, 8192, 8192, (16, 64, 128), trans=(False, True)),
        gemm(48, 8192, 8192, (48, 128, 64), threads=256),
        gemm(32, 8192, 8192, (32, 64, 64), dtype="bfloat16", out="bfloat16"),
    ],
    ids=["stored transposed", "by a name", "by a variable", "16", "48", "bfloat16"],
)
def test_rounding_one_by_one_serializes_nothing(program, monkeypatch):
    """ptxas rounds neighbours together, and in front of the wait for them if nothing keeps it from that."""
    monkeypatch.setattr(tilelang.env, "_cache_enabled", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = tilelang.compile(program, target=CHIP)
    assert "wgmma_results_behind_fence" in kernel.get_kernel_source()
    assert not any(k.serialized or k.spill_stores for k in kernel.report.kernels)
