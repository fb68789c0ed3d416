"""Values of a kernel as Python objects: elements, slices, and what is computed with them.

Plain helper functions compute with the compiler's `Expr` and `Buffer` as with numbers.  `A[i, j]` is an
`Element`: not yet a value, because a tile operator takes it as the place where a tile begins; everything
else loads it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .._core import Buffer, CompileError, Expr, Region
from . import loose
from .dtypes import DType
from .errors import ArrayForNumber
from .interop import is_array
from .trace import active, builder, current, fail, in_kernel
from .wording import no_truth, not_compared, whole_tile

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "floordiv": "floordiv", "floormod": "mod",
    "pow": "pow", "matmul": "matmul", "shl": "lshift", "shr": "rshift",
    "and": "and_", "or": "or_", "xor": "xor",
}  # fmt: skip
_BITS = ("and", "or", "xor")
INPLACE: dict[str, Callable] = {op: getattr(operator, "i" + name.rstrip("_")) for op, name in _BINARY.items()}
PYTHON: dict[str, Callable] = {op: getattr(operator, name) for op, name in _BINARY.items()}
for _op in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "invert"):
    PYTHON[_op] = getattr(operator, _op)
PYTHON["not"] = operator.not_
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%", "pow": "**",
         "matmul": "@", "shl": "<<", "shr": ">>", "and": "&", "or": "|", "xor": "^", "eq": "==", "ne": "!=",
         "lt": "<", "le": "<=", "gt": ">", "ge": ">="}  # fmt: skip


# Operators that other files of this room define: see arithmetic.py and vectors.py.
OPERATORS: dict[str, Callable] = {}
VECTORS: set[type] = set()  # the kinds of vectors.py


_LEAST, _GREATEST = -(1 << 63), (1 << 64) - 1  # of int64 and uint64


class Element:
    """`A[i, j]`: one element as a value; as an operand of a tile operator, the place where a tile begins."""

    __slots__ = ("buffer", "index", "writes", "block")

    def __init__(self, buffer: Buffer, index: tuple) -> None:
        self.buffer, self.index = buffer, index
        trace = current()
        self.writes = trace.writes.get(buffer.storage, 0) if trace is not None else 0
        self.block = trace.blocks if trace is not None else 0  # the last one before it

    def load(self) -> Expr:
        """The value that the element has where it was written down."""
        trace = in_kernel(f"reading an element of {self.buffer.name}")
        if trace.undecided:
            loose.refuse_scalar(trace, self.buffer, "reading an element of")
        if self.writes is not None and trace.writes.get(self.buffer.storage, 0) != self.writes:
            raise fail(
                f"this element of {self.buffer.name} was written down before, and is used after, a "
                f"statement that changes {self.buffer.name}: give its value a name first (x = "
                f"{self.buffer.name}[...])"
            )
        if self.writes is not None and trace.blocks > self.block:
            trace.reads_again(self.buffer, self.block)
        return trace.builder.load(self.buffer, self.index)

    def reference(self, index: tuple) -> Element:
        """The place itself, whatever is written there: what a macro's T.Ref parameter is."""
        place = Element(self.buffer, index)
        place.writes = None
        return place

    def store(self, value: Any) -> None:
        """Write the element."""
        trace = in_kernel(f"a store to {self.buffer.name}")
        trace.builder.store(self.buffer, self.index, as_value(value))
        trace.wrote(self.buffer)

    @property
    def dtype(self) -> DType:
        """The type of the element."""
        return self.buffer.dtype

    def __repr__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.index))}]"

    def region(self) -> Region:
        """The place as the base of a region whose extents the other operand gives."""
        n = len(self.index)
        return Region(self.buffer, self.index, (None,) * n, (False,) * n)


class Late:
    """What becomes a value of the kernel where it is used: `load()`."""

    __slots__ = ()

    def load(self) -> Expr:
        """The value, in the prim_func being traced."""
        raise NotImplementedError


