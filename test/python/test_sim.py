"""target="sim:CHIP": the GPU's program, executed without a GPU, against float64 and against the reference."""

import re

import gemm_cases as cases
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import in_turn

CHIPS = ["sim:sm_80", "sim:sm_90"]
ALL_CHIPS = [f"sim:{chip}" for chip in tilelang._core.chips("cuda")]
TYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64"]


# ── GEMM ──────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize("dtype", cases.DTYPES)
@pytest.mark.parametrize("trans_A", [False, True])
@pytest.mark.parametrize("trans_B", [False, True])
def test_gemm(trans_A, trans_B, dtype):
    turn = list(cases.DTYPES).index(dtype) + trans_A + trans_B
    for shape, tile, threads in [((17, 17, 17), (32, 32, 16), 32), ((100, 136, 72), (64, 64, 32), 128)]:
        turn += 1
        for target in in_turn(CHIPS, turn):
            a, b, c, expected = cases.random_operands(shape, dtype, trans_A, trans_B)
            cases.compile_gemm(shape, dtype, trans_A, trans_B, tile, threads, target)(a, b, c)
            assert cases.relative_error(c, expected) <= cases.bound(shape, dtype)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_large_tiles(dtype):
    shape = (384, 256, 96)
    a, b, c, expected = cases.random_operands(shape, dtype, False, False)
    cases.compile_gemm(shape, dtype, tile=(128, 128, 64), target="sim:sm_80")(a, b, c)
    assert cases.relative_error(c, expected) <= cases.bound(shape, dtype)


# ── elementwise ───────────────────────────────────────────────────────────────────────────────────────
def elementwise(M, N, dtype, block_M=16, block_N=48):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_local = T.alloc_fragment((block_M, block_N), dtype)
            B_shared = T.alloc_shared((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], A_local)
            T.copy(B[by * block_M, bx * block_N], B_shared)
            for i, j in T.Parallel(block_M, block_N):
                A_local[i, j] = A_local[i, j] * B_shared[i, j] + B_shared[i, j]
            T.copy(A_local, C[by * block_M, bx * block_N])

    return main


def both(function, *arguments):
    """The last argument as the simulator and as the reference leave it, byte for byte."""
    results = []
    for target in ("sim:sm_80", "reference"):
        mine = [np.array(a) for a in arguments]
        tilelang.compile(function, target=target)(*mine)
        results.append(mine[-1].view(np.uint8))
    return results


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(64, 96), (50, 77)], ids=str)
def test_elementwise_equals_the_reference(shape, dtype):
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 100, shape).astype(kind) for _ in range(2))
    if dtype.startswith(("float", "bfloat")):
        a, b = (rng.standard_normal(shape).astype(kind) for _ in range(2))
    sim, reference = both(elementwise(*shape, dtype), a, b, np.zeros(shape, kind))
    assert (sim == reference).all() and sim.any()


# ── whole functions ───────────────────────────────────────────────────────────────────────────────────
def gemm_relu_then_scale(M, N, K):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float32"),
        D: T.Tensor((M, N), "float32"),
        factor: T.float32,
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 32), threads=64) as (bx, by):
            A_shared = T.alloc_shared((32, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            C_local = T.alloc_fragment((32, 64), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 32, k * 32], A_shared)
                T.copy(B[k * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(32, 64):
                C_local[i, j] = T.max(C_local[i, j], 0.0)
            T.copy(C_local, C[by * 32, bx * 64])
        with T.Kernel(T.ceildiv(N, 64), M, threads=32) as (bx, by):
            for j in T.Parallel(64):
                D[by, bx * 64 + j] = C[by, bx * 64 + j] * factor

    return main


@pytest.mark.parametrize("target", ALL_CHIPS)
def test_fused_relu_and_a_second_kernel_that_reads_it(target):
    M, N, K = 70, 130, 50
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in [(M, K), (K, N)])
    kernel = tilelang.compile(gemm_relu_then_scale(M, N, K), out_idx=[2, 3], target=target)
    c, d = kernel(a, b, 0.5)
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    assert np.linalg.norm(c - expected) <= 1e-6 * np.linalg.norm(expected)
    assert (d == c * np.float32(0.5)).all()


def test_it_explains_itself_and_shows_the_source():
    kernel = tilelang.compile(gemm_relu_then_scale(64, 64, 64), target="sim:sm_80")
    assert kernel.target == "sim:sm_80" and kernel.device_type == "cpu"
    assert "main for sim:sm_80" in kernel.explain() and "mma.sync" in kernel.explain()
    source = kernel.get_kernel_source()  # the CUDA C++ of the program that runs
    assert source.startswith("// main for sm_80, written by tilelang.") and "mma.sync.aligned" in source


def test_addresses_strides_and_extents_that_only_the_call_tells():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 16), "float32"), B: T.Tensor((n, 16), "float32")):
        with T.Kernel(T.ceildiv(n, 8), threads=32) as bx:
            for i, j in T.Parallel(8, 16):
                B[bx * 8 + i, j] = A[bx * 8 + i, j] + 1.0

    kernel = tilelang.compile(main, target="sim:sm_80")
    for rows in (0, 1, 8, 21):
        store = np.arange(rows * 16 + 1, dtype=np.float32)
        for a in (store[:-1].reshape(rows, 16), store[1:].reshape(rows, 16)):  # aligned, and by 4 bytes only
            b = np.zeros((rows, 16), np.float32)
            kernel(a, b)
            assert (b == a + 1).all()


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    kernel = tilelang.compile(elementwise(32, 48, "float32"), out_idx=[-1], target="sim:sm_80")
    a, b = torch.rand(32, 48), torch.rand(32, 48)
    assert torch.allclose(kernel(a, b), a * b + b)


