"""What a compiled kernel can be written out as: sources, PTX, machine code, a library; and what it uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .env import cuda_home

if TYPE_CHECKING:
    from .. import _core
    from ..tools.machine_code import MachineCode
    from .parameters import KernelParam


@dataclass(frozen=True)
class CompiledArtifact:
    """The parts of a compiled kernel: the text of what the host does, that of the device, the parameters, the
    device's text once more under its published name, what is loaded (a cubin or an ELF object; of
    tilelang.lower the kernel itself), and the targets."""

    host_mod: str
    device_mod: str
    params: list[KernelParam]
    kernel_source: str
    rt_mod: Any = None
    target: str | None = None
    target_host: Any = None


def told(name: str, doc: str) -> property:
    """A property of a kernel: what the compiled one says under that name."""
    return property(attrgetter(f"_kernel.{name}"), doc=doc)


class KernelArtifacts:
    """The part of JITKernel that writes things out."""

    _kernel: _core.Kernel
    params: list[KernelParam]

    host_source = told(
        "host_source",
        "What a call checks and launches, as text (it is not compiled: the runtime carries it out).",
    )

    def get_host_source(self) -> str:
        """The same as host_source."""
        return self.host_source

    @property
    def artifact(self) -> CompiledArtifact:
        """The parts of this kernel."""
        k = self._kernel
        return CompiledArtifact(k.host_source, k.source, self.params, k.source, k.binary, k.target)

    adapter = property(
        lambda self: self, doc="The kernel itself: here nothing stands between a kernel and its call."
    )
    torch_function = property(
        lambda self: self, doc="The function of PyTorch tensors that this kernel is: itself."
    )

    def run_once(self, func: Any = None) -> Any:
        """Run it, or `func`, once on random inputs of its own; what that returns."""
        return self.get_profiler().run_once(func)  # type: ignore[attr-defined]

    def export_sources(
        self, kernel_path: str | os.PathLike | None = None, host_path: str | os.PathLike | None = None
    ) -> None:
        """Write the generated text, and the text of the host side, to files; at least one is given."""
        if kernel_path is None and host_path is None:
            raise ValueError("export_sources: give kernel_path, host_path, or both")
        for path, text in ((kernel_path, self._kernel.source), (host_path, self._kernel.host_source)):
            if path is not None:
                Path(path).write_bytes(text.encode())

    def show_ptx(self) -> None:
        """Print the PTX."""
        print(self._kernel.ptx())

    def export_ptx(self, path: str | os.PathLike) -> None:
        """Write the PTX to a file."""
        Path(path).write_bytes(self._kernel.ptx().encode())

    def show_sass(self) -> None:
        """Print the GPU's machine code, by cuobjdump or nvdisasm of the CUDA toolkit."""
        print(self._sass())

    def export_sass(self, path: str | os.PathLike) -> None:
        """Write the GPU's machine code to a file, as show_sass prints it."""
        Path(path).write_bytes(self._sass().encode())

    def _sass(self) -> str:
        target = self._kernel.target
        if not target.startswith("cuda"):
            raise RuntimeError(f"a kernel for {target} has no SASS: only CUDA kernels do")
        binary = self._kernel.binary or b""
        if not binary.startswith(b"\x7fELF"):
            raise RuntimeError(
                f"a kernel for {target} is PTX here, which the GPU's driver compiles, because NVRTC does not "
                "know that chip: it has no SASS yet"
            )
        return disassemble(binary)

    @property
    def machine_code(self) -> MachineCode:
        """What stands in the GPU's machine code in front of each wait for products of warpgroups; read by
        cuobjdump or nvdisasm of the CUDA toolkit, which takes about a second."""
        from ..tools.machine_code import MachineCode, read_machine_code

        try:
            return read_machine_code(self._sass(), self._kernel.source)
        except RuntimeError as error:
            return MachineCode(missing=str(error))

    def export_library(
        self, kernel_file: str | os.PathLike | None = None, *, path: str | os.PathLike | None = None
    ) -> None:
        """Write the binary to a file (path: the same): for CUDA the cubin (PTX for a chip that NVRTC does
        not know), to be loaded by cuModuleLoad; for the CPU the ELF object, or, if the name ends in .so, a
        shared library made of it by `cc`.

        Its functions are the kernels; host_source says with which arguments and grid.  On the CPU each is
        `void kernel(const uint64_t *slots, int64_t bx, int64_t by, int64_t bz, void *arena)`."""
        path = kernel_file if path is None else path
        binary, target = self._kernel.binary, self._kernel.target
        if path is None:
            raise TypeError("export_library: give kernel_file, the name of the file to write")
        if binary is None:
            raise RuntimeError(f"a kernel for {target} is not compiled to a binary: compile for cuda or cpu")
        if Path(path).suffix != ".so":
            Path(path).write_bytes(binary)
            return
        if not target.startswith("cpu"):
            raise RuntimeError(
                f"a kernel for {target} is a cubin, not a shared library: name the file .cubin"
            )
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            raise RuntimeError("no C compiler (cc) to link a shared library with; name the file .o instead")
        with tempfile.TemporaryDirectory() as folder:
            object_file = Path(folder) / "kernel.o"
            object_file.write_bytes(binary)
            done = subprocess.run(
                [compiler, "-shared", "-o", str(path), str(object_file), "-lm"],
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise RuntimeError(f"{compiler} failed: {done.stderr.strip()}")

    resource_usage = told(
        "resources",
        """\
        Per kernel: threads and shared_bytes of a block; registers, stack_bytes, spill_stores and spill_loads
        (bytes) of a thread, None where the device compiler says nothing of them (on the CPU); refusals:
        what ptxas did not do as the program asks of its warpgroups, why, and what would mend it; serialized:
        the one of them that lets its products wait for each other, in ptxas's words, else "".""",
    )
    n_regs = property(
        lambda self: self._most("registers"),
        doc="Registers of a thread, the most of any kernel; None where that is not known.",
    )
    n_spills = property(
        lambda self: self._most("spill_stores"),
        doc="Bytes that a thread writes to spill registers, the most of any kernel; None where not known.",
    )
    n_max_threads = property(
        lambda self: self._most("threads"),
        doc="Threads of a block, the most of any kernel; None where that is not known.",
    )

    def _most(self, what: str) -> int | None:
        known = [row[what] for row in self._kernel.resources if row[what] is not None]
        return max(known, default=None)


def disassemble(cubin: bytes) -> str:
    """A cubin as SASS, by cuobjdump or nvdisasm of the CUDA toolkit."""
    command = _disassembler()
    if command is None:
        raise RuntimeError(
            "cuobjdump and nvdisasm were not found: install the CUDA toolkit (or "
            "`pip install nvidia-cuda-nvdisasm`) and set CUDA_HOME, or have them in PATH"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _disassembler() -> list[str] | None:
    folders = [Path(cuda_home(), "bin")]
    for entry in sys.path:
        folders += sorted(Path(entry or ".").glob("nvidia/*/bin"))
    search = os.pathsep.join([os.environ.get("PATH", ""), *map(str, folders)])
    for name, options in (("cuobjdump", ["--dump-sass"]), ("nvdisasm", [])):
        found = shutil.which(name, path=search)
        if found:
            return [found, *options]
    return None
