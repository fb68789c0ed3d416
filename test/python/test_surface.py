"""Every published name is here, or says at the user's line what it needs."""

import importlib

import pytest
import tilelang
import tilelang.language as T
from tilelang.language import surface

# What may be missing: these words are in the reason.
ALLOWED = ("asynchronous copies", "mbarriers", "clusters", "wgmma", "warp roles",
           "programmatic dependent launch",
           "tensor memory accelerator", "structured sparsity", "im2col", "Volta", "carver",
           "a tool that is not in")  # fmt: skip


@pytest.mark.parametrize("name", sorted(surface.PUBLISHED))
def test_a_name_of_the_language(name):
    if name not in surface.MISSING:
        assert getattr(T, name) is not None
        return
    assert any(word in surface.MISSING[name] for word in ALLOWED), surface.MISSING[name]
    assert not hasattr(T, name)
    source = f"import tilelang.language as T\n\n\ndef use():\n    return T.{name}(1)\n"
    scope = {}
    exec(compile(source, "user.py", "exec"), scope)
    with pytest.raises(tilelang.CompileError) as error:
        scope["use"]()
    assert str(error.value).startswith("user.py:5:") and surface.MISSING[name] in str(error.value)


NAMES = [(where, name) for where, names in surface.ELSEWHERE.items() for name in names.split() or [""]]


@pytest.mark.parametrize("where,name", NAMES, ids=[f"{w}.{n}" for w, n in NAMES])
def test_a_name_of_the_package(where, name):
    why = surface.MISSING_ELSEWHERE.get(f"{where}.{name}", surface.MISSING_ELSEWHERE.get(where))
    if why is None:
        module = importlib.import_module(where)
        assert not name or getattr(module, name) is not None
        return
    assert any(word in why for word in ALLOWED)
    with pytest.raises((AttributeError, ImportError)):
        getattr(importlib.import_module(where), name)
