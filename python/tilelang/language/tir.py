"""Names of TVM's tensor IR

Nodes of expressions: `T.Add(a, b)` is `a + b`, and `isinstance(x, T.Add)` whether a value is a sum.
Statements and builtins: the older spellings of what the language has by names of its own."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from .._core import Buffer, Expr
from ..front.asserts import device_assert
from ..front.dtypes import as_dtype
from ..front.dtypes import dtype as dtype_of
from ..front.indexing import Ramp
from ..front.offered import OFFERED, named
from ..front.trace import fail, in_kernel, note
from ..front.values import Dynamic, Element, Late, as_condition, as_value, binary, constant, dynamic, unary
from ..front.vectors import Splat, splat
from ..jit import function as _function
from .annotate import remark
from .control import loop_break
from .foreign import access_ptr
from .lower_level import alloc_buffer
from .map_base import Range  # noqa: F401  (offered)
from .mma_layout import IndexMap
from .scalar import cast, ceildiv, if_then_else, truncdiv, truncmod
from .scalar import max as _max
from .scalar import min as _min
from .thread import activemask


# ── nodes ─────────────────────────────────────────────────────────────────────────────────────────────
def _tree(x: Any) -> ast.expr | None:
    """A value of the kernel as Python would parse what text IR prints of it."""
    if x.__class__ is not Expr or x.is_const:
        return None
    try:
        return ast.parse(re.sub(r"\b(\w+)<[\w.]+>\(", r"\1_(", str(x)), mode="eval").body
    except SyntaxError:
        return None


def _operation(*operators: type, call: str = "") -> Callable[[Any], bool]:
    """Is a value's outermost operation one of these, or a call of that function?"""

    def holds(x: Any) -> bool:
        tree = _tree(x)
        if isinstance(tree, ast.Call):
            return tree.func.id == call
        op = tree.ops[0] if isinstance(tree, ast.Compare) else getattr(tree, "op", None)
        return isinstance(op, operators)

    return holds


def _constant(is_float: bool) -> Callable[[Any], bool]:
    return lambda x: x.__class__ is Expr and x.is_const and x.dtype.is_float == is_float


def _is_value(x: Any) -> bool:
    return isinstance(x, (Expr, Element, Late)) or x.__class__ is Buffer and x.scope == "var"


class _Node(type):
    """A class whose instances are the values of one kind, and whose constructor makes such a value."""

    def __instancecheck__(cls, x: Any) -> bool:
        return cls.holds(x)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            given = cls.__signature__.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise fail(f"T.{cls.__name__}: {error}") from None
        return cls.make(*[value for name, value in given.items() if name not in ("span", "annotations")])


def _node(name: str, parameters: str, make: Callable, holds: Callable[[Any], bool], doc: str) -> type:
    names = parameters.split() + ["span=None"]
    signature = inspect.signature(eval(f"lambda {', '.join(names)}: 0"))
    return _Node(
        name,
        (),
        {
            "__signature__": signature,
            "make": staticmethod(make),
            "__doc__": doc,
            "holds": staticmethod(holds),
            "__module__": __name__,
        },
    )


def _two(name: str, op: Any, holds: Callable[[Any], bool], sign: str) -> type:
    make = op if callable(op) else lambda a, b: binary(op, *_known(a, b))
    return _node(name, "a b", make, holds, f"`{sign}` of two values.")


def _known(a: Any, b: Any) -> tuple:
    """Two operands of which at least one is a value of the kernel: Python's numbers become constants."""
    return (a if _is_value(a) or _is_value(b) else cast(a, "int32" if isinstance(a, int) else "float32")), b


def _quotient(a: Any, b: Any) -> Any:
    """As `/` in C: of integers what truncdiv gives."""
    a, b = _known(a, b)
    whole = all(not as_dtype(getattr(x, "dtype", type(x))).is_float for x in (a, b))
    return truncdiv(a, b) if whole else binary("div", a, b)


def _call(dtype: Any, op: Any, args: Any) -> Any:
    name = str(getattr(op, "name", op)).rpartition(".")[2]
    if name not in OFFERED:
        raise fail(f"T.Call: the language has no function {name}; T.call_extern calls foreign ones")
    return OFFERED[name](*args)


