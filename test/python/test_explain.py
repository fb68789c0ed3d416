"""explain(): the report as objects, as text, and as a page that a browser can show."""

import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import tilelang
import tilelang.language as T


def matmul(threads=128, dtype="float16", k_tile=32):
    @T.prim_func
    def gemm(A: T.Tensor((256, 128), dtype), B: T.Tensor((128, 256), dtype), C: T.Tensor((256, 256), dtype)):
        with T.Kernel(2, 2, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((128, k_tile), dtype)
            B_shared = T.alloc_shared((k_tile, 128), dtype)
            C_local = T.alloc_fragment((128, 128), "float32")
            T.clear(C_local)
            for k in T.Pipelined(128 // k_tile, num_stages=2):
                T.copy(A[by * 128, k * k_tile], A_shared)
                T.copy(B[k * k_tile, bx * 128], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 128, bx * 128])

    return gemm


def transpose(padding):
    """Reads columns of a tile that is laid out row by row; by itself the compiler would not do so."""

    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32, 32 + padding), "float32")
            T.annotate_layout({S: T.Layout((32, 32 + padding), lambda i, j: i * (32 + padding) + j)})
            for i, j in T.Parallel(32, 32):
                S[i, j] = A[i, j]
            for i, j in T.Parallel(32, 32):
                B[i, j] = S[j, i]

    return main


def compiled(func, target, **options):
    return tilelang.compile(func, target=target, **options)


# ── objects ───────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_gemm_is_made_of():
    r = compiled(matmul(), "sim:sm_80").report
    a, c = r.buffer("A_shared"), r.buffer("C_local")
    assert (a.scope, a.dtype, a.shape, a.bytes, a.padding) == ("shared", "f16", ("2", "128", "32"), 16384, 0)
    assert (a.decided_by, a.strictness) == ("copy", "common") and a.address == 0
    assert a.layout(0, 1, 8) == 40 and a.layout(1, 2, 8) == 4096 + 64  # the second row of chunks is swizzled
    assert isinstance(c.layout, T.Fragment) and c.elements == 128 and c.layout.threads == 128
    copy = next(x for x in r.loops if x.name == "copy(A, A_shared)")
    assert copy.name == "copy(A, A_shared)" and copy.extents == (128, 32)
    assert (copy.threads, copy.registers, copy.lanes) == (128, 32, 8)
    gemm = [o for o in r.operators if o.name == "gemm"][0]
    assert gemm.how.startswith("mma.sync: mma_m16n8k16_f16_f32 by 4 warps") and gemm.refusals == ()
    assert r.conflicts == []
    moves = [x for x in r.accesses if x.instruction]
    assert sorted((x.buffer, x.instruction, x.unit, x.count, x.least) for x in moves) == [
        ("A", "cp_async_16", "sectors", 16, 16), ("A_shared", "cp_async_16", "bank cycles", 4, 4),
        ("A_shared", "ldmatrix_x4", "bank cycles", 4, 4), ("B", "cp_async_16", "sectors", 16, 16),
        ("B_shared", "cp_async_16", "bank cycles", 4, 4),
        ("B_shared", "ldmatrix_x4_trans", "bank cycles", 4, 4)]  # fmt: skip
    assert all(x.bytes == 16 for x in moves)
    assert r.refusals == []
    assert any("pipelined: A_shared by cp.async, 2 slots" in n.text for n in r.notes)
    assert r.kernels[0].threads == 128 and r.kernels[0].shared_bytes == 32768
    assert "infer_layouts" in r.phases
    with pytest.raises(KeyError, match="no buffer 'D'; it has A, B, C, A_shared"):
        r.buffer("D")


def test_every_row_is_at_the_users_line():
    r = compiled(matmul(), "sim:sm_80").report
    lines = Path(__file__).read_text().split("\n")
    tiles = [b for b in r.buffers if b.scope in ("shared", "fragment")]
    for rows in (r.loops, r.operators, r.accesses, tiles):
        for row in rows:
            assert row.place.file == __file__
            text = lines[row.place.line - 1]
            name = getattr(row, "buffer", None) or row.name.split("(")[0]
            operands = getattr(row, "operands", None)
            whole = f"{row.name}({operands})" if operands else getattr(row, "name", name)
            # A gemm in steps has fragments, and copies to them.
            step = re.fullmatch(r"([AB]_shared)_[01]|copy\(([AB]_shared), \2_[01]\)", whole)
            assert name in text or (step and "T.gemm" in text), (row, text)


