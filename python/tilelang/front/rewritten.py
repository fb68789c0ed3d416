"""The code of a function after rewriting: its text is rewritten (parse.py), compiled, and run with the
variables that the function sees."""

from __future__ import annotations

import ast
import builtins
from types import CellType, CodeType, FunctionType
from typing import Any

from . import liveness
from .errors import CompileError, compile_error
from .parse import HELPER, Rewriter, at_place_of, site_of
from .source import function_tree
from .texts import Text, adopt


class Rewritten:
    """The code of a function after rewriting, and what its definition says about its parameters."""

    __slots__ = "code file parameters stars star_names site original extra text bound".split()

    def __init__(self, original: CodeType, tree: ast.FunctionDef, text: Text) -> None:
        self.original = original  # kept alive: the cache below goes by its identity
        self.text = text
        self.file = original.co_filename
        self.site = site_of(tree)
        a = tree.args
        self.parameters: list[ast.arg] = [*a.posonlyargs, *a.args, *a.kwonlyargs]
        self.stars: list[ast.arg] = [arg for arg in (a.vararg, a.kwarg) if arg]
        self.star_names = tuple([arg.arg if arg else "" for arg in (a.vararg, a.kwarg)])
        _mangle(tree, original)
        self.extra = names_outside(tree, original)
        rewriter = Rewriter(self.file, frozenset(arg.arg for arg in self.parameters + self.stars))
        liveness.annotate(tree.body)
        self.bound = {name: node.lineno for name, node in liveness.assigned(tree.body).items()}
        body = rewriter.body(tree.body)
        self.code = _compile(tree, body, original, self.extra)
        adopt(self.code, text)

    def run_with(self, fn: FunctionType, helper: Any, scope: dict[str, Any] | None = None) -> FunctionType:
        """The rewritten function with the variables that `fn` sees; `helper` is its `__tl`, `scope` has names
        of the functions around it, for annotations."""
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        cells[HELPER] = CellType(helper)
        for name in self.extra:
            found = [names[name] for names in (scope or {}, fn.__globals__, vars(builtins)) if name in names]
            cells[name] = CellType(*found[:1])
        for name in self.code.co_freevars:  # its own name, where it is a global of the file
            if name not in cells:
                cells[name] = CellType(*[fn.__globals__[name]] if name in fn.__globals__ else [])
        closure = tuple([cells[name] for name in self.code.co_freevars])
        new = FunctionType(self.code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        new.__kwdefaults__ = fn.__kwdefaults__
        return new


def _mangle(tree: ast.FunctionDef, code: CodeType) -> None:
    """Give private names of a class (`self.__m`) the form that Python gives them there (`self._Class__m`)."""
    codes, private = [code], {}
    for part in codes:
        codes += [const for const in part.co_consts if isinstance(const, CodeType)]
        for name in (*part.co_names, *part.co_varnames, *part.co_freevars, *part.co_cellvars):
            if name[:1] == "_" and "__" in name[2:] and not name.startswith("__"):
                private[name[name.index("__", 2) :]] = name
    for node in ast.walk(tree) if private else ():
        for field in ("id", "attr", "arg"):
            if getattr(node, field, None) in private:
                setattr(node, field, private[getattr(node, field)])


def names_outside(tree: ast.FunctionDef, code: CodeType) -> tuple[str, ...]:
    """The names in annotations of a function's body that Python did not take along when it made the function,
    as it does not evaluate them (with `from __future__ import annotations`)."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            found |= liveness.reads(node.annotation)
    return tuple(sorted(found - {*code.co_varnames, *code.co_cellvars, *code.co_freevars}))


def _compile(
    tree: ast.FunctionDef, body: list[ast.stmt], original: CodeType, extra: tuple[str, ...]
) -> CodeType:
    args = tree.args

    def bare(given: list[ast.arg]) -> list[ast.arg]:
        return [at_place_of(ast.arg(arg.arg, None), arg) for arg in given]

    parameters = ast.arguments(
        posonlyargs=bare(args.posonlyargs),
        args=bare(args.args),
        vararg=args.vararg and bare([args.vararg])[0],
        kwonlyargs=bare(args.kwonlyargs),
        kw_defaults=[None] * len(args.kwonlyargs),
        kwarg=args.kwarg and bare([args.kwarg])[0],
        defaults=[],
    )
    inner = ast.FunctionDef(name=tree.name, args=parameters, body=body, decorator_list=[])
    outside = [at_place_of(ast.arg(name), tree) for name in (HELPER, *original.co_freevars, *extra)]
    none = ast.arguments(posonlyargs=[], args=outside, kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="make", args=none, body=[at_place_of(inner, tree)], decorator_list=[])
    module = ast.Module([at_place_of(outer, tree)], [])
    inner.type_params, outer.type_params = [], []  # Python 3.12 asks for them
    code = compile(module, original.co_filename, "exec", dont_inherit=True)
    make = next(c for c in code.co_consts if isinstance(c, CodeType))
    return next(c for c in make.co_consts if isinstance(c, CodeType) and c.co_name == tree.name)


_rewritten: dict[int, Rewritten] = {}


def rewrite(fn: FunctionType) -> Rewritten:
    """The rewritten form of `fn`; made once for all functions that share its code."""
    key = id(fn.__code__)
    found = _rewritten.get(key)
    if found is None:
        found = _rewritten[key] = Rewritten(fn.__code__, *function_tree(fn))
    return found


def rewrite_kernel(fn: FunctionType) -> Rewritten:
    """The same of a function that is a kernel, not a macro."""
    found = rewrite(fn)
    if found.stars:
        raise star_of_kernel(found.file, found.stars[0])
    return found


def star_of_kernel(file: str, arg: ast.arg) -> CompileError:
    """The error of a kernel's *args or **kwargs."""
    return compile_error(
        f"a kernel names its parameters, each a tensor or a number that a call passes, but '{arg.arg}' takes "
        "any number: write one for each; a @T.macro may have *args and **kwargs",
        (file, *site_of(arg)),
    )
