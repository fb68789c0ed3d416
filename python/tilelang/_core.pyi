"""The binding: every name that Python may use of the compiler.  Values only; Python never sees a node."""

from collections.abc import Callable, Sequence
from typing import Any

from .front.dtypes import dtype as DType

ExprLike = "Expr | int | float | bool"

class CompileError(ValueError):
    """The user's error; str() is `file:line:column: error: text`, the source line and a caret."""
    text: str
    file: str
    line: int
    column: int

class SimulationError(CompileError):
    """What the simulator found wrong with a program."""
    report: Any                        # a tilelang.simulation.SimulationReport

class ArgumentError(TypeError, ValueError):
    """A call whose arguments do not fit the kernel; names the parameter, what was expected and what came."""

class Expr:
    """An immutable typed value of the program being built.  Constants fold when they meet."""
    dtype: DType
    is_const: bool
    value: int | float | bool          # of a constant; TypeError otherwise
    def __str__(self) -> str: ...      # as text IR prints it

class Buffer:
    """A tensor, tile or local array of the program being built."""
    id: int
    name: str
    dtype: DType
    shape: tuple[int | Expr, ...]
    given_strides: tuple[int | Expr, ...]   # none of a row-major buffer without gaps
    scope: str                         # global shared fragment local var
    storage: int                       # id of the buffer whose elements it shows: its own unless T.reshape made it
    def show(self, value: Expr) -> str:
        """A value of the same program, with the names of its buffers."""

class ValueFunction:
    """A function of values that an operator keeps, such as the combiner of T.reduce."""

class Region:
    """A rectangular part of a buffer: per dimension a start and an extent, or one point.

    `extents[d] is None` means "a single element base": the operator takes the extent from its other operand.
    """
    def __init__(self, buffer: Buffer, starts: Sequence[ExprLike], extents: Sequence[ExprLike | None],
                 points: Sequence[bool]) -> None: ...
    buffer: Buffer
    extents: tuple[int | Expr | None, ...]   # without the dimensions of points
    ranges: list[tuple[int | Expr, int | Expr | None, bool]]   # per dimension start, extent, is it a point?

