"""Calls of compiled code: guards mean the same natively and in Python; results, references and errors are right."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import ctypes
import gc
import mmap
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import ndgrad
from ndgrad import Tensor
from ndgrad._src.compiler.native import calls, layout, target
from ndgrad._src.compiler.native.calls import (
    MISS,
    Fresh,
    Guard,
    NativeEntry,
    PythonEntry,
    Returned,
    Same,
    Scratch,
    Specialisation,
    Wrapping,
)
from ndgrad._src.compiler.native.guards import Apart, ArrayAt, Equal, Is, Keys, Length, NumberAt, Place
from ndgrad._src.compiler.native.tensor_guards import TensorAt
from ndgrad._src.core.variable import requires_grad
from ndgrad._src.core.versions import InferenceStorage

native = pytest.mark.skipif(layout.problem() is not None, reason=str(layout.problem()))

f32, f64, i64 = np.dtype("f4"), np.dtype("f8"), np.dtype("i8")
WRAPPING = Wrapping(Tensor, "_array", ("_node", "_storage", "_meta"))

#: Kernels: `nothing`; `add` of the first elements of two inputs into the third; `fail` with 7; `raises` a Python error
#: of the class and text that its pointers are; `sleep` for 0.2 s; `alone` writes to its scratch memory (the last of two
#: pointers), waits, and fails if another wrote.
KERNELS = """
declare i32 @usleep(i32)
declare void @PyErr_SetString(ptr, ptr)
define i64 @nothing(ptr %p) {
  ret i64 0
}
define i64 @add(ptr %p) {
  %a = load ptr, ptr %p
  %b.at = getelementptr ptr, ptr %p, i64 1
  %c.at = getelementptr ptr, ptr %p, i64 2
  %b = load ptr, ptr %b.at
  %c = load ptr, ptr %c.at
  %x = load double, ptr %a
  %y = load double, ptr %b
  %z = fadd double %x, %y
  store double %z, ptr %c
  ret i64 0
}
define i64 @add_integers(ptr %p) {
  %a = load ptr, ptr %p
  %b.at = getelementptr ptr, ptr %p, i64 1
  %c.at = getelementptr ptr, ptr %p, i64 2
  %b = load ptr, ptr %b.at
  %c = load ptr, ptr %c.at
  %x = load i64, ptr %a
  %y = load i64, ptr %b
  %z = add i64 %x, %y
  store i64 %z, ptr %c
  ret i64 0
}
define i64 @fail(ptr %p) {
  ret i64 7
}
define i64 @raises(ptr %p) {
  %class = load ptr, ptr %p
  %text.at = getelementptr ptr, ptr %p, i64 1
  %text = load ptr, ptr %text.at
  call void @PyErr_SetString(ptr %class, ptr %text)
  ret i64 1
}
define i64 @sleep(ptr %p) {
  %r = call i32 @usleep(i32 200000)
  ret i64 0
}
define i64 @alone(ptr %p) {
  %a = load ptr, ptr %p
  %s.at = getelementptr ptr, ptr %p, i64 1
  %s = load ptr, ptr %s.at
  %mine = load i64, ptr %a
  store volatile i64 %mine, ptr %s
  %r = call i32 @usleep(i32 3000)
  %now = load volatile i64, ptr %s
  %same = icmp eq i64 %now, %mine
  %place = ptrtoint ptr %s to i64
  %odd = and i64 %place, 63
  %aligned = icmp eq i64 %odd, 0
  %good = and i1 %same, %aligned
  %code = select i1 %good, i64 0, i64 9
  ret i64 %code
}
"""


@pytest.fixture(scope="module")
def kernel() -> Callable[[str], int]:
    set_error = ctypes.cast(ctypes.pythonapi.PyErr_SetString, ctypes.c_void_p).value
    assert set_error is not None
    code = target.Code(KERNELS, symbols={"PyErr_SetString": set_error})
    KEPT.append(code)
    return code.address


KEPT: list[Any] = []


def payload(argument: int) -> Place:
    return Place(argument=argument).slot(Tensor, "_array")


def both(spec: Specialisation) -> list[NativeEntry | PythonEntry]:
    entries: list[NativeEntry | PythonEntry] = [PythonEntry()]
    if layout.problem() is None:
        entries.append(NativeEntry())
    for entry in entries:
        entry.add(spec)
    return entries


@pytest.fixture
def fits(kernel: Callable[[str], int]) -> Callable[..., bool]:
    """Whether guards hold in a call: asked natively and in Python, which must agree."""

    def ask(guards: Guard | tuple[Guard, ...], *arguments: Any, **keywords: Any) -> bool:
        chosen = guards if isinstance(guards, tuple) else (guards,)
        spec = Specialisation(len(arguments), chosen, kernel("nothing"), keywords=tuple(keywords))
        answers = {entry.call(*arguments, **keywords) is None for entry in both(spec)}
        assert len(answers) == 1, (guards, arguments, keywords)
        return answers.pop()

    return ask


# ----- guards -----


def unaligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    return np.zeros(size + 1, np.uint8)[1:].view(dtype).reshape(shape)


class Sub(np.ndarray):
    pass


def test_an_array_is_taken_by_its_class_dtype_shape_and_layout(fits: Callable[..., bool]):
    guard = ArrayAt(Place(argument=0), f64, (2, 3))
    assert fits(guard, np.zeros((2, 3)))
    assert fits(guard, np.zeros((4, 3))[1:3])
    frozen = np.zeros((2, 3))
    frozen.flags.writeable = False
    assert fits(guard, frozen)
    for other in (
        np.zeros((2, 3), f32), np.zeros((2, 3), ">f8"), np.zeros((2, 3), i64), np.zeros((3, 2)), np.zeros((2, 3, 1)),
        np.zeros(6), np.array(1.0), np.zeros((3, 2)).T, np.zeros((2, 6))[:, ::2], np.zeros((2, 3))[::-1], unaligned((2,
        3), f64), np.zeros((2, 3)).view(Sub), np.ma.zeros((2, 3)), np.float64(0), 0.0, None, "x", [1.0], ndgrad.zeros(2,
        3, dtype=ndgrad.float64),
    ):  # fmt: skip
        assert not fits(guard, other)
    assert not fits(ArrayAt(Place(argument=0), f64, (2, 3), writeable=True), frozen)
    assert fits(ArrayAt(Place(argument=0), f64, (2, 3), writeable=True), frozen.copy())


def test_arrays_without_elements_or_with_single_ones(fits: Callable[..., bool]):
    assert fits(ArrayAt(Place(argument=0), f64, (0, 3)), np.zeros((0, 3)))
    assert not fits(ArrayAt(Place(argument=0), f64, (0, 3)), np.zeros((3, 0)))
    assert fits(ArrayAt(Place(argument=0), f64, (3, 1)), np.zeros((1, 3)).T)  # in C order all the same
    assert fits(ArrayAt(Place(argument=0), f64, ()), np.array(2.0))
    assert not fits(ArrayAt(Place(argument=0), f64, ()), np.float64(2.0))
    assert fits(ArrayAt(Place(argument=0), f64, (), scalar=True), np.float64(2.0))
    assert fits(ArrayAt(Place(argument=0), f64, (), scalar=True), np.array(2.0))
    assert not fits(ArrayAt(Place(argument=0), f64, (), scalar=True), np.float32(2.0))
    assert not fits(ArrayAt(Place(argument=0), f64, (), scalar=True), 2.0)


def test_an_array_of_given_strides(fits: Callable[..., bool]):
    guard = ArrayAt(Place(argument=0), f64, (2, 3), strides=(8, 16))
    assert fits(guard, np.zeros((3, 2)).T)
    assert not fits(guard, np.zeros((2, 3)))
    assert not fits(guard, np.zeros((6, 2)).T[:, ::2])
    assert fits(ArrayAt(Place(argument=0), f64, (3,), strides=(-8,)), np.zeros(3)[::-1])
    assert fits(ArrayAt(Place(argument=0), f64, (3,), strides=(0,)), np.broadcast_to(np.zeros(()), (3,)))


def test_a_tensor_is_taken_by_its_class_and_payload(fits: Callable[..., bool]):
    class Special(Tensor):
        pass

    guard = ArrayAt(payload(0), f64, (3,))
    assert fits(guard, ndgrad.zeros(3, dtype=ndgrad.float64))
    assert fits(guard, ndgrad.zeros(3, dtype=ndgrad.float64, requires_grad=True))
    others = (
        ndgrad.zeros(3, dtype=ndgrad.float32),
        ndgrad.zeros(2, dtype=ndgrad.float64),
        Special(np.zeros(3)),
        ndgrad.numpy.zeros(3),
    )
    for other in (*others, np.zeros(3), None):
        assert not fits(guard, other)
    assert not fits(guard, object.__new__(Tensor))


def test_numbers_of_any_value(fits: Callable[..., bool]):
    assert fits(NumberAt(Place(argument=0), float), 2.5)
    assert fits(NumberAt(Place(argument=0), float), float("nan"))
    for other in (2, True, np.float64(2.5), "2.5", None):
        assert not fits(NumberAt(Place(argument=0), float), other)
    for good in (0, -1, 2**63 - 1, -(2**63), 12345678901234):
        assert fits(NumberAt(Place(argument=0), int), good)
    for other in (2**63, -(2**63) - 1, 10**30, True, 2.0, np.int64(2), None):
        assert not fits(NumberAt(Place(argument=0), int), other)


VALUES = [
    0, 1, -1, 7, 300, 2**40, 2**70, -(2**70), True, False, 0.0, -0.0, 1.0, float("nan"), -float("nan"), float("inf"),
    1e-310,
    0.1 + 0.2, 0.3, "", "mean", "".join(["me", "an"]), "sum", b"", b"mean", np.float64(1.0), np.int64(1), None,
]  # fmt: skip


def test_values_are_equal_by_class_and_bits(fits: Callable[..., bool]):
    import struct

    def same(a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        return struct.pack("d", a) == struct.pack("d", b) if type(a) is float else bool(a == b)

    for wanted in VALUES[:-3]:
        for value in VALUES:
            assert fits(Equal(Place(argument=0), copy.deepcopy(wanted)), value) is same(wanted, value)


def test_only_plain_values_are_compared_by_value():
    for value in (None, (1, 2), np.float64(1.0), [1]):
        with pytest.raises(TypeError, match="not compared by its value"):
            Equal(Place(argument=0), value)  # type: ignore[arg-type]


def test_identity(fits: Callable[..., bool]):
    a, b = [1], [1]
    assert fits(Is(Place(argument=0), a), a)
    assert not fits(Is(Place(argument=0), a), b)
    assert fits(Is(Place(argument=0), a, wanted=False), b)
    assert not fits(Is(Place(argument=0), a, wanted=False), a)
    assert fits(Is(Place(argument=1), None), 1, None)


def test_lengths(fits: Callable[..., bool]):
    busy: set[int] = set()
    guard = Length(Place(object=busy), 0)
    assert fits(guard)
    busy.add(1)
    assert not fits(guard)
    assert not fits(Length(Place(argument=0), 0), [])
    assert not fits(Length(Place(argument=0), 0), 5)
    assert fits(Length(Place(argument=0), 2, tuple), (1, 2))
    assert not fits(Length(Place(argument=0), 2, tuple), (1, 2, 3))
    with pytest.raises(TypeError, match="not known without Python"):
        Length(Place(argument=0), 2, np.ndarray)


def test_memory_that_overlaps(fits: Callable[..., bool]):
    a, b = ArrayAt(Place(argument=0), f64, (4,)), ArrayAt(Place(argument=1), f64, (4,))
    guards = (a, b, Apart(0, 1, a.bytes, b.bytes))
    x = np.zeros(20)
    assert fits(guards, x[:4], x[4:8])
    assert fits(guards, x[4:8], x[:4])
    assert not fits(guards, x[:4], x[3:7])
    assert not fits(guards, x[3:7], x[:4])
    assert not fits(guards, x[:4], x[:4])
    with pytest.raises(ValueError, match="of which only 1 come before it"):
        Specialisation(2, (a, Apart(0, 1, 1, 1), b), 0)


class Scope:
    __slots__ = ("__dict__", "inner", "value")


class Layer:
    def __init__(self) -> None:
        self.parameters: Any = {"weight": 5}


class Bare:
    __slots__ = ()


def test_places_along_slots_items_attributes_cells_and_contexts(fits: Callable[..., bool]):
    outer, inner = Scope(), Scope()
    outer.inner, inner.value = inner, True
    path = Place(object=outer).slot(Scope, "inner").slot(Scope, "value")
    assert fits(Is(path, True))
    inner.value = False
    assert not fits(Is(path, True))
    assert fits(Is(path, True, wanted=False))
    del inner.value
    assert not fits(Is(path, True, wanted=False))  # nothing is there
    outer.inner = None
    assert not fits(Is(path, True, wanted=False))

    table = {"scale": 2.0, "".join(["me", "an"]): 1}
    assert fits(Equal(Place(object=table).item("scale"), 2.0))
    assert fits(Equal(Place(object=table).item("mean"), 1))
    assert not fits(Equal(Place(object=table).item("other"), 2.0))

    layer = Layer()
    weight = Place(object=layer).attributes(Layer).item("parameters").item("weight")
    assert fits(Equal(weight, 5))
    layer.parameters["weight"] = 6
    assert not fits(Equal(weight, 5))
    layer.__dict__ = {"parameters": {"weight": 5}}  # another dictionary altogether
    assert fits(Equal(weight, 5))
    layer.parameters = None
    assert not fits(Equal(weight, 5))
    del layer.parameters
    assert not fits(Equal(weight, 5))
    assert not fits(Equal(Place(object=outer).attributes(Layer).item("parameters"), 5))
    assert not fits(Length(Place(object=outer).attributes(Scope), 1, dict))
    assert not fits(Length(Place(object=Bare()).attributes(Bare), 0, dict))  # has none

    captured: Any = 3
    cell = (lambda: captured).__closure__[0]  # type: ignore[index]
    place = Place(object=cell).slot(type(cell), "cell_contents")
    assert fits(Equal(place, 3))
    cell.cell_contents = 4
    assert not fits(Equal(place, 3))
    del cell.cell_contents
    assert not fits(Equal(place, 3))

    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    place = Place(context=variable).slot(Scope, "value")
    assert not fits(Is(place, 5, wanted=False))  # nothing is there
    inner.value = 5
    variable.set(inner)
    assert fits(Is(place, 5))
    context = contextvars.copy_context()
    context.run(lambda: variable.set(outer))
    assert fits(Is(place, 5))
    assert context.run(lambda: not fits(Is(place, 5)))


def test_a_context_variable_with_a_default(fits: Callable[..., bool]):
    inner = Scope()
    inner.value = 5
    assert fits(Is(Place(context=contextvars.ContextVar("other", default=inner)).slot(Scope, "value"), 5))


def test_grad_mode_is_a_place(fits: Callable[..., bool]):
    from ndgrad._src.core import modes

    enabled = Is(Place(context=modes._variable).slot(modes.Scope, "modes").slot(modes.Modes, "grad_enabled"), True)
    idle = Length(Place(object=modes.process).slot(modes.Process, "busy"), 0)
    assert fits((enabled, idle))
    with ndgrad.no_grad():
        assert not fits(enabled)
        assert not fits(idle)


def test_a_leaf_is_told_from_a_constant_and_from_a_result(fits: Callable[..., bool]):
    from ndgrad._src.core.variable import Meta

    tensor = Place(argument=0)
    constant = (Is(tensor.slot(Tensor, "_node"), None), Is(tensor.slot(Tensor, "_meta"), None))
    leaf = (constant[0], Is(tensor.slot(Tensor, "_meta").slot(Meta, "requires_grad"), True))
    x, w = ndgrad.zeros(3), ndgrad.zeros(3, requires_grad=True)
    assert [fits(constant, t) for t in (x, w, w * 2)] == [True, False, False]
    assert [fits(leaf, t) for t in (x, w, w * 2)] == [False, True, False]
    w.requires_grad_(False)
    assert not fits(leaf, w)


def test_a_tensor_is_taken_by_all_that_programs_depend_on(fits: Callable[..., bool]):
    class Special(Tensor):
        pass

    leaf, constant = ndgrad.ones(2, 3, requires_grad=True), ndgrad.ones(2, 3)
    whole = ndgrad.ones(4, 3)
    with ndgrad.inference_mode():
        inferred = ndgrad.ones(2, 3) * 1
    late = ndgrad.ones(4, 3)
    part = late[:2]
    late.mul_(ndgrad.ones(4, 3, requires_grad=True))
    tensors = [
        leaf, constant, leaf * 2, leaf.detach(), whole[1:3], leaf[:], (leaf * 2)[:], constant.T, ndgrad.ones(3, 2).T, constant.float(),
        inferred, Special(np.ones((2, 3))), constant.array(), ndgrad.tensor(1.0), constant.sum(), leaf.sum(), whole[0, 0],
        ndgrad.nn.Parameter(constant), constant[:, :1], ndgrad.from_numpy(np.ones((2, 3))),
    ]  # fmt: skip
    for t in tensors:
        array = t._array
        guard = TensorAt(
            Place(argument=0), type(t), array.dtype, array.shape, array.strides, requires_grad(t), t._storage.__class__ is InferenceStorage
        )
        for other in (*tensors, None, 1.0, np.ones((2, 3)), object.__new__(Tensor)):
            assert fits(guard, other) is (guard.find((other,)) is not None), (t, other)
        if layout.problem() is None:  # whether a view of what has a history has one is for Python to say, so native code says no
            entry = NativeEntry()
            entry.add(Specialisation(1, (guard,), KEPT[0].address("nothing")))
            assert entry.call(part) is MISS


def test_items_of_lists_and_tuples_are_places(fits: Callable[..., bool]):
    for cls in (list, tuple):
        for n in range(4):
            values = cls(range(1000, 1000 + n))
            for i in range(5):
                assert fits(Equal(Place(argument=0).element(cls, i), 1000 + i), values) is (i < n)
        assert not fits(Is(Place(argument=0).element(cls, 0), None), {0: None})
    nested = ([1, (2, {"k": 3})],)
    assert fits(Equal(Place(argument=0).element(tuple, 0).element(list, 0), 1), nested)
    assert fits(Equal(Place(argument=0).element(tuple, 0).element(list, 1).element(tuple, 0), 2), nested)
    assert fits(Keys(Place(argument=0), ("a", "b")), {"a": 1, "b": 2})
    assert not fits(Keys(Place(argument=0), ("a", "b")), {"b": 1, "a": 2})
    assert not fits(Keys(Place(argument=0), ("a", "b")), {"a": 1})
    assert not fits(Keys(Place(argument=0), ()), [])


def test_what_is_no_slot_is_refused():
    class Plain:
        def __init__(self) -> None:
            self.value = 1

        @property
        def other(self) -> int:
            return 2

    for name in ("value", "other", "nothing"):
        with pytest.raises(TypeError, match="no slot of the class"):
            layout.slot_offset(Plain, name)
    with pytest.raises(TypeError, match="of another kind"):
        layout.slot_offset(complex, "real")
    with pytest.raises(ValueError, match="at most three steps"):
        Place(argument=0).item(1).item(1).item(1).item(1)


def test_numbers_of_arguments_and_names_of_keywords(kernel: Callable[[str], int]):
    spec = Specialisation(2, (Equal(Place(argument=2), 5),), kernel("nothing"), keywords=("alpha", "beta"))
    for entry in both(spec):
        assert entry.call(1, 2, alpha=5, beta=6) is None
        assert entry.call(1, 2, alpha=6, beta=5) is MISS
        assert entry.call(1, 2, beta=5, alpha=5) is MISS  # another order is another call
        for arguments, keywords in (
            ((1, 2), {}),
            ((1, 2), {"alpha": 5}),
            ((1, 2, 5, 6), {}),
            ((1,), {"alpha": 5, "beta": 5}),
            ((), {}),
        ):
            assert entry.call(*arguments, **keywords) is MISS
    with pytest.raises(ValueError, match="about argument 2 of a call that has 2"):
        Specialisation(2, (Equal(Place(argument=2), 5),), 0)


ARGUMENTS = st.sampled_from([
    np.zeros(3), np.zeros((3, 1)), np.zeros((1, 3)), np.zeros(6)[::2], np.zeros(3, f32), np.zeros(3)[::-1],
    np.float64(1.0), np.float32(1.0), 1.0, 0.0, -0.0, 1, 0, True, None, "a", "b", np.array(1.0), ndgrad.zeros(3),
    ndgrad.zeros(3, dtype=ndgrad.float64), [1], [], (1, 2), 2**80,
])  # fmt: skip


@st.composite
def guard_lists(draw: st.DrawFn) -> tuple[int, tuple[Guard, ...]]:
    count, chosen = draw(st.integers(1, 3)), []
    for _ in range(draw(st.integers(1, 4))):
        place = Place(argument=draw(st.integers(0, count - 1)))
        if draw(st.booleans()):
            place = place.slot(Tensor, "_array")
        strides = draw(st.sampled_from([None, (8,), (16,), (8, 8)]))
        shape = draw(st.sampled_from([(3,), (3, 1), (1, 3), ()])) if strides is None else (3, 1)[: len(strides)]
        arrays = (ArrayAt(place, f64, shape, strides), ArrayAt(place, f64, (), scalar=True))
        numbers = (NumberAt(place, float), NumberAt(place, int), Equal(place, draw(st.sampled_from(VALUES[:-3]))))
        chosen.append(
            draw(
                st.sampled_from(
                    (*arrays, *numbers, Is(place, None), Is(place, True, wanted=False), Length(place, 1, list))
                )
            )
        )
    return count, tuple(chosen)


@given(guard_lists(), st.data())
def test_guards_mean_the_same_natively_and_in_python(chosen: tuple[int, tuple[Guard, ...]], data: st.DataObject):
    if not KEPT:
        KEPT.append(target.Code("define i64 @nothing(ptr %p) {\n  ret i64 0\n}\n"))
    count, guards = chosen
    entries = both(Specialisation(count, guards, KEPT[0].address("nothing")))
    for _ in range(20):
        arguments = [data.draw(ARGUMENTS) for _ in range(count)]
        assert len({entry.call(*arguments) is MISS for entry in entries}) == 1, arguments


# ----- results -----


def specialisation(kernel: int, **settings: Any) -> Specialisation:
    """Two float64 tensors of three elements."""
    return Specialisation(2, (ArrayAt(payload(0), f64, (3,)), ArrayAt(payload(1), f64, (3,))), kernel, **settings)


def tensors() -> tuple[Tensor, Tensor]:
    return ndgrad.tensor([1.5, 0, 0], dtype=ndgrad.float64), ndgrad.tensor([2.25, 0, 0], dtype=ndgrad.float64)


@pytest.mark.parametrize("release", [False, True])
def test_a_fresh_array_or_tensor(kernel: Callable[[str], int], release: bool):
    x, y = tensors()
    for entry in both(specialisation(kernel("add"), outputs=(Fresh(f64, (2, 2)),), release=release)):
        out = entry.call(x, y)
        assert type(out) is np.ndarray
        assert (out.dtype, out.shape, out.flat[0]) == (f64, (2, 2), 3.75)
        assert out.flags.c_contiguous
        assert out.flags.owndata
        assert entry.call(x, y) is not out
    for entry in both(specialisation(kernel("add"), outputs=(Fresh(f64, (), WRAPPING),), release=release)):
        out = entry.call(x, y)
        assert type(out) is Tensor
        assert (out.dtype, out.shape, out.item()) == (ndgrad.float64, (), 3.75)


def test_a_tensor_made_natively_is_a_tensor_in_every_way(kernel: Callable[[str], int]):
    x, y = tensors()
    for entry in both(specialisation(kernel("add"), outputs=(Fresh(f64, (1,), WRAPPING),))):
        out = entry.call(x, y)
        out.note = "mine"  # type: ignore[attr-defined]
        assert out.__dict__ == {"note": "mine"}
        assert weakref.ref(out)() is out
        assert gc.is_tracked(out)
        assert pickle.loads(pickle.dumps(out)).item() == copy.deepcopy(out).item() == 3.75
        out.requires_grad_()
        (out * out).sum().backward()
        assert out.grad.item() == 7.5
        cycle = out.detach().clone()
        cycle.self = cycle  # type: ignore[attr-defined]
        alive = weakref.ref(cycle)
        del cycle
        gc.collect()
        assert alive() is None


def test_none_one_and_several(kernel: Callable[[str], int]):
    x, y = tensors()
    kept = np.zeros(3)
    add, nothing = kernel("add"), kernel("nothing")
    address = kept.ctypes.data
    for entry in both(specialisation(nothing)):
        assert entry.call(x, y) is None
    for entry in both(specialisation(nothing, as_tuple=True)):
        assert entry.call(x, y) == ()
    for entry in both(specialisation(add, outputs=(Same(kept, address),))):
        kept[:] = 0
        assert entry.call(x, y) is kept
        assert kept[0] == 3.75
    for entry in both(
        specialisation(add, outputs=(Returned(1), Same(kept, address), Fresh(f32, (2,)), Returned(0)), as_tuple=True)
    ):
        out = entry.call(x, y)
        assert out[0] is y
        assert out[1] is kept
        assert (out[2].dtype, out[2].shape) == (f32, (2,))
        assert out[3] is x
    with pytest.raises(ValueError, match="2 outputs need as_tuple"):
        specialisation(nothing, outputs=(Returned(0), Returned(1)))
    with pytest.raises(ValueError, match="no argument of a call that has 2"):
        specialisation(nothing, outputs=(Returned(2),))


def test_numbers_scalars_and_fixed_addresses_reach_the_kernel(kernel: Callable[[str], int]):
    x = np.array([1.5])
    first = ArrayAt(Place(argument=0), f64, (1,))
    out = np.zeros(1)
    fixed = (out.ctypes.data,)
    for entry in both(
        Specialisation(2, (first, NumberAt(Place(argument=1), float)), kernel("add"), (Fresh(f64, (1,)),))
    ):
        for value in (2.0, -1e300, 5e-324):
            assert entry.call(x, value)[0] == 1.5 + value
    for entry in both(
        Specialisation(2, (first, ArrayAt(Place(argument=1), f64, (), scalar=True)), kernel("add"), fixed=fixed)
    ):
        assert entry.call(x, np.float64(2.5)) is None
        assert out[0] == 4.0
        assert entry.call(x, np.array(4.5)) is None
        assert out[0] == 6.0
    both_int = (NumberAt(Place(argument=0), int), NumberAt(Place(argument=1), int))
    for entry in both(Specialisation(2, both_int, kernel("add_integers"), (Fresh(i64, ()),))):
        for a, b in ((1, 2), (2**62, -(2**63)), (-5, 2**40)):
            assert entry.call(a, b) == a + b


# ----- several specialisations, fallback -----


def test_specialisations_are_tried_in_order_and_the_fallback_last(kernel: Callable[[str], int]):
    x, y = tensors()
    for kind in (NativeEntry, PythonEntry) if layout.problem() is None else (PythonEntry,):
        entry = kind(fallback=lambda *a, **k: (a, k), name="f")
        assert entry.call(x, y, z=1) == ((x, y), {"z": 1})
        entry.add(specialisation(kernel("nothing")))
        assert entry.call(x, y) is None
        entry.add(Specialisation(1, (Equal(Place(argument=0), 3),), kernel("nothing"), (Returned(0),)))
        assert entry.call(3) == 3
        assert entry.call(4) == ((4,), {})
        entry.add(specialisation(kernel("nothing"), outputs=(Returned(0),)), first=True)
        assert entry.call(x, y) is x
        assert entry.hits == [1, 1, 1]


def test_an_error_of_the_fallback_is_the_error_of_the_call(kernel: Callable[[str], int]):
    def fallback(*_: Any) -> None:
        raise LookupError("mine")

    for entry in (calls.make_entry(fallback=fallback), PythonEntry(fallback)):
        with pytest.raises(LookupError, match="mine"):
            entry.call(1)


def test_without_native_access_python_does_the_same(kernel: Callable[[str], int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(layout, "problem", lambda: "a reason")
    entry = calls.make_entry([specialisation(kernel("add"), outputs=(Fresh(f64, (1,), WRAPPING),))])
    assert isinstance(entry, PythonEntry)
    assert entry.call(*tensors()).item() == 3.75


@native
def test_the_layout_is_found_wrong_when_it_is(monkeypatch: pytest.MonkeyPatch):
    offsets, flags = (
        ("CLASS", "FLOAT", "SCALAR", "CELL", "DATA", "NDIM", "FLAGS", "DTYPE", "LENGTH", "ITEMS"),
        ("ALIGNED", "C_CONTIGUOUS", "WRITEABLE"),
    )
    for name in (*offsets, *flags, "_ABI", "_SLOT"):
        with monkeypatch.context() as patch:
            right = getattr(layout, name)
            patch.setattr(layout, name, right + 8 if name in offsets else right * 2)
            layout.slot_offset.cache_clear()
            assert layout.problem.__wrapped__() is not None, name
    layout.slot_offset.cache_clear()
    assert layout.problem.__wrapped__() is None


# ----- errors and references -----


def test_a_kernel_that_fails(kernel: Callable[[str], int]):
    x, y = tensors()
    text = ctypes.create_string_buffer(b"from the kernel")
    fixed = (id(ZeroDivisionError), ctypes.addressof(text))
    raises = Specialisation(0, (), kernel("raises"), (), fixed=fixed, release=False)
    for entry in both(specialisation(kernel("fail"), outputs=(Fresh(f64, (1,), WRAPPING),))):
        with pytest.raises(RuntimeError, match="compiled code failed with code 7"):
            entry.call(x, y)
    for entry in both(raises):
        with pytest.raises(ZeroDivisionError, match="from the kernel"):
            entry.call()


def test_outputs_for_which_there_is_no_memory(kernel: Callable[[str], int]):
    x, y = tensors()
    outputs = (Fresh(f64, (2,)), Fresh(f64, (1 << 50,)), Fresh(f64, (2,), WRAPPING))
    for entry in both(specialisation(kernel("nothing"), outputs=outputs, as_tuple=True)):
        with pytest.raises(MemoryError):
            entry.call(x, y)


def _memory() -> int:
    """The resident memory of the process in bytes, or 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