_COMPARED = {"EQ": ("eq", ast.Eq, "=="), "NE": ("ne", ast.NotEq, "!="), "LT": ("lt", ast.Lt, "<"),
             "LE": ("le", ast.LtE, "<="), "GT": ("gt", ast.Gt, ">"), "GE": ("ge", ast.GtE, ">="),
             "Add": ("add", ast.Add, "+"), "Sub": ("sub", ast.Sub, "-"), "Mul": ("mul", ast.Mult, "*"),
             "FloorDiv": ("floordiv", ast.FloorDiv, "//"), "FloorMod": ("floormod", ast.Mod, "%"),
             "And": ("logical_and", ast.And, "and"), "Or": ("logical_or", ast.Or, "or")}  # fmt: skip
for _name, (_op, _kind, _sign) in _COMPARED.items():
    globals()[_name] = _two(_name, _op, _operation(_kind), _sign)
Div = _two("Div", _quotient, _operation(ast.Div, call="truncdiv"), "/")
Mod = _two("Mod", lambda a, b: truncmod(*_known(a, b)), _operation(call="truncmod"), "% of C")
Min = _two("Min", lambda a, b: _min(*_known(a, b)), _operation(call="min"), "min")
Max = _two("Max", lambda a, b: _max(*_known(a, b)), _operation(call="max"), "max")
Not = _node("Not", "a", lambda a: unary("not", a), _operation(ast.Not), "`not` of a value.")
IntImm = _node(
    "IntImm",
    "dtype value",
    lambda dtype, value: cast(value, dtype),
    _constant(False),
    "A constant integer or bool.",
)
FloatImm = _node(
    "FloatImm",
    "dtype value",
    lambda dtype, value: cast(float(value), dtype),
    _constant(True),
    "A constant floating-point number.",
)


def _broadcast(value: Any, lanes: Any) -> Any:
    count = constant(as_value(lanes))
    if count.__class__ is not int or count < 1:
        raise fail(f"T.Broadcast: the number of lanes is a constant from 1 on, not {lanes}")
    return splat(value, count) if count > 1 else as_value(value)


StringImm = _node("StringImm", "value", str, lambda x: isinstance(x, str), "A text.")
Broadcast = broadcast = _node(
    "Broadcast",
    "value lanes",
    _broadcast,
    lambda x: x.__class__ is Splat,
    "One value in several lanes.",
)
BufferLoad = _node(
    "BufferLoad",
    "buffer indices predicate=None",
    lambda buffer, indices, predicate=None: (
        buffer[tuple(indices)] if predicate is None else if_then_else(predicate, buffer[tuple(indices)], 0)
    ),
    lambda x: x.__class__ is Element or isinstance(_tree(x), ast.Subscript),
    "An element, `A[i, j]`.",
)
Call = _node(
    "Call",
    "dtype op args annotations=None",
    _call,
    lambda x: (
        isinstance(_tree(x), ast.Call)
        and not re.fullmatch(r"min|max|select|trunc(div|mod)|cast_", _tree(x).func.id)
    ),
    "A call of a function, by its name.",
)


def _extent(name: str, dtype: Any = "int32") -> Any:
    dtype = as_dtype(dtype)
    if not isinstance(name, str) or not name.isidentifier() or not (dtype.is_int or dtype.is_float):
        raise fail(
            f"T.Var({name!r}, '{dtype}'): a variable of the call is an integer or a float with a name; other "
            "numbers are parameters, x: T.bool"
        )
    if dtype.is_float:  # the annotation of a parameter, as T.float32 is
        return dtype
    return dynamic(name)


Var = _node(
    "Var",
    "name dtype='int32'",
    _extent,
    lambda x: x.__class__ is Dynamic or isinstance(_tree(x), ast.Name),
    "A name: a parameter, an index of a loop, an extent that only the call knows (T.dynamic).",
)
SizeVar = _node("SizeVar", "name dtype='int32'", _extent, Var.holds, "The same as T.Var.")
PrimFunc = _node(
    "PrimFunc",
    "params body ret_type=None buffer_map=None attrs=None",
    lambda *_: _call_of_class("PrimFunc"),
    lambda x: isinstance(x, _function.PrimFunc),
    "What @T.prim_func makes.",
)
PrimExpr = _node(
    "PrimExpr", "dtype", lambda dtype: _call_of_class("PrimExpr"), _is_value, "Any value of the kernel."
)


def _call_of_class(name: str) -> Any:
    raise fail(
        f"T.{name} is for isinstance: @T.prim_func makes functions, and operators and functions make values"
    )


# ── statements ────────────────────────────────────────────────────────────────────────────────────────
def Assert(condition: Any, message: Any, error_kind: str = "RuntimeError") -> Any:
    """T.device_assert, also as `with T.Assert(condition, message):`."""
    device_assert(condition, message if isinstance(message, str) else " ".join(map(str, message)))
    return nullcontext()


