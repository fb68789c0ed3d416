"""Layouts that the user gives: honoured by every executor, or refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
import tilelang
import tilelang.language as T


def scattered(batch, length, heads, dim):
    """As flash attention's backward keeps dQ: for each 8 rows, the fragment order of an accumulator."""

    @T.prim_func
    def main(
        X: T.Tensor((batch, length, heads, dim), "float32"),
        dQ: T.Tensor((batch, length, heads, dim), "float32"),
    ):
        with T.Kernel(length // 16, heads, batch, threads=64) as (bx, by, bz):
            T.annotate_layout(
                {
                    dQ: T.Layout(
                        dQ.shape,
                        lambda b, l, h, d: [b, l // 8, h, d // 8, (d % 2), 4 * (l % 8) + (d % 8) // 2],  # noqa: E741
                    )
                }
            )
            F = T.alloc_fragment((16, dim), "float32")
            T.copy(X[bz, bx * 16 : (bx + 1) * 16, by, :], F)
            for i, j in T.Parallel(16, dim):
                dQ[bz, bx * 16 + i, by, j] = F[i, j] * 2

    return main


def test_a_tensor_is_stored_as_annotated(target):
    batch, length, heads, dim = 2, 32, 3, 16
    kernel = tilelang.compile(scattered(batch, length, heads, dim), target=target)
    x = np.random.default_rng(0).standard_normal((batch, length, heads, dim)).astype(np.float32)
    out = np.full_like(x, np.nan)
    kernel(x, out)
    stored = out.reshape(batch, length // 8, heads, dim // 8, 2, 32)
    for b, row, h, d in np.ndindex(batch, length, heads, dim):
        assert stored[b, row // 8, h, d // 8, d % 2, 4 * (row % 8) + d % 8 // 2] == 2 * x[b, row, h, d]


def through(loop_layout=None, fragment=None, shared=None):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128) as _:
            S, F = T.alloc_shared((64, 32), "float32"), T.alloc_fragment((64, 32), "float32")
            if shared is not None:
                T.annotate_layout({S: shared})
            if fragment is not None:
                T.annotate_layout({F: fragment})
            T.copy(A, S)
            for i, j in T.Parallel(64, 32, loop_layout=loop_layout):
                F[i, j] = S[i, j] + 1
            T.copy(F, B)

    return main


GIVEN = {
    "loop": {"loop_layout": T.Fragment((64, 32), lambda i, j: (i % 4 * 32 + j, i // 4))},
    "fragment": {"fragment": T.Fragment((64, 32), lambda i, j: (i * 2 + j // 16, j % 16))},
    "shared, turned": {"shared": T.Layout((64, 32), lambda i, j: j * 64 + i)},
    "shared, padded": {"shared": T.Layout((64, 32), lambda i, j: i * 33 + j)},
    "loop and fragment that differ": {
        "loop_layout": T.Fragment((64, 32), lambda i, j: (i % 4 * 32 + j, i // 4)),
        "fragment": T.Fragment((64, 32), lambda i, j: (i * 2 + j // 16, j % 16)),
    },
}


@pytest.mark.parametrize("given", GIVEN)
def test_tiles_and_loops(target, given):
    kernel = tilelang.compile(through(**GIVEN[given]), target=target)
    a = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    b = np.full_like(a, np.nan)
    kernel(a, b)
    assert (b == a + 1).all()


def test_what_is_given_is_what_is_used(capsys):
    report = tilelang.compile(through(**GIVEN["fragment"]), target="sim:sm_80").explain()
    capsys.readouterr()
    assert "(i, j, k) -> (i*2 + j//16, j%16)" in str(report.buffer("F"))


TOO_MANY = T.Fragment((64, 32), lambda i, j: (i * 4 + j // 8, j % 8))


@pytest.mark.parametrize("given", [{"loop_layout": TOO_MANY}, {"fragment": TOO_MANY}])
def test_refused_with_the_reason(given):
    with pytest.raises(tilelang.CompileError, match="names 256 threads, but a block of this kernel has 128"):
        tilelang.compile(through(**given), target="sim:sm_80")