@native
def test_references_and_memory_after_many_calls(kernel: Callable[[str], int]):
    x, y = tensors()
    kept = np.zeros(3)
    text, cls = ctypes.create_string_buffer(b"no"), ValueError
    dtype = np.dtype([("a", "f8")])  # one of its own, whose references can be counted
    outputs = (Fresh(f64, (300,), WRAPPING), Fresh(dtype, (5,)), Same(kept, kept.ctypes.data), Returned(0))
    entries = [
        NativeEntry(), NativeEntry(fallback=lambda *_: None), *(both(spec)[1] for spec in (
            specialisation(kernel("nothing")), specialisation(kernel("nothing"), outputs=outputs, as_tuple=True,
            scratch=Scratch(100)), specialisation(kernel("fail"), outputs=outputs, as_tuple=True),
            specialisation(kernel("nothing"), outputs=(Fresh(dtype, (5,)), Fresh(f64, (1 << 50,))), as_tuple=True),
            specialisation(kernel("raises"), outputs=(Returned(0),), fixed=(id(cls), ctypes.addressof(text)),
            release=False),
        )),
    ]  # fmt: skip
    entries[-1].add(Specialisation(2, (), kernel("nothing")), first=True)
    watched = [x, y, x._array, y._array, kept, dtype, None, MISS, Tensor, np.ndarray, f64, cls, RuntimeError]

    def run(times: int) -> None:
        for entry in entries:
            call = entry.call
            for _ in range(times):
                with contextlib.suppress(RuntimeError, MemoryError):
                    call(x, y)

    run(10_000)
    gc.collect()
    before, memory = [sys.getrefcount(w) for w in watched], _memory()
    run(60_000)
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    for object, a, b in zip(watched, before, after):
        assert abs(a - b) < 50, object  # None and the classes belong to all of Python
    assert before[:6] == after[:6]
    assert _memory() - memory < 4 << 20


