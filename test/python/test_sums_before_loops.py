"""Products of warpgroups stay asynchronous whatever their sums hold when their loop begins, and however many
turns it has: a bias, zeros or a tensor as a condition says; bounds that are constants, or from a tensor."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from test_serialized import compiled

n = T.dynamic("n")
INITS = ["clear", "bias", "chosen"]
BOUNDS = ["constant", "dynamic", "tensor", "block"]
ROLES = [{}, {"tl.disable_warp_specialized": True}]


@T.macro
def products(A, a, b, c, first, last):
    for k in T.Pipelined(first, last, num_stages=3):
        T.copy(A[k, 0:64, 0:64], a)
        T.gemm(a, b, c)


def sums(init, bounds, around="nothing", dtype="float32"):
    @T.prim_func
    def main(
        A: T.Tensor((n, 64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        S: T.Tensor((5,), "int32"),
        D: T.Tensor((64, 64), dtype),
        C: T.Tensor((4, 64, 64), dtype),
    ):
        with T.Kernel(4, threads=128) as x:
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), dtype)
            T.copy(B, b)
            if init == "clear":
                T.clear(c)
            elif init == "bias":
                T.copy(D, c)
            else:
                for i, j in T.Parallel(64, 64):
                    c[i, j] = T.if_then_else(S[x] > 2, D[i, j], 0)
            first, last = {
                "constant": (0, 8), "dynamic": (0, n), "tensor": (S[x], S[x + 1]), "block": (0, x),
            }[bounds]  # fmt: skip
            if around == "nothing":
                products(A, a, b, c, first, last)
            elif around == "a condition":
                if S[x] < 5:
                    products(A, a, b, c, first, last)
            else:
                products(A, a, b, c, first, last)
                for i, j in T.Parallel(64, 64):
                    c[i, j] = c[i, j] * 2
                products(A, a, b, c, first, last)
            T.copy(c, C[x, 0:64, 0:64])

    return main


@pytest.mark.parametrize("roles", ROLES, ids=["roles", "one role"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("init", INITS)
def test_products_stay_asynchronous(init, bounds, roles):
    kernel, said = compiled(sums(init, bounds), pass_configs=roles)
    assert "tl_wgmma_m64" in kernel.get_kernel_source()
    assert not said and kernel.resource_usage[0]["refusals"] == []


@pytest.mark.parametrize("around, dtype", [("a condition", "float32"), ("loops", "float32"),
                                           ("nothing", "float16")])  # fmt: skip
def test_products_stay_asynchronous_within(around, dtype):
    kernel, said = compiled(sums("chosen", "tensor", around, dtype))
    assert "tl_wgmma_results_of_paths<" in kernel.get_kernel_source()
    assert not said and kernel.resource_usage[0]["refusals"] == []


@pytest.mark.parametrize("target", ["reference", "cpu", "sim:sm_80", "sim:sm_90a"])
@pytest.mark.parametrize("around", ["nothing", "a condition", "loops"])
def test_what_they_sum_up(around, target):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("f2") for shape in ((8, 64, 64), (64, 64)))
    d = rng.standard_normal((64, 64)).astype("f4")
    s = np.array([0, 3, 3, 5, 8], "i4")  # a block without a turn is among them
    c = np.full((4, 64, 64), np.nan, "f4")
    tilelang.compile(sums("chosen", "tensor", around), target=target)(a, b, s, d, c)
    for x in range(4):
        once = sum((a[k].astype("f8") @ b.astype("f8") for k in range(s[x], s[x + 1])), np.zeros((64, 64)))
        held = d.astype("f8") if s[x] > 2 else np.zeros((64, 64))
        if around == "a condition" and s[x] >= 5:
            once = 0 * once
        wanted = (held + once) * 2 + once if around == "loops" else held + once
        assert np.linalg.norm(c[x] - wanted) <= 1e-3 * max(np.linalg.norm(wanted), 1)
