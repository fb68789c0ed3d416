"""Forms of the published language: parameters by name and position, slices, handles, members of buffers,
prim_funcs and policies, checks of a call.
"""

import inspect

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import failure, run


def numbers(*shape):
    return np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)


# ── parameters ────────────────────────────────────────────────────────────────────────────────────────

NAMES = {
    "if_then_else": "cond t f span", "ceildiv": "lhs rhs span", "shift_left": "x y span", "fma": "x y z",
    "bitwise_and": "x y span", "bitwise_not": "x span", "floordiv": "a b span", "truncmod": "a b span",
    "copysign": "x1 x2", "atan2": "x1 x2", "fmod": "x y", "align_up": "x y", "isnan": "x span",
    "round": "x rounding_mode span", "address_of": "obj span", "Cast": "dtype value annotations span",
    "thread_return": "span", "device_assert": "cond msg no_stack_info", "view": "src shape dtype strides",
    "Pipelined": "start stop num_stages order stage annotations", "assume": "cond",
    "ldexp": "x1 x2", "nextafter": "x1 x2", "hypot": "x1 x2", "popcount": "x span", "fabs": "x span",
    "gemm": "A B C transpose_A transpose_B policy clear_accum mbar annotations",
    "Persistent": "domain wave_size index group_size num_stages",
    "reduce": "buffer out reduce_type dim clear batch annotations",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_named_and_ordered_as_published(name):
    parameters = inspect.signature(getattr(T, name)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    wanted = NAMES[name].split()
    assert positional[: len(wanted)] == wanted


def test_functions_of_numbers_by_name():
    assert T.ceildiv(lhs=7, rhs=2) == 4 and T.shift_left(x=3, y=2, span=None) == 12
    assert T.if_then_else(True, t=1, f=2) == 1 and T.align_up(x=5, y=4) == 8
    assert tilelang.next_power_of_2(x=5) == 8 and T.bitwise_not(x=0, span=None) == -1


def test_values_by_name_and_the_usual_rounding(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.round(A[i], "ties-to-even", None) + T.Cast("float32", T.isnan(A[i], span=None))

    a, b = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.2, 4.7, np.nan], "float32"), np.zeros(8, "float32")
    run(main, target, a, b)
    assert b[:7].tolist() == [0, 2, 2, 0, -2, 3, 5] and np.isnan(b[7])


def test_scaled_and_next_numbers(target):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i], C[i] = T.ldexp(A[i], i - 1), T.nextafter(x1=A[i], x2=0.0)

    a, b, c = np.array([3, -3, 1e-30, 0.75], "float32"), np.zeros(4, "float32"), np.zeros(4, "float32")
    run(main, target, a, b, c)
    assert np.array_equal(b, np.ldexp(a, np.arange(4) - 1))
    assert np.array_equal(c, np.nextafter(a, np.float32(0)))


def test_what_says_only_how_is_noted():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 1.0)
            T.atomic_add(A[0:8], tile, use_tma=True)

    a = np.ones(8, "float32")
    kernel = tilelang.compile(main, target="cpu")
    kernel(a)
    assert (a == 2).all() and "use_tma" in str(kernel.report)


# ── slices ────────────────────────────────────────────────────────────────────────────────────────────


def slices():
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(8, threads=1) as tx:
            L = T.alloc_local((4,), "float32")
            L[0:4] = A[tx, 0:4]
            B[tx, 0:4] = -L[0:4] * 2.0 + A[tx, 4:8]
            B[tx, 4:8] = 7.0
            B[tx, T.Ramp(8, 1, 4)] = A[tx, T.Ramp(tx, 1, 4)]
            L[0:3] = L[1:4]  # all are read before one is written
            L[0:4] += 1
            B[tx, 12:16] = L[0:4]

    return main


