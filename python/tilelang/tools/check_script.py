"""`python -m tilelang check SCRIPT …`: which names and forms of a script would fail here, without running it.

The script is read, not imported.  What is looked at: imports from tilelang and the names taken from them, the
keywords and the number of arguments of calls, dtypes, targets and pass configurations that are written as
texts, and statements that have no meaning in a kernel.  What only values decide (shapes, layouts, types of
operands) is not; `python -m tilelang sim` runs a script without a GPU and finds that."""

from __future__ import annotations

import argparse
import ast
import contextlib
import enum
import functools
import inspect
import sys
import tokenize
from importlib import import_module
from types import ModuleType
from typing import Any

from ..front import liveness
from ..front.annotations import Tensor
from ..front.dtypes import as_dtype, element_of
from ..front.errors import CompileError, compile_error
from ..front.parse import Rewriter, site_of
from ..front.rewritten import star_of_kernel
from ..front.texts import Text, show
from ..jit.config import check_backend, unknown_key
from ..jit.kernel import resolve_target
from ..language.lower_level import SCOPES
from ..language.tile import no_such_scope

_TOPS = ("tilelang", "tvm")
_MACROS = ("macro", "inline")
_GIVE_HANDLES = ("reinterpret", "tvm_thread_allreduce", "call_extern", "call_pure_extern", "call_intrin")


