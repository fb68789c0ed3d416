"""Code that is not in the language: pointers, external functions, CUDA text, inline PTX.

What is CUDA text runs on CUDA targets only.  Where a Python function `eval=` says what it means, the
reference and the simulator call that instead; without one they refuse the kernel, as the CPU does always.  An
`eval` gets one argument for each operand: a number for a value, a one-dimensional NumPy array for a pointer,
which begins at the element pointed to, has as many elements as T.access_ptr was told (or ends with the
buffer), and may be written; for a vector the array of its lanes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from .. import _core
from ..front.dtypes import as_dtype, element_of
from ..front.indexing import Part
from ..front.lanes import value_of
from ..front.trace import active, builder, fail, in_kernel
from ..front.values import Element, Lanewise, as_value
from ..front.vectors import Vector, as_vector, is_vector
from . import ptx_rows
from .known import intrinsics_by_name, known_call
from .launch import Kernel, no_cluster
from .places import moved, run_of


# ── pointers ──────────────────────────────────────────────────────────────────────────────────────────
class Pointer:
    """The address of an element of a buffer, what is done through it ("r", "w" or "" for both), and to how
    many elements, None where nobody said it."""

    __slots__ = ("buffer", "index", "access", "count")

    def __init__(self, buffer: _core.Buffer, index: tuple, access: str, count: Any = None) -> None:
        self.buffer, self.index, self.access, self.count = buffer, index, access, count

    def expr(self) -> _core.Expr:
        """The address where it is used."""
        trace = in_kernel(f"the address of an element of {self.buffer.name}")
        if self.access != "r":
            trace.wrote(self.buffer)
        return trace.builder.address(self.buffer, self.index, self.access, self.count)


def make_tensor(ptr: Any, shape: Any, dtype: Any = "float32", strides: Any = None) -> _core.Buffer:
    """The memory at an address as a tensor.

    ptr: a T.ptr parameter, or an int64 or uint64 value of the kernel that is an address; it must be divisible
    by 16 bytes, as the addresses of frameworks' tensors are.  shape, strides: in elements, of constants,
    scalar parameters and T.dynamic extents; row-major if strides are left out.  Made before the T.Kernel, it
    belongs to every kernel."""
    trace = active("T.make_tensor")
    if ptr.__class__ in (_core.Region, Part) or ptr.__class__ is _core.Buffer and ptr.scope != "var":
        name = ptr.name if ptr.__class__ is not _core.Region else ptr.buffer.name
        raise fail(
            f"T.make_tensor: {name} is not an address but a tensor or tile already: T.view({name}, shape, "
            f"dtype) views it in another shape; a parameter that is an address is declared {name}: T.ptr"
        )
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    dtype, extents = element_of(dtype, shape)
    steps = None if strides is None else [as_value(n) for n in strides]
    base = ptr.expr() if ptr.__class__ is Pointer else as_value(ptr)
    made = trace.builder.tensor_at(
        trace.take_hint("tensor"), base, [as_value(n) for n in extents], dtype, steps
    )
    return trace.of_lanes(made, extents[-1]) if len(extents) > len(shape) else made


def make_tensor_from_addr(
    addr: Any, shape: Any, dtype: Any = "float32", strides: Any = None, storage_scope: str = "global"
) -> _core.Buffer:
    """The same as make_tensor, of an integer; storage_scope: "global", where every address lies."""
    if storage_scope != "global":
        raise fail(
            f"T.make_tensor_from_addr: storage_scope is 'global', not {storage_scope!r}: an address "
            "is one of global memory"
        )
    return make_tensor(addr, shape, dtype, strides)


_ACCESS = {"r": "r", "w": "w", "rw": "", "wr": "", 1: "r", 2: "w", 3: ""}


def _start(base: Any, what: str) -> tuple[_core.Buffer, tuple]:
    if base.__class__ is Element:
        return base.buffer, base.index
    region = base.region if base.__class__ is Part else base
    if region.__class__ is _core.Region:
        return region.buffer, tuple([start for start, _, _ in region.ranges])
    if region.__class__ is _core.Buffer:
        return region, (0,) * len(region.shape)
    raise fail(f"{what}: expected a buffer, a slice of one or an element, got {type(base).__name__}")


def access_ptr(
    base: Any,
    access_type: Any = "r",
    *extents: Any,
    offset: Any = 0,
    extent: Any = None,
    ignore_last_ndim: int = 0,
) -> Pointer:
    """The address of an element, with what is done there, as an argument of foreign code.

    base: a buffer, slice or element: where it begins.  access_type: "r", "w" or "rw" (or 1, 2, 3).  extents,
    extent: how many elements are touched, one after another; without them those of the slice, if base is one.
    The simulator and the reference check what is touched, element by element.  offset: elements
    to go on from base, in row-major order; with ignore_last_ndim=n it counts blocks of the last n dimensions.
    A shared tile whose address is taken is laid out row by row."""
    if access_type not in _ACCESS:
        raise fail(f"T.access_ptr: access_type is 'r', 'w' or 'rw', not {access_type!r}")
    buffer, index = _start(base, "T.access_ptr")
    shape = buffer.shape
    step = as_value(offset)
    for n in shape[len(shape) - ignore_last_ndim :] if ignore_last_ndim else ():
        step = n * step
    said = [as_value(n) for n in (*extents, *([] if extent is None else [extent]))]
    count = 1
    for n in said:
        count = count * n
    known = all(n.__class__ is int for n in (*shape, *index, step, count))
    if known:
        first, size = step, 1
        for d in reversed(range(len(shape))):
            first += index[d] * size
            size *= shape[d]
        if first < 0 or first + count > size:
            raise fail(
                f"T.access_ptr: elements {first} to {first + count - 1} of {buffer.name}, which has {size}"
            )
    starts_there = step.__class__ is int and step == 0
    touched = count if said else run_of(base) if starts_there else None
    return Pointer(buffer, moved(shape, index, step), _ACCESS[access_type], touched)


def address_of(obj: Any, span: Any = None) -> Pointer:
    """The address of A[i, j], for reading and writing, as an argument of foreign code."""
    buffer, index = _start(obj, "T.address_of")
    return Pointer(buffer, index, "")


# ── foreign text ──────────────────────────────────────────────────────────────────────────────────────
_keys: dict[tuple[str, Any], str] = {}


def _meaning(name: str, function: Callable | None) -> str:
    """The key under which the executors find what `name` does."""
    if function is None:
        return ""
    if not callable(function):
        raise fail(f"eval is a function of the operands, not {type(function).__name__}")
    key = _keys.get((name, function))
    if key is None:
        key = _keys[name, function] = _core.add_foreign_eval(name, function, _adapted(name, function))
    return key


def _adapted(name: str, function: Callable) -> Callable:
    """`function` as the executors call it: on memory, giving a list of numbers."""

    def call(given: list, results: list) -> list:
        values = [_array(*x) if isinstance(x, tuple) else x for x in given]
        made = function(*values)
        made = list(made) if isinstance(made, (tuple, list)) else [made]
        if not results:
            return []
        if len(made) != len(results) or any(x is None for x in made):
            raise TypeError(
                f"eval of {name} gave {made!r}; {len(results)} number{'s' * (len(results) > 1)} expected"
            )
        return [
            float(x) if dtype.is_float else (int(x) + 2**63) % 2**64 - 2**63
            for x, dtype in zip(made, results, strict=True)
        ]

    return call


def _array(memory: memoryview, dtype: Any) -> Any:
    import numpy

    return numpy.frombuffer(memory, dtype=dtype.as_numpy())


def _by_value(vector: Vector) -> _core.Expr:
    """A vector as one argument: the elements of an array of the thread."""
    b, count = builder(), len(vector)
    array = b.alloc("lanes", "local", (count,), vector.dtype.with_lanes(1), {})
    for n, lane in enumerate(vector.lanes):
        b.store(array, (n,), lane)
    return b.address(array, (0,), "v", count)


def _argument(x: Any) -> Any:
    x = x.pointer() if hasattr(x, "viewed") else x  # A.data
    if x.__class__ is Pointer:
        return x.expr()
    if x.__class__ is _core.Buffer and x.scope != "var":
        return address_of(x).expr()
    if isinstance(x, str):
        raise fail("foreign code takes values and pointers, not text")
    x = value_of(x)
    return _by_value(as_vector(x)) if is_vector(x) or x.__class__ is Lanewise else as_value(x)


def _operand(x: Any) -> Any:
    """An operand of PTX: a vector of 32 bits stands in one register."""
    x = value_of(x)
    if not is_vector(x):
        return _argument(x)
    words = as_vector(x).words
    if len(words) != 1:
        raise fail(
            f"T.ptx: an operand is one register, but {x.dtype} is {x.dtype.bits * x.dtype.lanes} bits: give "
            "its lanes, v[0] and so on, or the words of T.reinterpret(v, 'uint32x…'), one by one"
        )
    return words[0]


def _result(dtype: Any) -> Any:
    return None if dtype in (None, "", "void", "handle") else as_dtype(dtype)


def _says_dtype(x: Any) -> bool:
    try:
        return x.__class__ is not Element and (_result(x) is None or True)
    except _core.CompileError:
        return False


def _form(kind: str, given: tuple, dtype: Any, name: Any) -> tuple[Any, str, list]:
    """The dtype, the function's name and its arguments, of a call that has the dtype or the name first, or
    one of them, or both, by keyword."""
    args = list(given)
    if dtype == "" and name is None:
        if len(args) > 1 and isinstance(args[0], str) and not _says_dtype(args[0]) and _says_dtype(args[1]):
            args[:2] = args[1], args[0]
        dtype = args.pop(0) if args else ""
        if isinstance(dtype, str) and not _says_dtype(dtype):
            raise fail(
                f"T.{kind}: no dtype of the value is given, and '{dtype}' is none: write T.{kind}(dtype, "
                f"name, …) or T.{kind}(name, …, dtype=…), with 'void' for a function that gives nothing"
            )
    elif dtype == "":
        dtype = args.pop(0) if args else ""
    if name is None:
        name = args.pop(0) if args else None
    if not isinstance(name, str) or not re.match(r"^[A-Za-z_:][\w:<>, ]*$", name):
        raise fail(f"T.{kind}: the name of a function is expected beside the dtype, not {name!r}")
    return dtype, name, args


def _call(kind: str, given: tuple, dtype: Any, name: Any, function: Callable | None) -> Any:
    trace = in_kernel(f"T.{kind}")
    dtype, name, args = _form(kind, given, dtype, name)
    result = _result(dtype)
    if result is None and kind == "call_pure_extern":
        raise fail(
            "T.call_pure_extern: a function without effects that gives nothing does nothing; use "
            "T.call_extern"
        )
    if function is None and name in intrinsics_by_name():
        return known_call(f"T.{kind}", name, args, result)
    made = trace.builder.foreign(
        kind, name, _meaning(name, function), (), [_argument(x) for x in args], result
    )
    return None if result is None else made


def call_extern(
    *args: Any, dtype: Any = "", func_name: str | None = None, eval: Callable | None = None, span: Any = None
) -> Any:
    """T.call_extern(dtype, func_name, …): call a CUDA device function, from T.import_source or CUDA's own.

    The name may come first, and each by its keyword, T.call_extern(func_name, …, dtype=…).
    dtype: of its value; "void", "handle" or None for a function that gives none.  args: values, vectors
    (T.cast(A[i, 0:4], "float32x4") is a float4; any of them becomes another type of as many bytes, half2 say,
    where the function takes one) and pointers (T.access_ptr, T.address_of; a buffer stands for its
    beginning).  float16 is the type `half_t`, bfloat16 `bf16_t`: 16 bits in a member `bits`, explicit
    conversions from and to float.  eval: what it means, for
    the reference and the simulator; they know CUDA's own functions that the language has by another name
    (`__shfl_xor_sync`, `__popc`, `__float2half_rz`, …)."""
    return _call("call_extern", args, dtype, func_name, eval)


def call_pure_extern(
    *args: Any, dtype: Any = "", func_name: str | None = None, eval: Callable | None = None, span: Any = None
) -> Any:
    """The same for a function without effects, which may be called more often or not at all."""
    return _call("call_pure_extern", args, dtype, func_name, eval)


def import_source(source: str | None = None) -> None:
    """Put CUDA text in front of the prim_func's kernels: functions for T.call_extern, types, constants."""
    if source is None:
        return
    trace = active("T.import_source")
    if not isinstance(source, str):
        raise fail(f"T.import_source takes CUDA text, not {type(source).__name__}")
    if trace.kernel is None:
        trace.sources.append(source)
        return
    trace.kernel.sources.append(source)
    trace.builder.annotate("source", "\n".join(trace.kernel.sources))


