"""Inputs with everything that goes wrong in them, and how far two results lie apart: for bench/rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tilelang.front import dtypes


def numpy_type(name: str) -> np.dtype:
    """Of a type as text IR spells it; of types of four bits that of a pair."""
    return dtypes.as_dtype(name).as_numpy()


def is_float(name: str) -> bool:
    return dtypes.as_dtype(name).is_float


# ── inputs ────────────────────────────────────────────────────────────────────────────────────────────
def _bits(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def random_bits(rng: np.random.Generator, dtype: np.dtype, n: int) -> np.ndarray:
    """Any pattern of bits."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(bool)
    return np.frombuffer(rng.bytes(n * dtype.itemsize), dtype).copy()


def _edges(dtype: np.dtype) -> np.ndarray:
    """Zeros, infinities, NaN, the ends of normal and of subnormal numbers, halves, neighbours of 1."""
    import ml_dtypes

    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        few = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, 7, 31, 32, 100]
        return np.array(few + ([-1, -2, -7] if info.min else []), dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    info = ml_dtypes.finfo(dtype)
    tiny, least, top, step = (float(x) for x in (info.tiny, info.smallest_subnormal, info.max, info.eps))
    few = [0, least, tiny - least, tiny, tiny + least, step, 0.5, 1 - step / 2, 1, 1 + step, 1.5, 2.5, 3.5,
           np.pi, 7, 100, 1 / step, 1 / step + 1, top / 2, top, np.inf]  # fmt: skip
    both = np.array([*few, *[-x for x in few], np.nan])
    with np.errstate(over="ignore", invalid="ignore"):
        return both.astype(dtype)


def values(rng: np.random.Generator, name: str, n: int) -> np.ndarray:
    """Of an IR type: all patterns where there are few; else edges, any bits, and numbers of usual size."""
    dtype = numpy_type(name)
    if dtype.itemsize == 1 or (dtype.itemsize == 2 and n >= 65536):
        every = np.arange(256**dtype.itemsize).astype(_bits(dtype))
        return (
            (every % 2).astype(bool).repeat(n // 256)
            if dtype.kind == "b"
            else np.resize(every.view(dtype), n)
        )
    a = random_bits(rng, dtype, n)
    if dtype.kind not in "iu":
        a[::2] = (rng.standard_normal(n) * np.exp2(rng.integers(-6, 6, n))).astype(dtype)[::2]
    edges = _edges(dtype)
    at = rng.choice(n, min(4 * len(edges), n // 2), replace=False)
    a[at] = np.resize(edges, len(at))
    return a


def pairs_of_edges(rng: np.random.Generator, name: str, n: int) -> list[np.ndarray]:
    """Two arrays that meet in every pair of edges, among others."""
    a, b = values(rng, name, n), values(rng, name, n)
    edges = _edges(numpy_type(name))
    count = min(len(edges) ** 2, n // 2)
    a[:count], b[:count] = np.repeat(edges, len(edges))[:count], np.tile(edges, len(edges))[:count]
    return [a, b]


def within(a: np.ndarray, low: float, high: float) -> np.ndarray:
    """Those between the two; 1 instead of the others, or the middle where 1 is none."""
    with np.errstate(invalid="ignore"):
        wide = a.astype(np.float64)
    other = np.asarray(1 if low <= 1 <= high else (low + high) / 2).astype(a.dtype)
    return np.where((wide >= low) & (wide <= high), a, other)


def moderate(rng: np.random.Generator, dtype: np.dtype, n: int, powers: int) -> np.ndarray:
    """Finite numbers of that many powers of two to both sides of 1."""
    return (rng.standard_normal(n) * np.exp2(rng.integers(-powers, powers + 1, n))).astype(dtype)


# ── comparing ─────────────────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True)
class Bound:
    """How far a result may lie from another: units in the last place, or absolutely where that is more.
    Both may be arrays, for each element its own.
    """

    ulps: float | np.ndarray = 0
    absolute: float | np.ndarray = 0
    text: str = "equal"


EXACT = Bound()


@dataclass
class Distance:
    elements: int
    equal: int  # bit for bit, or both NaN
    ulps: float  # the greatest distance of those that `absolute` alone does not allow
    share: float  # the greatest part of what is allowed that was needed
    wrong: int
    first: str = ""  # of the wrong ones


def _order(a: np.ndarray) -> np.ndarray:
    """Floats as integers in the same order, neighbours next to each other."""
    bits = a.view(_bits(a.dtype)).astype(object)
    top = 1 << (8 * a.itemsize - 1)
    return np.array([x if x < top else top - x for x in bits], dtype=object)


def distance(found: np.ndarray, wanted: np.ndarray, bound: Bound) -> Distance:
    """Both of one dtype, that of floats where NaNs are to be equal to one another."""
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    floats = found.dtype.kind not in "iub"
    equal = found.view(_bits(found.dtype)) == wanted.view(_bits(found.dtype))
    if floats:
        with np.errstate(invalid="ignore"):
            f, w = found.astype(np.float64), wanted.astype(np.float64)
        equal |= np.isnan(f) & np.isnan(w)
    off = np.flatnonzero(~equal)
    result = Distance(found.size, int(equal.sum()), 0.0, 0.0, 0)
    if not len(off):
        return result
    apart = np.full(len(off), np.inf)
    good = np.zeros(len(off), bool)
    if floats:
        nan = np.isnan(f[off]) | np.isnan(w[off])
        apart[~nan] = np.abs(_order(found[off][~nan]) - _order(wanted[off][~nan])).astype(np.float64)
        zeros = (f[off] == 0) & (w[off] == 0)  # of different signs
        apart[zeros] = 0 if np.any(np.asarray(bound.ulps)) or np.any(np.asarray(bound.absolute)) else np.inf
        allowed = np.broadcast_to(bound.ulps, found.shape)[off]
        absolute = np.broadcast_to(bound.absolute, found.shape)[off]
        with np.errstate(invalid="ignore", divide="ignore"):
            difference = np.where(f[off] == w[off], 0, np.abs(f[off] - w[off]))
            good = (apart <= allowed) | (difference <= absolute)
            needed = np.minimum(np.where(apart == 0, 0, apart / allowed), difference / absolute)
        counted = apart[~(difference <= absolute) | (np.asarray(bound.absolute) == 0).all()]
        result.ulps = float(counted.max(initial=0))
        result.share = float(np.nan_to_num(needed, nan=0.0).max(initial=0))
    result.wrong = int((~good).sum())
    if result.wrong:
        at = off[~good][0]
        result.first = f"element {at}: {found[at]!r} instead of {wanted[at]!r}"
    return result
