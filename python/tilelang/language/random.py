"""Random numbers: Philox4x32-10, bit for bit as cuRAND's device API makes them.

A generator is a seed, a sequence and a position in it; it belongs to a thread, like a variable."""

from __future__ import annotations

import math
from typing import Any

from .._core import Buffer, Expr
from ..front.dtypes import as_dtype
from ..front.trace import Trace, fail, in_kernel
from ..front.values import as_value

_KINDS = ("curandStatePhilox4_32_10_t",)


class _Generator:
    __slots__ = ("seed", "sequence", "position", "spare", "has_spare")

    def __init__(self, seed: Any, sequence: Any, position: Buffer) -> None:
        self.seed, self.sequence, self.position = seed, sequence, position
        self.spare: dict[int, Buffer] = {}  # bits -> the second number of a pair of normal ones
        self.has_spare: dict[int, Buffer] = {}


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_10_t") -> None:
    """Begin a stream of random numbers, as curand_init(seed, seq, off, &state) does.

    seed, seq, off: integers; seq counts streams and off numbers of a stream.  Without seq each thread has its
    own stream, numbered block * threads + thread (x alone); on the CPU and in the reference a block is one
    thread.  Which element of a T.Parallel loop meets which number then depends on how it is mapped, and so on
    the target: where that must not be, give seq the element's own number, inside the loop, as
    docs/patterns.md does."""
    trace = in_kernel("T.rng_init")
    if generator not in _KINDS:
        raise fail(f"T.rng_init: the generator {generator!r} is not in this version; it has {_KINDS[0]!r}")
    b = trace.builder
    block = trace.kernel.indices[0]
    sequence = b.call("random_sequence", (block,)) if seq is None else _counter(b, seq)
    position = b.alloc("random_position", "var", (), as_dtype("uint64"), {})
    b.store(position, (), _counter(b, off))
    trace.generator = _Generator(b.let("seed", _counter(b, seed)), b.let("sequence", sequence), position)
    for bits, dtype in ((32, "float32"), (64, "float64")):
        trace.generator.spare[bits] = b.alloc("random_spare", "var", (), as_dtype(dtype), {})
        trace.generator.has_spare[bits] = b.alloc("random_has_spare", "var", (), as_dtype("int32"), {})
        b.store(trace.generator.spare[bits], (), 0)
        b.store(trace.generator.has_spare[bits], (), 0)


def _counter(b: Any, value: Any) -> Any:
    value = as_value(value)
    if value.__class__ is Expr:
        if not value.dtype.is_int:
            raise fail(f"T.rng_init takes integers, not {value.dtype}")
        return b.cast(as_dtype("uint64"), value)
    if value.__class__ is not int:
        raise fail(f"T.rng_init takes integers, not {value}")
    return b.const(value % (1 << 64), as_dtype("uint64"))


def _generator(what: str) -> tuple[Trace, _Generator]:
    trace = in_kernel(what)
    if trace.generator is None:
        raise fail(f"{what} before T.rng_init(seed)")
    return trace, trace.generator


def rng_rand() -> Expr:
    """The next 32 random bits, a uint32; as curand(&state)."""
    trace, g = _generator("T.rng_rand")
    b = trace.builder
    number = b.let("random", b.call("philox", (g.seed, g.sequence, b.load(g.position, ()))))
    b.store(g.position, (), b.binary("add", b.load(g.position, ()), 1))
    trace.wrote(g.position)
    return number


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next random number as a float32 (bit=32) or float64 (bit=64).

    dist: "uniform" in (0, 1], as curand_uniform; "normal" with mean 0 and variance 1 by Box and Muller's
    formula, as curand_normal: two numbers are made of two uniform ones, the second is kept for the next call.
    """
    trace, g = _generator("T.rng_rand_float")
    if bit not in (32, 64):
        raise fail(f"T.rng_rand_float: bit must be 32 or 64, not {bit}")
    if dist not in ("uniform", "normal"):
        raise fail(f"T.rng_rand_float: dist must be 'uniform' or 'normal', not {dist!r}")
    return _uniform(trace, bit) if dist == "uniform" else _normal(trace, g, bit)


def _uniform(trace: Trace, bit: int, scale: float = 1.0, shift: int = 53 - 32) -> Expr:
    """A number in (0, scale]."""
    b = trace.builder
    x = rng_rand()
    if bit == 32:
        step, dtype = scale * 2.0**-32, as_dtype("float32")
        return b.let("uniform", _scaled(b, b.cast(dtype, x), step, dtype))
    wide, dtype = as_dtype("uint64"), as_dtype("float64")
    y = rng_rand()
    bits = b.binary("xor", b.cast(wide, x), b.binary("shl", b.cast(wide, y), b.const(shift, wide)))
    return b.let("uniform", _scaled(b, b.cast(dtype, bits), scale * 2.0**-53, dtype))


def _scaled(b: Any, x: Expr, step: float, dtype: Any) -> Expr:
    return b.binary("add", b.binary("mul", x, b.const(step, dtype)), b.const(step / 2, dtype))


def _normal(trace: Trace, g: _Generator, bit: int) -> Expr:
    b = trace.builder
    dtype = as_dtype(f"float{bit}")
    spare, has_spare = g.spare[bit], g.has_spare[bit]
    result = b.alloc("normal", "var", (), dtype, {})
    b.begin_if(b.binary("ne", b.load(has_spare, ()), 0))
    b.store(result, (), b.load(spare, ()))
    b.store(has_spare, (), 0)
    b.begin_else()
    u = _uniform(trace, bit)
    angle = _uniform(trace, bit, 2 * math.pi)
    minus_two = b.const(-2.0, dtype)
    radius = b.let("radius", b.call("sqrt", (b.binary("mul", minus_two, b.call("log", (u,))),)))
    b.store(result, (), b.binary("mul", b.call("sin", (angle,)), radius))
    b.store(spare, (), b.binary("mul", b.call("cos", (angle,)), radius))
    b.store(has_spare, (), 1)
    b.end_if()
    for variable in (spare, has_spare, result):
        trace.wrote(variable)
    return b.let("normal", b.load(result, ()))


__all__ = ["rng_init", "rng_rand", "rng_rand_float"]