@native
def test_guards_that_miss_leave_no_references_and_no_errors(kernel: Callable[[str], int]):
    x, _ = tensors()
    array, scope = np.zeros(3), Scope()
    scope.value = array
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("v", default=scope)
    table = {"a": array}
    arrays = (
        ArrayAt(Place(context=variable).slot(Scope, "value"), f64, (3,)), ArrayAt(Place(object=table).item("a"), f64,
        (3,)), ArrayAt(payload(0), f64, (3,)), Length(Place(object=table), 1, dict), Equal(Place(argument=1), "word"),
    )  # fmt: skip
    entry = NativeEntry()
    entry.add(Specialisation(2, arrays, kernel("nothing")))
    entry.add(Specialisation(2, (*arrays[:3], NumberAt(Place(argument=1), float)), kernel("nothing")))
    word = "".join(["wo", "rd"])
    layer = Layer()
    entry.add(
        Specialisation(2, (Is(Place(object=layer).attributes(Layer).item("parameters"), None),), kernel("nothing"))
    )
    watched = [x, array, scope, table, word, variable, layer, layer.__dict__]
    before = [sys.getrefcount(w) for w in watched]
    for _ in range(1000):
        assert entry.call(x, word) is None
        assert entry.call(x, 5) is MISS  # after pointers have been given
    assert [sys.getrefcount(w) for w in watched] == before


