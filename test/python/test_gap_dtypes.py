"""Types as published: strings with bits, every spelling, types of several lanes, rare formats."""

import copy
import json
import pickle
import re
import types

import ml_dtypes
import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang.front import dtypes

SIM = "sim:sm_90"  # of the fixture `target`

SCALARS = ["float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16",
           "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "bool"]  # fmt: skip


# ── a dtype is a string ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SCALARS)
def test_a_dtype_is_its_name(name):
    dtype = getattr(T, name)
    assert isinstance(dtype, str) and isinstance(dtype, T.dtype)
    assert dtype == name and name == dtype and hash(dtype) == hash(name)
    assert str(dtype) == name and f"{dtype}" == name and f"{dtype:>16}" == f"{name:>16}"
    assert "kernel_" + dtype == "kernel_" + name and dtype + "_t" == name + "_t"
    assert dtype[-2:] == name[-2:] and len(dtype) == len(name) and list(dtype) == list(name)
    assert name[2:5] in dtype and "complex" not in dtype
    assert {dtype: 1}[name] == 1 and {name: 1}[dtype] == 1 and dtype in [name] and name in {dtype}
    assert dtype.startswith(name[:3]) and dtype.endswith(name[-2:]) and dtype.upper() == name.upper()
    assert re.match(r"[a-z]+", dtype)[0] == re.match(r"[a-z]+", name)[0]
    assert dtype.replace("float", "f") == name.replace("float", "f") and dtype.split("_") == name.split("_")
    assert json.loads(json.dumps({"dtype": dtype})) == {"dtype": name} and "".join([dtype]) == name


@pytest.mark.parametrize("name", SCALARS)
def test_a_dtype_is_kept_by_what_stores_it(name):
    dtype = getattr(T, name)
    for other in (pickle.loads(pickle.dumps(dtype)), copy.copy(dtype), copy.deepcopy(dtype), T.dtype(name)):
        assert other == dtype and isinstance(other, T.dtype) and other.bits == dtype.bits
    assert copy.deepcopy({"dtype": dtype})["dtype"].bits == dtype.bits


def test_a_dtype_names_an_attribute():
    library = types.SimpleNamespace(float16="half", int8="byte")
    assert getattr(library, T.float16) == "half" and getattr(library, T.int8) == "byte"
    torch = pytest.importorskip("torch")
    assert getattr(torch, T.bfloat16) is torch.bfloat16 is T.bfloat16.as_torch()
    assert T.dtype(torch.float16) == "float16"
    assert torch.zeros(2, dtype=getattr(torch, T.int32)).dtype == torch.int32


def test_members_of_a_dtype():
    rows = {"float16": (16, 2), "float32": (32, 4), "int8": (8, 1), "uint64": (64, 8), "float8_e5m2": (8, 1)}
    for name, (bits, size) in rows.items():
        dtype = getattr(T, name)
        assert (dtype.bits, dtype.bytes, dtype.itemsize, dtype.lanes) == (bits, size, size, 1)
    assert (T.int32.type_code, T.uint8.type_code, T.float16.type_code) == (0, 1, 2)
    assert T.float16.with_lanes(4) == "float16x4" and T.float16.with_lanes(4).lanes == 4
    from tilelang.language.dtypes import dtype

    assert dtype is T.dtype and dtype("float16") == T.float16
    from tilelang.dtypes import dtype as same

    assert same is T.dtype


def test_a_dtype_is_a_keyword_of_a_factory_and_of_a_cast():
    @tilelang.jit(out_idx=[-1], target="cpu")
    def cast(N, in_dtype, out_dtype=T.float32):
        kind = "integer" if in_dtype.startswith(("int", "uint")) else "real"
        wide = out_dtype if "32" in out_dtype else "float32"

        @T.prim_func
        def main(A: T.Tensor((N,), in_dtype), B: T.Tensor((N,), out_dtype)):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(N):
                    B[i] = T.cast(A[i], wide) + (1 if kind == "integer" else 2)

        return main

    assert cast(4, T.int8)(np.int8([1, 2, 3, 4])).tolist() == [2, 3, 4, 5]
    assert cast(4, T.float16)(np.float16([1, 2, 3, 4])).tolist() == [3, 4, 5, 6]
    assert cast(4, "float16").get_kernel_source() == cast(4, T.float16).get_kernel_source()


# ── spellings ─────────────────────────────────────────────────────────────────────────────────────────

SPELLINGS = {"int": "int32", "uint": "uint32", "long": "int64", "short": "int16", "float": "float32",
             "double": "float64", "half": "float16", "bool": "bool"}  # fmt: skip


@pytest.mark.parametrize("name", ["int", "uint", "long", "short", "float"])
def test_a_short_name(name):
    dtype, full = getattr(T, name), SPELLINGS[name]
    assert dtype == full and T.dtype(full) == dtype

    @T.prim_func
    def main(A: T.Tensor((8,), dtype), B: T.Tensor((8,), full)):
        with T.Kernel(1, threads=32):
            n = T.alloc_var(dtype)
            n = dtype(3)
            for i in T.Parallel(8):
                B[i] = A[i].astype(dtype) + n

    a = np.arange(8).astype(full)
    b = np.zeros_like(a)
    tilelang.compile(main, target="cpu")(a, b)
    assert np.array_equal(b, a + np.dtype(full).type(3))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_short_name_as_a_string(name):
    assert T.Tensor((4,), name).dtype == SPELLINGS[name] == T.dtype(name)


# ── several lanes ─────────────────────────────────────────────────────────────────────────────────────

LANES = (2, 4, 8, 16, 32, 64)


WIDE = [*SCALARS[:-1], "float8_e8m0fnu", "float4_e2m1fn"]


@pytest.mark.parametrize("scalar", WIDE)
def test_types_of_several_lanes(scalar):
    for lanes in LANES:
        name = f"{scalar}x{lanes}"
        dtype = getattr(T, name)
        assert dtype == name and dtype.lanes == lanes and dtype.bits == getattr(T, scalar).bits
        assert T.dtype(name) == dtype and getattr(tilelang.dtypes, name) == dtype


def test_a_tensor_of_pairs(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float16x2"), B: T.Tensor((8,), T.float16x2)):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[i] = A[i]

    a = np.arange(16, dtype=np.float16).reshape(8, 2)
    b = np.zeros_like(a)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(a, b)


@pytest.mark.parametrize("lanes", [2, 4])
def test_lanes_of_an_element(target, lanes):
    """Pairs are values; of more lanes the error says so."""
    dtype = T.dtype(f"float32x{lanes}")
    try:

        @T.prim_func
        def main(A: T.Tensor((8,), dtype), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=8):
                for i in T.Parallel(8):
                    B[i] = T.extract_lane(A[i], 0) + T.extract_lane(A[i], lanes - 1)
    except tilelang.CompileError as error:
        assert lanes > 2 and "T.extract_lane" in str(error) and "two" in str(error)
        return
    a = np.arange(8 * lanes, dtype=np.float32).reshape(8, lanes)
    b = np.zeros(8, np.float32)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, a[:, 0] + a[:, -1])


# ── rare formats ──────────────────────────────────────────────────────────────────────────────────────

RARE = ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4",
        "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1_unpacked"]  # fmt: skip


