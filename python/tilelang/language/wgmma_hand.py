"""Products of a warpgroup by descriptors: `T.initialize_wgmma_descriptor`, `T.ptx_wgmma_ss` and their kin

A descriptor says where a tile begins in shared memory and how it lies.  Here it is an object of Python's that
keeps the element it begins with, a distance from there, and constants: what the instruction is built of.

    a, b, sums = (64, 64) and (64, 64) shared tiles in panels of 128 bytes, T.alloc_local((32,), "float32")
    A, B = T.alloc_wgmma_desc(), T.alloc_wgmma_desc()
    T.initialize_wgmma_descriptor(A, T.access_ptr(a), 1, 1, 64)
    T.initialize_wgmma_descriptor(B, T.access_ptr(b), 1, 1, 64)
    T.warpgroup_arrive()
    for k in range(4):                          # 32 bytes, 2 units, of k each
        T.ptx_wgmma_ss("float16", "m64n64k16", True, True, "fp16", "fp16", "fp32",
                       A, 2 * k, B, 2 * k, sums, 0, k > 0, 1, 1)
    T.warpgroup_commit_batch()
    T.wait_wgmma(0)"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from .. import _core
from .._core import Buffer, Expr
from ..front.dtypes import as_dtype
from ..front.trace import Trace, fail, in_kernel
from ..front.values import as_condition, as_value, binary, constant, unary
from .foreign import Pointer, access_ptr
from .gemm import GemmWarpPolicy, gemm_statement
from .mma_hand import _array
from .places import moved
from .products import _wait

UNIT = 16  # bytes
WIDTHS = (0, 128, 64, 32)  # bytes of the pattern, by layout type
# The names of dtypes in PTX and in the language's own spellings.
_NAMES = {"fp16": "f16", "float16": "f16", "f16": "f16", "bf16": "bf16", "bfloat16": "bf16", "tf32": "tf32",
          "tfloat32": "tf32", "fp32": "f32", "float32": "f32", "f32": "f32", "e4m3": "e4m3",
          "float8_e4m3fn": "e4m3", "float8_e4m3": "e4m3", "e5m2": "e5m2", "float8_e5m2": "e5m2", "int8": "s8",
          "s8": "s8", "uint8": "u8", "u8": "u8", "int32": "s32", "s32": "s32"}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}


class WGMMADescriptorParams(NamedTuple):
    """The constants of a descriptor, and how a tile of it is walked.

    swizzle_mode: 0 none, 1, 2, 3: patterns of 128, 64, 32 bytes; leading_byte_offset, stride_byte_offset,
    slice_byte_offset: in units of 16 bytes; swizzle_atom_elems: elements of a row of the pattern;
    k_atom_size: instructions whose k such a row holds; elems_in_bytes: bytes of an element; is_k_major: rows
    are along k; k_panel_elems: elements of k of a panel."""

    swizzle_mode: int
    leading_byte_offset: int
    stride_byte_offset: int
    swizzle_atom_elems: int
    k_atom_size: int
    elems_in_bytes: int
    is_k_major: bool
    slice_byte_offset: int = 0
    k_panel_elems: int | None = None


class Descriptor:
    """Where a tile in shared memory begins, and how it lies.  `d[0]` and `d.data` are d, as programs write
    that keep it in an array of one element."""

    __slots__ = ("start", "width", "leading", "stride", "bytes", "block")

    def __init__(self) -> None:
        self.start: Pointer | None = None

    def __getitem__(self, index: Any) -> Descriptor:
        return self

    @property
    def data(self) -> Descriptor:
        return self

    def mode(self, turned: bool) -> list[int]:
        """The tile's numbers in the instruction: pattern, two distances in bytes, are rows along m or n."""
        return [self.width, self.leading, self.stride, int(turned)]


def alloc_wgmma_desc(dtype: Any = "uint64") -> Descriptor:
    """A descriptor of a tile for T.ptx_wgmma_ss and T.ptx_wgmma_rs, which T.initialize_wgmma_descriptor sets.

    dtype: "uint64", as which the instruction takes it."""
    return _alloc("T.alloc_wgmma_desc", dtype)


