"""From the text of a function to the function that builds it.

The Rewriter replaces every call, operator, subscript, assignment and control statement by a call of the
runtime helper `__tl` (activation.py) that gets the place (line, column, end line, end column) of that very
node.  The rewritten function (rewritten.py) is run by Python: what it computes on Python values it computes
now, what it does with values of the kernel it builds.

    for k in range(n):         for k in __tl.loop((3, 5, …), range(n), 'k', carried, escaping):
        if k < m:                  if __tl.then((4, 9, …), __tl.binary((4, 12, …), 'lt', k, m), escaping):
            x = A[k] * 2   ->          x = __tl.assign(…, 'x', __tl.binary(…, 'mul', __tl.item(…, A, k), 2))
        else: …                    if __tl.otherwise(…): …
                                   __tl.end_if()"""

from __future__ import annotations

import ast
import copy
import warnings
from typing import Any

from . import effects, idioms, liveness
from .errors import TilelangWarning, compile_error

HELPER = "__tl"

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv",
           ast.Mod: "floormod", ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "shl", ast.RShift: "shr",
           ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor"}  # fmt: skip
_COMPARE = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
            ast.Is: "is", ast.IsNot: "is_not", ast.In: "in", ast.NotIn: "not_in"}  # fmt: skip
# Both branches of an `if` are built, one after the other: a name that the first assigns is in the second
# what it was before the `if`, or unbound.
_HOLD = "try: {0} = {1}\nexcept NameError: pass"
_RESTORE = "try: {0} = {1}\nexcept NameError:\n  try: del {0}\n  except NameError: pass"
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert", ast.Not: "not"}


def site_of(node: ast.AST) -> tuple[int, int, int, int]:
    """The place of a node: line, column, end line, end column, counted from 1."""
    return (node.lineno, node.col_offset + 1, node.end_lineno, node.end_col_offset + 1)


def at_place_of(new: Any, old: Any) -> Any:
    """`new` with the place of `old`."""
    new.lineno, new.col_offset = old.lineno, old.col_offset
    new.end_lineno, new.end_col_offset = old.end_lineno, old.end_col_offset
    return new


def _constant(value: Any, at: ast.AST) -> ast.Constant:
    return at_place_of(ast.Constant(value), at)


def _name(name: str, at: ast.AST, store: bool = False) -> ast.Name:
    return at_place_of(ast.Name(name, ast.Store() if store else ast.Load()), at)


def _thunk(body: ast.expr) -> ast.Lambda:
    none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return at_place_of(ast.Lambda(none, body), body)


def _names_in(target: ast.AST) -> Any:
    """What a loop or `with` binds: a name, a tuple of names (None where not a plain name), or None."""
    if isinstance(target, ast.Name):
        return target.id
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(item.id if isinstance(item, ast.Name) else None for item in target.elts)
    return None


