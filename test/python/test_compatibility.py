"""Names that published programs import from elsewhere: tvm, tilelang.testing, utils, engine, quantize."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
import tilelang.testing


def test_tvm_is_stood_in_for():
    import tvm
    from tvm import DataType, tirx
    from tvm.target import Target

    assert DataType("float16").bits == 16 and tilelang.tvm is tvm
    assert tirx.const(3) == 3 and Target("cuda -arch=sm_80").arch == "sm_80"
    assert tirx.IndexMap.from_func(lambda i, j: [j, i]).map_indices([1, 2]) == [2, 1]
    with pytest.raises(ImportError, match="no TVM here"):
        import tvm.relay  # noqa: F401
    with pytest.raises(ImportError, match="relax"):
        from tvm import relax  # noqa: F401


def test_markers():
    assert tilelang.testing.requires_rocm.__doc__
    marked = tilelang.testing.requires_package("no_such_package")
    assert marked.kwargs["reason"] == "needs the package no_such_package" and marked.args == (True,)
    assert tilelang.testing.requires_package("numpy").args == (False,)
    assert callable(tilelang.testing.requires_cuda(lambda: None))
    tilelang.testing.set_random_seed(3)
    first = np.random.rand()
    tilelang.testing.set_random_seed(3)
    assert np.random.rand() == first


def test_lower():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                A[i] = 1.0

    artifact = tilelang.lower(main, target="cuda -arch=sm_80")
    assert "main_kernel" in artifact.kernel_source and artifact.params[0].name == "A"


def test_compute_version():
    from tilelang.contrib import nvcc

    assert nvcc.get_target_compute_version("cuda -arch=sm_86") == "8.6"
    assert nvcc.parse_compute_version("9.0") == (9, 0)
    with pytest.raises(ValueError, match="not a CUDA target"):
        nvcc.get_target_compute_version("cpu")


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def test_unpacking(target):
    from tilelang.quantize import (
        _tir_packed_int_to_int_convert,
        _tir_packed_to_signed_convert,
        _tir_packed_to_unsigned_convert,
        _tir_u8_to_f4_to_bf16,
    )

    @T.prim_func
    def main(
        W: T.Tensor((256,), "uint8"),
        U: T.Tensor((512,), "int32"),
        S: T.Tensor((512,), "int32"),
        I: T.Tensor((512,), "float32"),
        F: T.Tensor((512,), "float32"),
        B: T.Tensor((512,), "bfloat16"),
    ):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(512):
                U[i] = _tir_packed_to_unsigned_convert("int", 8)(4, W[i // 2], i % 2, "int32")
                S[i] = _tir_packed_to_signed_convert("int", 8)(4, W[i // 2], i % 2, "int32")
                I[i] = _tir_packed_int_to_int_convert("int", 8)(4, W[i // 2], i % 2, "float32")
                F[i] = T.unpack_e2m1(W[i // 2], i % 2, "float32")
                B[i] = _tir_u8_to_f4_to_bf16(4, W[i // 2], i % 2, 3, "bfloat16")

    kernel = tilelang.compile(main, target=target, out_idx=[1, 2, 3, 4, 5])
    packed = np.arange(256, dtype=np.uint8)
    unsigned, offset, signed, e2m1, bf16 = kernel(packed)
    nibbles = np.stack([packed & 15, packed >> 4], -1).reshape(-1).astype(int)
    wanted = np.where(nibbles & 8, -1, 1) * E2M1[nibbles & 7]
    assert np.array_equal(unsigned, nibbles) and np.array_equal(offset, nibbles - 8)
    assert np.array_equal(signed, (nibbles ^ 8) - 8)
    assert np.array_equal(e2m1, wanted) and np.array_equal(bf16.astype(float), wanted * 8)
