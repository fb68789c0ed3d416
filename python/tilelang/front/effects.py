"""Statements that do nothing: `A[i] * 2`, `B[i] == A[i]` for an assignment, `T.sync_threads` without its
brackets, a value or a loop that a function gives and nobody takes.  And what compares something else than it
seems to, `a > 3 & b < 9`."""

from __future__ import annotations

import ast
import builtins
from typing import Any

from .._core import Expr
from .loops import Loop
from .trace import warn
from .values import Element, Lanewise

DROPPED = True  # the hint of a call whose value nobody takes
_ACTS = (
    ast.Call,
    ast.NamedExpr,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)  # an expression with one may do something
_NO_MACROS = frozenset(
    (*dir(builtins), "T", "tl", "math", "np", "numpy", "torch")
)  # whose calls change no variable
_COMPUTES = ("tilelang.front.arithmetic", "tilelang.language.scalar", "tilelang.language.bits")


def calls_macros(*nodes: ast.AST) -> bool:
    """Is there a call of what may be a macro, which changes what its T.Ref parameters name?"""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Call):
            root = node.func
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name) or root.id not in _NO_MACROS:
                return True
    return False


def idle(node: ast.expr) -> str:
    """What is said of an expression that stands as a statement and does nothing; "" of any other."""
    if isinstance(node, ast.Constant) or any(isinstance(part, _ACTS) for part in ast.walk(node)):
        return ""
    text = ast.unparse(node)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return f"`{text}` has no effect: a name alone calls nothing; a call is {text}()"
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        return f"`{text}` has no effect: == compares; an assignment is {left} = {right}"
    return f"`{text}` has no effect: nothing takes its value"


def joined_in_a_chain(node: ast.Compare) -> str:
    """What is said of `a > 3 & b < 9`, which Python reads as a > (3 & b) < 9; "" of any other comparison."""
    for middle in node.comparators[:-1]:
        if isinstance(middle, ast.BinOp) and isinstance(middle.op, (ast.BitAnd, ast.BitOr)):
            sign = "&" if isinstance(middle.op, ast.BitAnd) else "|"
            return (
                f"`{sign}` binds before comparisons, so that this compares {ast.unparse(middle)}: "
                f"comparisons that are joined stand in brackets, (a > 3) {sign} (b < 9)"
            )
    return ""


def warn_of_dropped(fn: Any, value: Any) -> None:
    """A warning where a statement calls a function that does nothing but give this value."""
    name = getattr(fn, "__name__", type(value).__name__)
    if value.__class__ in (Expr, Element, Lanewise) and getattr(fn, "__module__", "") in _COMPUTES:
        warn(f"T.{name}(…) has no effect: it gives a value, and nothing takes it; write x = T.{name}(…)")
    elif value.__class__ is Loop:
        warn(f"T.{name}(…) has no effect: a loop is opened by a statement, `for i in T.{name}(…):`")
