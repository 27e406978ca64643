"""Builtins of generated code: inputs are accepted as Python would, results, references and errors are right."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import ctypes
import gc
import mmap
import os
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.native import c_interface, target
from ndgrad._src.compiler.native.calls import (
    Check,
    Input,
    Output,
    Scratch,
    absent,
    address_reader,
    make_call,
    make_comparison,
    make_fill,
)

pytestmark = pytest.mark.skipif(c_interface.problem() is not None, reason=str(c_interface.problem()))

f32, f64, i64 = np.dtype("f4"), np.dtype("f8"), np.dtype("i8")

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
    code = target.Code(KERNELS, symbols={"PyErr_SetString": c_interface.python_function("PyErr_SetString")})
    KEPT.append(code)
    return code.address


KEPT: list[Any] = []


@pytest.fixture
def fits(kernel: Callable[[str], int]) -> Callable[..., bool]:
    """Whether a call accepts arrays."""

    def ask(inputs: Input | tuple[Input, ...], *arrays: Any, are_apart: bool = False) -> bool:
        chosen = inputs if isinstance(inputs, tuple) else (inputs,)
        found = make_call("nothing", chosen, (), kernel("nothing"), are_apart=are_apart)(*arrays)
        assert found in ((), None)
        return found is not None

    return ask


# ----- inputs -----


def unaligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    return np.zeros(size + 1, np.uint8)[1:].view(dtype).reshape(shape)


class Sub(np.ndarray):
    pass


def test_an_array_is_accepted_by_its_class_dtype_shape_and_layout(fits: Callable[..., bool]):
    kind = Input(f64, (2, 3))
    assert fits(kind, np.zeros((2, 3)))
    assert fits(kind, np.zeros((4, 3))[1:3])
    frozen = np.zeros((2, 3))
    frozen.flags.writeable = False
    assert fits(kind, frozen)
    for other in (
        np.zeros((2, 3), f32), np.zeros((2, 3), ">f8"), np.zeros((2, 3), i64), np.zeros((3, 2)), np.zeros((2, 3, 1)),
        np.zeros(6), np.array(1.0), np.zeros((3, 2)).T, np.zeros((2, 6))[:, ::2], np.zeros((2, 3))[::-1],
        unaligned((2, 3), f64), np.zeros((2, 3)).view(Sub), np.ma.zeros((2, 3)), np.float64(0), 0.0, None, "x", [1.0],
        memoryview(np.zeros((2, 3))), np.broadcast_to(np.zeros(3), (2, 3)),
    ):  # fmt: skip
        assert not fits(kind, other)
    assert not fits(Input(f64, (2, 3), is_written=True), frozen)
    assert fits(Input(f64, (2, 3), is_written=True), frozen.copy())
    assert not fits(kind)
    assert not fits(kind, np.zeros((2, 3)), np.zeros((2, 3)))


def test_arrays_without_elements_and_scalars(fits: Callable[..., bool]):
    assert fits(Input(f64, (0, 3)), np.zeros((0, 3)))
    assert not fits(Input(f64, (0, 3)), np.zeros((3, 0)))
    assert fits(Input(f64, ()), np.array(2.0))
    assert fits(Input(f64, ()), np.float64(2.0))
    assert not fits(Input(f64, (), is_written=True), np.float64(2.0))
    assert not fits(Input(f64, ()), np.float32(2.0))
    assert not fits(Input(f64, ()), 2.0)
    for scalar in (np.bool_(True), np.int8(1), np.uint64(1), np.float16(1), np.complex64(1), np.complex128(1)):
        assert fits(Input(scalar.dtype, ()), scalar)


def test_strides_of_single_elements_are_compared_if_they_matter(fits: Callable[..., bool]):
    odd = np.zeros((4, 2))[::2][:1, :1]
    assert odd.flags.c_contiguous
    assert odd.strides == (32, 8)
    assert fits(Input(f64, (1, 1)), odd)
    assert not fits(Input(f64, (1, 1), (8, 8)), odd)
    assert fits(Input(f64, (1, 1), (32, 8)), odd)
    assert fits(Input(f64, (3, 1)), np.zeros((1, 3)).T)
    assert not fits(Input(f64, (3, 1), (8, 8)), np.zeros((1, 3)).T)


SHAPES = [(), (1,), (3,), (2, 3), (3, 2), (1, 3), (3, 1), (0, 3), (2, 1, 3)]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    made = np.zeros(draw(st.sampled_from(SHAPES)), draw(st.sampled_from(["f8", "f4", "i8", ">f8", "?"])))
    how = draw(st.sampled_from(["whole", "transposed", "reversed", "part", "frozen", "wide"]))
    if how == "frozen":
        made.flags.writeable = False
    if how == "wide":
        made = np.repeat(made[..., None], 2, -1)[..., 0]
    elif made.ndim and how != "whole" and how != "frozen":
        made = {"transposed": made.T, "reversed": made[::-1], "part": made[:1]}[how]
    return made


@given(arrays(), arrays(), st.booleans(), st.booleans())
def test_an_array_fits_if_and_only_if_numpy_says_so(
    kernel: Callable[[str], int], like: Any, array: Any, exact: bool, written: bool
):
    same = array.dtype == like.dtype and array.shape == like.shape and array.flags.c_contiguous
    wanted = same and (not exact or array.strides == like.strides) and (not written or array.flags.writeable)
    if like.dtype is not np.dtype(like.dtype.str):  # only dtypes of programs, of which there is one object each
        return
    kind = Input(like.dtype, like.shape, like.strides if exact and like.flags.c_contiguous else None, written)
    if exact and not like.flags.c_contiguous:
        wanted = same and (not written or array.flags.writeable)
    found = make_call("nothing", [kind], (), kernel("nothing"))(array)
    assert (found is not None) is wanted


def test_a_change_of_shape_or_dtype_in_place_is_noticed(fits: Callable[..., bool]):
    array = np.zeros(6)
    assert fits(Input(f64, (6,)), array)
    array.resize((3, 2), refcheck=False)
    assert not fits(Input(f64, (6,)), array)
    assert fits(Input(f64, (3, 2)), array)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4)), min_size=1, max_size=8), st.permutations(range(8)))
def test_inputs_are_apart_if_no_two_share_memory(
    kernel: Callable[[str], int], parts: list[tuple[int, int]], order: list[int]
):
    memory = np.zeros(40)
    views = [memory[start : start + size] for start, size in parts if size]
    call = make_call("n", [Input(f64, v.shape) for v in views], (), kernel("nothing"), are_apart=True)
    alone = not any(np.may_share_memory(a, b) for i, a in enumerate(views) for b in views[:i])
    for _ in range(2):
        assert (call(*views) is not None) is alone
    moved = [np.zeros(v.shape) for v in views]  # in another order, the kept one is not right at first
    assert call(*moved) is not None
    assert (call(*views) is not None) is alone


# ----- results and errors -----


@pytest.mark.parametrize("release", [False, True])
def test_fresh_arrays(kernel: Callable[[str], int], release: bool):
    kinds = [Input(f64, (1,)), Input(f64, ())]
    add = make_call("add", kinds, [Output(f64, (1,)), Output(f32, (2, 0, 3))], kernel("add"), release=release)
    first, second = add(np.array([1.5]), np.float64(2.25)), add(np.array([1.0]), np.array(2.0))
    assert first is not None
    assert second is not None
    assert [a.tolist() for a in (first[0], second[0])] == [[3.75], [3.0]]
    assert (first[1].shape, first[1].dtype) == ((2, 0, 3), f32)
    for array in (*first, *second):
        assert type(array) is np.ndarray
        assert array.base is None
        assert array.flags.owndata
        assert array.flags.writeable
    assert not np.shares_memory(first[0], second[0])


def test_fixed_addresses_come_after_outputs(kernel: Callable[[str], int]):
    a, b, c = np.array([1.0]), np.array([2.0]), np.zeros(1)
    fixed = [x.ctypes.data for x in (a, b, c)]
    assert make_call("add", [], [], kernel("add"), fixed, keeps=(a, b, c))() == ()
    assert c[0] == 3


def test_a_kernel_that_fails(kernel: Callable[[str], int]):
    with pytest.raises(RuntimeError, match="compiled code failed with code 7"):
        make_call("fail", [], [Output(f64, (1,))], kernel("fail"))()
    text = ctypes.create_string_buffer(b"from the kernel")
    fixed = (id(ZeroDivisionError), ctypes.addressof(text))
    with pytest.raises(ZeroDivisionError, match="from the kernel"):
        make_call("raises", [], [], kernel("raises"), fixed, release=False)()


def test_outputs_for_which_there_is_no_memory(kernel: Callable[[str], int]):
    outputs = [Output(f64, (2,)), Output(f64, (1 << 50,))]
    with pytest.raises(MemoryError):
        make_call("nothing", [], outputs, kernel("nothing"))()


def _memory() -> int:
    """The resident memory of the process in bytes, or 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        return 0


