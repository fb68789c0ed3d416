"""tilelang.tools.cuda.iket: kernels with events are kernels; that nothing records the events is said once."""

import warnings

import numpy
import pytest
import tilelang
import tilelang.language as T
from tilelang.tools.cuda import iket
from tilelang.tools.cuda.iket import event_table, mark
from tilelang.tools.cuda.iket.session import is_enabled


def make():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            mark("begin")
            F = T.alloc_fragment((64,), "float32")
            with iket.range("load", iket.payload(bx, "int32")):
                T.copy(A, F)
            iket.range_push("add")
            for i in T.Parallel(64):
                F[i] += 1.0
            iket.range_pop()
            handle = iket.range_start("store", payload=bx)
            T.copy(F, B)
            iket.range_end(handle)
            iket.mark("end", iket.payload(bx))

    return main


def test_a_kernel_with_events(monkeypatch):
    monkeypatch.setattr("tilelang.tools.iket._warned", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = numpy.ones(64, "float32")
        for target in ("cpu", "sim:sm_90"):
            assert (tilelang.compile(make(), out_idx=-1, target=target)(x) == 2).all()
    assert event_table() == [] and not is_enabled()
    with pytest.warns(tilelang.TilelangWarning, match="when they happen is not recorded"), iket.session():
        make()
        assert iket.is_enabled() and iket.is_enabled is is_enabled
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iket.enable()  # said already
    iket.disable()
    found = [(e.name, e.kind) for e in event_table()]
    assert found == [("begin", "mark"), ("load", "range_push"), ("load", "range_pop"), ("add", "range_push"),
                     ("store", "range_start"), ("store", "range_end"), ("end", "mark")]  # fmt: skip
    assert [e.event_id for e in event_table()] == list(range(1, 8))
    iket.reset()
    assert event_table() == []
    with pytest.raises(ValueError, match="a text of 1 to 32 bytes, not ''"):
        mark("")
    with pytest.raises(ValueError, match="range_push: the name of an event"):
        iket.range_push("x" * 33)


def test_files_and_payloads(tmp_path):
    assert str(iket.output_dir("there")) == "there" and iket.output_dir().name == "iket"
    path = iket.output_path("a.json", directory=tmp_path / "new")
    assert path.parent.is_dir() and iket.trace_files(directory=path.parent) == []
    assert not iket.runtime_payloads_enabled()
    iket.enable_runtime_payloads()
    assert iket.runtime_payloads_enabled()
    iket.disable_runtime_payloads()
    assert iket.payload(3, "int32") == iket.PayloadSpec(3, "int32") and not iket.runtime_payloads_enabled()
    with pytest.raises(RuntimeError, match="not recorded in this version"):
        iket.profile_command(["python", "a.py"], directory=tmp_path)