def test_what_an_entry_holds_goes_with_its_builtin(kernel: Callable[[str], int]):
    class Thing:
        pass

    for kind in (NativeEntry, PythonEntry) if layout.problem() is None else (PythonEntry,):
        thing, wanted = Thing(), Thing()
        alive = [weakref.ref(thing), weakref.ref(wanted)]
        entry = kind()
        entry.add(Specialisation(1, (Is(Place(argument=0), wanted, wanted=False),), kernel("nothing"), keeps=(thing,)))
        call = entry.call
        del thing, wanted, entry
        assert all(
            ref() is not None for ref in alive
        )  # an address that a guard compares with must not be somebody else's
        assert call(1) is None
        del call
        assert all(ref() is None for ref in alive)  # without the collector


def test_what_a_specialisation_holds_goes_when_it_is_removed(kernel: Callable[[str], int]):
    class Thing:
        pass

    for kind in (NativeEntry, PythonEntry) if layout.problem() is None else (PythonEntry,):
        entry, specs, alive = kind(), [], []
        for number in range(3):
            thing = Thing()
            alive.append(weakref.ref(thing))
            specs.append(
                Specialisation(
                    1, (Equal(Place(argument=0), number),), kernel("nothing"), (Returned(0),), keeps=(thing,)
                )
            )
            entry.add(specs[-1])
            del thing
        assert [entry.call(number) for number in range(4)] == [0, 1, 2, MISS]
        entry.remove(specs.pop(1))
        assert [ref() is None for ref in alive] == [False, True, False]
        assert [entry.call(number) for number in range(4)] == [0, MISS, 2, MISS]
        assert entry.hits == [2, 2]
        entry.remove(specs.pop())
        entry.remove(specs.pop())
        assert all(ref() is None for ref in alive)
        assert [entry.call(number) for number in range(3)] == [MISS, MISS, MISS]
        assert entry.hits == []


