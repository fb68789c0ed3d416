"""What stands in the machine code in front of each wait for products of warpgroups, and that ptxas has moved
nothing of it behind the wait, in the examples for Hopper."""

import importlib
import importlib.util
from pathlib import Path

import harness
import pytest
import tilelang
import tilelang.language as T
from test_warp_schedule import late_release
from tilelang.jit import artifact
from tilelang.tools.command_line import main as command_line
from tilelang.tools.machine_code import MachineCode, RegionInfo, read_machine_code

TARGET = "cuda -arch=sm_90a"
by_disassembler = pytest.mark.skipif(
    artifact._disassembler() is None, reason="no disassembler of the CUDA toolkit"
)

# A loop that leaves a product in flight over its end, and waits for a barrier out of line; beside the product
# are two of the three exp2.
LOOP = """
	Function : k
        /*0000*/                   MUFU.EX2 R1, R1 ;      /* 0x0000000000000000 */
        /*0010*/              @!P0 BRA 0xa0 ;
        /*0020*/                   MUFU.EX2 R1, R1 ;
        /*0030*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24, UP0 ;
        /*0040*/                   HGMMA.64x64x16.F32 R24, gdesc[UR4], R24, gsb0 ;
        /*0050*/                   F2FP.F16.F32.PACK_AB R1, R1, R2 ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0070*/               @P1 BRA 0x10 ;
        /*0080*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0090*/                   EXIT ;
        /*00a0*/                   MUFU.EX2 R1, R1 ;
        /*00b0*/                   BRA 0x20 ;
"""
# With a condition of a whole warp, which is an operand; and as nvdisasm writes it.
UNIFORM = LOOP.replace("@!P0 BRA 0xa0", "     BRA.U !UP0, 0xa0")
LABELLED = (
    LOOP.replace("\tFunction : k", "\n.text.k:")
    .replace("        /*0010*/", ".L_1:\n        /*0010*/")
    .replace("        /*0020*/", ".L_2:\n        /*0020*/")
    .replace("        /*00a0*/", ".L_3:\n        /*00a0*/")
    .replace("BRA 0x10", "BRA `(.L_1)")
    .replace("BRA 0x20", "BRA `(.L_2)")
    .replace("BRA 0xa0", "BRA `(.L_3)")
)


@pytest.mark.parametrize("sass", [LOOP, UNIFORM, LABELLED])
def test_regions(sass):
    instruction = "HGMMA.64x64x16.F32"
    code = read_machine_code(sass, "")
    assert code.regions == (
        RegionInfo("k", instruction, 2, exp2=1, arithmetic=1, in_flight=2, left=1, address=0x60),
        RegionInfo("k", "", 0, exp2=0, arithmetic=0, in_flight=1, left=0, address=0x80),
    )
    assert f"k to 0x0060: begins 2 {instruction}; beside products 1 exp2, 1 other" in str(code)


SOURCE = """TL_DEVICE void tl_wgmma_commit_group() {}
extern "C" __global__ void __cluster_dims__(2) __launch_bounds__(128, 1)
k(float* A) {
  exp2f(A[0]);
  tl_wgmma_commit_group();
  EXP2
  tl_wgmma_wait_group<0>();
  exp2f(A[0]);
}
"""


def test_what_was_moved_is_said():
    beside = "/*0000*/ HGMMA.64x64x16.F32 R24, gdesc[UR4], R24, gsb0 ;\n/*0010*/ MUFU.EX2 R1, R1 ;\n"
    wait = "/*0020*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n"
    moved = "\n".join([beside.split("\n")[0], wait.strip(), beside.split("\n")[1]])
    source = SOURCE.replace("EXP2", "A[1] = exp2f(A[0]);")
    assert read_machine_code(f"Function : k\n{beside}{wait}", source).moved == ()
    (said,) = read_machine_code(f"Function : k\n{moved}", source).moved
    assert "exp2 beside products in front of 1 waits, the machine code in front of 0: ptxas moved" in said
    assert read_machine_code(f"Function : k\n{moved}", SOURCE.replace("EXP2", "")).moved == ()


FACTOR = """
	Function : k
        /*0000*/                   LDS.64 R88, [R2] ;
        /*0010*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0020*/                   MOV R90, R3 ;
        /*0030*/                   HGMMA.64x64x16.F32 R24, R90, gdesc[UR4], R24, gsb0 ;
        /*0040*/                   STS [R91], R92 ;
        /*0050*/               @P1 BRA 0x0 ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0070*/                   MOV R91, R3 ;
        /*0080*/                   EXIT ;
"""


