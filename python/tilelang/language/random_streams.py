"""The generators of random numbers: how each begins a stream, and makes its next number.

All of them are statements and expressions of the language, so every target computes the same bits.  Philox
is a function of a number's position; the other two keep a state, and a stream begins so many steps behind
the first one.  A step is linear, so n steps are the polynomial x^n, modulo that of one step, applied to the
state: x^n is found by squaring."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr
from ..front.arithmetic import cast
from ..front.dtypes import as_dtype
from ..front.trace import Trace
from ..front.values import binary

_U32, _U64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


class Stream:
    """A generator at some place of its sequence; its variables belong to each thread.

    `spare` keeps the second number of a pair of normal ones, by their bits."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.builder = trace, trace.builder
        self.spare: dict[int, Buffer] = {}
        self.has_spare: dict[int, Buffer] = {}

    def variable(self, name: str, dtype: str, value: Any) -> Buffer:
        """A new variable of each thread, with a first value."""
        made = self.builder.alloc(name, "var", (), as_dtype(dtype), {})
        self.builder.store(made, (), value)
        return made

    def words(self, variables: list[Buffer]) -> list[Expr]:
        """The values that variables have here."""
        return [self.builder.let("word", self.builder.load(x, ())) for x in variables]

    def assign(self, variables: list[Buffer], values: list) -> None:
        """All values are computed before one variable changes."""
        values = [self.builder.let("word", x) if x.__class__ is Expr else x for x in values]
        for x, value in zip(variables, values, strict=True):
            self.builder.store(x, (), value)
            self.trace.wrote(x)

    def bits(self) -> Expr:
        """The next 32 bits."""
        raise NotImplementedError

    def uniform(self, bit: int, scale: float = 1.0) -> Expr:
        """The next number in (0, scale], a float of so many bits."""
        b, dtype = self.builder, as_dtype(f"float{bit}")
        number, width = self.bits(), 32
        if bit == 64:
            number, width = cast(number, "uint64") ^ (cast(self.bits(), "uint64") << 53 - 32), 53
        step = scale * 2.0**-width
        return b.let("uniform", cast(number, dtype) * b.const(step, dtype) + b.const(step / 2, dtype))


def _begun(builder: Any, value: Any, dtype: str) -> Expr:
    """The mark of the first value of a generator's state: check_divided knows streams by it."""
    return cast(builder.call("random_state", (cast(value, "uint64"),)), dtype)


class Philox(Stream):
    """Philox4x32-10 (Salmon et al., 2011)."""

    def __init__(self, trace: Trace, seed: Expr, sequence: Expr, offset: Expr) -> None:
        super().__init__(trace)
        self.seed, self.sequence = seed, sequence
        self.position = self.variable("random_position", "uint64", _begun(self.builder, offset, "uint64"))

    def bits(self) -> Expr:
        b = self.builder
        at = b.load(self.position, ())
        number = b.let("random", b.call("philox", (self.seed, self.sequence, at)))
        self.assign([self.position], [b.load(self.position, ()) + 1])
        return number


