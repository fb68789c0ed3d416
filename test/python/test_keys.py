"""What a kernel was built from is its key: an argument that has changed gives another kernel, whatever kind
of object it is; one that has not, or whose unread parts have, gives the same.
"""

import collections
import dataclasses
import enum
import functools
import threading
import types

import numpy as np
import pytest
import tilelang
import tilelang.language as T

FACTOR = 1


class Plain:
    def __init__(self, m):
        self.m = m

    def number(self):
        return self.m


class Slots:
    __slots__ = ("m", "__weakref__")

    def __init__(self, m):
        self.m = m


class SlotsBelow(Slots):
    __slots__ = ("n",)


class AlwaysEqual(Plain):
    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


class Unhashable(Plain):
    __hash__ = None


@dataclasses.dataclass
class Data:
    m: int


@dataclasses.dataclass(frozen=True)
class Frozen:
    m: list


class Word(str):
    pass


class Numbers(list):
    pass


class Names(dict):
    pass


class Hidden:
    def __init__(self, m):
        self._m = m

    def __getattr__(self, name):
        if name == "m":
            return self.__dict__["_m"]
        raise AttributeError(name)


class Computed:
    def __init__(self, m):
        self.held = [m]

    @property
    def m(self):
        return self.held[0]


class Pickled(Plain):
    def __getstate__(self):
        return {}

    def __reduce__(self):
        return (Plain, (0,))


class Kind(enum.Enum):
    held = types.SimpleNamespace(m=2)


class Namespace:
    m = 2

    @staticmethod
    def number():
        return 1


def instance(kind, **more):
    """(the argument, how it is changed, how m is read of it)"""
    return lambda: (kind(2, **more), lambda o: setattr(o, "m", 8), lambda o: o.m)


def change(o, name, value):
    setattr(o, name, value)


def cyclic(m):
    made = Plain(m)
    made.itself, made.pair = made, [made]
    return made


def closure(m):
    held = m

    def read():
        return held

    def write(n):
        nonlocal held
        held = n

    read.write = write
    return read


def names_global(x=None):
    return FACTOR


def with_slot():
    made = SlotsBelow(2)
    made.n = 2
    return made


def of_array():
    return np.array([2, 3])


class Calls:
    def __init__(self, m):
        self.m = m

    def __call__(self):
        return self.m


class Counted(Plain):
    lock = threading.Lock()

    def __init__(self, m):
        super().__init__(m)
        self.mutex, self.count = threading.RLock(), 0


HELD = Plain(2)


def reads_default(o, cfg=HELD):
    return cfg.m


def put(o, key, value):
    o[key] = value


