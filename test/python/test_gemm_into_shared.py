"""T.gemm with its sums elsewhere than in a fragment: on GPUs the message says what to write instead."""

import pytest
import tilelang
import tilelang.language as T
from tilelang import CompileError


def product(scope, part):
    @T.prim_func
    def main(
        A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 48), "float16"), C: T.Tensor((64, 48), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 48), "float16")
            sums = scope((2, 64, 48) if part else (64, 48), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, sums[1, :, :] if part else sums, clear_accum=True)
            T.copy(sums[1, :, :] if part else sums, C)

    return main


@pytest.mark.parametrize("scope", [T.alloc_shared, T.alloc_local])
@pytest.mark.parametrize("part, text", [(False, "sums"), (True, "sums[1, 0:64, 0:48]")])
def test_the_message_says_what_to_write(scope, part, text):
    with pytest.raises(CompileError) as error:
        tilelang.compile(product(scope, part), target="sim:sm_80")
    message = str(error.value)
    assert 'sums_local = T.alloc_fragment((64, 48), "float32")' in message
    assert f"T.clear(sums_local) or T.copy({text}, sums_local)" in message
    assert f"T.copy(sums_local, {text})" in message
    assert "T.gemm(a, b, sums" in message.splitlines()[1]  # the user's own line
