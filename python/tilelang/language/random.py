"""Random numbers: Philox4x32-10, XORWOW and MRG32k3a, bit for bit as cuRAND's device API makes them.

A generator is a seed, a sequence and a position in it; it belongs to a thread, like a variable."""

from __future__ import annotations

import math
from typing import Any

from .._core import Expr
from ..front.dtypes import as_dtype
from ..front.trace import fail, in_kernel
from ..front.values import as_value, binary
from .random_streams import Mrg32k3a, Philox, Stream, Xorwow

_KINDS = {
    "curandStatePhilox4_32_10_t": Philox,
    "curandStateXORWOW_t": Xorwow,
    "curandStateMRG32k3a_t": Mrg32k3a,
}


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_10_t") -> None:
    """Begin a stream of random numbers, as curand_init(seed, seq, off, &state) does.

    seed, seq, off: integers; seq counts streams and off numbers of a stream.  Without seq each thread of the
    launch has its own stream, numbered block * threads + thread, where blocks count along x first, then y and
    z; on the CPU and in the reference a block is one thread.  Which element of a T.Parallel loop meets which
    number then depends on how it is mapped, and so on the target: where that must not be, give seq the
    element's own number, inside the loop, as docs/patterns.md does.
    generator: "curandStatePhilox4_32_10_t", "curandStateXORWOW_t" or "curandStateMRG32k3a_t".  The last two
    begin a stream by some thousand operations for each binary digit of seq and of off."""
    trace = in_kernel("T.rng_init")
    if generator not in _KINDS:
        raise fail(
            f"T.rng_init: there is no generator {generator!r}; there are {', '.join(map(repr, _KINDS))}"
        )
    b = trace.builder
    sequence = b.call("random_sequence", (_block_number(trace.kernel),)) if seq is None else _counter(b, seq)
    named = (("seed", _counter(b, seed)), ("sequence", sequence), ("offset", _counter(b, off)))
    numbers = [x if x.is_const else b.let(name, x) for name, x in named]
    trace.generator = made = _KINDS[generator](trace, *numbers)
    for bits in (32, 64):
        made.spare[bits] = made.variable("random_spare", f"float{bits}", 0)
        made.has_spare[bits] = made.variable("random_has_spare", "int32", 0)


def _block_number(kernel: Any) -> Any:
    """The block's number among all of the launch, x first."""
    number = 0
    for index, blocks in reversed(list(zip(kernel.indices, kernel.grid, strict=True))):
        number = index if number.__class__ is int else binary("add", binary("mul", number, blocks), index)
    return number


def _counter(b: Any, value: Any) -> Any:
    value = as_value(value)
    if value.__class__ is Expr:
        if not value.dtype.is_int:
            raise fail(f"T.rng_init takes integers, not {value.dtype}")
        return b.cast(as_dtype("uint64"), value)
    if value.__class__ is not int:
        raise fail(f"T.rng_init takes integers, not {value}")
    return b.const(value % (1 << 64), as_dtype("uint64"))


def _generator(what: str) -> Stream:
    trace = in_kernel(what)
    if trace.generator is None:
        raise fail(f"{what} before T.rng_init(seed)")
    return trace.generator


def rng_rand() -> Expr:
    """The next 32 random bits, a uint32; as curand(&state)."""
    return _generator("T.rng_rand").bits()


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next random number as a float32 (bit=32) or float64 (bit=64).

    dist: "uniform" in (0, 1], as curand_uniform; "normal" with mean 0 and variance 1 by Box and Muller's
    formula, as curand_normal: two numbers are made of two uniform ones, the second is kept for the next call.
    """
    generator = _generator("T.rng_rand_float")
    if bit not in (32, 64):
        raise fail(f"T.rng_rand_float: bit must be 32 or 64, not {bit}")
    if dist not in ("uniform", "normal"):
        raise fail(f"T.rng_rand_float: dist must be 'uniform' or 'normal', not {dist!r}")
    return generator.uniform(bit) if dist == "uniform" else _normal(generator, bit)


def _normal(g: Stream, bit: int) -> Expr:
    b = g.builder
    dtype = as_dtype(f"float{bit}")
    spare, has_spare = g.spare[bit], g.has_spare[bit]
    result = b.alloc("normal", "var", (), dtype, {})
    b.begin_if(b.binary("ne", b.load(has_spare, ()), 0))
    b.store(result, (), b.load(spare, ()))
    b.store(has_spare, (), 0)
    b.begin_else()
    u = g.uniform(bit)
    angle = g.uniform(bit, 2 * math.pi)
    minus_two = b.const(-2.0, dtype)
    radius = b.let("radius", b.call("sqrt", (b.binary("mul", minus_two, b.call("log", (u,))),)))
    b.store(result, (), b.binary("mul", b.call("sin", (angle,)), radius))
    b.store(spare, (), b.binary("mul", b.call("cos", (angle,)), radius))
    b.store(has_spare, (), 1)
    b.end_if()
    for variable in (spare, has_spare, result):
        g.trace.wrote(variable)
    return b.let("normal", b.load(result, ()))


__all__ = ["rng_init", "rng_rand", "rng_rand_float"]