class Xorwow(Stream):
    """xorwow (Marsaglia, 2003): shifted and XORed words, and a sum; sequences are 2^67 numbers apart."""

    # Of one step of the five words, over GF(2); x^160 is its highest power.
    POLYNOMIAL = 0x100000F0E0F3C0035000621210861003000060001
    DISTANCE = 1 << 67

    def __init__(self, trace: Trace, seed: Expr, sequence: Expr, offset: Expr) -> None:
        super().__init__(trace)
        b = self.builder
        low = cast(seed, "uint32") ^ 0xAAD26B49
        high = cast(seed >> 32, "uint32") ^ 0xF7DCEFDD
        low = b.let("low", low * cast(1099087573, "uint32"))
        high = b.let("high", high * cast(2591861531, "uint32"))
        first = [low + 123456789, low ^ 362436069, high + 521288629, high ^ 88675123, low + 5783321]
        self.state = [self.variable("xorwow", "uint32", _begun(b, x, "uint32")) for x in first]
        self.sum = self.variable(
            "xorwow_sum", "uint32", low + high + 6615241 + cast(offset, "uint32") * 362437
        )
        self._jump(_power_of_bits(self.DISTANCE, self.POLYNOMIAL), sequence)
        self._jump(2, offset)

    @staticmethod
    def _step(x: list) -> list:
        t = x[0] ^ (x[0] >> 2)
        return [*x[1:], (x[4] ^ (x[4] << 4)) ^ (t ^ (t << 1))]

    def bits(self) -> Expr:
        b = self.builder
        self.assign(self.state, self._step(self.words(self.state)))
        self.assign([self.sum], [b.load(self.sum, ()) + 362437])
        return b.let("random", b.load(self.state[4], ()) + b.load(self.sum, ()))

    def _jump(self, polynomial: int, count: Expr) -> None:
        """Go on by count times the steps that the polynomial stands for."""
        if count.is_const and count.value == 0:
            return
        b = self.builder
        left = self.variable("jumps", "uint64", count)
        parts = [polynomial >> 32 * i & _U32 for i in range(5)]
        factor = [self.variable("factor", "uint32", x) for x in parts]
        square, moved = ([self.variable(name, "uint32", 0) for _ in range(5)] for name in ("square", "moved"))
        b.begin_while()
        b.while_condition(binary("ne", b.load(left, ()), 0))
        self.assign([*square, *moved], [0] * 10)
        b.begin_for("serial", ["bit"], [0], [160], [1], {})
        words = self.words(factor)
        top = b.let("top", words[4] >> 31)
        mask = b.let("mask", binary("sub", 0, top))
        pairs = zip(self._step(self.words(moved)), self.words(self.state), strict=True)
        self.assign(moved, [x ^ (y & mask) for x, y in pairs])
        twice = self._doubled(self._doubled(self.words(square)))
        self.assign(square, [twice[0] ^ top, *twice[1:]])
        self.assign(factor, _shifted(words))
        b.end_for()
        odd = b.let("odd", binary("ne", b.load(left, ()) & 1, 0))
        pairs = zip(self.words(moved), self.words(self.state), strict=True)
        self.assign(self.state, [b.select(odd, x, y) for x, y in pairs])
        self.assign(factor, self.words(square))
        self.assign([left], [b.load(left, ()) >> 1])
        b.end_while()

    def _doubled(self, words: list) -> list:
        """x times a polynomial, reduced."""
        b = self.builder
        mask = b.let("mask", binary("sub", 0, words[4] >> 31))
        parts = [self.POLYNOMIAL >> 32 * i & _U32 for i in range(5)]
        return [b.let("word", x ^ (mask & part)) for x, part in zip(_shifted(words), parts, strict=True)]


def _shifted(words: list) -> list:
    """160 bits in five words, moved up by one."""
    return [(x << 1) | (below >> 31) if below is not None else x << 1
            for x, below in zip(words, [None, *words[:-1]], strict=True)]  # fmt: skip


def _power_of_bits(exponent: int, modulus: int) -> int:
    """x^exponent over GF(2), reduced."""
    top = modulus.bit_length() - 1
    power = 1
    for bit in bin(exponent)[2:]:
        square = 0
        for i in reversed(range(top)):
            square = square << 2 ^ (power >> i & 1)
            for over in (top + 1, top):
                square ^= modulus << over - top if square >> over & 1 else 0
        power = square << 1 if bit == "1" else square
        power ^= modulus if power >> top & 1 else 0
    return power


class _Recurrence:
    """x_n = a * x_(n-1) + b * x_(n-2) + c * x_(n-3) modulo m; the state is the last three, oldest first."""

    def __init__(self, modulus: int, a: int, b: int, c: int) -> None:
        self.modulus, self.factors = modulus, (c % modulus, b % modulus, a % modulus)

    def reduced(self, x: Any) -> Any:
        return x % self.modulus if x.__class__ is int else binary("floormod", x, cast(self.modulus, "uint64"))

    def dot(self, x: Any, y: Any) -> Any:
        """The sum of products, each below 2^64."""
        total = None
        for a, b in zip(x, y, strict=True):
            if a.__class__ is int and a == 0:
                continue
            a = cast(a, "uint64") if a.__class__ is int and b.__class__ is Expr else a
            product = self.reduced(a * b)
            total = product if total is None else total + product
        return self.reduced(total)

    def after(self, state: list) -> Any:
        """The next number."""
        return self.dot(self.factors, state)

    def square(self, p: list) -> list:
        """The square of a polynomial of degree 2, reduced by the recurrence's own."""
        times = lambda x, y: self.reduced(x * y)
        wide = [times(p[0], p[0]), times(p[0], p[1]) * 2, times(p[0], p[2]) * 2 + times(p[1], p[1]),
                times(p[1], p[2]) * 2, times(p[2], p[2])]  # fmt: skip
        for degree in (4, 3):
            high = self.reduced(wide.pop())
            for k, factor in enumerate(self.factors):
                if factor:
                    wide[degree - 3 + k] = wide[degree - 3 + k] + times(high, factor)
        return [self.reduced(x) for x in wide]

    def power(self, doublings: int) -> list[int]:
        """x^(2^doublings)."""
        p = [0, 1, 0]
        for _ in range(doublings):
            p = self.square(p)
        return p


