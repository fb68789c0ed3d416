"""Dynamic shapes: one binary for all sizes, a general one for odd calls, edges, 2^31 elements."""

import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import TARGETS, failure
from tilelang import _core

COUNTS = {"cpu": 1000, "reference": 12, "sim:sm_80": 24}


# ── four kernels whose sizes only a call tells ────────────────────────────────────────────────────────
def gemm(dtype="float32", tile=(16, 32, 16), threads=64):
    M, N, K = T.dynamic("M, N, K")
    block_M, block_N, block_K = tile

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def axpy(dtype="float32", block=256):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = X[bx * block + i] * 2 + Y[bx * block + i]

    return main


def row_sums(block_M=8, block_N=32):
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), S: T.Tensor((M,), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=64) as bx:
            part = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(N, block_N)):
                T.copy(X[bx * block_M, k * block_N], part)
                T.reduce_sum(part, total, dim=1, clear=False)
            T.copy(total, S[bx * block_M])

    return main


def copy(dtype="float16", block_M=8, block_N=64):
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=64) as (bx, by):
            tile = T.alloc_shared((block_M, block_N), dtype)
            T.copy(X[by * block_M, bx * block_N], tile)
            T.copy(tile, Y[by * block_M, bx * block_N])

    return main


def sizes(count, dims, most, seed):
    """Random sizes, small ones among them, every third a multiple of 8."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        size = rng.integers(0, (most, 4, most)[i % 3], dims)
        yield rng, tuple(int(s) // 8 * 8 if i % 3 == 2 else int(s) for s in size)


def variants(kernel):
    return [n.subject for n in kernel.report.notes if n.subject.endswith("variant")]


def close(found, exact, bound=1e-6):
    norm = np.linalg.norm(exact)
    return np.linalg.norm(found.astype(np.float64) - exact) <= bound * max(norm, 1e-30)


def check_two_binaries(kernel, target, folder):
    entries = len([f for f in folder.rglob("*") if f.is_file()])
    if target == "cpu":
        assert entries == 1 and variants(kernel) == []
    elif target.startswith("sim"):
        assert variants(kernel) == ["specialized variant", "generic variant"]
        assert all("; has run" in n.text for n in kernel.report.notes if n.subject.endswith("variant"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILELANG_DISABLE_CACHE", raising=False)
    return tmp_path


def test_random_sizes_gemm(target, folder):
    kernel = tilelang.compile(gemm(), target=target)
    for rng, (m, n, k) in sizes(COUNTS[target], 3, 80, 1):
        a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
        c = np.full((m, n), np.nan, np.float32)
        kernel(a, b, c)
        assert close(c, a.astype(np.float64) @ b.astype(np.float64)), (m, n, k)
    check_two_binaries(kernel, target, folder)


def test_random_sizes_elementwise(target, folder):
    kernel = tilelang.compile(axpy(), target=target)
    for rng, (n,) in sizes(COUNTS[target], 1, 2000, 2):
        store = rng.standard_normal(n + 1).astype(np.float32)
        for x in (store[:-1], store[1:]):  # the second one is not aligned
            z = np.full(n, np.nan, np.float32)
            kernel(x, store[:-1] if x is not store else x, z)
            assert (z == x * 2 + store[:-1]).all(), n
    check_two_binaries(kernel, target, folder)


def test_random_sizes_reduction(target, folder):
    kernel = tilelang.compile(row_sums(), target=target)
    for rng, (m, n) in sizes(COUNTS[target], 2, 120, 3):
        x = rng.standard_normal((m, n), np.float32)
        s = np.full(m, np.nan, np.float32)
        kernel(x, s)
        exact = x.astype(np.float64).sum(axis=1)
        assert np.allclose(s, exact, rtol=1e-5, atol=1e-5), (m, n)
    check_two_binaries(kernel, target, folder)


def test_random_sizes_copy(target, folder):
    kernel = tilelang.compile(copy(), target=target)
    for rng, shape in sizes(COUNTS[target], 2, 200, 4):
        x = rng.standard_normal(shape).astype(np.float16)
        y = np.full(shape, np.nan, np.float16)
        kernel(x, y)
        assert (x == y).all(), shape
    check_two_binaries(kernel, target, folder)


# ── the two variants ──────────────────────────────────────────────────────────────────────────────────
def notes(kernel):
    return {n.subject: n.text for n in kernel.report.notes if n.subject.endswith("variant")}


def test_the_variants_say_what_they_assume_and_which_ran():
    kernel = tilelang.compile(copy(), target="sim:sm_80")
    usual = (
        "for calls where addresses are divisible by 16 bytes, N is divisible by 8, "
        "tensors span fewer than 2^31 elements"
    )
    assert notes(kernel) == {"specialized variant": usual + "; has not run yet"}
    x = np.ones((5, 12), np.float16)
    kernel(x, np.zeros_like(x))
    assert notes(kernel) == {
        "specialized variant": usual + "; has not run yet",
        "generic variant": "for all other calls; made for one where N = 12 is not divisible by 8; has run",
    }
    assert "N = 12 is not divisible by 8" in kernel.explain()
    x = np.ones((5, 16), np.float16)  # how many rows there are decides no alignment
    kernel(x, np.zeros_like(x))
    assert notes(kernel)["specialized variant"] == usual + "; has run"


def test_the_general_variant_takes_elements_of_any_alignment():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float16"), Y: T.Tensor((n,), "float32"), Z: T.Tensor((n,), "int8")):
        with T.Kernel(T.ceildiv(n, 128), threads=32) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[bx * 128 + i] + Z[bx * 128 + i]

    kernel = tilelang.compile(main, target="sim:sm_80")
    rng = np.random.default_rng(0)
    for size in (1, 127, 300):
        x = rng.standard_normal(size + 1).astype(np.float16)[1:]
        z = rng.integers(-9, 9, size + 3).astype(np.int8)[3:]
        y = np.full(size, np.nan, np.float32)
        kernel(x, y, z)
        assert np.allclose(y, x.astype(np.float32) + z, atol=1e-2)
    assert "generic variant" in notes(kernel)


def test_static_shapes_have_an_unaligned_variant_too():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                Y[i] = X[i]

    kernel = tilelang.compile(main, target="sim:sm_80")
    x = np.arange(65, dtype=np.float32)
    y = np.zeros(64, np.float32)
    kernel(x[1:], y)
    assert (y == x[1:]).all()
    assert "an address is divisible by 4 bytes only, not 16" in notes(kernel)["generic variant"]


def cuda_source(function):
    try:
        return tilelang.compile(function, target="cuda -arch=sm_80").get_kernel_source()
    except RuntimeError as e:
        if "nvrtc" in str(e):
            pytest.skip("NVRTC is not installed")
        raise


def test_the_main_part_is_vectorised_and_unguarded():
    source = cuda_source(axpy())
    inside, rest = source[source.index("if (") :].split("} else {", 1)
    assert "tl_load<4>" in inside and "tl_store(" in inside and "if (" not in inside[3:]
    assert "if (" in rest  # element by element, where the end of the tensor is


def test_the_gemm_copies_without_guards_where_tiles_lie_inside():
    source = cuda_source(gemm("float16", (64, 64, 32), 128))
    turn = source[source.index("for (int k = 0") :]
    inside, rest = turn[: turn.index("} else {")], turn[turn.index("} else {") :]
    condition = inside[inside.rindex("if (") :].split("{")[0]
    assert {"M", "N", "K"} <= set(re.findall(r"\w+", condition))
    assert inside.count("tl_cp_async_16(") == 2 and "tl_cp_async_16_zfill" not in inside
    assert (
        rest.count("tl_cp_async_16_zfill(") == 2
    )  # the last turns, and blocks at the edge, ask for each row


# ── the signature ─────────────────────────────────────────────────────────────────────────────────────
def test_only_what_a_kernel_uses_is_passed():
    M, N = T.dynamic("M, N")

    @T.prim_func
    def main(
        X: T.Tensor((M, N), "float32"),
        unused: T.Tensor((N,), "float32"),
        a: T.float32,
        b: T.float32,
        Y: T.Tensor((N, M), "float32"),
    ):
        with T.Kernel(M, threads=32) as bx:
            Y[0, bx] = X[bx, 0] * b

    source = cuda_source(main)
    head = source[source.index("main_kernel(") : source.index(") {")]
    names = re.findall(r"(\w+)(?:,|$)", head.split("(", 1)[1])
    assert names == ["X", "b", "Y", "M", "N"] or names == ["X", "b", "Y", "N"], head
    for target in TARGETS:
        x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
        y = np.zeros((3, 5), np.float32)
        tilelang.compile(main, target=target)(x, np.ones(3, np.float32), 1.0, 2.0, y)
        assert (y[0] == x[:, 0] * 2).all()


# ── facts of the user's ──
def test_facts_of_a_function_are_used():
    text = """
        func main(A: f32[n], B: f32[n]):
          assume n % 256 == 0
          kernel main grid(bx: n//256) threads(64):
            for i in parallel(256):
              B[bx*256 + i] = A[bx*256 + i]
        """
    function = _core.parse(text.replace("\n        ", "\n"))
    assert "if (" not in _core.compile(function, "sim:sm_80", {}).source.split("main_kernel(")[1]


def test_an_assumption_in_a_kernel_is_used():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=64) as bx:
            T.assume(n % 256 == 0)
            for i in T.Parallel(256):
                Y[bx * 256 + i] = X[bx * 256 + i]

    source = tilelang.compile(main, target="sim:sm_80").get_kernel_source()
    assert "if (" not in source.split("main_kernel(")[1]


# ── nothing, and one ──────────────────────────────────────────────────────────────────────────────────
def test_an_empty_grid_does_nothing_and_an_empty_loop_adds_nothing(target):
    kernel = tilelang.compile(gemm(), target=target)
    c = np.full((3, 5), np.nan, np.float32)
    kernel(np.ones((3, 0), np.float32), np.ones((0, 5), np.float32), c)
    assert (c == 0).all()
    for m, n in [(0, 5), (3, 0), (0, 0)]:
        kernel(np.ones((m, 4), np.float32), np.ones((4, n), np.float32), np.empty((m, n), np.float32))


def test_loops_may_run_to_a_dynamic_bound(target):
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "int32"), Y: T.Tensor((n,), "int32"), Z: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                Y[i] = X[i] + 1
            for i in T.serial(n):
                Z[0] = Z[0] + X[i]
            for i in T.serial(1, n - 1):
                Z[1] = Z[1] + X[i]

    if target.startswith("sim"):
        pytest.skip("every thread would add")
    kernel = tilelang.compile(main, target=target)
    for size in (0, 1, 2, 3, 500):
        x = np.arange(size, dtype=np.int32) + 1
        y, z = np.zeros(size, np.int32), np.zeros(2, np.int32)
        kernel(x, y, z)
        assert (y == x + 1).all() and z.tolist() == [x.sum(), x[1:-1].sum()]


@pytest.mark.parametrize("scope", ["alloc_shared", "alloc_fragment", "alloc_local"])
@pytest.mark.parametrize("extent, kind", [("n", "T.int32"), ("m", "dynamic"), ("n // 2", "arithmetic")])
def test_a_tile_shape_must_be_a_number(tmp_path, scope, extent, kind):
    error = failure(
        tmp_path,
        f"""
        tile = T.{scope}(({extent}, {extent}), "float32")
        T.clear(tile)
        """,
        signature="A: T.Tensor((m, 8), 'float32'), n: T.int32",
        before="import tilelang.language as T\nm = T.dynamic('m')\n",
    )
    text = extent.replace(" // ", "//")
    who = "tile: extent 0" if scope == "alloc_shared" else f"T.{scope}: extent 0 of tile"
    assert f"{who} is {text}, which is known only when the kernel is called" in str(error), kind


# ── more than 2^31 elements ───────────────────────────────────────────────────────────────────────────
def tail_of_a_large_tensor():
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "int8"), Y: T.Tensor((256,), "int8")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(128):
                Y[bx * 128 + i] = X[n - 256 + bx * 128 + i]

    return main


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_elements_beyond_2_to_31(tmp_path, target):
    size = 2**32 + 1000
    try:
        x = np.memmap(tmp_path / "large", np.int8, "w+", shape=(size,))  # a file of holes
    except OSError as problem:
        pytest.skip(f"no file of 4 GB: {problem}")
    x[-256:] = np.arange(256).astype(np.int8)
    y = np.zeros(256, np.int8)
    tilelang.compile(tail_of_a_large_tensor(), target=target)(x, y)
    assert (y == x[-256:]).all()


def test_index_arithmetic_is_as_wide_as_it_must_be():
    def source(rows, columns):
        @T.prim_func
        def main(X: T.Tensor((rows, columns), "int8"), Y: T.Tensor((rows, columns), "int8")):
            with T.Kernel(rows // 64, columns // 64, threads=64) as (bx, by):
                for i, j in T.Parallel(64, 64):
                    Y[bx * 64 + i, by * 64 + j] = X[bx * 64 + i, by * 64 + j]

        return cuda_source(main)

    assert "i64" not in source(2**15, 2**16)[-600:]  # the last index fits
    assert "i64(" in source(2**15, 2**16 + 64)[-600:]


# ── random kernels at random sizes ────────────────────────────────────────────────────────────────────
def moved(shape_m, shape_n, tile, threads, shift, dtype, through):
    """Y[i, j] = X[i + shift, j + shift] + X[i, j], zero outside, by tiles that need not divide anything."""
    block_M, block_N = tile

    @T.prim_func
    def main(X: T.Tensor((shape_m, shape_n), dtype), Y: T.Tensor((shape_m, shape_n), dtype)):
        with T.Kernel(T.ceildiv(shape_n, block_N), T.ceildiv(shape_m, block_M), threads=threads) as (bx, by):
            if through:
                here = T.alloc_shared((block_M, block_N), dtype)
                there = T.alloc_fragment((block_M, block_N), dtype)
                T.copy(X[by * block_M, bx * block_N], here)
                T.copy(X[by * block_M + shift, bx * block_N + shift], there)
                for i, j in T.Parallel(block_M, block_N):
                    there[i, j] = there[i, j] + here[i, j]
                T.copy(there, Y[by * block_M, bx * block_N])
            else:
                for i, j in T.Parallel(block_M, block_N):
                    Y[by * block_M + i, bx * block_N + j] = (
                        X[by * block_M + i + shift, bx * block_N + j + shift]
                        + X[by * block_M + i, bx * block_N + j]
                    )

    return main


@pytest.mark.parametrize("seed", range(12))
def test_random_kernels_at_random_sizes(seed):
    rng = np.random.default_rng(seed)
    tile = (int(rng.choice([1, 3, 8, 16, 20])), int(rng.choice([1, 7, 32, 50, 64])))
    threads, dtype = int(rng.choice([32, 64, 96])), str(rng.choice(["float32", "float16", "int8", "int32"]))
    shift, through = int(rng.integers(-2, 4)), bool(rng.integers(2))
    for round in range(2):
        sizes = [tuple(int(rng.integers(0, 4 * t + 9)) for t in tile) for _ in range(4)]
        sizes.append(tuple(16 * int(rng.integers(1, 6)) for _ in tile))
        shape = {0: T.dynamic("M, N"), 1: (T.dynamic("M"), sizes[0][1] + 1)}[round]
        function = moved(*shape, tile, threads, shift, dtype, through)
        kernels = [tilelang.compile(function, target=t) for t in TARGETS]
        for m, n in sizes:
            n = n if round == 0 else sizes[0][1] + 1
            x = (rng.integers(-9, 9, (m, n))).astype(dtype)
            padded = np.zeros((m + 8, n + 8), dtype)
            padded[4 : m + 4, 4 : n + 4] = x
            expected = padded[4 + shift : m + 4 + shift, 4 + shift : n + 4 + shift] + x
            for kernel, target in zip(kernels, TARGETS, strict=True):
                y = np.full((m, n), 77, dtype)
                kernel(x, y)
                assert (y == expected).all(), (target, tile, threads, dtype, shift, through, m, n)


def test_the_bound_of_a_loop_in_two_is_read_once():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32"), L: T.Tensor((1,), "int32"), B: T.Tensor((n, 64), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((32, 64), "float32")
            for k in T.serial(T.min(L[0], 1000)):
                T.copy(A[k * 32, 0], S)
                L[0] = 0
                T.copy(S, B[k * 32, 0])

    source = cuda_source(main)
    assert "k_end" in source and source.count("L[0], 1000") == 1
    for target in TARGETS:
        for rows in (40, 64, 96):
            a = np.random.default_rng(rows).standard_normal((rows, 64)).astype(np.float32)
            b = np.zeros_like(a)
            tilelang.compile(main, target=target)(a, np.array([3], np.int32), b)
            assert (a == b).all()
