"""Cross entropy of logits with an index to ignore, its gradient written over the logits."""

import tilelang
import tilelang.language as T
import torch


@tilelang.jit(pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: False})
def cross_entropy(
    logits,
    labels,
    block: int = 64,
    ignore_index: int = -100,
    with_grad: bool = False,
    reduction: str = "none",
):
    rows, classes = T.const("rows, classes")
    blocks = T.ceildiv(classes, block)
    logits: T.Tensor((rows, classes), T.float32)
    labels: T.Tensor((rows,), T.int64)
    loss = T.empty((rows,), T.float32)
    lse = T.empty((rows,), T.float32)
    with T.Kernel(rows, threads=64) as row:
        x = T.alloc_fragment((block,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        new_top = T.alloc_fragment((1,), T.float32)
        part = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        label = T.alloc_var(T.int32)
        label = labels[row].astype(T.int32)
        T.fill(top, -T.infinity(T.float32))
        T.fill(total, 0)
        for b in T.serial(blocks):
            for j in T.Parallel(block):
                x[j] = T.if_then_else(
                    b * block + j < classes, logits[row, b * block + j], -T.infinity(T.float32)
                )
            T.copy(top, new_top)
            T.reduce_max(x, new_top, dim=0, clear=False)
            for j in T.Parallel(block):
                x[j] = T.exp(x[j] - new_top[0])
            T.reduce_sum(x, part, dim=0)
            total[0] = total[0] * T.exp(top[0] - new_top[0]) + part[0]
            top[0] = new_top[0]
        lse[row] = top[0] + T.log(total[0])
        if label == ignore_index:
            loss[row] = 0
        else:
            loss[row] = lse[row] - logits[row, label]
        if with_grad:
            for b in T.serial(blocks):
                for j in T.Parallel(block):
                    c = b * block + j
                    if c < classes:
                        probability = T.exp(logits[row, c] - lse[row])
                        target = T.if_then_else(c == label, 1.0, 0.0)
                        logits[row, c] = T.if_then_else(label == ignore_index, 0.0, probability - target)
    return loss, lse


def main(rows=7, classes=150):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    logits = torch.randn(rows, classes, device=device) * 3
    labels = torch.randint(0, classes, (rows,), device=device)
    labels[2] = -100
    loss, lse = cross_entropy(logits, labels)
    ref = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(loss, ref, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(lse, logits.logsumexp(1), rtol=1e-4, atol=1e-4)

    leaf = logits.clone().requires_grad_()
    torch.nn.functional.cross_entropy(leaf, labels, reduction="sum").backward()
    cross_entropy(logits, labels, with_grad=True)
    torch.testing.assert_close(logits, leaf.grad, rtol=1e-4, atol=1e-5)
    print("All checks passed.")


if __name__ == "__main__":
    main()
