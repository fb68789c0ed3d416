"""CallCache: which calls are the same call."""

import enum

import numpy as np
import pytest
import tilelang
import tilelang.language as T
from tilelang import _core
from tilelang.jit.captures import key_of


def scale_by(factor, n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor

    return tilelang.compile(main, out_idx=1, target="cpu")


class Cache(_core.CallCache):
    """Scales A by `factor`; counts how often it has to compile."""

    made = 0
    reads = ((0, "shape", 0),)

    def _call(self, args, kwargs):
        given = (*args, *[kwargs[n] for n in ("A", "factor", "mode")[len(args) :] if n in kwargs])
        given += (None,) * (3 - len(given))
        self.made += 1
        kernel = scale_by(2 if given[1] is None else 3, given[0].shape[0])
        self.remember(given, self.reads, kernel, (0,))
        return kernel(given[0])


SCALE = 1


def cache(watches=()):
    return Cache(("A", "factor", "mode"), {"factor": None, "mode": None}, (0,), watches)


def ones(n):
    return np.ones(n, np.float32)


def test_shapes_and_values_tell_calls_apart():
    f = cache()
    for n in (4, 5, 4, 5):
        assert f(ones(n)).tolist() == [2] * n
    assert f.made == 2
    for value in (1, 1.0, True, "a", (1, "a"), [1, (2.5, None)], {"k": [1]}, T.float16, 2**80, np.float32):
        before = f.made
        assert f(ones(4), value).tolist() == [3] * 4
        assert f(ones(4), factor=value).tolist() == [3] * 4
        assert f.made == before + 1, value
    before = f.made
    values = [1, {"k": [1]}, T.float16, (1, "a"), 2**80]
    for value in values:
        f(ones(4), value)
    f(factor=1, A=ones(4))
    assert f.made == before
    for fresh in (2, {"k": [2]}, T.float32, (1, "b"), 2**80 + 1, -0.0, "ab", ((1,), 2), (1, (2,))):
        f(ones(4), fresh)
    assert f.made == before + 9


def test_lists_that_change_are_other_calls():
    f = cache()
    options = [1]
    f(ones(4), options)
    f(ones(4), options)
    assert f.made == 1
    options.append(2)
    f(ones(4), options)
    assert f.made == 2


def test_objects_of_the_package_count_by_identity():
    f = cache()
    one, other = (scale_by(2, n).prim_func for n in (4, 5))
    f(ones(4), one)
    f(ones(4), one)
    assert f.made == 1
    f(ones(4), other)
    assert f.made == 2
    f.forget(())
    f(ones(4), one)
    assert f.made == 3


def test_values_whose_parts_count_are_python_s_affair():
    class Odd:
        __hash__ = None

    f = cache()
    for value in (Odd(), Odd, lambda: None, {1}):
        with pytest.raises(TypeError, match="handled in Python"):
            f(ones(4), value)
    itself = []
    itself.append(itself)
    with pytest.raises(TypeError, match="contains itself"):
        f(ones(4), itself)


def test_what_is_watched_counts():
    global SCALE

    class Config:
        size = 1

    def closure():
        return config

    config = Config()
    f = cache([(globals(), "SCALE", ()), (closure.__closure__[0], "config", ("size",))])
    f(ones(4))
    f(ones(4))
    assert f.made == 1
    SCALE = 2
    f(ones(4))
    assert f.made == 2
    config.size = 7
    f(ones(4))
    assert f.made == 3
    SCALE = 1
    config.size = 1
    f(ones(4))
    assert f.made == 3
    config = Config()  # plain at its end: another object with the same number is the same
    f(ones(4))
    assert f.made == 3
    config.size = 1.0
    f(ones(4))
    assert f.made == 4


def test_whole_tensors_and_strides():
    f = cache()
    f.reads = ((0, "whole", 0),)
    with pytest.raises(_core.ArgumentError, match="float64"):
        f(np.ones(4))
    f(ones(4))
    assert f.made == 2 and f.find((ones(4), None, None)) is not None
    assert f.find((np.ones(4, np.float16), None, None)) is None
    g = cache()
    g.reads = ((0, "stride", 0),)
    g(ones(4))
    assert g.find((ones(9), None, None)) is not None  # the stride is the same
    assert g.find((ones(8)[::2], None, None)) is None


def test_mistakes():
    f = cache()
    kernel = scale_by(2, 4)
    good = ((ones(4), None, None), ((0, "shape", 0),), kernel, (0,))
    f.remember(*good)
    for i, wrong in (
        (0, (ones(4),)),
        (1, ((0, "form", 0),)),
        (1, ((5, "shape", 0),)),
        (1, ((0, "shape", 3),)),
        (2, 3),
        (3, ()),
        (3, (1,)),
    ):
        with pytest.raises((TypeError, IndexError)):
            f.remember(*good[:i], wrong, *good[i + 1 :])
    with pytest.raises(TypeError, match="watches"):
        cache([(3, "x", ())])
    with pytest.raises(TypeError, match="not called"):
        _core.CallCache.__new__(_core.CallCache)(1)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    f = cache()
    for _ in range(3):
        assert f(torch.ones(4)).tolist() == [2] * 4
        assert f(torch.ones(6)).tolist() == [2] * 6
    assert f.made == 2


# ── a rule for objects whose attributes count ─────────────────────────────────────────────────────────
class Config:
    def __init__(self, size):
        self.size = size


def ruled(watches=()):
    """As the language does it: what counts of an object is the affair of jit/captures.py."""
    return Cache(("A", "factor", "mode"), {"factor": None, "mode": None}, (0,), watches,
                 rule=lambda value, place: asked.append(place) or key_of(value))  # fmt: skip


asked = []


def test_objects_count_as_the_rule_says():
    f = ruled()
    config = Config(3)
    for _ in range(3):
        f(ones(4), config)
        f(ones(4), Config(3))
    assert f.made == 1
    config.size = 4
    f(ones(4), config)
    assert f.made == 2
    others = [Config("4"), Config([4]), {1, 2}, {1, 3}, b"4", lambda x: x, lambda x: x + 1, Mode.a, Mode.b]
    for different in others:
        before = f.made
        f(ones(4), different)
        f(ones(4), different)
        assert f.made == before + 1, different
    before = f.made
    f(ones(4), {2, 1})
    f(ones(4), np.arange(3))
    f(ones(4), np.arange(3))
    f(ones(4), np.arange(4))
    assert f.made == before + 2
    with pytest.raises(TypeError, match="cannot be part of a key"):
        f(ones(4), (x for x in ()))


class Mode(enum.Enum):
    a = 1
    b = 2


def test_the_rule_is_asked_with_the_parameter_s_place():
    f = ruled()
    asked.clear()
    f(ones(4), Config(1), [Config(2)])
    assert asked[:2] == [1, -1]  # what is part of a value is of no parameter
    f = ruled([(globals(), "WATCHED", ())])
    asked.clear()
    f(ones(4))
    assert asked and set(asked) == {-1}


WATCHED = Config(1)


def test_values_that_contain_themselves():
    f = ruled()
    for _ in range(2):
        for end in (1, 2):
            itself = [end]
            itself.append(itself)
            f(ones(4), itself)
    assert f.made == 2
    deep = []
    for _ in range(50):
        deep = [deep]
    f(ones(4), deep)
    f(ones(4), deep)
    assert f.made == 3


def test_a_container_that_the_rule_changes():
    class Changing(dict):
        pass

    def rule(value, place):
        given.clear()
        return None

    given = [Changing(), Changing(), 1]
    f = Cache(("A", "factor", "mode"), {"factor": None, "mode": None}, (0,), rule=rule)
    f(ones(4), given)
    assert f.made == 1 and not given


def test_keys():
    f = ruled()
    config = Config(1)
    first = f.key((ones(4), config, None))
    assert first == f.key((ones(9), Config(1), None)) != f.key((ones(4), config, 1))
    config.size = 2
    assert first != f.key((ones(4), config, None))
    tensors = [ones(4), 1, None, object()]
    assert len({f.key((t, None, None)) for t in tensors}) == 4
    assert len({f.key((n, None, None)) for n in (1, 2.5, np.float32(1), np.int64(2))}) == 1  # of the call
    with pytest.raises(TypeError):
        f.key((ones(4), (x for x in ()), None))


def test_how_many_kernels_there_are():
    f = ruled()
    for n in (4, 5, 4):
        f(ones(n))
    assert f.counts() == [2]
    f.reads = ((0, "stride", 0),)
    f(ones(6))
    assert sorted(f.counts()) == [1, 2]
    f.forget(())
    assert f.counts() == []


def test_a_kernel_with_a_call_of_its_own():
    class Loud(_core.Launcher):
        def __call__(self, *args):
            return ["loud", *super().__call__(*args).tolist()]

    f = cache()
    kernel = scale_by(2, 4)
    f.remember((ones(4), None, None), f.reads, Loud(kernel._kernel, [1]), (0,))
    assert f(ones(4)) == ["loud", 2, 2, 2, 2]
    f.remember((ones(5), None, None), f.reads, lambda a: 1 / 0, (0,))
    with pytest.raises(ZeroDivisionError):
        f(ones(5))
