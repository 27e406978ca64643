"""Programs that read or change external state, with changes between calls: compiled calls equal eager ones."""

from __future__ import annotations

import argparse
import array
import collections
import configparser
import contextvars
import csv
import enum
import functools
import importlib
import io
import logging
import operator
import os
import pathlib
import queue
import random
import sys
import threading
import time
import types
import warnings
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import ndgrad


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")


class World(types.SimpleNamespace):
    """The objects of one program. An eager and a compiled function have one each."""


def follow(build: Any, *changes: Any, compiles: bool | None = None) -> Any:
    """Compare a compiled function with an eager one over changes of their objects; `build(world)` makes the function.
    """
    worlds = World(), World()
    eager, compiled = build(worlds[0]), ndgrad.compile(build(worlds[1]))
    x = ndgrad.tensor([1.0, 2.0])
    for change in (None, None, *changes, None):
        if change is not None:
            for world in worlds:
                change(world)
        expected, found = eager(x), compiled(x)
        assert found.tolist() == expected.tolist()
    if compiles is not None:
        reasons = [e.broken.reason for e in compiled.entries if e.broken is not None]
        assert (not reasons) is compiles, reasons
    return worlds


def bind(w: World, **values: Any) -> None:
    for name, value in values.items():
        setattr(w, name, value)


# ----- places ---------------------------------------------------------------------------------------------------------

module = types.ModuleType("mine")


class Base:
    scale = 2.0


class Plain(Base):
    pass


class Meta(type):
    factor = 2.0


class Made(metaclass=Meta):
    pass


class Color(enum.Enum):
    RED = 2.0
    BLUE = 3.0


class Number(float):
    unit = 1.0


@dataclass
class Config:
    scale: float = 2.0


