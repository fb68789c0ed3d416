"""Launching on a GPU: streams, graphs, several threads, several GPUs, CuPy and JAX."""

import gc
import threading

import pytest
import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


def scaled(n=1024, rounds=1):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), s: T.float32):
        with T.Kernel(n // 128, threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * s
            for _ in T.serial(rounds - 1):
                for i in T.Parallel(128):
                    B[bx * 128 + i] = B[bx * 128 + i] * 1.0

    return main


def test_current_stream_is_used():
    kernel = tilelang.compile(scaled(1 << 20, rounds=200), target="cuda")
    x, y = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    kernel(x, y, 2.0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s in (3.0, 4.0, 5.0):
            kernel(x, y, s)
        done = y.clone()
    stream.synchronize()
    assert (done == 5).all()


def test_outputs_come_from_torch():
    kernel = tilelang.compile(scaled(), out_idx=1, target="cuda")
    x = torch.arange(1024.0, device="cuda")
    before = torch.cuda.memory_allocated()
    y = kernel(x, 2.0)
    assert torch.cuda.memory_allocated() == before + 4096
    assert y.device == x.device and (y == x * 2).all()


def test_a_graph_outlives_its_kernel():
    x, y = torch.ones(8192, device="cuda"), torch.zeros(8192, device="cuda")
    kernel = tilelang.compile(scaled(8192), target="cuda")
    kernel(x, y, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, 3.0)
    del kernel
    gc.collect()
    others = [tilelang.compile(scaled(128 * n), target="cuda") for n in range(11, 21)]
    for other in others:
        other(x[: other.params[0].shape[0]], y[: other.params[0].shape[0]], 7.0)
    graph.replay()
    torch.cuda.synchronize()
    assert (y == 3).all()


@pytest.mark.parametrize("warm", [True, False])
def test_graph_capture(warm):
    """Also of a kernel that never ran: its module is loaded while the stream is captured."""
    kernel = tilelang.compile(scaled(2048 if warm else 4096), target="cuda")
    n = kernel.params[0].shape[0]
    x, y = torch.ones(n, device="cuda"), torch.zeros(n, device="cuda")
    if warm:
        kernel(x, y, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, y, 3.0)
    y.zero_()
    graph.replay()
    assert (y == 3).all()
    x.fill_(2)
    graph.replay()
    assert (y == 6).all()


def test_graph_capture_with_outputs():
    kernel = tilelang.compile(scaled(), out_idx=1, target="cuda")
    x = torch.ones(1024, device="cuda")
    kernel(x, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = kernel(kernel(x, 2.0), 3.0)
    x.fill_(5)
    graph.replay()
    assert (z == 30).all()


def test_threads_with_streams_of_their_own():
    kernel = tilelang.compile(scaled(1 << 14), out_idx=1, target="cuda")
    wrong = []

    def work(seed):
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.full((1 << 14,), float(seed), device="cuda")
            for i in range(200):
                if i % 50 == 0 and not (kernel(x, float(i)) == seed * i).all():
                    wrong.append((seed, i))
                kernel(x, 1.0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.skipif(torch.cuda.get_device_capability() != (9, 0), reason="tensor maps are Hopper's")
def test_tensor_maps_in_a_thread_without_a_context():
    """The driver encodes tensor maps in the thread's context, and this thread has none."""

    @T.prim_func
    def main(A: T.Tensor((256, 128), "float16"), B: T.Tensor((256, 128), "float16")):
        with T.Kernel(4, threads=128) as i:
            tile = T.alloc_shared((64, 128), "float16")
            arrived = T.alloc_barrier(128)
            T.tma_copy(A[i * 64, 0], tile, barrier=arrived)
            T.barrier_arrive(arrived)
            T.barrier_wait(arrived, 0)
            T.copy(tile, B[i * 64, 0])

    kernel = tilelang.compile(main, target="cuda")
    x = torch.randn((256, 128), device="cuda").half()
    y, wrong = torch.zeros_like(x), []

    def work():
        try:
            kernel(x, y)
        except Exception as problem:
            wrong.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert not wrong and (x == y).all()


def test_a_tensor_of_the_cpu_is_refused():
    kernel = tilelang.compile(scaled(), target="cuda")
    with pytest.raises(TypeError, match="argument 0 'A' is on the CPU but the function was compiled"):
        kernel(torch.ones(1024), torch.ones(1024, device="cuda"), 1.0)
    kernel = tilelang.compile(scaled(), target="cpu")
    with pytest.raises(TypeError, match="argument 1 'B' is on cuda:0 but the function was compiled"):
        kernel(torch.ones(1024), torch.ones(1024, device="cuda"), 1.0)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_the_gpu_is_that_of_the_tensors():
    kernel = tilelang.compile(scaled(), out_idx=1, target="cuda")
    for i in (0, 1, 0):
        x = torch.ones(1024, device=f"cuda:{i}")
        y = kernel(x, 2.0)
        assert y.device == x.device and (y == 2).all() and torch.cuda.current_device() == 0
    with pytest.raises(TypeError, match="all must be on one GPU"):
        kernel.launch([torch.ones(1024, device="cuda:0"), torch.ones(1024, device="cuda:1"), 1.0])


def test_cupy():
    cupy = pytest.importorskip("cupy")
    kernel = tilelang.compile(scaled(), out_idx=1, target="cuda")
    x = cupy.arange(1024, dtype=cupy.float32)
    for _ in range(2):
        y = kernel(x, 2.0)
        assert isinstance(y, cupy.ndarray) and (y == x * 2).all()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        y = kernel(x, 3.0)
        stream.synchronize()
        assert (y == x * 3).all()


def test_jax():
    jax = pytest.importorskip("jax")
    if not any(d.platform == "gpu" for d in jax.devices()):
        pytest.skip("this JAX has no GPU")
    kernel = tilelang.compile(scaled(), out_idx=1, target="cuda")
    x = jax.numpy.arange(1024, dtype=jax.numpy.float32)
    for s in (2.0, 3.0):
        y = kernel(x * 1.0, s)
        assert isinstance(y, jax.Array) and bool((y == x * s).all())
    with pytest.raises(TypeError, match="read-only"):
        kernel.launch([x, x + 0.0, 1.0])


def test_machine_code_can_be_read(tmp_path):
    kernel = tilelang.compile(scaled(), target="cuda")
    kernel.export_ptx(tmp_path / "k.ptx")
    assert ".entry" in (tmp_path / "k.ptx").read_text()
    try:
        kernel.export_sass(tmp_path / "k.sass")
    except RuntimeError as error:
        assert "CUDA toolkit" in str(error)
    else:
        assert "EXIT" in (tmp_path / "k.sass").read_text()
    assert kernel.n_regs > 0 and kernel.n_spills == 0
