"""T.ptx of instructions that the compiler writes itself: the simulator knows them without being told."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError

MMA = ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{out0}, {out1}, {out2}, {out3}}, "
       "{{0}, {1}, {2}, {3}}, {{4}, {5}}, {{6}, {7}, {8}, {9}};")  # fmt: skip
FOUR = "{{out0}, {out1}, {out2}, {out3}}"


@T.prim_func
def by_hand(
    A: T.Tensor((16, 16), "float16"), B: T.Tensor((8, 16), "float16"), C: T.Tensor((16, 8), "float32")
):
    with T.Kernel(1, threads=32):
        As = T.alloc_shared((16, 16), "float16")
        Bs = T.alloc_shared((8, 16), "float16")
        T.copy(A, As)
        T.copy(B, Bs)
        lane = T.get_thread_binding()
        a0, a1, a2, a3 = T.ptx(
            f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {FOUR}, [{{0}}];",
            T.access_ptr(As[lane % 16, lane // 16 * 8], "r"),
            out=("uint32",) * 4,
        )
        b0, b1 = T.ptx(
            "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{out0}, {out1}}, [{0}];",
            T.access_ptr(Bs[lane % 8, lane // 8 % 2 * 8], "r"),
            out=("uint32",) * 2,
        )
        d0, d1, d2, d3 = T.ptx(
            MMA, a0, a1, a2, a3, b0, b1, T.float32(1), 1.0, T.float32(1), 1.0, out=("float32",) * 4
        )
        C[lane // 4, lane % 4 * 2] = d0
        C[lane // 4, lane % 4 * 2 + 1] = d1
        C[lane // 4 + 8, lane % 4 * 2] = d2
        C[lane // 4 + 8, lane % 4 * 2 + 1] = d3


def test_loads_and_multiplies():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((16, 16), (8, 16)))
    c = np.zeros((16, 8), np.float32)
    report = tilelang.compile(by_hand, target="sim:sm_80").simulate(a, b, c)
    assert not report.findings
    assert (c == a.astype(np.float32) @ b.T.astype(np.float32) + 1).all()
    source = tilelang.compile(by_hand, target="cuda -arch=sm_80").get_kernel_source()
    assert "mma.sync.aligned.m16n8k16" in source and "ldmatrix.sync.aligned.m8n8.x2" in source


def one(template, *operands, out=()):
    @T.prim_func
    def main(O: T.Tensor((32,), "uint32")):
        with T.Kernel(1, threads=32):
            got = T.ptx(template, *operands, out=out)
            O[0] = got[0]

    return main


@pytest.mark.parametrize("template,operands,out", [
    # sums that stay in the registers of the operands, other registers than holes, a shape that nobody knows
    (MMA.replace("{6}", "%f1"), (1,) * 10, ("float32",) * 4),
    (MMA.replace("m16n8k16", "m16n8k99"), (1,) * 10, ("float32",) * 4),
    (MMA.replace("{out3}", "{out2}"), (1,) * 10, ("float32",) * 4),
])  # fmt: skip
def test_what_is_not_quite_one_is_text(template, operands, out):
    with pytest.raises(CompileError, match=r"the PTX `mma.sync.aligned.* is text for a GPU"):
        tilelang.compile(one(template, *operands, out=out), target="sim:sm_80")