def test_registers_of_a_factor_that_are_overwritten():
    assert read_machine_code(FACTOR, "").overwritten == ()
    for wide in (".128", ".64"):  # the next iteration's load reaches R91, or R89
        found = read_machine_code(FACTOR.replace("LDS.64", f"LDS{wide}"), "").overwritten
        assert bool(found) == (wide == ".128")
    results = {"SHFL.IDX PT, R91, R1, R2, RZ": 1, "CS2R R89, SRZ": 1, "HMMA.16816.F32 R88, R1, R2, R3": 1}
    for other in (*results, "RET.REL.NODEC R90 `(k)", "CS2R.32 R89, SRZ", "STG.E.128 [R90], R88"):
        found = read_machine_code(FACTOR.replace("STS [R91], R92", other), "").overwritten
        assert len(found) == results.get(other, 0), other
    (said,) = found = read_machine_code(FACTOR.replace("STS [R91], R92", "FADD R92, R1, R1"), "").overwritten
    assert "k: FADD at 0x0040 writes registers that the product at 0x0030 still multiplies" in said
    code = read_machine_code(FACTOR.replace("STS [R91], R92", "FADD R94, R1, R1"), "")
    assert code.overwritten == () and "writes registers" not in str(code)


@T.prim_func
def plain(A: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(32):
            A[i] = 1.0


def test_what_is_missing_is_said(monkeypatch, capsys):
    kernel = tilelang.compile(plain, target="cpu")
    assert kernel.report.machine_code is None
    report = kernel.explain(machine_code=True)
    assert report.machine_code.regions == () and "only CUDA kernels" in report.machine_code.missing
    assert f"not known: {report.machine_code.missing}" in capsys.readouterr().out
    monkeypatch.setattr(artifact, "_disassembler", lambda: None)
    code = tilelang.compile(plain, target=TARGET).machine_code
    assert code.regions == () and "pip install nvidia-cuda-nvdisasm" in code.missing


@by_disassembler
def test_a_kernel_without_products(tmp_path):
    kernel = tilelang.compile(plain, target=TARGET)
    assert kernel.machine_code == MachineCode() and "it has no such wait" in str(kernel.machine_code)
    kernel.explain(html=tmp_path / "page.html", machine_code=True)
    assert "it has no such wait" in (tmp_path / "page.html").read_text(encoding="utf-8")


@by_disassembler
def test_the_command_line(capsys):
    path = Path(harness.__file__).parent / "gemm_schedule.py"
    given = ["explain", f"{path}:gemm", "100", "136", "200", "--target", TARGET, "--machine-code"]
    assert command_line(given) == 0
    assert "begins 4 HGMMA.64x128x16.F32" in capsys.readouterr().out


def attention(module):
    program = module.attention.get_tir(1, 1, 512, 512, 128, False)
    return tilelang.compile(program, target=TARGET, pass_configs=module.flash_attention.FAST)


@by_disassembler
def test_weights_are_computed_beside_the_sums():
    code = attention(importlib.import_module("attention_warpgroups")).machine_code
    beside = [r.exp2 for r in code.regions if r.exp2]
    assert len(beside) == 2 and min(beside) >= 64  # of two consumers: a thread's share of 64 x 128 weights
    assert code.moved == () and {r.left for r in code.regions} == {0, 1}
    assert code.overwritten == ()  # weights stay in registers until their product has ended


@by_disassembler
def test_weights_that_nothing_keeps_beside_the_sums(tmp_path):
    text = Path(importlib.import_module("attention_warpgroups").__file__).read_text()
    assert text.count("T.copy(total, kept[c, :])") == 1
    path = tmp_path / "not_kept.py"
    path.write_text(text.replace("T.copy(total, kept[c, :])", "pass"))
    spec = importlib.util.spec_from_file_location("not_kept", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    code = attention(module).machine_code
    assert sum(r.exp2 for r in code.regions) < 128
    assert len(code.moved) == 1 and "ptxas moved a wait" in str(code)


@by_disassembler
@pytest.mark.parametrize("name", ["gemm_warpgroups", "gemm_cluster", "gemm_fp8_warpgroups"])
def test_products_are_begun_while_others_run(name):
    module = importlib.import_module(name)
    for case in module.cases("gpu", **module.SMALL):
        kernel = tilelang.compile(case.kernel, target=TARGET, pass_configs=case.pass_configs)
        code = kernel.machine_code
        kept = [r for r in code.regions if r.left == 1 and r.in_flight == 2 and r.products >= 4]
        if "promoted" in case.name:  # its consumers take turns: while one waits, the other's product runs
            assert all(r.left == 0 and r.products == 4 for r in code.regions) and len(code.regions) >= 2
        else:
            teams = 1 if "one team" in case.name else 2
            assert len(kept) >= teams and all("GMMA.64x" in r.instruction for r in kept)
        assert code.moved == ()


@by_disassembler
def test_a_schedule_that_releases_late():
    code = tilelang.compile(late_release(9), target=TARGET).machine_code
    assert any(r.products and r.in_flight == 2 and r.left == 1 for r in code.regions)


@by_disassembler
def test_a_schedule_waits_for_its_products():
    """T.gemm ends with its wait."""
    module = importlib.import_module("gemm_schedule")
    for case in module.cases("gpu", **module.SMALL):
        code = tilelang.compile(case.kernel, target=TARGET).machine_code
        assert code.regions and all(r.products == 4 and r.left == 0 for r in code.regions)