class Layout:
    """A map from the indices of a tile to places.  CompileError, without a place, for what has no answer."""
    def __init__(self, shape: Sequence[int], vars: Sequence[Expr], outputs: Sequence[ExprLike]) -> None:
        """vars: one index_var per extent; outputs: integers over them."""
    shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    has_digits: bool
    has_expressions: bool              # or known as a table only: no code can be written with it
    def map(self, index: Sequence[int]) -> tuple[int, ...]: ...
    def map_values(self, index: Sequence[ExprLike]) -> list[Expr]: ...
    def points(self) -> list[tuple[int, ...]]: ...
    def inverse(self) -> "Layout": ...
    def compose(self, inner: "Layout") -> "Layout":
        """index -> self(inner(index))"""
    def reshape(self, shape: Sequence[int]) -> "Layout": ...
    def expand(self, leading: Sequence[int]) -> "Layout": ...
    def repeat(self, dim: int, factor: int) -> "Layout": ...
    def flattened(self) -> "Layout":
        """One output: the outputs row-major over output_shape."""
    def is_equal(self, other: "Layout") -> bool: ...
    def is_injective(self) -> bool: ...
    def is_bijective(self) -> bool: ...
    def collision(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Two elements with one place."""
    def vector_width(self, limit: int) -> int: ...
    def __str__(self) -> str: ...

class Fragment:
    """A map from the indices of a tile and the number of a copy to (thread, register)."""
    def __init__(self, shape: Sequence[int], replicas: int, vars: Sequence[Expr], thread: ExprLike,
                 register: ExprLike | None) -> None:
        """vars: one per extent, then the copy's.  register None: each thread's elements in row-major order."""
    shape: tuple[int, ...]
    threads: int
    registers: int
    replicas: int
    layout: Layout
    def holders(self, index: Sequence[int]) -> list[tuple[int, int]]: ...
    def repeat(self, factors: Sequence[int], on_threads: bool, last_dim_first: bool) -> "Fragment": ...
    def replicate(self, n: int) -> "Fragment": ...
    def condense(self) -> "Fragment": ...
    def is_equal(self, other: "Fragment") -> bool: ...
    def cover_fault(self) -> str | None:
        """Why it does not cover its tile once."""
    def __str__(self) -> str: ...

def index_var(name: str) -> Expr:
    """A variable of type i64, for the indices of a layout."""
def row_major(shape: Sequence[int]) -> Layout: ...
def swizzled(shape: Sequence[int], bits: int, bytes: int) -> Layout:
    """bytes: 128, 64 or 32."""
def swizzled_panels(shape: Sequence[int], bits: int, bytes: int) -> Layout:
    """bytes: also 0, the widest that fits."""
def xor_swizzled(shape: Sequence[int], bits: int, base: int, shift: int) -> Layout: ...
def padded(shape: Sequence[int], bits: int) -> Layout: ...
def conflict_free(shape: Sequence[int], bits: int, allow_padding: bool) -> Layout: ...
def matrix_fragment(instr: str, operand: str) -> Fragment:
    """operand: a, b or c"""
def matrix_fragment_names() -> list[str]: ...
def instruction_texts() -> list[tuple[str, str, tuple[int, ...], DType]]:
    """(name of the row, its PTX, 32-bit registers of each operand, the dtype of one of the result)."""
def bank_cycles(memory: Layout, bits: int, map: Fragment, lanes: int, target: str) -> tuple[int, int]:
    """(count, ideal)"""
def sectors(memory: Layout, bits: int, map: Fragment, lanes: int, target: str) -> int: ...
def draw_text(layout: Layout | Fragment, bits: int, rows: int, columns: int) -> str: ...
def draw_svg(layout: Layout | Fragment, bits: int) -> str: ...
def draw_cells(layout: Layout | Fragment, bits: int) -> tuple[str, list[str], int, list[tuple[str, str]]]:
    """(title, names of the rows, columns, [(text, colour)])"""

class Builder:
    """Makes one Function.  All checks live here; every call takes the place set by `at` as its own."""
    def __init__(self, name: str) -> None: ...
    def at(self, file: str, line: int, column: int, end_line: int, end_column: int) -> None:
        """Everything built from here on was written there (lines and columns count from 1)."""
    # signature
    def tensor(self, name: str, shape: Sequence[ExprLike], dtype: DType,
               strides: Sequence[ExprLike] | None = None) -> Buffer: ...
    def scalar(self, name: str, dtype: DType) -> Expr: ...
    def dynamic(self, name: str) -> Expr:
        """An extent known when the kernel is called; it must be an extent or a stride of some tensor."""
    def from_end(self, name: str, index: ExprLike, extent: ExprLike) -> Expr | None:
        """An index that is certainly below 0, counted from the end of its dimension; None for any other."""
    # structure: each begin has an end; the values returned are the variables bound
    def begin_kernel(self, grid: Sequence[ExprLike], threads: Sequence[int] | None, attrs: dict[str, Any],
                     names: Sequence[str] = ()) -> list[Expr]:
        """names: of the block indices, as the user wrote them after `as`; else bx, by, bz."""
    def form_clusters(self, dims: Sequence[int]) -> None:
        """Directly behind begin_kernel: so many blocks along each dimension run together."""
    def rank_in_cluster(self) -> Expr: ...
    def end_kernel(self) -> None: ...
    def begin_for(self, kind: str, names: Sequence[str], starts: Sequence[ExprLike], stops: Sequence[ExprLike],
                  steps: Sequence[ExprLike], attrs: dict[str, Any]) -> list[Expr]:
        """kind: serial parallel pipelined unrolled vectorized.  Several names make a nest (parallel, grid).
        attrs: numbers and words; "loop_layout" a Fragment over the extents of a parallel nest."""
    def begin_while(self) -> None: ...
    def while_condition(self, condition: Any) -> None: ...
    def end_while(self) -> None: ...
    def drop_while(self) -> None: ...
    def evaluate(self, value: Any) -> None: ...
    def end_for(self) -> None: ...
    def begin_if(self, condition: Expr) -> None: ...
    def begin_else(self) -> None: ...
    def end_if(self) -> None: ...
    def begin_choice(self, condition: Expr) -> bool:
        """Opens the arm of the one of two values; begin_else that of the other.  False: there are no arms here."""
    def drop_choice(self) -> bool:
        """Ends a choice whose arms do nothing besides giving values; False if they do."""
    def end_choice(self, yes: ExprLike, no: ExprLike) -> Expr:
        """Ends a choice: the value of the arm that was taken."""
    def begin_group(self, first: int, count: int) -> None:
        """What the threads [first, first + count) of the block run, as a team of their own."""
    def end_group(self) -> None: ...
    def begin_op(self, id: str) -> None:
        """Statements that a schedule of warps knows by this name; end_group ends them."""
    def annotate_schedule(self, text: str, tiles: Sequence[tuple[str, Buffer]]) -> None:
        """The schedule of the kernel's warps, and (pipeline, tile)."""
    # memory
    def alloc(self, name: str, scope: str, shape: Sequence[int], dtype: DType, attrs: dict[str, Any]) -> Buffer:
        """scope: shared fragment local var (var: shape ())."""
    def set_dtype(self, tile: Buffer, dtype: DType) -> None: ...
    def alias(self, name: str, of: Buffer, shape: Sequence[Any], dtype: DType, what: str) -> Buffer: ...
    def annotate_safe_value(self, buffer: Buffer, value: Any) -> None: ...
    def load(self, buffer: Buffer, index: Sequence[ExprLike]) -> Expr: ...
    def store(self, buffer: Buffer, index: Sequence[ExprLike], value: ExprLike) -> None: ...
    def let(self, name: str, value: Expr) -> Expr:
        """Bind a value to a name; returns the variable (or the constant itself)."""
    def held(self, name: str, value: Expr) -> Expr | None:
        """Bind a value that reads memory; None if it reads none."""
    # barriers in memory; `what` is what the user called
    def barriers(self, what: str, name: str, counts: Sequence[int]) -> Buffer:
        """Barriers whose phases end after so many arrivals each, initialised where the kernel begins."""
    def count_arrivals(self, what: str, words: Buffer, number: int, count: int) -> None: ...
    def signal_barrier(
        self, what: str, row: str, words: Buffer, index: Sequence[ExprLike], bytes: ExprLike | None = None
    ) -> None:
        """An instruction on a barrier; no index: on the only one of its buffer."""
    def arrive_for_state(
        self, what: str, row: str, words: Buffer, index: Sequence[ExprLike], bytes: ExprLike | None = None
    ) -> Expr: ...
    def wait_for_state(self, what: str, words: Buffer, index: Sequence[ExprLike], state: ExprLike) -> None: ...
    def test_state(self, what: str, words: Buffer, index: Sequence[ExprLike], state: ExprLike) -> Expr: ...
    def arrive_remote(self, what: str, words: Buffer, index: Sequence[ExprLike], rank: ExprLike) -> None: ...
    def rank(self, what: str, block: ExprLike) -> Expr: ...
    def cluster_mask(self, what: str, mask: ExprLike) -> Expr: ...
    def cluster_barrier(self, what: str, row: str) -> None: ...
    def wait_barrier(self, what: str, words: Buffer, index: Sequence[ExprLike], parity: ExprLike) -> None:
        """Until the phase of that parity has ended."""
    # memory, thread by thread
    def address(
        self, buffer: Buffer, index: Sequence[ExprLike], access: str, count: ExprLike | None = None
    ) -> Expr:
        """Of an element; access "r", "w", or "": both."""
    def order_params(self, names: Sequence[str]) -> None: ...
    def pointer(self, name: str) -> Expr:
        """A parameter that is an address."""
    def tensor_at(self, name: str, base: ExprLike, shape: Sequence[ExprLike], dtype: DType,
                  strides: Sequence[ExprLike] | None) -> Buffer:
        """A tensor at an address; made before the first kernel it belongs to each."""
    def atomic(self, op: str, buffer: Buffer, index: Sequence[ExprLike], value: ExprLike | None, order: str,
               returns: bool) -> Expr:
        """op: atomic_add atomic_max atomic_min atomic_or atomic_load atomic_store."""
    def load_wide(self, what: str, buffer: Buffer, index: Sequence[ExprLike], bytes: int,
                  predicate: ExprLike | None) -> Expr: ...
    def store_wide(self, what: str, buffer: Buffer, index: Sequence[ExprLike], value: ExprLike, bytes: int,
                   predicate: ExprLike | None) -> None: ...
    def instruct(self, row: str, operands: Sequence[Expr]) -> None:
        """An instruction of a GPU's by the name of its row, on addresses and values as its row says."""
    def foreign(self, kind: str, text: str, key: str, outputs: Sequence[Expr], args: Sequence[ExprLike],
                dtype: DType | None) -> Expr:
        """kind: call_extern call_pure_extern ptx; outputs: of ptx, addresses of variables."""
    # values
    def const(self, value: int | float | bool, dtype: DType) -> Expr: ...
    def unary(self, op: str, a: ExprLike) -> Expr:
        """op: neg not invert"""
    def binary(self, op: str, a: ExprLike, b: ExprLike) -> Expr:
        """op: add sub mul div floordiv floormod truncdiv truncmod min max and or xor shl shr eq ne lt le gt ge
        logical_and logical_or.  A Python number takes the other's dtype; mixed dtypes promote as docs/numerics.md
        says; two Python numbers are int64 / f32."""
    def cast(self, dtype: DType, a: ExprLike) -> Expr: ...
    def select(self, condition: ExprLike, a: ExprLike, b: ExprLike) -> Expr: ...
    def call(self, name: str, args: Sequence[ExprLike], dtype: DType | None = None) -> Expr:
        """A scalar function by name: exp exp2 log log2 log10 sqrt rsqrt sin cos tanh sigmoid erf abs floor ceil
        round trunc pow fma isnan isinf …; thread-level rows: thread_index(dim), sync_threads …"""
    # tile operators: by table name; operands are Region, Buffer (whole), or values; attrs int/float/bool/str
    def tile(self, op: str, operands: Sequence[Any], attrs: dict[str, Any]) -> None: ...
    def begin_tile(self, op: TileOp, operands: Sequence[Any], attrs: dict[str, Any]) -> None:
        """An operator of the user's: what is built until end_tile is its body."""
    def end_tile(self) -> None: ...
    def annotate_layout(self, buffer: Buffer, layout: Layout | Fragment, by: str) -> None:
        """Where its elements live, instead of what the compiler would choose.  by: who says so, for errors."""
    def annotate_safe_value(self, buffer: Buffer, value: ExprLike) -> None:
        """What a read outside of a tensor gives, instead of 0."""
    def alias(self, name: str, of: Buffer, shape: Sequence[ExprLike], dtype: DType, what: str) -> Buffer:
        """The same storage in another shape or type.  what: who asks, for errors."""
    def begin_function(self, said: str, names: Sequence[str], dtype: DType) -> list[Expr]:
        """The parameters of a ValueFunction; until end_function nothing becomes a statement."""
    def end_function(self, vars: Sequence[Expr], results: Sequence[ExprLike], dtype: DType) -> ValueFunction:
        """The function from those parameters to the results."""
    def use_swizzle(self, panel_size: Any, order: str) -> None:
        """Blocks visit the grid in panels of that many columns (order "row") or rows ("col")."""
    def require(self, condition: ExprLike, message: str) -> None:
        """Checked by every call, before it launches anything."""
    def assume(self, condition: ExprLike) -> None:
        """A condition that holds from here on."""
    def note(self, by: str, subject: str, text: str) -> None:
        """A line of the report."""
    def text(self, text: str) -> Expr:
        """A text as an argument of `call`."""
    def annotate(self, key: str, value: Any) -> None:
        """An attribute of the enclosing kernel."""
    def finish(self) -> "Function": ...

class Function:
    """A finished program at level tile."""
    name: str
    def text(self) -> str:
        """Text IR."""
    params: list[dict[str, Any]]       # name, is_tensor, dtype: DType, shape: tuple[int | str, ...]
    used: list[bool]                   # of every parameter: does some statement touch it?  True of numbers
    infinite_constants: list[tuple[Any, str]]   # place and text of each constant that its type makes infinite

class Report:
    """Why everything is as it is: what explain() prints.  Rows are dicts whose keys are the fields of the classes
    of tilelang.report; a place is (file, line, column) or None, a layout a Layout or a Fragment."""
    function: str
    target: str
    toolchain: str
    from_cache: bool
    kernels: list[dict[str, Any]]
    buffers: list[dict[str, Any]]
    loops: list[dict[str, Any]]
    operators: list[dict[str, Any]]
    pipelines: list[dict[str, Any]]
    accesses: list[dict[str, Any]]
    notes: list[dict[str, Any]]
    intervals: list[str]               # kernel by kernel, what its stamps are of: "turn k;wait A_full;products"
    def text(self) -> str: ...

role_record: dict[str, int]            # how a row of stamps is made: head, stamp_bits (src/pass/role_stamps.h)

class Kernel:
    """A compiled function, ready to be called."""
    target: str                        # as resolved: "cuda -arch=sm_90", "cpu -mcpu=haswell", "reference"
    device_type: str                   # "cuda" or "cpu": where its tensors must live
    source: str                        # CUDA C++ / LLVM IR; of the reference: its text IR
    report: Report
    phases: dict[str, float]           # name -> milliseconds
    params: list[dict[str, Any]]
    written: list[bool]                # of every parameter, whether some kernel writes to it
    from_cache: bool
    binary: bytes | None               # the cubin or ELF object; of the reference and the simulator None
    host_source: str                   # what a call checks and launches, as text
    resources: list[dict[str, Any]]    # per kernel: what the device compiler says it uses; None where it says nothing
    warnings: list[str]                # what the compiler did at a cost that nobody would choose
    def ptx(self) -> str:
        """The CUDA text as PTX, by NVRTC; RuntimeError for other targets."""
    def launch(self, args: Sequence[Any], stream: int) -> None:
        """args in signature order: objects with __dlpack__ or the buffer protocol, PyTorch tensors, numbers.
        Checks each (FAULTS.md 28) and raises TypeError/ValueError naming parameter, expected and got."""
    machine_text: str                  # the program at level machine, as text IR
    def simulate(self, args: Sequence[Any], fresh: Sequence[int], seed: int, schedules: int, blocks: Sequence[int],
                 sample: int, watch: bool, count: bool,
                 stop: Any = None) -> dict[str, Any]:
        """Of a kernel for the simulator: run it, and what was found.  fresh: the arguments that nobody has written;
        blocks: their numbers (none: all), or `sample` of them.  stop: see breakpoints.py."""

class Launcher:
    """A kernel to be called with its parameters but for those in `outputs`, which are allocated by the library of the
    first array and returned: one as it is, several as a list.  A call goes straight to C++; only one with names or
    with another count of arguments asks the subclass's `_bind(args, kwargs)` for the tuple of all inputs."""
    def __init__(self, kernel: Kernel, outputs: Sequence[int]) -> None: ...
    def launch(self, args: Sequence[Any]) -> None:
        """All the parameters, outputs included, on the current stream of the arrays' library."""
    def allocate_outputs(self, inputs: Sequence[Any]) -> list[Any]:
        """New arrays for the parameters in `outputs`."""

class CallCache:
    """The kernels of one function of the eager dialect, each with the key of the calls that want it.  A call whose key
    is known goes straight to its kernel in C++; any other, and one with arguments that do not fit, to the subclass's
    `_call(args, kwargs)`.  A key is: the values of the arguments that are not runtime ones (numbers, texts, dtypes and
    containers of them by value, other objects by the rule, or by identity and hash if they never change), the same of
    what is watched (functions by identity), which runtime arguments are arrays, where these live, and what `reads`
    names of them.  args: one value for each name, then name and value of each other keyword."""
    def __init__(self, names: Sequence[str], defaults: dict[str, Any], runtime: Sequence[int],
                 watches: Sequence[tuple[Any, str, Sequence[str]]] = (),
                 rule: Callable[[Any, int], Any] = ...) -> None:
        """names: of the parameters; runtime: the places of those that a kernel takes; watches: (dict or cell, name,
        attributes) that the function reads from around itself; rule(object, place): what counts of an object, of plain
        values, tuples, frozensets and objects that count by identity (jit.keys.Same), or TypeError; place: of the
        parameter that has it, or -1."""
    def remember(self, args: Sequence[Any], reads: Sequence[tuple[int, str, int]], kernel: Callable[..., Any],
                 inputs: Sequence[int]) -> None:
        """From now on, calls like `args` go to `kernel` with the arguments at `inputs`.  reads: (position, "shape" |
        "stride" | "whole", dimension) of the tensors; calls that differ there are others."""
    def find(self, args: Sequence[Any]) -> Any:
        """The kernel that such a call would run, or None."""
    def key(self, args: Sequence[Any]) -> bytes:
        """The part of the key that is known before the trace; TypeError for values that cannot be told apart."""
    def counts(self) -> list[int]:
        """How many kernels there are, for each choice of reads."""
    def forget(self, watches: Sequence[tuple[Any, str, Sequence[str]]]) -> None:
        """Drop all kernels, and watch these names from now on."""

def compile(function: Function, target: str, options: dict[str, Any]) -> Kernel:
    """options: cache (bool), cache_dir (str), dump_dir (str), flags (list[str]), fast_math (bool) …"""

def resolve_target(target: str) -> str:
    """"auto" and bare "cuda" become what the machine has; an unknown one raises CompileError listing the known."""

def set_environment(name: str, value: str | None) -> None:
    """What the compiler takes for that environment variable from here on; None: what the environment says."""

def register_source(file: str, text: str) -> None:
    """From now on errors that name `file` quote this text, not the file."""

def tile_ops() -> list[dict[str, Any]]:
    """The table of tile operators: name, doc, operands [(name, access)], attrs [(name, kind)]."""

def instruction_rows(chip: str) -> list[dict[str, Any]]:
    """What programs for a chip may call, row by row: group ("matrix", "warpgroup", "copy", "atomic", "scalar",
    "exact", "narrow", "lane", "thread", "message") and name, of functions arity and what they take, of instructions shape, dtypes, …."""

def scalar_functions() -> list[tuple[str, str, tuple[str, ...], str, str]]:
    """The functions of values that the language offers: (name, row, parameters, help, result).  row: the name for
    Builder.call; result: "same" as the first argument's dtype, or a dtype."""

def target_info(target: str) -> dict[str, Any]:
    """The chip that a target means, by its literal: target, as resolved, kind ("cuda", "sim", "cpu", "reference", which
    has no chip and nothing more), name, language ("cuda", "llvm"), warp, default_threads (of a T.Kernel that names none),
    max_threads (of a block), max_cluster, shared_bytes (of a block), registers (of a thread), vector_bytes,
    vector_registers, shared_banks, and multiprocessors, a dict of count and, of each, threads, blocks, shared_bytes, of
    which reserved_bytes are lost to every block, and registers.

    Of a GPU also max_block and max_grid (three numbers), capability (90), and by the data sheet of the board that the
    chip's file names: clock (Hz), bandwidth (bytes a second), l2_bytes, and peak, dense operations a second by dtype:
    of tensor cores, but for float32."""

def chips(language: str = "") -> list[str]:
    """The chips of a language ("cuda", "llvm"); without one, all GPUs."""

class TileOp:
    """An operator of the user's.  eval(read, written, options) -> results runs in the reference: an array that is read
    or written is (dtype, shape, bytes of 64-bit numbers), a value a float, a result (is it of floats?, shape, bytes)."""
    def __init__(self, name: str, operands: Sequence[tuple[str, str]], eval: Any | None) -> None:
        """operands: (name, "read" | "write" | "update" | "value")"""
    name: str

def add_foreign_eval(name: str, identity: Any, function: Any) -> str:
    """What foreign code of that name means; the key that Builder.foreign takes.  function(values, dtypes of the results)
    -> the results; a pointer is (a memoryview, dtype)."""

def register_matrix(shape: Sequence[int], a_type: DType, b_type: DType, c_type: DType,
                    a: tuple[Sequence[int], Sequence[int]], b: tuple[Sequence[int], Sequence[int]],
                    c: tuple[Sequence[int], Sequence[int]], ptx: str, eval: Any | None) -> str:
    """A matrix instruction of the user's; its name.  a, b, c: (rows, columns, copies) and, for each in row-major order,
    lane and register.  eval(a, b, c) -> d on the bytes of row-major doubles."""
def unregister_matrix(name: str) -> None: ...

def parse(text: str, file: str = "<text>") -> Function: ...

def steps_so_far() -> int:
    """The work of this process: nodes that compilations have visited, and what else would notice an interrupt. Tests
    count it in place of time."""
