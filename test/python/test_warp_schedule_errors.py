"""What is wrong with a schedule of warps is said at its line, or at the operation's."""

import re

import numpy as np
import pytest
import tilelang
from helpers import load_text
from test_warp_schedule import SIM, gemm

PROGRAM = """
import tilelang.language as T
S = T.WSSync

@T.prim_func
def main(A: T.Tensor((4, 64), "float32"), B: T.Tensor((4, 64), "float32")):
    with T.Kernel(1, threads=128):
        x, y = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
        f, g = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
        v = T.alloc_var("int32", init=0)
        t = T.get_thread_binding()
        load = {"warps_lo": 0, "warps_hi": 2}
        math = {"warps_lo": 2, "warps_hi": 4}
        warps = 4
        pipes = [T.WSPipeline("p", [x], 2)]
        root_load, root_math = ["loop"], ["loop"]
        first = [S.producer_acquire("p"), "fill", S.producer_commit("p")]
        second = [S.consumer_wait("p"), "read", S.consumer_release("p"), "store"]
        scopes = []
        SETUP
        roles = [T.WSRole("load", **load), T.WSRole("math", **math)]
        scopes = scopes or [
            T.WSScope(T.WSScope.ROOT, [root_load, root_math]), T.WSScope("loop", [first, second])]
        T.annotate_ws_schedule(T.WSSchedule(warps, roles, pipes, scopes))  # schedule
        BEFORE
        with T.ws_op("loop"):
            for i in T.serial(4):
                with T.ws_op("fill"):
                    FILL
                with T.ws_op("read"):
                    READ
                with T.ws_op("store"):
                    T.copy(f, B[i, :])
                REST
"""
DEFAULTS = {
    "SETUP": "pass",
    "BEFORE": "pass",
    "FILL": "T.copy(A[i, :], x)",
    "READ": "T.copy(x, f)",
    "REST": "pass",
}
# What is changed, `|` ending a line; and below it what is said.
ERRORS = """
SETUP warps = 8
    num_warps is 8, 256 threads, but this T.Kernel has 128 threads
SETUP math['warps_hi'] = 5
    the role math has the warps [2, 5), but the block has 128 threads, 4 warps
SETUP math['warps_lo'] = 1
    the roles load and math share warps, [0, 2) and [1, 4)
SETUP math['max_nreg'] = 240
    max_nreg of the role math is for whole warpgroups of 4 warps
SETUP math['max_nreg'] = 20
    max_nreg of the role math is 20; it is 24 to 256, a multiple of 8
SETUP pipes.append(T.WSPipeline('q', [x], 2))
    x is a tile of two pipelines, p and q
SETUP pipes.append(T.WSPipeline('q', [f], 2))
    the buffers of q are shared tiles, not
SETUP pipes.append(T.WSPipeline('q', [y], 2))
    no role fills the pipeline q
SETUP pipes.append(T.WSPipeline('p', [y], 2))
    two pipelines are called p
SETUP z = T.view(x, (8, 8))
    x is a tile of the pipeline p, and z is another view of its memory
SETUP first[1] = 'fil'
    load has the operation fil in loop, but the program has no T.ws_op("fil") there
SETUP root_load.append('fill')
    load has the operation fill in the kernel, but the program has it in loop
SETUP second.remove('store')
    the operation store is placed by no role of the schedule
SETUP second.append('store')
    math has the operation store 2 times in loop
SETUP first.append('store')
    the operation store is placed in the roles load and math, but writes B
SETUP second.remove('read')|first.append('read')
    load uses a tile of the pipeline p here
SETUP second.remove('store')|first.append('store')
    math writes f in read, and load uses it in store
SETUP second[0], second[2] = second[2], second[0]
    math has consumer_release(p) in loop without consumer_wait before it
SETUP second[:3] = [second[0], second[2], 'read']
    math uses a tile of the pipeline p here
SETUP second[:] = [second[0], 'store', 'read', second[2]]
    math has store before read in loop
SETUP first.append(first[2])
    load has producer_commit(p) in loop without producer_acquire before it
SETUP first.pop()
    load acquires a slot of the pipeline p in loop and does not commit it there
SETUP second.pop(2)
    math waits for a slot of the pipeline p in loop and does not release it there
SETUP second.insert(1, second[0])
    math has consumer_wait(p) in loop, but holds a slot of that pipeline
SETUP second[0] = S.consumer_wait('q')
    math in loop names the pipeline q, which there is not
SETUP second[0] = S.consumer_wait('p', 1)
    stage is 1 in a sync of the pipeline p: only consumer_release
SETUP second[2] = S.consumer_release('p', 2)
    math releases the pipeline p 2 uses late, but it has 2 slots
SETUP first.remove(first[0])|first.pop()
    load uses a tile of the pipeline p here
SETUP first.append(first[0])|first.append(first[2])
    load fills the pipeline p 2 times in loop, but math
SETUP root_math[:] = [second[0], 'loop', second[2]]|second[:] = ['read', 'store']
    load fills the pipeline p in loop, but math reads it in the kernel: they do so equally often
SETUP root_load.remove('loop')
    load has steps in loop, but does not have loop itself in the kernel
SETUP second[:] = ['store']|first[2:2] = ['read']
    no role reads the pipeline p
SETUP scopes = [T.WSScope('fil', {'load': ['x']})]
    the scope fil is no T.ws_op of the program
SETUP scopes = [T.WSScope('loop', {'lod': ['fill']})]
    has steps for the role lod, which there is not
SETUP scopes = [T.WSScope('loop', [[]])]
    bodies is a dict of roles and their steps
SETUP scopes = [T.WSScope('a b', [[]])]
    a name is a text of letters, digits and _ . + -, not 'a b'
SETUP first[1] = 7
    a name is a text of letters
SETUP pipes = [T.WSPipeline('p', x, 0)]
    T.WSPipeline: depth is an integer from 1 on
FILL T.copy(A[i, 0:32], x[0:32])
    not every element of x is written anew in each use of the pipeline p
FILL T.copy(A[i, :], x)|v = v + 1
REST v = v + 1
    v is written in the operation fill
FILL T.copy(A[i, :], x)|T.sync_threads()
    sync_threads is part of the operation fill
FILL if t == 0:|    x[0] = A[i, 0]
    is part of the operation fill of the schedule
FILL if i == 2:|    break|T.copy(A[i, :], x)
    the operation fill of the schedule leaves the loop around it
REST T.copy(f, g)
    no role of the schedule executes this statement
REST w = x[0]|v = v + T.cast(w, 'int32')
    no role of the schedule executes this statement
REST for j in T.serial(2):|    with T.ws_op('more'):|        T.copy(f, B[i, :])
    there are operations of the schedule in this statement
REST with T.ws_op('fill'):|    T.copy(f, B[i, :])
    two operations are called fill
BEFORE T.annotate_ws_schedule(T.WSSchedule(4, roles, pipes, scopes))
    has a schedule already
BEFORE T.annotate_ws_pipeline_depth([x])
    takes a dict of shared tiles and numbers of slots
"""


