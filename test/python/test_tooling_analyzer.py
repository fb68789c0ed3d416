"""tilelang.tools.Analyzer: operations, traffic, and the time that they need at least."""

import pytest
import tilelang
import tilelang.language as T
import tilelang.tools.Analyzer
from tilelang.tools import ARCH_CONFIGS, AnalysisResult, Analyzer

TARGET = "cuda -arch=sm_90"


def gemm(M, N, K, dtype="float16", block=64):
    @T.prim_func
    def main(A: T.Tensor((K, M), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            As = T.alloc_shared((2, 32, block), dtype)
            Bs = T.alloc_shared((32, block), dtype)
            Cl = T.alloc_fragment((block, block), "float32")
            T.clear(Cl)
            for k in T.Pipelined(K // 32, num_stages=2):
                T.copy(A[k * 32, by * block], As[0, :, :])
                T.copy(B[k * 32, bx * block], Bs)
                T.gemm(As[0, :, :], Bs, Cl, transpose_A=True)
            T.copy(Cl, C[by * block, bx * block])

    return main


def test_the_class_and_its_module():
    assert tilelang.tools.Analyzer is Analyzer and isinstance(Analyzer, type)
    assert "sm_90" in ARCH_CONFIGS


def test_a_gemm():
    found = Analyzer.analysis(gemm(256, 512, 1024), TARGET)
    assert isinstance(found, AnalysisResult)
    assert found.total_flops == 2 * 256 * 512 * 1024
    assert found.total_global_bytes == (32 * (64 + 64) * 2 * 32 + 64 * 64 * 4) * 32
    assert found.estimated_time == pytest.approx(found.total_global_bytes / 3350e9)
    assert found.expected_bandwidth_GBps == pytest.approx(3350)
    assert found.expected_tflops == pytest.approx(found.total_flops / found.estimated_time / 1e12)
    large = Analyzer.analysis(gemm(8192, 8192, 8192, block=512), "cuda -arch=sm_89")
    assert large.expected_tflops == pytest.approx(165, rel=0.01)  # arithmetic takes longer than traffic
    kernel = tilelang.compile(gemm(256, 512, 1024), target=TARGET)
    assert Analyzer(kernel, TARGET).ir_pass().calculate() == found


def test_statements_and_loops_that_depend_on_the_block():
    @T.prim_func
    def main(X: T.Tensor((64, 128), "float32"), Y: T.Tensor((64, 128), "float32")):
        with T.Kernel(64, threads=128) as bx:
            F = T.alloc_fragment((128,), "float32")
            m = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, :], F)
            for _ in T.serial(bx + 1):
                T.reduce_max(F, m)
            for i in T.Parallel(128):
                Y[bx, i] = T.exp(F[i] - m[0]) * 2.0

    found = Analyzer.analysis(main, TARGET)
    assert found.total_global_bytes == 2 * 64 * 128 * 4
    assert found.total_flops == 64 * 128 * 3 + round(64 * 128 * 33)


def test_what_is_known_only_when_it_is_called():
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            for _ in T.serial(n):
                for i in T.Parallel(64):
                    X[i] += 1.0

    with pytest.raises(tilelang.CompileError, match="how often .*n.* runs is known only when") as e:
        Analyzer.analysis(main, TARGET)
    assert e.value.file == __file__
    with pytest.raises(tilelang.CompileError, match="has no rates to compare with"):
        Analyzer.analysis(gemm(64, 64, 64), "cpu")