class Nothing(Late):
    """What a function gives that could give a value but was not asked for it: nobody can use it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def load(self) -> Any:
        """Its use as a value."""
        raise fail(self._text)

    @property
    def dtype(self) -> Any:
        """As of a value."""
        return self.load()

    def __repr__(self) -> str:
        return "nothing"


class Dynamic(Late):
    """An extent that only the call knows: T.dynamic("m").  In a kernel it is a variable of that name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> Expr:
        """The variable of the prim_func being traced."""
        trace = active(f"the run-time extent {self.name}")
        found = trace.dynamics.get(self.name)
        if found is None:
            found = trace.dynamics[self.name] = trace.builder.dynamic(self.name)
        return found

    @property
    def dtype(self) -> DType:
        """int64, the type of indices."""
        return self.load().dtype

    def __repr__(self) -> str:
        return self.name


class Deferred(Dynamic):
    """Arithmetic on run-time extents that was written outside the kernel: `[m * heads, dim]`, a shape."""

    __slots__ = ("op", "operands")

    def __init__(self, op: str, operands: tuple) -> None:
        super().__init__(f"{op}({', '.join(map(str, operands))})")
        self.op, self.operands = op, operands

    def load(self) -> Expr:
        """The value, in the prim_func being traced."""
        active(f"the run-time extent {self.name}")
        return binary(self.op, *self.operands) if len(self.operands) == 2 else unary(self.op, *self.operands)


def dynamic(name: str, dtype: Any = "int32") -> Any:
    """One or several extents that only the call knows, "m" or "m, n": for shapes of tensors and what follows.

    Each must be an extent or a stride of a tensor parameter, which gives its value.  dtype is accepted;
    indices are computed exactly, in 64 bits."""
    names = name.replace(",", " ").split() if isinstance(name, str) else []
    if not names or not all(word.isidentifier() for word in names):
        raise fail(f"T.dynamic: '{name}' is not a name, or several with commas between")
    made = tuple([Dynamic(word) for word in names])
    return made[0] if len(made) == 1 else made


class Lanewise(Late):
    """What is computed with slices of one length, `A[i, 0:4] * 2`, element by element: stored to a slice.

    count: the elements; element: gives the one of that number; reads: the storages that it reads."""

    __slots__ = ("count", "element", "reads")

    def __init__(self, count: int, element: Callable[[Any], Any], reads: frozenset) -> None:
        self.count, self.element, self.reads = count, element, reads

    def load(self) -> Any:
        if self.count == 1:
            raise fail("a slice of one element is not a value: index that element, A[i], without a colon")
        raise fail(
            f"the {self.count} elements of a slice are not a value: store them to a slice, "
            f"B[i : i + {self.count}] = …, use T.copy, or index single elements in T.Parallel"
        )


def lanewise(x: Any) -> Any:
    """A slice as what is computed element by element; any other value as it is, for all elements."""
    if x.__class__ is not Region:
        return x
    ranges = x.ranges
    sizes = [1 if point else e.value if e.__class__ is Expr and e.is_const else e for _, e, point in ranges]
    free = [d for d, size in enumerate(sizes) if size.__class__ is not int or size != 1] or [len(sizes) - 1]
    if len(free) > 1 or sizes[free[0]].__class__ is not int:
        raise fail(
            f"this slice of {x.buffer.name} is not a value: element by element only a slice of one "
            "dimension and constant length is; use T.copy, or a T.Parallel loop"
        )
    (d,) = free

    def element(n: Any) -> Element:
        place = Element(
            x.buffer,
            tuple(
                [
                    start if at != d or n.__class__ is int and n == 0 else start + n
                    for at, (start, _, _) in enumerate(ranges)
                ]
            ),
        )
        place.writes = writes
        return place

    trace = current()
    writes = trace.writes.get(x.buffer.storage, 0) if trace is not None else 0
    return Lanewise(sizes[d], element, frozenset((x.buffer.storage,)))


