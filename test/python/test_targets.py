"""Targets: the chips that there are, one of them under two names, and what is said of those that are not."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T

HOPPER = ["sm_90", "sm_90a"]


@T.prim_func
def multiply(
    A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")
):
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C)


def test_hopper_with_its_own_instructions_is_hopper():
    plain, own = (tilelang.compile(multiply, target=f"cuda -arch={chip}") for chip in HOPPER)
    assert own.get_kernel_source() == plain.get_kernel_source().replace("sm_90", "sm_90a")
    assert ".target sm_90a" in own._kernel.ptx() and ".target sm_90a" not in plain._kernel.ptx()
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    got = np.zeros((64, 64), np.float32)
    tilelang.compile(multiply, target="sim:sm_90a")(a, b, got)
    assert np.allclose(got, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


@T.prim_func
def fence(A: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        T.ptx("wgmma.fence.sync.aligned;")
        A[T.get_thread_binding()] = 1.0


def test_only_the_device_compiler_of_sm_90a_takes_wgmma():
    tilelang.compile(fence, target="cuda -arch=sm_90a")
    with pytest.raises(tilelang.CompileError, match="sm_90"):
        tilelang.compile(fence, target="cuda -arch=sm_90")


@pytest.mark.parametrize("target, why", [
    ("cuda -arch=sm_70", "Volta"),
    ("cuda -arch=sm_75", "bf16"),
    ("cuda -arch=sm_100a", "tcgen05"),
    ("cuda -arch=sm_120", "no description"),
    ("sim:sm_100", "tcgen05"),
    ("hip", "AMD"),
    ("hip -mcpu=gfx942", "AMD"),
    ("metal", "Apple"),
    ("webgpu", "WGSL"),
    ("cutedsl", "say cuda"),
    ("c", "say cpu"),
])  # fmt: skip
def test_a_target_that_is_not_here(target, why):
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(multiply, target=target)
    assert why in caught.value.text and "sm_80, sm_86, sm_89, sm_90, sm_90a" in caught.value.text


def test_llvm_is_the_cpu():
    assert tilelang.compile(multiply, target="llvm")._kernel.target.startswith("cpu -mcpu=")