def alloc_descriptor(kind: str = "wgmma", dtype: Any = "uint64") -> Descriptor:
    """The same as T.alloc_wgmma_desc; kind: "wgmma", as those of Blackwell are not in this version."""
    if kind != "wgmma":
        raise fail(
            f"T.alloc_descriptor: kind {kind!r} is for Blackwell's instructions, which this version does not "
            "have; 'wgmma' is there"
        )
    return _alloc("T.alloc_descriptor", dtype)


def _alloc(what: str, dtype: Any) -> Descriptor:
    in_kernel(what).take_hint("descriptor")
    if str(as_dtype(dtype)) != "uint64":
        raise fail(f"{what}: a descriptor has 64 bits, dtype 'uint64', not {dtype}")
    return Descriptor()


def _number(what: str, name: str, value: Any, least: int, most: int) -> int:
    known = constant(as_value(value))
    if known.__class__ is not int or not least <= known <= most:
        raise fail(
            f"{what}: {name} is part of the descriptor: a constant from {least} to {most}, not {value}"
        )
    return known


def initialize_wgmma_descriptor(
    descriptor: Any,
    start_address: Any,
    layout_type_: int = 0,
    leading_byte_offset: int = 0,
    stride_byte_offset: int = 0,
) -> None:
    """Say where a tile begins and how it lies.

    start_address: T.access_ptr of an element of a shared buffer, or the buffer.  layout_type_: 0 rows of 16
    bytes without a pattern; 1, 2, 3 rows of 128, 64, 32 bytes whose chunks of 16 bytes are XORed with the
    row, as T.annotate_layout with make_wgmma_swizzled_layout lays a tile out; the compiler aligns it.
    leading_byte_offset, stride_byte_offset: constants, in units of 16 bytes, as the instruction has them.
    The stride is from eight rows to the next eight, the leading offset from one panel of rows to the next
    (not looked at for rows along k with a pattern); for rows along m or n without a pattern it is the other
    way round.
    A buffer without a layout of the program's lies row by row."""
    what = "T.initialize_wgmma_descriptor"
    trace = in_kernel(what)
    d = _descriptor(what, descriptor)
    start = start_address if start_address.__class__ is Pointer else access_ptr(start_address)
    if start.buffer.scope != "shared":
        raise fail(f"{what}: start_address is in shared memory, and {start.buffer.name} is not")
    d.width = WIDTHS[_number(what, "layout_type_", layout_type_, 0, 3)]
    d.leading = UNIT * _number(what, "leading_byte_offset", leading_byte_offset, 0, (1 << 14) - 1)
    d.stride = UNIT * _number(what, "stride_byte_offset", stride_byte_offset, 0, (1 << 14) - 1)
    index = tuple(trace.builder.let("start", i) if i.__class__ is Expr else i for i in start.index)
    d.start, d.bytes, d.block = Pointer(start.buffer, index, "r"), 0, trace.innermost()


def increase_descriptor_offset(descriptor: Any, offset: Any) -> None:
    """Move the tile of a descriptor by so many bytes, a multiple of 16; a constant or a value of the kernel.

    It stands in the same loop and branch as T.initialize_wgmma_descriptor; A_offset and B_offset of
    T.ptx_wgmma_ss may differ from iteration to iteration."""
    what = "T.increase_descriptor_offset"
    trace = in_kernel(what)
    d = _begun(trace, what, descriptor)
    if d.block != trace.innermost():
        raise fail(
            f"{what}: the descriptor was initialised outside of this loop or branch: initialise it in here, "
            "or give the offset to the product (A_offset, B_offset, in units of 16 bytes)"
        )
    step = as_value(offset)
    if step.__class__ is int and step % UNIT:
        raise fail(f"{what}: offset is in bytes, a multiple of 16, not {step}")
    d.bytes = d.bytes + (trace.builder.let("bytes", step) if step.__class__ is Expr else step)


def _descriptor(what: str, x: Any) -> Descriptor:
    if x.__class__ is not Descriptor:
        raise fail(f"{what}: a descriptor is what T.alloc_wgmma_desc makes, not {x!r}")
    return x