class While:
    """`with T.While(condition):`, the same as `while condition:` for a condition that the device computes."""

    next = ""

    def __init__(self, condition: Any) -> None:
        self.trace = in_kernel("T.While")
        self.condition = as_condition(condition)
        if self.condition.__class__ is not Expr:
            raise fail(
                f"T.While: the condition is {self.condition}, known while the kernel is built, and "
                "would never change: compare a T.alloc_var variable or an element of a tile"
            )

    def __enter__(self) -> None:
        self.number = self.trace.next_block()
        self.trace.builder.begin_while()
        self.trace.builder.while_condition(self.condition)
        self.trace.branches.append(self)

    def __exit__(self, kind: Any, *_: object) -> None:
        self.trace.branches.pop()
        if kind is None:
            self.trace.builder.end_while()


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Buffer:
    """A buffer of that scope (T.alloc_buffer), or with data=A.data the elements of A in that shape and dtype.

    align, offset_factor, buffer_type, axis_separators: accepted; a layout of one's own is T.annotate_layout.
    """
    if strides is not None or elem_offset not in (None, 0):
        raise fail(
            "T.decl_buffer: a buffer begins at its first element, row by row: leave strides and "
            "elem_offset out, or give T.annotate_layout a layout"
        )
    return alloc_buffer(shape, dtype, scope) if data is None else data.viewed(shape, dtype)


def sblock_alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Buffer:
    """The same as T.decl_buffer."""
    return decl_buffer(shape, dtype, data, strides, elem_offset, scope)


buffer = buffer_decl = decl_buffer
ramp = Ramp


def break_loop(span: Any = None) -> None:
    """The same as T.loop_break()."""
    loop_break()


def continue_loop(span: Any = None) -> None:
    """Go on with the next iteration of the innermost loop that the device runs, as `continue` does."""
    in_kernel("T.continue_loop").builder.call("continue", ())


def buffer_store(buffer: Buffer, value: Any, indices: Any, predicate: Any = None) -> None:
    """`buffer[indices] = value`, where the predicate holds if there is one."""
    place = tuple(indices) if isinstance(indices, (list, tuple)) else (indices,)
    if predicate is not None:
        value = if_then_else(predicate, value, buffer[place])
    buffer[place] = value


def index_map(mapping: Callable, *, inverse_index_map: Any = None, index_dtype: str = "int64") -> IndexMap:
    """A map of indices, made of a function of them."""
    return IndexMap(mapping)


def meta_var(value: Any) -> Any:
    """The value itself."""
    return value


def sblock_attr(attrs: dict) -> None:
    """Attributes of a block of statements: a hint, kept as a comment in the generated text."""
    remark("T.sblock_attr", attrs)


def _accesses(name: str) -> Any:
    def accesses(*buffer_slices: Any) -> None:
        note("T.%s: %s changes nothing here", name, buffer_slices)

    return named(accesses, name, f"What a block of statements {name}: the compiler finds that out by itself.")


reads, writes = _accesses("reads"), _accesses("writes")


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """How many registers a thread that computes should get from those that copy: a hint, kept as a comment
    in the generated text."""
    remark("T.annotate_consumer_reg_alloc", reg_count)


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """How many registers a thread that copies should keep: a hint, kept as a comment in the generated
    text."""
    remark("T.annotate_producer_reg_dealloc", reg_count)


# ── values ────────────────────────────────────────────────────────────────────────────────────────────
def boolean(expr: Any = None, is_size_var: bool = False) -> Any:
    """Whether a value is not 0."""
    return cast(expr, "bool")


def var(dtype: Any, name: str = "") -> Any:
    """The same as T.Var, its dtype first."""
    if isinstance(dtype, (Buffer, Expr, Element)):
        raise fail(
            "T.var makes an extent, of a dtype and a name; the variance is T.reduce_sum of squares, "
            "and a division by the extent in a T.Parallel loop"
        )
    return _extent(name or "v", dtype)


def cdiv(lhs: Any, rhs: Any, span: Any = None) -> Any:
    """The same as T.ceildiv."""
    return ceildiv(lhs, rhs)


def tvm_warp_activemask() -> Expr:
    """The same as T.activemask()."""
    return activemask()


def fmul(x: Any, y: Any) -> Any:
    """x * y."""
    return binary("mul", *_known(x, y))


def ignore_loop_partition(predicate: Any) -> Any:
    """The predicate; how loops are split is the compiler's."""
    return predicate


def tvm_thread_invariant(cond: Any) -> Any:
    """The condition; whether it differs among threads the compiler finds out by itself."""
    return cond


