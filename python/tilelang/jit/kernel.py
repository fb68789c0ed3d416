"""`JITKernel`: a compiled kernel that is called like a function."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import _core
from ..front import registers
from ..front.errors import CompileError, kind_of
from ..front.misuse import launched_in_brackets, suggesting
from ..front.texts import show
from . import binding, config
from .artifact import KernelArtifacts, told
from .env import env
from .function import PrimFunc
from .outputs import check_returned, check_written, mistake, output_indices
from .parameters import KernelParam, of_rows

if TYPE_CHECKING:
    from ..tools.report import Report
    from ..tools.timeline import Timeline


class JITKernel(_core.Launcher, KernelArtifacts):
    """A compiled kernel.  Calling it runs it: tensors and numbers in the order of its parameters, without
    those that out_idx names; these are allocated on the inputs' device and returned (one as it is, several
    as a list)."""

    said = "a compiled kernel"
    execution_backend_spec = None  # there is one runtime

    def __new__(
        cls,
        func: Any = None,
        out_idx: Any = None,
        execution_backend: Any = None,
        target: Any = "auto",
        target_host: Any = None,
        verbose: bool = False,
        pass_configs: dict[Any, Any] | None = None,
        from_database: bool = False,
        compile_flags: Any = None,
        backend_context: Any = None,
    ) -> JITKernel:
        """The same as tilelang.compile; from_database and backend_context are accepted and change nothing:
        what was compiled before is found in the disk cache."""
        return compile(
            func, out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags
        )

    def __init__(self, *_: Any, **__: Any) -> None:
        """What __new__ gives is complete."""

    def _complete(self, func: PrimFunc, compiled: _core.Kernel, out_idx: Any) -> None:
        self._kernel = compiled
        self._func = func
        self.params: list[KernelParam] = of_rows(compiled.params)
        shown = len(func.function.params)
        self._outputs = output_indices(out_idx, self.params[:shown], func.name)
        if out_idx is not None and func.results is None:
            check_written(self._outputs, compiled.written, self.params[:shown])
        if len(self.params) > shown:  # the record of measure_timeline, the last one
            self._record = shown
            self._outputs.append(shown)
        self._inputs = [i for i in range(len(self.params)) if i not in self._outputs]
        _core.Launcher.__init__(self, compiled, self._outputs)

    @classmethod
    def from_tilelang_function(cls, tilelang_func: PrimFunc, **kwargs: Any) -> JITKernel:
        """The same as tilelang.compile."""
        return compile(tilelang_func, **kwargs)

    @classmethod
    def from_database(
        cls,
        func: Any,
        host_kernel_source: Any,
        device_kernel_source: Any,
        kernel_lib_path: Any,
        params: Any,
        target: Any,
        target_host: Any,
        out_idx: Any,
        execution_backend: Any,
        pass_configs: Any = None,
        compile_flags: Any = None,
        backend_context: Any = None,
    ) -> JITKernel:
        """The kernel of `func`, from the disk cache or compiled; the texts and files given are not read."""
        return compile(
            func, out_idx, execution_backend, target, target_host, None, pass_configs, compile_flags
        )

    # ── what it is ────────────────────────────────────────────────────────────────────────────────────
    out_idx = property(
        lambda self: [i for i in self._outputs if i != self._record],
        doc="The parameters that are returned, as indices from 0.",
    )

    target = told("target", 'The target as resolved, "cuda -arch=sm_90".')
    device_type = told("device_type", 'Where its tensors live: "cuda" or "cpu".')
    kernel_source = told("source", "The generated text: CUDA C++ or LLVM IR; for the reference its text IR.")
    from_cache = told("from_cache", "Whether it came from the disk cache.")
    phases = told("phases", "How long each phase of the compilation took, in milliseconds.")

    prim_func = property(
        lambda self: self._func, doc="The program before compilation; str() of it is its text IR."
    )

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """The generated text; with kernel_only=False the text of the host side in front of it."""
        return self._kernel.source if kernel_only else f"{self._kernel.host_source}\n{self._kernel.source}"

    def show_source(self, which: str = "kernel") -> None:
        """Print the generated text; which: "kernel", "host" or "both"."""
        self.print_source_code(which)

    def print_source_code(self, which: str = "kernel", file: str | os.PathLike | None = None) -> None:
        """The same as show_source; with a file, the text is written there instead."""
        if which not in ("kernel", "host", "both"):
            raise ValueError(f"show_source: which must be 'kernel', 'host' or 'both', not '{which}'")
        text = self.host_source if which == "host" else self.get_kernel_source(which == "kernel")
        if file is None:
            print(text)
        else:
            Path(file).write_text(text, encoding="utf-8")

    @property
    def report(self) -> Report:
        """Why everything is as it is, without printing it; see explain."""
        from ..tools.report import report_of

        for text in self._func.texts:
            show(text)
        return report_of(self._kernel.report, self._kernel.phases, self.simulation)

    def explain(
        self,
        html: str | os.PathLike | None = None,
        machine_code: bool = False,
        timeline: Timeline | None = None,
    ) -> Report:
        """Why everything is as it is: instructions, layouts, mappings of loops, the cost of every access to
        memory, what was refused and why; of a kernel that was simulated (simulate()), what that counted.
        Prints the report and returns it; its lists hold the same as objects.

        html: a file; the report is written there as one page for a browser, with pictures of the layouts,
        instead of being printed. machine_code: the report has what stands in the GPU's machine code beside
        products of warpgroups as well, for which a disassembler of the CUDA toolkit runs. timeline: what
        measure_timeline(…) measured, to stand beside the planned turns."""
        report = self.report
        if machine_code:
            report = dataclasses.replace(report, machine_code=self.machine_code)
        if timeline is not None:
            report = dataclasses.replace(report, timeline=timeline)
        if html is None:
            print(report)
        else:
            report.save(html)
        return report

    def simulate(
        self,
        *args: Any,
        seed: int = 0,
        schedules: int | str = 1,
        blocks: Any = None,
        watch: bool = True,
        count: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Run the GPU's program in the simulator, on the same arguments; a
        tilelang.tools.simulation.SimulationReport with what it cost. What is wrong with the program is a
        SimulationError.

        seed: of the order in which warps run; the same seed gives the same run. schedules: how many orders
        are tried, with seeds from there on, each on the arguments as they were; "all": every order in which
        the warps of a small kernel can meet (CompileError if there are too many). blocks: the numbers of the
        blocks to run (x fastest), or how many to sample; None: all. watch: look for races and reads of
        unwritten memory. count: count bank cycles, sectors and instructions."""
        from ..tools.simulation import simulate_call

        options = dict(seed=seed, schedules=schedules, blocks=blocks, watch=watch, count=count)
        runs = self if self.target.startswith("sim:") else self._twin()
        try:
            return simulate_call(runs, args, kwargs, options)
        finally:
            self.simulation = runs.simulation

    def _twin(self) -> JITKernel:
        """The same kernel for the simulator."""
        if not self.target.startswith("cuda"):
            raise mistake(
                f"simulate: {self._func.name} was compiled for {self.target}; the simulator runs "
                "GPU programs: compile it for target='sim:sm_80'"
            )
        if self._simulated is None:
            chip = self.target.split("-arch=")[1].split()[0]
            returned = (self.out_idx or None) if self._func.results is None else None
            self._simulated = compile(self._func, out_idx=returned, target=f"sim:{chip}")
        return self._simulated

    # What simulate() found and counted last, and the kernel that it runs.
    simulation: Any = None
    _simulated: JITKernel | None = None

    def measure_timeline(self, *args: Any, **kwargs: Any) -> Timeline:
        """Run the kernel on these arguments with clock stamps where its roles begin and end their turns and
        their waits; a tilelang.tools.timeline.Timeline. It is for kernels whose pipelined loops are divided
        among roles, as on Hopper; for others a CompileError says why theirs are not. On a GPU the kernel runs
        twice, of which the second run counts; in the simulator once, and its clock counts operations."""
        from ..tools.timeline import measure

        return measure(self, args, kwargs)

    def _with_stamps(self) -> Any:
        """The same kernel with stamps."""
        if self._stamped is None:
            options = {**self._options, "timeline": True}
            options.pop("dump_dir", None)  # that of the plain kernel is there already
            try:
                compiled = _core.compile(self._func.function, self.target, options)
            except CompileError as error:
                raise error.with_traceback(None) from None
            returned = (self.out_idx or None) if self._func.results is None else None
            self._stamped = _kernel(self._func, compiled, returned)
        return self._stamped

    # What it was compiled with, which parameter is the record of its stamps, and its twin with stamps.
    _options: dict[str, Any] = {}
    _record: int | None = None
    _stamped: JITKernel | None = None

    # What @tilelang.autotune found: milliseconds, the chosen keywords, milliseconds of the reference.
    latency: float | None = None
    config: dict[str, Any] | None = None
    ref_latency: float | None = None

    def update_tuner_result(self, latency: float, config: dict[str, Any], ref_latency: float | None) -> Any:
        """Note what tuning found; the kernel itself."""
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, Any]:
        """What tuning found, as a dict; ValueError for a kernel that was not tuned."""
        if self.latency is None:
            raise ValueError(f"{self._func.name} was not tuned")
        return {"latency": self.latency, "config": self.config, "ref_latency": self.ref_latency}

    def get_profiler(self, tensor_supply_type: Any = None) -> Any:
        """A Profiler, which measures the kernel on inputs of its own."""
        from ..tools.profiler import Profiler

        return Profiler(self.params, self.out_idx, tensor_supply_type, self)

    def __getitem__(self, grid: Any) -> Any:
        raise launched_in_brackets(self._func.name)

    def __repr__(self) -> str:
        return f"<kernel {self._func.name}({', '.join(map(repr, self.params))}) for {self.target}>"

    # ── the call: Launcher's, in C++ ──────────────────────────────────────────────────────────────────
    def merge(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """Inputs and outputs in the order of the parameters."""
        full = list(inputs)
        for index, output in sorted(zip(self._outputs, outputs, strict=True), key=lambda pair: pair[0]):
            full.insert(index, output)
        return full

    def _run(self, args: tuple) -> list[Any]:
        """Run on these inputs; the outputs."""
        outputs = self.allocate_outputs(args) if self._outputs else []
        self.launch(self.merge(args, outputs))
        return outputs

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Arguments by position and name, with the defaults of the definition, in order."""
        wanted = [self.params[i] for i in self._inputs]
        names, shown = [p.name for p in wanted], [repr(p) for p in wanted]
        given = dict(zip(names, args, strict=False))
        unknown = [name for name in kwargs if name in given or name not in names]
        missing = [
            p
            for p in wanted
            if p.name not in given and p.name not in kwargs and p.name not in self._func.defaults
        ]
        if len(args) > len(wanted) or unknown or missing:
            name = self._func.name
            if unknown and unknown[0] in given:
                error = binding.twice(name, shown, unknown[0])
            elif unknown:
                error = binding.unexpected(name, shown, unknown[0], names)
            elif len(args) > len(wanted):
                error = binding.too_many(name, shown, len(wanted), len(args))
            else:
                error = binding.missing(name, shown, [p.name for p in missing])
            returned = ", ".join(self.params[i].name for i in self._outputs)
            raise TypeError(f"{error}; {returned} is returned" if returned else str(error))
        return tuple(
            given[p.name] if p.name in given else kwargs.get(p.name, self._func.defaults.get(p.name))
            for p in wanted
        )


class ReturningKernel(JITKernel):
    """A JITKernel that returns what its body returns: one tensor as it is, several as a tuple.

    Tensors that the body makes and does not return live for the time of a call."""

    def _complete(self, func: PrimFunc, compiled: _core.Kernel, out_idx: Any) -> None:
        super()._complete(func, compiled, out_idx)
        self._results, self._order = func.results, func.call_order
        names = [p.name for p in self.params]
        self._named = {names[j]: i for i, j in enumerate(self._inputs)}

    def _bind(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """Those by position stand in the order of the definition, which may not be that of the parameters."""
        if self._order is not None and args:
            kwargs = {**dict(zip(self._order, args, strict=False)), **kwargs}
            args = args[len(self._order) :]
        return super()._bind(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or self._order is not None or len(args) != len(self._inputs):
            args = self._bind(args, kwargs)
        return self._results_of(args, self._run(args))

    def _results_of(self, args: tuple, outputs: list[Any]) -> Any:
        if self._results is None:
            return None
        made = [
            outputs[item] if isinstance(item, int) else args[self._named[item]]
            for item in self._results.items
        ]
        return tuple(made) if self._results.is_tuple else made[0] if made else None


def _instead_of(func: Any, name: str) -> str:
    if getattr(func, "is_eager", False):
        return (
            f", which is an eager kernel: call it with tensors, or {name}.compile(…); for another "
            f"target take tilelang.jit({name}, target=…)"
        )
    return "; call the factory first" if callable(func) else ""


@suggesting
def compile(
    func: Any = None,
    out_idx: Any = None,
    execution_backend: Any = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: dict[Any, Any] | None = None,
    compile_flags: Any = None,
    debug_root_path: Any = None,
    deterministic: bool = False,
    strict: bool = False,
) -> JITKernel:
    """Compile a prim_func.

    out_idx: the parameters (an index or several, negative from the end) to allocate and return instead of
    taking them. target: "auto" (CUDA where a device answers, else the CPU), "cuda", "cuda -arch=sm_80",
    "sim:sm_80" (that GPU's program, executed here), "cpu", "cpu -mcpu=haswell", "reference", or a dict with
    "kind".  verbose: print the report.  pass_configs: see PassConfigKey.  compile_flags: for the device
    compiler.  debug_root_path: a folder for the text of every level.  deterministic=True: an error that names
    the operator, where a result depends on the order in which threads and blocks come to atomic accesses.
    strict=True: an error where the program asks for a pipeline that it does not get: num_stages slots that do
    not fit, a T.Pipelined loop that runs in order, a copy in one that cannot run ahead; and where the sums of
    a T.gemm go through shared memory at each product of a loop.
    execution_backend and target_host are accepted and change nothing."""
    if not isinstance(func, PrimFunc):
        what = func.__name__ if callable(func) and hasattr(func, "__name__") else kind_of(func)
        raise mistake(f"tilelang.compile takes a @T.prim_func, not {what}" + _instead_of(func, what))
    config.check_backend(execution_backend)
    configs = {
        **config.normalize_pass_configs(func.pass_configs),
        **config.normalize_pass_configs(pass_configs),
    }
    options = config.options_of(
        configs,
        [*func.compile_flags, *config.flags_of(compile_flags)],
        debug_root_path,
        target,
        deterministic,
        strict,
    )
    for text in func.texts:
        show(text)
    options["hear_generic"] = functools.partial(_hear_generic, func.name, func.span)
    try:
        wanted = config.target_text(target)
        registers.warn(func.large, wanted)
        compiled = _compile(func, wanted, options, configs)
    except CompileError as error:
        instead = config.script and config.script.instead(func.name, config.own_target(target), error)
        if not instead:
            raise error.with_traceback(None) from None
        compiled = _core.compile(func.function, instead, options)
    kernel = _kernel(func, compiled, out_idx)
    kernel._options = options
    registers.warn_of_machine_code(compiled.resources, func.name, compiled.target, func.span)
    registers.warn_of_costs(compiled.warnings, func.name, func.span)
    if func.breakpoints:
        from ..tools import breakpoints

        breakpoints.warn(func.breakpoints, kernel.target)
    if env.is_print_on_compilation_enabled() or verbose or env.get_default_verbose():
        spent = sum(kernel.phases.values())
        source = "from the cache" if kernel.from_cache else f"compiled in {spent:.1f} ms"
        print(f"tilelang: {func.name} for {kernel.target}: {source}", file=sys.stderr)
    if verbose or (verbose is None and env.get_default_verbose()):
        print(compiled.report.text(), file=sys.stderr)
    return kernel


def _compile(func: PrimFunc, target: str, options: dict[str, Any], configs: dict[str, Any]) -> _core.Kernel:
    profile = configs.get("tl.pass_profile", env.is_pass_profile_enabled())
    if not (config.watchers or profile or env.get_lower_trace_mode()):
        return _core.compile(func.function, target, options)
    from ..tools import passes

    return passes.compile_watched(func.function, target, options, configs)


def _hear_generic(name: str, place: tuple[str, int], target: str, kernels: list[dict[str, Any]]) -> None:
    """Called when a call has made the generic variant of a kernel."""
    registers.warn_of_machine_code(kernels, name, target, place)


def _kernel(func: PrimFunc, compiled: _core.Kernel, out_idx: Any) -> JITKernel:
    results = func.results
    is_plain = results is None or results.plain
    if results is not None and out_idx is not None:
        raise mistake(
            f"out_idx: {func.name} returns outputs itself (T.empty, return): leave out_idx out, "
            "or the `return`"
        )
    if results is not None:
        check_returned(results, compiled, func.name)
        names = [row["name"] for row in compiled.params]
        out_idx = [names.index(name) for name in results.outputs] or None
    kind = JITKernel if is_plain and func.call_order is None else ReturningKernel
    if compiled.target.startswith("sim:"):
        kind = _simulated(kind)
    if len(compiled.params) > len(func.function.params):
        kind = _stamped(kind)
    kernel = _core.Launcher.__new__(kind)
    kernel._complete(func, compiled, out_idx)
    return kernel


@functools.cache
def _simulated(kind: type) -> type:
    """The same for "sim:CHIP": calling it simulates it as tools.simulation.defaults says."""
    from ..tools.simulation import Simulating

    own = {} if kind is ReturningKernel else {"__call__": _call_by_run}
    return type(f"Simulated{kind.__name__}", (Simulating, kind), own)


@functools.cache
def _stamped(kind: type) -> type:
    """The same with a record of stamps, which is none of its outputs."""
    from ..tools.timeline import Stamped

    own = {} if issubclass(kind, ReturningKernel) else {"__call__": _call_by_run}
    return type(f"Stamped{kind.__name__}", (Stamped, kind), own)


def _call_by_run(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The call of a plain kernel whose `_run` is not Launcher's."""
    made = self._run(self._bind(args, kwargs))
    return None if not made else made[0] if len(made) == 1 else made


def resolve_target(target: Any = None) -> str:
    """What a target means on this machine: "auto" becomes "cuda -arch=sm_90" or "cpu -mcpu=…"."""
    return _core.resolve_target(config.target_text(target))
