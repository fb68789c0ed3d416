"""Many kernels compiled at once, on a pool of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..front.misuse import suggesting
from .env import env
from .kernel import JITKernel, compile


@suggesting
def par_compile(
    funcs: Sequence[Any],
    out_idx: Any = None,
    execution_backend: Any = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: dict[Any, Any] | None = None,
    compile_flags: Any = None,
    num_workers: int | None = None,
    ignore_error: bool = False,
    deterministic: bool = False,
    strict: bool = False,
) -> list[JITKernel | None]:
    """Compile several prim_funcs on a pool of threads, in order; with ignore_error a failed one is None.  The
    parameters mean what they mean to compile, deterministic=True and strict=True among them."""

    def one(func: Any) -> JITKernel:
        return compile(
            func,
            out_idx,
            execution_backend,
            target,
            target_host,
            verbose,
            pass_configs,
            compile_flags,
            deterministic=deterministic,
            strict=strict,
        )

    return run_all(one, funcs, num_workers, ignore_error)


def run_all(work: Any, items: Sequence[Any], num_workers: int | None, ignore_error: bool) -> list[Any]:
    """`work` of every item on a pool of threads, in order; with ignore_error a failed one is None.

    One that takes longer than TILELANG_COMPILE_TIMEOUT_SECONDS fails with TimeoutError; its thread is left to
    end by itself."""
    from concurrent.futures import ThreadPoolExecutor

    results: list[Any] = []
    limit = env.get_compile_timeout_seconds()
    pool = ThreadPoolExecutor(num_workers or env.get_compile_threads())
    try:
        for future in [pool.submit(work, item) for item in items]:
            try:
                results.append(future.result(limit))
            except Exception:
                if not ignore_error:
                    raise
                results.append(None)
    finally:
        pool.shutdown(wait=limit is None, cancel_futures=True)
    return results
