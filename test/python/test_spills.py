"""Registers, spills and shared memory stand in the report's first line; of spills each process is warned that
takes the kernel, be it from the disk cache, and of those of the generic variant when a call has made it."""

import warnings

import pytest
import tilelang
import tilelang.language as T
from test_core_api import Elsewhere


def held(columns, threads=32):
    """A block holds a tile of that many columns in registers, over a loop that needs all of them."""

    @T.prim_func
    def main(A: T.Tensor((32, columns), "float32"), B: T.Tensor((32, columns), "float32")):
        with T.Kernel(1, threads=threads):
            x, s = T.alloc_fragment((32, columns), "float32"), T.alloc_shared((32, columns), "float32")
            T.copy(A, x)
            T.copy(x, s)
            for _ in T.serial(1000):
                for i, j in T.Parallel(32, columns):
                    x[i, j] = x[i, j] * s[31 - i, j] + 1
            T.copy(x, B)

    return main


def compiled(columns):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = tilelang.compile(held(columns), target="cuda -arch=sm_80")
    return kernel, [str(w.message) for w in caught if "spills" in str(w.message)]


def test_a_kernel_that_spills(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    kernel, said = compiled(250)
    (row,) = kernel.resource_usage
    spilled = max(row["spill_stores"], row["spill_loads"])
    assert spilled > 32
    assert kernel.report.text.split("\n")[0].endswith(
        f"ms: {row['registers']} registers, spills {spilled} bytes, shared 31.2 of 163 KB"
    )
    wanted = [
        f"main: each thread of main_kernel spills {spilled} bytes of its {row['registers']} registers to "
        "slow memory on cuda -arch=sm_80; use smaller tiles, more threads or fewer num_stages"
    ]
    again, said_again = compiled(250)
    assert again.from_cache and said_again == said == wanted
    assert f"spills {spilled} bytes" in again.report.text.split("\n")[0]


def test_the_generic_variant_is_warned_of_when_it_is_made(monkeypatch, tmp_path):
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tilelang.env, "_cache_enabled", True)
    heard = []
    for _ in range(2):  # made, and read from the cache
        kernel, _ = compiled(250)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                with pytest.raises(RuntimeError):  # there is no such GPU
                    kernel(Elsewhere((32, 250), 1 << 20, 32), Elsewhere((32, 250), (1 << 21) + 4, 32))
        heard.append([str(w.message) for w in caught if "spills" in str(w.message)])
    assert heard[0] == heard[1] and len(heard[0]) == 1
    assert heard[0][0].startswith("main: each thread of main_kernel spills ")


def test_a_kernel_that_does_not():
    kernel, said = compiled(64)
    assert not said
    assert kernel.report.text.split("\n")[0].endswith(" registers, shared 8.24 of 163 KB")


@pytest.mark.parametrize(("target", "ends"), [("sim:sm_75", "shared 8.24 of 64 KB"), ("cpu", " ms")])
def test_where_no_registers_are_known(target, ends):
    assert tilelang.compile(held(64), target=target).report.text.split("\n")[0].endswith(ends)
