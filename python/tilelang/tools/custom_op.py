"""Kernels as PyTorch operators: `tilelang.custom_op`, which torch.compile, autograd and CUDA graphs know."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ..front.errors import caller_place, compile_error, kind_of
from ..front.misuse import suggesting
from ..front.source import function_tree
from ..jit.dispatch import EagerImpl
from ..jit.eager import annotates_tensor
from ..jit.kernel import JITKernel
from ..jit.lookahead import own_nodes

_TYPES = {bool: "bool", int: "int", float: "float", str: "str"}


@suggesting
def custom_op(
    name: str,
    kernel: Any = None,
    *,
    mutates_args: str | Sequence[str] | None = None,
    device_types: str | Sequence[str] | None = None,
) -> Any:
    """Make a kernel a PyTorch operator, which torch.compile(fullgraph=True) takes as it is.

    name: "mylib::matmul".  kernel: a compiled kernel (of tilelang.compile, or a factory's), or an eager one,
    `@tilelang.jit` on the kernel itself; left out, this decorates one.  mutates_args: the tensors among the
    arguments that the kernel writes; of a compiled kernel it is known.  device_types: "cuda", "cpu" or both;
    all if left out.

    The result is PyTorch's own torch.library.CustomOpDef: it is called as the kernel is, and
    op.register_autograd(backward, setup_context=…) gives it a backward.  Shapes of outputs come from the
    kernel's annotations, so that fake tensors need no GPU.  CompileError for what has no such form: outputs
    that are arguments, parameters that PyTorch's schemas have no type for."""
    if kernel is None:
        return lambda k: custom_op(name, k, mutates_args=mutates_args, device_types=device_types)
    if isinstance(kernel, JITKernel):
        op = _OfKernel(kernel)
    elif isinstance(kernel, EagerImpl):
        op = _OfEager(kernel)
    else:
        raise _mistake(
            f"custom_op takes a compiled kernel or an eager one, not {kind_of(kernel)}"
            + ("; call the factory first" if callable(kernel) else "")
        )
    import torch

    given = [mutates_args] if isinstance(mutates_args, str) else mutates_args
    op.written = frozenset(op.known_writes() if given is None else given)
    unknown = op.written - {row[0] for row in op.rows}
    if unknown:
        raise _mistake(
            f"custom_op: mutates_args names '{min(unknown)}', but {op.name} has the arguments "
            f"{', '.join(row[0] for row in op.rows)}"
        )
    made = torch.library.custom_op(
        name, op.run, mutates_args=op.written, device_types=device_types, schema=op.schema()
    )
    made.register_fake(op.fake)
    return made


def _mistake(text: str) -> Exception:
    return compile_error(text, caller_place())


class _Op:
    """A kernel as PyTorch sees it.  rows: of each argument its name, type and default ("" for none)."""

    name: str
    rows: list[tuple[str, str, str]]
    count: int  # of the outputs
    written: frozenset[str]

    def schema(self) -> str:
        """Of the operator: "(Tensor A, Tensor(a0!) B, int n=2) -> Tensor"."""
        parts = []
        for i, (name, kind, default) in enumerate(self.rows):
            kind = kind.replace("Tensor", f"Tensor(a{i}!)") if name in self.written else kind
            parts.append(f"{kind} {name}" + (f"={default}" if default else ""))
        outputs = "Tensor" if self.count == 1 else f"({', '.join(['Tensor'] * self.count)})"
        return f"({', '.join(parts)}) -> {outputs}"

    def kernel_for(self, args: tuple) -> JITKernel:
        """The kernel of a call."""
        raise NotImplementedError

    def fake(self, *args: Any, **kwargs: Any) -> Any:
        """Outputs without elements, of the right shapes."""
        import torch

        args = (*args, *[kwargs[name] for name, *_ in self.rows[len(args) :] if name in kwargs])
        kernel = self.kernel_for(args)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        sizes: dict[str, Any] = {}
        inputs = [kernel.params[i] for i in kernel._inputs]
        by_name = dict(zip([row[0] for row in self.rows], args, strict=False))
        for param in inputs:
            value = by_name.get(param.name)
            if param.is_tensor and value is not None:
                sizes.update(
                    (n, extent)
                    for n, extent in zip(param.shape, value.shape, strict=True)
                    if isinstance(n, str) and n.isidentifier()
                )
            elif value is not None:
                sizes[param.name] = value
        made = [
            torch.empty(
                [_extent(n, sizes) for n in kernel.params[i].shape],
                dtype=kernel.params[i].dtype.as_torch(),
                device=tensors[0].device if tensors else kernel.device_type,
            )
            for i in self.returned(kernel)
        ]
        return made[0] if self.count == 1 else tuple(made) if made else None

    def returned(self, kernel: JITKernel) -> list[int]:
        """The parameters of the kernel that are its outputs, in order."""
        return kernel._outputs


def _extent(n: Any, sizes: dict[str, Any]) -> Any:
    """An extent as a number, from a parameter's text, "m*2 + 4"."""
    return n if isinstance(n, int) else eval(n, {"__builtins__": {}, "min": min, "max": max}, sizes)


class _OfKernel(_Op):
    """A compiled kernel."""

    def __init__(self, kernel: JITKernel) -> None:
        self.kernel, self.name, self.count = kernel, kernel._func.name, len(kernel._outputs)
        self.rows = []
        for param in (kernel.params[i] for i in kernel._inputs):
            kind = "float" if param.dtype.is_float else "bool" if param.dtype == "bool" else "int"
            kind = "Tensor" if param.is_tensor else kind
            self.rows.append((param.name, kind, ""))

    def known_writes(self) -> list[str]:
        """The arguments that the kernel writes."""
        k = self.kernel
        return [k.params[i].name for i in k._inputs if k._kernel.written[i]]

    def run(self, *args: Any) -> Any:
        """The operator."""
        made = self.kernel(*args)
        return tuple(made) if isinstance(made, list) else made

    def kernel_for(self, args: tuple) -> JITKernel:
        return self.kernel


class _Checked(EagerImpl):
    """An eager kernel whose compilations are looked at."""

    def _compile(self, args: tuple, constants: dict[str, int]) -> tuple[JITKernel, tuple]:
        kernel, reads = super()._compile(args, constants)
        self.check(kernel)
        return kernel, reads


class _OfEager(_Op):
    """An eager kernel, compiled for the arguments of each call."""

    def __init__(self, impl: EagerImpl) -> None:
        self.impl = _Checked(
            impl.func, impl.settings, impl._scope, [impl._names[i] for i in impl._runtime], impl._in_body
        )
        self.impl.check = self._check
        self.name = impl.func.__name__
        tree = function_tree(impl.func)[0]
        self.count = _returned(tree, self.name)
        numbers = _numbers(tree, impl)
        self.rows = [self._row(i, name, numbers) for i, name in enumerate(impl._names)]

    def _row(self, i: int, name: str, numbers: dict[str, str]) -> tuple[str, str, str]:
        impl = self.impl
        has_default, default = name in impl._defaults, impl._defaults.get(name)
        if i in impl._runtime:
            kind = numbers.get(name, "Tensor")
            return name, kind + "?" * (i in impl._optional), "None" * (has_default and default is None)
        annotated = impl.func.__annotations__.get(name)
        annotated = {kind.__name__: kind for kind in _TYPES}.get(annotated, annotated)
        kind = next((k for k in _TYPES if annotated is k), type(default) if has_default else None)
        if isinstance(default, str):
            kind = str  # a dtype is its name
        if kind not in _TYPES:
            raise _mistake(
                f"custom_op: nothing says which type the argument '{name}' of {self.name} has: "
                f"annotate it, {name}: int (or float, bool, str), or give it a default of such "
                "a type"
            )
        text = repr(str(default)).replace("'", '"') if kind is str else repr(default)
        return name, _TYPES[kind], text if has_default else ""

    def known_writes(self) -> list[str]:
        """Unknown until a kernel is compiled: _check compares."""
        return []

    def run(self, *args: Any) -> Any:
        """The operator."""
        made = self.impl(*args)
        return made[0] if self.count == 1 and isinstance(made, tuple) else made

    def kernel_for(self, args: tuple) -> JITKernel:
        import torch

        def settled(x: Any) -> Any:
            """A fake tensor whose extents are numbers: each shape has a kernel of its own."""
            if not isinstance(x, torch.Tensor) or all(type(n) is int for n in (*x.shape, *x.stride())):
                return x
            return torch.empty_strided(
                [int(n) for n in x.shape], [int(n) for n in x.stride()], dtype=x.dtype, device=x.device
            )

        return self.impl.compile(*[settled(a) for a in args])

    def _check(self, kernel: JITKernel) -> None:
        """An error if a kernel writes what PyTorch has not been told of."""
        results = kernel._func.results
        passed = [item for item in results.items if isinstance(item, str)] if results else []
        if passed:
            raise _mistake(
                f"custom_op: {self.name} returns its argument {passed[0]}, but an operator of "
                "PyTorch returns new tensors only: return nothing, and name it in mutates_args"
            )
        for i in kernel._inputs:
            name = kernel.params[i].name
            if kernel._kernel.written[i] and name not in self.written:
                raise _mistake(
                    f"custom_op: {self.name} writes its argument {name}, but mutates_args does "
                    f"not name it: custom_op(…, mutates_args=({name!r},))"
                )

    def returned(self, kernel: JITKernel) -> list[int]:
        results = kernel._func.results
        if results is None:
            return []
        places = {param.name: i for i, param in enumerate(kernel.params)}
        return [places[results.outputs[item]] for item in results.items]


def _returned(tree: ast.FunctionDef, name: str) -> int:
    """How many tensors an eager function returns."""
    given = [n.value for n in own_nodes(tree) if isinstance(n, ast.Return) and n.value is not None]
    counts = {len(value.elts) if isinstance(value, (ast.Tuple, ast.List)) else 1 for value in given}
    if len(counts) > 1:
        raise _mistake(
            f"custom_op: {name} returns {' or '.join(map(str, sorted(counts)))} tensors, but an "
            "operator of PyTorch always as many"
        )
    return counts.pop() if counts else 0


def _numbers(tree: ast.FunctionDef, impl: EagerImpl) -> dict[str, str]:
    """The arguments of each launch that are no tensors, by the annotations of the signature and the body."""
    kinds = dict(impl.func.__annotations__)
    parameters = (*tree.args.args, *tree.args.kwonlyargs)
    texts = {a.arg: ast.unparse(a.annotation) for a in parameters if a.annotation}
    texts |= {
        node.target.id: ast.unparse(node.annotation)
        for node in own_nodes(tree)
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
    }
    found = {}
    for name in (impl._names[i] for i in impl._runtime):
        kind, text = kinds.get(name), texts.get(name, "")
        if not (annotates_tensor(kind) or "Tensor" in text or "Buffer" in text):
            found[name] = "bool" if "bool" in text else "float" if "float" in text else "int"
    return found
