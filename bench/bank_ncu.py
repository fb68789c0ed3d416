"""Bank cycles that the compiler counts beside those that an H200 counts: planted conflicts, and none.

Each case is one warp that writes a tile in shared memory once and reads it once, rows `width` elements
apart, in vectors of `lanes`; the last is the mma tile that ldmatrix reads.  The prediction is the compiler's
own report (pass measure_access), made before the kernel runs.

    python bench/bank_ncu.py --model       predictions only; no GPU needed
    python bench/bank_ncu.py               beside Nsight Compute; exits with 1 where they differ
"""

from __future__ import annotations

import argparse
import contextlib
import io

import nsight
import tilelang
import tilelang.language as T

# dtype, elements between rows, elements a lane moves at once
CASES = [
    (T.float32, 1, 1), (T.float32, 2, 1), (T.float32, 8, 1), (T.float32, 32, 1), (T.float32, 33, 1),
    (T.float16, 1, 1), (T.float16, 64, 1), (T.float16, 66, 1), (T.float32, 4, 4), (T.float32, 16, 4),
    (T.float32, 20, 4), (T.float16, 64, 8),
]  # fmt: skip
METRICS = {
    "read": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "written": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}


@tilelang.jit(out_idx=None)
def rows(dtype, width, lanes):
    @T.prim_func
    def main(A: T.Tensor((32, lanes), dtype), B: T.Tensor((32, lanes), dtype)):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32, width), dtype)
            for i, j in T.Parallel(32, lanes):
                S[i, j] = A[i, j]
            for i, j in T.Parallel(32, lanes):
                B[i, j] = S[31 - i, j]

    return main


@tilelang.jit(out_idx=None)
def mma():
    @T.prim_func
    def main(
        A: T.Tensor((16, 16), T.float16), B: T.Tensor((16, 8), T.float16), C: T.Tensor((16, 8), T.float32)
    ):
        with T.Kernel(1, threads=32):
            A_shared = T.alloc_shared((16, 16), T.float16)
            B_shared = T.alloc_shared((16, 8), T.float16)
            C_local = T.alloc_fragment((16, 8), T.float32)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.gemm(A_shared, B_shared, C_local, clear_accum=True)
            T.copy(C_local, C)

    return main


def kernels(target: str):
    """name, compiled kernel, the shapes and types of its tensors."""
    for dtype, width, lanes in CASES:
        kernel = tilelang.jit(rows.func, target=target, out_idx=None)(dtype, width, lanes)
        yield f"{dtype} rows {width} apart, {lanes} at once", kernel, [((32, lanes), dtype)] * 2
    kernel = tilelang.jit(mma.func, target=target, out_idx=None)()
    yield "mma 16x8x16", kernel, [((16, 16), T.float16), ((16, 8), T.float16), ((16, 8), T.float32)]


def predicted(kernel) -> dict[str, int]:
    with contextlib.redirect_stdout(io.StringIO()):
        accesses = kernel.explain().accesses
    shared = [(a.writes, a.count * a.sites) for a in accesses if a.unit == "bank cycles"]
    return {verb: sum(n for writes, n in shared if writes == (verb == "written")) for verb in METRICS}


def launch_all() -> None:
    import torch

    for _, kernel, shapes in kernels("cuda"):
        kernel(*(torch.zeros(shape, device="cuda", dtype=dtype.as_torch()) for shape, dtype in shapes))
    torch.cuda.synchronize()


def measured() -> list[dict[str, int]]:
    launches = nsight.counts([__file__, "--launch"], list(METRICS.values()))
    return [{verb: launch[metric] for verb, metric in METRICS.items()} for launch in launches]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--launch", action="store_true")
    options = parser.parse_args()
    if options.launch:
        launch_all()
        return 0
    cases = [(name, predicted(k)) for name, k, _ in kernels("cuda -arch=sm_90" if options.model else "cuda")]
    seen = [None] * len(cases) if options.model else measured()
    good = len(seen) == len(cases)
    for (name, wanted), found in zip(cases, seen, strict=False):
        good &= options.model or found == wanted
        print(f"{name:36s} predicted {wanted}" + ("" if found is None else f", counted {found}"))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