def _begun(trace: Trace, what: str, x: Any) -> Descriptor:
    d = _descriptor(what, x)
    if d.start is None:
        raise fail(f"{what}: the descriptor is not set: T.initialize_wgmma_descriptor does that")
    if d.block not in trace.open_blocks():
        raise fail(
            f"{what}: the descriptor was initialised in a loop or branch that has ended: initialise it here"
        )
    return d


def _shared(trace: Trace, d: Descriptor, units: Any) -> Expr:
    """The address so many units of 16 bytes behind the beginning of a tile, in the order of its memory."""
    buffer, index = d.start.buffer, d.start.index
    offset = as_value(units)
    step = d.bytes + (offset * UNIT if offset.__class__ is int else binary("mul", offset, UNIT))
    bits = buffer.dtype.bits
    if step.__class__ is int:
        elements: Any = step * 8 // bits
    else:
        elements = binary("floordiv", binary("mul", step, 8), bits)
    given = trace.layouts.get(buffer.id)
    if given is None or (elements.__class__ is int and elements == 0):
        return trace.builder.address(buffer, moved(buffer.shape, index, elements), "r")
    try:
        flat = given.flattened()
        (place,) = flat.map_values(index)
        back = flat.inverse().map_values([place + elements])
    except _core.CompileError as error:
        raise fail(f"the layout of {buffer.name} cannot be walked by a descriptor: {error}") from None
    return trace.builder.address(buffer, tuple(back), "r")


@cache
def _rows() -> set[str]:
    return {row["name"] for row in _core.instruction_rows("sm_90a")}


def _row(what: str, dtypes: tuple, prefix: str, kind: str) -> tuple[str, int, int]:
    """The row of these dtypes (of A, B and the sums), n, and the bits of an element of A."""
    a, b, c = (_NAMES.get(str(t)) for t in dtypes)
    shape = re.fullmatch(r"m64n(\d+)k(\d+)", str(prefix))
    if shape is None or None in (a, b, c) or a not in _BITS:
        raise fail(
            f"{what}: wgmma_prefix is 'm64n…k…', such as 'm64n128k16', and the dtypes are names such as "
            f"'fp16', 'bf16', 'e4m3', 'int8', 'fp32'; not {prefix!r} of {', '.join(map(repr, dtypes))}"
        )
    n, k = int(shape[1]), int(shape[2])
    row = f"wgmma_m64k{k}_{a if a == b else f'{a}_{b}'}_{c}_{kind}"
    known = k * _BITS[a] == 256 and row in _rows()
    if not known or not 8 <= n <= 256 or n % (16 if c == "s32" and n > 32 else 8):
        raise fail(
            f"{what}: there is no product {prefix} of {', '.join(map(str, dtypes))}: m is 64, n a multiple "
            "of 8 up to 256, k has 256 bits"
        )
    return row, n, _BITS[a]


def _ones(what: str, **scales: Any) -> None:
    for name, scale in scales.items():
        if constant(as_value(scale)) not in (1, True):
            raise fail(
                f"{what}: {name} is 1, not {scale}: this version does not negate factors in the product; "
                "negate the tile, or subtract the sums"
            )


def _product(
    what: str, row: tuple, operands: list, scale_out: Any, modes: list[tuple[Descriptor, Any]], sums: Buffer
) -> None:
    """Emit one product.  modes: the descriptors, and whether their rows are along k."""
    name, n, bits = row
    trace = in_kernel(what)
    b, numbers = trace.builder, []
    for d, is_k_major in modes:
        if bits != 16 and not is_k_major:
            raise fail(
                f"{what}: elements of {bits} bits are multiplied along rows of k alone: lay the tile out so"
            )
        numbers += [b.const(number, as_dtype("int32")) for number in d.mode(not is_k_major)]
    adds = as_condition(scale_out)
    clear = unary("not", adds) if adds.__class__ is Expr else b.const(not adds, as_dtype("bool"))
    b.instruct(name, [*operands, b.const(n, as_dtype("int32")), clear, *numbers])
    trace.wrote(sums)


