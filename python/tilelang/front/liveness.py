"""Which names a loop or a branch of a kernel changes in a way that running it once at trace time would get
wrong.

A name is *carried* by a loop if the loop assigns it and a later iteration reads it before it is assigned
again; it *escapes* a loop or an `if` if it is assigned inside and read afterwards.  Both are harmless where
Python runs the loop or takes the branch, and wrong where the device does; which of the two it is turns out
only when the kernel is traced.  So it does whether a branch that assigns it is there at all."""

from __future__ import annotations

import ast

_NONE: frozenset = frozenset()


def annotate(body: list[ast.stmt]) -> None:
    """Give every loop and If in `body` its `escaping`, and every loop its `carried`: lists of (name,
    assigning node); every If its `restored`: names that its body assigns and its `else` reads; and every
    assignment its `unread`: the names that nothing reads afterwards."""
    _live(body, _NONE)
    inner = [node for stmt in body for node in ast.walk(stmt)]
    late = [reads(node) for node in inner if isinstance(node, (ast.Lambda, ast.FunctionDef))]
    for node in inner if late else ():  # a function may be called, and read names, wherever
        if hasattr(node, "unread"):
            node.unread = node.unread.difference(*late)


def _live(body: list[ast.stmt], after: frozenset) -> frozenset:
    """The names read from here on, before they are assigned, when `after` are those read after `body`."""
    for stmt in reversed(body):
        rule = _RULES.get(type(stmt))
        after = rule(stmt, after) if rule else after | reads(stmt)
    return after


def _assign(stmt: ast.Assign, after: frozenset) -> frozenset:
    stmt.unread = frozenset().union(*(targets(target).keys() for target in stmt.targets)) - after
    for target in stmt.targets:
        after = after - targets(target).keys()
    for target in stmt.targets:
        after |= reads(target)
    return after | reads(stmt.value)


def _augment(stmt: ast.AugAssign, after: frozenset) -> frozenset:
    stmt.unread = frozenset(targets(stmt.target)) - after
    return after | targets(stmt.target).keys() | reads(stmt)


def _for(stmt: ast.For, after: frozenset) -> frozenset:
    own = targets(stmt.target)
    inside = assigned(stmt.body)
    carried = (_live(stmt.body, _NONE) - own.keys()) & inside.keys()
    head = _live(stmt.body, after | carried) - own.keys()  # what an iteration leaves is read after it
    stmt.carried = sorted((name, inside[name]) for name in carried)
    stmt.escaping = sorted((name, node) for name, node in {**inside, **own}.items() if name in after)
    return after | head | reads(stmt.iter) | reads(stmt.target)


def _while(stmt: ast.While, after: frozenset) -> frozenset:
    inside, test = assigned(stmt.body), reads(stmt.test)
    carried = (_live(stmt.body, _NONE) | test) & inside.keys()
    head = _live(stmt.body, after | carried) | test
    stmt.carried = sorted((name, inside[name]) for name in carried)
    stmt.escaping = sorted((name, node) for name, node in inside.items() if name in after)
    return after | head


def _if(stmt: ast.If, after: frozenset) -> frozenset:
    inside = assigned(stmt.body + stmt.orelse)
    stmt.escaping = sorted((name, node) for name, node in inside.items() if name in after)
    otherwise = _live(stmt.orelse, after)
    stmt.restored = sorted(assigned(stmt.body).keys() & otherwise)
    return _live(stmt.body, after) | otherwise | reads(stmt.test)


def _with(stmt: ast.With, after: frozenset) -> frozenset:
    live = _live(stmt.body, after)
    for item in reversed(stmt.items):
        if item.optional_vars is not None:
            live = live - targets(item.optional_vars).keys()
        live |= reads(item.context_expr)
    return live


_RULES = {
    ast.Assign: _assign,
    ast.For: _for,
    ast.While: _while,
    ast.If: _if,
    ast.With: _with,
    ast.AnnAssign: lambda stmt, after: (after - targets(stmt.target).keys()) | reads(stmt),
    ast.AugAssign: _augment,
    ast.Return: lambda stmt, after: reads(stmt.value) if stmt.value else _NONE,
    ast.FunctionDef: lambda stmt, after: (after - {stmt.name}) | reads(stmt),
}


