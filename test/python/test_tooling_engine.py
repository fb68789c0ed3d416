"""tilelang.lower and the names of tilelang.engine, as published."""

import numpy
import pytest
import tilelang
import tilelang.engine.lower
import tilelang.language as T
from tilelang import engine
from tilelang.engine.lower import lower
from tilelang.engine.param import CompiledArtifact, KernelParam, dump_kernel_params, load_kernel_params


@T.prim_func
def add_one(A: T.Tensor((64,), "float16"), n: T.uint32, B: T.Tensor((64,), "float16")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            B[i] = A[i] + n


def test_lower():
    assert engine.lower is lower is tilelang.lower and not isinstance(lower, type(tilelang))
    made = lower(add_one, "cpu", target_host="c", runtime_only=True)
    assert isinstance(made, CompiledArtifact)
    assert made.kernel_source == made.device_mod == made.rt_mod.kernel_source
    assert made.target == made.rt_mod.target and made.target_host == "c" and "add_one" in made.host_mod
    x = numpy.ones(64, "float16")
    made.rt_mod(x, 2, y := numpy.zeros(64, "float16"))
    assert (y == 3).all() and [p.name for p in made.params] == ["A", "n", "B"]
    assert not engine.is_device_call(add_one)
    with pytest.raises(TypeError, match="takes a @T.prim_func, not int"):
        engine.is_device_call(3)


def test_kernel_params():
    tensor, scalar, _ = add_one.params
    assert (tensor.is_scalar(), scalar.is_scalar(), scalar.is_unsigned()) == (False, True, True)
    assert tensor.tilelang_dtype() == "float16" and not tensor.is_boolean()
    again = load_kernel_params(dump_kernel_params(add_one.params))
    assert again == add_one.params and hash(again[0]) == hash(tensor) and again[0] != scalar
    made = KernelParam("float8_e4m3fn", (4, 4))
    assert made.is_float8() and not made.is_float4() and made.shape == (4, 4) and made.is_tensor
    assert KernelParam(dtype="float4_e2m1fn", shape=[8]).is_float4() and KernelParam("bool", ()).is_boolean()
    assert repr(KernelParam.from_buffer(numpy.zeros((2, 3), "int32"))).endswith("int32[2, 3]")
    torch = pytest.importorskip("torch")
    assert tensor.torch_dtype() is torch.float16


def test_editors_of_the_text():
    for name in ("cuda", "c", "hip", "metal"):
        register = getattr(engine.callback, f"register_{name}_postproc")
        assert register is getattr(engine, f"register_{name}_postproc")
        edit = getattr(engine.callback, f"register_{name}_postproc_callback")(lambda code, target: code)
        assert edit("text", None) == "text"
        register(None)
