"""Which of the two styles a `@tilelang.jit` function is written in, by its text alone.

Lazy: it makes or calls for a prim_func and returns it.  Eager: its own body is the kernel; it annotates its
tensors, in its signature or in its body, or opens a T.Kernel."""

from __future__ import annotations
import __future__

import ast
from types import FunctionType
from typing import Any

from ..front import liveness
from ..front.dtypes import DType
from ..front.errors import CompileError
from ..front.rewritten import names_outside
from ..front.source import function_tree
from .eager import annotates_tensor
from .function import evaluate_annotation, scope_of
from .lookahead import own_nodes


def read(fn: FunctionType, frame: Any) -> tuple[dict[str, Any], list[str], frozenset] | None:
    """None if `fn` is lazy; else the names that its annotations need from the functions around it, and those
    of its parameters that the launch passes, and of these the ones that its body annotates."""
    names = {*fn.__code__.co_names, *fn.__code__.co_freevars}
    if "prim_func" in names:
        return None
    try:
        tree, _ = function_tree(fn)
    except CompileError:
        if "Kernel" in fn.__code__.co_names or any(map(annotates_tensor, fn.__annotations__.values())):
            raise
        return None  # a factory, which Python runs as it stands
    parameters = [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]
    scope = _scope(fn, frame, tree, parameters)
    declared = {
        node.target.id
        for node in own_nodes(tree)
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
    }
    in_body = frozenset(arg.arg for arg in parameters if arg.arg in declared)
    kinds = {arg.arg: _kind(fn, arg, scope) for arg in parameters}
    opens = any(isinstance(node, ast.With) and _opens_kernel(node) for node in own_nodes(tree))
    if not (in_body or opens or "tensor" in kinds.values()):
        return None
    return scope, [name for name, kind in kinds.items() if name in in_body or kind], in_body


def kernel_in(fn: FunctionType) -> str | None:
    """The name of the last @T.prim_func that is defined in the body of `fn`."""
    try:
        nodes = list(own_nodes(function_tree(fn)[0]))
    except CompileError:
        return None
    made = [
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef)
        and any("prim_func" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    return max(made, key=lambda node: node.lineno).name if made else None


def _opens_kernel(node: ast.With) -> bool:
    calls = [item.context_expr.func for item in node.items if isinstance(item.context_expr, ast.Call)]
    return any("Kernel" in (getattr(call, "attr", None) or getattr(call, "id", "")) for call in calls)


def _scope(fn: FunctionType, frame: Any, tree: ast.FunctionDef, parameters: list[ast.arg]) -> dict[str, Any]:
    wanted = set(names_outside(tree, fn.__code__))
    if fn.__code__.co_flags & __future__.annotations.compiler_flag:
        for arg in parameters:
            if arg.annotation is not None:
                wanted |= liveness.reads(arg.annotation)
    return {name: value for name, value in scope_of(fn, frame).items() if name in wanted} if wanted else {}


def _kind(fn: FunctionType, arg: ast.arg, scope: dict[str, Any]) -> str:
    """What the annotation in the signature makes of the parameter: a "tensor"; a "number", or pointer, of
    each call; or ""."""
    kind = fn.__annotations__.get(arg.arg)
    if kind.__class__ is str:
        try:
            kind = evaluate_annotation(arg.annotation, fn.__code__.co_filename, fn, scope)
        except CompileError:  # the trace will say what is wrong with it
            return "tensor" if "Tensor" in ast.unparse(arg.annotation) else ""
    if annotates_tensor(kind):
        return "tensor"
    kind_of = kind if isinstance(kind, type) else type(kind)  # a dtype, a pointer
    return "number" if kind_of.__module__.startswith("tilelang.") and kind is not DType else ""