def targets(node: ast.AST) -> dict[str, ast.AST]:
    """The names that an assignment to `node` binds."""
    if isinstance(node, ast.Name):
        return {node.id: node}
    found: dict[str, ast.AST] = {}
    if isinstance(node, (ast.Tuple, ast.List)):
        for item in node.elts:
            found.update(targets(item))
    elif isinstance(node, ast.Starred):
        found.update(targets(node.value))
    return found


def assigned(body: list[ast.stmt]) -> dict[str, ast.AST]:
    """The names that statements bind, at any depth, each with the first node that does."""
    found: dict[str, ast.AST] = {}
    for stmt in body:
        nodes: list[ast.AST] = []
        if isinstance(stmt, ast.Assign):
            nodes = stmt.targets
        elif isinstance(stmt, (ast.AugAssign, ast.AnnAssign, ast.For)):
            nodes = [stmt.target]
        elif isinstance(stmt, ast.With):
            nodes = [item.optional_vars for item in stmt.items if item.optional_vars is not None]
        for node in nodes:
            found = {**targets(node), **found}
        if isinstance(stmt, (ast.For, ast.While, ast.If, ast.With)):
            found = {**assigned(stmt.body + getattr(stmt, "orelse", [])), **found}
    return found


def in_branches(body: list[ast.stmt], name: str, branch: bool = False) -> bool:
    """Do only branches in `body` assign `name`?  Python may leave them out while the kernel is built."""
    for stmt in body:
        if isinstance(stmt, ast.If):
            if not in_branches(stmt.body + stmt.orelse, name, True):
                return False
        elif isinstance(stmt, (ast.For, ast.While, ast.With)):
            items = getattr(stmt, "items", ())
            own = [getattr(stmt, "target", None), *(item.optional_vars for item in items)]
            if any(name in targets(node) for node in own if node) or not in_branches(stmt.body, name, branch):
                return False
        elif not branch and name in assigned([stmt]):
            return False
    return True


def reads(node: ast.AST) -> frozenset:
    """The names that an expression (or a nested function) reads from the scope around it."""
    if isinstance(node, ast.Name):
        return frozenset((node.id,)) if isinstance(node.ctx, ast.Load) else _NONE
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        return _reads_of_function(node)
    found: frozenset = _NONE
    for child in ast.iter_child_nodes(node):
        found |= reads(child)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        own = set().union(*(targets(g.target).keys() for g in node.generators))
        return (found - own) | reads(node.generators[0].iter)
    return found


def _reads_of_function(node: ast.Lambda | ast.FunctionDef) -> frozenset:
    """Its defaults, decorators and annotations are evaluated around it; its parameters and the names that its
    body binds are its own."""
    a = node.args
    parameters = [arg for arg in [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg] if arg]
    inside = node.body if isinstance(node, ast.FunctionDef) else [node.body]
    outside = [default for default in [*a.defaults, *a.kw_defaults] if default]
    outside += [arg.annotation for arg in parameters if arg.annotation]
    if isinstance(node, ast.FunctionDef):
        outside += node.decorator_list + ([node.returns] if node.returns else [])
    own, shared = {arg.arg for arg in parameters}, set()
    for part in inside:
        _bound_by(part, own, shared)
    return frozenset().union(*map(reads, outside), frozenset().union(*map(reads, inside)) - (own - shared))


def _bound_by(node: ast.AST, own: set[str], shared: set[str]) -> None:
    """Adds the names that a part of a function binds there to `own`, those of `nonlocal` to `shared`."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        own.add(node.id)
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        own.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Global):
        own.update(node.names)  # of the file, so none of the function around it
    elif isinstance(node, ast.Nonlocal):
        shared.update(node.names)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        own.add(node.name)
        return
    elif isinstance(node, ast.ExceptHandler) and node.name:
        own.add(node.name)
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return
    for child in ast.iter_child_nodes(node):
        _bound_by(child, own, shared)
