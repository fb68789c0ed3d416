"""T.use_swizzle: the order of blocks changes, results do not; what is wrong is said at the user's line."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=None)
def matmul(M, N, K, panel, order, enable, target):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, 16), T.ceildiv(M, 16), threads=32) as (bx, by):
            A_shared = T.alloc_shared((16, 8), "float32")
            B_shared = T.alloc_shared((8, 16), "float32")
            C_local = T.alloc_fragment((16, 16), "float32")
            T.use_swizzle(panel, order=order, enable=enable)
            T.clear(C_local)
            for k in T.serial(T.ceildiv(K, 8)):
                T.copy(A[by * 16, k * 8], A_shared)
                T.copy(B[k * 8, bx * 16], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 16, bx * 16])

    return main


def compiled(shape, panel, order="row", enable=True, target="cpu"):
    return tilelang.jit(matmul.func, target=target, out_idx=None)(*shape, panel, order, enable, target)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("order", ["row", "col"])
@pytest.mark.parametrize("panel", [1, 2, 3, 10])
@pytest.mark.parametrize("shape", [(100, 52, 20), (16, 90, 8), (33, 16, 9)])
def test_results_do_not_change(shape, panel, order, target):
    M, N, K = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((M, K)).astype(np.float32), rng.standard_normal((K, N)).astype(np.float32)
    c, plain = (np.full((M, N), np.nan, dtype=np.float32) for _ in range(2))
    compiled(shape, panel, order, target=target)(a, b, c)
    compiled(shape, panel, order, enable=False, target=target)(a, b, plain)
    assert np.array_equal(c, plain)
    assert np.allclose(c, a.astype(np.float64) @ b, atol=1e-4)


@tilelang.jit(out_idx=None, target="cpu")
def visits(grid_x, grid_y, panel, order):
    @T.prim_func
    def main(Seen: T.Tensor((grid_y, grid_x), "int32")):
        with T.Kernel(grid_x, grid_y) as (bx, by):
            T.use_swizzle(panel, order)
            Seen[by, bx] = Seen[by, bx] + 1

    return main


@pytest.mark.parametrize("grid", [(1, 1), (7, 1), (1, 5), (4, 4), (7, 5), (10, 13)])
def test_every_block_runs_once(grid):
    for panel, order in ((1, "row"), (3, "row"), (4, "col"), (100, "col")):
        seen = np.zeros((grid[1], grid[0]), dtype=np.int32)
        visits(*grid, panel, order)(seen)
        assert (seen == 1).all(), (panel, order)


def test_the_report_says_it():
    assert "panels of 3 columns" in compiled((64, 64, 8), 3).explain()


@pytest.mark.parametrize(
    "panel, order, text",
    [
        (0, "row", "panel_size must be a positive constant; it is 0"),
        (4, "diagonal", "order cannot be `diagonal`; it is one of row, col"),
    ],
)
def test_mistakes(panel, order, text):
    with pytest.raises(tilelang.CompileError, match=text) as raised:
        compiled((64, 64, 8), panel, order)
    assert "test_use_swizzle.py" in str(raised.value)
