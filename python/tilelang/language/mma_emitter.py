"""`TensorCoreIntrinEmitter`: gemm by matrix instructions, written by hand."""

from __future__ import annotations

from typing import Any

from .._core import Buffer, Expr
from ..front import dtypes
from ..front.trace import fail, in_kernel
from ..front.values import as_value
from . import mma_layout
from .foreign import _start
from .layout import Fragment, matrix_fragment_names
from .mma_layout import IndexMap
from .thread import WARP

_WHAT = "TensorCoreIntrinEmitter"
_NAMES = {"f32": "tf32", "i8": "s8", "i32": "s32"}  # what a row's name says instead
_M = 16


def _row(a: Any, b: Any, sums: Any) -> str:
    """The name of the instruction for these types."""
    names = [_NAMES.get(t.name, t.name) for t in (a, b)]
    result = "s32" if sums.name == "i32" else sums.name
    operands = names[0] if names[0] == names[1] else "_".join(names)
    row = f"mma_m16n8k{256 // a.bits}_{operands}_{result}"
    if a.bits != b.bits or row not in matrix_fragment_names():
        have = ", ".join(n for n in matrix_fragment_names() if n.count("_") >= 3)
        raise fail(f"{_WHAT}: no matrix instruction multiplies {a} by {b} into {sums}; there are {have}")
    return row