def test_slices_element_by_element(target):
    a, b = numbers(8, 16), np.zeros((8, 16), "float32")
    run(slices(), target, a, b)
    expected = np.empty_like(b)
    expected[:, 0:4], expected[:, 4:8] = -a[:, 0:4] * 2 + a[:, 4:8], 7
    for i in range(8):
        expected[i, 8:12] = a[i, i : i + 4]
    expected[:, 12:16] = a[:, [1, 2, 3, 3]] + 1
    assert np.array_equal(b, expected)


def test_a_slice_is_a_vector_access():
    source = tilelang.compile(slices(), target="cuda -arch=sm_80").get_kernel_source()
    assert "tl_load<4>(&A[" in source and source.count("tl_store(&B[") == 4


@pytest.mark.parametrize(("body", "said"), {
    "L[0:4] = A[0, 0:3]": "a slice of 3 elements is stored to one of 4",
    "L[0:4] = A[0, 0:3] + A[0, 0:4]": "slices of 3 and of 4 elements",
    "L[0:4] = A[0:2, 0:4]": "only a slice of one dimension and constant length",
    "A[0:8, 0:16] = 0.0": "use T.copy or T.fill",
    "A[0, T.Ramp(0, 2, 4)] = 0.0": "an index has stride 1",
}.items())  # fmt: skip
def test_slices_that_are_refused(tmp_path, body, said):
    text = f"L = T.alloc_local((4,), 'float32')\n{body}"
    error = failure(tmp_path, text, signature="A: T.Tensor((8, 16), 'float32')")
    assert said in error.text


# ── parameters that are addresses ─────────────────────────────────────────────────────────────────────


def test_handles_keep_the_order_of_the_parameters(target):
    @T.prim_func
    def main(a: T.handle, n: T.int32, b: T.handle, unused: T.handle):
        T.func_attr({"tirx.noalias": True})
        m = T.dynamic("m")
        B = T.match_buffer(b, [m, 4])
        A = T.match_buffer(a, (m, 4), "float32")
        with T.Kernel(m, threads=1) as i, T.sblock("root"):
            row = T.alloc_buffer((4,), "float32", scope="local")
            row[0] = T.Cast("float32", T.undef())
            x = T.bind(A[i, 0] * 2)
            for j in T.serial(4):
                row[j] = A[i, j] + x
                if T.likely(j < n):
                    B[i, j] = T.call_intrin("float32", "tirx.sqrt", row[j] * row[j])

    assert [p.name for p in main.params] == ["a", "n", "b", "unused"]
    a, b = numbers(3, 4), np.zeros((3, 4), "float32")
    run(main, target, a, 3, b, 0)
    expected = a + 2 * a[:, :1]
    expected[:, 3] = 0
    assert np.array_equal(b, expected)


@pytest.mark.parametrize(("body", "said"), {
    "T.match_buffer(a, (4,))\nT.match_buffer(a, (4,))": "matched or used as an address already",
    "T.match_buffer(n, (4,))": "takes a parameter that is annotated T.handle",
    "T.match_buffer(a)": "the shape is missing",
    "T.match_buffer(a, (4,), scope='shared')": "a tensor in global memory",
}.items())  # fmt: skip
def test_handles_that_are_refused(tmp_path, body, said):
    path = tmp_path / "handles.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(
        f"import tilelang.language as T\n@T.prim_func\ndef f(a: T.handle, n: T.int32):\n{lines}"
        "    with T.Kernel(1):\n        T.evaluate(0)\n"
    )
    with pytest.raises(tilelang.CompileError) as caught:
        exec(compile(path.read_text(), str(path), "exec"), {})
    assert said in str(caught.value) and caught.value.line == 3 + len(body.splitlines())


# ── loops, references, variables ──────────────────────────────────────────────────────────────────────


def test_a_name_that_refers_to_a_place(target):
    @T.macro
    def raised(A, i):
        x: T.Ref = A[i]
        x += 1.0

    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(8, threads=1) as i:
            raised(A, i)
            y: T.Ref = A[i]
            y = y * 3
            for only in T.grid(1, 1):
                A[i + only[0] + only[1]] += 1

    a = np.ones(8, "float32")
    run(main, target, a)
    assert (a == 7).all()


