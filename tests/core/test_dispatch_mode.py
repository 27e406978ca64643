"""Dispatch modes and function modes beyond torch: our own names, NumPy's namespace, factories, transforms, faults."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.op_observers import InPlaceForm, Recording, observing
from ndgrad.overrides import BaseTorchFunctionMode, FunctionMode, get_overridable_functions, resolve_name
from ndgrad.utils._python_dispatch import DispatchMode

A = np.array([0.3, -1.2, 2.0])


class Log(DispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_every_op_of_a_training_step_is_seen_and_nothing_changes():
    def step():
        w, x = ndgrad.tensor(np.outer(A, A), requires_grad=True), ndgrad.tensor(A)
        loss = ((w @ x).tanh() ** 2).sum()
        loss.backward()
        return w.grad.numpy()

    plain = step()
    with Log() as log:
        seen = step()
    assert np.array_equal(plain, seen)
    assert log.names[:3] == ["matmul", "tanh", "pow"]
    assert len(log.names) > 8  # includes the ops of backward


def test_the_in_place_form_is_an_op_of_its_own():
    calls = []

    class Keep(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append((func, args))
            return func(*args, **(kwargs or {}))

    x = ndgrad.tensor(A, requires_grad=True)
    h = x * 1.0
    with Keep():
        h.mul_(3.0)
        h[0] = 5.0
    assert [f.name for f, _ in calls] == ["mul_", "getitem", "copy_"]
    assert isinstance(calls[0][0], InPlaceForm)
    assert calls[0][1][0] is h
    assert h._version == 2
    h.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0, 3.0]


def test_factories_are_seen_and_may_be_answered():
    class Sevens(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            if func.__name__ == "zeros":
                return ndgrad.tensor(np.full(args[0], 7.0, kwargs["dtype"]))
            return func(*args, **(kwargs or {}))

    with Log() as log:
        ndgrad.zeros(2), ndgrad.ones(2, 3), ndgrad.arange(4.0), ndgrad.full((2,), 3.0), ndgrad.eye(2), ndgrad.zeros_like(ndgrad.tensor(A))
    assert log.names == ["zeros", "ones", "arange", "full", "eye", "zeros_like"]
    with Log() as log, Sevens():
        assert ndgrad.zeros(2).tolist() == [7.0, 7.0]
        assert ndgrad.ones(2).tolist() == [1.0, 1.0]
    assert log.names == ["ones"]


def test_an_answer_of_the_wrong_kind_is_refused():
    class Wrong(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            return ndgrad.tensor(A)

    with Wrong(), pytest.raises(RuntimeError, match=r"shape \(3,\).*zeros.*shape \(2,\)"):
        ndgrad.zeros(2)


def test_numpys_class_is_seen():
    with Log() as log:
        y = dnp.array(A).sin() * 2.0
    assert log.names == ["sin", "mul"]
    assert isinstance(y, dnp.Array)


def test_a_mode_under_grad_and_vmap_sees_ops_on_the_whole_batch():
    shapes = []

    class Shapes(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            shapes.append((func.__name__, tuple(args[0].shape)))
            return func(*args, **(kwargs or {}))

    with Shapes():
        found = ndgrad.func.vmap(ndgrad.func.grad(lambda x: x.sin()))(ndgrad.tensor(A))
    assert np.allclose(found.numpy(), np.cos(A))
    assert ("sin", (3,)) in shapes


def test_a_mode_belongs_to_its_thread():
    names = []

    def work():
        names.append(len(thread.observers))

    with Log():
        t = threading.Thread(target=work)
        t.start()
        t.join()
    assert names == [0]


def test_an_exception_in_a_mode_leaves_everything_as_it_was():
    class Fails(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    busy = len(process.busy)
    x = ndgrad.tensor(A, requires_grad=True)
    h = x * 1.0
    for call in (lambda: x.sin(), lambda: h.mul_(2.0), lambda: ndgrad.zeros(2)):
        with pytest.raises(KeyError), Log(), Fails():
            call()
    assert len(process.busy) == busy
    assert thread.observers == ()
    assert thread.grad_enabled
    assert h._version == 0
    h.sin().sum().backward()
    assert np.allclose(x.grad.numpy(), np.cos(A))


def test_what_a_mode_has_seen_dies_by_reference_counting():
    gc.disable()
    try:
        with Log(), observing(lambda op, arrays, settings, run: run()):
            h = ndgrad.tensor(A, requires_grad=True) * 1.0
            dead = weakref.ref(h)
            y = h.exp().sum()
            del h, y
            assert dead() is None
    finally:
        gc.enable()


def test_saved_values_of_an_answer_are_watched():
    """A mode may return memory that the user still holds: a write to it is detected as any other."""
    mine = ndgrad.tensor(A)

    class Mine(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            return mine

    x = ndgrad.tensor(A, requires_grad=True)
    with Mine():
        y = x.exp()  # saves its result
    mine.mul_(2.0)
    with pytest.raises(RuntimeError, match="modified"):
        y.sum().backward()


def test_a_recording_of_writes_and_factories_runs_again():
    x = ndgrad.tensor(A)
    recording = Recording([x._array])
    with observing(recording):
        y = ndgrad.ones(3)
        y.mul_(x)
        z = y + x
    assert [call.op.name for call in recording.calls] == ["ones", "mul_", "add"]
    (again,) = recording.run([np.array([1.0, 2.0, 3.0])], [z._array])
    assert again.tolist() == [2.0, 4.0, 6.0]


# ----- function modes ----------------------------------------------------------------------------------------------------


class LogFunctions(FunctionMode):
    def __init__(self):
        self.names = []

    def __ndgrad_function__(self, func, types, args=(), kwargs=None):
        self.names.append(resolve_name(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_leaves_functions_the_objects_they_are():
    before = ndgrad.sum, ndgrad.Tensor.sum, ndgrad.Tensor.__add__
    with LogFunctions():
        assert (ndgrad.sum, ndgrad.Tensor.sum, ndgrad.Tensor.__add__) == before
    assert (ndgrad.sum, ndgrad.Tensor.sum, ndgrad.Tensor.__add__) == before


def test_functions_about_the_library_are_nobodys_to_override():
    with LogFunctions() as log:
        ndgrad.manual_seed(0), ndgrad.is_tensor(A), ndgrad.get_default_dtype(), ndgrad.promote_types(ndgrad.float32, ndgrad.float64)
    assert log.names == []


def test_functions_of_all_namespaces_have_names():
    x = ndgrad.tensor(A)
    with LogFunctions() as log:
        ndgrad.nn.functional.softplus(x), ndgrad.linalg.norm(x), ndgrad.special.erf(x), x.sum(), ndgrad.sum(x)
    expected = "nn.functional.softplus linalg.norm special.erf Tensor.sum sum".split()
    assert log.names == [f"ndgrad.{name}" for name in expected]


def test_every_public_function_can_be_overridden_and_still_works_through_a_mode():
    listed = {f for functions in get_overridable_functions().values() for f in functions}
    assert {ndgrad.matmul, ndgrad.nn.functional.relu, ndgrad.Tensor.view} <= listed
    x = ndgrad.tensor(A, requires_grad=True)
    with BaseTorchFunctionMode():
        y = ndgrad.logsumexp(ndgrad.nn.functional.relu(x) * 2 - x.abs(), 0)
        y.backward()
        inside = x.grad.clone()
    x.grad = None
    ndgrad.logsumexp(ndgrad.nn.functional.relu(x) * 2 - x.abs(), 0).backward()
    assert np.array_equal(inside.numpy(), x.grad.numpy())


def test_a_wrapper_equals_the_function_that_it_stands_for():
    plain = ndgrad.mean
    table = {plain: "mean"}
    seen = []

    class Look(FunctionMode):
        def __ndgrad_function__(self, func, types, args=(), kwargs=None):
            seen.append(table.get(func))
            return func(*args, **(kwargs or {}))

    x = ndgrad.tensor(A)
    with Look():
        ndgrad.mean(x)
        assert ndgrad.mean == plain
    assert seen == ["mean"]


def test_names_are_found_with_and_without_a_mode():
    assert resolve_name(ndgrad.sum) == "ndgrad.sum"
    assert resolve_name(len) is None
    with BaseTorchFunctionMode():
        assert resolve_name(ndgrad.Tensor.add) == "ndgrad.Tensor.add"


def test_modes_see_the_packet_of_an_op():
    seen = []

    class Note(DispatchMode):
        def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func.namespace, func.overloadpacket))
            return func(*args, **(kwargs or {}))

    x = ndgrad.ones(2, 2)
    with Note():
        (x @ x).sum()
        x.add_(1)
    aten = ndgrad.ops.aten
    assert seen == [("aten", aten.mm), ("aten", aten.sum), ("aten", aten.add_)]
    assert [packet for _, packet in seen][1] is aten.sum