def cases():
    changes = {}
    for line in ERRORS.strip().splitlines():
        if line.startswith(" "):
            yield changes, line.strip()
            changes = {}
        else:
            word, _, code = line.partition(" ")
            changes[word] = code


def program(changes):
    """The text with these lines in place of its words, each indented as the word is."""
    text = PROGRAM
    for word, default in DEFAULTS.items():
        indent = re.search(rf"( *){word}\n", text).group(1)
        text = text.replace(word, f"\n{indent}".join(changes.get(word, default).split("|")))
    return text


@pytest.mark.parametrize("changes, text", list(cases()))
def test_errors(tmp_path, changes, text):
    with pytest.raises(tilelang.CompileError) as error:
        load_text(tmp_path, program(changes))
    assert text in str(error.value) and error.value.line > 0


def test_the_program_without_a_change(tmp_path):
    a, b = np.arange(256, dtype=np.float32).reshape(4, 64), np.zeros((4, 64), np.float32)
    kernel = tilelang.compile(load_text(tmp_path, program({})).main, target="sim:sm_90a")
    assert not kernel.simulate(a, b, schedules=3).findings and np.array_equal(a, b)


def run(body, tmp_path, target="sim:sm_90a"):
    text = PROGRAM.partition("    with T.Kernel")[0] + body
    a, b = np.random.default_rng(0).random((4, 64), np.float32), np.zeros((4, 64), np.float32)
    kernel = tilelang.compile(load_text(tmp_path, text).main, target=target)
    if target.startswith("sim"):
        assert not kernel.simulate(a, b, schedules=3).findings
    else:
        kernel(a, b)
    return a, b


