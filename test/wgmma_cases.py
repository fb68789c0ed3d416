"""Products of warpgroups: every instruction, with A in shared memory and in registers, every pattern and
both majors.  The numbers are small integers, whose sums every accumulator holds exactly: results are compared
bit for bit."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
from tilelang import _core

NUMPY = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f32": np.float32,
    "i8": np.int8,
    "u8": np.uint8,
    "i32": np.int32,
}
# A, B, C
TYPES = [
    ("f16", "f16", "f32"),
    ("f16", "f16", "f16"),
    ("bf16", "bf16", "f32"),
    *((a, b, c) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for c in ("f32", "f16")),
    *((a, b, "i32") for a in ("i8", "u8") for b in ("i8", "u8")),
]


def bits(kind):
    return 8 * np.dtype(NUMPY[kind]).itemsize


def cases(types):
    """(m, n, k, trans_a, trans_b, A in registers, threads)"""
    a, _, c = types
    step = 256 // bits(a)  # of k
    columns = (8, 24, 64, 96, 136, 256) if c != "i32" else (8, 24, 64, 96, 144, 256)
    for n in columns:
        yield 64, n, 2 * step, False, True, False, 128
    for k in (step, 2 * step, 4 * step, 8 * step):  # rows of 32, 64, 128 and 256 bytes
        yield 64, 32, k, False, True, False, 128
        yield 64, 32, k, False, True, True, 128
    yield 128, 96, 2 * step, False, True, False, 256
    yield 128, 128, 4 * step, False, True, True, 256
    yield 64, 256, 4 * step, False, True, False, 256  # side by side
    if bits(a) == 16:
        for trans_a, trans_b in ((False, False), (True, True), (True, False)):
            for m, n in ((64, 32), (64, 64), (128, 192), (64, 16), (128, 256)):
                yield m, n, 2 * step, trans_a, trans_b, False, 128 if m == 64 else 256
        yield 64, 64, 2 * step, False, False, True, 128
    for m, n, threads in ((8, 64, 128), (24, 128, 256), (48, 64, 128), (96, 192, 384), (240, 64, 128)):
        any_major = list(itertools.product((False, True), repeat=2))
        majors = any_major if bits(a) == 16 else [(False, True)]
        for trans_a, trans_b in majors:
            yield m, n, 2 * step, trans_a, trans_b, False, threads  # lower than an instruction: transposed


def program(types, m, n, k, trans_a, trans_b, in_registers, threads):
    a, b, c = types
    a_shape = f"{k}, {m}" if trans_a else f"{m}, {k}"
    b_shape = f"{n}, {k}" if trans_b else f"{k}, {n}"
    where = "fragment" if in_registers else "shared"
    in_flight = m % 64 != 0  # C is computed transposed where the program waits
    named = (("trans_a", trans_a), ("trans_b", trans_b), ("in_flight", in_flight))
    flags = "".join(f", {name}=1" for name, on in named if on)
    wait = "\n    wgmma_wait_group(0)" * in_flight
    return f"""
func main(A: {a}[{a_shape}], B: {b}[{b_shape}], C: {c}[{m}, {n}]):
  kernel main grid(bx: 1) threads({threads}):
    A_tile = {where} {a}[{a_shape}]
    B_tile = shared {b}[{b_shape}]
    C_tile = fragment {c}[{m}, {n}]
    copy(A, A_tile)
    copy(B, B_tile)
    gemm(A_tile, B_tile, C_tile) {{clear_accum=1{flags}}}{wait}
    gemm(A_tile, B_tile, C_tile) {{policy="square"{flags}}}{wait}
    copy(C_tile, C)
"""


def operands(types, m, n, k, trans_a, trans_b, *_, seed=0):
    """A and B as the program takes them, C poisoned, and twice the product."""
    rng = np.random.default_rng(seed)
    a, b, c = types

    def numbers(kind, shape):
        low = 0 if kind == "u8" else -2
        return rng.integers(low, 3, shape).astype(NUMPY[kind])

    A, B = numbers(a, (k, m) if trans_a else (m, k)), numbers(b, (n, k) if trans_b else (k, n))
    x, y = A.astype(np.int64), B.astype(np.int64)
    wanted = 2 * ((x.T if trans_a else x) @ (y.T if trans_b else y))
    C = np.full((m, n), np.nan if c != "i32" else -1).astype(NUMPY[c])
    return A, B, C, wanted


def compiled(types, case, target):
    kernel = _core.compile(_core.parse(program(types, *case), "wgmma.ir"), target, {})
    assert "wgmma_m64" in kernel.machine_text, kernel.machine_text
    return kernel
