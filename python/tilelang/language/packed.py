"""Narrow values packed into wider integers: the value at a position, lowest bits first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core import Expr
from ..front.dtypes import as_dtype, bfloat16, float32, int32, uint32
from ..front.trace import fail
from ..front.values import as_value, binary, constant
from . import scalar

__all__ = ["unpack_e2m1", "unpack_int", "unpack_uint"]


def _check_bits(what: str, num_bits: Any) -> None:
    """The words that numbers are taken from have 32 bits."""
    if num_bits.__class__ is not int or not 1 <= num_bits <= 32:
        raise fail(
            f"{what}: num_bits is {num_bits}; it must be a constant in [1, 32], since the value "
            "is read as 32 bits"
        )


def _check_position(what: str, num_bits: int, value: Any, pos: Any) -> None:
    """A position that is known now lies within the value, of which 32 bits are read."""
    pos = constant(as_value(pos))
    value = as_value(value)
    if value.__class__ is float or value.__class__ is Expr and not value.dtype.is_int:
        kind = "float" if value.__class__ is float else value.dtype
        raise fail(
            f"{what}: the numbers lie in the bits of an integer, and this value is a {kind}; "
            'T.reinterpret(value, "uint32") gives the bits of a float'
        )
    if pos.__class__ is not int:
        return
    dtype = value.dtype if value.__class__ is Expr else int32
    count = min(dtype.bits, 32) // num_bits
    if not 0 <= pos < count:
        there = f"the positions 0 to {count - 1}" if count else "no such number"
        raise fail(
            f"{what}: the position is {pos}, but of {num_bits}-bit numbers a value of {dtype} has {there}"
        )


def unpack_uint(num_bits: int, value: Any, pos: Any, dtype: Any) -> Any:
    """The unsigned number of `num_bits` bits at position `pos` of an integer (0: the lowest), as dtype."""
    _check_bits("T.unpack_uint", num_bits)
    _check_position("T.unpack_uint", num_bits, value, pos)
    shifted = binary("shr", scalar.cast(value, uint32), scalar.cast(binary("mul", pos, num_bits), uint32))
    return scalar.cast(binary("and", shifted, scalar.cast((1 << num_bits) - 1, uint32)), dtype)


def unpack_int(num_bits: int, value: Any, pos: Any, dtype: Any) -> Any:
    """The two's complement number of `num_bits` bits at position `pos` of an integer, as dtype."""
    _check_bits("T.unpack_int", num_bits)
    _check_position("T.unpack_int", num_bits, value, pos)
    raw = unpack_uint(num_bits, value, pos, int32)
    half = scalar.cast(1 << (num_bits - 1), int32)
    return scalar.cast(binary("sub", binary("xor", raw, half), half), dtype)


def unpack_e2m1(value: Any, pos: Any, dtype: Any) -> Any:
    """The float4_e2m1fn at nibble `pos` of an integer (0: the lowest), as dtype: 0 .5 1 1.5 2 3 4 6 and
    their negatives."""
    _check_position("T.unpack_e2m1", 4, value, pos)
    raw = unpack_uint(4, value, pos, int32)
    bits = lambda low, count: binary("and", binary("shr", raw, low), (1 << count) - 1)
    exponent, mantissa = bits(1, 2), bits(0, 1)
    wide = lambda x: scalar.cast(x, float32)
    subnormal = binary("mul", wide(mantissa), 0.5)
    power = wide(binary("shl", scalar.cast(1, int32), exponent))  # 2^exponent; its bias is 1
    normal = binary("mul", binary("mul", power, 0.5), binary("add", binary("mul", wide(mantissa), 0.5), 1.0))
    size = scalar.if_then_else(binary("eq", exponent, 0), subnormal, normal)
    sign = binary("sub", 1.0, binary("mul", wide(bits(3, 1)), 2.0))
    return scalar.cast(binary("mul", size, sign), dtype)


def _tir_packed_to_unsigned_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable:
    """A function (num_bits, value, pos, dtype) that unpacks unsigned numbers; see unpack_uint."""
    as_dtype(f"{storage_type}{storage_nbit}")
    return unpack_uint


def _tir_packed_to_signed_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable:
    """A function (num_bits, value, pos, dtype) that unpacks numbers stored with an offset: the stored
    unsigned number less 2^(num_bits - 1)."""
    as_dtype(f"{storage_type}{storage_nbit}")

    def convert(num_bits: int, value: Any, pos: Any, dtype: Any) -> Any:
        offset = scalar.cast(1 << (num_bits - 1), int32)
        return scalar.cast(binary("sub", unpack_uint(num_bits, value, pos, int32), offset), dtype)

    return convert


def _tir_packed_int_to_int_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable:
    """A function (num_bits, value, pos, dtype) that unpacks two's complement numbers; see unpack_int."""
    as_dtype(f"{storage_type}{storage_nbit}")
    return unpack_int


def _tir_u8_to_f4_to_bf16(nbit: int, val: Any, pos: Any, scale: Any, dtype: Any = bfloat16) -> Any:
    """The float4_e2m1fn at nibble `pos` of a uint8, times 2^scale, as bfloat16."""
    if nbit != 4:
        raise ValueError(f"_tir_u8_to_f4_to_bf16: nbit must be 4, not {nbit}")
    power = scalar.exp2(scalar.cast(scale, float32))
    return scalar.cast(binary("mul", unpack_e2m1(val, pos, float32), power), dtype)