def _address(value: Any, what: str) -> Any:
    number = as_value(value)
    if getattr(number, "dtype", None) == "handle":
        raise fail(
            f"{what}: {value} is a T.ptr, which cannot be used in arithmetic: A = T.make_tensor({value}, "
            "shape, dtype) begins there, and A[n] is n elements on; for address arithmetic use a T.int64 "
            "parameter"
        )
    return number


def isnullptr(x: Any, span: Any = None) -> Any:
    """Whether an address, an integer of 64 bits, is 0."""
    return binary("eq", _address(x, "T.isnullptr"), 0)


def handle_add_byte_offset(handle: Any, offset: Any) -> Any:
    """The address so many bytes after another, an integer of 64 bits; for T.make_tensor."""
    return binary("add", _address(handle, "T.handle_add_byte_offset"), as_value(offset))


def tvm_access_ptr(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: int) -> Any:
    """T.access_ptr(A, access, extent, offset=offset), where `data` is A.data; rw_mask: 1 read, 2 write, 3."""
    return access_ptr(getattr(data, "buffer", data), rw_mask, extent, offset=offset)


def q_multiply_shift(x: Any, y: Any, q: Any, s: Any) -> Expr:
    """x * y * 2**-(q + s) of int32 values, rounded to nearest, halves upwards: y has q fractional bits."""
    return q_multiply_shift_per_axis(x, y, 0, s, q, False, True)


def q_multiply_shift_per_axis(
    x: Any, y: Any, ls: Any, rs: Any, q: Any, is_lshift_required: Any, is_rshift_required: Any
) -> Expr:
    """x * 2**ls * y * 2**-(q + rs) of int32 values, rounded to the nearest, halves upwards; ls and rs count
    only where they are required."""
    wide = cast(x, "int64")
    wide = if_then_else(is_lshift_required, wide << as_value(ls), wide) * cast(y, "int64")
    shift = cast(q, "int64") + if_then_else(is_rshift_required, cast(rs, "int64"), cast(0, "int64"))
    return cast(wide + (cast(1, "int64") << (shift - 1)) >> shift, "int32")


# ── dtypes ────────────────────────────────────────────────────────────────────────────────────────────
def get_tvm_dtype(value: Any) -> str:
    """The name of a dtype."""
    return str(dtype_of(value))


def is_float4_e2m1fn(value: Any) -> bool:
    """Is it the float of 4 bits, two to a byte?"""
    return str(dtype_of(value)) == "float4_e2m1fn"


def is_float4_e2m1_unpacked(value: Any) -> bool:
    """Is it the float of 4 bits in a byte of its own?"""
    return dtype_of(getattr(value, "dtype", value)) == "float4_e2m1_unpacked"


def is_float4(value: Any) -> bool:
    """Is it one of the floats of 4 bits?"""
    return is_float4_e2m1_unpacked(value) or is_float4_e2m1fn(value)


def is_f8f6f4_family(value: Any) -> bool:
    """Is it a float of 8, 6 or 4 bits?"""
    return is_float4(value) or dtype_of(value).is_float and dtype_of(value).bits <= 8


def validate_gemm_ab_dtypes(
    a_dtype: Any, b_dtype: Any, *, a_in_tmem: bool = False, allow_f8f6f4_mixed: bool = False
) -> None:
    """An error unless T.gemm multiplies these: one dtype, or two floats of 8 bits, or (with
    allow_f8f6f4_mixed) of 8, 6 and 4."""
    a, b = dtype_of(a_dtype), dtype_of(b_dtype)
    both = is_f8f6f4_family(a) and is_f8f6f4_family(b)
    if a != b and not (both and (allow_f8f6f4_mixed or a.bits == b.bits == 8)):
        raise fail(
            f"T.gemm: A is {a} and B is {b}, which no matrix instruction multiplies: convert one of them"
        )


_STATEMENTS = """annotate_consumer_reg_alloc annotate_producer_reg_dealloc Assert boolean break_loop
    buffer buffer_decl buffer_store cdiv continue_loop decl_buffer fmul get_tvm_dtype
    handle_add_byte_offset ignore_loop_partition index_map is_f8f6f4_family is_float4
    is_float4_e2m1_unpacked is_float4_e2m1fn isnullptr meta_var q_multiply_shift
    q_multiply_shift_per_axis ramp Range reads sblock_alloc_buffer sblock_attr tvm_access_ptr
    tvm_thread_invariant tvm_warp_activemask validate_gemm_ab_dtypes var While writes"""
__all__ = [name for name, value in globals().items() if isinstance(value, _Node)] + _STATEMENTS.split()
