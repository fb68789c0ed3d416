"""Folds, scans, transposes, reducers and other shapes of a storage on a GPU, against NumPy."""

import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))
import test_folds as folds  # noqa: E402
import test_operators as operators  # noqa: E402
import test_reshape as reshape  # noqa: E402
import tilelang  # noqa: E402


def run(program, *arrays):
    """As test_operators.run, with the arrays on the GPU meanwhile."""
    on_device = [torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in arrays]
    tilelang.compile(program, target="cuda")(*on_device)
    torch.cuda.synchronize()
    for array, tensor in zip(arrays, on_device, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = tensor.cpu().numpy()


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch):
    for module in (folds, operators, reshape):
        monkeypatch.setattr(module, "run", lambda program, target, *arrays: run(program, *arrays))


@pytest.mark.parametrize("fold", folds.FOLDS)
def test_folds(fold, monkeypatch):
    signed = {"uint32": "int32"}  # torch has no arithmetic on the others
    table = {
        name: (ufunc, [(signed.get(a, a), signed.get(b, b)) for a, b in types])
        for name, (ufunc, types) in folds.FOLDS.items()
    }
    monkeypatch.setattr(folds, "FOLDS", table)
    folds.test_folds(fold, "cuda")


@pytest.mark.parametrize("fold", ["max", "min", "absmax"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_nan_propagates(fold, dtype):
    folds.test_a_nan_propagates(fold, dtype, "cuda")


@pytest.mark.parametrize("shape, dim, threads", folds.OWN, ids=str)
def test_the_users_own_fold(shape, dim, threads):
    folds.test_the_users_own_fold(shape, dim, threads, "cuda")


@pytest.mark.parametrize("shape", operators.SCANNED, ids=str)
def test_scans(shape):
    operators.test_scans(shape, "cuda")


@pytest.mark.parametrize("shape", [(1, 7), (32, 32), (33, 100), (100, 33), (64, 128)], ids=str)
def test_transpose(shape):
    operators.test_transpose(shape, "cuda")


@pytest.mark.parametrize("scope", ["shared", "fragment", "global"])
@pytest.mark.parametrize("name", ["any_of", "all_of"])
def test_any_and_all_of(name, scope):
    operators.test_any_and_all_of(name, scope, "cuda")


@pytest.mark.parametrize("op, init", [("sum", 0), ("sum", 5.0), ("max", None), ("min", None), ("prod", None)])
def test_reducers(op, init):
    operators.test_reducers(op, init, "cuda")


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_safe_value(dtype):
    operators.test_safe_value(dtype, "cuda")


def test_clamp():
    operators.test_clamp("cuda")


@pytest.mark.parametrize("scope", ["shared", "fragment", "global"])
def test_shapes_share_their_elements(scope):
    reshape.test_shapes_share_their_elements(scope, "cuda")


def test_a_gemm_reads_and_writes_other_shapes():
    reshape.test_a_gemm_reads_and_writes_other_shapes("cuda")
