"""Rotary embedding of queries and keys in place, at positions of a cache of angles."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def rope_inplace(X, Cos, Sin, Positions, block: int = 8, interleaved: bool = False):
    tokens, heads, dim = T.const("tokens, heads, dim")
    positions = T.const("positions")
    half = dim // 2
    Cos: T.Tensor([positions, half], T.float32)
    Sin: T.Tensor([positions, half], T.float32)
    X: T.Tensor([tokens, heads, dim], T.float16)
    Positions: T.Tensor([tokens], T.int32)
    with T.Kernel(T.ceildiv(tokens, block), heads, threads=128) as (bx, h):
        out = T.alloc_fragment((block, dim), T.float32)
        x = T.alloc_shared((block, dim), T.float16)
        T.copy(X[bx * block : (bx + 1) * block, h, :], x)
        for i, d in T.Parallel(block, dim):
            position = Positions[T.min(bx * block + i, tokens - 1)]
            if interleaved:
                angle = d // 2
                other = T.if_then_else(d % 2 == 0, -x[i, d + 1 - 2 * (d % 2)], x[i, d - 1 + 2 * (1 - d % 2)])
            else:
                angle = d % half
                other = T.if_then_else(d < half, -x[i, (d + half) % dim], x[i, (d + half) % dim])
            cos, sin = Cos[position, angle], Sin[position, angle]
            out[i, d] = x[i, d].astype(T.float32) * cos + other.astype(T.float32) * sin
        T.copy(out, X[bx * block : (bx + 1) * block, h, :])


def ref_program(x, cos, sin, positions, interleaved):
    cos, sin = cos[positions][:, None], sin[positions][:, None]
    x = x.float()
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def main(tokens=20, heads=3, dim=32, length=100):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
    cos, sin = angles.cos().to(device), angles.sin().to(device)
    positions = torch.randint(0, length, (tokens,), device=device, dtype=torch.int32)
    for interleaved in (False, True):
        x = torch.randn(tokens, heads, dim, device=device, dtype=torch.float16)
        ref = ref_program(x, cos, sin, positions.long(), interleaved)
        rope_inplace(x, cos, sin, positions, interleaved=interleaved)
        torch.testing.assert_close(x.float(), ref, rtol=1e-2, atol=1e-2)
    print("All checks passed.")


if __name__ == "__main__":
    main()