class Checker(ast.NodeVisitor):
    """The faults of one script, in `faults`: errors as the compiler words them, at their places."""

    def __init__(self, file: str, text: str) -> None:
        show(Text(file, text.split("\n")))  # what the errors quote
        self.file, self.faults = file, []
        self.known: dict[str, Any] = {}  # names of the script -> what they mean in tilelang
        self.own: set[str] = set()  # names that the script binds otherwise, too
        try:
            tree = ast.parse(text, file)
        except SyntaxError as error:
            place = (file, error.lineno or 1, error.offset or 1, error.lineno or 1, error.end_offset or 2)
            self.faults.append(compile_error(f"this is not Python: {error.msg}", place))
            return
        self._names_bound(tree)
        self.visit(tree)

    def fault(self, text: str, node: ast.AST) -> None:
        """Note an error at a node."""
        self.faults.append(compile_error(text, (self.file, *site_of(node))))

    def _names_bound(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.own.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.own.add(node.name)
            elif isinstance(node, ast.arg):
                self.own.add(node.arg)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top = alias.name.partition(".")[0]
            if top in _TOPS and self._module(alias.name, node) is not None:
                bound = alias.name if alias.asname else top
                self.known[alias.asname or top] = _attribute_path(bound)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or (node.module or "").partition(".")[0] not in _TOPS:
            return
        module = self._module(node.module, node)
        for alias in node.names if module is not None else ():
            if alias.name == "*":
                self.known.update({name: getattr(module, name) for name in getattr(module, "__all__", ())})
                continue
            found = self._member(module, alias.name, node.module, alias)
            if found is not None:
                self.known[alias.asname or alias.name] = found

    def visit_Try(self, node: ast.Try) -> None:
        before = len(self.faults)
        for stmt in node.body:
            self.visit(stmt)
        if any(
            h.type is None or "Import" in ast.unparse(h.type) or "Exception" in ast.unparse(h.type)
            for h in node.handlers
        ):
            del self.faults[before:]  # the script itself sees to what is not there
        for part in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(part)

    def _module(self, name: str, node: ast.AST) -> ModuleType | None:
        try:
            return import_module(name)
        except (ImportError, CompileError) as error:
            self.fault(f"import {name}: {_words(error)}", node)
            return None

    def _member(self, owner: Any, name: str, path: str, node: ast.AST) -> Any:
        """`owner.name`, which the script calls `path.name`; None, with a fault, where there is none."""
        try:
            found = getattr(owner, name)
        except (AttributeError, CompileError) as error:
            with contextlib.suppress(ImportError, CompileError):
                return import_module(f"{path}.{name}")
            known = _words(error)
            if isinstance(owner, enum.EnumMeta):
                known = f"there is no {name} among its members, {', '.join(owner.__members__)}"
            elif known == name:
                known = "there is no such name"
            self.fault(known if name in known else f"{path}.{name}: {known}", node)
            return None
        missing = getattr(found, "missing", None)
        if isinstance(missing, str):
            self.fault(missing, node)
            return None
        return found

    def meaning(self, node: ast.AST) -> Any:
        """What an expression means in tilelang, by its name alone; None for everything else."""
        if isinstance(node, ast.Name):
            return self.known.get(node.id) if node.id not in self.own else None
        if isinstance(node, ast.Attribute):
            owner = self.meaning(node.value)
            path = ast.unparse(node.value)
            if not isinstance(owner, (ModuleType, type)) and path in sys.modules and path.startswith(_TOPS):
                owner = sys.modules[path]  # tilelang.jit is a function, and a module where one is imported
            if isinstance(owner, (ModuleType, type)):
                return self._seen(node, owner)
        return None

    def _seen(self, node: ast.Attribute, owner: Any) -> Any:
        if not hasattr(node, "meant"):  # each is looked up, and its fault said, once
            node.meant = self._member(owner, node.attr, ast.unparse(node.value), node)
        return node.meant

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.meaning(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = self.meaning(node.func)
        if called is not None and callable(called):
            self._check_call(called, node)
        self.generic_visit(node)

    def _check_call(self, called: Any, node: ast.Call) -> None:
        if isinstance(called, type) and issubclass(called, Tensor):
            called = functools.partial(called.__init__, None)
        try:
            signature = inspect.signature(called)
        except (TypeError, ValueError):
            return
        spread = any(isinstance(a, ast.Starred) for a in node.args) or None in [k.arg for k in node.keywords]
        named = {k.arg: k.value for k in node.keywords if k.arg is not None}
        bind = signature.bind_partial if spread else signature.bind
        plain = [a for a in node.args if not isinstance(a, ast.Starred)]
        try:
            bound = bind(*plain, **named)
        except TypeError as error:
            taken = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
            self.fault(f"{ast.unparse(node.func)}: {error}; it takes {inspect.Signature(taken)}", node)
            return
        for name, value in bound.arguments.items():
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                self._check_text(getattr(called, "__name__", ""), name, value)
            elif name == "pass_configs" and isinstance(value, ast.Dict):
                for key in value.keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        said = unknown_key(key.value)
                        if said:
                            self.fault(said, key)
                    elif key is not None:
                        self.meaning(key)

    def _check_text(self, called: str, parameter: str, node: ast.Constant) -> None:
        if parameter == "dtype" and called in _GIVE_HANDLES and node.value in ("handle", "void"):
            return
        try:
            if parameter == "dtype" and called == "reinterpret":  # also several values as one
                element_of(node.value, ())
            elif parameter == "dtype" or parameter.endswith("_dtype"):
                as_dtype(node.value)
            elif (
                parameter == "target"
                and node.value.partition(" ")[0] not in ("auto", "cuda")
                or parameter == "target"
                and "-arch=" in node.value
            ):
                resolve_target(node.value)
            elif parameter == "execution_backend":
                check_backend(node.value)
            elif parameter == "scope" and called.startswith("alloc") and node.value not in SCOPES:
                self.fault(no_such_scope(f"T.{called}", SCOPES, node.value), node)
        except CompileError as error:
            self.fault(error.text, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.generic_visit(node)
        if any(_is_kernel(decorator, node) for decorator in node.decorator_list):
            copy = ast.parse(ast.unparse(node)).body[0]
            for new, old in zip(ast.walk(copy), ast.walk(node), strict=False):
                ast.copy_location(new, old)
            liveness.annotate(copy.body)
            a = node.args
            stars = [arg for arg in (a.vararg, a.kwarg) if arg]
            parameters = frozenset(arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, *stars))
            if stars and not any(_name_of(decorator) in _MACROS for decorator in node.decorator_list):
                self.faults.append(star_of_kernel(self.file, stars[0]))
            try:
                Rewriter(self.file, parameters).body(copy.body)
            except CompileError as error:
                self.faults.append(error)


def _attribute_path(name: str) -> Any:
    """The object that `import a.b as x` binds: attribute b of a."""
    top, *rest = name.split(".")
    found = import_module(top)
    for part in rest:
        found = getattr(found, part)
    return found


def _words(error: Exception) -> str:
    return getattr(error, "text", None) or str(error)


def _name_of(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(called, "attr", getattr(called, "id", ""))


def _is_kernel(decorator: ast.expr, node: ast.FunctionDef) -> bool:
    """Whether the decorator makes the function's own text a kernel or a macro."""
    name = _name_of(decorator)
    inner = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and n is not node]
    opens = any(isinstance(n, ast.With) and "Kernel" in ast.unparse(n.items[0]) for n in node.body)
    return name in ("prim_func", *_MACROS) or name == "jit" and opens and not inner


def main(argv: list[str]) -> int:
    """Run the command: prints what would fail; 1 if anything would."""
    parser = argparse.ArgumentParser(
        "python -m tilelang check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT")
    count = 0
    scripts = parser.parse_args(argv).scripts
    for script in scripts:
        try:
            with tokenize.open(script) as f:  # in the encoding that it names
                text = f.read()
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            print(f"tilelang check: {script}: {why}", file=sys.stderr)
            return 2
        faults = sorted(Checker(script, text).faults, key=lambda fault: (fault.line, fault.column))
        count += len(faults)
        for fault in faults:
            print(fault)
    print(f"{count} fault{'s' * (count != 1)} in {len(scripts)} script{'s' * (len(scripts) != 1)}")
    return 1 if count else 0
