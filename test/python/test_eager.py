"""The eager dialect: annotations meet their tensors, calls find their kernels, outputs are returned."""

import threading

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from helpers import close, random


def make_matmul(target):
    @tilelang.jit(target=target)
    def matmul(A, B, block_M: int = 32, block_N: int = 32, block_K: int = 16, dtype: T.dtype = T.float32):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], dtype]
        B: T.Tensor((K, N), dtype)
        C = T.empty((M, N), dtype)
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])
        return C

    return matmul


@pytest.mark.parametrize("shape", [(33, 70, 45), (64, 32, 16), (1, 1, 1)])
def test_matmul(target, shape):
    m, n, k = shape
    a, b = random(m, k, dtype="float16"), random(k, n, dtype="float16", seed=1)
    close(make_matmul(target)(a, b, dtype=T.float16), a.astype(float) @ b.astype(float), 1e-3)


def test_each_shape_is_compiled_once():
    matmul = make_matmul("reference")
    a, b = random(16, 16), random(16, 16)
    first = matmul.compile(a, b)
    assert matmul.compile(a, b) is first
    assert matmul.compile(random(16, 16), B=b, block_M=32) is first  # the default, said
    assert matmul.compile(random(16, 16), b, block_M=16) is not first
    assert matmul.compile(random(17, 16), b) is not first
    close(matmul(a, b), a @ b)


def test_known_calls_go_straight_to_their_kernels():
    matmul = make_matmul("reference")
    a, b = random(16, 16), random(16, 16)
    form = (a, b, 32, 32, 16, T.float32)
    assert matmul.find(form) is None
    matmul(a, b)
    assert matmul.find(form) is matmul.compile(a, b)
    assert matmul.find((a, b, 32, 32, 16, T.float16)) is None
    assert matmul.find((random(16, 17), b, 32, 32, 16, T.float32)) is None
    assert isinstance(matmul, tilelang.JITImpl) and matmul.is_eager
    assert matmul.__doc__ is None and matmul.__name__ == "matmul" and "matmul(A, B" in repr(matmul)


def test_autotune():
    @tilelang.autotune(configs=[{"block": 8}, {"block": 16}], warmup=0, rep=1)
    @tilelang.jit(target="cpu")
    def double(A, block: int = 4):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2
        return B

    a = random(33)
    close(double(a), a * 2)
    close(double(a, block=3), a * 2)
    assert double.compile(a).config["block"] in (8, 16)


def test_compile_by_name():
    matmul = make_matmul("reference")
    kernel = matmul.compile(M=20, N=24, K=16, block_K=8)
    assert matmul.compile(M=20, N=24, K=16, block_K=8) is kernel
    assert [p.shape for p in kernel.params] == [(20, 16), (16, 24), (20, 24)]
    a, b = random(20, 16), random(16, 24)
    close(kernel(a, b), a @ b)
    assert matmul.get_tir(M=20, N=24, K=16).name == "matmul"
    assert matmul.get_kernel_source(M=20, N=24, K=16) == matmul.compile(M=20, N=24, K=16).get_kernel_source()
    kernels = matmul.par_compile([{"M": 8, "N": 8, "K": 8}, {"M": 9, "N": 8, "K": 8}, (a, b)], num_workers=2)
    assert [k.params[0].shape for k in kernels] == [(8, 8), (9, 8), (20, 16)]
    with pytest.raises(TypeError, match="'Q', which is neither a parameter nor a T.const name"):
        matmul.compile(M=1, N=1, K=1, Q=1)
    with pytest.raises(tilelang.CompileError, match="K has no value: no tensor was given for A"):
        matmul.compile(M=1, N=1)
    with pytest.raises(
        tilelang.CompileError, match="M cannot be both: it is 8 by the keyword M, but 20 by extent 0 of A"
    ):
        matmul.compile(a, b, M=8)


def test_cuda_text_for_several_chips():
    for chip in ("sm_80", "sm_90"):
        matmul = make_matmul(f"cuda -arch={chip}")
        assert "mma" in matmul.get_kernel_source(M=64, N=64, K=64, dtype="float16")


def test_one_kernel_from_many_threads():
    matmul, kernels = make_matmul("cpu"), []
    a, b = random(40, 40), random(40, 40)
    threads = [threading.Thread(target=lambda: kernels.append(matmul.compile(a, b))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(k) for k in kernels}) == 1


# ── what is returned ──────────────────────────────────────────────────────────────────────────────────


