"""deterministic=True: what depends on the order of atomic accesses is an error at its line."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, kernel

SIGNATURE = "A: T.Tensor((64, 8), '{0}'), B: T.Tensor((64, 8), '{0}'), n: T.int32"
TARGETS = ["reference", "sim:sm_80", "cpu", "cuda -arch=sm_80"]

REFUSED = {
    "T.atomic_add(A[0, 0], B[bx, 0])": ("float32", "T.atomic_add adds float32 to A", "second kernel"),
    "for i, j in T.Parallel(4, 8):\n    T.atomic_add(A[i, j], 1.0)":
        ("float16", "adds float16 to A", "workspace"),
    "S = T.alloc_fragment((4, 8), 'float32')\nT.clear(S)\nT.atomic_add(A[0:4, :], S)":
        ("float32", "T.atomic_add adds float32 to A", "T.reduce_sum"),
    "S = T.alloc_shared((8,), 'float32')\nT.clear(S)\nT.atomic_add(S[0], 1.0)":
        ("float32", "T.atomic_add adds float32 to S", "T.reduce_sum"),
    "T.atomic_addx2(A[0, 0], B[0, 0])": ("float16", "T.atomic_add adds float16", "rounded"),
    "T.atomic_addx4(A[0, 0], B[0, 0])": ("float32", "T.atomic_add adds float32", "rounded"),
    "A[bx, 0] = T.atomic_add(B[0, 0], 1, return_prev=True)":
        ("int32", "T.atomic_add with return_prev=True gives the previous value of B", "a scan"),
    "A[bx, 0] = T.atomic_max(B[0, 0], 1, return_prev=True)":
        ("float32", "T.atomic_max with return_prev=True", "thread and block indices"),
    "T.atomic_add(A[0, 0], 1)\nT.atomic_max(A[0, 0], 3)":
        ("int32", "T.atomic_max updates A, which the kernel also updates in another way on", "two buffers"),
    "T.atomic_store(A[0, 0], bx)": ("int32", "atomic_store to an element of A", "plain store"),
    "A[bx, 0] = 1\nB[bx, 0] = T.atomic_load(A[0, 0])": ("int32", "T.atomic_load reads A", "second kernel"),
    "T.atomic_add(A[0, 0], 1)\nB[bx, 0] = A[0, 0]": ("int32", "A is read while other blocks update it",
                                                      "second kernel"),
    "T.atomic_add(A[0, 0], 1)\nS = T.alloc_shared((8,), 'int32')\nT.copy(A[0, :], S)":
        ("int32", "A is read while other blocks update it", "second kernel"),
    "T.call_extern('void', 'atomicAdd', T.address_of(A[0, 0]), 1.0)":
        ("float32", "the external function `atomicAdd` names an atomic operation", ""),
    "T.ptx('red.global.add.f32 [{0}], {1};', T.address_of(A[0, 0]), T.float32(1))":
        ("float32", "names an atomic operation", ""),
    "T.import_source('__device__ void f(float* x) { atomicAdd(x, 1.f); }')\n"
    "T.call_extern('void', 'f', T.address_of(A[0, 0]))":
        ("float32", "the text of T.import_source or prelude= names an atomic operation", ""),
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED)
def test_refused(tmp_path, body):
    dtype, says, instead = REFUSED[body]
    program = kernel(tmp_path, body, signature=SIGNATURE.format(dtype))
    for target in TARGETS:
        with pytest.raises(tilelang.CompileError) as caught:
            tilelang.compile(program, target=target, deterministic=True)
        error = caught.value
        assert error.text.startswith("deterministic=True: ") and says in error.text and instead in error.text
        if "import_source" not in body:
            assert error.line >= FIRST_LINE
    if "call_extern" not in body and "ptx" not in body:
        tilelang.compile(program, target="sim:sm_80")


ALLOWED = [
    ("int32", "for i in T.Parallel(8):\n    T.atomic_add(A[0, i], 1)\nT.atomic_max(B[0, 0], bx)"),
    ("float32", "T.atomic_max(A[0, 0], 1.0)\nT.atomic_min(B[0, 0], 1.0)"),
    ("uint32", "for i, j in T.Parallel(4, 8):\n    T.atomic_add(A[i, j], 1)\n    T.atomic_or(B[i, j], 4)"),
    ("int32", "S = T.alloc_shared((8,), 'int32')\nT.clear(S)\n"
              "for i in T.Parallel(8):\n    T.atomic_add(S[(n + i) % 8], 1)\nT.copy(S, A[bx, :])"),
    ("int32", "T.atomic_add(A[0, 0], 1)\nT.sync_grid()\nB[bx, 0] = A[0, 0]"),
    ("int32", "A[bx, 0] = T.atomic_load(B[0, 0])"),
    ("float32", "S, R = T.alloc_fragment((64, 8), 'float32'), T.alloc_fragment((64,), 'float32')\n"
                "T.copy(A, S)\nT.reduce_sum(S, R, dim=1)\nT.copy(R, B[:, bx])"),
]  # fmt: skip


@pytest.mark.parametrize("dtype, body", ALLOWED)
def test_allowed(tmp_path, dtype, body):
    program = kernel(tmp_path, body, signature=SIGNATURE.format(dtype))
    for target in ("sim:sm_80", "cpu", "cuda -arch=sm_80"):
        if target == "cpu" and "sync_grid" in body:
            continue
        made = tilelang.compile(program, target=target, deterministic=True)
        assert "no result depends on the order of atomic accesses" in str(made.report)
        assert "depends on the order" not in str(tilelang.compile(program, target=target).report)


def histogram(dtype, **options):
    @tilelang.jit(target="cpu", **options)
    def make():
        @T.prim_func
        def main(A: T.Tensor((64,), "int32"), C: T.Tensor((4,), dtype)):
            with T.Kernel(4, threads=16) as bx:
                for i in T.Parallel(16):
                    T.atomic_add(C[A[bx * 16 + i]], 1)

        return main

    return make


def test_in_jit():
    a = np.random.default_rng(0).integers(0, 4, 64).astype(np.int32)
    c = np.zeros(4, np.int32)
    histogram("int32", deterministic=True)()(a, c)
    assert np.array_equal(c, np.bincount(a, minlength=4))
    histogram("float32")()
    with pytest.raises(tilelang.CompileError, match="T.atomic_add adds float32 to C"):
        histogram("float32", deterministic=True)()


def test_in_an_eager_kernel():
    @tilelang.jit(target="cpu", deterministic=True)
    def total(A):
        A: T.Tensor((64,), "float32")
        C = T.empty((1,), "float32")
        with T.Kernel(4, threads=16) as bx:
            for i in T.Parallel(16):
                T.atomic_add(C[0], A[bx * 16 + i])
        return C

    with pytest.raises(tilelang.CompileError, match="T.atomic_add adds float32 to C"):
        total(np.ones(64, np.float32))


def test_the_cache_knows(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    for again in (False, True):
        assert histogram("int32")().from_cache == again
        assert histogram("int32", deterministic=True)().from_cache == again


def test_par_compile():
    programs = [histogram(dtype)().prim_func for dtype in ("int32", "float32")]
    made = tilelang.par_compile(programs, target="cpu", deterministic=True, ignore_error=True)
    assert made[0] is not None and made[1] is None