def ptx_wgmma_ss(
    dtype: Any,
    wgmma_prefix: str,
    a_is_k_major: bool,
    b_is_k_major: bool,
    a_dtype_abbrv: str,
    b_dtype_abbrv: str,
    accum_dtype_abbrv: str,
    A_desc: Any,
    A_offset: Any,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: Any,
    scale_in_b: Any,
) -> None:
    """Begin one product of a warpgroup, C += A @ B or C = A @ B, of 64 × n by k elements; sm_90a.

    wgmma_prefix: "m64n128k16"; the dtypes as "fp16", "bf16", "tf32", "e4m3", "e5m2", "int8", "uint8", sums
    "fp32", "fp16", "int32"; dtype says nothing more.  a_is_k_major, b_is_k_major: rows of the tile are along
    k; else along m or n, which 16-bit elements alone may be.
    A_desc, B_desc: of T.initialize_wgmma_descriptor, moved by A_offset and B_offset units of 16 bytes.
    C_data: a T.alloc_local array (or its .data) whose n / 2 elements from C_offset on are the thread's sums:
    in thread t, element i is of row 16 (t // 32) + t % 32 // 4 + 8 (i // 2 % 2) and column
    8 (i // 4) + 2 (t % 4) + i % 2.  scale_out: add to them, else they are set.  scale_in_a, scale_in_b: 1.
    T.warpgroup_arrive stands before the first, T.warpgroup_commit_batch and T.wait_wgmma behind."""
    what = "T.ptx_wgmma_ss"
    row = _row(what, (a_dtype_abbrv, b_dtype_abbrv, accum_dtype_abbrv), wgmma_prefix, "ss")
    _ones(what, scale_in_a=scale_in_a, scale_in_b=scale_in_b)
    trace, sums = in_kernel(what), _array(C_data, what)
    a, b = _begun(trace, what, A_desc), _begun(trace, what, B_desc)
    operands = [
        trace.builder.address(sums, (as_value(C_offset),), ""),
        _shared(trace, a, A_offset),
        _shared(trace, b, B_offset),
    ]
    _product(what, row, operands, scale_out, [(a, a_is_k_major), (b, b_is_k_major)], sums)


def ptx_wgmma_rs(
    dtype: Any,
    wgmma_prefix: str,
    b_is_k_major: bool,
    a_dtype_abbrv: str,
    b_dtype_abbrv: str,
    accum_dtype_abbrv: str,
    A_buf: Any,
    A_offset: Any,
    B_desc: Any,
    B_offset: Any,
    C_data: Any,
    C_offset: Any,
    scale_out: Any,
    scale_in_a: Any,
    scale_in_b: Any,
) -> None:
    """As T.ptx_wgmma_ss, with A in registers.

    A_buf: a T.alloc_local array (or its .data) whose k / 2 elements from A_offset on are the thread's: of 16
    bits, element i of thread t is of row 16 (t // 32) + t % 32 // 4 + 8 (i // 2 % 2) and column
    8 (i // 4) + 2 (t % 4) + i % 2.  Nothing may write to them until the product has been waited for."""
    what = "T.ptx_wgmma_rs"
    row = _row(what, (a_dtype_abbrv, b_dtype_abbrv, accum_dtype_abbrv), wgmma_prefix, "rs")
    _ones(what, scale_in_a=scale_in_a, scale_in_b=scale_in_b)
    trace, sums = in_kernel(what), _array(C_data, what)
    b = _begun(trace, what, B_desc)
    operands = [
        trace.builder.address(sums, (as_value(C_offset),), ""),
        trace.builder.address(_array(A_buf, what), (as_value(A_offset),), "r"),
        _shared(trace, b, B_offset),
    ]
    _product(what, row, operands, scale_out, [(b, b_is_k_major)], sums)


def wgmma_mma(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    annotations: Any = None,
) -> None:
    """The same as T.wgmma_gemm: begin C += A @ B by wgmma, as a group of its own; T.wait_wgmma waits for it.

    Fences and commits of the program's own around it, T.warpgroup_arrive and T.warpgroup_commit_batch, make
    an empty group more, and T.wait_wgmma(0) waits for all."""
    arguments = (A, B, C, transpose_A, transpose_B, policy, clear_accum, annotations)
    gemm_statement("T.wgmma_mma", *arguments, in_flight=True)


