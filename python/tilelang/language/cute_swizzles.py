"""Swizzles as CuTe has them: XORs of bits of an offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .layout import SwizzleMode


class Swizzle:
    """An XOR of bits: the b_bits bits from m_base on with those s_shift above."""

    __slots__ = ("b_bits", "m_base", "s_shift")

    def __init__(self, b_bits: int, m_base: int, s_shift: int) -> None:
        if b_bits < 0 or m_base < 0 or abs(s_shift) < b_bits:
            raise ValueError(
                f"Swizzle({b_bits}, {m_base}, {s_shift}): the two groups of bits overlap, or a "
                "number is negative"
            )
        self.b_bits, self.m_base, self.s_shift = b_bits, m_base, s_shift

    def __call__(self, offset: Any) -> Any:
        ones = (1 << self.b_bits) - 1
        if self.s_shift >= 0:
            return offset ^ (((offset >> (self.m_base + self.s_shift)) & ones) << self.m_base)
        return offset ^ (((offset >> self.m_base) & ones) << (self.m_base - self.s_shift))

    @staticmethod
    def parse(text: str) -> Swizzle:
        """The swizzle that a text shows, "Sw<3,4,3>"."""
        return Swizzle(*map(int, text.strip().removeprefix("Sw<").rstrip(">").split(",")))

    @property
    def is_swizzled(self) -> bool:
        """Whether it changes anything."""
        return self.b_bits > 0

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """The same for offsets in elements of another size, powers of two of bits."""
        return Swizzle(self.b_bits, self.m_base + old_bits.bit_length() - new_bits.bit_length(), self.s_shift)

    def to_swizzle_mode(self) -> SwizzleMode:
        """The mode of that width, for offsets in bytes."""
        if self.is_swizzled and (self.m_base, self.s_shift) != (4, 3) or self.b_bits > 3:
            raise ValueError(f"{self} is none of the modes: they are Sw<1..3,4,3>, of offsets in bytes")
        return SwizzleMode(self.b_bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Swizzle) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"Sw<{self.b_bits},{self.m_base},{self.s_shift}>"


def swizzles(least: int, highest: int) -> Iterator[Swizzle]:
    """Those that may change numbers of so many bits: of few bits first, of their usual distance first."""
    if least == 0:
        yield Swizzle(0, 0, 3)
    for b_bits in range(max(least, 1), max(highest, 4)):
        for s_shift in sorted(range(b_bits, max(highest, 4)), key=lambda s: (s != 3, s)):
            for m_base in range(max(highest - s_shift, 8)):
                yield Swizzle(b_bits, m_base, s_shift)