def each(compute: Callable, *operands: Any) -> Lanewise:
    """`compute` for each element of the operands, of which one at least is a slice."""
    parts = [lanewise(x) for x in operands]
    vectors = [x for x in parts if x.__class__ is Lanewise]
    counts = sorted({x.count for x in vectors})
    if len(counts) > 1:
        raise fail(
            f"slices of {counts[0]} and of {counts[1]} elements are computed with each other: they "
            "must be of one length"
        )
    return Lanewise(
        counts[0],
        lambda n: compute(*[x.element(n) if x.__class__ is Lanewise else x for x in parts]),
        frozenset().union(*[x.reads for x in vectors]),
    )


DEVICE = (Expr, Element, Buffer, Region, Late)
SLICES = {Region, Lanewise}


def misuse_of_indices(x: Any) -> str:
    """What is said where x is the tuple of the indices of a kernel or loop, bound to one name; else ""."""
    trace = current()
    for name, indices, loop in trace.tuples if trace is not None else ():
        if x is indices and loop.kind == "parallel" and loop.stops[0] == 0:
            return (
                f": {name} is a tuple, as the {len(x)} arguments of T.Parallel are extents, not start, stop "
                "and step: write T.Parallel(n), and compute the index, start + i * step"
            )
        if x is indices:
            several = ", ".join([f"{name}{d}" for d in range(len(x))])
            return f": {name} is the tuple of the {len(x)} indices of its loop: write `for {several} in …`"
    if trace is None or trace.kernel is None or x is not trace.kernel.bound:
        return ""
    name, n = next(iter(trace.kernel.names), "this"), len(x)
    return (
        f": {name} is the tuple of the {n} block indices, as the grid of this T.Kernel has {n} "
        f"dimensions: write `as ({', '.join(('bx', 'by', 'bz')[:n])})`"
    )


def refuse_indices(op: str, a: Any, b: Any) -> None:
    """An error for `a op b` if one is the tuple of the block indices and the other is no tuple; or if several
    values would be repeated where their multiples are meant."""
    for x, other in ((a, b), (b, a)):
        if x.__class__ is tuple and other.__class__ is not tuple:
            text = misuse_of_indices(x)
            if text:
                raise fail(f"`{SIGNS.get(op, op)}` of a tuple{text}")
            if op == "mul" and len(x) > 1 and any(item.__class__ in (Expr, Element) for item in x):
                raise fail(
                    "`*` of a tuple is Python's, which repeats it: multiply its elements, (x * 32, y * 32)"
                )


def as_value(x: Any) -> Any:
    """A value as the Builder takes it: an Expr or a Python number; elements and variables are loaded."""
    kind = x.__class__
    if kind is Expr or kind is float or kind is bool:
        return x
    if kind is int:
        if _LEAST <= x <= _GREATEST:
            return x
        raise fail(f"the number {x} does not fit in 64 bits, the widest integers of a kernel")
    if kind is Element or isinstance(x, Late):
        return x.load()
    if kind is Buffer:
        if x.scope == "var":
            return in_kernel(f"reading {x.name}").builder.load(x, ())
        raise fail(whole_tile(x))
    if kind is Region:
        trace = current()
        if trace is not None and x.buffer.id in trace.laned:
            raise fail(
                f"an element of {x.buffer.name} is a vector of {x.buffer.shape[-1]}, not one number: take a "
                f"lane, {x.buffer.name}[…][0], or store it to a vector"
            )
        raise fail(
            f"a slice of {x.buffer.name} is not a value: use T.copy, or index single elements in T.Parallel"
        )
    try:
        if hasattr(x, "__index__"):
            return operator.index(x)
        if hasattr(x, "__float__") and not isinstance(x, str):
            return float(x)
    except TypeError:  # an array, say
        pass
    got, kind = type(x).__name__, CompileError
    if is_array(x):
        got, kind = got + "; an array is passed to the compiled kernel, as a tensor", ArrayForNumber
    elif isinstance(x, str) and x.isdigit():
        got += f" {x!r}: without the quotes it is a number"
    elif isinstance(x, str):
        got += "; a text belongs into T.print(value, text)"
    elif x.__class__ is tuple:
        got += misuse_of_indices(x)
    raise fail(f"expected a number or a value of the kernel, got {got}", kind)


def constant(value: Any) -> Any:
    """The number that a constant of the kernel is, which its new dtype must hold; another value as is."""
    return value.value if value.__class__ is Expr and value.is_const else value


