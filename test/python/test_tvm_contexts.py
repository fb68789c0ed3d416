"""Targets and pass contexts as TVM has them: `with`."""

import pytest
import tilelang
import tilelang.language as T
from tilelang import tvm


def copied():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.exp(A[i])

    return main


def test_a_target():
    assert tvm.target.Target.current() is None
    with pytest.raises(ValueError, match="there is no `with Target"):
        tvm.target.Target.current(allow_none=False)
    with tvm.target.Target("cuda -arch=sm_86"):
        with tvm.target.Target("cuda -arch=sm_80") as inner:
            assert tilelang.compile(copied()).target == "cuda -arch=sm_80"
            assert tvm.target.Target.current() == inner
        assert tilelang.compile(copied()).target == "cuda -arch=sm_86"
        assert tilelang.compile(copied(), target="cuda -arch=sm_90").target == "cuda -arch=sm_90"
    assert tvm.target.Target.current() is None


def test_pass_configs():
    key = tilelang.PassConfigKey.TL_ENABLE_FAST_MATH
    plain, fast = {}, {key: True}
    with tvm.transform.PassContext(config=fast):
        assert tvm.transform.PassContext.current().config == {"tl.enable_fast_math": True}
        inside = tilelang.compile(copied(), target="cuda -arch=sm_80")
        off = tilelang.compile(copied(), target="cuda -arch=sm_80", pass_configs={key: False})
    assert (
        inside._kernel.binary
        == tilelang.compile(copied(), target="cuda -arch=sm_80", pass_configs=fast)._kernel.binary
    )
    assert (
        off._kernel.binary
        == tilelang.compile(copied(), target="cuda -arch=sm_80", pass_configs=plain)._kernel.binary
    )
    assert inside._kernel.binary != off._kernel.binary
    assert tvm.transform.PassContext.current().config == {}