def ptx(template: str, *operands: Any, out: Any = None, eval: Callable | None = None) -> Any:
    """One or more PTX instructions, executed by every thread that comes here.

    template: PTX text in which {0}, {1}, … are the operands and {out}, or {out0}, {out1}, … the results; a
    special register is written with its percent sign, %laneid.  operands: values, which stand in registers of
    their type (16, 32, 64 bits; float16 and bfloat16 as .b16); Python integers, which are immediates;
    pointers, which are the 32-bit address in shared memory's window of a shared element, else the generic
    64-bit address.  out: a dtype, or a tuple of dtypes; the value or values come back.  The statement is
    volatile; it is a barrier to the compiler's reordering of memory accesses (a "memory" clobber) where an
    operand is a pointer.
    eval: what it means, operands -> result or tuple of results, for the reference and the simulator.  It is
    known of the instructions that the compiler writes itself, mma.sync and ldmatrix of all their shapes, of
    one in the template with operands of 32 bits: `ldmatrix… {{out0}, {out1}}, [{0}];`."""
    trace = in_kernel("T.ptx")
    if not isinstance(template, str):
        raise fail(f"T.ptx: the template is PTX text, not {type(template).__name__}")
    several = isinstance(out, (tuple, list))
    dtypes = [as_dtype(d) for d in (out if several else [] if out is None else [out])]
    for d in dtypes:
        if d.bits < 16 or d.name == "bool":
            raise fail(f"T.ptx: a result cannot be {d}: registers hold 16, 32 or 64 bits; use int32")
    known = None if eval is not None else ptx_rows.known(template, operands, dtypes)
    if known is not None:
        return ptx_rows.write(trace, known, [_operand(x) for x in operands], dtypes)
    results = [
        trace.builder.alloc(f"out{i}" if several else "out", "var", (), d, {}) for i, d in enumerate(dtypes)
    ]
    given = [_operand(x) for x in operands]
    places = [trace.builder.address(r, (), "w") for r in results]
    trace.builder.foreign("ptx", template, _meaning(template, eval), places, given, None)
    values = [trace.builder.let("given", trace.builder.load(r, ())) for r in results]
    return tuple(values) if several else values[0] if values else None