# ----- threads and processes -----


@native
def test_other_threads_run_while_the_kernel_does(kernel: Callable[[str], int]):
    entry = NativeEntry()
    entry.add(Specialisation(0, (), kernel("sleep")))
    count = 0
    thread = threading.Thread(target=entry.call)
    thread.start()
    while thread.is_alive():
        count += 1
        time.sleep(0.001)
    thread.join()
    assert count > 5


@native
def test_a_payload_that_is_replaced_during_the_kernel_lives_on(kernel: Callable[[str], int]):
    x, y = tensors()
    entry = NativeEntry()
    entry.add(specialisation(kernel("sleep")))
    alive = weakref.ref(x._array)
    thread = threading.Thread(target=entry.call, args=(x, y))
    thread.start()
    time.sleep(0.05)
    x._array = np.zeros(3)
    assert alive() is not None
    thread.join()
    assert alive() is None


@native
def test_calls_at_once_have_scratch_memory_of_their_own(kernel: Callable[[str], int]):
    entry = NativeEntry()
    entry.add(Specialisation(1, (NumberAt(Place(argument=0), int),), kernel("alone"), scratch=Scratch(1000)))
    failed: list[Any] = []

    def call(number: int) -> None:
        try:
            for _ in range(10):
                entry.call(number)
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert entry.hits == [40]


