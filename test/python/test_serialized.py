"""What ptxas does not do as a kernel asks of its warpgroups (its messages C75xx) is told: products that it
lets run one at a time, registers that it leaves where they are, waits that it adds. In the examples for
Hopper there is nothing of it."""

import importlib
import re
import warnings
from pathlib import Path

import harness
import pytest
import tilelang
import tilelang.language as T
from tilelang import engine

TARGET = "cuda -arch=sm_90a"
NAMES = sorted(path.stem for path in Path(harness.__file__).parent.glob("*.py") if path.stem != "harness")


@pytest.fixture(autouse=True)
def without_cache(monkeypatch):
    """What is tested is what ptxas says, not what was written down of it."""
    monkeypatch.setattr(tilelang.env, "_cache_enabled", False)


def chained(touched):
    """Products with a factor in registers; touched: it is halved while the one before may be in flight."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((2, 64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tiles, factor = T.alloc_shared((2, 64, 64), "float16"), T.alloc_fragment((64, 64), "float16")
            sums = T.alloc_fragment((64, 64), "float32")
            T.copy(A, factor)
            T.copy(B, tiles)
            T.clear(sums)
            for k in T.serial(8):
                T.wgmma_gemm(factor, tiles[k % 2, :, :], sums)
                if touched:
                    for i, j in T.Parallel(64, 64):
                        factor[i, j] *= T.float16(0.5)
            T.wait_wgmma(0)
            T.copy(sums, C)

    return main


def from_a_table(checked):
    """Operands behind addresses in memory, whose alignment the kernel itself checks; checked: and more."""

    @T.prim_func
    def main(
        PA: T.Tensor((3,), T.ptr),
        PB: T.Tensor((3,), T.ptr),
        C: T.Tensor((3, 128, 128), "float32"),
    ):
        with T.Kernel(3, threads=128) as g:
            A = T.make_tensor(PA[g], (128, 256), "float16")
            B = T.make_tensor(PB[g], (256, 128), "float16")
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
                if checked:
                    T.device_assert(PA[g] != k, "100% wrong")
            T.copy(c, C[g, 0:128, 0:128])

    return main


def by_one_team(beside="nothing", registers=240):
    """Eight products, one after the other; beside: what is done while one may be in flight."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, 64), "float16"), T.alloc_shared((64, 64), "float16")
            T.copy(A, a)
            T.copy(B, b)
            with T.ws(0):
                T.set_max_nreg(registers, 1)
                sums = T.alloc_fragment((64, 64), "float32")
                T.clear(sums)
                for k in T.serial(8):
                    T.wgmma_gemm(a, b, sums)
                    if beside == "reads":
                        T.copy(sums, C)
                    if beside == "prints":
                        T.print(k)
                    T.wait_wgmma(0)
                T.copy(sums, C)

    return main