SCHEDULE = """
    T.annotate_ws_schedule(T.WSSchedule(
        4, [T.WSRole("load", warps_lo=0, warps_hi=1), T.WSRole("math", warps_lo=1, warps_hi=4)],
        [T.WSPipeline("p", [x], 2)],
        [T.WSScope(T.WSScope.ROOT, [["loop"], ["begin", "loop", "end"]]),
         T.WSScope("loop", [[S.producer_acquire("p"), "fill", S.producer_commit("p")],
                            [S.consumer_wait("p"), "read", S.consumer_release("p")]])]))
"""
KERNEL = """
with T.Kernel(1, threads=128):
    x = T.alloc_shared((64,), "float32")
    own = T.alloc_barrier(96)
    last = T.alloc_var("float32", init=1.0)
""" + SCHEDULE + """
    with T.ws_op("begin"):
        total = T.alloc_fragment((64,), "float32")
        two = 2 + n_of
        T.clear(total)
    with T.ws_op("loop"):
        for i in T.serial(4):
            with T.ws_op("fill"):
                T.copy(A[i, :], x)
            with T.ws_op("read"):
                for j in T.Parallel(64):
                    total[j] = total[j] + x[j] * two
                T.barrier_arrive(own)
                T.barrier_wait(own, i % 2)
                last = last + 1.0
    with T.ws_op("end"):
        for j in T.Parallel(64):
            total[j] = total[j] + last
        T.copy(total, B[KERNEL, :])
"""  # fmt: skip


@pytest.mark.parametrize("target", ["sim:sm_90a", "sim:sm_80"])
def test_two_kernels_and_what_operations_make(tmp_path, target):
    """Names, tiles and variables that an operation makes are for the others of its role; the program's own
    barriers stand beside those of pipelines; pipelines of two kernels may have one name."""
    kernels = [KERNEL.replace("KERNEL", str(k)).replace("n_of", str(k)) for k in (0, 1)]
    body = "".join(f"    {line}\n" for kernel in kernels for line in kernel.splitlines())
    if target == "sim:sm_80":  # all threads of the block come to the barrier there
        body = body.replace("alloc_barrier(96)", "alloc_barrier(128)")
    a, b = run(body, tmp_path, target=target)
    sums = a.astype(np.float64).sum(0)
    assert np.allclose(b[0], 2 * sums + 5) and np.allclose(b[1], 3 * sums + 5) and not b[2:].any()


def test_what_every_role_may_say(tmp_path):
    changes = {"REST": "T.device_assert(i + v < 4, 'small')|T.print(i)|v = v + 0"}
    load_text(tmp_path, program(changes))


CYCLE = """
    with T.Kernel(1, threads=128):
        x, y = T.alloc_shared((64,), "float32"), T.alloc_shared((64,), "float32")
        f, g = T.alloc_fragment((64,), "float32"), T.alloc_fragment((64,), "float32")
        left = ["fill_x", "read_y"]
        here = [S.producer_acquire("x"), "fill_x", S.producer_commit("x")]
        there = [S.consumer_wait("y"), "read_y", S.consumer_release("y")]
        T.annotate_ws_schedule(T.WSSchedule(
            4, [T.WSRole("left", warps_lo=0, warps_hi=2), T.WSRole("right", warps_lo=2, warps_hi=4)],
            [T.WSPipeline("x", [x], 1), T.WSPipeline("y", [y], 1)],
            [T.WSScope(T.WSScope.ROOT, [["loop"], ["loop"]]),
             T.WSScope("loop", [LEFT,
                 [S.consumer_wait("x"), "read_x", S.consumer_release("x"),
                  S.producer_acquire("y"), "fill_y", S.producer_commit("y")]])]))
        with T.ws_op("loop"):
            for i in T.serial(2):
                with T.ws_op("fill_x"):
                    T.copy(A[i, :], x)
                with T.ws_op("read_x"):
                    T.copy(x, f)
                with T.ws_op("fill_y"):
                    T.copy(f, y)
                with T.ws_op("read_y"):
                    T.copy(y, g)
                    T.copy(g, B[i, :])
"""


def test_roles_that_wait_for_each_other(tmp_path):
    """There and back: in the program's order it ends, the other way round each role waits for the other."""
    a, b = run(CYCLE.replace("LEFT", "here + there"), tmp_path)
    assert np.array_equal(a[:2], b[:2])
    with pytest.raises(tilelang.CompileError) as error:
        run(CYCLE.replace("LEFT", "there + here"), tmp_path)
    assert (
        "roles wait for each other for ever: left for what is in one of the pipeline y, right for what is in "
        "one of the pipeline x" in str(error.value)
    )


def test_a_pipeline_that_is_too_deep():
    """The message says how many slots fit: so many do, and one more does not."""
    with pytest.raises(tilelang.CompileError) as error:
        tilelang.compile(gemm(128, 128, 640, depth=9), target=SIM)
    found = re.search(
        r", or the pipeline ab, whose 9 slots take 32.0 KB each, to (\d) slots$", str(error.value), re.M
    )
    fitting = int(found[1])
    tilelang.compile(gemm(128, 128, 640, depth=fitting), target=SIM)
    with pytest.raises(tilelang.CompileError, match=f"to {fitting} slots"):
        tilelang.compile(gemm(128, 128, 640, depth=fitting + 1), target=SIM)
