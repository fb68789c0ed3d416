"""The text of a user's function: read, cut out and parsed, with the line and column numbers of the file."""

from __future__ import annotations

import ast
import sys
from types import CodeType, FunctionType

from .errors import compile_error

_files: dict[str, list[str]] = {}


def lines_of(file: str) -> list[str]:
    """The lines of a file (or of a notebook cell that linecache knows); empty where there is no text."""
    if file not in _files:
        lines = _read(file)
        if lines is None:
            cache = sys.modules.get("linecache")
            entry = cache.cache.get(file) if cache else None
            return entry[2] if entry is not None and len(entry) > 2 else []
        _files[file] = lines
    return _files[file]


def _read(file: str) -> list[str] | None:
    try:
        try:
            with open(file, encoding="utf-8") as stream:
                return stream.read().split("\n")
        except UnicodeDecodeError:
            import tokenize

            with tokenize.open(file) as stream:
                return stream.read().split("\n")
    except (OSError, SyntaxError):
        return None


def function_tree(fn: FunctionType) -> ast.FunctionDef:
    """The definition of `fn` as an AST whose line and column numbers are those of its file."""
    code = fn.__code__
    tree = _find(code)
    if tree is None:
        _files.pop(code.co_filename, None)  # perhaps the file was edited since we read it
        tree = _find(code)
    if isinstance(tree, ast.FunctionDef):
        return tree
    place = (code.co_filename, code.co_firstlineno, 1, code.co_firstlineno, 1)
    if tree is not None:
        raise compile_error(f"'{fn.__name__}' is {_kinds.get(type(tree), 'not a function')}; a kernel is "
                            "written with def", place)
    if lines_of(code.co_filename):
        raise compile_error(f"the text of '{fn.__name__}' in {code.co_filename} is not what is running: the "
                            "file has changed since it was imported", place)
    raise compile_error(f"no source text of '{fn.__name__}' (defined in {code.co_filename}): tilelang reads "
                        "the text of a kernel; define it in a file", None)


_kinds = {ast.AsyncFunctionDef: "async", ast.Lambda: "a lambda"}


def _find(code: CodeType) -> ast.AST | None:
    lines = lines_of(code.co_filename)
    if not lines or code.co_firstlineno > len(lines):
        return None
    return _match(_parse_block(lines, code), code) or _match(_parse_file(lines), code)


def _match(tree: ast.AST | None, code: CodeType) -> ast.AST | None:
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if code.co_firstlineno in (first, node.lineno):
                return node
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno:
            return node
    return None


def _parse_file(lines: list[str]) -> ast.AST | None:
    try:
        return ast.parse("\n".join(line.rstrip("\n") for line in lines))
    except SyntaxError:
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
    try:
        return ast.parse(lead + block)
    except SyntaxError:
        return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