def compiled(function, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tilelang.compile(function, target=TARGET, **options)
    return kernel, [str(w.message) for w in caught if "ptxas says" in str(w.message)]


def test_a_factor_that_is_touched_in_flight(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    kernel, said = compiled(chained(True))
    (row,) = kernel.resource_usage
    assert re.fullmatch(
        r"wgmma\.mma_async instructions are serialized due to .* \(C75\d\d\)", row["serialized"]
    )
    assert len(said) == 1 and row["serialized"] in said[0] and "main_kernel" in said[0]
    assert row["refusals"][0].startswith(
        row["serialized"] + ": each product ends before the next begins; let "
    )
    assert "products serialized" in kernel.report.text.split("\n")[0]
    assert kernel.report.kernels[0].serialized == row["serialized"]
    again, said_again = compiled(chained(True))
    assert again.from_cache and said_again == said and again.resource_usage == kernel.resource_usage


def test_a_factor_that_is_left_alone():
    kernel, said = compiled(chained(False))
    assert [row["refusals"] for row in kernel.resource_usage] == [[]] and not said
    assert "products serialized" not in kernel.report.text and not kernel.report.refusals


def two_sums(sections):
    """Two products, each added to zeros, and the waits for them; sections: in one of their own."""

    @T.macro
    def begin(a, c, d):
        T.clear(c)
        T.clear(d)
        T.wgmma_gemm(a[0:64, :], a[64:128, :], c)
        T.wgmma_gemm(a[64:128, :], a[0:64, :], d)

    @T.macro
    def end(c, d, C):
        T.wait_wgmma(1)
        T.copy(c, C[0, 0])
        T.wait_wgmma(0)
        T.copy(d, C[64, 0])

    @T.prim_func
    def main(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "float16")
            c, d = [T.alloc_fragment((64, 64), "float32") for _ in range(2)]
            T.copy(A, a)
            with T.ws(0):
                begin(a, c, d)
                if not sections:
                    end(c, d, C)
            if sections:
                with T.ws(0):
                    end(c, d, C)

    return main


@pytest.mark.parametrize("sections", [False, True], ids=["one section", "two sections"])
def test_two_sums_in_flight(sections):
    """The zeros of both are there in front of the first product, and each is named behind its wait."""
    kernel, said = compiled(two_sums(sections))
    assert not said and [row["refusals"] for row in kernel.resource_usage] == [[]]
    source = kernel.get_kernel_source()
    begin, _, rest = source[source.index("extern") :].partition("tl_wgmma_fence();")
    first, _, last = rest.partition("tl_wgmma_wait_group<1>();")[2].partition("tl_wgmma_wait_group<0>();")
    named = [re.findall(r"tl_wgmma_results<128>\(&(\w)\[0\]\)", text) for text in (begin, first, last)]
    assert named == [["c", "d"], ["c"], ["d"]]


@pytest.mark.parametrize("checked", [False, True], ids=["the compiler's", "a user's"])
def test_assertions_beside_products(checked):
    """They call no printf, which would let each product end before the next begins."""
    kernel, said = compiled(from_a_table(checked))
    assert not said and [row["refusals"] for row in kernel.resource_usage] == [[]]
    source = kernel.get_kernel_source()
    assert "tl_wgmma_m64" in source and "vprintf" not in source
    assert source.count("assertion failed: the address of") == 2
    assert source.count("assertion failed: 100%% wrong") == checked


def test_the_page_knows_every_message():
    root = Path(tilelang.__file__).parents[2]
    text = (root / "src" / "runtime" / "ptxas_words.cpp").read_text()
    rows = re.findall(r'^    \{"([^"]*)", ', text, re.M)
    page = (root / "docs" / "explain.md").read_text()
    assert len(rows) > 15 and [words for words in rows if words not in page] == []


# What is done, what ptxas says of it, that in a few words, and what would mend it.
REFUSED = {
    "a result is read in flight": ({"beside": "reads"}, "", "is injected", "wait added", "T.wait_wgmma"),
    "a call": ({"beside": "prints"}, "", "crossing function", "products serialized", "T.print"),
    "few registers": ({"registers": 24}, "", "minimum register", "T.set_max_nreg ignored", "smaller tiles"),
    "debugged": ({}, "-G", "to allow debugging", "T.set_max_nreg ignored", "-G"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_told_with_their_cause(name):
    program, flag, words, brief, mend = REFUSED[name]
    kernel, said = compiled(by_one_team(**program), compile_flags=[flag] if flag else None)
    (row,) = kernel.resource_usage
    (refusal,) = [text for text in row["refusals"] if words in text]
    assert re.search(r" \(C75\d\d\): ", refusal) and mend in refusal.partition(": ")[2]
    assert len(said) == len(row["refusals"]) and sum(refusal in text for text in said) == 1
    report = kernel.report
    assert brief in report.text.split("\n")[0] and report.text.count(f"refused by ptxas: {refusal}") == 1
    assert report.text.count(refusal) == 1 and report.kernels[0].refusals == tuple(row["refusals"])
    notes = [note for note in report.refusals if note.decided_by == "ptxas"]
    assert [note.text for note in notes] == row["refusals"] and notes[0].subject == "main_kernel"


def test_registers_are_handed_over():
    """ptxas must know how many a thread has at launch: the text says so."""
    kernel, said = compiled(by_one_team())
    assert "__launch_bounds__(256, 1)" in kernel.get_kernel_source()
    assert not said and kernel.resource_usage[0]["registers"] == 240


def test_an_edit_loses_the_least_number_of_blocks():
    engine.register_cuda_postproc(lambda code, target: code.replace("(256, 1)", "(256)"))
    try:
        kernel, said = compiled(by_one_team())
    finally:
        engine.register_cuda_postproc(None)
    (refusal,) = kernel.resource_usage[0]["refusals"]
    assert "unable to determine register count at entry (C7508): " in refusal and "least number" in refusal
    assert len(said) == 1


@pytest.mark.parametrize("name", NAMES)
def test_examples_for_hopper(name):
    module = importlib.import_module(name)
    for case in module.cases("gpu", **module.SMALL):
        kernel, said = compiled(case.kernel, pass_configs=case.pass_configs)
        assert not said and all(row["refusals"] == [] for row in kernel.resource_usage)
