"""The text that is compiled is that of the function that runs, or there is an error: modules that are edited,
reloaded, swapped and executed, with every edit in every way.
"""

import importlib
import importlib.util
import itertools
import linecache
import os
import subprocess
import sys
import textwrap
import types

import numpy as np
import pytest
import tilelang
import tilelang.language as T

HEAD = "import tilelang\nimport tilelang.language as T\n"
LAZY = """\
{pragma}
def shown(x):
    return x

# a comment
@tilelang.jit(out_idx=-1, target="reference")
def factory(n):
    scale = {closed}
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * {constant} + scale
    return main
"""
UNDECORATED = LAZY.replace('@tilelang.jit(out_idx=-1, target="reference")\n', "")
EAGER = """\
{pragma}
@tilelang.jit(target="reference")
def factory(A):
    n = T.const("n")
    A: T.Tensor((n,), {dtype})
    B = T.empty((n,), {dtype})
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i] * {constant} + {closed}
    return B
"""
MACRO = """\
{pragma}
@T.macro
def put(B, i, x):
    B[i] = x * {constant} + {closed}

@tilelang.jit(out_idx=-1, target="reference")
def factory(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                put(B, i, A[i])
    return main
"""
TWO = """\
{pragma}
def {first}(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * {constant} + {closed}
    return main

def {second}(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 100.0 + {closed}
    return main
"""
KINDS = {"lazy": LAZY, "undecorated": UNDECORATED, "eager": EAGER, "macro": MACRO, "two": TWO}
USUAL = dict(pragma="", constant="2.0", closed="1.0", dtype="'float32'", first="factory", second="other")
EDITS = {
    "nothing": {},
    "a constant": {"constant": "3.0"},
    "a constant of the same length and time": {"constant": "5.0", "keep_time": True},
    "an integer for a number": {"constant": "2"},
    "a line above": {"pragma": "import os"},
    "many lines above": {"pragma": "\n" * 9},
    "a comment": {"pragma": "# other"},
    "a comment above": {"pragma": "# other\n# lines"},
    "the closure": {"closed": "7.0"},
    "the order of two": {"first": "other", "second": "factory"},
    "an operator": {"constant": "2.0 - -2.0"},
    "a dtype": {"dtype": "'float64'"},
}
_count = itertools.count()


def text_of(kind, **changes):
    return HEAD + KINDS[kind].format(**{**USUAL, **{k: v for k, v in changes.items() if k in USUAL}})


class Module:
    """A module in a temporary folder, which is edited."""

    def __init__(self, folder, monkeypatch, kind):
        self.name, self.kind = f"edited_{next(_count)}", kind
        self.path = folder / f"{self.name}.py"
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self.write(text_of(kind))

    def write(self, text, keep_time=False):
        old = os.stat(self.path).st_mtime_ns if keep_time else None
        self.path.write_text(text)
        if keep_time:
            os.utime(self.path, ns=(old, old))

    def edit(self, changes):
        self.write(text_of(self.kind, **changes), changes.get("keep_time", False))

    def load(self):
        importlib.invalidate_caches()
        return importlib.import_module(self.name)


def result(module, kind, dtype="float32"):
    made = module.factory if kind == "eager" else module.factory(4)
    if kind in ("undecorated", "two"):
        made = tilelang.compile(made, out_idx=-1, target="reference")
    return made(np.ones(4, dtype))[0]


def wanted(kind, changes):
    if changes.get("first") == "other" and kind == "two":
        return 101.0
    values = {**USUAL, **changes}
    return eval(values["constant"]) + eval(values["closed"])


def right_or_refused(module, kind, value):
    """The result, or an error that says what to do and quotes no other text."""
    try:
        assert result(module, kind) == value
    except tilelang.CompileError as error:
        assert "has changed since Python read it" in error.text and "reload the module" in error.text
        assert module.__name__ in error.file and error.line > 0
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("before", ["never called", "called"])
def test_edits_of_a_module(kind, edit, before, tmp_path, monkeypatch):
    changes, file = EDITS[edit], Module(tmp_path, monkeypatch, kind)
    module = file.load()
    old = types.SimpleNamespace(**vars(module))
    if before == "called":
        assert result(module, kind) == 3.0
    file.edit(changes)
    assert right_or_refused(old, kind, 3.0) or (before, kind) in (
        ("never called", "undecorated"),
        ("never called", "two"),
    )
    if changes.get("keep_time"):
        importlib.invalidate_caches()
    module = importlib.reload(module)
    dtype = changes.get("dtype", "'float32'").strip("'") if kind == "eager" else "float32"
    assert result(module, kind, dtype) == wanted(kind, changes)
    after = wanted(kind, changes) if kind == "macro" else 3.0  # the macro is looked up in the module
    assert right_or_refused(old, kind, after) or before == "never called"
    file.edit({})
    module = importlib.reload(module)
    assert result(module, kind) == 3.0


