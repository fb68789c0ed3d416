"""Foreign code: external functions, CUDA text, inline PTX, kernels that are CUDA text, accesses of a
given width.
"""

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import assert_round_trip, compiles_for_gpus, failure, kernel, source

SIMULATED = ["sim:sm_80", "reference"]
CHIPS = ["cuda -arch=sm_80", "cuda -arch=sm_90"]

SCALE = """
__device__ float scale(float x, int n) { return x * n; }
template <class T> __device__ void add_row(T* row, const T* other, int n) {
  for (int i = 0; i < n; i++) row[i] += other[i];
}
"""


def add_rows(row, other, n):
    row[:n] += other[:n]


def external(with_eval, pure=False, extra=""):
    call = T.call_pure_extern if pure else T.call_extern
    meaning = {"eval": lambda x, n: x * n} if with_eval else {}
    rows = {"eval": add_rows} if with_eval else {}

    @T.prim_func
    def main(
        A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32"), O: T.Tensor((4, 32), "float32")
    ):
        with T.Kernel(4, threads=32) as bx:
            T.import_source(SCALE + extra)
            mine = T.alloc_local((32,), "float32")
            for i in T.serial(32):
                mine[i] = A[bx, i]
            T.call_extern(
                "void", "add_row", T.address_of(mine[0]), T.access_ptr(B[bx, 0], "r", 32), 32, **rows
            )
            for i in T.Parallel(32):
                O[bx, i] = call("float32", "scale", mine[i], 3, **meaning)

    return main


@pytest.mark.parametrize("pure", [False, True])
def test_external_functions(pure):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((4, 32)).astype(np.float32) for _ in range(2))
    for target in SIMULATED:
        o = np.full((4, 32), np.nan, np.float32)
        tilelang.compile(external(True, pure), target=target)(a, b, o)
        assert np.array_equal(o, (a + b) * 3)
    for target in CHIPS:
        text = source(external(False, pure), target)
        assert text.count("float scale(float x, int n)") == 1 and "add_row(&mine[0], &B[" in text


BY_VALUE = """
struct Pair { unsigned short low, high; };
__device__ float summed(float4 v) { return v.x + v.y + v.z + v.w; }
__device__ unsigned outer(uint4 v) { return v.x ^ v.w; }
__device__ int of_pair(Pair v) { return v.high; }
__device__ unsigned as_word(unsigned v) { return v; }
__device__ float mixed(float2 a, float3 b, int n) { return a.y * b.z + n; }
template <class V> __device__ int deduced(V v) { return v.y; }
"""


def test_vectors_are_passed_by_value():
    def call(dtype, name, *args, of):
        return T.cast(T.call_extern(dtype, name, *args, eval=of), "float64")

    @T.prim_func
    def main(
        X: T.Tensor((8,), "float32x4"),
        H: T.Tensor((8,), "float16x2"),
        I: T.Tensor((8, 3), "int32"),
        Z: T.Tensor((6, 8), "float64"),
    ):
        with T.Kernel(1, threads=1):
            T.import_source(BY_VALUE)
            for i in T.serial(8):
                Z[0, i] = call("float32", "summed", X[i], of=lambda v: v.sum())
                w = T.reinterpret(X[i] * 2, "uint32x4")
                Z[1, i] = call("uint32", "outer", w, of=lambda v: v[0] ^ v[3])
                Z[2, i] = call("int32", "of_pair", H[i], of=lambda v: v.view(np.uint16)[1])
                h = T.alloc_var("float16x2", H[i])
                h.x = T.float16(1.0)
                Z[3, i] = call("uint32", "as_word", h, of=lambda v: v.view(np.uint32)[0])
                c = T.cast((1.0, 2.0), "float32x2")
                Z[4, i] = call("float32", "mixed", c, X[i, 0:3] + 0.0, 7, of=lambda a, b, n: a[1] * b[2] + n)
                Z[5, i] = call("int32", "deduced", I[i, 0:3] + 0, of=lambda v: v[1])

    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    h = (np.arange(16) / 4).astype(np.float16).reshape(8, 2)
    n = np.arange(24, dtype=np.int32).reshape(8, 3)
    words, ones = (x * 2).view(np.uint32), np.ones(8, np.float16)
    changed = np.stack([ones, h[:, 1]], 1).view(np.uint32)[:, 0]
    wanted = [x[:, 0] + x[:, 1] + x[:, 2] + x[:, 3], words[:, 0] ^ words[:, 3], h.view(np.uint16)[:, 1],
              changed, 2 * x[:, 2] + 7, n[:, 1]]  # fmt: skip
    for target in SIMULATED:
        z = np.zeros((6, 8))
        tilelang.compile(main, target=target)(x, h, n, z)
        np.testing.assert_allclose(z, np.stack(wanted), rtol=1e-6)
    assert_round_trip(main.function.text())
    compiles_for_gpus(main)


