"""T.tma_copy: what the accelerator cannot move is refused at its line; hints are told."""

import pytest
import tilelang
import tilelang.language as T
from helpers import failure, kernel
from tma_cases import SIM, dynamic, gemm, through, whole_block

# ── what is refused ───────────────────────────────────────────────────────────────────────────────────
SIGNATURE = (
    "A: T.Tensor((64, 64), 'float16'), H: T.Tensor((64, 60), 'float16'), n: T.int32, "
    "D: T.Tensor((2, 2, 2, 2, 2, 64), 'float16'), E: T.Tensor((64, 64), 'float16', strides=(64, 2)), "
    "P: T.Tensor((64, 64), 'int4'), U: T.Tensor((4, 400), 'uint8')"
)
ONE = "b = T.alloc_barrier(32)\nS = T.alloc_shared((64, 64), 'float16')\n"
REFUSED = [
    ("T.tma_copy(A, S)", "a load needs a barrier, at which its bytes are counted: barrier=b, b = T.alloc"),
    ("T.tma_copy(S, A, barrier=b)", "a store has no barrier: it is a group of its own, which T.tma"),
    ("T.tma_copy(A, S, barrier=S)", "barrier is one of T.alloc_barrier, but S is a shared tile of float16"),
    ("T.tma_copy(A, S, barrier=3)", "a barrier is what T.alloc_barrier makes, or an element of that, not 3"),
    ("c = T.alloc_barrier([1, 1])\nT.tma_copy(A, S, barrier=c)", "c is 2 barriers, and a copy counts at one"),
    ("T.tma_copy(A, S, barrier=b, cluster_mask=3)", "cluster_mask reaches another block of the cluster, but"),
    ("T.tma_copy(A, S, barrier=b, leader_scope_threads=16)", "is 16, but 32 threads come here"),
    ("T.tma_copy(A, S, barrier=b, leader_scope_threads=64)", "is 64, but 32 threads come here"),
    ("T.tma_copy(A, S, barrier=b, leader_scope_threads=0)", "is a number of threads, not 0"),
    ("F = T.alloc_fragment((64, 64), 'float16')\nT.tma_copy(A, F, barrier=b)", "F is a fragment; T.copy"),
    ("T.tma_copy(A, E)", "goes from a tensor to a shared tile or back, but A is a tensor and E is a tensor"),
    ("T.tma_copy(S, S, barrier=b)", "but S is a shared tile and S is a shared tile"),
    ("R = T.alloc_shared((64, 64), 'float32')\nT.tma_copy(A, R, barrier=b)", "A is float16 and R is float32"),
    ("T.tma_copy(A[0:32, :], S, barrier=b)", "the source is A: float16[32, 64] but the destination is S"),
    ("T.tma_copy(H[0:64, 0:56], S[0:64, 0:56], barrier=b)", "a stride is 120 bytes, which must be"),
    ("T.tma_copy(A[0:64, 0:4], S[0:64, 0:4], barrier=b)", "a row of A: float16[64, 4] has 8 bytes, but"),
    ("T.tma_copy(A[:, 0], S[:, 0], barrier=b)", "A: float16[64] is one element of the last dimension of A"),
    ("T.tma_copy(D[0, 0, 0, 0, :, :], S[0:2, :], barrier=b)", "it has 6 dimensions, not 1 to 5"),
    ("T.tma_copy(E, S, barrier=b)", "its last stride is 2: the elements of a row must be neighbours"),
    ("Q = T.alloc_shared((64, 64), 'int4')\nT.tma_copy(P, Q, barrier=b)", "P has packed type int4"),
    ("W = T.alloc_global((64,), 'float16')\nG = T.make_tensor(T.access_ptr(W[0], 'r'), (64, 64), 'float16')\n"
     "T.tma_copy(G, S, barrier=b)", "G is neither a parameter nor a workspace"),
    ("T.tma_store_wait(n)", "count is part of the instruction: a constant, at least 0, not n"),
]  # fmt: skip


@pytest.mark.parametrize("body, text", REFUSED)
def test_what_is_refused(tmp_path, body, text):
    error = failure(tmp_path, ONE + body, signature=SIGNATURE)
    assert text in error.text and error.line == 7 + body.count("\n"), str(error)


LATER = [
    (
        "T.tma_copy(A[0, 4 : 4 + 56], S[0, 0:56], barrier=b)",
        "begins at 4 of the last dimension of A, which is never",
    ),
    (
        "T.tma_copy(A[0, n * 8 + 4], S[0, 0:32], barrier=b)",
        "which is never a multiple of 8 elements (16 bytes)",
    ),
    ("T.annotate_safe_value({A: 1})\nT.tma_copy(A, S, barrier=b)", "A has the safe value 1"),
    ("T.tma_copy(A[0:64, 0:8], S[0:64, 8:16], barrier=b)", "boxes cannot make up S: float16[64, 8]"),
    (
        "R = T.alloc_shared((4, 400), 'uint8')\nT.tma_copy(U, R, barrier=b)",
        "boxes cannot make up R: uint8[4, 400]",
    ),
]


@pytest.mark.parametrize("body, text", LATER)
def test_what_is_refused_when_it_is_compiled(tmp_path, body, text):
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(kernel(tmp_path, ONE + body, signature=SIGNATURE), target=SIM)
    assert text in error.value.text and error.value.line == 7 + body.count("\n"), str(error.value)


@pytest.mark.parametrize("target", ["sim:sm_80", "sim:sm_89"])
def test_chips_without_an_accelerator(target):
    @T.prim_func
    def load(X: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(64)
            T.tma_copy(X, S, barrier=full)

    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(load, target=target)
    assert "has no tensor memory accelerator (sm_90" in error.value.text
    assert "T.tma_copy(X, S, barrier=full)" in str(error.value)
    with pytest.raises(tilelang.CompileError, match="is not an instruction of"):
        tilelang.compile(whole_block(64, 64, 64), target=target)


def test_the_text_is_assembled():
    for arch in ("sm_90", "sm_90a"):
        for function in (gemm(100, 136, 200), dynamic(), through((40, 72), (16, 24), "float16")):
            try:
                source = tilelang.compile(function, target=f"cuda -arch={arch}").get_kernel_source()
            except RuntimeError as missing:
                if "libnvrtc" in str(missing):
                    pytest.skip("NVRTC is not installed")
                raise
            assert "__grid_constant__ tensor_map" in source


def test_hints_are_told():
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64, 64))
            full = T.alloc_barrier(64)
            T.tma_copy(X, S, barrier=full, eviction_policy="evict_first")
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(S, Y)

    made = tilelang.compile(main, target=SIM)
    assert any("eviction_policy='evict_first' is a hint" in n.text for n in made.report.notes)
