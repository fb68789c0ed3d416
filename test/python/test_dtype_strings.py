"""dtype objects are strings that know their bits; every published spelling of one is an object."""

import copy
import json
import pickle
import re

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.front.dtypes import SCALARS, as_dtype, limits

USED = [made for made in SCALARS if not made.why_not]
REFUSED = [made for made in SCALARS if made != "float8_e4m3" and made.why_not]
BITS = {"float8_e3m4": 8, "float8_e4m3": 8, "float8_e4m3b11fnuz": 8, "float8_e4m3fnuz": 8,
        "float8_e5m2fnuz": 8, "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1_unpacked": 8, "int1": 1,
        "uint1": 1, "int2": 2, "uint2": 2, "handle": 64, "void": 0}  # fmt: skip


def test_a_dtype_is_its_name():
    x = T.float16
    assert isinstance(x, str) and isinstance(x, T.dtype) and x == "float16"
    assert hash(x) == hash("float16") and {x: 1}["float16"] == 1 and {"float16": 2}[x] == 2
    assert x.startswith("float") and "float8" in T.float8_e4m3fn and x[-2:] == "16" and "x" + x == "xfloat16"
    assert x + "_kernel" == f"{x}_kernel" == "%s_kernel" % x == "{}_kernel".format(x)  # noqa: UP031, UP032
    assert re.match(r"([a-z]+)(\d+)", x).groups() == ("float", "16")
    assert json.loads(json.dumps({"dtype": x, x: 1})) == {"dtype": "float16", "float16": 1}
    assert x.__class__(str(x)) is x and repr(x) == "T.float16" and type(str(x)) is str
    assert sorted([T.int8, T.float16]) == ["float16", "int8"] and ",".join([x, T.int4]) == "float16,int4"
    for made in (x, T.bfloat16x2, T.float8_e4m3, T.bool):
        assert pickle.loads(pickle.dumps(made)) is copy.deepcopy(made) is copy.copy(made) is made


def test_one_object_for_each():
    torch = pytest.importorskip("torch")
    for other in ("float16", "half", "f16", np.float16, np.dtype("float16"), torch.float16, T.dtype("fp16")):
        assert T.dtype(other) is T.float16 is as_dtype(other)
    assert T.dtype(float) is T.float32 and T.dtype(int) is T.int32 and T.dtype(bool) is T.bool
    assert T.dtype("custom[tfloat32]x4") is T.tfloat32x4 and T.dtype("float16x1") is T.float16
    seen = []

    @T.prim_func
    def main(A: T.Tensor((8,), "half"), n: T.int64):
        with T.Kernel(1, threads=32):
            seen.append((A.dtype, A[0].dtype, (A[0] + T.float32(1)).dtype, n.dtype))

    assert all(a is b for a, b in zip(seen[0], (T.float16, T.float16, T.float32, T.int64), strict=True))
    assert main.params[0].dtype is T.float16


def test_other_libraries_take_them():
    torch = pytest.importorskip("torch")
    for made in USED:
        if made == made.stored:
            assert getattr(torch, made) is made.as_torch()
            assert np.dtype(made.as_numpy()).itemsize == made.bytes
    assert T.int4.as_torch() is torch.int8 and T.float4_e2m1fn.as_torch() is torch.uint8
    assert np.zeros(3, T.float16).dtype == np.float16
    assert T.dtypes._TORCH_DTYPE_TO_STR[torch.bfloat16] == "bfloat16"
    with pytest.raises(TypeError, match="PyTorch has no float6_e2m3fn"):
        T.float6_e2m3fn.as_torch()


def test_what_they_know():
    assert (T.float16.bits, T.float16.bytes, T.float16.itemsize, T.float16.lanes) == (16, 2, 2, 1)
    assert (T.int8.type_code, T.uint8.type_code, T.float32.type_code, T.bfloat16.type_code) == (0, 1, 2, 4)
    x = T.float16.with_lanes(4)
    assert x is T.float16x4 is T.float16x2.with_lanes(4) and (x.bits, x.lanes, x.bytes) == (16, 4, 8)
    assert x.with_lanes(1) is T.float16 and T.float4_e2m1fnx64.bytes == 32 and T.int4.bytes == 1
    assert T.float32x2.is_float and T.uint8x4.is_int and not T.bool.is_int and not T.dtype("void").is_float


def test_published_names():
    for alias, made in {
        "int": T.int32,
        "uint": T.uint32,
        "long": T.int64,
        "short": T.int16,
        "half": T.float16,
        "float": T.float32,
        "double": T.float64,
        "bool": T.bool_,
    }.items():
        assert getattr(T, alias) is made is getattr(tilelang.dtypes, alias)
    for made in SCALARS:
        if made not in ("bool", "handle", "void"):
            assert getattr(T, made) is made
    families = [x for x in SCALARS if x.bits >= 8 or x.startswith("float")]
    for made in families:
        if made not in ("bool", "handle", "float4_e2m1_unpacked"):
            for lanes in (2, 4, 8, 16, 32, 64):
                vector = getattr(T, f"{made}x{lanes}")
                assert (vector, vector.lanes, vector.bits) == (f"{made}x{lanes}", lanes, made.bits)
    assert {x: x.bits for x in SCALARS if x.why_not} == BITS
    for name in ("f32", "float16x3", "float16x", "boolx2", "xx2", "e4m3"):
        assert not hasattr(T, name)
    from tilelang.dtypes import dtype, float16x2
    from tilelang.language.dtypes import dtype as same

    assert dtype is same is T.dtypes.dtype is T.dtype and float16x2 is T.float16x2
    assert isinstance(float16x2, T.dtypes.AnyDType)


