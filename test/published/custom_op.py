"""A kernel as an operator of PyTorch: with a fake kernel, a backward, and inside of torch.compile."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def swiglu_fwd(N, block=64, dtype="float32"):
    M = T.dynamic("M")

    @T.prim_func
    def main(Gate: T.Tensor((M, N), dtype), Up: T.Tensor((M, N), dtype), Out: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, by):
            for j in T.Parallel(block):
                gate = Gate[by, bx * block + j]
                Out[by, bx * block + j] = gate * T.sigmoid(gate) * Up[by, bx * block + j]

    return main


@tilelang.jit(out_idx=[-2, -1])
def swiglu_bwd(N, block=64, dtype="float32"):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        Grad: T.Tensor((M, N), dtype),
        Gate: T.Tensor((M, N), dtype),
        Up: T.Tensor((M, N), dtype),
        dGate: T.Tensor((M, N), dtype),
        dUp: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block), M, threads=64) as (bx, by):
            for j in T.Parallel(block):
                gate, grad = Gate[by, bx * block + j], Grad[by, bx * block + j]
                s = T.sigmoid(gate)
                dUp[by, bx * block + j] = grad * gate * s
                dGate[by, bx * block + j] = grad * Up[by, bx * block + j] * s * (1.0 + gate * (1.0 - s))

    return main


@torch.library.custom_op("published_style::swiglu", mutates_args=())
def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return swiglu_fwd(gate.shape[1])(gate, up)


@swiglu.register_fake
def _(gate, up):
    return torch.empty_like(gate)


@torch.library.custom_op("published_style::swiglu_backward", mutates_args=())
def swiglu_backward(
    grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    d_gate, d_up = swiglu_bwd(gate.shape[1])(grad, gate, up)
    return d_gate, d_up


@swiglu_backward.register_fake
def _(grad, gate, up):
    return torch.empty_like(gate), torch.empty_like(up)


def backward(ctx, grad):
    return swiglu_backward(grad.contiguous(), *ctx.saved_tensors)


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


swiglu.register_autograd(backward, setup_context=setup_context)


def ref_program(gate, up):
    return torch.nn.functional.silu(gate) * up


def block(x, w, up):
    return swiglu(x @ w, up).sum(dim=1) * 2.0


def main(M=6, N=100):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gate, up = (torch.randn(M, N, device=device, requires_grad=True) for _ in range(2))
    out = swiglu(gate, up)
    torch.testing.assert_close(out, ref_program(gate, up))
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, (gate, up), grad)
    wanted = torch.autograd.grad(ref_program(gate, up), (gate, up), grad)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.library.opcheck(
        swiglu, (gate, up), test_utils=("test_schema", "test_faketensor", "test_autograd_registration")
    )

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager")
    x, w = torch.randn(M, 8, device=device), torch.randn(8, N, device=device, requires_grad=True)
    torch.testing.assert_close(
        compiled(x, w, up), ref_program(x @ w, up).sum(dim=1) * 2.0, rtol=1e-4, atol=1e-4
    )
    compiled(x, w, up).sum().backward()
    (wanted,) = torch.autograd.grad(ref_program(x @ w, up).sum() * 2.0, (w,))
    torch.testing.assert_close(w.grad, wanted, rtol=1e-4, atol=1e-4)
    print("All checks passed.")


if __name__ == "__main__":
    main()