def test_a_reference_needs_a_place(tmp_path):
    assert "it takes an element, A[i, j]" in failure(tmp_path, "x: T.Ref = 3").text


def test_a_scheduler_goes_where_it_is_told(target):
    @T.prim_func
    def main(B: T.Tensor((4, 3), "int32")):
        with T.Kernel(1, threads=32):
            sched = T.PersistentTileScheduler(4, 3, num_workers=1, cluster_size=1)
            sched.init(0)
            for n in T.serial(12):
                sched.update_current_idx(11 - n)
                B[sched.m_idx, sched.n_idx] = sched.linear_idx

    b = np.zeros((4, 3), "int32")
    run(main, target, b)
    assert sorted(b.ravel()) == list(range(12)) and b[0, 0] == 0 and b[1, 0] == 1


# ── members ───────────────────────────────────────────────────────────────────────────────────────────

ADD_ONE = "__device__ void add_one(float* p, int n) { for (int i = 0; i < n; i++) p[i] += 1.0f; }"


def add_one(p, n):
    p[:n] += 1


def test_members_of_buffers():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.StridedTensor((4, 8), (16, 1), "float32")):
        T.import_source(ADD_ONE)
        with T.Kernel(1, threads=1):
            S = T.alloc_shared((4, 8), "float32")
            F = T.alloc_fragment((4, 8), "float32")
            scopes = (S.scope(), S.scope, F.scope(), A.scope())
            assert scopes == ("shared.dyn", "shared", "local.fragment", "global")
            assert isinstance(S.scope, str) and S.name == "S"
            assert (S.strides, B.strides, A.elem_offset) == ((8, 1), (16, 1), 0)
            L = T.alloc_local((4,), "float32")
            L.vstore(0, A.vload((1, 4), "float32x4"))
            B.vstore([2, 0], L.vload(0, "float32x4") * 2)
            B.vstore((3, 0), A.vload((3, 3)))
            T.call_extern("void", "add_one", A.data, 3, eval=add_one)
            T.call_extern("void", "add_one", A.access_ptr("rw", offset=8), 2, eval=add_one)
            same = T.view(A, (8, 4), strides=(4, 1))
            same[7, 3] = 50.0

    a, storage = numbers(4, 8), np.zeros((4, 16), "float32")
    given = a.copy()
    run(main, "sim:sm_80", a, storage[:, :8])
    given[0, :3] += 1
    given[1, :2] += 1
    given[3, 7] = 50
    assert np.array_equal(a, given)
    assert storage[2, :4].tolist() == [24, 26, 28, 30] and storage[3, 0] == 27


@pytest.mark.parametrize(("body", "said"), {
    "T.view(A, (4, 2), strides=(3, 1))": "row-major without gaps, (2, 1)",
    "A.vload((0, 0), 'float16x2')": "float16x2 is asked for",
    "A.access_ptr('r', content_lanes=2)": "content_lanes is 2",
    "A.data + 1": "cannot be used in address arithmetic",
}.items())  # fmt: skip
def test_members_that_are_refused(tmp_path, body, said):
    assert said in failure(tmp_path, f"x = {body}", signature="A: T.Tensor((2, 4), 'float32')").text


def test_members_of_a_prim_func(capsys):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), n: T.int32):
        T.func_attr({"key": 1})
        with T.Kernel(1, threads=1):
            A[0, 0] = n

    assert main.attrs == {"global_symbol": "main", "key": 1} and main.ret_type is None
    assert [main.buffer_map[p].shape for p in main.params if p in main.buffer_map] == [(4, 8)]
    assert main.body.lstrip().startswith("kernel main") and main.orig_func.__name__ == "main"
    assert main.span[0] == __file__ and main.with_attr("x", 2).attrs["x"] == 2
    assert main.with_attrs({"y": 3}).without_attr("key").attrs == {"global_symbol": "main", "y": 3}
    main.show()
    assert capsys.readouterr().out.startswith("func main")
    a = np.zeros((4, 8), "float32")
    tilelang.compile(main.with_attr("x", 2), target="cpu")(a, 5)
    assert a[0, 0] == 5
    with pytest.raises(tilelang.CompileError, match="a parameter of the function around it"):
        main.specialize({main.params[1]: 4})