def test_predicates():
    assert T.is_float4("float4_e2m1fn") and T.is_float4(T.float4_e2m1_unpacked) and not T.is_float4("int4")
    assert T.is_float4_e2m1fn(T.float4_e2m1fn) and not T.is_float4_e2m1fn(T.float4_e2m1_unpacked)
    assert T.is_float4_e2m1_unpacked("float4_e2m1_unpacked") and T.is_f8f6f4_family(T.float6_e3m2fn)
    assert not T.is_f8f6f4_family(T.float16) and T.get_tvm_dtype("half") == T.float16
    T.validate_gemm_ab_dtypes("float16", T.float16)
    T.validate_gemm_ab_dtypes("float8_e5m2", "float4_e2m1fn", allow_f8f6f4_mixed=True)
    with pytest.raises(tilelang.CompileError, match="A is float16 and B is float32"):
        T.validate_gemm_ab_dtypes("float16", "float32", allow_f8f6f4_mixed=True)
    assert T.dtypes.is_float4("float4_e2m1fn") and tilelang.language.dtypes.get_tvm_dtype("int") == "int32"


@pytest.mark.parametrize("made", REFUSED, ids=str)
def test_what_no_chip_has_is_refused(made):
    """As the dtype of a tensor, a tile, a cast: with the reason."""

    def tile():
        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                T.alloc_shared((8,), made)

    def cast():
        @T.prim_func
        def main(A: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = T.cast(A[1], made)

    for use in (tile, cast, lambda: T.Tensor((8,), made), lambda: made(1.0)):
        with pytest.raises(tilelang.CompileError) as error:
            use()
        assert f"nothing here can have the dtype {made}: {made.why_not}" in str(error.value)


def test_the_types_of_other_chips_name_them():
    for made, words in {T.float8_e4m3: "float8_e4m3fn", T.float8_e4m3fnuz: "gfx942",
                        T.float6_e2m3fn: "sm_100", T.float4_e2m1_unpacked: "sm_100",
                        T.int2: "unpack_int", T.uint1: "unpack_uint",
                        T.dtype("handle"): "T.ptr"}.items():  # fmt: skip
        assert words in made.why_not
    with pytest.raises(tilelang.CompileError, match="unknown dtype 'flaot16'; did you mean float16"):
        T.dtype("flaot16")


def test_casts():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.int(A[i]) + T.long(1).astype(T.int32) + T.short(2) + T.uint(3).astype("int32")

    a, b = np.full(8, 2.75, np.float32), np.zeros(8, np.int32)
    tilelang.compile(main, target="cpu")(a, b)
    assert (b == 8).all()


def test_a_kernel_for_each_dtype():
    """A parameter that is a dtype: the object and its name give the same kernel, and the object's type hint
    makes no parameter of it.
    """

    @tilelang.jit(target="cpu")
    def scaled(A, dtype: T.dtype = T.float32):
        N = T.const("N")
        A: T.Tensor((N,), dtype)
        out = T.empty((N,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                out[i] = A[i] * (2 if "int" in dtype else 0.5)
        return out

    assert (scaled(np.ones(4, np.float32)) == 0.5).all()
    for dtype in (T.int32, "int32"):
        assert (scaled(np.ones(4, np.int32), dtype) == 2).all()
    with pytest.raises(Exception, match="float16"):
        scaled(np.ones(4, np.float32), T.float16)


@pytest.mark.parametrize("future", [False, True])
def test_annotations_of_scalars(future):
    """A dtype as an annotation is a dtype, though it is a string."""
    text = (
        "import tilelang.language as T\n"
        "@T.prim_func\n"
        "def main(A: T.Tensor((8,), 'float32'), n: T.int32, x: T.float32):\n"
        "    with T.Kernel(1, threads=32):\n"
        "        y: T.float32 = x\n"
        "        for i in T.Parallel(8):\n"
        "            A[i] = y * n\n"
    )
    text = "from __future__ import annotations\n" * future + text
    scope = {}
    import linecache

    name = f"<annotations of scalars {future}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)
    a = np.zeros(8, np.float32)
    tilelang.compile(scope["main"], target="cpu")(a, 3, 1.5)
    assert (a == 4.5).all()


def test_limits():
    assert limits(T.int8) == (-128, 127) and limits(T.uint4) == (0, 15) and limits(T.bool) == (0, 1)
    assert limits(T.float16) == (-65504.0, 65504.0)