@tilelang.jit(target="reference")
def moments(A, eps: float = 0.0):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    scratch = T.empty((M, N), T.float32)
    variance = T.empty(M, dtype=T.float32)
    mean = T.empty([M], "float32")
    with T.Kernel(M, threads=32) as row:
        x = T.alloc_fragment((1, N), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(A[row, 0], x)
        T.reduce_sum(x, total, dim=1)
        mean[row] = total[0] / N
        for i in T.Parallel(N):
            scratch[row, i] = (x[0, i] - total[0] / N) * (x[0, i] - total[0] / N)
    with T.Kernel(M, threads=32) as row:
        x = T.alloc_fragment((1, N), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(scratch[row, 0], x)
        T.reduce_sum(x, total, dim=1)
        variance[row] = total[0] / N + eps
    return mean, variance


def test_several_outputs_and_scratch_memory():
    a = random(5, 33)
    result = moments(a)
    assert isinstance(result, tuple) and len(result) == 2
    close(result[0], a.mean(1, dtype=float), 1e-5)
    close(result[1], a.var(1, dtype=float), 1e-5)
    close(moments(a, eps=2.0)[1], a.var(1, dtype=float) + 2, 1e-5)
    kernel = moments.compile(a)
    close(kernel(a)[1], a.var(1, dtype=float), 1e-5)


def test_an_output_between_two_kernels():
    @tilelang.jit(target="cpu")
    def twice(A):
        n = T.const("n")
        A: T.Tensor((n,), T.float32)
        half = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                half[i] = A[i] + 1.0
        full = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                full[i] = half[i] * 2.0
        return full

    a = random(19)
    close(twice(a), (a + 1) * 2)


def test_parameters_may_be_returned_and_written():
    @tilelang.jit(target="cpu")
    def bump(A: T.Tensor, by: int):
        total = T.empty((1,), A.dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(A.shape[0]):
                A[i] = A[i] + by
            total[0] = A[0]
        return [A, total]

    a = np.arange(6, dtype=np.int32)
    back, total = bump(a, 3)
    assert back is a and list(a) == [3, 4, 5, 6, 7, 8]

    @tilelang.jit(target="cpu")
    def fill(A: T.Tensor((4,), T.float32), value):
        with T.Kernel(1, threads=32):
            T.fill(A, value)

    z = np.full(4, np.nan, np.float32)
    assert fill(z, 2.5) is None and list(z) == [2.5] * 4


def test_declared_in_another_order_than_passed():
    @tilelang.jit(target="cpu")
    def scale(A, B, s: T.float32 = 2.0):
        n = T.const("n")
        B: T.Tensor((n,), T.float32)
        A: T.Tensor((n,), T.float32)
        C = T.empty(n, dtype=T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[i] = A[i] - B[i] * s
        return C

    a, b = random(9), random(9, seed=1)
    close(scale(a, b), a - 2 * b)
    close(scale(a, b, 3.5), a - 3.5 * b)
    assert sum(scale.counts()) == 1  # a number of each call, not of the kernel
    close(scale.compile(a, b)(a, B=b, s=0.5), a - 0.5 * b)


def test_a_lazy_kernel_may_return_too():
    @T.prim_func
    def negate(A: T.Tensor((8,), "float32")):
        B = T.empty((8,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = -A[i]
        return B

    a = random(8)
    close(tilelang.compile(negate, target="cpu")(a), -a)
    with pytest.raises(tilelang.CompileError, match="leave out_idx out"):
        tilelang.compile(negate, out_idx=-1)


def test_torch():
    torch = pytest.importorskip("torch")
    matmul = make_matmul(None)  # "auto": where the tensors are
    a, b = torch.randn(40, 24), torch.randn(24, 56)
    c = matmul(a, b)
    assert isinstance(c, torch.Tensor) and c.device == a.device and c.dtype == torch.float32
    assert matmul.compile(a, b).target.startswith("cpu")
    close(c.numpy(), (a.double() @ b.double()).numpy())
    c = matmul(a.half(), b.half(), dtype=torch.float16)
    close(c.float().numpy(), (a.double() @ b.double()).numpy(), 2e-3)


# ── strides, dynamic extents ──────────────────────────────────────────────────────────────────────────


def test_strides_bind():
    @tilelang.jit(target="cpu")
    def take(A):
        m, n, s = T.const("m, n, s")
        A: T.StridedTensor((m, n), (s, 1), T.float32)
        C = T.empty((m, n), T.float32)
        with T.Kernel(m, threads=32) as row:
            for i in T.Parallel(n):
                C[row, i] = A[row, i] * s
        return C

    a = random(6, 10)
    close(take(a[:, :7]), a[:, :7] * 10)
    close(take(a[::2, :7]), a[::2, :7] * 20)
    assert take.counts() == [2]
    close(take.compile(m=2, n=3, s=5)(random(2, 5)[:, :3]), random(2, 5)[:, :3] * 5)


def test_dynamic_extents_are_not_part_of_the_key():
    @tilelang.jit(target="cpu")
    def double(A, block: int = 16):
        M, N = T.dynamic("M, N")
        A: T.Tensor((M, N), T.float32)
        C = T.empty((M, N), T.float32)
        with T.Kernel(T.ceildiv(N, block), M, threads=32) as (bx, row):
            for i in T.Parallel(block):
                if bx * block + i < N:
                    C[row, bx * block + i] = A[row, bx * block + i] * 2.0
        return C

    for shape in [(3, 5), (1, 1), (7, 33)]:
        a = random(*shape)
        close(double(a), a * 2)
    assert sum(double.counts()) == 1


def test_a_branch_on_a_constant_reads_other_extents():
    @tilelang.jit(target="cpu")
    def first(A, B):
        n = T.const("n")
        A: T.Tensor((n,), T.float32)
        if n > 4:
            m = T.const("m")
            B: T.Tensor((m,), T.float32)
        else:
            m = 1
            B: T.Tensor((T.dynamic("k"),), T.float32)
        C = T.empty((n,), T.float32)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[i] = A[i] + B[0] * m
        return C

    for n, m in [(3, 5), (3, 6), (6, 5), (6, 7), (6, 5)]:
        a, b = random(n), random(m, seed=2)
        close(first(a, b), a + b[0] * (m if n > 4 else 1))
    assert sorted(first.counts()) == [1, 2]
