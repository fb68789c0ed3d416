"""How long exact questions about a layout take, asked from Python: a 256x128 tile, medians of 15.

Usage:
    python bench/layout_questions.py
"""

from __future__ import annotations

import statistics
import time

import tilelang.language as T
from tilelang import layout


def median_ms(ask) -> float:
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        ask()
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times)


def main() -> int:
    shape = (256, 128)
    padded = T.Layout(shape, lambda i, j: i * 136 + j)
    swizzled = layout.make_swizzled_layout((shape, "float16"))
    half = layout.make_half_bank_swizzled_layout((shape, "float16"))
    flat = T.Layout(shape, lambda i, j: i * 128 + j)
    mapping = T.Fragment(shape, lambda i, j: (i % 16 * 16 + j // 8, i // 16 * 8 + j % 8))
    questions = {
        "equal, two swizzles": lambda: swizzled.is_equal(half),
        "equal, a swizzle and itself": lambda: swizzled.is_equal(swizzled),
        "injective, padded": lambda: padded.is_injective(),
        "bijective, swizzle": lambda: swizzled.is_bijective(),
        "inverse, swizzle": lambda: swizzled.inverse(),
        "inverse, row-major": lambda: flat.inverse(),
        "repeat, fragment": lambda: mapping.repeat((2, 1)),
        "who holds an element": lambda: mapping.holders(200, 77),
        "bank cycles of a copy, 16 bytes a lane": lambda: layout.bank_cycles(swizzled, "float16", mapping, 8),
        "bank cycles of a copy, 2 bytes a lane": lambda: layout.bank_cycles(padded, "float16", mapping, 1),
        "sectors of a copy, 16 bytes a lane": lambda: layout.sectors(flat, "float16", mapping, 8),
        "vector width, swizzle": lambda: swizzled.vector_width(16),
    }
    for name, ask in questions.items():
        print(f"{name:40s} {median_ms(ask):7.3f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
