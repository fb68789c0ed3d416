"""A T.Parallel loop that also writes to what all threads see divides its iterations among them: no variable
or array of the thread may then be carried from one to another, or be read after the loop."""

import re
import textwrap

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import FIRST_LINE, failure, load_text

SIM = "sim:sm_90"  # of the fixture `target`

SIGNATURE = "X: T.Tensor((64,), 'float32'), Y: T.Tensor((64,), 'float32'), Z: T.Tensor((64,), 'float32')"
LOOP = "for i in T.Parallel(64):\n"
VARIABLE = "v = T.alloc_var('float32', init=0)\n"
ARRAY = "v = T.alloc_local((64,), 'float32')\nfor k in T.serial(64):\n    v[k] = 0\n"
AFTER = LOOP + "    Y[i] = v"

# The body, the line of the read, and what the loop also does.
REFUSED = {
    "a maximum": (VARIABLE + LOOP + "    Z[i] = X[i]\n    v = T.max(v, X[i])\n" + AFTER, 3, "stores to Z"),
    "carried alone": (VARIABLE + LOOP + "    v += X[i]\n    Z[i] = v", 2, "stores to Z"),
    "a flag": (
        "f = T.alloc_fragment((64,), 'float32')\n"
        + VARIABLE
        + "T.copy(X, f)\n"
        + LOOP
        + "    if f[i] > 60:\n        v = 1\n        f[i] = 60\n"
        + AFTER,
        8,
        "stores to f",
    ),
    "beside a reducer": (
        "r = T.alloc_reducer((1,), 'float32', op='sum')\nT.clear(r)\n"
        + VARIABLE
        + LOOP
        + "    r[0] += X[i]\n    v += 1\nT.finalize_reducer(r)",
        5,
        "contributes to r",
    ),
    "a histogram": (ARRAY + LOOP + "    Z[i] = X[i]\n    v[i % 8] += 1", 5, "stores to Z"),
    "at places of the data": (
        ARRAY + LOOP + "    Z[i] = X[i]\n    v[T.cast(X[i], 'int32')] += 1",
        5,
        "stores to Z",
    ),
    "turned": (ARRAY + LOOP + "    j = 63 - i\n    v[i] = X[i]\n    Y[i] = v[j]", 6, "stores to Y"),
    "read after": (VARIABLE + LOOP + "    v = X[i]\n    Z[i] = v\n" + AFTER, 5, "stores to Z"),
    "read by the next turn": (
        VARIABLE + "for k in T.serial(2):\n    Y[k] = v\n    " + LOOP + "        v = X[i]\n        Z[i] = v",
        2,
        "stores to Z",
    ),
    "in some iterations": (
        VARIABLE + LOOP + "    if X[i] > 3:\n        v = 1\n    Z[i] = v",
        4,
        "stores to Z",
    ),
    "what an update gives": (
        VARIABLE + LOOP + "    v = T.atomic_add(Z[0], X[i], return_prev=True)\n" + AFTER,
        4,
        "asks for what atomic_add gives",
    ),
    "a tile's place": (
        VARIABLE
        + LOOP
        + "    v = X[i]\n    Z[i] = v\nT.fill(Y[T.cast(v, 'int32') : T.cast(v, 'int32') + 4], 1)",
        4,
        "stores to Z",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_part_of_a_variable_is_refused(name, tmp_path):
    body, line, what = REFUSED[name]
    error = failure(tmp_path, body, signature=SIGNATURE)
    assert error.line == FIRST_LINE + line
    assert f"the loop also {what}" in str(error)
    assert "v is read here" in str(error) and "divided among the threads" in str(error)
    assert "change v in a loop of its own" in str(error) and "T.serial" in str(error)


COUNTED = (
    "r = T.alloc_reducer((1,), 'float32', op='sum')\nT.clear(r)\n"
    + LOOP
    + "    r[0] += X[i]\nT.finalize_reducer(r)\n"
)
# The body, and the value of Y: of the element x, or of all of them.
ACCEPTED = {
    "a loop of its own": (VARIABLE + LOOP + "    v = T.max(v, X[i])\n" + AFTER, lambda x: x.max() + 0 * x),
    "the last iteration's": (VARIABLE + LOOP + "    v = X[i]\n" + AFTER, lambda x: x[-1] + 0 * x),
    "with a finalised reducer": (
        COUNTED + VARIABLE + LOOP + "    v += r[0]\n" + AFTER,
        lambda x: 64 * x.sum() + 0 * x,
    ),
    "beside updates": (
        VARIABLE + LOOP + "    T.atomic_add(Z[0], X[i])\n    v += 1\n" + AFTER,
        lambda x: 64 + 0 * x,
    ),
    "assigned first": (VARIABLE + LOOP + "    v = X[i]\n    v = v * v\n    Y[i] = v", lambda x: x * x),
    "in both branches": (
        VARIABLE + LOOP + "    if X[i] > 3:\n        v = 1\n    else:\n        v = 2\n    Y[i] = v",
        lambda x: np.where(x > 3, 1, 2),
    ),
    "under one condition": (
        VARIABLE + LOOP + "    Y[i] = 0\n    c = X[i] > 3\n    if c:\n        v = X[i]\n    if c:\n"
        "        Y[i] = v",
        lambda x: np.where(x > 3, x, 0),
    ),
    "a scratch array": (
        ARRAY + LOOP + "    for k in T.serial(4):\n        v[k] = X[i] * k\n    Y[i] = v[1] + v[3]",
        lambda x: 4 * x,
    ),
    "other elements": (
        ARRAY
        + "for i in T.Parallel(32):\n    v[i] = X[i]\nfor i in T.Parallel(32):\n    v[i + 32] = v[i] * 2\n"
        "    Y[i] = v[i]\n    Y[i + 32] = v[i + 32]",
        lambda x: np.concatenate([x[:32], 2 * x[:32]]),
    ),
    "changed outside": (
        VARIABLE + "for k in T.serial(2):\n    v += 3\n    " + LOOP + "        Y[i] = v",
        lambda x: 6 + 0 * x,
    ),
    "assigned anew": (VARIABLE + LOOP + "    v = X[i]\n    Y[i] = v\nv = 7\n" + AFTER, lambda x: 7 + 0 * x),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_each_thread_has_alike_is_computed(name, tmp_path):
    body, expected = ACCEPTED[name]
    head = (
        f"import tilelang.language as T\n@T.prim_func\ndef main({SIGNATURE}):\n"
        "    with T.Kernel(1, threads=32):\n"
    )
    program = load_text(tmp_path, head + textwrap.indent(body, " " * 8)).main
    x = np.arange(1, 65, dtype="f4")
    for target in ("cpu", "reference", SIM):
        y = np.zeros(64, "f4")
        tilelang.compile(program, target=target)(x, y, np.zeros(64, "f4"))
        np.testing.assert_array_equal(y, expected(x), err_msg=target)


@T.prim_func
def rows_at_elements(
    X: T.Tensor((64,), "float32"), S: T.Tensor((4,), "int32"), Y: T.Tensor((48,), "float32")
):
    with T.Kernel(1, threads=64):
        s = T.alloc_fragment((4,), "int32")
        ones = T.alloc_fragment((16,), "float32")
        T.copy(S, s)
        T.fill(ones, 1)
        T.copy(X[s[1] : s[1] + 16], Y[0:16])
        T.fill(Y[s[2] : s[2] + 16], 3)
        T.atomic_add(Y[s[3] : s[3] + 16], ones)


def test_a_tile_begins_at_an_element_of_a_fragment(target):
    x, y = np.arange(64, dtype="f4"), np.zeros(48, "f4")
    tilelang.compile(rows_at_elements, target=target)(x, np.array([0, 5, 16, 32], "i4"), y)
    np.testing.assert_array_equal(y, np.concatenate([x[5:21], np.full(16, 3), np.full(16, 1)]))


@T.prim_func
def slots(X: T.Tensor((4, 64), "float32"), count: T.Tensor((1,), "int32"), Y: T.Tensor((4, 64), "int32")):
    with T.Kernel(1, threads=64):
        x, sums = T.alloc_fragment((4, 64), "float32"), T.alloc_fragment((4,), "float32")
        slot = T.alloc_fragment((4,), "int32")
        T.copy(X, x)
        T.reduce_sum(x, sums, dim=1)
        for i in T.Parallel(4):
            slot[i] = T.atomic_add(count[0], T.cast(sums[i], "int32"), return_prev=True)
        for i, j in T.Parallel(4, 64):
            Y[i, j] = slot[i]


def test_an_old_value_for_copies_of_a_fragment_is_refused_at_its_statement():
    with pytest.raises(tilelang.CompileError) as caught:
        tilelang.compile(slots, target="sim:sm_90")
    assert re.search(r"slot\[i\] = T.atomic_add", str(caught.value))
    assert "shared tile (T.alloc_shared), and T.copy that to slot" in str(caught.value)


@T.prim_func
def gathers(X: T.Tensor((64,), "float32"), order: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((64,), "float32")
        T.copy(X, s)
        for i in T.Parallel(64):
            s[i] = s[order[i]] * 2
        T.copy(s, Y)


@T.prim_func
def sums(X: T.Tensor((64,), "float32"), order: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((64,), "float32")
        T.copy(X, s)
        for i in T.Parallel(64):
            s[order[i]] += X[i]
        T.copy(s, Y)


@pytest.mark.parametrize(
    "program, order, cure",
    [
        (gathers, np.roll(np.arange(64), 5), "read from another buffer"),
        (sums, np.arange(64) // 32, "sum up with T.reduce_sum"),
    ],
)
def test_the_cure_of_a_race_is_that_of_its_statement(program, order, cure):
    with pytest.raises(tilelang.SimulationError, match="data race on s") as caught:
        tilelang.compile(program, target="sim:sm_90")(
            np.ones(64, "f4"), order.astype("i4"), np.zeros(64, "f4")
        )
    assert cure in str(caught.value)


@T.prim_func
def extremes(X: T.Tensor((1, 32), "float32"), Y: T.Tensor((5,), "float32"), Z: T.Tensor((1, 32), "float32")):
    with T.Kernel(1, threads=32):
        x, z = T.alloc_fragment((1, 32), "float32"), T.alloc_fragment((1, 32), "float32")
        t = T.alloc_fragment((1,), "float32")
        r = T.alloc_reducer((1,), "float32", op="max")
        T.copy(X, x)
        T.reduce_max(x, t, dim=1)
        T.copy(t, Y[0:1])
        T.reduce_min(x, t, dim=1)
        T.copy(t, Y[1:2])
        T.reduce_absmax(x, t, dim=1)
        T.copy(t, Y[2:3])
        T.reduce_max(x, t, dim=1, nan_propagate=True)
        T.copy(t, Y[3:4])
        T.reducer_init(r)
        for j in T.Parallel(32):
            T.reducer_update(r[0], X[0, j])
        T.finalize_reducer(r)
        Y[4] = r[0]
        T.cummax(x, z, dim=1)
        T.copy(z, Z)


def test_extremes_of_nan_alone_are_where_they_begin(target):
    """As docs/numerics.md says."""
    x, y, z = np.full((1, 32), np.nan, "f4"), np.zeros(5, "f4"), np.zeros((1, 32), "f4")
    tilelang.compile(extremes, target=target)(x, y, z)
    np.testing.assert_array_equal(y, np.array([-np.inf, np.inf, 0, np.nan, -np.inf], "f4"))
    assert (z == -np.inf).all()