PLACES = {
    "Namespace": (lambda w: bind(w, c=argparse.Namespace(scale=2.0)), lambda w: w.c.scale, lambda w: bind(w.c, scale=3.0)),
    "SimpleNamespace": (lambda w: bind(w, c=types.SimpleNamespace(scale=2.0)), lambda w: w.c.scale,
    lambda w: bind(w.c, scale=3.0)),
    "UserDict": (lambda w: bind(w, c=collections.UserDict(a=2.0)), lambda w: w.c["a"], lambda w: w.c.update(a=3.0)),
    "ChainMap": (lambda w: bind(w, c=collections.ChainMap({}, {"a": 2.0})), lambda w: w.c["a"],
    lambda w: w.c.update(a=3.0)),
    "dataclass": (lambda w: bind(w, c=Config()), lambda w: w.c.scale, lambda w: bind(w.c, scale=3.0)),
    "mapping proxy": (
        lambda w: bind(w, d={"a": 2.0}) or bind(w, c=types.MappingProxyType(w.d)), lambda w: w.c["a"],
        lambda w: w.d.update(a=3.0),
    ),
    "array": (lambda w: bind(w, c=array.array("d", [2.0])), lambda w: w.c[0], lambda w: w.c.__setitem__(0, 3.0)),
    "bytearray": (lambda w: bind(w, c=bytearray(b"ab")), lambda w: w.c[0], lambda w: w.c.__setitem__(0, 3)),
    "context variable": (
        lambda w: bind(w, c=contextvars.ContextVar("c", default=2.0)), lambda w: w.c.get(), lambda w: w.c.set(3.0),
    ),
    "thread local": (lambda w: bind(w, c=threading.local()) or bind(w.c, a=2.0), lambda w: w.c.a, lambda w: bind(w.c, a=3.0)),
    "weak reference": (
        lambda w: bind(w, o=Config()) or bind(w, c=weakref.ref(w.o)), lambda w: w.c().scale, lambda w: bind(w.o, scale=3.0),
    ),
    "config file": (
        lambda w: bind(w, c=configparser.ConfigParser()) or w.c.read_dict({"a": {"b": "2"}}),
        lambda w: float(w.c["a"]["b"]), lambda w: w.c.set("a", "b", "3"),
    ),
    "computed name": (lambda w: bind(w, c=Config(), n="scale"), lambda w: getattr(w.c, w.n),
    lambda w: bind(w.c, scale=3.0)),
    "computed name of a class": (
        lambda w: bind(w, c=type("C", (), {"ab": 2.0})), lambda w: getattr(w.c, "a" + "b"),
        lambda w: setattr(w.c, "ab", 3.0),
    ),
    "computed name of a method": (
        lambda w: bind(w, c=type("C", (), {"ab": lambda self: 2.0})()), lambda w: getattr(w.c, "a" + "b")(),
        lambda w: setattr(type(w.c), "ab", lambda self: 3.0),
    ),
    "attribute getter": (
        lambda w: bind(w, c=type("C", (), {"ab": 2.0}), g=operator.attrgetter("ab")), lambda w: w.g(w.c),
        lambda w: setattr(w.c, "ab", 3.0),
    ),
    "attribute added to a class": (
        lambda w: bind(w, c=type("C", (Base,), {})), lambda w: w.c.scale, lambda w: setattr(w.c, "scale", 3.0),
    ),
    "attribute added to a function": (
        lambda w: bind(w, c=lambda: 0), lambda w: 3.0 if hasattr(w.c, "mark") else 2.0, lambda w: bind(w.c, mark=1),
    ),
    "attribute of a metaclass": (
        lambda w: bind(w, m=type("M", (type,), {"f": 2.0})) or bind(w, c=w.m("C", (), {})), lambda w: w.c.f,
        lambda w: setattr(w.m, "f", 3.0),
    ),
    "attribute of a number": (lambda w: bind(w, c=Number(2.0)), lambda w: w.c.unit, lambda w: bind(w.c, unit=3.0)),
    "enumeration": (lambda w: bind(w, c=Color.RED), lambda w: w.c.value, lambda w: bind(w, c=Color.BLUE)),
    "named tuple": (
        lambda w: bind(w, T=collections.namedtuple("T", "a b")) or bind(w, c=w.T(2.0, [1])),  # noqa: PYI024
        lambda w: w.c.a * w.c.b[0],
        lambda w: w.c.b.__setitem__(0, 5),
    ),
    "slots": (
        lambda w: bind(w, c=type("S", (), {"__slots__": ("a",)})()) or bind(w.c, a=2.0), lambda w: w.c.a,
        lambda w: bind(w.c, a=3.0),
    ),
    "__getattr__": (
        lambda w: bind(w, d={"q": 2.0}) or bind(w, c=type("G", (), {"__getattr__": lambda self, n, d=w.d: d[n]})()),
        lambda w: w.c.q,
        lambda w: w.d.update(q=3.0),
    ),
    "cached property": (
        lambda w: bind(w, k=[2.0])
        or bind(w, C=type("C", (), {"p": functools.cached_property(lambda self, k=w.k: k[0])}))
        or bind(w, c=w.C()),
        lambda w: w.c.p, lambda w: w.c.__dict__.pop("p", None) and w.k.__setitem__(0, 3.0),
    ),
    "cache": (
        lambda w: bind(w, k=[2.0]) or bind(w, c=functools.cache(lambda k=w.k: k[0])), lambda w: w.c(),
        lambda w: w.k.__setitem__(0, 3.0), lambda w: w.c.cache_clear(),
    ),
    "globals()": (lambda w: globals().update(shared=2.0), lambda w: globals()["shared"],
    lambda w: globals().update(shared=3.0)),
    "eval": (lambda w: globals().update(shared=2.0), lambda w: eval("shared"), lambda w: globals().update(shared=3.0)),
    "import inside": (
        lambda w: setattr(module, "a", 2.0) or sys.modules.__setitem__("mine", module), lambda w: __import__("mine").a,
        lambda w: setattr(module, "a", 3.0),
    ),
    "vars": (lambda w: bind(w, c=Config()), lambda w: vars(w.c)["scale"], lambda w: bind(w.c, scale=3.0)),
    "__dict__ of a class": (lambda w: bind(w, C=type("C", (), {"a": 2.0})), lambda w: w.C.__dict__["a"],
    lambda w: setattr(w.C, "a", 3.0)),
    "abstract class": (
        lambda w: bind(w, A=type("A", (collections.abc.Sized,), {}), C=type("C", (), {})),
        lambda w: 1.0 + isinstance(w.C(), w.A),
        lambda w: w.A.register(w.C),
    ),
    "subclasses": (lambda w: bind(w, C=type("C", (), {})), lambda w: len(w.C.__subclasses__()),
    lambda w: bind(w, D=type("D", (w.C,), {}))),
    "__class__": (
        lambda w: bind(w, c=Plain()), lambda w: w.c.scale,
        lambda w: setattr(w.c, "__class__", type("O", (Base,), {"scale": 3.0})),
    ),
    "defaultdict factory": (
        lambda w: bind(w, c=collections.defaultdict(lambda: 2.0)), lambda w: w.c.default_factory(),
        lambda w: setattr(w.c, "default_factory", lambda: 3.0),
    ),
    "object array": (
        lambda w: bind(w, c=np.array([[2.0]], dtype=object)), lambda w: float(w.c[0, 0]),
        lambda w: w.c.__setitem__((0, 0), 3.0),
    ),
    "masked array": (
        lambda w: bind(w, c=np.ma.array([2.0, 4.0], mask=[False, True])), lambda w: float(w.c.sum()),
        lambda w: setattr(w.c, "mask", [False, False]),
    ),
    "memory view": (lambda w: bind(w, b=bytearray(b"ab")) or bind(w, c=memoryview(w.b)), lambda w: w.c[0],
    lambda w: w.b.__setitem__(0, 3)),
    "builtin method": (lambda w: bind(w, d={"a": 2.0}) or bind(w, c=w.d.get), lambda w: w.c("a"),
    lambda w: w.d.update(a=3.0)),
    "deque": (lambda w: bind(w, c=collections.deque([2.0])), lambda w: w.c[0], lambda w: w.c.appendleft(3.0)),
    "partial of a clock": (
        lambda w: bind(w, k=[1.0]) or bind(w, c=functools.partial(w.k.pop, 0)),
        lambda w: (w.k.append(len(w.k) + 1.0), w.c())[1], lambda w: w.k.append(7.0),
    ),
    "library function": (
        lambda w: None, lambda w: float(np.hypot(3.0, 4.0)), lambda w: None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLACES)
def test_places_that_change(kind: str):
    make, read, *changes = PLACES[kind]

    def build(w: World) -> Any:
        make(w)
        return lambda x: x * read(w)

    follow(build, *changes)


def test_environment_variables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NDGRAD_TEST_SCALE", "2")
    for read in (
        lambda: float(os.environ["NDGRAD_TEST_SCALE"]),
        lambda: float(os.environ.get("NDGRAD_TEST_SCALE", "5")),
        lambda: float(os.getenv("NDGRAD_TEST_SCALE", "5")),
    ):
        monkeypatch.setenv("NDGRAD_TEST_SCALE", "2")
        c = ndgrad.compile(lambda x, read=read: x * read())
        x = ndgrad.ones(1)
        assert c(x).item() == c(x).item() == 2.0
        monkeypatch.setenv("NDGRAD_TEST_SCALE", "3")
        assert c(x).item() == 3.0
        assert all(e.broken is None for e in c.entries), c.entries[-1].broken
        monkeypatch.delenv("NDGRAD_TEST_SCALE")
        if read() == 5.0 if "get" in read.__code__.co_names or "getenv" in read.__code__.co_names else False:
            assert c(x).item() == 5.0


def test_functions_of_libraries_that_are_replaced(monkeypatch: pytest.MonkeyPatch):
    c, x = ndgrad.compile(lambda x: ndgrad.nn.functional.relu(x) * np.sqrt(4.0)), ndgrad.tensor([-1.0, 2.0])
    assert c(x).tolist() == c(x).tolist() == [0.0, 4.0]
    monkeypatch.setattr(ndgrad.nn.functional, "relu", lambda x: x.abs())
    assert c(x).tolist() == [2.0, 4.0]
    monkeypatch.setattr(np, "sqrt", lambda x: 10.0)
    assert c(x).tolist() == [10.0, 20.0]
    monkeypatch.undo()
    assert c(x).tolist() == [0.0, 4.0]


def test_files_clocks_and_the_system(tmp_path: pathlib.Path):
    text, data = tmp_path / "a.txt", tmp_path / "a.npy"
    text.write_text("2")
    np.save(data, np.array(2.0))
    ticks = iter(range(1, 1000))
    clock = lambda: float(next(ticks))
    reads = [
        lambda: float(text.read_text()), lambda: float(open(text).read()), lambda: float(np.load(data)), lambda: 1.0 + os.path.exists(text),  # noqa: SIM115
        lambda: float(len(os.listdir(tmp_path))), lambda: float(text.exists()) + 1.0, lambda: float(np.fromfile(data, np.uint8)[-1]),
    ]  # fmt: skip
    x = ndgrad.ones(1)
    for read in reads:
        text.write_text("2")
        np.save(data, np.array(2.0))
        c = ndgrad.compile(lambda x, read=read: x * read())
        assert c(x).item() == c(x).item() == read()
        text.write_text("3")
        np.save(data, np.array(5.0))
        assert c(x).item() == read()
        text.unlink()
        if read is not reads[0] and read is not reads[1]:
            assert c(x).item() == read()
    c = ndgrad.compile(lambda x: x * clock())
    assert [c(x).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    now = time.perf_counter_ns
    c = ndgrad.compile(lambda x: x * 0 + float(now() % 2**20))
    assert len({c(x).item() for _ in range(5)}) > 1
    c = ndgrad.compile(lambda x: x * 0 + max(map(float, [now() % 2**20])))
    assert len({c(x).item() for _ in range(5)}) > 1
    c = ndgrad.compile(lambda x: x * random.Random().random())
    assert c(x).item() != c(x).item()


# ----- effects --------------------------------------------------------------------------------------------------------


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def make_logger(w: World) -> None:
    logger = logging.Logger("mine")
    handler = Lines()
    logger.addHandler(handler)
    bind(w, c=logger, seen=handler.lines)


def set_up_csv(w: World) -> None:
    out = io.StringIO()
    bind(w, out=out, c=csv.writer(out))


EFFECTS = {
    "logger": (make_logger, lambda w: w.c.warning("called"), lambda w: w.seen),
    "csv": (set_up_csv, lambda w: w.c.writerow([1, 2]), lambda w: w.out.getvalue()),
    "queue": (lambda w: bind(w, c=queue.Queue()), lambda w: w.c.put(1), lambda w: w.c.qsize()),
    "simple queue": (lambda w: bind(w, c=queue.SimpleQueue()), lambda w: w.c.put(1), lambda w: w.c.qsize()),
    "text stream": (lambda w: bind(w, c=io.StringIO()), lambda w: w.c.write("a"), lambda w: w.c.getvalue()),
    "print to a stream": (lambda w: bind(w, c=io.StringIO()), lambda w: print("a", file=w.c), lambda w: w.c.getvalue()),
    "bound append": (lambda w: bind(w, k=[]) or bind(w, c=w.k.append), lambda w: w.c(1), lambda w: w.k),
    "partial append": (lambda w: bind(w, k=[]) or bind(w, c=functools.partial(w.k.append, 1)), lambda w: w.c(),
    lambda w: w.k),
    "map append": (lambda w: bind(w, k=[]) or bind(w, c=w.k.append), lambda w: list(map(w.c, [1, 2])), lambda w: w.k),
    "context variable": (
        lambda w: bind(w, c=contextvars.ContextVar("c", default=0)), lambda w: w.c.set(w.c.get() + 1),
        lambda w: w.c.get(),
    ),
    "thread local": (lambda w: bind(w, c=threading.local()) or bind(w.c, a=0), lambda w: bind(w.c, a=w.c.a + 1),
    lambda w: w.c.a),
    "counter": (lambda w: bind(w, c=collections.Counter()), lambda w: w.c.update("a"), lambda w: dict(w.c)),
    "array": (lambda w: bind(w, c=array.array("i", [0])), lambda w: w.c.__setitem__(0, w.c[0] + 1),
    lambda w: w.c.tolist()),
    "bytearray": (lambda w: bind(w, c=bytearray(b"a")), lambda w: w.c.extend(b"b"), lambda w: bytes(w.c)),
    "setattr": (lambda w: bind(w, c=Config(0.0)), lambda w: setattr(w.c, "scale", w.c.scale + 1), lambda w: w.c.scale),
    "setattr of a class": (
        lambda w: bind(w, c=type("C", (), {"n": 0})), lambda w: setattr(w.c, "n", w.c.n + 1), lambda w: w.c.n,
    ),
    "new attribute of a class": (
        lambda w: bind(w, c=type("C", (), {})), lambda w: setattr(w.c, "n" * (1 + len(vars(w)["c"].__name__)), 1),
        lambda w: sorted(k for k in vars(w.c) if k[0] == "n"),
    ),
    "function attribute": (lambda w: bind(w, c=lambda: 0) or bind(w.c, n=0), lambda w: bind(w.c, n=w.c.n + 1),
    lambda w: w.c.n),
    "iterator": (lambda w: bind(w, c=iter(range(100))), lambda w: next(w.c), lambda w: next(w.c)),
    "generator": (lambda w: bind(w, c=(i for i in range(100))), lambda w: w.c.send(None), lambda w: next(w.c)),
    "dict view": (lambda w: bind(w, c={"a": 0}), lambda w: w.c.update(a=w.c["a"] + 1), lambda w: w.c),
    "set": (lambda w: bind(w, c=set()), lambda w: w.c.add(len(w.c)), lambda w: w.c),
    "pop": (lambda w: bind(w, c=list(range(9))), lambda w: w.c.pop(), lambda w: w.c),
    "cache": (lambda w: bind(w, k=[]) or bind(w, c=functools.cache(lambda k=w.k: k.append(1))), lambda w: w.c(),
    lambda w: w.k),
    "random": (lambda w: bind(w, c=random.Random(3)), lambda w: w.c.random(), lambda w: w.c.random()),
    "warning": (lambda w: bind(w, c=[]), lambda w: warnings.warn("careful", stacklevel=1), lambda w: 0),
    "finally": (lambda w: bind(w, c=[]), lambda w: run_finally(w), lambda w: w.c),
}  # fmt: skip


def run_finally(w: World) -> None:
    try:
        w.c.append(time.perf_counter() * 0)
    finally:
        w.c.append(2)


@pytest.mark.parametrize("kind", EFFECTS)
def test_effects_happen_at_each_call(kind: str):
    make, act, result = EFFECTS[kind]

    def build(w: World) -> Any:
        make(w)

        def f(x: Any) -> Any:
            act(w)
            return x * 2.0

        return f

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eager, compiled = follow(build)
    assert result(compiled) == result(eager)
    if kind == "warning":
        assert len(caught) == 6


# ----- the watch ------------------------------------------------------------------------------------------------------


def test_unused_objects_do_not_keep_a_function_from_being_compiled():
    lock, stream, clock = threading.Lock(), io.StringIO(), time.time

    class Model:
        def __init__(self) -> None:
            self.lock, self.stream, self.ref = lock, stream, weakref.ref(self)
            self.log = logging.getLogger("ndgrad.test")

        def save(self) -> None:
            with self.lock:
                self.stream.write(str(clock()))

        def __call__(self, x: Any) -> Any:
            if x.shape[0] > 100:
                self.log.warning("large")
                print(clock(), os.listdir("."))
            return x * 2.0

    model = Model()
    c = ndgrad.compile(lambda x: model(x), fullgraph=True)
    assert c(ndgrad.ones(1)).item() == 2.0


def test_a_profiler_is_put_back():
    seen: list[str] = []
    profile = lambda frame, event, arg: seen.append(event)
    sys.setprofile(profile)
    try:
        ndgrad.compile(lambda x: x * 3.0)(ndgrad.ones(1))
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
    import cProfile

    found = cProfile.Profile()
    found.enable()
    ndgrad.compile(lambda x: x * 4.0)(ndgrad.ones(1))
    after = importlib.import_module("colorsys").rgb_to_hsv(0.1, 0.2, 0.3)
    found.disable()
    assert after
    assert any(getattr(e.code, "co_name", "") == "rgb_to_hsv" for e in found.getstats())


def test_builtins_are_put_back_whatever_happens():
    before = {n: vars(__import__("builtins"))[n] for n in ("getattr", "hasattr", "setattr", "delattr", "vars", "__import__")}

    def fails(x: Any) -> Any:
        getattr(x, "shape")  # noqa: B009
        raise KeyError("mine")

    with pytest.raises(KeyError):
        ndgrad.compile(fails)(ndgrad.ones(1))
    assert {n: vars(__import__("builtins"))[n] for n in before} == before
