"""Functions that edit the generated text before it is compiled."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import engine


def plus_one(n=16):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=n):
            for i in T.Parallel(n):
                B[i] = A[i] + 1.0

    return main


@pytest.fixture(autouse=True)
def forget():
    yield
    for register in (engine.register_cuda_postproc, engine.register_c_postproc, engine.register_hip_postproc):
        register(None)


def test_cuda_text_is_edited():
    seen = []

    @engine.register_cuda_postproc_callback
    def edit(code, target):
        seen.append(target)
        return "// edited\n" + code

    kernel = tilelang.compile(plus_one(), target="cuda -arch=sm_80")
    assert kernel.get_kernel_source().startswith("// edited\n") and seen == ["cuda -arch=sm_80"]
    again = tilelang.compile(
        plus_one(), target="cuda -arch=sm_80"
    )  # by the edited text, from the cache or not
    assert again.get_kernel_source().startswith("// edited\n") and len(seen) == 2
    engine.register_cuda_postproc(None)
    assert (
        not tilelang.compile(plus_one(), target="cuda -arch=sm_80")
        .get_kernel_source()
        .startswith("// edited")
    )


def test_what_it_writes_is_what_is_compiled():
    engine.register_cuda_postproc(lambda code, target: code + "\nthis is no CUDA;\n")
    engine.register_c_postproc(lambda code, target: code + "\nthis is no LLVM\n")
    for target in ("cuda -arch=sm_80", "cpu"):
        with pytest.raises(tilelang.CompileError, match="rejects the program.*_postproc") as caught:
            tilelang.compile(plus_one(), target=target)
        assert "this is no" in str(caught.value)


def test_cpu_text_is_edited():
    @engine.register_c_postproc_callback()
    def edit(code, target):
        assert "0x3FF0000000000000" in code or "1.0" in code
        return code.replace("0x3FF0000000000000", "0x4000000000000000").replace("float 1.0", "float 2.0")

    x, y = np.arange(16, dtype=np.float32), np.full(16, np.nan, np.float32)
    tilelang.compile(plus_one(), target="cpu")(x, y)
    assert np.array_equal(y, x + 2)
    engine.register_c_postproc(None)
    tilelang.compile(plus_one(), target="cpu")(x, y)
    assert np.array_equal(y, x + 1)


def test_mistakes():
    with pytest.raises(tilelang.CompileError, match="takes a function"):
        engine.register_cuda_postproc(3)
    engine.register_cuda_postproc(lambda code, target: None)
    with pytest.raises(tilelang.CompileError, match="gave NoneType; it must give the text"):
        tilelang.compile(plus_one(), target="cuda -arch=sm_80")
    with pytest.raises(tilelang.CompileError, match="override=True replaces it"):
        engine.register_cuda_postproc(lambda code, target: code, override=False)
