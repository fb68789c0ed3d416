"""Layouts and fragments in kernels: T.annotate_layout, loop_layout, and what they refuse."""

import pytest
import tilelang
from helpers import failure, kernel

BODY = """\
S = T.alloc_shared((64, 8), "float32")
F = T.alloc_fragment((64, 8), "float32")
V = T.alloc_local((4,), "float32")
"""


def test_annotations_stand_in_the_program(tmp_path):
    text = str(
        kernel(
            tmp_path,
            BODY
            + """\
T.annotate_layout({S: T.Layout((64, 8), lambda i, j: [j, i]), F: lambda i, j: (i % 32, i // 32 * 8 + j)})
T.annotate_layout({A: lambda i, j: [i // 8, j, i % 8]})
for i, j in T.Parallel(64, 8, loop_layout=T.Fragment((64, 8), lambda i, j: (i % 32, i // 32 * 8 + j))):
    S[i, j] = A[i, j]
""",
        )
    )
    assert "A: f32[64, 8] layout((i, j) -> i//8*64 + j*8 + i%8)" in text
    assert "S = shared f32[64, 8] layout((i, j) -> j*64 + i)" in text
    assert "F = fragment f32[64, 8] layout((i, j, k) -> (i%32, i//32*8 + j))" in text
    assert "{loop_layout=(i: 64, j: 8, k: 1) -> (i%32, i//32*8 + j)}" in text


@pytest.mark.parametrize("line, message", [
    ("T.annotate_layout({S: T.Layout((8, 64), lambda i, j: i * 64 + j)})",
     "S: float32[64, 8] cannot take a layout of the extents (8, 64): they must be those of the buffer"),
    ("T.annotate_layout({S: lambda i, j: i + j})",
     "this layout of S puts the elements (0, 1) and (1, 0) in one place, 1"),
    ("T.annotate_layout({S: T.Fragment((64, 8), lambda i, j: (i, j))})",
     "S: float32[64, 8] is not a fragment: it takes a Layout, not a Fragment of threads and registers"),
    ("T.annotate_layout({F: T.Layout((64, 8), lambda i, j: i * 8 + j)})",
     "F: float32[64, 8] lies in registers: it takes a Fragment, which says thread and register, not a "
     "Layout"),
    ("T.annotate_layout({F: lambda i, j: (j, 0)})",
     "this fragment puts the elements (0, 0) and (1, 0) of F into one register, 0 of thread 0"),
    ("T.annotate_layout({V: lambda i: i})",
     "V: float32[4] belongs to one thread: only shared tiles, fragments and tensors have layouts"),
    ("T.annotate_layout({A: lambda i, j: i * 10 + j})",
     "this layout of A reaches offset 637, but the tensor has 512 elements: only tiles can be padded"),
    ("T.annotate_layout({A: lambda i, j: [(i + j) % 64, j]})",
     "this layout of the tensor A is not a permutation of digits"),
    ("T.annotate_layout({S: 3})", "S takes a T.Layout, a T.Fragment or a function of its indices, not int"),
    ("T.annotate_layout({S: lambda i: i})", "takes 1 argument, but there are 2 indices (i, j)"),
    ("T.annotate_layout({3: lambda i: i})", "a key must be a buffer, not int"),
])  # fmt: skip
def test_annotations_that_cannot_be(tmp_path, line, message):
    e = failure(tmp_path, BODY + line)
    assert message in e.text
    assert e.line == 5 + BODY.count("\n")


TWICE = "T.Fragment((64, 8), lambda i, j: (i % 32, j))"  # iterations i and i + 32 in one register


@pytest.mark.parametrize("body", [
    f"for i, j in T.Parallel(64, 8, loop_layout={TWICE}):\n    S[i, j] = A[i, j]\n",
    f"T.copy(A, S, loop_layout={TWICE})\n",
    f"T.async_copy(A, S, loop_layout={TWICE})\n",
])  # fmt: skip
def test_a_loop_layout_that_loses_iterations(tmp_path, body):
    """One of two iterations in one register of a thread would not run."""
    e = failure(tmp_path, BODY + body)
    assert e.text == (
        "this loop_layout puts the iterations (0, 0) and (32, 0) into one register, 0 of thread 0: one of "
        "them would not run; give each iteration of a thread a register of its own"
    )
    assert e.line == 5 + BODY.count("\n")


def test_a_loop_layout_in_text_that_loses_iterations():
    text = """\
func f(A: f32[64], B: f32[64]):
  kernel k grid(bx: 1) threads(32):
    for i in parallel(64) {loop_layout=(i: 64, j: 1) -> (i%32, 0)}:
      B[i] = A[i]
"""
    with pytest.raises(tilelang.CompileError, match=r"the iterations \(0,\) and \(32,\) into one register"):
        tilelang._core.compile(tilelang._core.parse(text), "sim:sm_80", {"cache": False})


def test_replicas_of_a_loop_layout_may_coincide(tmp_path):
    """An iteration may run on several threads, and a replica that changes nothing is no second iteration."""
    layout = "T.Fragment((64, 8), lambda i, j, r: (i % 16 + r % 2 * 16, i // 16 * 8 + j), replicate=4)"
    kernel(tmp_path, BODY + f"T.copy(A, S, loop_layout={layout})\nT.copy(S, A)\n")


def test_two_annotations_of_one_buffer(tmp_path):
    lines = "T.annotate_layout({S: lambda i, j: i * 8 + j})\n" * 2
    kernel(tmp_path, BODY + lines)  # the same twice is no contradiction
    e = failure(tmp_path, BODY + lines + "T.annotate_layout({S: lambda i, j: j * 64 + i})")
    assert e.text == (
        "S has a layout already, (i, j) -> i*8 + j (by T.annotate_layout), and cannot also "
        "have (i, j) -> j*64 + i (by T.annotate_layout): annotate it once"
    )


def test_loop_layouts_that_cannot_be(tmp_path):
    loop = "for i, j in T.Parallel(64, 8, loop_layout={}):\n    S[i, j] = A[i, j]\n"
    e = failure(tmp_path, BODY + loop.format("T.Fragment((8, 64), lambda i, j: (i, j))"))
    assert "a loop over (64, 8) iterations cannot take a loop_layout of the extents (8, 64)" in e.text
    e = failure(tmp_path, BODY + loop.format("T.Layout((64, 8), lambda i, j: i)"))
    assert "loop_layout must be a T.Fragment, not Layout" in e.text
    table = "T.Fragment((64, 8), forward_thread_fn=lambda i, j: (i * 3 + j) % 7)"
    e = failure(tmp_path, BODY + loop.format(table))
    assert "known as a table only" in e.text


def test_makers_take_buffers_and_slices(tmp_path):
    text = str(
        kernel(
            tmp_path,
            """\
S = T.alloc_shared((2, 64, 64), "float16")
assert T.make_swizzled_layout(S).shape == (2, 64, 64)
assert T.make_swizzled_layout(S[0, :, 0:32]).is_equal(T.make_half_bank_swizzled_layout(((64, 32), "float16")))
assert T.make_linear_layout(S[:, 0:8, :]).shape == (2, 8, 64)
T.annotate_layout({S: T.make_swizzled_layout(S)})
""",
        )
    )
    assert "S = shared f16[2, 64, 64] layout((i, j, k) -> i*4096 + j*64 + (k//8 ^ j%8)*8 + k%8)" in text
