"""The regression functions of several scripts, run together: each gives a latency under its name."""

import dynamic_shapes
import lazy_gemm
import row_softmax
import tilelang.testing


def regression_gemm():
    tilelang.testing.process_func(lazy_gemm.run_regression_perf, M=64, N=64, K=64)


def regression_gemm_named():
    tilelang.testing.process_func(lazy_gemm.run_regression_perf, "gemm, a tall one", M=96, N=32)


def regression_softmax():
    tilelang.testing.process_func(row_softmax.run_regression_perf)


def regression_dynamic_add():
    tilelang.testing.process_func(dynamic_shapes.run_regression_perf, "dynamic_add")


if __name__ == "__main__":
    tilelang.testing.regression()
