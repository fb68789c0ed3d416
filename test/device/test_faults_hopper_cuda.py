"""On a GPU: the programs of test/hopper_cases.py and role_cases.py, in which a fault that tile compilers are
known for would show (test/faults.md, classes 10 to 18), right many times over."""

import hopper_cases as cases
import numpy as np
import pytest
import role_cases
import tilelang

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("no GPU of sm_90a", allow_module_level=True)

CHIP = "cuda -arch=sm_90a"
PROGRAMS = {**cases.PROGRAMS, **role_cases.PROGRAMS}
SEEDS = range(20)


def run(kernel, *arrays):
    """The arrays as the kernel leaves them."""
    tensors = [torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in arrays]
    kernel(*tensors)
    torch.cuda.synchronize()
    return [t.cpu().numpy() if isinstance(t, torch.Tensor) else t for t in tensors]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_right_every_time(name):
    program = PROGRAMS[name]
    kernel = tilelang.compile(program.make(), target=CHIP)
    for seed in SEEDS:
        arguments = program.arguments(np.random.default_rng(seed))
        found = run(kernel, *arguments)
        for place, wanted in program.expected(*arguments).items():
            assert np.array_equal(found[place], wanted), seed


def test_17_any_shape_is_moved_or_refused():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        dtype, rows, columns = cases.any_shape(rng)
        x, memory = cases.guarded(rng, rows, columns, dtype)
        for by_tma in (False, True):
            try:
                kernel = tilelang.compile(cases.moved(rows, columns, dtype, by_tma), target=CHIP)
            except tilelang.CompileError:
                assert by_tma and not cases.can_move(dtype, columns)
                continue
            whole = torch.from_numpy(memory).cuda()
            kernel(torch.from_numpy(x).cuda(), whole[1:-1])
            torch.cuda.synchronize()
            after = whole.cpu().numpy()
            assert np.array_equal(after[1:-1], x) and (after[[0, -1]] == 7).all(), (seed, by_tma)


def test_18_each_call_makes_its_own_map():
    kernel = tilelang.compile(cases.any_tensor(), target=CHIP)
    rng = np.random.default_rng(0)
    shapes = [(int(rng.integers(1, 80)), 8 * int(rng.integers(1, 10))) for _ in range(20)]
    for shape in (*shapes, *shapes[::-1]):
        x = rng.standard_normal(shape).astype(np.float16)
        assert np.array_equal(run(kernel, x, np.zeros(shape, np.float16))[1], x), shape