def test_references_and_memory_after_many_calls(kernel: Callable[[str], int]):
    x, y = np.zeros(3), np.zeros((3, 1))
    dtype = np.dtype([("a", "f8")])  # one of its own, whose references can be counted
    text, cls = ctypes.create_string_buffer(b"no"), ValueError
    kinds, outputs = [Input(f64, (3,)), Input(f64, (3, 1), (8, 8))], [Output(f64, (300,)), Output(dtype, (5,))]
    fixed = (id(cls), ctypes.addressof(text))
    calls = [
        make_call("works", kinds, outputs, kernel("nothing"), scratch=Scratch(100), are_apart=True),
        make_call("fails", kinds, outputs, kernel("fail")),
        make_call("has no memory", kinds, [Output(dtype, (5,)), Output(f64, (1 << 50,))], kernel("nothing")),
        make_call("does not fit", [kinds[0], Input(f64, (3, 1), (16, 8))], outputs, kernel("nothing")),
    ]
    raises = make_call("raises", [], [], kernel("raises"), fixed, release=False)
    watched = [x, y, dtype, None, np.ndarray, f64, cls, RuntimeError]

    def run(times: int) -> None:
        for call in calls:
            for _ in range(times):
                with contextlib.suppress(RuntimeError, MemoryError):
                    call(x, y)
        for _ in range(times):
            with contextlib.suppress(cls):
                raises()

    run(5_000)
    gc.collect()
    before, memory = [sys.getrefcount(w) for w in watched], _memory()
    run(20_000)
    gc.collect()
    after = [sys.getrefcount(w) for w in watched]
    for object, a, b in zip(watched, before, after, strict=True):
        assert abs(a - b) < 50, object  # None and the classes belong to all of Python
    assert before[:3] == after[:3]
    assert _memory() - memory < 4 << 20