class WGMMATensorCoreIntrinEmitter:
    """The products of one gemm C += A @ B of a block by wgmma, for a kernel that waits for them itself.

    The block's warps form a grid of block_row_warps (a multiple of 4: warpgroups) × block_col_warps; each
    computes warp_row_tiles × warp_col_tiles elements of C, of chunk elements of k at a time.
    a_transposed: A's tile is (k, m); b_transposed: B's is (n, k).  reduce_k and num_elems_per_byte are 1;
    is_m_first and thread_var are left out, as the compiler divides C among the warpgroups."""

    M_DIM = wgmma_inst_m = 64

    def __init__(
        self,
        a_dtype: Any = "float16",
        b_dtype: Any = "float16",
        accum_dtype: Any = "float16",
        a_transposed: bool = False,
        b_transposed: bool = False,
        block_row_warps: int = 2,
        block_col_warps: int = 2,
        warp_row_tiles: int = 8,
        warp_col_tiles: int = 8,
        chunk: int = 16,
        reduce_k: int = 1,
        num_elems_per_byte: int = 1,
        is_m_first: bool | None = False,
        thread_var: Any = None,
    ) -> None:
        what = "T.WGMMATensorCoreIntrinEmitter"
        names = [_NAMES.get(str(as_dtype(t)), "") for t in (a_dtype, b_dtype, accum_dtype)]
        self.micro_size_k = self.wgmma_inst_k = 256 // _BITS.get(names[0], 256)
        _row(what, (a_dtype, b_dtype, accum_dtype), f"m64n16k{self.micro_size_k}", "ss")
        if reduce_k != 1 or num_elems_per_byte != 1 or is_m_first or thread_var is not None:
            raise fail(f"{what}: reduce_k and num_elems_per_byte are 1, is_m_first False, thread_var None")
        for name, size, unit in (
            ("block_row_warps", block_row_warps, 4),
            ("warp_row_tiles", warp_row_tiles, 16),
            ("warp_col_tiles", warp_col_tiles, 8),
            ("chunk", chunk, self.micro_size_k),
        ):
            if size < unit or size % unit:
                raise fail(f"{what}: {name} is {size}; it must be a multiple of {unit}")
        self.a_dtype, self.b_dtype, self.accum_dtype = map(as_dtype, (a_dtype, b_dtype, accum_dtype))
        self.a_transposed, self.b_transposed = bool(a_transposed), bool(b_transposed)
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles, self.chunk = warp_row_tiles, warp_col_tiles, chunk

    def wgmma(
        self, A_region: Any, B_region: Any, C_region: Any, clear_accum: Any = False, wg_wait: int = 0
    ) -> None:
        """Begin C += A @ B, as T.wgmma_gemm does, and wait until at most wg_wait groups of products are in
        flight; -1: do not wait.

        A_region (block_row_warps · warp_row_tiles, chunk), a shared tile or a fragment; B_region (chunk,
        block_col_warps · warp_col_tiles), a shared tile; C_region, a fragment."""
        what = "T.WGMMATensorCoreIntrinEmitter.wgmma"
        rows, columns = (
            self.block_row_warps * self.warp_row_tiles,
            self.block_col_warps * self.warp_col_tiles,
        )
        shape = tuple(n for n in getattr(C_region, "shape", None) or C_region.extents if n != 1)
        if shape != (rows, columns):
            raise fail(f"{what}: C is {rows} × {columns} for these warps, not {' × '.join(map(str, shape))}")
        policy = GemmWarpPolicy.FullCol if self.block_row_warps == 4 else GemmWarpPolicy.Square
        if self.block_col_warps == 1:
            policy = GemmWarpPolicy.FullRow
        sides = (self.a_transposed, self.b_transposed, policy, clear_accum, None)
        gemm_statement(what, A_region, B_region, C_region, *sides, in_flight=True)
        if wg_wait != -1:
            _wait(what, wg_wait)


__all__ = ["WGMMADescriptorParams", "WGMMATensorCoreIntrinEmitter", "alloc_descriptor", "alloc_wgmma_desc",
           "increase_descriptor_offset", "initialize_wgmma_descriptor", "ptx_wgmma_rs", "ptx_wgmma_ss",
           "wgmma_mma"]  # fmt: skip