def test_policies_are_numbers():
    policy = T.GemmWarpPolicy
    assert [policy(n) for n in range(3)] == [policy.Square, policy.FullRow, policy.FullCol]
    assert policy("full_row") is policy("FullRow") is policy.FullRow and policy.FullCol == 2
    assert policy.Square.is_square() and policy(1).is_full_row() and policy(2).is_full_col()
    assert policy.from_warp_partition(4, 1) == policy.FullRow
    assert policy.from_warp_partition(1, 4).is_full_col()
    assert policy.Square.compute_warp_partition(128, 64, 4) == (2, 2)
    assert policy.Square.compute_warp_partition(256, 32, 4) == (4, 1)
    assert policy.FullRow.compute_warp_partition(128, 64, 4) == (4, 1)
    assert policy.FullCol.compute_warp_partition(128, 64, 4) == (1, 4)
    with pytest.raises(ValueError, match="cannot share"):
        policy.FullRow.compute_warp_partition(6, 64, 4)


@pytest.mark.parametrize("policy", ["full_row", "FullCol", 0, T.GemmWarpPolicy.from_warp_partition(2, 2)])
def test_a_policy_by_any_name(policy):
    @T.prim_func
    def main(A: T.Tensor((64, 32), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a, c = T.alloc_shared((64, 32), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, False, True, policy, True)
            T.copy(c, C)

    a, c = (numbers(64, 32) % 5).astype("float16"), np.zeros((64, 64), "float32")
    run(main, "sim:sm_80", a, c)
    assert np.array_equal(c, a.astype("float32") @ a.astype("float32").T)


# ── checks of a call ──────────────────────────────────────────────────────────────────────────────────


def checked():
    @T.prim_func
    def main(A: T.Tensor((T.dynamic("m"), 8), "float32"), n: T.int32, flag: T.int32):
        m = A.shape[0]
        assert n > 3, "more than three"
        assert m % 4 == 0 and n <= m, f"m is a multiple of {4}"
        assert not (flag == 7 or flag < 0)
        with T.Kernel(m, threads=32) as i:
            for j in T.Parallel(8):
                A[i, j] = T.Cast("float32", n)

    return main


def test_a_call_is_checked_before_anything_runs(target):
    program = checked()
    first = checked.__code__.co_firstlineno
    kernel = tilelang.compile(program, target=target)
    a = np.zeros((8, 8), "float32")
    kernel(a, 5, 0)
    assert (a == 5).all()
    for rows, n, flag, line, said in (
        (8, 3, 0, 4, "more than three: `n > 3`, where n = 3"),
        (6, 5, 0, 5, "m is a multiple of 4"),
        (8, 9, 0, 5, "n = 9, m = 8"),
        (8, 5, 7, 6, "where flag = 7"),
        (8, 5, -1, 6, "where flag = -1"),
    ):
        with pytest.raises(tilelang.ArgumentError) as caught:
            kernel(np.zeros((rows, 8), "float32"), n, flag)
        assert said in str(caught.value) and f"{__file__}:{first + line}: " in str(caught.value)
    assert 'check n > 3, "more than three"' in program.text
    assert "check" in tilelang.compile(program, target="cpu").get_host_source()


def test_what_no_call_can_check(tmp_path):
    path = tmp_path / "real.py"
    path.write_text(
        "import tilelang.language as T\n@T.prim_func\ndef f(A: T.Tensor((4,), 'float32'), s: "
        "T.float32):\n    assert s > 0.0, 'positive'\n    with T.Kernel(1):\n        A[0] = s\n"
    )
    with pytest.raises(tilelang.CompileError, match="from integer parameters and extents; `s` is float32"):
        exec(compile(path.read_text(), str(path), "exec"), {})