def test_a_builtin_keeps_what_its_table_names(kernel: Callable[[str], int]):
    class Thing:
        pass

    thing = Thing()
    alive = weakref.ref(thing)
    for made in (
        make_call("nothing", [], [], kernel("nothing"), keeps=(thing,)),
        make_comparison([Check.items([thing], [thing])]),
    ):
        del thing
        assert alive() is not None
        made()
        thing = alive()
    del thing, made
    assert alive() is None  # without the collector


# ----- captured state -----


class Slotted:
    __slots__ = ("first", "second")


def test_every_kind_of_check_notices_a_change_and_its_end():
    """Each entry: a check, a change, and the way back."""
    one, two = object(), object()

    def function(a: Any = 1, *, b: Any = 2) -> Any:
        return a

    def other() -> None: ...

    code, defaults, keywords = function.__code__, function.__defaults__, function.__kwdefaults__
    cell: Any = types.CellType(one)
    slotted: Any = Slotted()
    slotted.first = one
    items, table, busy, array = [one, two], {"a": one, "b": two}, set[int](), np.arange(5.0)
    grown: Any = collections.defaultdict(int)
    cases: list[tuple[Check, Callable[[], Any], Callable[[], Any]]] = [
        (Check.borrowed_result("PyFunction_GetDefaults", function, defaults), lambda: setattr(function, "__defaults__", None),
         lambda: setattr(function, "__defaults__", defaults)),
        (Check.borrowed_result("PyFunction_GetKwDefaults", function, keywords),
         lambda: setattr(function, "__kwdefaults__", {"b": 2}), lambda: setattr(function, "__kwdefaults__", keywords)),
        (Check.borrowed_result("PyFunction_GetDefaults", other, absent), lambda: setattr(other, "__defaults__", (1,)),
         lambda: setattr(other, "__defaults__", None)),
        (Check.new_result("PyCell_Get", cell, one), lambda: setattr(cell, "cell_contents", two),
         lambda: setattr(cell, "cell_contents", one)),
        (Check.new_result("PyCell_Get", cell, one), lambda: delattr(cell, "cell_contents"),
         lambda: setattr(cell, "cell_contents", one)),
        (Check.attribute(slotted, "first", one), lambda: delattr(slotted, "first"), lambda: setattr(slotted, "first", one)),
        (Check.attribute(slotted, "second", absent), lambda: setattr(slotted, "second", one),
         lambda: delattr(slotted, "second")),
        (Check.attribute(grown, "default_factory", int), lambda: setattr(grown, "default_factory", float),
         lambda: setattr(grown, "default_factory", int)),
        (Check.items(items, [one, two]), lambda: items.append(one), lambda: items.pop()),
        (Check.items(items, [one, two]), lambda: items.reverse(), lambda: items.reverse()),
        (Check.entry(table, "a", one), lambda: table.update(a=two), lambda: table.update(a=one)),
        (Check.entry(table, "c", absent), lambda: table.update(c=two), lambda: table.pop("c")),
        (Check.entries(table, ["a", "b"], [one, two]), lambda: table.update(b=one), lambda: table.update(b=two)),
        (Check.entries(table, ["a", "b"], [one, two]), lambda: table.update(a=table.pop("a")),
         lambda: table.update(b=table.pop("b"))),
        (Check.keys(table, ["a", "b"]), lambda: table.update(c=one), lambda: table.pop("c")),
        (Check.length(busy, 0), lambda: busy.add(1), lambda: busy.clear()),
        (Check.content(array, array.tobytes()), lambda: array.__setitem__(4, 7.0), lambda: array.__setitem__(4, 4.0)),
        (Check.content(array, array.tobytes()), lambda: array.__setitem__(0, -0.0), lambda: array.__setitem__(0, 0.0)),
    ]  # fmt: skip
    assert make_comparison([check for check, _, _ in cases])()
    for check, change, undo in cases:
        unchanged = make_comparison([check])
        assert unchanged() is True
        change()
        assert unchanged() is False
        undo()
        assert unchanged() is True
    function.__code__ = other.__code__
    assert not make_comparison([Check.borrowed_result("PyFunction_GetCode", function, code)])()
    unchanged = make_comparison([Check.namespace(slotted, {})])
    assert unchanged() is False  # an object without a namespace is no error
    with pytest.raises(TypeError, match="plain string"):
        Check.entry(table, 1, one)  # type: ignore[arg-type]


