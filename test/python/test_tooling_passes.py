"""Tools that look at the compiler pass by pass."""

import pytest
import tilelang
import tilelang.language as T
from tilelang import tools
from tilelang.tools.lower_trace import LowerRecord, lower_trace
from tilelang.tools.pass_timing import PassTimingTool, create_pass_timing_tool
from tilelang.tools.pass_visualizer import StructureTreePassTool, capture_structure, discover_jit_kernels


@T.prim_func
def add_one(A: T.Tensor((64,), "float32")):
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            A[bx * 32 + i] += 1.0


TARGET = "cuda -arch=sm_90"


def test_lower_trace_of_one_function(capsys, tmp_path):
    records = lower_trace(add_one, target=TARGET)
    printed = capsys.readouterr().out
    assert records[0].name == "canonicalize" and all(isinstance(r, LowerRecord) for r in records)
    lowered = next(r for r in records if r.name == "lower_tile_ops")
    assert lowered.changed and lowered.phase == "thread" and lowered.add_lines
    assert "lower_tile_ops (thread)" in printed
    assert records[0].before_text.startswith("func add_one") and records[-1].phase == "machine"
    two = lower_trace(add_one, ["vectorize", "unroll"], mode="html", html_path=tmp_path / "a" / "page.html")
    assert [r.name for r in two] == ["vectorize", "unroll"]
    assert "vectorize" in (tmp_path / "a" / "page.html").read_text()
    with pytest.raises(ValueError, match="there is no pass 'vectorise'; those here are canonicalize, "):
        lower_trace(add_one, ["vectorise"], mode="none")
    with pytest.raises(TypeError, match="takes a @T.prim_func, not int"):
        lower_trace(3)
    assert all(r.changed for r in tools.pass_diff.pass_diff(add_one, mode="none"))


def test_lower_trace_of_every_compilation(capsys, tmp_path):
    session = tools.lower_trace.enable(mode="html", trace_dir=tmp_path)
    try:
        tilelang.compile(add_one, target=TARGET, debug_root_path=tmp_path / "dump")
        assert tools.lower_trace.current_lower_trace_session() is session
    finally:
        tools.lower_trace.disable()
    assert session.records and (tmp_path / "add_one.html").exists()
    assert (tmp_path / "dump" / "add_one" / "01.canonicalize.ir").exists()
    count = len(session.records)
    tilelang.compile(add_one, target=TARGET)
    assert len(session.records) == count and not capsys.readouterr().out
    assert tools.lower_trace.current_lower_trace_session() is None
    assert tools.lower_trace.get_last_session() is session
    tools.lower_trace.reset()
    assert tools.lower_trace.get_last_session() is None
    with pytest.raises(ValueError, match="mode is terminal, html or none"):
        tools.lower_trace.enable(mode="loud")


def test_a_compilation_that_fails_is_shown_up_to_there():
    @T.prim_func
    def too_large(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((1 << 20,), "float32")
            T.fill(S, 1.0)
            T.copy(S[0:64], A)

    session = tools.lower_trace.enable(mode="none")
    try:
        with pytest.raises(tilelang.CompileError):
            tilelang.compile(too_large, target=TARGET)
    finally:
        tools.lower_trace.reset()
    assert session.records[-1].status == "failed" and "shared memory" in session.records[-1].error_msg
    assert session.records[-2].status == "completed"


def test_by_environment(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("TL_LOWER_TRACE", "html")
    monkeypatch.setenv("TL_LOWER_TRACE_DIR", str(tmp_path))
    monkeypatch.setenv("TILELANG_PASS_PROFILE", "1")
    tilelang.compile(add_one, target=TARGET)
    assert (tmp_path / "add_one.html").exists() and "canonicalize" in capsys.readouterr().err


def test_timing(capsys):
    with PassTimingTool() as tool:
        tilelang.compile(add_one, target=TARGET)
    names = [r.name for r in tool.records]
    assert "vectorize" in names and "NVRTC" in names and tool.records[0].kernel == "add_one"
    assert all(r.duration_s >= 0 for r in tool.records) and "vectorize" in tool.table()
    key = tilelang.PassConfigKey.TL_PASS_PROFILE
    assert create_pass_timing_tool({}) is None
    configs = {key: True, "tl.pass_profile_threshold_ms": 1e6}
    assert create_pass_timing_tool(configs).threshold_ms == 1e6
    tilelang.compile(add_one, target=TARGET, pass_configs={key: True})
    assert "vectorize" in capsys.readouterr().err
    tilelang.compile(add_one, target=TARGET, pass_configs=configs)
    assert "vectorize" not in capsys.readouterr().err


@tilelang.jit(target="cpu")
def factory():
    return add_one


def test_structure(capsys):
    lines = capture_structure(add_one)
    assert lines[0].startswith("func add_one") and lines[-1].strip() == "for i in parallel(32)"
    tools.pass_visualizer.inspect_structure(add_one)
    assert "kernel add_one" in capsys.readouterr().out
    with StructureTreePassTool() as tool:
        tilelang.compile(add_one, target=TARGET)
    changed = {r.name: r for r in tool.records}
    assert changed["lower_tile_ops"].before_lines != changed["lower_tile_ops"].after_lines
    import sys

    assert discover_jit_kernels(sys.modules[__name__])["factory"] is factory
    kernel_to_tir = tools.pass_visualizer.kernel_to_tir
    assert kernel_to_tir(factory) is add_one and kernel_to_tir(factory()) is add_one