FORMS = {
    "an ordinary object": instance(Plain),
    "slots": instance(Slots),
    "slots of a base": lambda: (with_slot(), lambda o: setattr(o, "m", 8), lambda o: o.m),
    "a dataclass": instance(Data),
    "a frozen dataclass that holds a list": lambda: (Frozen([2]), lambda o: put(o.m, 0, 8), lambda o: o.m[0]),
    "SimpleNamespace": lambda: (types.SimpleNamespace(m=2), lambda o: setattr(o, "m", 8), lambda o: o.m),
    "an == of its own": instance(AlwaysEqual),
    "no hash": instance(Unhashable),
    "a __reduce__ that hides": instance(Pickled),
    "attributes by __getattr__": lambda: (Hidden(2), lambda o: setattr(o, "_m", 8), lambda o: o.m),
    "a property": lambda: (Computed(2), lambda o: put(o.held, 0, 8), lambda o: o.m),
    "an object in itself": lambda: (cyclic(2), lambda o: setattr(o, "m", 8), lambda o: o.pair[0].itself.m),
    "an object with locks": instance(Counted),
    "in a tuple": lambda: ((1, Plain(2)), lambda o: setattr(o[1], "m", 8), lambda o: o[1].m),
    "in a list in a dict": lambda: (
        {"a": [Plain(2)]},
        lambda o: setattr(o["a"][0], "m", 8),
        lambda o: o["a"][0].m,
    ),
    "an object's object": lambda: (Plain(Plain(2)), lambda o: setattr(o.m, "m", 8), lambda o: o.m.m),
    "a list": lambda: ([2], lambda o: put(o, 0, 8), lambda o: o[0]),
    "a list that holds itself": lambda: (
        (lambda x: (x.append(x), x)[1])([2]),
        lambda o: put(o, 0, 8),
        lambda o: o[1][1][0],
    ),
    "a dict": lambda: ({"m": 2}, lambda o: put(o, "m", 8), lambda o: o["m"]),
    "a set": lambda: ({2}, lambda o: (o.clear(), o.add(8)), lambda o: max(o)),
    "a class derived from list": lambda: (Numbers([2]), lambda o: put(o, 0, 8), lambda o: o[0]),
    "a class derived from dict": lambda: (Names(m=2), lambda o: put(o, "m", 8), lambda o: o["m"]),
    "a class derived from str": lambda: (
        (lambda w: (setattr(w, "m", 2), w)[1])(Word("a")),
        lambda o: setattr(o, "m", 8),
        lambda o: o.m,
    ),
    "an OrderedDict": lambda: (collections.OrderedDict(m=2), lambda o: put(o, "m", 8), lambda o: o["m"]),
    "a defaultdict": lambda: (collections.defaultdict(int, m=2), lambda o: put(o, "m", 8), lambda o: o["m"]),
    "a deque": lambda: (collections.deque([2]), lambda o: put(o, 0, 8), lambda o: o[0]),
    "a bytearray": lambda: (bytearray([2]), lambda o: put(o, 0, 8), lambda o: o[0]),
    "an array of NumPy": lambda: (of_array(), lambda o: put(o, 0, 8), lambda o: int(o[0])),
    "a part of an array": lambda: (of_array()[:1], lambda o: put(o, 0, 8), lambda o: int(o[0])),
    "a memoryview": lambda: (memoryview(bytearray([2])), lambda o: put(o, 0, 8), lambda o: o[0]),
    "a value of an Enum": lambda: (Kind.held, lambda o: setattr(o.value, "m", 8), lambda o: o.value.m),
    "a class": lambda: (Namespace, lambda o: setattr(o, "m", 8), lambda o: o.m),
    "a method of a class": lambda: (
        Namespace,
        lambda o: setattr(o, "number", staticmethod(lambda: 8)),
        lambda o: o.number(),
    ),
    "a closure": lambda: (closure(2), lambda o: o.write(8), lambda o: o()),
    "attributes of a function": lambda: (
        (lambda f: (setattr(f, "m", 2), f)[1])(lambda: 0),
        lambda o: setattr(o, "m", 8),
        lambda o: o.m,
    ),
    "a global of a function": lambda: (names_global, lambda o: globals().update(FACTOR=8), lambda o: o()),
    "a function's default that is an object": lambda: (
        reads_default,
        lambda o: setattr(o.__defaults__[0], "m", 8),
        lambda o: o(0),
    ),
    "a partial": lambda: (
        functools.partial(max, Plain(2), key=None),
        lambda o: setattr(o.args[0], "m", 8),
        lambda o: o.args[0].m,
    ),
    "a callable object": lambda: (Calls(2), lambda o: setattr(o, "m", 8), lambda o: o()),
    "a bound method": lambda: (Plain(2).number, lambda o: setattr(o.__self__, "m", 8), lambda o: o()),
    "a method that is called": lambda: (Plain(2), lambda o: setattr(o, "m", 8), lambda o: o.number()),
    "a module": lambda: (
        (lambda m: (setattr(m, "m", 2), m)[1])(types.ModuleType("some_settings")),
        lambda o: setattr(o, "m", 8),
        lambda o: o.m,
    ),
}


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    for holder, name in ((Namespace, "m"), (Kind.held.value, "m"), (reads_default.__defaults__[0], "m")):
        monkeypatch.setattr(holder, name, 2)
    monkeypatch.setattr(Namespace, "number", staticmethod(lambda: 1))
    monkeypatch.setitem(globals(), "FACTOR", 1)


def factory_of(read):
    @tilelang.jit(out_idx=-1, target="reference")
    def factory(cfg):
        m = read(cfg)

        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(4):
                    B[i] = A[i] * m

        return main

    return factory