# ── whole kernels ─────────────────────────────────────────────────────────────────────────────────────
def _entry_parameters(text: str, entry: str) -> tuple[str, list[str]]:
    """The text with a plain symbol for its kernel, and what its parameters are."""
    found = re.search(
        rf"(extern\s+\"C\"\s+)?__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
        rf"(?:__launch_bounds__\s*\([^)]*\)\s*)?{re.escape(entry)}\s*\(",
        text,
    )
    if found is None:
        raise fail(
            f"T.CUDASourceCodeKernel: the source has no `__global__ void {entry}(…)`; name its kernel "
            "by entry_name="
        )
    depth, end = 1, found.end()
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    listed = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text[found.end() : end - 1], flags=re.S)
    if found.group(1) is None and not _in_extern_c(text, found.start()):
        text = text[: found.start()] + 'extern "C" ' + text[found.start() :]
    return text, [p.strip() for p in listed.split(",") if p.strip()]


def _in_extern_c(text: str, at: int) -> bool:
    opened = [m.end() for m in re.finditer(r'extern\s+"C"\s*\{', text[:at])]
    return any(text.count("{", start, at) >= text.count("}", start, at) for start in opened)


def _parameters(trace: Any, what: str) -> list:
    """What a launch passes, in the order of the definition."""
    if trace.eager is None:
        return trace.parameters
    given = trace.eager.passed()
    for name, value in given.items():
        if value is None:
            raise fail(f"{what}: {name} is not annotated yet: write {name}: T.Tensor(shape, dtype) before it")
    return list(given.values())