def copy4(to, source):
    to[:4] = source[:4]


def moved(place, n=128, step=4, threads=32):
    """Each thread moves four elements through shared memory; `place(buffer, index, access)` is a pointer."""

    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            T.call_extern("void", "copy4", place(s, tx * 4, "w"), place(X, tx * 4, "r"), eval=copy4)
            T.sync_threads()
            T.call_extern("void", "copy4", place(Y, tx * step, "w"), place(s, tx * 4, "r"), eval=copy4)

    return main


POINTERS = {
    "extents": lambda b, i, a: T.access_ptr(b[i], a, 4),
    "two extents": lambda b, i, a: T.access_ptr(b[i], a, 2, 2),
    "extent": lambda b, i, a: T.access_ptr(b, a, offset=i, extent=4),
    "slice": lambda b, i, a: T.access_ptr(b[i : i + 4], a),
    "no extent": lambda b, i, a: T.access_ptr(b[i], a),
    "address_of": lambda b, i, a: T.address_of(b[i]),
}


@pytest.mark.parametrize("form", POINTERS)
def test_the_extent_of_a_pointer(form):
    x, y = np.arange(128, dtype=np.float32), np.full(128, np.nan, np.float32)
    tilelang.compile(moved(POINTERS[form]), target="sim:sm_90").simulate(x, y, schedules=3, count=False)
    assert np.array_equal(y, x)
    with pytest.raises(tilelang.SimulationError, match=r"data race on Y\[[36]\]"):
        tilelang.compile(moved(POINTERS[form], step=3), target="sim:sm_90")(x, y)
    if form not in ("no extent", "address_of"):
        with pytest.raises(tilelang.SimulationError, match=r"Y\[126\]: element 126 .*is outside \[0, 126\)"):
            tilelang.compile(moved(POINTERS[form], n=126), target="sim:sm_90")(x, y[:126])


