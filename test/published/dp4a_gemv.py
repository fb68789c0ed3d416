"""Integer products by dp4a and by float16 in halves of a warp, with types that PyTorch names."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def int8_gemv(N, K, rows=8, reduce_threads=16, in_dtype=torch.int8, accum_dtype=torch.int32):
    per_load = 16

    @T.prim_func
    def main(X: T.Tensor((K,), in_dtype), W: T.Tensor((N, K), in_dtype), Y: T.Tensor((N,), accum_dtype)):
        with T.Kernel(T.ceildiv(N, rows), threads=(reduce_threads, rows)) as bx:
            kr = T.get_thread_binding(0)
            ni = T.get_thread_binding(1)
            x_local = T.alloc_local([per_load], in_dtype)
            w_local = T.alloc_local([per_load], in_dtype)
            accum = T.alloc_local([1], accum_dtype)
            reduced = T.alloc_local([1], accum_dtype)
            T.clear(accum)
            for ko in T.serial(T.ceildiv(K, reduce_threads * per_load)):
                start = (ko * reduce_threads + kr) * per_load
                for v in T.vectorized(per_load):
                    x_local[v] = X[start + v]
                    w_local[v] = W[bx * rows + ni, start + v]
                for quad in T.serial(per_load // 4):
                    T.dp4a(x_local[quad * 4], w_local[quad * 4], accum[0])
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.Cast(accum_dtype, 0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(
                    T.tvm_thread_allreduce(T.uint32(1), accum[0], True, reduced[0], kr, dtype="handle")
                )
            if kr == 0:
                Y[bx * rows + ni] = reduced[0]

    return main


def main(N=32, K=512):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randint(-128, 128, (K,), dtype=torch.int8, device=device)
    w = torch.randint(-128, 128, (N, K), dtype=torch.int8, device=device)
    y = int8_gemv(N, K)(x, w)
    assert torch.equal(y.double(), w.double() @ x.double())
    print("All checks passed.")


if __name__ == "__main__":
    main()