class Rewriter(ast.NodeTransformer):
    """Rewrites the body of one function."""

    def __init__(self, file: str, parameters: frozenset[str] = frozenset()) -> None:
        self.file, self.parameters, self.refused = file, parameters, idioms.REFUSED
        self.temporaries = 0
        # the call whose value is assigned -> the name it is assigned to, or those of its turns
        self.hints: dict[ast.AST, str | tuple[str, ...] | bool] = {}

    def error(self, text: str, node: ast.AST) -> Exception:
        return compile_error(text, (self.file, *site_of(node)))

    def visit(self, node: ast.AST) -> Any:
        why = self.refused.get(node.__class__.__name__)
        if why is not None:
            raise self.error(why, node)
        return super().visit(node)

    def help(self, method: str, at: ast.AST, *args: ast.expr) -> ast.Call:
        """`__tl.method(site, *args)`"""
        function = at_place_of(ast.Attribute(_name(HELPER, at), method, ast.Load()), at)
        return at_place_of(ast.Call(function, [_constant(site_of(at), at), *args], []), at)

    def statement(self, call: ast.expr, at: ast.AST) -> ast.Expr:
        return at_place_of(ast.Expr(call), at)

    def generated(self, text: str, at: ast.AST, *names: str) -> list[ast.stmt]:
        stmts = ast.parse(text.format(*names)).body
        for node in (inner for stmt in stmts for inner in ast.walk(stmt)):
            at_place_of(node, at)
        return stmts

    def temporary(self) -> str:
        self.temporaries += 1
        return f"{HELPER}_{self.temporaries}"

    def body(self, stmts: list[ast.stmt]) -> list[ast.stmt]:
        """A statement list, each statement rewritten to one or several."""
        result: list[ast.stmt] = []
        for stmt in stmts:
            new = self.visit(stmt)
            result.extend(new if isinstance(new, list) else [new])
        return result

    # ── expressions ───────────────────────────────────────────────────────────────────────────────────
    def visit_Call(self, node: ast.Call) -> ast.AST:
        hint = _constant(self.hints.get(node), node)
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            for arg in node.args:
                arg.is_printed = True
        args = [self.argument(arg, node.args[n + 1 :]) for n, arg in enumerate(node.args)]
        call = self.help("call", node, hint, self.visit(node.func), *args)
        call.keywords = [at_place_of(ast.keyword(k.arg, self.visit(k.value)), k) for k in node.keywords]
        return call

    def argument(self, node: ast.expr, later: list[ast.expr]) -> ast.AST:
        """As `before`; a name may be a variable that is given by reference."""
        if isinstance(node, ast.Starred) or not effects.calls_macros(*later):
            return self.visit(node)
        method = "noted_place" if isinstance(node, (ast.Name, ast.Subscript)) else "noted"
        return self.help(method, node, self.visit(node))

    def warn(self, said: str, node: ast.AST) -> None:
        if said:
            warnings.warn_explicit(said, TilelangWarning, self.file, node.lineno)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        self.warn(effects.idle(node.value), node)
        if isinstance(node.value, ast.Call):
            self.hints[node.value] = effects.DROPPED
        return self.generic_visit(node)

    def display(self, node: ast.expr) -> ast.AST:
        """`[…]`, `{…}` and their comprehensions: what they make can be changed."""
        call = self.help("made", node, self.generic_visit(node))
        call.args[0] = self.help("here", node)
        return call

    visit_List = visit_Dict = visit_Set = visit_ListComp = visit_DictComp = visit_SetComp = display
    visit_GeneratorExp = display

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        made = self.generic_visit(node)
        return self.help("pinned", node, made) if isinstance(node.ctx, ast.Load) else made

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        for part in node.values:  # before Python 3.12 the text alone knows its place
            if isinstance(part, ast.FormattedValue):
                method = "printed" if getattr(node, "is_printed", False) else "formatted"
                part.value = self.help(method, node, self.visit(part.value))
                part.format_spec = part.format_spec and self.visit(part.format_spec)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        op = _constant(_BINARY[type(node.op)], node)
        return self.help("binary", node, op, self.before(node.left, node.right), self.visit(node.right))

    def before(self, node: ast.expr, *later: ast.AST) -> ast.expr:
        """An operand; what is evaluated after it may be a macro, which changes what it reads."""
        value = self.visit(node)
        return self.help("noted", node, value) if effects.calls_macros(*later) else value

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.operand, ast.Constant):
            return node
        operand = self.condition(node.operand) if isinstance(node.op, ast.Not) else self.visit(node.operand)
        return self.help("unary", node, _constant(_UNARY[type(node.op)], node), operand)

    def condition(self, node: ast.expr) -> ast.AST:
        """An expression of which only the truth is asked."""
        todo = [node]
        for item in todo:
            if isinstance(item, ast.BoolOp):
                item.asks_truth = True
                todo += item.values
        return self.visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        op = _constant("and" if isinstance(node.op, ast.And) else "or", node)
        first, *rest = [self.visit(value) for value in node.values]
        method = "logic" if getattr(node, "asks_truth", False) else "choice"
        return self.help(method, node, op, first, *[_thunk(value) for value in rest])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.warn(effects.joined_in_a_chain(node), node)
        ops = tuple(_COMPARE[type(op)] for op in node.ops)
        left, rest = self.before(node.left, *node.comparators), [self.visit(x) for x in node.comparators]
        if len(rest) == 1:
            return self.help("binary", node, _constant(ops[0], node), left, rest[0])
        return self.help("compare", node, _constant(ops, node), left, *[_thunk(value) for value in rest])

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        yes, no = _thunk(self.visit(node.body)), _thunk(self.visit(node.orelse))
        return self.help("ternary", node, self.condition(node.test), yes, no)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return self.help("item", node, self.visit(node.value), self.index(node.slice))

    def index(self, node: ast.expr) -> ast.expr:
        """An index as an expression: slices become slice objects."""
        if isinstance(node, ast.Tuple):
            return at_place_of(ast.Tuple([self.index(item) for item in node.elts], ast.Load()), node)
        if isinstance(node, ast.Slice):
            parts = [
                self.visit(part) if part else _constant(None, node)
                for part in (node.lower, node.upper, node.step)
            ]
            function = at_place_of(ast.Attribute(_name(HELPER, node), "slice", ast.Load()), node)
            return at_place_of(ast.Call(function, parts, []), node)
        return self.visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if node.is_async:
            raise self.error("'async' is not allowed in a kernel", node.target)
        node.iter = self.visit(node.iter)
        node.ifs = [self.help("truth", test, self.condition(test)) for test in node.ifs]
        return node

    # ── assignments ───────────────────────────────────────────────────────────────────────────────────
    def hint(self, target: ast.AST, value: ast.AST) -> None:
        """Tell the calls in `value` which name they make a buffer for."""
        if isinstance(target, ast.Name):
            if isinstance(value, ast.Call):
                self.hints[value] = target.id
            elif isinstance(value, (ast.List, ast.Tuple)):
                for i, item in enumerate(value.elts):
                    if isinstance(item, ast.Call):
                        self.hints[item] = f"{target.id}_{i}"
            elif isinstance(value, (ast.ListComp, ast.DictComp)):
                self.hint(target, value.elt if isinstance(value, ast.ListComp) else value.value)
        elif isinstance(target, ast.Attribute) and isinstance(value, ast.Call):
            self.hints[value] = target.attr
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, ast.ListComp):
            if isinstance(value.elt, ast.Call) and all(isinstance(name, ast.Name) for name in target.elts):
                self.hints[value.elt] = tuple(name.id for name in target.elts)
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for name, item in zip(target.elts, value.elts, strict=False):
                self.hint(name, item)

    def visit_Assign(self, node: ast.Assign) -> Any:
        for target in node.targets:
            self.hint(target, node.value)
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self.bind(node.targets[0], value, node)
        temporary, first = self.temporary(), node.targets[0]
        name = first.id if isinstance(first, ast.Name) else "t"
        held = self.help("hold", node, _constant(name, node), value)
        stmts = [at_place_of(ast.Assign([_name(temporary, node, store=True)], held), node)]
        for target in node.targets:
            stmts += self.bind(target, _name(temporary, node), node, evaluated=True)
        return stmts

    def bind(self, target: ast.AST, value: ast.expr, at: ast.AST, evaluated: bool = False) -> list[ast.stmt]:
        """`target = value`, where value is rewritten already."""
        if isinstance(target, ast.Name):
            if target.id in self.parameters:
                unread = _constant(target.id in getattr(at, "unread", ()), at)
                value = self.help("rebind", at, _constant(target.id, at), _name(target.id, at), value, unread)
            args = [_constant(target.id, at), value] + ([_constant(True, at)] if evaluated else [])
            return [at_place_of(ast.Assign([target], self.help("assign", at, *args)), at)]
        if isinstance(target, ast.Subscript):
            if effects.calls_macros(target.slice):
                value = self.help("noted", at, value)
            call = self.help("store", at, value, self.visit(target.value), self.index(target.slice))
            return [self.statement(call, at)]
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.unpack(target, value, at)
        obj, name = self.visit(target.value), _constant(target.attr, at)
        return [self.statement(self.help("set_attribute", at, value, obj, name), at)]

    def unpack(self, target: ast.Tuple | ast.List, value: ast.expr, at: ast.AST) -> list[ast.stmt]:
        names, parts, rest = [], [], []
        for item in target.elts:
            starred = isinstance(item, ast.Starred)
            inner = item.value if starred else item
            temporary = self.temporary()
            part: ast.expr = _name(temporary, item, store=True)
            parts.append(at_place_of(ast.Starred(part, ast.Store()), item) if starred else part)
            names.append(inner.id if isinstance(inner, ast.Name) and not starred else None)
            rest += self.bind(inner, _name(temporary, item), at, evaluated=True)
        whole = at_place_of(ast.Tuple(parts, ast.Store()), target)
        call = self.help("unpack", at, value, _constant(tuple(names), at))
        return [at_place_of(ast.Assign([whole], call), at), *rest]

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        op, value = _constant(_BINARY[type(node.op)], node), self.visit(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            old = _name(target.id, target)
            if effects.calls_macros(node.value):
                old = self.help("noted", target, old)
            args = [_constant(target.id, node), op, old, value]
            if target.id in self.parameters:
                args.append(_constant(target.id in getattr(node, "unread", ()), node))
            call = self.help("augment", node, *args)
            return at_place_of(ast.Assign([target], call), node)
        if isinstance(target, ast.Subscript):
            place = [self.visit(copy.deepcopy(target.value)), self.index(copy.deepcopy(target.slice))]
            old = _constant(None, node)
            if effects.calls_macros(node.value) and not effects.calls_macros(target):
                place[1] = self.help("noted_index", target, place[1])
                old = self.help("item_now", target, self.visit(target.value), self.index(target.slice))
            return self.statement(self.help("augment_item", node, op, *place, old, value), node)
        obj, name = self.visit(target.value), _constant(target.attr, node)
        return self.statement(self.help("augment_attribute", node, op, obj, name, value), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name):
            raise self.error("only plain names are annotated in a kernel", node)
        if node.value is None:
            name, annotation = _constant(node.target.id, node), self.visit(node.annotation)
            known = [_name(node.target.id, node)] if node.target.id in self.parameters else []
            declared = self.help("declare", node, name, annotation, *known)
            return at_place_of(ast.Assign([node.target], declared), node)
        self.hint(node.target, node.value)
        name, annotation = _constant(node.target.id, node), self.visit(node.annotation)
        call = self.help("annotated", node, name, annotation, self.visit(node.value))
        return at_place_of(ast.Assign([node.target], call), node)

    # ── control flow ──────────────────────────────────────────────────────────────────────────────────
    def sites(self, names: list[tuple[str, ast.AST]], at: ast.AST) -> ast.Constant:
        """Each with whether only branches within the loop or `if` assign the name."""
        own = liveness.targets(at.target) if isinstance(at, ast.For) else {}
        return _constant(
            tuple(
                (name, name not in own and liveness.in_branches(at.body + at.orelse, name), *site_of(node))
                for name, node in names
            ),
            at,
        )

    def visit_For(self, node: ast.For) -> ast.AST:
        if node.orelse:
            raise self.error("'else' after a loop is not allowed in a kernel", node.orelse[0])
        names = _names_in(node.target)
        self.plain_target(node.target)
        iterable = self.help(
            "loop",
            node.iter,
            self.visit(node.iter),
            _constant(names, node.target),
            self.sites(node.carried, node),
            self.sites(node.escaping, node),
        )
        return at_place_of(ast.For(node.target, iterable, self.body(node.body), []), node)

    def plain_target(self, target: ast.AST) -> None:
        for item in ast.walk(target):
            if isinstance(item, (ast.Attribute, ast.Subscript)):
                raise self.error("a loop or `with` in a kernel binds plain names", item)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        # The condition's place for the branch, so that an error in it points there.
        begin = self.help("then", node.test, self.condition(node.test), self.sites(node.escaping, node))
        stmts: list[ast.stmt] = [at_place_of(ast.If(begin, self.body(node.body), []), node)]
        if node.orelse:
            test = self.help("otherwise", node.orelse[0])
            before = [(self.temporary(), name) for name in node.restored]
            stmts[:0] = [
                s for temporary, name in before for s in self.generated(_HOLD, node, temporary, name)
            ]
            first = [s for held, name in before for s in self.generated(_RESTORE, node.orelse[0], name, held)]
            stmts.append(at_place_of(ast.If(test, first + self.body(node.orelse), []), node.orelse[0]))
        end = self.help("end_if", node)
        end.args = []
        return [*stmts, self.statement(end, node)]

    def visit_With(self, node: ast.With) -> ast.AST:
        items = []
        for n, item in enumerate(node.items):
            names = None
            if n and self.is_name_of_launch(item, node.items[n - 1]):
                raise self.error(
                    "Python reads `as bx, by` as two `with` items: the names of several block "
                    "indices stand in brackets, as (bx, by)",
                    item.context_expr,
                )
            if item.optional_vars is not None:
                self.plain_target(item.optional_vars)
                names = _names_in(item.optional_vars)
            at = item.context_expr
            manager = self.help("enter", at, self.visit(at), _constant(names, at))
            items.append(ast.withitem(manager, item.optional_vars))
        return at_place_of(ast.With(items, self.body(node.body)), node)

    def is_name_of_launch(self, item: ast.withitem, before: ast.withitem) -> bool:
        """Is it the second name of `with T.Kernel(…) as bx, by:`?"""
        launch = getattr(before.context_expr, "func", None)
        word = getattr(launch, "attr", getattr(launch, "id", ""))
        return word == "Kernel" and item.optional_vars is None and isinstance(item.context_expr, ast.Name)

    def visit_While(self, node: ast.While) -> ast.AST:
        if node.orelse:
            raise self.error("'else' after a loop is not allowed in a kernel", node.orelse[0])
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        iterable = self.help(
            "repeat",
            node.test,
            _thunk(self.condition(node.test)),
            _constant(forever, node),
            self.sites(node.carried, node),
            self.sites(node.escaping, node),
        )
        target = _name(self.temporary(), node, store=True)
        return at_place_of(ast.For(target, iterable, self.body(node.body), []), node)

    # A jump that the device makes is a statement of the kernel; what follows it is traced all the same.

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if node.value is None:
            return at_place_of(ast.If(self.help("stop", node), [node], []), node)
        return at_place_of(ast.Return(self.help("leave", node, self.visit(node.value))), node)

    def visit_Break(self, node: ast.Break) -> ast.AST:
        return at_place_of(ast.If(self.help("jump", node, _constant("break", node)), [node], []), node)

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return at_place_of(ast.If(self.help("jump", node, _constant("continue", node)), [node], []), node)

    def operands_of(self, test: ast.expr) -> ast.expr:
        """What a condition compares, but for constants: pairs of its text and a function that gives it."""
        compared = [x for n in ast.walk(test) if isinstance(n, ast.Compare) for x in (n.left, *n.comparators)]
        said = {ast.unparse(x): x for x in compared if not isinstance(x, ast.Constant)}
        pairs = [
            ast.Tuple([ast.Constant(text), _thunk(self.visit(copy.deepcopy(x)))], ast.Load())
            for text, x in said.items()
        ]
        return ast.fix_missing_locations(ast.copy_location(ast.Tuple(pairs, ast.Load()), test))

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        operands = self.operands_of(node.test)
        none = ast.copy_location(ast.Constant(None), node)
        args = [self.condition(node.test), _thunk(self.visit(node.msg)) if node.msg else none, operands]
        return self.statement(self.help("check", node, *args), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """The user's helper, run by Python as it stands; a @T.macro is rewritten when it is made."""
        for n, default in enumerate(node.args.defaults):  # evaluated here
            held = self.help("hold", default, _constant("default", default), self.visit(default))
            node.args.defaults[n] = held
        return node