class CUDASourceCodeKernel:
    """A kernel that is CUDA text, in the place of a `with T.Kernel(...)` block.

    blocks: one to three extents; threads: of a block, an int or up to three.  source_code_or_path: the text,
    or the path of a file with it.  entry_name: its `__global__` function, whose parameters are those of the
    prim_func in order (of an eager function those that a launch passes), then what T.empty made, then each
    T.dynamic extent as a `long long`.  A `const` pointer parameter is not written. prelude: text in front."""

    def __init__(
        self,
        *blocks: Any,
        threads: Any = None,
        source_code_or_path: Any = None,
        entry_name: str = "main_kernel",
        cluster_dims: Any = None,
        prelude: str | None = None,
    ) -> None:
        what = "T.CUDASourceCodeKernel"
        trace = active(what)
        no_cluster(what, cluster_dims)
        if source_code_or_path is None:
            raise fail(f"{what}: source_code_or_path is missing")
        text = str(source_code_or_path)
        if "\n" not in text and "{" not in text:
            if not os.path.isfile(text):
                raise fail(f"{what}: there is no file '{text}'")
            with open(text, encoding="utf-8") as file:
                text = file.read()
        text, parameters = _entry_parameters(text, entry_name)
        given = [*_parameters(trace, what), *trace.outputs, *trace.dynamics.values()]
        if len(parameters) != len(given):
            own = "those of the function" if trace.eager is not None else "those of the prim_func"
            made = ", then what T.empty made" if trace.outputs else ""
            raise fail(
                f"{what}: {entry_name} has {len(parameters)} parameters ({', '.join(parameters)}) but "
                f"gets {len(given)}: {own}{made}, then its T.dynamic extents"
            )
        self._build(
            trace,
            blocks,
            threads,
            (prelude + "\n" if prelude else "") + text,
            entry_name,
            list(zip(parameters, given, strict=True)),
        )

    def _build(self, trace: Any, blocks: tuple, threads: Any, text: str, entry: str, arguments: list) -> None:
        with Kernel(*blocks, threads=threads, prelude=text):
            trace.builder.annotate("source_entry", entry)
            args = []
            for parameter, x in arguments:
                if x.__class__ is _core.Buffer:
                    x = trace.builder.address(
                        x, (0,) * len(x.shape), "r" if re.search(r"\bconst\b", parameter) else ""
                    )
                args.append(x)
            trace.builder.foreign("call_extern", entry, "", (), args, None)

    def __enter__(self) -> CUDASourceCodeKernel:
        return self

    def __exit__(self, *_: object) -> None:
        pass


__all__ = ["CUDASourceCodeKernel", "access_ptr", "address_of", "call_extern", "call_pure_extern",
           "import_source", "make_tensor", "make_tensor_from_addr", "ptx"]  # fmt: skip
