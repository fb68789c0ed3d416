"""Targets: the chips that there are, one of them under two names, and what is said of those that are not."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import _core

HOPPER = ["sm_90", "sm_90a"]


@T.prim_func
def multiply(
    A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")
):
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C)


def test_hopper_with_its_own_instructions_is_hopper():
    plain, own = (tilelang.compile(multiply, target=f"cuda -arch={chip}") for chip in HOPPER)
    assert (
        "tl_wgmma_m64k16_f16_f32_ss" in own.get_kernel_source() and "wgmma" not in plain.get_kernel_source()
    )
    assert ".target sm_90a" in own._kernel.ptx() and ".target sm_90a" not in plain._kernel.ptx()
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    got = np.zeros((64, 64), np.float32)
    tilelang.compile(multiply, target="sim:sm_90a")(a, b, got)
    assert np.allclose(got, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


@T.prim_func
def fence(A: T.Tensor((128,), "float32")):
    with T.Kernel(1, threads=128):
        T.ptx("wgmma.fence.sync.aligned;")
        A[T.get_thread_binding()] = 1.0


def test_only_the_device_compiler_of_sm_90a_takes_wgmma():
    tilelang.compile(fence, target="cuda -arch=sm_90a")
    with pytest.raises(tilelang.CompileError, match="sm_90"):
        tilelang.compile(fence, target="cuda -arch=sm_90")


@pytest.mark.parametrize("target, why", [
    ("cuda -arch=sm_70", "Volta"),
    ("cuda -arch=sm_61", "before Volta"),
    ("sim:sm_72", "Volta"),
    ("metal", "Apple"),
    ("webgpu", "WGSL"),
    ("cutedsl", "say cuda"),
])  # fmt: skip
def test_a_target_that_is_not_here(target, why):
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(multiply, target=target)
    chips = ", ".join(DATA_SHEETS)
    assert why in caught.value.text and chips in caught.value.text


@pytest.mark.parametrize("chip, described", [
    ("sm_87", "sm_86"), ("sm_100a", "sm_100"), ("sm_110", "sm_103"), ("sm_121a", "sm_121"),
    ("sm_101", "sm_100"),
])  # fmt: skip
def test_a_later_chip_takes_the_program_of_the_newest_before_it(chip, described):
    later, known = (tilelang.compile(multiply, target=f"cuda -arch={name}") for name in (chip, described))
    assert later.target == tilelang.resolve_target(later.target) == f"cuda -arch={chip}"
    assert later.get_kernel_source() == known.get_kernel_source()
    said = [note.text for note in later.explain().notes if note.subject == "target"]
    assert len(said) == 1 and f"no description of {chip}" in said[0] and f"that of {described}," in said[0]
    assert ("tcgen05" in said[0]) == chip.startswith(("sm_10", "sm_11"))
    assert str(later.explain()).count(said[0]) == 1 and "no description" not in str(known.explain())
    own = chip != "sm_101"  # NVRTC does not know that one: the driver will compile PTX
    assert later._kernel.binary.startswith(b"\x7fELF" if own else b"//")
    assert f".target {chip if own else described}" in later._kernel.ptx()
    assert (later.n_regs is None) != own
    if not own:
        with pytest.raises(RuntimeError, match="is PTX here"):
            later.show_sass()
    a, b, got = np.ones((64, 64), "f2"), np.eye(64, dtype="f2"), np.zeros((64, 64), "f4")
    simulated = tilelang.compile(multiply, target=f"sim:{chip}")
    simulated(a, b, got)
    assert simulated.target == f"sim:{chip}" and np.array_equal(got, np.ones((64, 64)))
    assert _core.target_info(f"sim:{chip}")["name"] == described
    tilelang.compile(multiply, target=f"cuda -arch={chip}", compile_flags=[f"-arch={chip}"])


@pytest.mark.parametrize("target, said", [
    ("cuda -arch=sm_999", "names; did you mean `sm_90` or `sm_90a`?"),
    ("cuda -arch=sm_91", "names; did you mean `sm_90` or `sm_90a`?"),
    ("sim:sm_999", "names; did you mean `sm_90` or `sm_90a`?"),
    ("sim:sm_95", "names; did you mean `sm_90` or `sm_90a`?"),
    ("sim:sm_85", "names; did you mean `sm_86`?"),
    ("sim:sm_76", "names; did you mean `sm_75`?"),
    ("cuda -arch=sm_12", "sm_121; did you mean `sm_120`?"),
    ("cuda -arch=sm90", "sm_121; did you mean `sm_90` or `sm_90a`?"),
    ("sim:sm_9O", "gfx942; did you mean `sm_90` or `sm_90a`?"),
    ("cpu -mcpu=haswel", "cooperlake; did you mean `haswell`?"),
    ("llvm -mcpu=skylake", "cooperlake"),
    ("hip -mcpu=gfx942x", "runs on its own chip only"),
])  # fmt: skip
def test_a_chip_that_does_not_exist(target, said):
    chip = target.replace("sim:", "=").rpartition("=")[2]
    for way in (lambda: tilelang.compile(multiply, target=target), lambda: tilelang.resolve_target(target)):
        with pytest.raises(tilelang.CompileError) as caught:
            way()
        text = caught.value.text
        assert text.startswith(f"target '{target}': there is no ") and f"'{chip}'" in text
        assert text.endswith(said), text


@pytest.mark.parametrize("target", ["hip -mcpu=gfx90a", "sim:gfx90a", "hip -mcpu=gfx950"])
def test_a_chip_of_amds_that_is_not_here(target):
    with pytest.raises(
        tilelang.CompileError, match=r"this version has .*gfx942: this version describes gfx942"
    ):
        tilelang.compile(multiply, target=target)


def test_llvm_is_the_cpu():
    assert tilelang.compile(multiply, target="llvm")._kernel.target.startswith("cpu -mcpu=")


# ── what a chip's literal says ────────────────────────────────────────────────────────────────────────
DATA_SHEETS = {  # multiprocessors, shared memory of a block in KB, L2 in MB, TB/s, f16 TFLOPS, int8 TOPS
    "sm_75": (40, 64, 4, 0.32, 65.1, 130.2),
    "sm_80": (108, 163, 40, 1.555, 312, 624),
    "sm_86": (84, 99, 6, 0.696, 149.7, 299.3),
    "sm_89": (128, 99, 72, 1.008, 165.2, 660.6),
    "sm_90": (132, 227, 50, 3.35, 989, 1979),
    "sm_90a": (132, 227, 50, 3.35, 989, 1979),
    "sm_100": (148, 227, 126, 7.7, 2250, 4500),
    "sm_103": (148, 227, 126, 8.0, 2250, 150),
    "sm_120": (170, 99, 96, 1.792, 209.5, 838),
    "sm_121": (48, 99, 24, 0.273, 118.9, 237.7),
}


@pytest.mark.parametrize("chip", DATA_SHEETS)
def test_the_numbers_of_a_chip(chip):
    info = _core.target_info(f"cuda -arch={chip}")
    count, shared, l2, bandwidth, f16, int8 = DATA_SHEETS[chip]
    assert (info["name"], info["kind"], info["capability"]) == (chip, "cuda", int(chip[3:].rstrip("a")))
    assert (info["warp"], info["max_threads"], info["registers"]) == (32, 1024, 255)
    assert info["multiprocessors"]["count"] == count and info["multiprocessors"]["registers"] == 65536
    assert (info["shared_bytes"], info["l2_bytes"]) == (shared << 10, l2 << 20)
    peak = info["peak"]
    for wanted, got in ((bandwidth, info["bandwidth"]), (f16, peak["float16"]), (int8, peak["int8"])):
        assert got / 1e12 == pytest.approx(wanted, rel=2e-3)
    assert ("float8_e4m3fn" in peak) == (info["capability"] >= 89)
    simulated = _core.target_info(f"sim:{chip}")
    assert {**simulated, "kind": "cuda", "target": f"cuda -arch={chip}"} == info


def test_what_has_no_chip_says_less():
    cpu = _core.target_info("cpu -mcpu=haswell")
    assert (cpu["warp"], cpu["vector_bytes"]) == (1, 32) and "peak" not in cpu
    assert _core.chips("cuda") == list(DATA_SHEETS) and cpu["name"] in _core.chips("llvm")
    assert _core.target_info("reference") == {"target": "reference", "kind": "reference"}
    with pytest.raises(tilelang.CompileError, match="Volta"):
        _core.target_info("cuda -arch=sm_70")


@pytest.mark.parametrize("bits, dtype", [(8, "s8_s32"), (16, "f16_f32"), (32, "tf32_f32")])
def test_fragments_of_the_chips_rows(bits, dtype):
    """The formulas for operands of 16 rows and 256 bits, and for sums of 16×16, in terms of the rows."""
    depth, per = 256 // bits, 32 // bits
    row = f"mma_m16n8k{depth}_{dtype}"
    a, b, c = (_core.matrix_fragment(row, x) for x in "abc")
    b, c = (f.repeat([1, 2], False, True) for f in (b, c))  # two instructions side by side

    def operand(i, k, is_b):
        halves = (i // 8, k // (4 * per)) if is_b else (k // (4 * per), i // 8)
        return 4 * (i % 8) + k % (4 * per) // per, per * (2 * halves[0] + halves[1]) + k % per

    for i in range(16):
        for k in range(depth):
            assert a.layout.map([i, k, 0]) == operand(i, k, False)
            assert b.layout.map([k, i, 0]) == operand(i, k, True)
        for j in range(16):
            place = (4 * (i % 8) + j % 8 // 2, 4 * (j // 8) + i // 8 * 2 + j % 2)
            assert c.layout.map([i, j, 0]) == place and c.layout.inverse().map(place)[:2] == (i, j)


@pytest.mark.parametrize("body", [
    "S = T.alloc_shared((4096, 8192), 'float32')\nT.clear(S)\nT.copy(S[0:64, 0:8], A)",
    "S = T.alloc_shared((64, 8), 'float32')\nT.clear(S)\nT.tma_copy(S, A)",
    "F, S = T.alloc_fragment((64, 64), 'float32'), T.alloc_shared((64, 64), 'float16')\n"
    "T.wgmma_gemm(S, S, F)",
    "A[0, 0] = T.shfl_sync(A[0, 1], 1)",
    "T.wait_wgmma(0)",
])  # fmt: skip
def test_the_cpu_is_said_as_such(tmp_path, body):
    """Not by the level of x86 that was found."""
    from helpers import kernel

    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(kernel(tmp_path, body, launch="T.Kernel(1)"), target="cpu")
    said = error.value.text
    assert "the CPU" in said and not any(chip in said for chip in ("lake", "haswell", "avx512", "x86"))
