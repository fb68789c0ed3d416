"""Does a text say what a code object does?  What its definition compiles to is compared with the code: the
instructions, the constants, the names and the lines.

A function compiled alone lacks what stands around it, so the names that it takes from there become parameters
of a function around it.  Where that is not enough (names of a class, a tool that rewrites modules when they
are imported) the whole text is compiled as its module was."""

from __future__ import annotations
import __future__

import ast
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .texts import Text

_FUTURE = sum(
    {
        getattr(__future__, name).compiler_flag
        for name in __future__.all_feature_names
        if getattr(__future__, name).mandatory is None
        or getattr(__future__, name).compiler_flag >= __future__.division.compiler_flag
    }
)
_NAMES = """
    co_name co_argcount co_posonlyargcount co_kwonlyargcount co_varnames co_names co_freevars
    co_cellvars co_code
""".split()


def runs(node: ast.FunctionDef, text: Text, code: CodeType, scope: dict[str, Any]) -> bool:
    """Whether `code` is what the definition `node` in `text` compiles to."""
    alone = _compiled(lambda: _wrapped(node, code, scope), code)
    return any(_is_same(made, code) for made in _nested(alone, code)) or is_in(text, code, scope)


def is_in(text: Text, code: CodeType, scope: dict[str, Any]) -> bool:
    """Whether `code` is a part of what the whole text compiles to."""
    return any(
        _is_same(made, code)
        for make in (_by_loader, _by_pytest, _plainly)
        for made in _nested(_whole(make, text, code, scope), code)
    )


def _whole(make: Any, text: Text, code: CodeType, scope: dict[str, Any]) -> CodeType | None:
    """The whole text, compiled; once, because each error of a kernel may ask for it."""
    key = (make, code.co_filename, code.co_flags & _FUTURE, id(scope.get("__loader__")))
    if key not in text.compiled:
        made = _compiled(lambda: make(text, code, scope), code)
        if made is None:
            return None
        text.compiled[key] = made
    return text.compiled[key]


def _compiled(make: Any, code: CodeType) -> CodeType | None:
    try:
        tree = make()
        if tree is None or isinstance(tree, CodeType):
            return tree
        return compile(tree, code.co_filename, "exec", flags=code.co_flags & _FUTURE, dont_inherit=True)
    except Exception:  # not Python, or not what a tool of somebody else's expects: no evidence
        return None


def _wrapped(node: ast.FunctionDef, code: CodeType, scope: dict[str, Any]) -> ast.Module:
    """The definition in a function whose parameters are the names that it takes from around itself, below the
    imports of the module: Python calls `T.copy` in another way where T is imported."""
    place = dict(lineno=node.lineno, col_offset=0, end_lineno=node.lineno, end_col_offset=0)
    outside = [ast.arg(name, None, **place) for name in code.co_freevars]
    args = ast.arguments(posonlyargs=[], args=outside, kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef(name="make", args=args, body=[node], decorator_list=[], **place)
    outer.type_params = []  # Python 3.12 asks for them
    names = [name for name in sorted(_names_of(code)) if _is_imported(name, scope)]
    imported = [ast.alias(name, None, **place) for name in names]
    return ast.Module([*([ast.Import(imported, **place)] if imported else []), outer], [])


def _names_of(code: CodeType) -> set[str]:
    inner = [_names_of(const) for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names}.union(*inner)


def _is_imported(name: str, scope: dict[str, Any]) -> bool:
    value = scope.get(name)
    home = getattr(value, "__module__", None) if isinstance(value, (type, FunctionType)) else None
    return isinstance(value, ModuleType) or home not in (None, scope.get("__name__"))


def _by_loader(text: Text, code: CodeType, scope: dict[str, Any]) -> CodeType | None:
    """By the loader of the module, which may rewrite what it loads."""
    compile_by = getattr(scope.get("__loader__"), "source_to_code", None)
    if compile_by is None or scope.get("__file__") != text.file:
        return None
    return compile_by(text.joined().encode(), text.file)


def _by_pytest(text: Text, code: CodeType, scope: dict[str, Any]) -> ast.Module | None:
    """As pytest compiles the modules of tests, whose asserts it rewrites."""
    rewriter = sys.modules.get("_pytest.assertion.rewrite")
    if rewriter is None or "@py_builtins" not in scope:
        return None
    whole = text.joined()
    tree = ast.parse(whole)
    rewriter.rewrite_asserts(tree, whole.encode(), text.file, getattr(scope["__loader__"], "config", None))
    return tree


def _plainly(text: Text, code: CodeType, scope: dict[str, Any]) -> ast.Module | None:
    return text.parsed()


def _nested(whole: CodeType | None, code: CodeType) -> Iterator[CodeType]:
    """The codes in `whole` that begin where `code` does and have its name."""
    todo = [whole] if whole is not None else []
    while todo:
        made = todo.pop()
        if made.co_name == code.co_name and made.co_firstlineno == code.co_firstlineno:
            yield made
        todo.extend(const for const in made.co_consts if isinstance(const, CodeType))


def _is_same(a: CodeType, b: CodeType) -> bool:
    if any(getattr(a, name) != getattr(b, name) for name in _NAMES):
        return False
    if not _is_same_value(a.co_consts, b.co_consts):
        return False
    return a.co_linetable == b.co_linetable or list(a.co_lines()) == list(b.co_lines())


def _is_same_value(a: Any, b: Any) -> bool:
    """Constants of code: 1, 1.0 and True are three."""
    if a.__class__ is not b.__class__:
        return False
    if isinstance(a, CodeType):
        return _is_same(a, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_is_same_value, a, b))
    if isinstance(a, frozenset):
        return {(x.__class__, repr(x)) for x in a} == {(x.__class__, repr(x)) for x in b}
    if isinstance(a, str) and "<locals>" in a:  # the full name of a function, a constant before Python 3.11
        return a.rpartition(".")[2] == b.rpartition(".")[2]
    return a == b if isinstance(a, (str, bytes, int)) else repr(a) == repr(b)