@pytest.mark.parametrize("name", RARE)
def test_a_rare_type_is_a_type(name):
    """It is known by name, with its bits; a kernel takes it, or the error says what it needs."""
    dtype = getattr(T, name)
    assert isinstance(dtype, str) and dtype.bits == (8 if "8" in name or "unpacked" in name else 6)
    try:

        @T.prim_func
        def main(A: T.Tensor((8,), name), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=8):
                for i in T.Parallel(8):
                    B[i] = T.cast(A[i], "float32")

        kernel = tilelang.compile(main, target="cpu")
    except tilelang.CompileError as error:
        assert name in str(error) and re.search(r"needs|chip|sm_|GPU|AMD", str(error)), str(error)
        assert "not in this version yet" not in str(error)
        return
    a = np.float32([0, 1, -2, 0.5, 4, -0.25, 3, 1.5])
    a = a.astype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else None
    if a is not None:
        b = np.zeros(8, np.float32)
        kernel(a, b)
        assert np.array_equal(b, a.astype(np.float32))


@pytest.mark.parametrize("name", ["uint1", "int2", "uint2", "int1"])
def test_types_of_less_than_four_bits(name):
    dtype = T.dtype(name)
    assert dtype == name and dtype.bits == int(name[-1])
    try:
        tensor = T.Tensor((8,), name)
    except tilelang.CompileError as error:
        assert name in str(error) and "not in this version yet" not in str(error)
    else:
        assert tensor.dtype == name


def test_e4m3_is_the_chips(target, monkeypatch):
    """A name without a format on any chip is read as the format of NVIDIA's, which is said once."""
    monkeypatch.setattr(dtypes, "_said", set())
    assert T.float8_e4m3 != T.float8_e4m3fn and T.float8_e4m3 == "float8_e4m3"

    def make(dtype):
        @T.prim_func
        def main(A: T.Tensor((6,), "float32"), E: T.Tensor((6,), dtype), B: T.Tensor((6,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(6):
                    E[i] = T.cast(A[i], dtype)
                    B[i] = T.cast(T.cast(A[i], dtype), "float32")

        return main

    with pytest.warns(tilelang.TilelangWarning) as said:
        main = make(T.float8_e4m3)
        make("float8_e4m3")
    assert [str(w.message) for w in said] == [
        "float8_e4m3 is read as float8_e4m3fn: it is the format with infinities, which no chip has; that of "
        "NVIDIA's chips has none"
    ]
    assert said[0].filename == __file__
    a, b = np.float32([1.0, 240.0, 300.0, -1e9, 0.3, np.nan]), np.zeros(6, np.float32)
    e = np.zeros(6, ml_dtypes.float8_e4m3fn)
    tilelang.compile(main, target=target)(a, e, b)
    np.testing.assert_array_equal(b, np.clip(a, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype("f4"))
    assert T.dtypes.element_of("float8_e4m3x4", (2,)) == (T.float8_e4m3fn, (2, 4))


def test_questions_about_types():
    from tilelang.language import dtypes

    assert dtypes.is_float4(T.float4_e2m1fn) and not dtypes.is_float4(T.int4)
    assert T.is_float4_e2m1fn("float4_e2m1fn") and not T.is_float4_e2m1_unpacked("float4_e2m1fn")
    assert T.is_float4_e2m1_unpacked(T.float4_e2m1_unpacked) and T.float4_e2m1_unpacked.bits == 8
    assert T.is_f8f6f4_family("float8_e4m3fn") and not T.is_f8f6f4_family("float16")
    torch = pytest.importorskip("torch")
    assert dtypes._TORCH_DTYPE_TO_STR[torch.float16] == "float16"


def test_types_of_a_device():
    from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

    assert determine_fp8_type() == "float8_e4m3fn" and determine_fp8_type("e5m2") == "float8_e5m2"
    torch = pytest.importorskip("torch")
    assert determine_torch_fp8_type("e4m3") is torch.float8_e4m3fn
    assert T.fp8.determine_torch_fp8_type(fp8_format="e5m2") is torch.float8_e5m2
    with pytest.raises((ValueError, tilelang.CompileError), match="e3m4"):
        determine_fp8_type("e3m4")
