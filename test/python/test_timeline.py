"""The measured timeline of roles: stamps are in order, turns are those of the loops, nothing is written where
there is no room, and the kernel computes what it does without stamps."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import load
from test_roles import gemm, numbers, poisoned

SIM = "sim:sm_90a"
attention = load(Path(__file__).resolve().parents[2] / "examples" / "flash_attention.py").attention


def measured(program, *arguments, **options):
    """The timeline of a kernel whose arguments end with its output, which is the same without stamps."""
    kernel = tilelang.compile(program, target=SIM, **options)
    *given, out = arguments
    plain = out.copy()
    kernel(*given, plain)
    timeline = kernel.measure_timeline(*given, out)
    assert np.array_equal(out, plain) and not np.isnan(out.astype(float)).any()
    check(timeline)
    return timeline


def check(timeline):
    """Every time comes after the one before, and waits lie inside of their turns."""
    for role in timeline.roles:
        times = [role.begin]
        for turn in role.turns:
            inside = [t for w in turn.waits for t in (w.begin, w.end)]
            times += [turn.begin, *inside, turn.end]
            assert turn.length == turn.end - turn.begin >= turn.waiting >= 0
        assert times == sorted(times) and times[-1] <= role.end
        assert all(role.begin <= w.begin < w.end <= role.end for w in role.waits)


def turns(timeline, block=0):
    return {r.role: len(r.turns) for r in timeline.roles if r.block == block}


def test_a_product():
    a, b, c = numbers(64, 640), numbers(64, 640, seed=1), poisoned(64, 64)
    timeline = measured(gemm(64, 64, 640), a, b, c)
    assert turns(timeline) == {"load": 10, "compute": 10} and timeline.blocks == {"main_kernel": 1}
    load_role, compute_role = timeline.roles
    assert [w.on for w in load_role.turns[0].waits] == ["a_empty"]
    assert [w.on for w in compute_role.turns[0].waits] == ["a_full", "products"]
    assert [w.on for w in compute_role.waits] == ["products"] and not load_role.waits
    # The first slots are free at once; the first tile has to come, and nobody computes before it is there.
    free = [t.waiting for t in load_role.turns]
    assert max(free[:8]) < max(free[8:])
    assert compute_role.turns[0].waits[0].end > load_role.turns[0].begin
    assert timeline.unit == "operations" and timeline.ns(1) is None and not list(timeline.notes())
    text = str(timeline)
    assert "load: a turn of loop k (10 of them)" in text and "waits for a_full" in text


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_loops_that_only_the_call_knows(steps):
    @T.prim_func
    def main(
        A: T.Tensor((4, 64, 320), "float16"),
        B: T.Tensor((64, 320), "float16"),
        n: T.int32,
        C: T.Tensor((4, 64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for t in T.serial(4):
                T.clear(c)
                for k in T.Pipelined(T.min(n, t), num_stages=3):
                    T.copy(A[t, :, k * 64 : (k + 1) * 64], a)
                    T.copy(B[0, k * 64], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[t, :, :])

    timeline = measured(main, numbers(4, 64, 320), numbers(64, 320, seed=1), steps, poisoned(4, 64, 64))
    expected = sum(min(steps, t) for t in range(4))
    assert turns(timeline) == {"load": expected, "compute": expected}
    assert ("no role had a turn" in str(timeline)) == (steps == 0)


def test_turns_beyond_the_record():
    a, b, c = numbers(64, 64 * 180), numbers(64, 64 * 180, seed=1), poisoned(64, 64)
    timeline = measured(gemm(64, 64, 64 * 180), a, b, c)
    assert turns(timeline) == {"load": 180, "compute": 1020 // 6}
    assert [(r.is_cut, r.kept, r.stamps) for r in timeline.roles] == [(False, 720, 720), (True, 1020, 1082)]
    said = "compute: the record was full after 1020 of 1082 stamps, 170 turns of block 0"
    assert said in " ".join(timeline.notes()) and said in str(timeline)


def test_blocks_beyond_the_record():
    a, b, c = numbers(192, 192), numbers(256, 192, seed=1), poisoned(192, 256)
    timeline = measured(gemm(192, 256, 192), a, b, c)
    assert timeline.blocks == {"main_kernel": 12} and {r.block for r in timeline.roles} == set(range(8))
    assert all(turns(timeline, block) == {"load": 3, "compute": 3} for block in range(8))
    assert list(timeline.notes()) == ["main_kernel: the first 8 of 12 blocks were recorded"]


def test_blocks_that_walk_through_a_large_grid():
    M, N, K = 64 * 17, 64 * 16 + 8, 72
    a, b, c = numbers(M, K), numbers(N, K, seed=1), poisoned(M, N)
    timeline = tilelang.compile(gemm(M, N, K, stages=2), target=SIM).measure_timeline(a, b, c)
    check(timeline)
    assert np.array_equal(c, a.astype(float) @ b.T.astype(float))
    assert turns(timeline)["load"] == turns(timeline)["compute"] > 2
    assert 8 < timeline.blocks["main_kernel"] < 17 * 17


@pytest.mark.parametrize("keys", [200, 600])
def test_late_products(keys):
    """Attention: a product that is begun a turn late ends in the next one, the last one behind the loop."""
    program = attention.get_tir(1, 2, 128, keys, 64, False, 128, 128, 256)
    q, k, v = (numbers(1, 2, n, 64, seed=n) for n in (128, keys, keys))
    timeline = measured(program, q, k, v, np.full_like(q, np.nan))
    expected = -(-keys // 128)
    assert turns(timeline) == {"load": expected, "compute": expected}
    compute_role = timeline.of("main_kernel", "compute")[0]
    assert [w.on for w in compute_role.turns[0].waits] == ["K_shared_full", "products"]
    for turn in compute_role.turns[1:]:
        assert [w.on for w in turn.waits] == ["K_shared_full", "V_shared_full", "products", "products"]
    assert [w.on for w in compute_role.waits] == ["Q_shared_full", "V_shared_full", "products"]


def test_two_kernels_of_which_one_has_roles():
    @T.prim_func
    def main(
        A: T.Tensor((64, 256), "float16"),
        B: T.Tensor((64, 256), "float16"),
        timeline: T.Tensor((64, 64), "float32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(64, 64):
                timeline[i, j] = A[i, j]
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    a, first = numbers(64, 256), poisoned(64, 64)
    timeline = measured(main, a, numbers(64, 256, seed=1), first, poisoned(64, 64))
    assert np.array_equal(first, a[:, :64]) and list(timeline.blocks) == ["main_1_kernel"]


def test_outputs_of_the_call():
    a, b = numbers(64, 256), numbers(64, 256, seed=1)
    wanted = a.astype(float) @ b.T.astype(float)
    kernel = tilelang.compile(gemm(64, 64, 256), target=SIM, out_idx=-1)
    assert turns(kernel.measure_timeline(a, B=b))["load"] == 4
    assert kernel.out_idx == [2] and np.array_equal(kernel(a, b), wanted)
    stamped = kernel._with_stamps()
    assert stamped.out_idx == [2] and np.array_equal(stamped(a, b), wanted)
    assert not stamped.simulate(a, b).findings
    kernel = tilelang.compile(gemm(64, 64, 256), target=SIM)
    c = poisoned(64, 64)
    assert turns(kernel.measure_timeline(a, b, c)) == {"load": 4, "compute": 4} and np.array_equal(c, wanted)
    plain = tilelang.compile(gemm(64, 64, 256), target=SIM)
    assert kernel.report.pipelines == plain.report.pipelines


def test_what_an_eager_kernel_returns():
    @tilelang.jit(target=SIM)
    def product(A, B):
        M, N, K = T.const("M N K")
        A: T.Tensor[[M, K], T.float16]
        B: T.Tensor[[N, K], T.float16]
        C = T.empty([M, N], "float32")
        with T.Kernel(N // 64, M // 64, threads=128) as (x, y):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(K // 64, num_stages=2):
                T.copy(A[y * 64, k * 64], a)
                T.copy(B[x * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[y * 64, x * 64])
        return C

    a, b = numbers(128, 256), numbers(64, 256, seed=1)
    kernel = product.compile(a, b)
    timeline = kernel.measure_timeline(a, b)
    check(timeline)
    assert turns(timeline, 1) == {"load": 4, "compute": 4}
    assert np.array_equal(kernel._with_stamps()(a, b), a.astype(float) @ b.T.astype(float))


@pytest.mark.parametrize(
    "program, target, configs, why",
    [
        (gemm(64, 64, 300), SIM, {}, "no warps of its own load its tiles: the copy of A"),
        (gemm(64, 64, 256, stages=1), SIM, {}, "its tiles have one slot (num_stages is below 2)"),
        (gemm(64, 64, 256), "sim:sm_80", {}, "sm_80 has no products of warpgroups"),
        (gemm(64, 64, 256, threads=1), "cpu", {}, "has no products of warpgroups"),
        (gemm(64, 64, 256), "reference", {}, "the reference runs whole tiles"),
        (gemm(64, 64, 256), SIM, {"tl.disable_warp_specialized": True}, "leave out the pass"),
    ],
)
def test_kernels_without_roles(program, target, configs, why):
    kernel = tilelang.compile(program, target=target, pass_configs=configs)
    with pytest.raises(tilelang.CompileError) as error:
        kernel.measure_timeline(numbers(64, 300), numbers(64, 300), poisoned(64, 64))
    assert "main has no timeline" in str(error.value) and why in str(error.value)
    assert error.value.file.endswith("test_roles.py")


def test_the_page(tmp_path):
    kernel = tilelang.compile(gemm(64, 64, 640), target=SIM)
    timeline = kernel.measure_timeline(numbers(64, 640), numbers(64, 640, seed=1), poisoned(64, 64))
    report = kernel.explain(html=tmp_path / "page.html", timeline=timeline)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    ET.fromstring(page.replace("<!DOCTYPE html>", ""))
    assert "waits for a_full:" in page and "turn 0 of loop k:" in page and "outside of turns" in page
    assert report.timeline is timeline and str(timeline) in str(report)
    assert "turn 0 of loop k:" not in kernel.report.html()


def compiled(program, **options):
    try:
        return tilelang.compile(program, target="cuda -arch=sm_90a", **options)
    except RuntimeError as missing:
        if "libnvrtc" in str(missing):
            pytest.skip("NVRTC is not installed")
        raise


@pytest.mark.parametrize(
    "program",
    [
        gemm(4096, 4096, 4096, tile=(128, 256, 64), threads=256, stages=4),
        attention.get_tir(2, 8, 2048, 2048, 128, True, 128, 128, 256),
    ],
    ids=["gemm", "attention"],
)
def test_machine_code(program):
    """Stamps cost no spills and no barriers, and no product waits for another."""
    plain = compiled(program)
    stamped = plain._with_stamps()
    assert "clock64" not in plain.kernel_source and "clock64" in stamped.kernel_source
    assert "timeline" not in plain.kernel_source
    assert stamped.kernel_source.count("bar_sync<") == plain.kernel_source.count("bar_sync<")
    info = stamped.report.kernels[0]
    assert info.spill_stores == info.spill_loads == 0 and not info.refusals
    assert info.registers == plain.report.kernels[0].registers
