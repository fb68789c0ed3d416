"""Unpacking of narrow integers and floats, under the names that published kernels import."""

from __future__ import annotations

from ..packed import (
    _tir_packed_int_to_int_convert,
    _tir_packed_to_signed_convert,
    _tir_packed_to_unsigned_convert,
    _tir_u8_to_f4_to_bf16,
)

__all__ = [
    "_tir_packed_int_to_int_convert", "_tir_packed_to_signed_convert", "_tir_packed_to_unsigned_convert",
    "_tir_u8_to_f4_to_bf16",
]  # fmt: skip
