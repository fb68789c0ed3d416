"""CUDA's own functions that the language has by other names: T.call_extern of one of them becomes that, so
that every executor knows what it means."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .._core import Expr
from ..front.offered import OFFERED
from ..front.trace import fail
from ..front.values import as_value
from . import scalar as s
from . import thread as t


@functools.cache
def intrinsics_by_name() -> dict[str, tuple[int, int, Callable]]:
    """Name -> the least and the greatest number of arguments, and what makes the value of them."""

    def shuffle(name: str) -> Callable:
        return lambda mask, value, lane, width=None: getattr(t, name)(value, lane, width, mask)

    def masked(function: Callable) -> Callable:
        return lambda mask, value: function(value, mask)

    def rounded(dtype: str, mode: str) -> Callable:
        return lambda x: s.cast(s.cast(x, "float32"), dtype, mode)

    def to_int(mode: str, dtype: str = "int32") -> Callable:
        return lambda x: s.cast(s.round(x, mode), dtype)

    def bits(dtype: str) -> Callable:
        return lambda x: s.reinterpret(s.cast(x, "float32") if dtype != "float32" else x, dtype)

    def in_float(name: str) -> Callable:
        function = OFFERED[name]
        return lambda *args: function(*[s.cast(x, "float32") for x in args])

    known: dict[str, tuple[int, int, Callable]] = {
        "__syncthreads": (0, 0, t.sync_threads),
        "__syncwarp": (0, 1, t.sync_warp),
        "__activemask": (0, 0, t.activemask),
        "__match_any_sync": (2, 2, masked(t.match_any_sync)),
        "__ballot_sync": (2, 2, masked(t.ballot_sync)),
        "__any_sync": (2, 2, masked(t.any_sync)),
        "__all_sync": (2, 2, masked(t.all_sync)),
        "__shfl_sync": (3, 4, shuffle("shfl_sync")),
        "__shfl_xor_sync": (3, 4, shuffle("shfl_xor")),
        "__shfl_down_sync": (3, 4, shuffle("shfl_down")),
        "__shfl_up_sync": (3, 4, shuffle("shfl_up")),
        "__float2half_rn": (1, 1, rounded("float16", "rn")),
        "__float2half": (1, 1, rounded("float16", "rn")),
        "__float2half_rz": (1, 1, rounded("float16", "rz")),
        "__float2half_rd": (1, 1, rounded("float16", "rm")),
        "__float2half_ru": (1, 1, rounded("float16", "rp")),
        "__float2bfloat16": (1, 1, rounded("bfloat16", "rn")),
        "__float2bfloat16_rn": (1, 1, rounded("bfloat16", "rn")),
        "__float2bfloat16_rz": (1, 1, rounded("bfloat16", "rz")),
        "__half2float": (1, 1, lambda x: s.cast(x, "float32")),
        "__bfloat162float": (1, 1, lambda x: s.cast(x, "float32")),
        "__float_as_int": (1, 1, bits("int32")),
        "__float_as_uint": (1, 1, bits("uint32")),
        "__int_as_float": (1, 1, lambda x: s.reinterpret(s.cast(x, "int32"), "float32")),
        "__uint_as_float": (1, 1, lambda x: s.reinterpret(s.cast(x, "uint32"), "float32")),
    }
    for mode, name in (("rn", "rn"), ("rz", "rz"), ("ru", "ru"), ("rd", "rd")):
        known[f"__float2int_{name}"] = (1, 1, to_int(mode))
    names = (
        "__expf __logf __log2f __log10f __sinf __cosf __tanf expf exp2f logf log2f sqrtf rsqrtf tanhf erff"
    )
    for name in (*names.split(), "floorf", "ceilf"):
        known[name] = (1, 1, in_float(name.removesuffix("f")))
    known["fabsf"] = (1, 1, in_float("abs"))
    for name, function, count in (
        ("fmaxf", "max", 2),
        ("fminf", "min", 2),
        ("powf", "pow", 2),
        ("fmaf", "fma", 3),
    ):
        known[name] = (count, count, in_float(function))
    for word, kind in (("", "uint32"), ("ll", "uint64")):
        known[f"__popc{word}"] = (1, 1, _counted("popcount", kind))
        known[f"__clz{word}"] = (1, 1, _counted("clz", kind))
        known[f"__ffs{word}"] = (1, 1, _counted("__ffs", kind))
    known["__fns"] = (3, 3, OFFERED["__fns"])
    return known


def _counted(name: str, kind: str) -> Callable:
    return lambda x: s.cast(OFFERED[name](s.cast(x, kind)), "int32")


def known_call(what: str, name: str, args: tuple, result: Any) -> Any:
    """The call of one of these functions, its value as `result` (None: nobody wants it)."""
    least, most, make = intrinsics_by_name()[name]
    if not least <= len(args) <= most:
        count = str(least) if least == most else f"{least} or {most}"
        raise fail(f"{what}: CUDA's {name} takes {count} argument{'s' * (most != 1)}, not {len(args)}")
    made = make(*[as_value(x) for x in args])
    if result is None:
        return None
    if not isinstance(made, (Expr, int, float)):
        raise fail(f"{what}: CUDA's {name} gives no value, so its dtype is 'void', not {result}")
    return s.cast(made, result)
