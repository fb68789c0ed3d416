"""tilelang.register_matrix: rows that T.gemm takes, and every reason not to take one."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tilelang
import tilelang.language as T

S8 = {
    "shape": (16, 8, 16),
    "dtypes": ("int8", "int8", "int32"),
    "a": lambda i, k: (i % 8 * 4 + k // 4, k % 4 + i // 8 * 4),
    "b": lambda k, j: (j * 4 + k // 4, k % 4),
    "c": lambda i, j: (i % 8 * 4 + j // 2, j % 2 + i // 8 * 2),
    "ptx": "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
    "eval": lambda A, B, C: A.astype(np.int32) @ B.astype(np.int32) + C,
}
NAME = "mma_sync_aligned_m16n8k16_row_col_s32_s8_s8_s32"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """What a test registers ends with it: the list is the process's."""
    names, register = [], tilelang.register_matrix

    def recorded(*args, **kwargs):
        names.append(register(*args, **kwargs))
        return names[-1]

    monkeypatch.setattr(tilelang, "register_matrix", recorded)
    yield
    for name in set(names):
        tilelang.unregister_matrix(name)


def wrong_at(A, B, C):
    D = S8["eval"](A, B, C)
    D[3, 5] += 1
    return D


REFUSED = {
    "missing": (
        {"a": T.Fragment((16, 8), lambda i, k: (i % 8 * 4 + k // 2, k % 2 + i // 8 * 2))},
        "element (0, 8) of A (16×16 i8) is missing: its fragment covers 16×8",
    ),
    "outside": (
        {"b": T.Fragment((16, 16), lambda k, j: (j % 8 * 4 + k // 4, k % 4 + j // 8 * 4))},
        "the fragment of B (16×8 i8) covers 16×16: element (0, 8) is outside of the operand",
    ),
    "held twice": (
        {"c": T.Fragment((16, 8), lambda i, j, rep: (rep * 16 + i, j), replicate=2)},
        "element (0, 0) of C (16×8 i32) is held twice, by register 0 of lane 0 and register 0 of lane 16",
    ),
    "two in one place": (
        {"a": lambda i, k: (i % 8 * 4 + k // 4, k % 4)},
        "elements (0, 0) and (8, 0) of A (16×16 i8) are both in register 0 of lane 0",
    ),
    "lanes": (
        {"b": lambda k, j: (j * 8 + k // 2, k % 2)},
        "element (0, 4) of B (16×8 i8) lies in lane 32, but a warp has the lanes 0 to 31",
    ),
    "registers": (
        {"c": lambda i, j: (i % 8 * 4 + j // 2, j % 2 + i // 8 * 4)},
        "element (8, 0) of C (16×8 i32) lies in register 4 of lane 0, but 128 elements over 32 lanes are the "
        "registers 0 to 3 of each",
    ),
    "negative lane": (
        {"b": lambda k, j: (j * 4 + k // 4 - 1, k % 4)},
        "element (0, 0) of B (16×8 i8) lies in lane -1",
    ),
    "half a register": (
        {"shape": (16, 4, 16), "b": lambda k, j: (j * 8 + k // 2, k % 2), "ptx": "mma.x"},
        "B (16×4 i8) gives each lane 2 elements of 8 bits, which do not fill 32-bit registers",
    ),
    "uneven": (
        {"shape": (4, 8, 4), "a": lambda i, k: (i * 4 + k, 0), "ptx": "mma.x"},
        "A (4×4 i8) has 16 elements, which 32 lanes cannot share evenly",
    ),
    "no digits": (
        {"b": lambda k, j: ((j * 4 + k // 4) ^ (k % 4), k % 4)},
        "the fragment of B (16×8 i8) is not a permutation of mixed-radix digits",
    ),
    "wrong eval": ({"eval": wrong_at}, "of D, but that of A @ B + C is"),
    "eval's shape": ({"eval": lambda A, B, C: C[:8]}, "eval gave an array of shape (8, 8), but D is (16, 8)"),
    "eval's dtype": (
        {"eval": lambda A, B, C: A.astype(float) @ B + C},
        "eval gave an array of float64, but D is int32",
    ),
    "no eval": ({"eval": 3}, "eval must be a function of three arrays, not 3"),
    "mnemonic": ({"ptx": "mma.sync {%0}"}, "`mma.sync {%0}` is not a mnemonic"),
    "mnemonic's shape": (
        {"ptx": "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"},
        "says 16×8×32, but the shape is 16×8×16",
    ),
    "two types": ({"dtypes": ("int8", "uint8", "int32")}, "A is i8 but B is u8"),
    "mixed kinds": ({"dtypes": ("int8", "int8", "float32")}, "A and B are i8 but C is f32"),
    "no fragment": (
        {"a": 5},
        "a must be a T.Fragment or a function (row, column) -> (lane, register), not 5",
    ),
    "one number": ({"a": lambda i, k: i}, "a must give (lane, register), two integers, not 0"),
    "shape": ({"shape": (16, 8)}, "the shape is (m, n, k)"),
}


@pytest.mark.parametrize("change, message", REFUSED.values(), ids=REFUSED)
def test_refused(change, message):
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.register_matrix(**{**S8, **change})
    assert message in caught.value.text
    assert caught.value.text.startswith("register_matrix: ")
    assert caught.value.file == __file__


def test_a_wrong_eval_names_the_element():
    said = r"eval gave \S+ for element \(3, 5\) of D, but that of A @ B"
    with pytest.raises(tilelang.CompileError, match=said) as caught:
        tilelang.register_matrix(**{**S8, "eval": wrong_at})
    got, expected = (int(x) for x in (caught.value.text.split()[3], caught.value.text.split()[-1]))
    assert got == expected + 1


def gemm(dtype, accumulator, tile=(32, 16, 32), trans=(False, True)):
    m, n, k = tile
    M, N, K = 2 * m, 2 * n, 2 * k
    a, b = ((K, M) if trans[0] else (M, K)), ((N, K) if trans[1] else (K, N))
    a_tile, b_tile = ((k, m) if trans[0] else (m, k)), ((n, k) if trans[1] else (k, n))

    @T.prim_func
    def main(A: T.Tensor(a, dtype), B: T.Tensor(b, dtype), C: T.Tensor((M, N), accumulator)):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            A_s, B_s = T.alloc_shared(a_tile, dtype), T.alloc_shared(b_tile, dtype)
            C_l = T.alloc_fragment((m, n), accumulator)
            T.clear(C_l)
            for step in range(2):
                if trans[0]:
                    T.copy(A[step * k, by * m], A_s)
                else:
                    T.copy(A[by * m, step * k], A_s)
                if trans[1]:
                    T.copy(B[bx * n, step * k], B_s)
                else:
                    T.copy(B[step * k, bx * n], B_s)
                T.gemm(A_s, B_s, C_l, transpose_A=trans[0], transpose_B=trans[1])
            T.copy(C_l, C[by * m, bx * n])

    return main, a, b, (M, N)


def run(kernel, a, b, c, trans, dtype):
    rng = np.random.default_rng(0)
    low, high = (0, 256) if dtype == np.uint8 else (-128, 128) if dtype == np.int8 else (-8, 8)
    A, B = (rng.integers(low, high, shape).astype(dtype) for shape in (a, b))
    C = np.zeros(c, np.int32 if np.dtype(dtype).kind in "iu" else np.float32)
    kernel(A, B, C)
    x, y = (A.T if trans[0] else A).astype(np.float64), (B.T if trans[1] else B).astype(np.float64)
    assert (x @ y == C).all()


@pytest.mark.parametrize("trans", list(itertools.product([False, True], repeat=2)), ids=str)
def test_gemm_takes_it(trans):
    calls = []

    def counted(A, B, C):
        calls.append(A.dtype)
        return S8["eval"](A, B, C)

    assert tilelang.register_matrix(**{**S8, "eval": counted}) == NAME
    calls.clear()
    function, *shapes = gemm("int8", "int32", trans=trans)
    kernel = tilelang.compile(function, target="sim:sm_80")
    run(kernel, *shapes, trans, np.int8)
    report = str(kernel.explain())
    assert f"mma.sync: {NAME} by 2 warps" in report
    torn = "elements of 8 bits cannot be transposed on the way"
    assert report.count(torn) == (trans[0] is True) + (trans[1] is False)
    assert calls and set(calls) == {np.dtype(np.int8)}


@pytest.mark.parametrize("shape, why", [((32, 12, 32), "32×12×32"), ((32, 16, 24), "32×16×24")])
def test_gemm_says_when_it_does_not_fit(shape, why):
    tilelang.register_matrix(**S8)
    function, *_ = gemm("int8", "int32", shape)
    report = tilelang.compile(function, target="sim:sm_80").explain()
    assert f"fma (not mma.sync: {why} is not made of 16×8×16 tiles" in report


def test_the_latest_row_is_preferred_and_none_is_lost():
    """An f16 row of the user's stands before those of the compiler, which take what it does not fit."""
    fragments = {
        "a": lambda i, k: (i // 2 * 4 + k // 4, k % 4 + i % 2 * 4),
        "b": lambda k, j: (j * 4 + k // 4, k % 4),
        "c": lambda i, j: (i % 8 * 4 + j // 2, j % 2 + i // 8 * 2),
    }
    name = tilelang.register_matrix(
        (16, 8, 16), ("float16", "float16", "float32"), **fragments, ptx="test.m16n8k16.f32.f16.f16.f32"
    )
    for tile, instruction in [((32, 16, 32), name), ((32, 16, 24), "mma_m16n8k16_f16_f32")]:
        function, *shapes = gemm("float16", "float32", tile)
        kernel = tilelang.compile(function, target="sim:sm_80")
        run(kernel, *shapes, (False, True), np.float16)
        assert f"mma.sync: {instruction} by" in kernel.explain()
    assert "loaded element by element, not by ldmatrix: that does not deliver the fragment of test_m16" in (
        tilelang.compile(gemm("float16", "float32")[0], target="sim:sm_80").explain()
    )
    tilelang.register_matrix(
        (16, 8, 16),
        ("float16", "float16", "float32"),
        a=lambda i, k: (i % 8 * 4 + k % 8 // 2, k % 2 + i // 8 * 2 + k // 8 * 4),
        b=lambda k, j: (j * 4 + k % 8 // 2, k % 2 + k // 8 * 2),
        c=fragments["c"],
        ptx="mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    )
    report = str(tilelang.compile(gemm("float16", "float32")[0], target="sim:sm_80").explain())
    assert "element by element" not in report and "read by ldmatrix_x4" in report


def test_the_cpu_does_not_take_it():
    tilelang.register_matrix(**S8)
    function, *shapes = gemm("int8", "int32")
    run(tilelang.compile(function, target="cpu"), *shapes, (False, True), np.int8)


@pytest.mark.parametrize("chip", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("trans", [(False, True), (True, False)], ids=str)
def test_nvrtc_takes_it(chip, trans):
    tilelang.register_matrix(**S8)
    function = gemm("int8", "int32", trans=trans)[0]
    try:
        kernel = tilelang.compile(function, target=f"cuda -arch={chip}")
    except RuntimeError as missing:
        if "libnvrtc" in str(missing):
            pytest.skip("NVRTC is not installed")
        raise
    operands = "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3}"
    assert f'"{S8["ptx"]} {operands};"' in kernel.get_kernel_source()
    assert "no spills" in str(kernel.explain())


def test_many_threads_at_once():
    """Rows are added and taken back while kernels are compiled and run; each compilation sees one list."""
    names = []

    def work(n):
        ptx = f"test.thread{n}"
        for _ in range(4):
            name = tilelang.register_matrix(**{**S8, "ptx": ptx})
            function, *shapes = gemm("int8", "int32")
            kernel = tilelang.compile(function, target="sim:sm_80")
            run(kernel, *shapes, (False, True), np.int8)
        names.append(name)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, n) for n in range(4)]:
            done.result()
    assert sorted(names) == [f"test_thread{n}" for n in range(4)]


def test_the_cache_knows_the_rows(tmp_path):
    """A kernel that could use a row is compiled anew when the row is added; another is found."""

    def compiled(dtype, accumulator):
        function = gemm(dtype, accumulator)[0]
        try:
            return tilelang._core.compile(function.function, "cuda -arch=sm_80", {"cache_dir": str(tmp_path)})
        except RuntimeError as missing:
            if "libnvrtc" in str(missing):
                pytest.skip("NVRTC is not installed")
            raise

    u8 = {**S8, "dtypes": ("uint8", "uint8", "int32"), "ptx": S8["ptx"].replace("s8", "u8")}
    before, other = compiled("uint8", "int32"), compiled("float32", "float32")
    assert not before.from_cache and not other.from_cache
    assert compiled("uint8", "int32").from_cache
    tilelang.register_matrix(**u8)
    after = compiled("uint8", "int32")
    assert not after.from_cache and u8["ptx"] in after.source and u8["ptx"] not in before.source
    assert compiled("uint8", "int32").from_cache and compiled("float32", "float32").from_cache
    changed = {**u8, "c": lambda i, j: (i % 8 * 4 + j // 2, i // 8 + j % 2 * 2)}
    name = tilelang.register_matrix(**changed)
    assert not compiled("uint8", "int32").from_cache
    tilelang.unregister_matrix(name)
    tilelang.register_matrix(**u8)  # known already: nothing changes
    assert compiled("uint8", "int32").from_cache
    with pytest.raises(tilelang.CompileError, match="unregister_matrix: there is no registered instruction"):
        tilelang.unregister_matrix("mma_nobody")
    tilelang.register_matrix(**changed)  # for the fixture
