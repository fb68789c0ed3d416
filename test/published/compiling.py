"""Compiling by hand: tilelang.compile, several kernels at once, environment, caches, sources, libraries."""

import logging
import os
import tempfile

import tilelang
import tilelang.language as T
import torch
from tilelang import JITKernel, PassConfigKey
from tilelang.env import env
from tilelang.jit import compile, jit, par_compile


def add_one(N, block=32, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i] + 1

    return main


@jit(out_idx=[1])
def add_one_factory(N, block=32):
    return add_one(N, block)


def compile_in_every_way(x):
    N = x.shape[0]
    program = add_one(N)
    kernels = [
        tilelang.compile(program, out_idx=[1], target="auto", execution_backend="cython"),
        compile(program, -1, pass_configs={PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}),
        JITKernel(program, out_idx=[-1], execution_backend="tvm_ffi", target="auto"),
        *par_compile([program, add_one(N, 64)], out_idx=[1], num_workers=2),
        *add_one_factory.par_compile([{"N": N}, {"N": N, "block": 64}], num_workers=2),
        add_one_factory.compile(N),
        add_one_factory(N),
    ]
    for kernel in kernels:
        torch.testing.assert_close(kernel(x), x + 1)
    return kernels[0]


def look_at(kernel, folder):
    source = kernel.get_kernel_source()
    assert source == kernel.kernel_source and "main" in source
    printed = os.path.join(folder, "printed.txt")
    kernel.print_source_code("kernel", file=printed)
    with open(printed) as file:
        assert source in file.read()
    device, host = os.path.join(folder, "kernel.txt"), os.path.join(folder, "host.txt")
    kernel.export_sources(kernel_path=device, host_path=host)
    with open(device) as file:
        assert source in file.read()
    assert os.path.getsize(host) >= 0
    library = os.path.join(folder, "kernel.cubin" if torch.cuda.is_available() else "kernel.so")
    kernel.export_library(kernel_file=library)
    assert os.path.getsize(library) > 0
    assert "T.prim_func" in add_one(64).script() or "main" in str(add_one(64))
    assert kernel.prim_func is not None and len(kernel.params) == 2


def main(N=100):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tilelang.set_log_level("WARNING")
    assert logging.getLogger("tilelang").level == logging.WARNING
    x = torch.randn(N, device=device)
    with tempfile.TemporaryDirectory() as folder:
        before = env.TILELANG_CACHE_DIR
        env.TILELANG_CACHE_DIR = folder
        assert str(tilelang.env.TILELANG_CACHE_DIR) == folder
        try:
            look_at(compile_in_every_way(x), folder)
        finally:
            env.TILELANG_CACHE_DIR = before
    assert str(tilelang.env.TILELANG_CACHE_DIR) == str(before)

    was = tilelang.is_cache_enabled()
    tilelang.disable_cache()
    assert not tilelang.is_cache_enabled() and not env.is_cache_enabled()
    torch.testing.assert_close(tilelang.compile(add_one(N, 16), out_idx=[1])(x), x + 1)
    if was:
        tilelang.enable_cache()
    assert tilelang.is_cache_enabled() == was
    assert isinstance(env.get_default_target(), str)
    assert env.is_print_on_compilation_enabled() in (True, False)
    print("All checks passed.")


if __name__ == "__main__":
    main()
