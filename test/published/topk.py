"""The k largest of each row with their places, as a router of experts needs them."""

import argparse

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1, 2])
def tl_topk(M, N, topk, blk_m, threads=128):
    dtype = T.float32

    @T.prim_func
    def topk_kernel(
        logits: T.Tensor([M, N], dtype),
        topk_gates: T.Tensor([M, topk], dtype),
        topk_indices: T.Tensor([M, topk], T.int32),
    ):
        with T.Kernel(T.ceildiv(M, blk_m), threads=threads) as bx:
            logits_frag = T.alloc_fragment([blk_m, N], dtype=dtype)
            max_val = T.alloc_fragment([blk_m], dtype=dtype)
            expand_max_idx = T.alloc_fragment([blk_m, N], T.int32)
            max_idx = T.alloc_fragment([blk_m], T.int32)

            T.copy(logits[bx * blk_m, 0], logits_frag)
            for k in T.serial(topk):
                T.fill(expand_max_idx, -1)
                T.reduce_max(logits_frag, max_val, dim=1, clear=True)
                for i, j in T.Parallel(blk_m, N):
                    expand_max_idx[i, j] = T.if_then_else(
                        max_val[i] == logits_frag[i, j], j, expand_max_idx[i, j]
                    )
                T.reduce_max(expand_max_idx, max_idx, dim=1, clear=True)
                for i, j in T.Parallel(blk_m, N):
                    logits_frag[i, j] = T.if_then_else(j == max_idx[i], -10000.0, logits_frag[i, j])
                for i in T.Parallel(blk_m):
                    topk_gates[bx * blk_m + i, k] = max_val[i]
                    topk_indices[bx * blk_m + i, k] = max_idx[i]

    return topk_kernel


@tilelang.jit
def route(logits, k: int = 2, block: int = 4):
    """Weights of the chosen experts, and how many tokens each expert gets."""
    tokens, experts = T.const("tokens experts")
    logits: T.Tensor[(tokens, experts), T.float32]
    weights = T.empty((tokens, k), T.float32)
    chosen = T.empty((tokens, k), T.int32)
    with T.Kernel(T.ceildiv(tokens, block), threads=64) as bx:
        scores = T.alloc_fragment((block, experts), T.float32)
        best = T.alloc_fragment((block,), T.float32)
        place = T.alloc_fragment((block,), T.int32)
        places = T.alloc_fragment((block, experts), T.int32)
        total = T.alloc_fragment((block,), T.float32)
        T.copy(logits[bx * block, 0], scores)
        for i, j in T.Parallel(block, experts):
            scores[i, j] = T.sigmoid(scores[i, j])
        T.clear(total)
        for n in T.unroll(k):
            T.reduce_max(scores, best, dim=-1)
            for i, j in T.Parallel(block, experts):
                places[i, j] = T.Select(scores[i, j] == best[i], j, experts)
            T.reduce_min(places, place, dim=-1)
            for i in T.Parallel(block):
                total[i] += best[i]
                weights[bx * block + i, n] = best[i]
                chosen[bx * block + i, n] = place[i]
            for i, j in T.Parallel(block, experts):
                scores[i, j] = T.Select(j == place[i], -1.0, scores[i, j])
        for i, n in T.Parallel(block, k):
            weights[bx * block + i, n] = weights[bx * block + i, n] / total[i]
    return weights, chosen


def ref_program(logits, top_k):
    top_k_gates, top_k_indices = logits.topk(top_k, dim=1)
    return top_k_gates, top_k_indices.to(torch.int32)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--M", type=int, default=20, help="num_tokens")
    parser.add_argument("--N", type=int, default=32, help="num_experts")
    parser.add_argument("--topk", type=int, default=6, help="topk")
    parser.add_argument("--blk_m", type=int, default=8, help="blk_m")
    args = parser.parse_args(argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits = torch.rand((args.M, args.N), device=device, dtype=torch.float32)
    kernel = tl_topk(M=args.M, N=args.N, topk=args.topk, blk_m=args.blk_m)
    gates, indices = kernel(logits)
    gates_ref, indices_ref = ref_program(logits, args.topk)
    torch.testing.assert_close(gates, gates_ref)
    assert torch.equal(indices, indices_ref)

    weights, chosen = route(logits)
    sigmoid = logits.sigmoid()
    gates_ref, indices_ref = ref_program(sigmoid, 2)
    assert torch.equal(chosen, indices_ref)
    torch.testing.assert_close(weights, gates_ref / gates_ref.sum(1, keepdim=True), rtol=1e-5, atol=1e-5)
    print("All checks passed.")


if __name__ == "__main__":
    main()
