"""Two GPUs of one process: one kernel with tensor maps on both, from threads with streams of their own."""

import threading

import pytest
import tilelang

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
if torch.cuda.device_count() < 2:
    pytest.skip("needs two GPUs", allow_module_level=True)
if any(torch.cuda.get_device_capability(i) != (9, 0) for i in (0, 1)):
    pytest.skip("no two GPUs of sm_90a", allow_module_level=True)

M, N, K = 256, 512, 192


def compiled(k):
    """TMA loads of A and B, and a TMA store of C, in the products of warpgroups."""
    import gemm_warpgroups

    program = gemm_warpgroups.gemm.get_tir(M, N, k, True, blocks=3)
    return tilelang.compile(program, target="cuda -arch=sm_90a")


def operands(device, k=K, seed=0):
    made = torch.Generator(device="cpu").manual_seed(seed)
    a, b = (torch.randn(rows, k, generator=made).half().to(device) for rows in (M, N))
    return a, b, torch.full((M, N), torch.nan, device=device, dtype=torch.float16)


def error(a, b, c):
    exact = a.double() @ b.double().T
    return float((c.double() - exact).norm() / exact.norm())


def in_threads(work):
    """Calls work(0) and work(1) at once; what they raised is raised here."""
    raised = []

    def guarded(i):
        try:
            work(i)
        except BaseException as problem:
            raised.append(problem)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_in_turn():
    kernel, results = compiled(K), []
    for i in (0, 1, 0, 1):
        a, b, c = operands(f"cuda:{i}")
        kernel(a, b, c)
        assert torch.cuda.current_device() == 0 and c.device.index == i
        assert error(a, b, c) < 5e-4
        results.append(c.cpu())
    assert all(torch.equal(results[0], other) for other in results)


def test_a_thread_and_a_stream_for_each():
    """New operands in each round, so that every launch makes tensor maps of addresses of its own."""
    kernel, errors = compiled(K), [[], []]

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream(device=i)):
            for seed in range(50):
                a, b, c = operands(f"cuda:{i}", seed=seed)
                for _ in range(4):
                    kernel(a, b, c)
                errors[i].append(error(a, b, c))

    in_threads(work)
    assert all(len(of_gpu) == 50 and max(of_gpu) < 5e-4 for of_gpu in errors)


def test_the_first_call_comes_from_both_at_once():
    """The kernel's module is loaded on two GPUs by two threads."""
    for k in range(64, 64 + 8 * 6, 8):
        kernel, both, errors = compiled(k), threading.Barrier(2), [1.0, 1.0]

        def work(i, k=k, kernel=kernel, both=both, errors=errors):
            with torch.cuda.stream(torch.cuda.Stream(device=i)):
                a, b, c = operands(f"cuda:{i}", k, seed=k)
                both.wait()
                kernel(a, b, c)
                errors[i] = error(a, b, c)

        in_threads(work)
        assert max(errors) < 5e-4, k


def test_threads_that_change_places():
    """Each thread launches on both GPUs, always on the other one than its neighbour began with."""
    kernel, errors = compiled(K), [[], []]

    def work(i):
        streams = [torch.cuda.Stream(device=gpu) for gpu in (0, 1)]
        for seed in range(50):
            gpu = (i + seed) % 2
            with torch.cuda.stream(streams[gpu]):
                a, b, c = operands(f"cuda:{gpu}", seed=seed)
                kernel(a, b, c)
                errors[i].append(error(a, b, c))

    in_threads(work)
    assert all(len(of_thread) == 50 and max(of_thread) < 5e-4 for of_thread in errors)


def test_graphs_of_two_gpus():
    kernel, graphs = compiled(K), []
    for i in (0, 1):
        a, b, c = operands(f"cuda:{i}", seed=i)
        with torch.cuda.device(i):
            kernel(a, b, c)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device=i)):
                kernel(a, b, c)
        graphs.append((graph, a, b, c))
    for _, a, _, c in graphs:
        a.mul_(2)
        c.fill_(torch.nan)
    for i, (graph, *_) in enumerate(graphs):
        with torch.cuda.device(i):
            graph.replay()
    for i, (_, a, b, c) in enumerate(graphs):
        torch.cuda.synchronize(i)
        assert error(a, b, c) < 5e-4
