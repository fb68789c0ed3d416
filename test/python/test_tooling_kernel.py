"""JITKernel and the object that @tilelang.jit gives, in their published forms."""

import inspect

import numpy
import pytest
import tilelang
import tilelang.language as T


def make(n=64):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                B[i] = A[i] + 1.0

    return main


@tilelang.jit(target="cpu")
def eager(A):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    B = T.empty([n], "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i] + 2.0
    return B


X = numpy.arange(64, dtype="float32")


def test_constructed_directly():
    kernel = tilelang.JITKernel(make(), out_idx=[1], execution_backend="tvm_ffi", target="cpu", verbose=False)
    assert isinstance(kernel, tilelang.JITKernel) and kernel.out_idx == [1]
    numpy.testing.assert_array_equal(kernel(X), X + 1)
    numpy.testing.assert_array_equal(tilelang.JITKernel(make(), -1, None, "sim:sm_90")(X), X + 1)
    numpy.testing.assert_array_equal(tilelang.JITKernel(eager.get_tir(X), None, None, "cpu")(X), X + 2)
    from_function = tilelang.JITKernel.from_tilelang_function(make(), out_idx=-1, target="cpu")
    numpy.testing.assert_array_equal(from_function(X), X + 1)
    stored = tilelang.JITKernel.from_database(make(), "", "", None, [], "cpu", None, [1], "auto")
    numpy.testing.assert_array_equal(stored(X), X + 1)
    assert kernel.execution_backend_spec is None
    with pytest.raises(tilelang.CompileError, match="takes a @T.prim_func, not None"):
        tilelang.JITKernel()


def test_what_a_kernel_writes_out(tmp_path, capsys):
    kernel = tilelang.compile(make(), target="cuda -arch=sm_90")
    assert kernel.n_max_threads == 64
    kernel.print_source_code()
    assert capsys.readouterr().out.strip() == kernel.kernel_source.strip()
    kernel.print_source_code("kernel", file=tmp_path / "kernel.cu")
    assert (tmp_path / "kernel.cu").read_text() == kernel.kernel_source
    kernel.print_source_code(which="host", file=tmp_path / "host.txt")
    assert (tmp_path / "host.txt").read_text() == kernel.get_host_source()
    for name, given in (("a.cubin", "kernel_file"), ("b.cubin", "path")):
        kernel.export_library(**{given: tmp_path / name})
        assert (tmp_path / name).read_bytes() == kernel.artifact.rt_mod
    with pytest.raises(TypeError, match="give kernel_file"):
        kernel.export_library()


def test_members_of_what_jit_gives():
    impl = tilelang.jit(make, out_idx=[-1], target="cpu", pass_configs={"tl.enable_fast_math": True})
    assert (impl.out_idx, impl.target, impl.execution_backend, impl.verbose) == ([-1], "cpu", None, None)
    assert impl.pass_configs == {"tl.enable_fast_math": True} and impl.target_host is None
    assert impl.compile_flags is None and impl.debug_root_path is None
    assert impl.func is make and impl.func_source == inspect.getsource(make)
    assert list(impl.signature.parameters) == ["n"]
    assert impl.mode == "lazy" and impl.is_lazy_mode() and impl.initialize_jit_mode(64) == "lazy"
    assert impl.parse_cache_key(64) == impl.parse_cache_key(n=64) != impl.parse_cache_key(65)
    assert eager.mode == "eager" and not eager.is_lazy_mode() and eager.target == "cpu"
    with pytest.raises(AttributeError, match="has no attribute 'speed'"):
        _ = impl.speed