def test_a_context_variable_is_compared_in_the_context_of_the_call():
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    one, two = object(), object()
    unchanged = make_comparison([Check.variable(variable, one)])
    assert not unchanged()  # without a value
    variable.set(one)
    assert unchanged()
    context = contextvars.copy_context()
    context.run(variable.set, two)
    assert unchanged()
    assert not context.run(unchanged)
    assert make_comparison([Check.variable(contextvars.ContextVar("other", default=one), one)])()


def test_a_replaced_namespace_and_class_are_noticed():
    class First:
        pass

    class Second:
        pass

    thing: Any = First()
    own = thing.__dict__
    unchanged = make_comparison([Check.new_result("PyObject_Type", thing, First), Check.namespace(thing, own)])
    assert unchanged()
    thing.__dict__ = dict(own)
    assert not unchanged()
    thing.__dict__ = own
    assert unchanged()
    thing.__class__ = Second
    assert not unchanged()


def test_missing_entries_are_filled_together_or_not_at_all():
    fill = make_fill("grad")
    first: dict[str, Any] = {}
    second: dict[str, Any] = {"grad": None, "other": 1}
    assert fill(first, 5, second, 6) is True
    assert (first, second) == ({"grad": 5}, {"grad": 6, "other": 1})
    third: dict[str, Any] = {}
    assert fill(third, 7, first, 8) is False
    assert (third, first) == ({}, {"grad": 5})


def test_addresses_are_those_of_first_elements():
    x = np.zeros((3, 4))
    views = (x, x[1:], x.T, x[::-1, ::2], np.array(2.0), np.zeros((0, 2), np.float32))
    assert address_reader()(*views) == tuple(v.__array_interface__["data"][0] for v in views)
    assert address_reader()() == ()
    with pytest.raises(TypeError):
        address_reader()(x, None)
    before = sys.getrefcount(x)
    for _ in range(100):
        with contextlib.suppress(TypeError):
            address_reader()(x, None)
    assert sys.getrefcount(x) == before


# ----- threads and processes -----


def test_other_threads_run_while_the_kernel_does(kernel: Callable[[str], int]):
    count = 0
    thread = threading.Thread(target=make_call("sleep", [], [], kernel("sleep")))
    thread.start()
    while thread.is_alive():
        count += 1
        time.sleep(0.001)
    thread.join()
    assert count > 5


def test_calls_at_once_have_scratch_memory_of_their_own(kernel: Callable[[str], int]):
    call = make_call("alone", [Input(i64, ())], [], kernel("alone"), scratch=Scratch(1000))
    failed: list[Any] = []
    done: list[Any] = []

    def work(number: int) -> None:
        try:
            for _ in range(10):
                done.append(call(np.int64(number)))
        except RuntimeError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert done == [()] * 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_calls(kernel: Callable[[str], int]):
    add = make_call("add", [Input(f64, ())] * 2, [Output(f64, ())], kernel("add"))
    child = os.fork()
    if child == 0:
        found = add(np.array(1.5), np.array(2.25))
        os._exit(0 if found is None else int(found[0] * 4))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 15