def test_planted_bank_conflicts_are_found_and_padding_removes_them():
    bad, good = compiled(transpose(0), "sim:sm_80").report, compiled(transpose(1), "sim:sm_80").report
    worst = max(bad.conflicts, key=lambda x: x.excess)
    assert (worst.buffer, worst.writes, worst.parts, worst.count, worst.least) == ("S", False, 4, 32, 4)
    assert len(bad.conflicts) == 1 and "bank conflicts" in bad
    assert good.conflicts == [] and "bank conflicts" not in good


def test_data_dependent_addresses_say_so():
    @T.prim_func
    def main(Index: T.Tensor((64,), "int32"), A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[Index[i]]

    r = compiled(main, "sim:sm_80").report
    (gather,) = [x for x in r.accesses if x.buffer == "A"]
    assert gather.count is None and gather.unknown == "its address is read from Index" and gather.excess == 0
    assert "not counted: its address is read from Index" in r


def test_a_tile_that_goes_through_shared_memory_says_why():
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            X = T.alloc_fragment((64, 64), "float32")
            Y = T.alloc_fragment((64, 64), "float32")
            T.copy(A, X)
            for i, j in T.Parallel(64, 64):
                Y[i, j] = X[j, i] + X[i, j]
            T.copy(Y, B)

    r = compiled(main, "sim:sm_80").report
    staged = [b for b in r.buffers if b.name.endswith("_shared")]
    assert staged and "which needs its elements on other threads" in staged[0].why[0]
    assert any("goes through shared memory" in n.text for n in r.refusals)


def test_why_a_better_instruction_was_refused():
    r = compiled(matmul(dtype="float32"), "sim:sm_80").report
    gemm = [o for o in r.operators if o.name == "gemm"][0]
    assert gemm.how.startswith("fma (not mma.sync: ") and gemm.refusals == (gemm.how,)


def test_an_annotated_layout_is_the_users():
    @T.prim_func
    def main(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32, 32), "float32")
            T.annotate_layout({S: T.Layout((32, 32), lambda i, j: i * 33 + j)})
            T.copy(A, S)
            T.copy(S, B)

    s = compiled(main, "sim:sm_80").report.buffer("S")
    assert (s.decided_by, s.strictness) == ("the user", "annotated")
    assert s.elements == 32 * 33 - 1 and s.padding == 31


def test_shapes_known_at_run_time():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n, 64), "float32"), B: T.Tensor((n, 64), "float32")):
        with T.Kernel(T.ceildiv(n, 4), threads=64) as bx:
            for i, j in T.Parallel(4, 64):
                B[bx * 4 + i, j] = A[bx * 4 + i, j]

    r = compiled(main, "sim:sm_80").report
    assert r.buffer("A").shape == ("n", "64") and r.buffer("A").bytes is None
    assert [(x.buffer, x.excess) for x in r.accesses] == [("A", 0), ("B", 0)]


def test_the_cpu_has_vectors_but_no_banks():
    r = compiled(matmul(), "cpu").report
    assert r.accesses and all(x.count is None and x.unit == "" and not x.unknown for x in r.accesses)
    assert max(x.bytes for x in r.accesses) >= 32 and r.conflicts == []
    assert all(loop.threads == 1 for loop in r.loops)
    assert "bank cycle" not in r and "simd" in r


def test_the_reference_lays_nothing_out():
    r = compiled(matmul(), "reference").report
    assert r.buffers == r.loops == r.operators == r.accesses == []
    assert "executed as it is written, without layouts" in r