@native
def test_specialisations_are_added_while_calls_run(kernel: Callable[[str], int]):
    entry = NativeEntry(fallback=lambda *_: "missed")
    entry.add(Specialisation(0, (), kernel("sleep")))
    thread = threading.Thread(target=entry.call)
    thread.start()
    for number in range(100):
        entry.add(
            Specialisation(1, (Equal(Place(argument=0), number),), kernel("nothing"), (Returned(0),)),
            first=bool(number % 2),
        )
        assert entry.call(number) == number
    assert entry.call(100) == "missed"
    thread.join()
    assert sorted(entry.hits)[-2:] == [1, 1]


@native
def test_a_specialisation_that_is_removed_during_a_call_stays_until_the_call_ends(kernel: Callable[[str], int]):
    kept = np.zeros(1)
    alive = weakref.ref(kept)
    entry = NativeEntry()
    spec = Specialisation(
        0, (), kernel("sleep"), (Fresh(f64, (2,), WRAPPING), Same(None, 0)), keeps=(kept,), as_tuple=True
    )
    entry.add(spec)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(entry.call()))
    thread.start()
    while not entry.hits[0]:
        time.sleep(0.001)
    entry.remove(spec)
    del spec, kept
    assert entry.call() is MISS
    assert alive() is not None
    thread.join()
    assert results[0][0].shape == (2,)
    entry.add(Specialisation(0, (), kernel("nothing")))
    assert alive() is None
    assert entry.call() is None


@native
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_calls(kernel: Callable[[str], int]):
    x, y = tensors()
    entry = NativeEntry()
    entry.add(specialisation(kernel("add"), outputs=(Fresh(f64, (1,), WRAPPING),)))
    child = os.fork()
    if child == 0:
        os._exit(int(entry.call(x, y).item() * 4))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 15