class TensorCoreIntrinEmitter:
    """The loads, the matrix instructions and the stores of one gemm C += A @ B of a block, for a kernel that
    writes them itself; T.gemm writes them all.

    The block's warps form a grid of block_row_warps × block_col_warps; each computes warp_row_tiles ×
    warp_col_tiles elements of C, of chunk elements of k at a time (reduce_k warps share a chunk each).
    Instructions work on micro_size_x × micro_size_y × micro_size_k elements: 16 × 16 (8 where warp_col_tiles
    is no multiple of 16) × 256 bits.  Operands in registers are T.alloc_local arrays, one tile after another:

        A_local  warp_rows × local_size_a                C_local  warp_rows × warp_cols × local_size_out
        B_local  warp_cols × local_size_b

    a_transposed: A's tile is (k, m); b_transposed: B's is (n, k), as it mostly is.  is_m_first: warps are
    numbered along n first.  thread_var: the number of the thread; that of the kernel if left out.
    float32 is multiplied as tf32, its last 13 bits not looked at."""

    M_DIM = _M
    WARP_SIZE = WARP
    n_dim, warp_rows, warp_cols, is_m_first = 16, 1, 1, False
    dtype_abbrv = {  # noqa: RUF012  (as published: what PTX and others call the dtypes)
        "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "tfloat32": "tf32", "float64": "fp64",
        "int8": "int8", "uint8": "uint8", "int4": "int4", "uint4": "uint4", "int32": "int32",
        "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    }  # fmt: skip

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
        self.a_dtype, self.b_dtype, self.accum_dtype = map(dtypes.as_dtype, (a_dtype, b_dtype, accum_dtype))
        self.a_transposed, self.b_transposed = bool(a_transposed), bool(b_transposed)
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles, self.chunk = warp_row_tiles, warp_col_tiles, chunk
        self.reduce_k, self.is_m_first, self.thread_var = reduce_k, bool(is_m_first), thread_var
        self._row = _row(self.a_dtype, self.b_dtype, self.accum_dtype)
        if num_elems_per_byte != 1:
            raise fail(
                f"{_WHAT}: num_elems_per_byte is {num_elems_per_byte}; unpack elements into an array "
                "of the instruction's dtype (T.unpack_int), and give that to mma"
            )
        self.k_dim = 256 // self.a_dtype.bits
        self.n_dim = 16 if warp_col_tiles % 16 == 0 else 8
        self.micro_size_x, self.micro_size_y, self.micro_size_k = _M, self.n_dim, self.k_dim
        for name, size, unit in (
            ("warp_row_tiles", warp_row_tiles, _M),
            ("warp_col_tiles", warp_col_tiles, 8),
            ("chunk", chunk, self.k_dim),
        ):
            if size < unit or size % unit:
                raise fail(
                    f"{_WHAT}: {name} is {size}; it must be a multiple of {unit}, which {self._row} works on"
                )
        self.warp_rows, self.warp_cols = warp_row_tiles // _M, warp_col_tiles // self.n_dim
        self.local_size_a, self.local_size_b, self.local_size_out = (
            n // WARP for n in (_M * self.k_dim, self.n_dim * self.k_dim, _M * self.n_dim)
        )
        self.threads = WARP * block_row_warps * block_col_warps * reduce_k

    @property
    def mma_num_inst_m(self) -> int:
        """How many tiles of 16 rows a warp works on: the calls of mma_atom along m."""
        return self.warp_rows

    @property
    def mma_num_inst_n(self) -> int:
        """How many tiles of micro_size_y columns a warp works on: the calls of mma_atom along n."""
        return self.warp_cols

    # ── who works on what ─────────────────────────────────────────────────────────────────────────────
    def get_thread_binding(self) -> Any:
        """The number of the thread in the block."""
        if self.thread_var is not None:
            return self.thread_var
        return in_kernel(_WHAT).builder.call("thread_number", ())

    def extract_thread_binding(self, thread_id: Any, is_m_first: bool | None = None) -> tuple[Any, Any, Any]:
        """(lane, warp along n, warp along m) of a thread."""
        m_first = self.is_m_first if is_m_first is None else is_m_first
        warp, rows, cols = thread_id // WARP, self.block_row_warps, self.block_col_warps
        if m_first:
            return thread_id % WARP, warp % cols, warp // cols % rows
        return thread_id % WARP, warp // rows % cols, warp % rows

    def get_ldmatrix_index_map(self, is_b: bool = False) -> IndexMap:
        """(thread, register) -> (along m or n, along k) of an operand's tile."""
        return IndexMap(lambda t, r: mma_layout.operand_element(self.a_dtype.bits, t, r, is_b))

    def get_store_index_map(self, inverse: bool = False) -> IndexMap:
        """(thread, register) -> (row, column) of the accumulator's tile, or back."""
        return IndexMap(mma_layout.sum_place if inverse else mma_layout.sum_element)

    # ── statements ────────────────────────────────────────────────────────────────────────────────────
    def ldmatrix_a(self, A_local_buf: Buffer, A_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """Load the warp's rows of A, of micro step ki (and of part rk of k), from shared memory.

        A_shared_buf: a shared tile of (m, k), or (k, m) if a_transposed, or a slice that ends in one."""
        self._load("ldmatrix_a", A_local_buf, A_shared_buf, ki, rk, False)

    def ldmatrix_b(self, B_local_buf: Buffer, B_shared_buf: Any, ki: Any, rk: Any = 0) -> None:
        """The same for the warp's columns of B: a tile of (k, n), or (n, k) if b_transposed."""
        self._load("ldmatrix_b", B_local_buf, B_shared_buf, ki, rk, True)

    def mma(self, A_local_buf: Buffer, B_local_buf: Buffer, C_local_buf: Buffer, k_inner: Any = 0) -> None:
        """C_local += A_local @ B_local, all of the warp's tiles.

        k_inner: the micro step, where A_local or B_local hold several, one after another."""
        b = in_kernel(f"{_WHAT}.mma").builder
        i, j = b.begin_for("unrolled", ["i", "j"], [0, 0], [self.warp_rows, self.warp_cols], [1, 1], {})
        self.mma_atom(A_local_buf, B_local_buf, C_local_buf, i, j, k_inner)
        b.end_for()

    def mma_atom(
        self,
        A_local_buf: Buffer,
        B_local_buf: Buffer,
        C_local_buf: Buffer,
        inst_m_idx: Any,
        inst_n_idx: Any,
        k_inner: Any = 0,
    ) -> None:
        """The same for one of the warp's tiles, by its number along m and n."""
        what, b = f"{_WHAT}.mma", in_kernel(f"{_WHAT}.mma").builder
        sizes = self.warp_rows * self.local_size_a, self.warp_cols * self.local_size_b
        self._check(what, A_local_buf, self.a_dtype, sizes[0])
        self._check(what, B_local_buf, self.b_dtype, sizes[1])
        self._check(what, C_local_buf, self.accum_dtype, self._sums())
        step, i, j = (as_value(x) for x in (k_inner, inst_m_idx, inst_n_idx))
        many = [buf.shape[0] >= 2 * n for buf, n in ((A_local_buf, sizes[0]), (B_local_buf, sizes[1]))]
        first_a, first_b = (step * n if m else 0 for m, n in zip(many, sizes, strict=True))
        for half in range(self.n_dim // 8):
            c = (i * self.warp_cols + j) * self.local_size_out + 4 * half
            at_b = first_b + j * self.local_size_b + half * (8 * self.k_dim // WARP)
            b.instruct(
                self._row,
                [
                    b.address(C_local_buf, (c,), ""),
                    b.address(A_local_buf, (first_a + i * self.local_size_a,), "r"),
                    b.address(B_local_buf, (at_b,), "r"),
                ],
            )
        in_kernel(what).wrote(C_local_buf)

    def stmatrix(self, C_local_buf: Buffer, C_buf: Any, pid_m: Any = None, pid_n: Any = None) -> None:
        """Store the warp's tiles of C, converted to C_buf's dtype.

        C_buf: a shared tile of (m, n), or of (m / 16, n / micro_size_y, 16, micro_size_y); with pid_m and
        pid_n a tensor of (M, N), the block's tile of which they number."""
        what = f"{_WHAT}.stmatrix"
        trace = in_kernel(what)
        b = trace.builder
        self._check(what, C_local_buf, self.accum_dtype, self._sums())
        buffer, start = _start(C_buf, what)
        tiled = len(start) >= 4 and pid_m is None
        if len(start) < 2 or (pid_m is None) != (pid_n is None):
            raise fail(f"{what}: C is a tile of two or four dimensions; a tensor needs both pid_m and pid_n")
        lane, along_n, along_m = self._place()
        i, j, r = b.begin_for(
            "unrolled",
            ["i", "j", "r"],
            [0] * 3,
            [self.warp_rows, self.warp_cols, self.local_size_out // 2],
            [1] * 3,
            {},
        )
        (v,) = b.begin_for("vectorized", ["v"], [0], [2], [1], {})
        tile_m, tile_n = along_m * self.warp_rows + i, along_n * self.warp_cols + j
        row, column = mma_layout.sum_element(lane, r * 2 + v)
        if pid_m is not None:
            tile_m = as_value(pid_m) * (self.block_row_warps * self.warp_rows) + tile_m
            tile_n = as_value(pid_n) * (self.block_col_warps * self.warp_cols) + tile_n
        inner = (tile_m, tile_n, row, column) if tiled else (tile_m * _M + row, tile_n * self.n_dim + column)
        n = len(inner)
        index = (*start[:-n], *[s + x for s, x in zip(start[-n:], inner, strict=True)])
        value = b.load(C_local_buf, ((i * self.warp_cols + j) * self.local_size_out + r * 2 + v,))
        b.store(buffer, index, b.cast(buffer.dtype, value))
        b.end_for()
        b.end_for()
        trace.wrote(buffer)

    # ── fragments ─────────────────────────────────────────────────────────────────────────────────────
    def make_mma_load_layout(self, local_buf: Any, matrix: str = "A") -> Fragment:
        """Where the block's A (or B) lies as the instructions want it, for a fragment of that tile's shape,
        replicated over the warps that need the same part."""
        is_b = matrix == "B"
        if matrix not in ("A", "B"):
            raise fail(f"{_WHAT}.make_mma_load_layout: matrix is 'A' or 'B', not {matrix!r}")
        k_first = self.a_transposed if not is_b else not self.b_transposed
        tiles = self.warp_cols if is_b else self.warp_rows
        size, local = (self.n_dim, self.local_size_b) if is_b else (_M, self.local_size_a)
        mine, others = self.block_row_warps, self.block_col_warps
        if is_b:
            mine, others = others, mine

        def place(i: Any, j: Any, replica: Any = 0) -> tuple[Any, Any]:
            outer, k = (j, i) if k_first else (i, j)
            lane, register = mma_layout.operand_place(self.a_dtype.bits, outer % size, k % self.k_dim, is_b)
            tile = outer // size
            own = tile // tiles
            warp = self._warp(replica, own) if is_b else self._warp(own, replica)
            return (warp * WARP + lane, (k // self.k_dim * tiles + tile % tiles) * local + register)

        self._check_tile("make_mma_load_layout", local_buf, 1 if k_first else 0, mine * tiles * size)
        return Fragment(tuple(local_buf.shape), place, replicate=others)

    def make_mma_store_layout(self, local_buf: Any) -> Fragment:
        """Where the block's C lies as the instructions leave it, for a fragment of that tile's shape."""

        def place(i: Any, j: Any) -> tuple[Any, Any]:
            lane, register = mma_layout.sum_place(i % _M, j % self.n_dim)
            row, column = i // _M, j // self.n_dim
            warp = self._warp(row // self.warp_rows, column // self.warp_cols)
            tile = row % self.warp_rows * self.warp_cols + column % self.warp_cols
            return (warp * WARP + lane, tile * self.local_size_out + register)

        for dim, size in enumerate(
            (self.block_row_warps * self.warp_row_tiles, self.block_col_warps * self.warp_col_tiles)
        ):
            self._check_tile("make_mma_store_layout", local_buf, dim, size)
        return Fragment(tuple(local_buf.shape), place)

    # ── within ────────────────────────────────────────────────────────────────────────────────────────
    def _warp(self, along_m: Any, along_n: Any) -> Any:
        if self.is_m_first:
            return along_m * self.block_col_warps + along_n
        return along_n * self.block_row_warps + along_m

    def _sums(self) -> int:
        return self.warp_rows * self.warp_cols * self.local_size_out

    def _place(self) -> tuple[Any, Any, Any]:
        return self.extract_thread_binding(as_value(self.get_thread_binding()))

    def _check(self, what: str, buffer: Any, dtype: Any, size: int) -> None:
        if buffer.__class__ is not Buffer or buffer.scope != "local" or len(buffer.shape) != 1:
            given = type(buffer).__name__
            if isinstance(buffer, Buffer):
                given = f"{buffer.name}, a {buffer.scope} buffer of shape {buffer.shape}"
            raise fail(
                f"{what}: an operand in registers is a T.alloc_local array of one dimension, not {given}"
            )
        if buffer.dtype != dtype or buffer.shape[0] < size:
            raise fail(
                f"{what}: {buffer.name} is {buffer.dtype}[{buffer.shape[0]}], but the warp's tiles "
                f"are {size} {dtype} in each thread"
            )

    def _check_tile(self, what: str, buffer: Any, dim: int, size: int) -> None:
        if len(buffer.shape) != 2 or buffer.shape[dim] != size:
            raise fail(
                f"{_WHAT}.{what}: extent {dim} of {buffer.name} must be {size}, of all warps, but "
                f"its shape is {buffer.shape}"
            )

    def _load(self, name: str, local: Buffer, shared: Any, ki: Any, rk: Any, is_b: bool) -> None:
        what = f"{_WHAT}.{name}"
        trace = in_kernel(what)
        dtype = self.b_dtype if is_b else self.a_dtype
        tiles, size = (self.warp_cols, self.local_size_b) if is_b else (self.warp_rows, self.local_size_a)
        self._check(what, local, dtype, tiles * size)
        buffer, start = _start(shared, what)
        if buffer.scope != "shared" or buffer.dtype != dtype or len(start) < 2:
            raise fail(
                f"{what}: it loads from a shared tile of {dtype} with two dimensions or more, not "
                f"from {buffer.name}, a {buffer.scope} buffer of {buffer.dtype}{list(buffer.shape)}"
            )
        k_first = self.a_transposed if not is_b else not self.b_transposed
        lane, along_n, along_m = self._place()
        first = along_n * self.warp_col_tiles if is_b else along_m * self.warp_row_tiles
        k = as_value(rk) * self.chunk + as_value(ki) * self.k_dim
        (i,) = trace.builder.begin_for("unrolled", ["i"], [0], [tiles], [1], {})

        def at(outer: Any, inner: Any) -> tuple:
            place = (first + i * (self.n_dim if is_b else _M) + outer, k + inner)
            place = place[::-1] if k_first else place
            return (*start[:-2], start[-2] + place[0], start[-1] + place[1])

        if k_first and dtype.bits != 16:
            self._by_elements(trace.builder, local, buffer, at, i * size, lane, is_b)
        else:
            self._by_blocks(trace.builder, local, buffer, at, i * size, lane, is_b, k_first)
        trace.builder.end_for()
        trace.wrote(local)

    def _by_blocks(
        self, b: Any, local: Buffer, shared: Buffer, at: Any, to: Expr, lane: Expr, is_b: bool, k_first: bool
    ) -> None:
        """ldmatrix: thread 8 b + r gives the address of row r of block b, of 16 bytes."""
        across = 128 // local.dtype.bits
        low, high = lane // 8 % 2, lane // 16  # B's blocks go along k first, A's along m
        outer, inner = (high, low) if is_b else (low, high)
        row = lane % 8
        place = at(8 * outer, across * inner + row) if k_first else at(8 * outer + row, across * inner)
        blocks = 2 if is_b and self.n_dim == 8 else 4
        if blocks == 2:
            place = at(0, across * low + row) if k_first else at(row, across * low)
        b.instruct(
            f"ldmatrix_x{blocks}{'_trans' if k_first else ''}",
            [b.address(local, (to,), "w"), b.address(shared, place, "r")],
        )

    def _by_elements(
        self, b: Any, local: Buffer, shared: Buffer, at: Any, to: Expr, lane: Expr, is_b: bool
    ) -> None:
        count = self.local_size_b if is_b else self.local_size_a
        (r,) = b.begin_for("unrolled", ["r"], [0], [count], [1], {})
        place = at(*mma_layout.operand_element(local.dtype.bits, lane, r, is_b))
        b.store(local, (to + r,), b.load(shared, place))
        b.end_for()


class TensorCoreIntrinEmitterWithLadderTransform(TensorCoreIntrinEmitter):
    """The same for operands that were laid out for it beforehand; of which kind 0, as they are, is here."""

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
        transform_kind_a: Any = 0,
        transform_kind_b: Any = 0,
    ) -> None:
        for name, kind in (("transform_kind_a", transform_kind_a), ("transform_kind_b", transform_kind_b)):
            if int(kind):
                raise fail(
                    f"TensorCoreIntrinEmitterWithLadderTransform: {name} is {kind}; tiles laid out "
                    "beforehand are not in this version yet: leave it 0, ldmatrix reads them so"
                )
        super().__init__(
            a_dtype,
            b_dtype,
            accum_dtype,
            a_transposed,
            b_transposed,
            block_row_warps,
            block_col_warps,
            warp_row_tiles,
            warp_col_tiles,
            chunk,
            reduce_k,
            num_elems_per_byte,
            is_m_first,
        )
        self.transform_kind_a, self.transform_kind_b = transform_kind_a, transform_kind_b