def test_the_reference_checks_the_extent():
    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((126,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(32):
                to, source = T.access_ptr(Y[i * 4], "w", 4), T.access_ptr(X[i * 4], "r", 4)
                T.call_extern("void", "copy4", to, source, eval=copy4)

    with pytest.raises(tilelang.CompileError, match=r"elements 124 to 127 of Y are outside \[0, 126\)"):
        tilelang.compile(main, target="reference")(np.zeros(128, np.float32), np.zeros(126, np.float32))


def test_a_copy_beside_the_thread_by_hand():
    """cp.async of 16 bytes, as text with a meaning."""

    def copy(to, source):
        to[:] = source

    @T.prim_func
    def main(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "float32")
            to, source = T.access_ptr(s[tx * 4], "w", 4), T.access_ptr(X[tx * 4], "r", 4)
            T.ptx("cp.async.ca.shared.global [{0}], [{1}], 16;", to, source, eval=copy)
            T.ptx("cp.async.commit_group;", eval=lambda: None)
            T.ptx("cp.async.wait_group 0;", eval=lambda: None)
            T.sync_threads()
            for i in T.serial(4):
                Y[tx * 4 + i] = s[127 - tx * 4 - i]

    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    tilelang.compile(main, target="sim:sm_90").simulate(x, y, schedules=3, count=False)
    assert np.array_equal(y, x[::-1])


def test_refused_by_name_without_a_meaning():
    for target in [*SIMULATED, "cpu"]:
        with pytest.raises(
            tilelang.CompileError, match="the external function `add_row` is text for a GPU"
        ) as caught:
            tilelang.compile(external(False), target=target)
        assert "T.call_extern(" in str(caught.value)
    with pytest.raises(tilelang.CompileError, match="is text for a GPU"):
        tilelang.compile(external(True), target="cpu")


def test_the_text_is_part_of_the_key(tmp_path, monkeypatch):
    """Another text, same name: another binary."""
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    first, second = source(external(False), CHIPS[0]), source(external(False, extra="// two\n"), CHIPS[0])
    assert first != second and "// two" in second


def test_a_local_name_hides_no_function():
    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), O: T.Tensor((32,), "float32")):
        with T.Kernel(
            1, threads=32, prelude="#define limit 3\n__device__ float twice(float x) { return 2 * x; }"
        ):
            twice = T.alloc_local((1,), "float32")
            limit = T.alloc_local((1,), "float32")
            for i in T.Parallel(32):
                twice[0] = A[i]
                limit[0] = T.call_extern("float32", "twice", twice[0], eval=lambda x: 2 * x)
                O[i] = limit[0]

    for target in CHIPS:
        assert "twice_1[0]" in source(main, target)
    a, o = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    tilelang.compile(main, target="sim:sm_80")(a, o)
    assert (o == 2 * a).all()


def test_text_ir_round_trips():
    text = external(True).function.text()
    assert 'call_extern<f32>("scale", "scale' in text and "source=" in text
    assert_round_trip(text)


# ── PTX ───────────────────────────────────────────────────────────────────────────────────────────────
def exponential(dtype, template, meaning):
    @T.prim_func
    def main(A: T.Tensor((64,), dtype), O: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                O[i] = T.ptx(template, A[i], out=dtype, eval=meaning)

    return main


@pytest.mark.parametrize("dtype, template, meaning", [
    ("float32", "ex2.approx.ftz.f32 {out}, {0};", lambda x: 2**x),
    ("float16", "mul.f16 {out}, {0}, {0};", lambda x: x * x),
    ("bfloat16", "fma.rn.bf16 {out}, {0}, {0}, {0};", lambda x: x * x + x),
    ("int32", "popc.b32 {out}, {0};", lambda x: bin(x & 0xFFFFFFFF).count("1")),
    ("uint32", "{ .reg .u32 t; add.u32 t, {0}, 1; mov.u32 {out}, t; }", lambda x: x + 1),
    ("int64", "neg.s64 {out}, {0};", lambda x: -x),
    ("float64", "add.f64 {out}, {0}, {0};", lambda x: x + x),
    ("int16", "add.s16 {out}, {0}, {0};", lambda x: x + x),
])  # fmt: skip
def test_ptx_operands(dtype, template, meaning):
    function = exponential(dtype, template, meaning)
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    a = np.random.default_rng(0).integers(0, 8, 64).astype(kind)
    for target in SIMULATED:
        o = np.zeros(64, kind)
        tilelang.compile(function, target=target)(a, o)
        assert np.array_equal(
            o.astype(np.float64),
            [float(meaning(x.item())) for x in a.astype(np.float64 if "float" in dtype else kind)],
        )
    for target in CHIPS:
        assert "asm volatile(" in source(function, target)


def test_ptx_results_addresses_and_immediates():
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), O: T.Tensor((64,), "float32"), L: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((64,), "float32")
            T.copy(A, S)
            for i in T.Parallel(64):
                x = T.ptx(
                    "ld.shared.f32 {out}, [{0}];", T.access_ptr(S[i], "r"), out="float32", eval=lambda p: p[0]
                )
                low, high = T.ptx(
                    "mov.b64 {{out0}, {out1}}, {0};",
                    L[i].astype("int64"),
                    out=("int32", "int32"),
                    eval=lambda v: (v & 0xFFFFFFFF, v >> 32),
                )
                T.ptx(
                    "st.global.f32 [{0}], {1};",
                    T.access_ptr(O[i], "w"),
                    x,
                    eval=lambda p, v: p.__setitem__(0, v),
                )
                L[i] = T.ptx("add.s32 {out}, {0}, {1};", low + high, 5, out="int32", eval=lambda a, b: a + b)

    a, l = np.random.default_rng(0).standard_normal(64).astype(np.float32), np.arange(64, dtype=np.int32)
    for target in SIMULATED:
        o, mine = np.full(64, np.nan, np.float32), l.copy()
        tilelang.compile(main, target=target)(a, o, mine)
        assert np.array_equal(o, a) and np.array_equal(mine, l + 5)
    for target in CHIPS:
        text = source(main, target)
        assert '"memory"' in text and '"n"(5)' in text and "__cvta_generic_to_shared" in text
        assert "__syncthreads()" in text