def as_condition(x: Any) -> Any:
    """An Expr of type bool if only the device can tell, else whatever Python has."""
    if not isinstance(x, DEVICE):
        return x
    if is_tile(x):
        raise fail(no_truth(x))
    x = as_value(x)
    if x.__class__ is not Expr:
        return x
    if x.is_const:
        return bool(x.value)
    return x if x.dtype == "bool" else builder().binary("ne", x, 0)


def binary(op: str, a: Any, b: Any) -> Any:
    """`a op b` where at least one side is the device's."""
    if (a.__class__ in VECTORS or b.__class__ in VECTORS) and a is not None and b is not None:
        return OPERATORS["vectors"](op, a, b)
    if SLICES & {a.__class__, b.__class__} and op != "matmul" and a is not None and b is not None:
        return each(lambda x, y: binary(op, x, y), a, b)
    if op in OPERATORS:
        return OPERATORS[op](a, b)
    if op == "matmul":
        raise fail("'@' is not an operator of kernels: use T.gemm")
    if op in ("eq", "ne") and not (is_value(a) and is_value(b)):
        _refuse_identity(op, a, b)
        return (a is b) == (op == "eq")
    if current() is None and (isinstance(a, Late) or isinstance(b, Late)):
        return Deferred(op, (a, b))
    a, b = as_value(a), as_value(b)
    if op in _BITS:
        _refuse_float_bits(op, a, b)
    return builder().binary(op, a, b)


def _refuse_float_bits(op: str, a: Any, b: Any) -> None:
    """An error for `&` of a float, as `x > 3 & x < 9` has it, where & binds before the comparisons."""
    for x in (a, b):
        dtype = x.dtype if x.__class__ is Expr else "float" if x.__class__ is float else None
        if dtype == "float" or dtype is not None and dtype.is_float:
            sign = SIGNS[op]
            raise fail(
                f"`{sign}` takes integer or bool operands, not {dtype}; it binds before comparisons, which "
                f"stand in brackets beside it, (a > 3) {sign} (b < 9)"
            )


def _refuse_identity(op: str, a: Any, b: Any) -> None:
    """An error in a kernel for a comparison that Python would decide by whether both are one object: of a
    tile, and of a value with None, a text or a list."""
    if current() is None:
        return
    for x, other in ((a, b), (b, a)):
        if is_tile(x) and other is not None:
            raise fail(not_compared(x, other))
        if not isinstance(x, (Expr, Element, Buffer)) or not is_value(x):
            continue
        if other is None or isinstance(other, str):
            raise fail(
                f"`{SIGNS[op]}` of a value of the kernel and {other!r}: what the device computes is a "
                "number, never that; a tensor that may be left out is compared itself, `if bias is "
                "not None:`"
            )
        if isinstance(other, (list, tuple, set, dict)):
            as_value(other)  # says what it is


def is_tile(x: Any) -> bool:
    """Is it a tensor or a tile, not a variable?"""
    return x.__class__ is Buffer and x.scope != "var"


def is_value(x: Any) -> bool:
    """Is it a number, or a value of the kernel?"""
    if x.__class__ is Buffer:
        return x.scope == "var"
    return (
        x.__class__ is not Region
        and (isinstance(x, DEVICE) or hasattr(x, "__float__"))
        and not isinstance(x, str)
    )


def unary(op: str, a: Any) -> Any:
    """`-a`, `+a`, `~a` or `not a` of the device's."""
    if a.__class__ in SLICES:
        return each(lambda x: unary(op, x), a)
    if a.__class__ in VECTORS:
        return OPERATORS["lanes"](lambda x: unary(op, x), a)
    if current() is None and isinstance(a, Late):
        return Deferred(op, (a,))
    if op == "pos":
        return as_value(a)
    if op == "not":
        a = as_condition(a)
        return builder().unary("not", a) if a.__class__ is Expr else not a
    return builder().unary(op, as_value(a))


symbolic = dynamic  # the older name

__all__ = ["dynamic", "symbolic"]
