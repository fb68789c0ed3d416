"""Weights of float4 e2m1 become bfloat16 by bit operations on sixteen bits, with a scale per block."""

import tilelang
import tilelang.language as T
import torch


def fp4_to_bf16(value, pos, scale, dtype):
    """s eem -> s 0111111ee... : the exponent of bfloat16 is that of e2m1 plus 126."""
    assert dtype == T.bfloat16 and value.dtype == T.uint8
    mask = T.uint8(0xF)
    f4 = (value >> (pos.astype(T.uint8) * T.uint8(4))) & mask
    s = f4 >> T.uint8(3)
    e_f4 = (f4 & T.uint8(6)) >> T.uint8(1)
    m_f4 = f4 & T.uint8(1)
    e_bf16 = e_f4.astype(T.uint16) + T.uint16(126)
    normal = T.reinterpret(
        (s.astype(T.uint16) << T.uint16(15))
        | (e_bf16 << T.uint16(7))
        | (m_f4.astype(T.uint16) << T.uint16(6)),
        T.bfloat16,
    )
    sign = T.if_then_else(s == T.uint8(1), T.bfloat16(-1), T.bfloat16(1))
    small = T.if_then_else(m_f4 == T.uint8(1), T.bfloat16(0.5), T.bfloat16(0)) * sign
    return T.if_then_else(e_f4 == T.uint8(0), small, normal) * scale


@tilelang.jit
def dequantize(
    W, Scale, block_N: int = 16, block_K: int = 64, group: int = 32, out_dtype: T.dtype = T.bfloat16
):
    N, packed_K = T.const("N, packed_K")
    K = packed_K * 2
    Scale: T.Tensor[[N, K // group], out_dtype]
    W: T.Tensor[[N, packed_K], T.uint8]
    Out = T.empty([N, K], out_dtype)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(K, block_K), threads=128) as (bx, by):
        packed = T.alloc_shared([block_N, block_K // 2], T.uint8)
        local = T.alloc_fragment([block_N, block_K], out_dtype)
        T.copy(W[bx * block_N, by * block_K // 2], packed)
        for i, j in T.Parallel(block_N, block_K):
            local[i, j] = fp4_to_bf16(
                packed[i, j // 2], j % 2, Scale[bx * block_N + i, (by * block_K + j) // group], out_dtype
            )
        T.copy(local, Out[bx * block_N, by * block_K])
    return Out


TABLE = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def ref_program(w, scale, group=32):
    table = torch.tensor(TABLE + [-x for x in TABLE], device=w.device)
    nibbles = torch.stack([w & 0xF, w >> 4], dim=-1).reshape(w.shape[0], -1)
    return table[nibbles.long()].to(torch.bfloat16) * scale.repeat_interleave(group, dim=1)


def main(N=40, K=128):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    w = torch.randint(0, 256, (N, K // 2), dtype=torch.uint8, device=device)
    scale = torch.exp2(torch.randint(-3, 4, (N, K // 32), device=device).float()).to(torch.bfloat16)
    torch.testing.assert_close(dequantize(w, scale), ref_program(w, scale), rtol=0, atol=0)
    print("dequantize: ok")


if __name__ == "__main__":
    main()