class Mrg32k3a(Stream):
    """MRG32k3a (L'Ecuyer, 1999): the difference of two recurrences; sequences are 2^76 numbers apart."""

    FIRST = _Recurrence(4294967087, 0, 1403580, -810728)
    SECOND = _Recurrence(4294944443, 527612, 0, -1370589)
    LOG_DISTANCE = 76
    TO_UNIT, TO_BITS = 2.3283065498378288e-10, 1.000000048662

    def __init__(self, trace: Trace, seed: Expr, sequence: Expr, offset: Expr) -> None:
        super().__init__(trace)
        b = self.builder
        low = b.let("low", (seed & _U32) ^ 0x55555555)
        high = b.let("high", (seed >> 32) ^ 0xAAAAAAAA)
        salts = ((low, high, low), (high, low, high))
        unsalted = b.let("unsalted", binary("eq", seed, 0))
        self.states = []
        for recurrence, parts in zip((self.FIRST, self.SECOND), salts, strict=True):
            salted = [recurrence.reduced(x * 12345) for x in parts]
            first = [b.select(unsalted, cast(12345, "uint64"), x) for x in salted]
            self.states.append([self.variable("mrg", "uint64", _begun(b, x, "uint64")) for x in first])
        self._jump(self.LOG_DISTANCE, sequence)
        self._jump(0, offset)

    def _number(self) -> Expr:
        """The next whole number, 1 to the first modulus, as a float64."""
        b, made = self.builder, []
        for recurrence, state in zip((self.FIRST, self.SECOND), self.states, strict=True):
            words = self.words(state)
            made.append(b.let("next", recurrence.after(words)))
            self.assign(state, [*words[1:], made[-1]])
        x, y = made
        wrapped = b.select(binary("le", x, y), cast(self.FIRST.modulus, "uint64"), cast(0, "uint64"))
        return b.let("number", cast(x + wrapped - y, "float64"))

    def bits(self) -> Expr:
        b, dtype = self.builder, as_dtype("float64")
        scaled = binary("mul", self._number(), b.const(self.TO_BITS, dtype))
        return b.let("random", cast(b.binary("min", scaled, b.const(float(_U32), dtype)), "uint32"))

    def uniform(self, bit: int, scale: float = 1.0) -> Expr:
        b, dtype = self.builder, as_dtype(f"float{bit}")
        unit = cast(binary("mul", self._number(), b.const(self.TO_UNIT, as_dtype("float64"))), dtype)
        return b.let("uniform", unit if scale == 1.0 else unit * b.const(scale, dtype))

    def _jump(self, doublings: int, count: Expr) -> None:
        """Go on by count * 2^doublings numbers."""
        if count.is_const and count.value == 0:
            return
        b = self.builder
        left = self.variable("jumps", "uint64", count)
        kinds = [
            (r, state, [self.variable("factor", "uint64", x) for x in r.power(doublings)])
            for r, state in zip((self.FIRST, self.SECOND), self.states, strict=True)
        ]
        b.begin_while()
        b.while_condition(binary("ne", b.load(left, ()), 0))
        odd = b.let("odd", binary("ne", b.load(left, ()) & 1, 0))
        for recurrence, state, factor in kinds:
            words, p = self.words(state), self.words(factor)
            longer = list(words)
            for _ in range(2):
                longer.append(b.let("next", recurrence.after(longer[-3:])))
            moved = [recurrence.dot(p, longer[i : i + 3]) for i in range(3)]
            self.assign(state, [b.select(odd, x, y) for x, y in zip(moved, words, strict=True)])
            self.assign(factor, recurrence.square(p))
        self.assign([left], [b.load(left, ()) >> 1])
        b.end_while()
