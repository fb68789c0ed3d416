"""The definition of a user's function: found in its text and parsed, with the line and column numbers of the
file."""

from __future__ import annotations

import ast
import os
from types import CodeType, FunctionType

from . import same_code
from .errors import Place, RunningPlace, compile_error
from .texts import Text, adopt, candidates, is_sure


def function_tree(fn: FunctionType) -> tuple[ast.FunctionDef, Text]:
    """The definition of `fn` as an AST of its own, whose line and column numbers are those of its file, and
    the text that it stands in."""
    code, scope = fn.__code__, fn.__globals__
    other = None
    for text in candidates(code, scope):
        tree = _find(text, code)
        if not isinstance(tree, ast.FunctionDef):
            other = other or tree
        elif is_sure(code) or same_code.runs(tree, text, code, scope):
            adopt(code, text)
            return tree, text
    if isinstance(other, (ast.AsyncFunctionDef, ast.Lambda)):
        kind = "async" if isinstance(other, ast.AsyncFunctionDef) else "a lambda"
        raise compile_error(f"'{fn.__name__}' is {kind}; a kernel is written with def", _place(fn))
    raise _missing(fn)


def _missing(fn: FunctionType) -> Exception:
    file, line = fn.__code__.co_filename, fn.__code__.co_firstlineno
    if os.path.exists(file):
        return compile_error(
            f"the text of '{fn.__name__}' in {file} is not the code that runs: the file has "
            "changed since Python read it; reload the module (importlib.reload), or restart "
            "Python",
            _place(fn),
        )
    if file.startswith("<") or not file.endswith(".py"):
        return compile_error(
            f"there is no text of '{fn.__name__}', defined at line {line} of {file}, which "
            "is not a file: tilelang reads the text of a kernel; define it in a file and "
            "import that, or in a cell of a notebook",
            _place(fn),
        )
    return compile_error(
        f"the text of '{fn.__name__}' cannot be read: there is no file {file}, where Python "
        "found it; restore the file, or import the module from where it is now",
        _place(fn),
    )


def _place(fn: FunctionType) -> Place:
    code = fn.__code__
    line = code.co_firstlineno
    return RunningPlace((code.co_filename, line, 1, line, 1), code, fn.__globals__)


def _find(text: Text, code: CodeType) -> ast.AST | None:
    if code.co_firstlineno > len(text.lines):
        return None
    return _match(_parse_block(text.lines, code), code) or _match(_parsed(text.joined()), code)


def _match(tree: ast.AST | None, code: CodeType) -> ast.AST | None:
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            return node
    return None


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _parse_block(lines: list[str], code: CodeType) -> ast.AST | None:
    """Only the function's own lines: a long file costs no more than a short one."""
    first = code.co_firstlineno - 1
    indent = _indent(lines[first])
    last = max((line for _, _, line in code.co_lines() if line), default=first + 1)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            last = max(last, *(line for _, _, line in const.co_lines() if line))
    while last < len(lines) and (not lines[last].strip() or _indent(lines[last]) > indent):
        last += 1
    block = "\n".join(line.rstrip("\n") for line in lines[first:last])
    lead = "\n" * (first - 1) + "if 1:\n" if indent else "\n" * first
    return _parsed(lead + block)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