def test_a_shape_that_is_only_annotated(tmp_path, monkeypatch):
    """An annotation in a body leaves no trace in the code: the text at the time of the definition counts."""
    file = Module(tmp_path, monkeypatch, "eager")
    module = file.load()
    file.edit({"dtype": "'float64'"})
    assert module.factory(np.ones(4, np.float32)).dtype == np.float32
    assert importlib.reload(module).factory(np.ones(4)).dtype == np.float64


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("kind", KINDS)
def test_cells(kind, edit):
    """Cells of a notebook: text that linecache knows by a name that is no file; edited and run again."""
    name = f"<cell {next(_count)}>"

    def run(text):
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        scope = {"__name__": "__main__"}
        exec(compile(text, name, "exec"), scope)
        return types.SimpleNamespace(**scope)

    changes = EDITS[edit]
    old = run(text_of(kind))
    new = run(text_of(kind, **changes))
    dtype = changes.get("dtype", "'float32'").strip("'") if kind == "eager" else "float32"
    assert result(new, kind, dtype) == wanted(kind, changes)
    try:
        assert result(old, kind) == 3.0
    except tilelang.CompileError as error:
        assert "there is no text of" in error.text or "reload" in error.text


def test_a_file_that_is_gone(tmp_path, monkeypatch):
    decorated, plain = (Module(tmp_path, monkeypatch, kind) for kind in ("lazy", "undecorated"))
    modules = decorated.load(), plain.load()
    decorated.path.unlink(), plain.path.unlink()
    assert result(modules[0], "lazy") == 3.0
    with pytest.raises(tilelang.CompileError, match="there is no file .*; restore the file"):
        result(modules[1], "undecorated")


WRONG = (
    HEAD
    + """\
def factory(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, A, {option}=1)
            {what}
    return main
"""
)


def test_errors_quote_the_text_that_runs(tmp_path, monkeypatch):
    """Those of the front, of the compiler and of a compilation that comes later."""
    file = Module(tmp_path, monkeypatch, "lazy")
    file.write(WRONG.format(option="no_such_option", what="pass"))
    old = file.load()
    with pytest.raises(tilelang.CompileError, match="no_such_option=1"):
        old.factory(4)
    file.write(WRONG.format(option="other_option__", what="pass"))
    with pytest.raises(tilelang.CompileError) as caught:
        old.factory(4)
    assert "other_option__" not in str(caught.value)
    with pytest.raises(tilelang.CompileError, match="other_option__=1"):
        importlib.reload(old).factory(4)


LATE = (
    HEAD
    + """\
@T.prim_func
def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=96):
        S = T.alloc_shared((64, 64), "float16")
        F = T.alloc_fragment((64, 64), "float32")
        T.gemm(S, S, F)  # {mark}
        T.annotate_layout({{F: T.Fragment((64, 64), lambda i, j: i * 64 + j, lambda i, j: j)}})
"""
)


def test_errors_of_a_later_compilation_quote_it_too(tmp_path, monkeypatch):
    file = Module(tmp_path, monkeypatch, "lazy")
    file.write(LATE.format(mark="first"))
    try:
        old = file.load().main
    except tilelang.CompileError as error:
        assert "F" in str(error)
        return
    file.write(LATE.format(mark="other"))
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(old, target="sim:sm_80")
    assert "other" not in str(caught.value)


def test_ordinary_code_is_quoted_only_if_it_is_that_code(tmp_path, monkeypatch):
    file = Module(tmp_path, monkeypatch, "lazy")
    file.write(HEAD + "def f():\n    T.alloc_shared((3,), 'float32')\n")
    module = file.load()
    with pytest.raises(tilelang.CompileError, match="alloc_shared..3,., 'float32'.\n"):
        module.f()
    file.write(HEAD + "def f():\n    print('something else')\n")
    with pytest.raises(tilelang.CompileError) as caught:
        module.f()
    assert "something else" not in str(caught.value)


PROGRAM = """\
import numpy as np, tilelang, tilelang.language as T
@tilelang.jit(target="reference")
def scale(A: T.Tensor((4,), "float32")):
    B = T.empty((4,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            B[i] = A[i] * 2
    return B
print(scale(np.ones(4, np.float32))[0])
"""


