"""T.const names that are used before the annotation that binds them: which extents and strides the function's
annotations will give them, read from its text.

A value found here is a guess, by which the trace goes on; it holds once an annotation has bound the name to
it (eager.py).  Where it does not, dispatch.py traces again with another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from types import FunctionType
from typing import Any

from ..front.source import function_tree

Place = tuple[str, str, int]  # parameter, "shape" or "stride", dimension
_MOST = 64  # readings of one expression
_DEEP = 20  # names by way of names


def places_of(fn: FunctionType, parameters: list[str]) -> dict[str, list[Place]]:
    """T.const name -> where it stands alone in annotations that the body of `fn` gives its parameters."""
    return _Reader(function_tree(fn)[0], parameters).places


def own_nodes(tree: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of the body, without those of functions defined in it."""
    todo: list[ast.AST] = list(tree.body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            todo.extend(ast.iter_child_nodes(node))


class _Reader:
    """What the names of one function may mean, as far as T.const names and sequences of them go.

    A reading is a T.const name, a list of expressions and readings, or None."""

    def __init__(self, tree: ast.FunctionDef, parameters: list[str]) -> None:
        self.assigned: dict[str, list[tuple[Any, int | None]]] = {}  # name -> (value, item of it)
        annotations = []
        nodes = sorted(
            own_nodes(tree), key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        )
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._assign(node.target, ast.BinOp(node.target, node.op, node.value))
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                if node.value is not None:
                    self._assign(node.target, node.value)
                elif node.target.id in parameters:
                    annotations.append(node)
        self.places: dict[str, list[Place]] = {}
        for node in annotations:
            for kind, expression in self._parts(node.annotation, 0):
                for reading in islice(self._read(expression, 0), _MOST):
                    for d, item in enumerate(reading if isinstance(reading, list) else [reading]):
                        for name in self._read(item, 0):
                            if isinstance(name, str):
                                self.places.setdefault(name, []).append((node.target.id, kind, d))

    def _assign(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append((value, None))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for i, item in enumerate(target.elts):
                if isinstance(item, ast.Name):
                    self.assigned.setdefault(item.id, []).append((value, i))

    def _parts(self, annotation: ast.AST, depth: int) -> Iterator[tuple[str, Any]]:
        """The expressions of shapes and strides: of T.Tensor(…), T.Tensor[…], or a name for one."""
        if isinstance(annotation, ast.Name) and depth < _DEEP:
            for value, item in self.assigned.get(annotation.id, ()):
                if item is None:
                    yield from self._parts(value, depth + 1)
        elif isinstance(annotation, ast.IfExp):
            yield from self._parts(annotation.body, depth)
            yield from self._parts(annotation.orelse, depth)
        elif isinstance(annotation, (ast.Call, ast.Subscript)):
            called = annotation.func if isinstance(annotation, ast.Call) else annotation.value
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            strides = 1 if name == "StridedTensor" else 3
            if isinstance(annotation, ast.Call):
                given = {**dict(enumerate(annotation.args)), **{k.arg: k.value for k in annotation.keywords}}
            elif isinstance(annotation.slice, ast.Tuple) and not isinstance(
                annotation.slice.elts[0], (ast.Tuple, ast.List)
            ):
                # T.Tensor[M, N, dtype], or T.Tensor[shape, dtype]
                items = annotation.slice.elts
                given = {0: items[0], "shape": annotation.slice} if len(items) == 2 else {0: annotation.slice}
            else:
                items = annotation.slice
                given = dict(enumerate(items.elts if isinstance(items, ast.Tuple) else [items]))
            for key, kind in ((0, "shape"), ("shape", "shape"), (strides, "stride"), ("strides", "stride")):
                if key in given:
                    yield kind, given[key]

    def _read(self, x: Any, depth: int) -> Iterator[Any]:
        """What an expression may mean."""
        if not isinstance(x, ast.AST) or depth > _DEEP:
            yield x
        elif isinstance(x, ast.Name):
            for value, item in self.assigned.get(x.id, ()):
                for reading in self._read(value, depth + 1):
                    yield from self._item(reading, item, depth + 1)
        elif isinstance(x, ast.IfExp):
            yield from self._read(x.body, depth + 1)
            yield from self._read(x.orelse, depth + 1)
        elif isinstance(x, (ast.Tuple, ast.List)):
            yield from self._sequence(list(x.elts), depth)
        elif isinstance(x, ast.BinOp) and isinstance(x.op, ast.Add):
            yield from self._sequence([ast.Starred(x.left), ast.Starred(x.right)], depth)
        elif isinstance(x, ast.Subscript) and isinstance(x.slice, (ast.Constant, ast.UnaryOp, ast.Slice)):
            for reading in self._read(x.value, depth + 1):
                yield from self._item(reading, _index(x.slice), depth + 1)
        elif isinstance(x, ast.Call):
            yield from self._call(x, depth)

    def _call(self, x: ast.Call, depth: int) -> Iterator[Any]:
        name = x.func.attr if isinstance(x.func, ast.Attribute) else getattr(x.func, "id", "")
        if name == "const" and x.args and isinstance(x.args[0], ast.Constant):
            names = str(x.args[0].value).replace(",", " ").split()
            yield names[0] if len(names) == 1 else names
        elif name in ("tuple", "list") and x.args:
            yield from self._read(x.args[0], depth + 1)

    def _sequence(self, items: list, depth: int) -> Iterator[list]:
        if not items:
            yield []
            return
        first, rest = items[0], items[1:]
        heads = [[first]]
        if isinstance(first, ast.Starred):
            heads = [r for r in self._read(first.value, depth + 1) if isinstance(r, list)]
        for head in heads:
            for tail in islice(self._sequence(rest, depth), _MOST):
                yield [*head, *tail]

    def _item(self, reading: Any, item: Any, depth: int) -> Iterator[Any]:
        if item is None:
            yield reading
        elif isinstance(reading, list):
            try:
                found = reading[item]
            except (IndexError, TypeError, ValueError):
                return
            yield from [found] if isinstance(item, slice) else self._read(found, depth)


def _index(node: ast.AST) -> Any:
    """A constant index or slice."""
    try:
        if isinstance(node, ast.Slice):
            return slice(*[part and ast.literal_eval(part) for part in (node.lower, node.upper, node.step)])
        return ast.literal_eval(node)
    except ValueError:
        return ""
