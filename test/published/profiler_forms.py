"""All the ways to measure and to check a kernel."""

import tilelang
import tilelang.language as T
import torch
from tilelang.profiler import Profiler, do_bench
from tilelang.utils.tensor import get_tensor_supply, torch_assert_close


@tilelang.jit(out_idx=-1)
def axpy(N, block=64, dtype=T.float32):
    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype), Z: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = 2 * X[bx * block + i] + Y[bx * block + i]

    return main


def ref_program(x, y):
    return 2 * x + y


def main(N=300):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = axpy(N)
    assert isinstance(kernel, tilelang.JITKernel) and kernel.out_idx == [2]
    for supply in (
        tilelang.TensorSupplyType.Auto,
        tilelang.TensorSupplyType.Integer,
        tilelang.TensorSupplyType.One,
        tilelang.TensorSupplyType.Zero,
        tilelang.TensorSupplyType.Uniform,
    ):
        profiler = kernel.get_profiler(tensor_supply_type=supply)
        assert isinstance(profiler, Profiler) and profiler.supply_type == supply
        profiler.assert_allclose(ref_program, rtol=1e-4, atol=1e-4, max_mismatched_ratio=0.0)
    profiler = kernel.get_profiler(tilelang.TensorSupplyType.Randn)
    profiler.assert_consistent(repeat=3)
    profiler.manual_assert_close(
        ref_program,
        manual_check_prog=lambda found, wanted: torch_assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-4),
    )
    profiler.run_once()
    kernel.run_once()

    x, y = torch.randn(N, device=device), torch.randn(N, device=device)
    torch.testing.assert_close(profiler(x, y), ref_program(x, y))
    torch.testing.assert_close(profiler.func(x, y), ref_program(x, y))
    supplied = [get_tensor_supply(tilelang.TensorSupplyType.Normal)(param) for param in kernel.params[:2]]
    torch.testing.assert_close(kernel(*supplied), ref_program(*supplied))

    latencies = [
        profiler.do_bench(warmup=1, rep=2),
        profiler.do_bench(ref_program, warmup=1, rep=2),
        profiler.do_bench(n_warmup=1, n_repeat=3, input_tensors=[x, y], return_mode="median"),
        profiler.do_bench(warmup=1, rep=2, backend="cupti"),
        do_bench(lambda: kernel(x, y), warmup=1, rep=2),
        do_bench(lambda: kernel(x, y), _n_warmup=1, _n_repeat=3, return_mode="min", backend="wall"),
        do_bench(lambda: kernel(x, y), warmup=1, rep=2, backend="event", fast_flush=False),
        *do_bench(lambda: kernel(x, y), warmup=1, rep=2, quantiles=[0.1, 0.5, 0.9]),
    ]
    assert all(isinstance(latency, float) and latency > 0 for latency in latencies)
    try:
        profiler.assert_allclose(lambda x, y: x + y, rtol=1e-3, atol=1e-3)
    except AssertionError as error:
        print(f"noticed: {str(error).splitlines()[0]}")
    else:
        raise RuntimeError("x + y is not 2 * x + y")
    print("All checks passed.")


if __name__ == "__main__":
    main()
