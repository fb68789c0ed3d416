"""T.atomic_add(…, use_tma=True): whole tiles by the accelerator; where not, the report says why."""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from bulk_update_cases import CASES, added, of
from tma_cases import SIM


def right(case, target):
    x, y, wanted = of(case)
    kernel = tilelang.compile(added(**case), target=target)
    if target == SIM:
        kernel.simulate(x, y, schedules=6)
    else:
        kernel(x, y)
    assert np.array_equal(y.astype(np.float64), wanted)
    return kernel


@pytest.mark.parametrize("case", CASES, ids=str)
def test_by_the_accelerator(case):
    kernel = right(case, SIM)
    assert "cp_reduce_async_bulk_tensor_2d_add" in kernel.get_kernel_source()
    assert "use_tma" not in str(kernel.report)


@pytest.mark.parametrize("target", ["sim:sm_80", "cpu", "reference"])
def test_where_there_is_none(target):
    kernel = right({}, target)
    if target != "reference":
        assert "use_tma: it is done element by element" in str(kernel.report)


WHY = [
    ({"columns": 70}, "the stride 70 of dimension 0 of Y is not known to be a multiple of 4 elements"),
    ({"dtype": "int64", "given": "int64"}, "combines elements of f16 bf16 f32 i32 u32 u64 by add, not of"),
    ({"shape": (64, 2)}, "begins at j*2 of the last dimension of Y, not known to be a multiple"),
]


@pytest.mark.parametrize("case, text", WHY, ids=str)
def test_what_it_cannot_do_is_done_all_the_same(case, text):
    kernel = right(case, SIM)
    assert "cp_reduce" not in kernel.get_kernel_source()
    assert text in str(kernel.report), str(kernel.report)


def test_the_next_writer_waits_until_the_tile_is_read():
    """Of the wait there is one for each update, in front of the barrier."""
    text = tilelang.compile(added(), target="cuda -arch=sm_90").get_kernel_source()
    body = text[text.index("main_kernel") :]
    reduce, wait = body.index("cp_reduce_"), body.index("bulk_wait_group_read<0>")
    assert reduce < wait < body.index("__syncthreads()", wait)


def test_an_order_of_memory_is_for_elements():
    @T.prim_func
    def main(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64, 64), "float32")
            T.copy(X, S)
            T.atomic_add(Y, S, memory_order="release", use_tma=True)

    kernel = tilelang.compile(main, target=SIM)
    assert "element by element: it has no memory order" in str(kernel.report)