# ── what it refuses ───────────────────────────────────────────────────────────────────────────────────
def line_of(function, text):
    import inspect

    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def half_a_barrier():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64):
            tx = T.get_thread_binding()
            if tx < 48:
                T.sync_threads()  # not all come
            A[tx] = 1.0

    return main


def past_the_end():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=64):
            S = T.alloc_shared((60,), "float32")
            tx = T.get_thread_binding()
            S[tx] = A[tx]  # four too many

    return main


@pytest.mark.parametrize(
    "factory, at, message",
    [
        (half_a_barrier, "# not all come", r"thread 32 of block \(0\) of main waits here, but thread 48 "),
        (past_the_end, "# four too many", r"S\[60\]: element 60 is outside \[0, 60\) in thread 60 "),
    ],
)
def test_faults_are_errors_at_the_users_line(factory, at, message):
    kernel = tilelang.compile(factory(), target="sim:sm_80")
    with pytest.raises(tilelang.CompileError, match=message) as caught:
        kernel(np.zeros(64, np.float32))
    assert caught.value.line == line_of(factory, at)


@pytest.mark.parametrize("target", ["sim", "sim:", "sim:sm_70", "sim:haswell"])
def test_an_unknown_chip_lists_the_known(target):
    with pytest.raises(tilelang.CompileError, match="sm_75, sm_80, sm_86, sm_89, sm_90"):
        tilelang.compile(past_the_end(), target=target)


def wraps_an_index():
    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            S = T.alloc_shared((256,), "float32")
            if tx >= 64:
                S[T.cast(T.cast(tx * 4, "uint8"), "int32")] = X[tx]
            if tx < 64:
                Y[tx] = S[tx * 4]

    return main


def test_a_barrier_stands_where_an_index_wraps():
    x, y = np.arange(128, dtype=np.float32), np.full(128, np.nan, np.float32)
    tilelang.compile(wraps_an_index(), target="sim:sm_80")(x, y)
    assert np.array_equal(y[:64], x[64:])


def test_a_missing_barrier_shows():
    function = gemm_relu_then_scale(64, 64, 64).function
    a, b = (np.ones((64, 64), np.float16) for _ in range(2))
    for skip, right in [([], True), (["insert_sync"], False)]:
        c, d = (np.zeros((64, 64), np.float32) for _ in range(2))
        kernel = tilelang._core.compile(function, "sim:sm_80", {"skip": skip, "cache": False})
        if right:
            kernel.launch([a, b, c, d, 1.0], 0)
            assert (c == 64).all()
            continue
        with pytest.raises(tilelang.SimulationError, match="data race on A_shared") as caught:
            kernel.launch([a, b, c, d, 1.0], 0)
        assert {f.kind for f in caught.value.report.findings} == {"race"}


def races(threads, distance, in_one):
    """Thread tx meets thread tx + distance: in one statement, or in two."""

    @T.prim_func
    def main(X: T.Tensor((threads,), "float32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            S = T.alloc_shared((threads,), "float32")
            S[tx] = X[tx]
            if tx < threads - distance:
                if in_one:
                    S[tx % distance] = S[tx % distance] + 1.0
                else:
                    X[tx] = S[tx + distance]
            if tx >= distance:
                S[tx] = 0.0

    return main


@pytest.mark.parametrize(
    "threads, distance, in_one, advice",
    [
        (32, 1, False, r"T.sync_threads\(\), or T.sync_warp\(\) if only one warp takes part\)"),
        (
            64,
            32,
            False,
            r"put a barrier between the two \(T.sync_threads\(\)\), outside of the condition of line "
            r"\d+, because not all threads come there$",
        ),
        (32, 4, True, "use an atomic access, or read, wait at a barrier, and then write$"),
    ],
)
def test_the_cure_fits_the_race(threads, distance, in_one, advice):
    function = races(threads, distance, in_one).function
    kernel = tilelang._core.compile(function, "sim:sm_80", {"skip": ["insert_sync"], "cache": False})
    with pytest.raises(tilelang.SimulationError) as caught:
        kernel.launch([np.zeros(threads, np.float32)], 0)
    found = caught.value.report.findings
    assert {f.kind for f in found} == {"race"} and any(re.search(advice, f.text) for f in found), found
