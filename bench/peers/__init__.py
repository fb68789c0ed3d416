"""GEMM beside cuBLAS, Triton and the published package: `python bench/peers --help`."""