def test_a_kernel_from_the_cache_explains_itself_as_well(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    first, second = compiled(matmul(), "cpu"), compiled(matmul(), "cpu")
    assert (first.from_cache, second.from_cache) == (False, True)
    a, b = first.report, second.report
    assert (a.kernels, a.toolchain) == (b.kernels, b.toolchain)
    for name in ("accesses", "operators", "notes"):
        assert getattr(a, name) == getattr(b, name)
    assert str(b).split("\n")[1:-2] == str(a).split("\n")[1:-2]


# ── text ──────────────────────────────────────────────────────────────────────────────────────────────────

GEMM = """\
  gemm_kernel: 128 threads per block, 32 KB of shared memory
  buffers
    F:2   A           tensor f16[256, 128], 64 KB, row-major
    F:2   B           tensor f16[128, 256], 64 KB, row-major
    F:2   C           tensor f16[256, 256], 128 KB, row-major
    F:4   A_shared    shared f16[2, 128, 32], 16 KB at 0: (i, j, k) -> i*4096 + j*32 + (k//8 ^ j//2%4)*8 + k%8
                                      laid out by copy (common, F:11)
    F:5   B_shared    shared f16[2, 32, 128], 16 KB at 16384: (i, j, k) -> i*4096 + j*128 + k//64*64 + (k//8%8 ^ j%8)*8 + k%8
                                      laid out by copy (common, F:11)
    F:6   C_local     fragment f32[128, 128], 128 registers a thread: (i, j, k) -> (j//64*64 + i//64*32 + i%8*4 + j//2%4, i//16%4*32 + j//8%8*4 + i//8%2*2 + j%2)
                                      laid out by gemm (strict, F:11)
    F:11  A_shared_0  fragment f16[128, 16], 16 registers a thread: (i, j, k) -> (k*64 + i//64*32 + i%8*4 + j//2%4, i//16%4*8 + j//8*4 + i//8%2*2 + j%2)
                                      laid out by gemm (common, F:11)
    F:11  A_shared_1  fragment f16[128, 16], 16 registers a thread: (i, j, k) -> (k*64 + i//64*32 + i%8*4 + j//2%4, i//16%4*8 + j//8*4 + i//8%2*2 + j%2)
                                      laid out by gemm (common, F:11)
    F:11  B_shared_0  fragment f16[16, 128], 16 registers a thread: (i, j, k) -> (j//64*64 + k*32 + j%8*4 + i//2%4, j//8%8*4 + i//8*2 + i%2)
                                      laid out by gemm (common, F:11)
    F:11  B_shared_1  fragment f16[16, 128], 16 registers a thread: (i, j, k) -> (j//64*64 + k*32 + j%8*4 + i//2%4, j//8%8*4 + i//8*2 + i%2)
                                      laid out by gemm (common, F:11)
  loops and operators
    F:7   clear(C_local)                         128×128 iterations on 128 threads, 128 each, 2 at once
    F:11  copy(A_shared, A_shared_0)             128×16 iterations on 128 threads, 32 each (2 threads repeat each), 2 at once
    F:11  copy(B_shared, B_shared_0)             16×128 iterations on 128 threads, 32 each (2 threads repeat each)
    F:9   copy(A, A_shared)                      128×32 iterations on 128 threads, 32 each, 8 at once
    F:10  copy(B, B_shared)                      32×128 iterations on 128 threads, 32 each, 8 at once
    F:11  copy(A_shared, A_shared_1)             128×16 iterations on 128 threads, 32 each (2 threads repeat each), 2 at once
    F:11  copy(B_shared, B_shared_1)             16×128 iterations on 128 threads, 32 each (2 threads repeat each)
    F:12  copy(C_local, C)                       128×128 iterations on 128 threads, 128 each, 2 at once
    F:11  gemm(A_shared_0, B_shared_0, C_local)  mma.sync: mma_m16n8k16_f16_f32 by 4 warps in a 2×2 grid, 4×8 tiles of 16×8×16 each
    F:11  gemm(A_shared_1, B_shared_1, C_local)  mma.sync: mma_m16n8k16_f16_f32 by 4 warps in a 2×2 grid, 4×8 tiles of 16×8×16 each
  pipelined loops: what a turn does, in order, and for which iteration
    F:8   loop k: 2 slots of A_shared (8 KB), 2 slots of B_shared (8 KB), at most 16 KB in flight
    F:11  gemm(A_shared, B_shared, C_local)               k
                        wait for all copies
    F:11  fragments of gemm(A_shared, B_shared, C_local)  k + 1  loaded into registers
    F:9   copy(A, A_shared)                               k + 2  begun by cp.async
    F:10  copy(B, B_shared)                               k + 2  begun by cp.async
    F:11  gemm(A_shared, B_shared, C_local)               k
  accesses to memory: bytes a thread moves at once; what a warp costs, at worst
    F:11  A_shared  read by ldmatrix_x4        16 bytes  40 times  4 bank cycles, the least
    F:11  B_shared  read by ldmatrix_x4_trans  16 bytes  40 times  4 bank cycles, the least
    F:9   A_shared  written by cp_async_16     16 bytes  24 times  4 bank cycles, the least
    F:9   A         read by cp_async_16        16 bytes  24 times  16 sectors, the least
    F:10  B_shared  written by cp_async_16     16 bytes  24 times  4 bank cycles, the least
    F:10  B         read by cp_async_16        16 bytes  24 times  16 sectors, the least
    F:12  C         written                    4 bytes   64 times  8 sectors, at least 4
"""  # noqa: E501


def golden(report):
    """The text with lines counted from the function's decorator, without times."""
    text, first = str(report), Path(__file__).read_text().split("def matmul")[0].count("\n") + 2
    for line in range(first, first + 20):
        text = text.replace(f"test_explain.py:{line} ", f"F:{line - first + 1:<2} ")
        text = text.replace(f"test_explain.py:{line})", f"F:{line - first + 1})")
    return "\n".join(line.rstrip() for line in text.split("\n")[1:-2]) + "\n"


def test_the_text_of_a_gemm(capsys):
    kernel = compiled(matmul(), "sim:sm_80")
    report = kernel.explain()
    assert capsys.readouterr().out == f"{report}\n"
    assert golden(report) == GEMM


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_is_well_formed_and_needs_nothing_else(target, tmp_path, capsys):
    path = tmp_path / "report.html"
    kernel = compiled(matmul(), target)
    kernel.explain(html=path)
    assert capsys.readouterr().out == ""
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text.removeprefix("<!DOCTYPE html>\n"))
    tags = {element.tag.rsplit("}")[-1] for element in root.iter()}
    assert not tags & {"script", "link", "img", "iframe"} and "url(" not in text
    assert all("http" not in v for e in root.iter() for k, v in e.attrib.items())
    shown = "".join(root.itertext())
    if target == "sim:sm_80":
        assert "T.gemm(A_shared, B_shared, C_local)" in shown and "mma.sync" in shown
        assert len([e for e in root.iter() if e.tag.endswith("}svg")]) >= 6
        assert "no bank conflicts" in shown
    if target == "reference":
        assert "without layouts" in shown


