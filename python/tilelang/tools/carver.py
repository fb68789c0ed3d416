"""Kernels of known forms, for which a simple model (hints.py) proposes tile sizes, candidates for tuning.

Usage:
    template = MatmulTemplate(M=4096, N=4096, K=4096).with_arch(CUDA("cuda"))
    for hint in template.recommend_hints(topk=10):
        ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .. import language as T
from ..front.dtypes import as_dtype
from ..front.errors import caller_place, compile_error
from ..jit.function import PrimFunc
from . import arch as chips
from . import hints as model
from . import warpgroup_hints as warpgroups
from .arch import CUDA, TileDevice, auto_infer_current_arch
from .hints import Hint


def _of_arch(ask: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def asked(self: BaseTemplate) -> bool:
        return ask(self._arch)

    asked.__doc__ = f"{(ask.__doc__ or '').rstrip('.')}, its chip."
    return asked


class BaseTemplate:
    """A kernel of a known form: with_arch gives it a chip, recommend_hints its candidates, the best first."""

    _arch: TileDevice | None = None
    _function: PrimFunc | None = None

    def __post_init__(self) -> None:
        missing = [name for name, value in vars(self).items() if value is None and name != "_output_nodes"]
        if missing:
            raise TypeError(f"{type(self).__name__}: {', '.join(missing)} must be given")
        self.set_output_nodes(getattr(self, "_output_nodes", None))

    output_nodes = property(lambda self: [], doc="The nodes of TVM's graph that it is made of: none here.")

    def set_output_nodes(self, output_nodes: Any) -> None:
        """CompileError for any: templates here have a form of their own."""
        if output_nodes:
            raise compile_error(
                f"{type(self).__name__}: nodes of TVM's graphs are not taken; give the extents",
                caller_place(),
            )

    def with_arch(self, arch: TileDevice) -> Any:
        """This template, for that chip."""
        self._arch = arch
        return self

    arch = property(lambda self: self._arch, doc="The chip.")

    def has_arch(self) -> bool:
        """Whether it has a chip."""
        return self._arch is not None

    is_volta_arch = _of_arch(chips.is_volta_arch)
    is_ampere_arch = _of_arch(chips.is_ampere_arch)
    is_cdna_arch = _of_arch(chips.is_cdna_arch)
    is_rdna_arch = _of_arch(chips.is_rdna_arch)

    def equivalent_function(self) -> PrimFunc:
        """A plain prim_func that computes the same: inputs first, the output last."""
        if self._function is None:
            self._function = self._make()
        return self._function

    initialize_function = equivalent_function

    def set_function(self, func: PrimFunc) -> BaseTemplate:
        """From now on this is its equivalent_function."""
        self._function = func
        return self

    class_attributes = property(lambda self: self.params_as_dict(), doc="What it was made with.")

    def params_as_dict(self) -> dict[str, Any]:
        """What it was made with."""
        return asdict(self)

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """The topk candidates that the model finds fastest, of each block and step one."""
        chip = self._arch or auto_infer_current_arch()
        if not isinstance(chip, CUDA):
            raise compile_error(
                f"{type(self).__name__}: hints are for GPUs, and {chip.target} is none", caller_place()
            )
        self._check_extents()
        best: dict[tuple, Hint] = {}
        for hint in sorted(self._candidates(chip), key=lambda hint: hint.seconds):
            best.setdefault((*hint.block, *hint.rstep), hint)
        return list(best.values())[:topk]

    def _check_extents(self) -> None:
        """CompileError where there is nothing to compute; of all numbers only a padding, P, may be 0."""
        for name, value in vars(self).items():
            extents = value if isinstance(value, (list, tuple)) else [value]
            if name != "P" and any(isinstance(n, int) and not isinstance(n, bool) and n < 1 for n in extents):
                raise compile_error(
                    f"{type(self).__name__}: {name} is {value}; extents are 1 at least", caller_place()
                )

    def get_hardware_aware_configs(self, arch: TileDevice | None = None, topk: int = 10) -> list[Hint]:
        """recommend_hints for that chip."""
        return (self if arch is None else self.with_arch(arch)).recommend_hints(topk)


def _split(index: Any, extents: list[int]) -> list[Any]:
    """A number of an element, in row-major order, as its indices."""
    found = []
    for extent in reversed(extents):
        found.insert(0, index % extent)
        index = index // extent
    return found


def _fold(
    inputs: list[tuple],
    out: tuple,
    reduced: list[int],
    accum: str,
    value: Callable,
    last: Callable = lambda tensors, at, x: x,
) -> PrimFunc:
    """The prim_func that sums value(tensors, index, reduction) for each element of the output."""
    shape, total = list(out[0]), math.prod(out[0])

    @T.macro
    def body(tensors: Any, C: Any) -> None:
        with T.Kernel(T.ceildiv(total, 128), threads=128) as bx:
            acc = T.alloc_fragment((128,), accum)
            T.clear(acc)
            for r in T.serial(math.prod(reduced)):
                for e in T.Parallel(128):
                    if bx * 128 + e < total:
                        found = value(tensors, _split(bx * 128 + e, shape), _split(r, reduced))
                        acc[e] += T.cast(found, accum)
            for e in T.Parallel(128):
                if bx * 128 + e < total:
                    at = _split(bx * 128 + e, shape)
                    C[tuple(at)] = last(tensors, at, acc[e])

    kinds = [T.Tensor(shape, dtype) for shape, dtype in [*inputs, out]]
    if len(inputs) == 1:

        @T.prim_func
        def main(A: kinds[0], C: kinds[1]):
            body([A], C)
    elif len(inputs) == 2:

        @T.prim_func
        def main(A: kinds[0], B: kinds[1], C: kinds[2]):
            body([A, B], C)
    else:

        @T.prim_func
        def main(A: kinds[0], B: kinds[1], Bias: kinds[2], C: kinds[3]):
            body([A, B, Bias], C)

    return main


def _products(
    t: Any, a: list[int], b: list[int], out: list[int], reduced: list[int], value: Callable
) -> PrimFunc:
    """A sum of products, with a bias along the last dimension where the template says so."""
    inputs = [(a, t.in_dtype), (b, t.in_dtype), *([([out[-1]], t.out_dtype)] if t.with_bias else [])]
    last = lambda tensors, at, x: x + T.cast(tensors[2][at[-1]], t.accum_dtype) if t.with_bias else x
    return _fold(inputs, (out, t.out_dtype), reduced, t.accum_dtype, value, last)


def _of_product(arch: CUDA, t: Any, M: int, N: int, K: int) -> Iterator[Hint]:
    """The candidates of a product of these extents, with the types of a template."""
    if warpgroups.takes_product(arch, t):
        return warpgroups.matmul(arch, M, N, K, t.in_dtype, t.out_dtype)
    return model.matmul(arch, M, N, K, t.in_dtype, t.out_dtype, t.accum_dtype)


@dataclass
class MatmulTemplate(BaseTemplate):
    """C = A · B of M × K and K × N; trans_A, trans_B: an operand is stored the other way."""

    M: int | None = None
    N: int | None = None
    K: int | None = None
    trans_A: bool = False
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False

    def _candidates(self, arch: CUDA) -> Iterator[Hint]:
        return _of_product(arch, self, self.M, self.N, self.K)

    def _make(self) -> PrimFunc:
        a, b = [self.M, self.K], [self.K, self.N]
        turn = lambda index, other: tuple(index[::-1] if other else index)
        cast = lambda x: T.cast(x, self.accum_dtype)
        return _products(
            self,
            list(turn(a, self.trans_A)),
            list(turn(b, self.trans_B)),
            [self.M, self.N],
            [self.K],
            lambda x, at, r: (
                cast(x[0][turn([at[0], r[0]], self.trans_A)]) * cast(x[1][turn([r[0], at[1]], self.trans_B)])
            ),
        )


@dataclass
class GEMVTemplate(BaseTemplate):
    """C = A · B of 1 × K and K × N; trans_B: B is stored as N × K."""

    N: int | None = None
    K: int | None = None
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False

    def _candidates(self, arch: CUDA) -> Iterator[Hint]:
        bytes_read = self.N * self.K * as_dtype(self.in_dtype).bits / 8
        return model.stream(arch, [self.N], [self.K], self.in_dtype, self.trans_B, bytes_read)

    def _make(self) -> PrimFunc:
        return MatmulTemplate(
            1,
            self.N,
            self.K,
            False,
            self.trans_B,
            self.in_dtype,
            self.out_dtype,
            self.accum_dtype,
            self.with_bias,
        )._make()


@dataclass
class ElementwiseTemplate(BaseTemplate):
    """B = A + 1, element by element."""

    shape: list[int] | None = None
    dtype: Any = "float16"

    def _candidates(self, arch: CUDA) -> Iterator[Hint]:
        traffic = 2 * math.prod(self.shape) * as_dtype(self.dtype).bits / 8
        return model.stream(arch, list(self.shape), [], self.dtype, False, traffic)

    def _make(self) -> PrimFunc:
        return _fold(
            [(self.shape, self.dtype)],
            (self.shape, self.dtype),
            [1],
            self.dtype,
            lambda x, at, r: x[0][tuple(at)] + 1,
        )


@dataclass
class GeneralReductionTemplate(BaseTemplate):
    """The sum of a tensor over some dimensions; structure: a letter for each, S (kept) or R (summed)."""

    structure: str | None = None
    shape: list[int] | None = None
    dtype: Any = "float16"

    def _extents(self, letter: str) -> list[int]:
        return [n for n, kind in zip(self.shape, self.structure, strict=True) if kind == letter]

    def _candidates(self, arch: CUDA) -> Iterator[Hint]:
        return model.stream(
            arch,
            self._extents("S") or [1],
            self._extents("R"),
            self.dtype,
            self.structure.endswith("R"),
            math.prod(self.shape) * as_dtype(self.dtype).bits / 8,
        )

    def _make(self) -> PrimFunc:
        def value(x: list, at: list, r: list) -> Any:
            sources = {"S": iter(at), "R": iter(r)}
            return x[0][tuple(next(sources[letter]) for letter in self.structure)]

        return _fold(
            [(self.shape, self.dtype)],
            (self._extents("S") or [1], self.dtype),
            self._extents("R") or [1],
            self.dtype,
            value,
        )


@dataclass
class ConvTemplate(BaseTemplate):
    """A convolution of images (N, H, W, C) with filters (K, K, C, F): stride S, dilation D, padding P.

    Its hints are those of the product that it is, of N·H·W rows, F columns and K·K·C steps."""

    N: int
    C: int
    H: int
    W: int
    F: int
    K: int
    S: int
    D: int
    P: int
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"
    with_bias: bool = False

    def _size(self, extent: int) -> int:
        return (extent + 2 * self.P - self.D * (self.K - 1) - 1) // self.S + 1

    def _candidates(self, arch: CUDA) -> Iterator[Hint]:
        rows = self.N * self._size(self.H) * self._size(self.W)
        return _of_product(arch, self, rows, self.F, self.K * self.K * self.C)

    def _make(self) -> PrimFunc:
        def value(x: list, at: list, r: list) -> Any:
            y, z = (at[d + 1] * self.S + r[d] * self.D - self.P for d in (0, 1))
            factors = x[0][at[0], y, z, r[2]], x[1][r[0], r[1], r[2], at[3]]
            return T.cast(factors[0], self.accum_dtype) * T.cast(factors[1], self.accum_dtype)

        out = [self.N, self._size(self.H), self._size(self.W), self.F]
        return _products(
            self,
            [self.N, self.H, self.W, self.C],
            [self.K, self.K, self.C, self.F],
            out,
            [self.K, self.K, self.C],
            value,
        )


@dataclass
class FlashAttentionTemplate(BaseTemplate):
    """Attention of queries, keys and values of (batch_size, num_heads, sequence, head_dim).

    block of its hints: queries and keys of a step."""

    _output_nodes: Any = None
    batch_size: int = 1
    num_heads: int = 1
    head_dim: int = 1
    seq_length: int = 1
    seq_kv_length: int = 1
    is_causal: bool = False
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float16"

    def _candidates(self, arch: CUDA) -> Iterator[Hint]:
        if warpgroups.takes_attention(arch, self):
            return warpgroups.attention(arch, self)
        return model.attention(arch, self)

    def _make(self) -> PrimFunc:
        heads, queries, keys, dim = self.num_heads, self.seq_length, self.seq_kv_length, self.head_dim
        tensor = lambda n, dtype: T.Tensor((self.batch_size, heads, n, dim), dtype)
        kinds = [tensor(n, self.in_dtype) for n in (queries, keys, keys)] + [tensor(queries, self.out_dtype)]

        @T.prim_func
        def main(Q: kinds[0], K: kinds[1], V: kinds[2], Output: kinds[3]):
            with T.Kernel(queries, heads, self.batch_size, threads=128) as (i, h, b):
                p = T.alloc_fragment((1, keys), "float32")
                p_shared = T.alloc_shared((1, keys), "float32")
                o = T.alloc_fragment((dim,), "float32")
                m = T.alloc_fragment((1,), "float32")
                T.clear(p)
                T.clear(o)
                for d in T.serial(dim):
                    for k in T.Parallel(keys):
                        p[0, k] += T.cast(Q[b, h, i, d], "float32") * T.cast(K[b, h, k, d], "float32")
                for k in T.Parallel(keys):
                    hidden = self.is_causal and k > i + (keys - queries)
                    p[0, k] = T.if_then_else(hidden, -T.infinity("float32"), p[0, k] / math.sqrt(dim))
                T.reduce_max(p, m, dim=1)
                for k in T.Parallel(keys):
                    p[0, k] = T.exp(p[0, k] - m[0])
                T.copy(p, p_shared)
                T.reduce_sum(p, m, dim=1)
                for k in T.serial(keys):
                    for d in T.Parallel(dim):
                        o[d] += p_shared[0, k] * T.cast(V[b, h, k, d], "float32")
                for d in T.Parallel(dim):
                    Output[b, h, i, d] = o[d] / m[0]

        return main
