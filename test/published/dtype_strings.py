"""Types as strings: kernels named, cast and checked by what a dtype is called."""

import copy
import json
import pickle
import re

import tilelang
import tilelang.language as T
import torch
from tvm import DataType


@tilelang.jit(out_idx=[-1])
def cast_kernel(N, in_dtype, out_dtype, block=64):
    @T.prim_func
    def main(X: T.Tensor((N,), in_dtype), Y: T.Tensor((N,), out_dtype)):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i].astype(out_dtype)

    return main


def tolerance(dtype):
    if dtype.startswith("float8"):
        return 0.125
    return {"16": 1e-2, "32": 1e-6}[dtype[-2:]]


def make_input(dtype, n, device):
    torch_dtype = getattr(torch, dtype)
    if "float8" in dtype:
        return torch.randn(n, device=device).to(torch_dtype)
    if "int" in dtype:
        return torch.randint(-100, 100, (n,), device=device, dtype=torch_dtype)
    return torch.randn(n, device=device, dtype=torch_dtype)


def describe(dtype):
    kind, bits = re.match(r"([a-z]+)(\d+)", dtype).groups()
    assert int(bits) == dtype.bits == DataType(dtype).bits
    return {"dtype": dtype, "kind": kind, "name": "kernel_" + dtype, "bytes": dtype.bytes}


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 200
    for in_dtype in (T.float16, T.bfloat16, T.float32, T.int8, T.int32, T.float8_e4m3fn):
        x = make_input(in_dtype, n, device)
        assert x.dtype == in_dtype.as_torch()
        for out_dtype in [T.float16, T.float32, T.float8_e5m2]:
            if in_dtype == out_dtype:
                continue
            y = cast_kernel(n, in_dtype, out_dtype)(x)
            assert y.dtype == getattr(torch, out_dtype)
            ref = x.float().to(getattr(torch, out_dtype))
            torch.testing.assert_close(y.float(), ref.float(), rtol=tolerance(out_dtype), atol=1e-2)

    described = [describe(dtype) for dtype in (T.float16, T.int8, T.uint32)]
    assert json.loads(json.dumps(described))[0] == {
        "dtype": "float16",
        "kind": "float",
        "name": "kernel_float16",
        "bytes": 2,
    }
    assert isinstance(T.float16, str) and isinstance(T.float16, T.dtype)
    for dtype in (T.float16, T.bfloat16, T.uint8):
        assert pickle.loads(pickle.dumps(dtype)) == dtype == copy.deepcopy(dtype)
        assert {dtype: 1}[str(dtype)] == 1 and f"{dtype}_kernel" == str(dtype) + "_kernel"
        assert dtype.upper() == str(dtype).upper() and dtype.replace("t", "T").count("T") == dtype.count("t")
    assert sorted([T.int8, T.float16]) == ["float16", "int8"] and ",".join([T.int8, T.int4]) == "int8,int4"
    assert [T.int, T.uint, T.long, T.short] == ["int32", "uint32", "int64", "int16"]
    print("All checks passed.")


if __name__ == "__main__":
    main()
