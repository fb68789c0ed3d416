"""The dialects: `tilelang.language` is CUDA's and has every name; the others have those that mean something
on their hardware, and say of the rest where they belong."""

from __future__ import annotations

from types import ModuleType

from .. import language as _language
from ..front.errors import UnknownName, caller_place, compile_error
from ..language import allreduce, thread, wide

# What a thread of a GPU does, by name; and CUDA text.
_OF_BLOCKS = """
    get_block_binding get_block_bindings get_block_extent get_block_extents disable_warp_group_reg_alloc
    no_set_max_nreg get_thread_extent get_thread_extents
""".split()
_THREADS = frozenset(thread.__all__) - frozenset(_OF_BLOCKS) | {"tvm_thread_allreduce", *wide.WIDE}
_CUDA = frozenset(name for name in _language.__all__ if name.startswith("__")) | frozenset(
    """
    CUDASourceCodeKernel import_source ptx call_extern call_pure_extern fast_rcp ieee_add ieee_fdiv ieee_fmaf
    ieee_frcp ieee_frsqrt ieee_fsqrt ieee_mul ieee_sub
    """.split()
)

_REFUSED = {  # dialect -> the names that it does not have
    "cpu": _THREADS | (_CUDA - {"call_extern", "call_pure_extern"}),
    "rocm": _CUDA - {"call_extern", "call_pure_extern", "import_source"},
    "metal": _THREADS | _CUDA,
    "webgpu": _THREADS | _CUDA,
}

assert allreduce  # its names are of threads, too


class Dialect(ModuleType):
    """The module of a dialect."""

    def __init__(self, path: str, dialect: str) -> None:
        super().__init__(path)
        self._dialect = dialect
        self._refused = _REFUSED.get(dialect, frozenset())
        self.__all__ = [name for name in _language.__all__ if name not in self._refused]
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        if name not in self._refused:
            return getattr(_language, name)
        why = "names what a GPU's thread does" if name in _THREADS else "is CUDA's"
        raise compile_error(
            f"T.{name} {why}, and is not in the dialect tilelang.{self._dialect}.language; "
            "import tilelang.language as T for CUDA",
            caller_place(),
            UnknownName,
        )