def test_conflicts_are_highlighted():
    text = compiled(transpose(0), "sim:sm_80").report.html()
    assert 'class="conflict"' in text and "with bank conflicts" in text
    assert 'class="conflict"' not in compiled(transpose(1), "sim:sm_80").report.html()


def test_names_are_escaped():
    from tilelang.tools.report import NoteInfo, Report

    note = NoteInfo("<b>", "a < b & c", "", True, None)
    text = Report("f<x>", "t", "", False, [], [], [], [], [], [], [note], {}).html()
    assert "<b>" not in text.replace("<body>", "") and "a &lt; b &amp; c" in text and "f&lt;x&gt;" in text


BROWSER = next((found for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
                if (found := shutil.which(name))), None)  # fmt: skip


def screenshot(page, shot, folder):
    """The size of a picture of the page as a browser shows it, (width, height, bytes of the PNG)."""
    subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                    f"--user-data-dir={folder}/profile", "--force-device-scale-factor=1",
                    "--window-size=1280,2400", f"--screenshot={shot}", page.as_uri()],
                   check=True, capture_output=True, timeout=120)  # fmt: skip
    data = shot.read_bytes()
    assert data.startswith(b"\x89PNG\r\n")
    return (*struct.unpack(">II", data[16:24]), len(data))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to look at the page with")
def test_a_browser_shows_the_page(tmp_path):
    page, empty = tmp_path / "report.html", tmp_path / "empty.html"
    compiled(matmul(), "sim:sm_80").explain(html=page)
    text = page.read_text(encoding="utf-8")
    empty.write_text(re.sub("<main>.*</main>", "<main></main>", text, flags=re.S), encoding="utf-8")
    width, height, size = screenshot(page, tmp_path / "report.png", tmp_path)
    *_, blank = screenshot(empty, tmp_path / "empty.png", tmp_path)
    assert (width, height) == (1280, 2400)
    assert size > 10 * blank and size > 100_000  # text and pictures, not a blank page
