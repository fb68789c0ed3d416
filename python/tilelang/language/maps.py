"""`Layout` and `Fragment`: where the elements of a tile live, made of functions of the indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._core import Expr
from ..front.trace import fail
from ..front.values import as_value
from .map_base import Map, Range, ask, call, index_outputs, index_variables, integer, ints


class Layout(Map):
    """A map from the indices of a tile to places.

    shape: the tile's extents.  forward_fn: a function of as many indices that gives an integer expression, or
    several (then the place is in a memory of as many dimensions)."""

    __slots__ = ("_core",)

    def __init__(self, shape: Sequence[int], forward_fn: Callable) -> None:
        extents = ints(shape, "T.Layout: the shape")
        variables = index_variables(len(extents))
        outputs = index_outputs(call(forward_fn, variables, "T.Layout: forward_fn"))
        self._core = ask(_core.Layout, extents, variables, outputs)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the indices."""
        return self._once("shape", lambda: self._core.shape)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Per output one more than its largest value: the shape of the memory needed."""
        return self._once("output_shape", lambda: self._core.output_shape)

    def get_output_shape(self) -> list[int]:
        """The shape of the memory needed."""
        return list(self.output_shape)

    def _places(self, index: list) -> list:
        found = self(*index)
        return list(found) if isinstance(found, tuple) else [found]

    @property
    def has_digits(self) -> bool:
        """Is the map one of mixed-radix digits and XORs, rather than a table of its points?"""
        return self._core.has_digits

    def map(self, *index: Any) -> Any:
        """Where an element goes: integers for integers, expressions for expressions."""
        return self(*index)

    def __call__(self, *index: Any) -> Any:
        """The place of the element `index`: a number or an expression, or a tuple of them."""
        if len(index) == 1 and isinstance(index[0], (tuple, list)):
            index = tuple(index[0])
        values = [as_value(i) for i in index]
        if any(isinstance(v, Expr) and not v.is_const for v in values):
            out = tuple(ask(self._core.map_values, values))
        else:
            out = ask(self._core.map, ints(values, "an index of a layout"))
        return out[0] if len(out) == 1 else out

    def inverse(self) -> Layout:
        """The way back, for a map in which no two elements share a place.

        A place that holds nothing (padding) is sent outside the shape."""
        return Layout._of(ask(self._core.inverse))

    def compose(self, inner: Layout) -> Layout:
        """This layout after `inner`: index -> self(inner(index))."""
        return Layout._of(ask(self._core.compose, core_of(inner, "compose")))

    def repeat(self, dim: int, factor: int) -> Layout:
        """`factor` copies along `dim`, told apart by a new first output (none is added for one copy)."""
        numbers = integer(dim, "repeat: dim"), integer(factor, "repeat: factor")
        return Layout._of(ask(self._core.repeat, *numbers))

    def expand(self, leading_shape: Any) -> Layout:
        """New leading indices that are outputs unchanged: (b, i, j) -> (b, *self(i, j))."""
        return Layout._of(ask(self._core.expand, ints(leading_shape, "expand: leading_shape")))

    def reshape(self, shape: Sequence[int], rescale_num: int = 1, rescale_den: int = 1) -> Layout:
        """The same elements, in the same row-major order, under other indices.

        rescale_num, rescale_den: of storage that is seen with narrower or wider elements, bits of an element
        here and there; narrower ones follow one another along the last output, wider ones must lie together.
        """
        num, den = rescale_num, rescale_den
        if num == den:
            return Layout._of(ask(self._core.reshape, ints(shape, "reshape: the shape")))
        extents, here = self._rescaled(shape, num, den)
        if den > num and (self.shape[-1] % (den // num) or self.vector_width(den // num) < den // num):
            raise fail(
                f"reshape: {den // num} neighbours along the last index do not lie together in {self._core}"
            )

        def place(*index: Any) -> list:
            at, part = here(index)
            found = self._places(at)
            found[-1] = found[-1] * num // den + part if num > den else found[-1] // (den // num)
            return found

        return Layout(extents, place)

    def is_equal(self, other: Layout) -> bool:
        """Do both send every element to the same place?"""
        return ask(self._core.is_equal, core_of(other, "is_equal"))

    def is_injective(self) -> bool:
        """Has every element a place of its own?"""
        return ask(self._core.is_injective)

    def is_bijective(self) -> bool:
        """Has every element a place of its own, and is no place left over?"""
        return ask(self._core.is_bijective)

    def points(self) -> list[tuple[int, ...]]:
        """The places of all elements, in row-major order."""
        return ask(self._core.points)

    def vector_width(self, limit: int = 16) -> int:
        """How many elements (a power of two) one aligned access may take along the last index."""
        return ask(self._core.vector_width, integer(limit, "vector_width: limit"))

    def draw(self, bits: int = 0, rows: int = 64, columns: int = 64) -> str:
        """A grid of the tile for a terminal."""
        return ask(_core.draw_text, self._core, bits, rows, columns)

    def svg(self, bits: int = 0) -> str:
        """The grid as SVG.  bits: of an element; colours are then the banks of shared memory."""
        return ask(_core.draw_svg, self._core, bits)

    def __repr__(self) -> str:
        return f"Layout({self._core}, shape={self.shape}, output_shape={self.output_shape})"


def core_of(x: Any, what: str) -> _core.Layout:
    if not isinstance(x, Layout):
        raise fail(f"{what} takes a T.Layout, not {type(x).__name__}")
    return x._core


class Fragment(Map):
    """A tile spread over the registers of threads: element -> (thread, register).

    shape: the tile's extents.  forward_fn(i, j, …) gives (thread, register); or forward_thread_fn gives the
    thread and forward_index_fn(i, j, …) the register, without which each thread numbers its elements in
    row-major order.  replicate: copies of each element; if more than one, forward_fn and forward_thread_fn
    take the number of the copy as a last argument."""

    __slots__ = ("_core",)

    def __init__(
        self,
        shape: Sequence[int],
        forward_fn: Callable | None = None,
        forward_thread_fn: Callable | None = None,
        replicate: int = 1,
        forward_index_fn: Callable | None = None,
    ) -> None:
        extents, copies = ints(shape, "T.Fragment: the shape"), integer(replicate, "T.Fragment: replicate")
        if (forward_fn is None) == (forward_thread_fn is None):
            raise fail(
                "T.Fragment takes either forward_fn, which gives (thread, register), or forward_thread_fn"
            )
        variables = index_variables(len(extents), copies)
        if forward_fn is not None:
            place = call(forward_fn, variables, "T.Fragment: forward_fn")
            if not isinstance(place, (tuple, list)) or len(place) != 2:
                raise fail("T.Fragment: forward_fn must give two numbers, the thread and the register")
            thread, register = place
        else:
            thread = call(forward_thread_fn, variables, "T.Fragment: forward_thread_fn")
            register = None
            if forward_index_fn is not None:
                register = call(forward_index_fn, variables[: len(extents)], "T.Fragment: forward_index_fn")
        if isinstance(register, (tuple, list)):
            if len(register) != 1:
                raise fail(f"T.Fragment: the register is one number, not {len(register)}")
            register = register[0]
        if copies <= 1:
            variables.append(_core.index_var("rep"))
        register = None if register is None else as_value(register)
        self._core = ask(_core.Fragment, extents, copies, variables, as_value(thread), register)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the tile."""
        return self._once("shape", lambda: self._core.shape)

    @property
    def output_shape(self) -> tuple[int, int]:
        """(threads, registers)."""
        return self._once("output_shape", lambda: (self.threads, self.registers))

    @property
    def threads(self) -> int:
        """One more than the largest thread."""
        return self._core.threads

    @property
    def registers(self) -> int:
        """Registers (elements) of each thread."""
        return self._core.registers

    @property
    def replicas(self) -> int:
        """Copies of each element."""
        return self._core.replicas

    replicate_size = replicas

    def get_thread_size(self) -> int:
        """The number of threads."""
        return self.threads

    @property
    def thread_range(self) -> Range:
        """The threads."""
        return Range(0, self.threads)

    def get_output_shape(self) -> list[int]:
        """The registers of a thread."""
        return [self.registers]

    @property
    def thread(self) -> Expr:
        """Whose an element is, as an expression of get_forward_vars()."""
        return self._once("thread", lambda: self.map_forward_thread(self.get_forward_vars()))

    forward_thread = thread

    def map_forward_thread(self, indices: Any) -> Any:
        """The thread that has the element of these indices; one more index is the number of the copy."""
        return self._both(list(indices))[0]

    def _places(self, index: list) -> list:
        return [self._both(index)[1]]

    def _both(self, index: list) -> Any:
        rank = len(self.shape)
        return self(*index[:rank], rep=index[rank] if len(index) > rank else 0)

    def inverse(self) -> Layout:
        """The way back: (thread, register) -> (index…, copy)."""
        return self.layout.inverse()

    def expand(self, leading_shape: Any) -> Fragment:
        """New leading indices, of copies of the tile in further registers of the same threads."""
        leading = ints(leading_shape, "expand: leading_shape")

        def place(*index: Any) -> tuple:
            number = 0
            for i, extent in zip(index, leading, strict=False):
                number = number * extent + i
            thread, register = self._both(list(index[len(leading) :]))
            return thread, number * self.registers + register

        return Fragment([*leading, *self.shape], place, replicate=self.replicas)

    def reshape(self, shape: Sequence[int], rescale_num: int = 1, rescale_den: int = 1) -> Fragment:
        """The same elements, in the same row-major order, under other indices.

        rescale_num, rescale_den: as of a Layout; elements that become one must be neighbours of one thread.
        """
        num, den = rescale_num, rescale_den
        extents, here = self._rescaled(shape, num, den)
        wide, copies, points = den // num, self.replicas, self.layout.points() if den > num else []
        for at in range(0, len(points), max(wide, 1) * copies):
            for n in range(wide * copies):
                thread, register = points[at + n % copies]
                if register % wide or points[at + n] != (thread, register + n // copies):
                    raise fail(
                        f"reshape: {wide} neighbours along the last index are not neighbours in a "
                        f"thread of {self._core}"
                    )

        def place(*index: Any) -> tuple:
            at, part = here(index[: len(extents)])
            thread, register = self._both([*at, *index[len(extents) :]])
            return thread, register * num // den + part if num > den else register // (den // num)

        return Fragment(extents, place, replicate=self.replicas)

    @property
    def layout(self) -> Layout:
        """The map (index…, copy) -> (thread, register)."""
        return self._once("layout", lambda: Layout._of(self._core.layout))

    def map(self, *index: Any, rep: int = 0) -> Any:
        """(thread, register) of one copy of an element."""
        return self(*index, rep=rep)

    def __call__(self, *index: Any, rep: Any = 0) -> Any:
        """(thread, register) of the element `index`, of its copy `rep`."""
        if len(index) == 1 and isinstance(index[0], (tuple, list)):
            index = tuple(index[0])
        if len(index) != len(self.shape):
            raise fail(
                f"the fragment has {len(self.shape)} dimensions, {self.shape}, but is given "
                f"{len(index)} indices"
            )
        return self.layout(*index, rep)

    def holders(self, *index: Any) -> list[tuple[int, int]]:
        """Every (thread, register) that holds the element."""
        if len(index) == 1 and isinstance(index[0], (tuple, list)):
            index = tuple(index[0])
        return ask(self._core.holders, ints(index, "an index of a fragment"))

    def repeat(
        self, repeats: Sequence[int], repeat_on_thread: bool = False, lower_dim_first: bool = True
    ) -> Fragment:
        """repeats[d] copies of the tile along each dimension d, in new registers or on new threads.

        lower_dim_first: copies along the last dimension are numbered first, else those along the first."""
        factors = ints(repeats, "repeat: a factor")
        return Fragment._of(ask(self._core.repeat, factors, bool(repeat_on_thread), bool(lower_dim_first)))

    def replicate(self, replicate: int) -> Fragment:
        """Every element `replicate` times, each copy on threads of its own."""
        return Fragment._of(ask(self._core.replicate, integer(replicate, "replicate")))

    def condense(self) -> Fragment:
        """As many copies as there are different holders of an element."""
        return Fragment._of(ask(self._core.condense))

    condense_rep_var = condense

    def is_equal(self, other: Fragment) -> bool:
        """Do both put every copy of every element into the same register of the same thread?"""
        if not isinstance(other, Fragment):
            raise fail(f"is_equal takes a T.Fragment, not {type(other).__name__}")
        return ask(self._core.is_equal, other._core)

    def cover_fault(self) -> str | None:
        """Why the fragment does not cover its tile exactly once; None if it does."""
        return ask(self._core.cover_fault)

    def draw(self, rows: int = 64, columns: int = 64) -> str:
        """A grid of the tile for a terminal, each element as thread:register."""
        return ask(_core.draw_text, self._core, 0, rows, columns)

    def svg(self) -> str:
        """The grid as SVG, coloured by thread."""
        return ask(_core.draw_svg, self._core, 0)

    def __repr__(self) -> str:
        return (
            f"Fragment({self._core}, shape={self.shape}, threads={self.threads}, "
            f"registers={self.registers}, replicas={self.replicas})"
        )