def test_ptx_special_registers():
    @T.prim_func
    def main(O: T.Tensor((64,), "uint32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                O[i] = T.ptx("mov.u32 {out}, %laneid;", out="uint32")

    for target in CHIPS:
        assert "%%laneid" in source(main, target)
    for target in [*SIMULATED, "cpu"]:
        with pytest.raises(
            tilelang.CompileError, match="the PTX `mov.u32 {out}, %laneid;` is text for a GPU"
        ):
            tilelang.compile(main, target=target)


# ── kernels that are text ─────────────────────────────────────────────────────────────────────────────
RAW = """
__global__ void %s doubled(const float* a, float* out, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] * factor;
}
"""


def raw(text, entry="doubled"):
    @T.prim_func
    def main(A: T.Tensor((100,), "float32"), O: T.Tensor((100,), "float32"), factor: T.float32, n: T.int32):
        T.CUDASourceCodeKernel(4, threads=32, source_code_or_path=text, entry_name=entry)

    return main


@pytest.mark.parametrize("target", CHIPS)
def test_source_kernels(target, tmp_path):
    text = source(raw(RAW % ""), target)
    assert text.count('extern "C" __global__ void  doubled') == 1 and "tilelang" in text
    assert 'extern "C"' in source(raw('extern "C" {' + RAW % "" + "}"), target)
    path = tmp_path / "kernel.cu"
    path.write_text(RAW % "__launch_bounds__(32)")
    assert "doubled" in source(raw(str(path)), target)


def test_source_kernels_are_checked():
    for text, words in [
        ("__global__ void other(float* a) {\n}", "no `__global__ void doubled"),
        ("__global__ void doubled(float* a) {\n}", "has 1 parameters (float\\* a) but gets 4"),
        ("nowhere.cu", "there is no file 'nowhere.cu'"),
    ]:
        with pytest.raises(tilelang.CompileError, match=words.replace("(", "\\(").replace(")", "\\)")):
            raw(text)
    for target in [*SIMULATED, "cpu"]:
        with pytest.raises(tilelang.CompileError, match="the external function `doubled` is text for a GPU"):
            tilelang.compile(raw(RAW % ""), target=target)


# ── accesses of a given width ─────────────────────────────────────────────────────────────────────────
def wide(bits, shared, dtype="float32"):
    count = bits // 8 // T.dtypes.as_dtype(dtype).bytes
    load, store = getattr(T, f"ldg{bits}"), getattr(T, f"stg{bits}")
    if shared:
        load_s, store_s = getattr(T, f"lds{bits}"), getattr(T, f"sts{bits}")

    @T.prim_func
    def main(A: T.Tensor((32 * count,), dtype), O: T.Tensor((32 * count,), dtype), n: T.int32):
        with T.Kernel(1, threads=32):
            S = T.alloc_shared((32 * count,), dtype)
            for i in T.Parallel(32):
                if shared:
                    store_s(S[i * count], load(A[i * count]))
                    store(O[i * count], load_s(S[i * count]), pred=i < n)
                else:
                    store(O[i * count], load(A[i * count], pred=i > 2), pred=i < n)

    return main, count


@pytest.mark.parametrize("bits, shared", [(32, False), (64, False), (128, False), (256, False),
                                          (32, True), (64, True),
                                          (128, True)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_wide_accesses(bits, shared, dtype):
    function, count = wide(bits, shared, dtype)
    a = np.random.default_rng(0).integers(-100, 100, 32 * count).astype(dtype)
    o = np.full(32 * count, 7, dtype)
    tilelang.compile(function, target="sim:sm_80")(a, o, 20)
    lane = np.arange(32 * count) // count
    expected = np.where(lane < 20, a if shared else np.where(lane > 2, a, 0), 7)
    assert np.array_equal(o, expected.astype(dtype))
    for target in CHIPS:
        text = source(function, target)
        assert "u32*)&A[" in text
    with pytest.raises(tilelang.CompileError, match="is thread-level code"):
        tilelang.compile(function, target="reference")


SIGNATURE = "A: T.Tensor((64, 8), 'float32'), n: T.int32"


@pytest.mark.parametrize("body, words", [
    ("T.ldg128(A[0, 1])", "ldg128 moves 16 bytes and needs an address divisible by 16"),
    ("T.ldg128(T.view(A, (256, 2), 'float32')[0, 0])", "are 4 elements, but a row of"),
    ("T.lds128(A[0, 0])", "lds128 takes an element of a shared tile"),
    ("T.stg64(A[0, 0], T.ldg128(A[0, 0]))", "T.stg64 stores 8 bytes, and uint32x4 has 16"),
    ("T.ptx('mov.u32 {out}, {1};', n, out='int32')", "the template names {1}, but there is 1 operand"),
    ("T.ptx('mov.u32 {out}, {0};', n)", "the template names {out}, but there are 0 outputs"),
    ("T.ptx('mov.u32 {out}, {0};', n, out='int8')", "a result cannot be"),
    ("T.call_extern('float32', 'not a name(')", "the name of a function is expected"),
    ("T.call_extern('f', n)", "no dtype of the value is given, and 'f' is none: write T.call_extern(dtype"),
    ("T.call_extern('float32', 'f', 'text')", "takes values and pointers, not text"),
    ("T.call_pure_extern('void', 'f', 1)", "does nothing"),
])  # fmt: skip
def test_errors(tmp_path, body, words):
    error = failure(tmp_path, body, signature=SIGNATURE)
    assert words in str(error)
    assert error.line == 5


def test_an_eval_that_gives_nothing_says_so():
    @T.prim_func
    def main(O: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                O[i] = T.call_extern("float32", "nothing", i, eval=lambda i: None)

    with pytest.raises(TypeError, match="eval of nothing gave"):
        tilelang.compile(main, target="sim:sm_80")(np.zeros(32, np.float32))


@pytest.mark.parametrize(
    "call",
    [
        "T.call_extern('float32', 'fabsf', A[i])",
        "T.call_extern('fabsf', 'float32', A[i])",
        "T.call_extern('fabsf', A[i], dtype='float32')",
        "T.call_extern('float32', A[i], func_name='fabsf')",
        "T.call_extern(A[i], dtype=T.float32, func_name='fabsf')",
        "T.call_pure_extern(T.float32, 'fabsf', A[i])",
        "T.call_pure_extern('fabsf', A[i], dtype='float32')",
    ],
)
def test_forms_of_a_call(call, tmp_path, target):
    main = kernel(tmp_path, f"for i in T.Parallel(8):\n    B[i] = {call}", signature=TWO)
    a, b = np.linspace(-3, 4, 8, dtype=np.float32), np.full(8, np.nan, np.float32)
    tilelang.compile(main, target=target)(a, b)
    assert np.array_equal(b, np.abs(a))


TWO = "A: T.Tensor((8,), 'float32'), B: T.Tensor((8,), 'float32')"


@pytest.mark.parametrize(
    "call", ["'void', '__syncthreads'", "'__syncthreads', dtype='handle'", "None, '__syncthreads'"]
)
def test_forms_of_a_call_that_gives_nothing(call, tmp_path):
    text = kernel(tmp_path, f"T.call_extern({call})", signature=TWO).text
    assert "sync_threads()" in text