@pytest.mark.parametrize("way", ["-c", "stdin", "exec"])
def test_text_without_a_file(way):
    program = f"exec({PROGRAM!r})" if way == "exec" else PROGRAM
    command = [sys.executable, "-c", program] if way != "stdin" else [sys.executable, "-"]
    run = subprocess.run(command, input=PROGRAM if way == "stdin" else None, capture_output=True, text=True)
    if run.returncode == 0:  # Python 3.13 keeps the text
        assert way == "-c" and run.stdout == "2.0\n"
        return
    name = "<stdin>" if way == "stdin" else "<string>"
    assert f"{name}:2:1: error: there is no text of 'scale', defined at line 2 of {name}" in run.stderr
    assert "define it in a file and import that" in run.stderr


def test_factories_without_a_file_say_so():
    scope = {}
    exec(text_of("lazy"), scope)
    with pytest.raises(tilelang.CompileError, match=r"<string>:\d+:1: error: there is no text of 'main'"):
        scope["factory"](4)
    with pytest.raises(tilelang.CompileError, match="there is no text of 'put', defined at line 4"):
        exec(text_of("macro"), {})


def test_modules_in_an_archive(tmp_path, monkeypatch):
    import zipfile

    name = f"edited_{next(_count)}"
    with zipfile.ZipFile(tmp_path / "kernels.zip", "w") as archive:
        archive.writestr(f"{name}.py", text_of("lazy"))
    monkeypatch.syspath_prepend(str(tmp_path / "kernels.zip"))
    assert result(importlib.import_module(name), "lazy") == 3.0


def test_a_loader_that_rewrites_modules(tmp_path):
    """A text counts as a code's own if the loader of its module makes that code of it."""
    path = tmp_path / "rewritten.py"
    path.write_text(text_of("lazy"))

    class Loader(importlib.machinery.SourceFileLoader):
        def source_to_code(self, data, path, **_):
            import ast

            tree = ast.parse(data)
            for node in ast.walk(tree):
                if isinstance(node, ast.FunctionDef):
                    node.body.insert(0, ast.copy_location(ast.Expr(ast.Name("T", ast.Load())), node.body[0]))
            return compile(ast.fix_missing_locations(tree), path, "exec")

    def load(loader):
        spec = importlib.util.spec_from_loader("rewritten", loader("rewritten", str(path)))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    assert result(load(Loader), "lazy") == 3.0


def test_errors_compile_the_whole_text_once(tmp_path):
    """To quote their line, each asks whether the text is what runs; a module may be long."""
    path = tmp_path / "counted.py"
    path.write_text("import tilelang.language as T\ndef wrong():\n    T.Layout((2, 2), lambda i: i)\n")
    compiled = []

    class Loader(importlib.machinery.SourceFileLoader):
        def source_to_code(self, data, path, **_):
            compiled.append(path)
            return compile(data, path, "exec")

    spec = importlib.util.spec_from_loader("counted", Loader("counted", str(path)))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del compiled[:]
    for _ in range(3):
        with pytest.raises(tilelang.CompileError, match=r"\n +T.Layout\(\(2, 2\), lambda i: i\)\n"):
            module.wrong()
    assert len(compiled) == 1


def test_asserts_that_pytest_rewrites():
    @tilelang.jit(out_idx=-1, target="reference")
    def factory(n):
        @T.prim_func
        def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            assert n > 2, "too short"
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    assert n < 100
                    B[i] = A[i] * 2

        return main

    assert factory(4)(np.ones(4, np.float32))[0] == 2


def test_every_form_of_a_definition_is_recognised(tmp_path):
    """Closures, private names of classes, future imports, encodings, nested functions, defaults."""
    text = """\
    # -*- coding: latin-1 -*-
    from __future__ import annotations
    import tilelang
    import tilelang.language as T
    from functools import wraps as _wraps

    def around(a, b=(1, 2.0, -0.0, True, None), *, c=frozenset({1, 2})):
        é = 'ü'
        def twice(f):
            return f
        class Inner:
            __k = 2.0
            def make(self, n=8):
                __k = self.__k
                @twice
                @twice
                def plain(x): return x + a + __k
                @T.prim_func
                def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
                    '''Doc.'''
                    with T.Kernel(1, threads=32):
                        for i in T.Parallel(n):
                            f = lambda x: [x * __k for _ in (1,)][0] if 1 in {1, 2} else x
                            B[i] = f(A[i]) + plain(0.0) + b[1] + len(é) + len(Inner.__name__) * 0
                return main
        return Inner().make()
    """
    path = tmp_path / "forms.py"
    path.write_bytes(textwrap.dedent(text).encode("latin-1"))
    spec = importlib.util.spec_from_file_location("forms", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel = tilelang.compile(module.around(10.0), out_idx=-1, target="reference")
    assert kernel(np.ones(8, np.float32))[0] == 2 + 12 + 2 + 1