def of_arguments(read):
    factory = factory_of(read)
    return lambda cfg: factory(cfg)


def of_eager_arguments(read):
    @tilelang.jit(target="reference")
    def scale(A, cfg):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * read(cfg)
        return B

    return lambda cfg: lambda a: scale(a, cfg)


def captured(read):
    held = None

    @tilelang.jit(target="reference")
    def scale(A):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * read(held)
        return B

    def bind(cfg):
        nonlocal held
        held = cfg
        return scale

    return bind


def by_default(read):
    def bind(cfg):
        @tilelang.jit(target="reference")
        def scale(A, given=cfg):
            n = T.const("n")
            A: T.Tensor((n,), "float32")
            B = T.empty((n,), "float32")
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] * read(given)
            return B

        return scale

    made = {}
    return lambda cfg: made.setdefault(id(cfg), bind(cfg))


@pytest.mark.parametrize("place", [of_arguments, of_eager_arguments, captured, by_default])
@pytest.mark.parametrize("form", FORMS)
def test_what_has_changed_gives_another_kernel(form, place):
    cfg, mutate, read = FORMS[form]()
    ones = np.ones(4, np.float32)
    make = place(read)
    if isinstance(cfg, np.ndarray) and place in (of_eager_arguments, by_default):
        with pytest.raises(tilelang.CompileError, match="a tensor is passed for"):
            make(cfg)(ones)
        return
    before, again = make(cfg)(ones)[0], make(cfg)(ones)[0]
    assert before == again == read(cfg)
    mutate(cfg)
    assert read(cfg) == 8 != before
    assert make(cfg)(ones)[0] == 8
    assert make(cfg)(ones)[0] == 8


@pytest.mark.parametrize("form", [form for form in FORMS if form != "a memoryview"])
def test_what_has_not_changed_gives_the_same_kernel(form):
    cfg, _, read = FORMS[form]()
    factory = factory_of(read)
    assert factory(cfg) is factory(cfg)


def test_equal_objects_give_the_same_kernel():
    factory = factory_of(lambda cfg: cfg.m)
    assert factory(Plain(2)) is factory(Plain(2)) and factory(Plain(2)) is not factory(Plain(2.0))
    assert factory(Plain(2)) is not factory(AlwaysEqual(2))
    assert factory(AlwaysEqual(2)) is not factory(AlwaysEqual(3))
    assert factory_of(lambda f: f())(closure(2)) is not factory_of(lambda f: f())(closure(3))
    array = factory_of(lambda a: int(a[0]))
    assert array(np.array([2, 3])) is array(np.array([2, 3])) is not array(np.array([2, 3.0]))


def test_only_what_is_read_counts():
    @tilelang.jit(out_idx=-1, target="reference")
    def factory(cfg):
        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(4):
                    B[i] = A[i] * cfg.m * cfg.sub.n

        return main

    cfg = types.SimpleNamespace(m=2, sub=types.SimpleNamespace(n=1, unread=0), unread=0)
    first = factory(cfg)
    cfg.unread = cfg.sub.unread = object()
    assert factory(cfg) is first
    cfg.sub.n = 3
    assert factory(cfg)(np.ones(4, np.float32))[0] == 6


def test_values_that_no_key_holds_are_not_remembered():
    factory = factory_of(lambda numbers: next(numbers))
    given = (n for n in (2, 8))
    ones = np.ones(4, np.float32)
    assert [factory(given)(ones)[0], factory(given)(ones)[0]] == [2, 8]
    large = np.full(2**20, 2)
    factory = factory_of(lambda a: int(a[0]))
    assert factory(large)(ones)[0] == 2
    large[0] = 8
    assert factory(large)(ones)[0] == 8


def test_objects_cost_no_compilation():
    @tilelang.jit(target="reference")
    def scale(A, cfg):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B = T.empty((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * cfg.number()
        return B

    cfg, ones = Counted(2), np.ones(4, np.float32)
    for step in range(5):
        cfg.count = step
        assert scale(ones, cfg)[0] == 2
    assert sum(scale.counts()) == 1
