"""The one table of scalar functions, and what its newest rows compute, bit for bit, against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from tilelang import _core

TARGETS = ["reference", "sim:sm_80", "cpu -mcpu=x86-64", "cpu -mcpu=haswell", "cpu -mcpu=skylake-avx512"]
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
ROWS = {row["name"]: row for row in _core.instruction_rows("sm_90") if "arity" in row}


def test_the_table_of_functions():
    table = _core.scalar_functions()
    names = [name for name, *_ in table]
    assert len(set(names)) == len(names)
    assert {"exp", "__exp", "atan2", "fma", "clz", "isnan", "fabs", "nearbyint", "ldexp"} <= set(names)
    for name, row, params, doc, result in table:
        assert ROWS[row]["arity"] == len(params) and all(p.isidentifier() for p in params), name
        assert doc.endswith(".") and "\n" not in doc, name
        dtype = "bool" if name.startswith("is") else "int32" if name == "clz" else "same"
        assert result == dtype, name


def edges(dtype, rng, count):
    """Numbers of every size, of both signs, and those that end something."""
    info = ml_dtypes.finfo(dtype)
    rest = rng.standard_normal(count) * np.exp2(rng.integers(info.minexp - 12, info.maxexp - 1, count))
    ends = [0, 1, 2, 1.5, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan]
    ends = np.array([float(e) for e in ends] + [float(info.tiny) - float(info.smallest_subnormal)])
    return np.concatenate([ends, -ends, rest])[:count].astype(dtype)


def computed(target, value, out, **arrays):
    """Y[i] = value, in which A, B, … stand for the elements of the arrays."""
    kinds = {np.dtype(t).name: kind for kind, t in {**FLOATS, "i32": np.int32}.items()}
    n = len(arrays["A"])
    params = "".join(f"{name}: {kinds[a.dtype.name]}[{n}], " for name, a in arrays.items())
    text = f"""
func main({params}Y: {kinds[np.dtype(out).name]}[{n}]):
  kernel main grid(b: {n // 128}) threads(128):
    for i in parallel(128):
      Y[b*128 + i] = {value.replace("A", "A[b*128 + i]").replace("B", "B[b*128 + i]")}
"""
    result = np.zeros(n, out)
    try:
        _core.compile(_core.parse(text), target, {}).launch([*arrays.values(), result], 0)
    except RuntimeError as error:
        if "which this processor" in str(error):  # an older one than the target
            pytest.skip(str(error))
        raise
    return result


def same(got, wanted):
    got, wanted = got.astype(np.float64), wanted.astype(np.float64)
    return np.array_equal(got, wanted, equal_nan=True) and np.array_equal(
        np.signbit(got[~np.isnan(got)]), np.signbit(wanted[~np.isnan(wanted)])
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_the_next_number(kind, target):
    dtype, rng = FLOATS[kind], np.random.default_rng(11)
    a, b = edges(dtype, rng, 1024), rng.permutation(edges(dtype, rng, 1024))
    b[:64] = a[:64]
    b[64:66], a[64:66] = np.array([0.0, -0.0], dtype), np.array([-0.0, 0.0], dtype)
    with np.errstate(all="ignore"):
        wanted = np.where(a == b, b, np.nextafter(a, b))  # NumPy's float16 takes a's zero, C takes b's
        assert same(computed(target, "nextafter(A, B)", dtype, A=a, B=b), wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FLOATS)
def test_times_a_power_of_two(kind, target):
    dtype, rng = FLOATS[kind], np.random.default_rng(12)
    a, n = edges(dtype, rng, 2048), rng.integers(-320, 320, 2048, np.int32)
    n[::7] = rng.integers(-2300, 2300, len(n[::7]))
    n[::61] = rng.choice([2**31 - 1, -(2**31), 0, 1075, -1075], len(n[::61]))
    with np.errstate(all="ignore"):  # a float64 is rounded by NumPy, a narrower one behind it, once
        wanted = np.ldexp(a.astype(np.float64), n).astype(dtype)
        assert same(computed(target, "ldexp(A, B)", dtype, A=a, B=n), wanted)
