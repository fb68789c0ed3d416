"""What threads choose between for the sums of products of warpgroups is computed on both ways: a branch there
would let ptxas end each product before the next begins."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from test_serialized import compiled

HEIGHT, STEPS = 64, 4
FORMS = ["sigmoid", "weights", "quotient", "branch", "nested", "of memory", "of a row", "of a part of rows"]


def attention(form, shared=True):
    """O = Σ f(Q Kᵀ) V, where f of a score depends on whether its key is visible."""

    @T.macro
    def weigh(s, most, M, k):
        for i, j in T.Parallel(HEIGHT, HEIGHT):
            seen = k * HEIGHT + j <= i + 100
            if form == "sigmoid":
                s[i, j] = T.if_then_else(seen, T.sigmoid(s[i, j]), 0.0)
            elif form == "weights":
                s[i, j] = T.if_then_else(seen, T.exp2(s[i, j] - most[i]), 0.0)
            elif form == "quotient":
                s[i, j] = T.if_then_else(seen, 1 / (1 + s[i, j] * s[i, j]), s[i, j])
            elif form == "branch":
                if seen:
                    s[i, j] = T.exp2(s[i, j] / 64)
            elif form == "nested":
                s[i, j] = T.if_then_else(
                    seen, T.if_then_else(j > i, T.exp2(s[i, j] / 64), T.sigmoid(s[i, j])), 0.0
                )
            elif form == "of a row":
                s[i, j] = T.if_then_else(seen, s[i, j] * T.exp2(M[i] / 64), 0.0)
            elif form == "of a part of rows":
                here = (i < 50) and (j >= i)
                s[i, j] = T.if_then_else(
                    here, T.exp2(M[i + 150] / 64), T.if_then_else(seen, T.exp2(M[0]), 0.0)
                )
            else:
                s[i, j] = T.if_then_else(seen, s[i, j] * T.exp2(M[k * HEIGHT + j] / 64), 0.0)

    @T.prim_func
    def main(
        Q: T.Tensor((HEIGHT, 64), "float16"),
        K: T.Tensor((STEPS * HEIGHT, 64), "float16"),
        V: T.Tensor((STEPS * HEIGHT, 64), "float16"),
        M: T.Tensor((200,), "float32"),
        O: T.Tensor((HEIGHT, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k_, v = [T.alloc_shared((HEIGHT, 64), "float16") for _ in range(3)]
            s, o = [T.alloc_fragment((HEIGHT, 64), "float32") for _ in range(2)]
            most = T.alloc_fragment((HEIGHT,), "float32")
            p = (T.alloc_shared if shared else T.alloc_fragment)((HEIGHT, 64), "float16")
            T.copy(Q, q)
            T.clear(o)
            for k in T.Pipelined(STEPS, num_stages=2):
                T.copy(K[k * HEIGHT, 0], k_)
                T.gemm(q, k_, s, transpose_B=True, clear_accum=True)
                if form == "weights":
                    T.reduce_max(s, most, dim=1)
                weigh(s, most, M, k)
                T.copy(s, p)
                T.copy(V[k * HEIGHT, 0], v)
                T.gemm(p, v, o)
            T.copy(o, O)

    return main


def expected(form, q, k, v, m):
    s = q.astype(np.float64) @ k.astype(np.float64).T
    sigmoid = 1 / (1 + np.exp(-s))
    most = s.reshape(HEIGHT, STEPS, HEIGHT).max(2).repeat(HEIGHT, 1)
    keys, rows = np.arange(STEPS * HEIGHT)[None], np.arange(HEIGHT)[:, None]
    seen = keys <= rows + 100
    value, other = {
        "sigmoid": (sigmoid, 0),
        "weights": (np.exp2(s - most), 0),
        "quotient": (1 / (1 + s * s), s),
        "branch": (np.exp2(s / 64), s),
        "nested": (np.where(keys % HEIGHT > rows, np.exp2(s / 64), sigmoid), 0),
        "of memory": (s * np.exp2(np.pad(m, (0, STEPS * HEIGHT - 200)) / 64), 0),
        "of a row": (s * np.exp2(m[:HEIGHT, None] / 64), 0),
        "of a part of rows": (
            np.exp2(np.pad(m[150:], (0, 14))[:, None] / 64),
            np.where(seen, np.exp2(m[0]), 0),
        ),
    }[form]
    if form == "of a part of rows":
        seen = (rows < 50) & (keys % HEIGHT >= rows)
    return np.where(seen, value, other) @ v.astype(np.float64)


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "registers"])
@pytest.mark.parametrize("form", FORMS)
def test_products_stay_asynchronous(form, shared):
    kernel, said = compiled(attention(form, shared))
    assert "tl_wgmma_m64" in kernel.get_kernel_source()
    assert not said and kernel.resource_usage[0]["refusals"] == []


@pytest.mark.parametrize("target", ["reference", "sim:sm_90a"])
@pytest.mark.parametrize("form", FORMS)
def test_what_they_compute(form, target):
    rng = np.random.default_rng(0)
    q, k, v = (rng.uniform(-1, 1, (n, 64)).astype(np.float16) for n in (HEIGHT, *[STEPS * HEIGHT] * 2))
    m, o = rng.uniform(-1, 1, 200).astype(np.float32), np.full((HEIGHT, 64), np.nan, np.float32)
    tilelang.compile(attention(form), target=target)(q, k, v, m, o)
    assert np.allclose(o, expected(form, q, k, v, m), rtol=1e-2, atol=2e-2)
