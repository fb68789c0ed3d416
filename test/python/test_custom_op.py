"""Kernels as PyTorch operators: torch.compile takes them, autograd and fake tensors know them."""

import itertools

import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError

torch = pytest.importorskip("torch")
_number = itertools.count()


def fresh(name="op"):
    """A name that no other test has given."""
    return f"tilelang_test::{name}{next(_number)}"


@tilelang.jit(target="cpu")
def scaled_sum(A, B, scale: float = 2.0, block: int = 64):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B: T.Tensor((M, N), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block), M) as (bx, by):
        for i in T.Parallel(block):
            C[by, bx * block + i] = A[by, bx * block + i] * scale + B[by, bx * block + i]
    return C


def plain(m="m", dtype="float32", out_idx=-1):
    m = T.dynamic(m) if isinstance(m, str) else m

    @T.prim_func
    def add(A: T.Tensor((m, 8), dtype), s: T.float32, B: T.Tensor((m * 2, 4), dtype)):
        with T.Kernel(m) as bx:
            for i, j in T.Parallel(2, 4):
                B[bx * 2 + i, j] = A[bx, i * 4 + j] * s

    return tilelang.compile(add, out_idx=out_idx, target="cpu")


def test_an_eager_kernel_in_a_compiled_function():
    op = tilelang.custom_op(fresh(), scaled_sum)
    a, b = torch.randn(5, 128), torch.randn(5, 128)

    def model(a, b):
        return torch.relu(op(a, b, 3.0)) + op(b, a)

    want = torch.relu(a * 3 + b) + b * 2 + a
    torch.testing.assert_close(model(a, b), want)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(a, b), want)
    torch.library.opcheck(op, (a, b), {"scale": 0.5})


@pytest.mark.parametrize("rows", [4, 7])
def test_shapes_that_only_the_call_knows(rows):
    op = tilelang.custom_op(fresh(), plain())
    a = torch.randn(rows, 8)
    torch.testing.assert_close(op(a, 2.0), (a * 2).reshape(2 * rows, 4))
    model = torch.compile(lambda x: op(x, 2.0) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (rows, rows + 1, 11):
        a = torch.randn(n, 8)
        torch.testing.assert_close(model(a), (a * 2 + 1).reshape(2 * n, 4))
    torch.library.opcheck(op, (a, 2.0))


def test_a_backward_of_the_users():
    op = tilelang.custom_op(fresh(), scaled_sum)

    def setup(ctx, inputs, output):
        ctx.scale = inputs[2]

    op.register_autograd(lambda ctx, grad: (grad * ctx.scale, grad, None, None), setup_context=setup)
    a, b = (torch.randn(3, 64, requires_grad=True) for _ in range(2))
    for run in (op, torch.compile(lambda *x: op(*x), fullgraph=True, backend="aot_eager")):
        a.grad = b.grad = None
        run(a, b, 5.0).sum().backward()
        assert (a.grad == 5).all() and (b.grad == 1).all()


def test_arguments_that_are_written():
    kernel = plain(6, out_idx=None)
    op = tilelang.custom_op(fresh(), kernel)
    a, b = torch.randn(6, 8), torch.zeros(12, 4)

    def model(a, b):
        op(a, 3.0, b)
        return b + 1

    got = torch.compile(model, fullgraph=True, backend="aot_eager")(a, b)
    torch.testing.assert_close(b, (a * 3).reshape(12, 4))
    torch.testing.assert_close(got, b + 1)


@tilelang.jit(target="cpu")
def twice(X, Y, dtype: T.dtype = "float32"):
    N = T.const("N")
    X: T.Tensor((N,), dtype)
    Y: T.Tensor((N,), dtype)
    Z = T.empty((N,), dtype)
    with T.Kernel(1):
        for i in T.Parallel(N):
            Y[i] = X[i] * 2
            Z[i] = X[i] * 3
    return Z


def test_what_an_eager_kernel_writes_must_be_said():
    x, y = torch.arange(4.0), torch.zeros(4)
    op = tilelang.custom_op(fresh(), twice)
    with pytest.raises(CompileError, match=r"twice writes its argument Y, but mutates_args does not name it"):
        op(x, y)
    op = tilelang.custom_op(fresh(), twice, mutates_args="Y")
    assert (op(x, y) == x * 3).all() and (y == x * 2).all()
    torch.library.opcheck(op, (x, y))


def test_as_a_decorator():
    @tilelang.custom_op(fresh("decorated"))
    @tilelang.jit(target="cpu")
    def both(X, n: T.float32):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        A, B = T.empty((N,)), T.empty((N * 2,))
        with T.Kernel(1):
            for i in T.Parallel(N):
                A[i] = X[i] + n
                B[2 * i] = X[i]
                B[2 * i + 1] = n
        return A, B

    x = torch.arange(6.0)
    a, b = torch.compile(lambda x: both(x, 2.5), fullgraph=True, backend="aot_eager")(x)
    assert (a == x + 2.5).all() and (b[0::2] == x).all() and (b[1::2] == 2.5).all()


def test_refusals():
    @tilelang.jit
    def factory(n):
        return plain(n)

    with pytest.raises(CompileError, match="takes a compiled kernel or an eager one.*call the factory first"):
        tilelang.custom_op(fresh(), factory)
    with pytest.raises(CompileError, match="mutates_args names 'Q', but scaled_sum has the arguments A, B, "):
        tilelang.custom_op(fresh(), scaled_sum, mutates_args=("Q",))

    @tilelang.jit(target="cpu")
    def untyped(X, block):
        N = T.const("N")
        X: T.Tensor((N,), T.float32)
        with T.Kernel(1):
            X[0] = block

    with pytest.raises(CompileError, match="nothing says which type the argument 'block' of untyped has"):
        tilelang.custom_op(fresh(), untyped)
