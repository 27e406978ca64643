"""Tensor subclasses beyond torch: identity through saves, NumPy's namespace, transforms, both names of the methods."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import ClassVar

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._C import _disabled_torch_function_impl
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.core.modes import process, thread
from ndgrad.utils._python_dispatch import BaseTorchDispatchMode

A = np.array([0.3, -1.2, 2.0])


class Tagged(ndgrad.Tensor):
    """Overrides nothing."""


class Wrapped(ndgrad.Tensor):
    """Holds a tensor and computes with it."""

    __torch_function__ = _disabled_torch_function_impl
    seen: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        return ndgrad.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype, requires_grad=requires_grad)

    def __init__(self, elem, requires_grad=False):
        self.elem = elem

    @classmethod
    def __ndgrad_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.name)
        unwrap = lambda v: tuple(map(unwrap, v)) if isinstance(v, (tuple, list)) else v.elem if isinstance(v, cls) else v
        out = func(*map(unwrap, args), **{k: unwrap(v) for k, v in (kwargs or {}).items()})
        if func.name.endswith("_"):
            return args[0]
        return tuple(map(cls, out)) if isinstance(out, tuple) else cls(out)


def tagged(requires_grad=True):
    t = ndgrad.Tensor._make_subclass(Tagged, ndgrad.tensor(A), requires_grad)
    t.tag = "mine"
    return t


def test_a_saved_tensor_of_a_subclass_is_that_tensor():
    t = tagged()
    assert (t * t).grad_fn._saved_self is t
    class_seen = []

    class Square(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            class_seen.extend([x is t, type(y)])
            return 2 * x * g

    Square.apply(t).sum().backward()
    assert class_seen == [True, Tagged]
    assert np.allclose(t.grad.numpy(), 2 * A)


def test_a_deep_copy_has_the_class_and_attributes_of_its_own():
    t = tagged()
    t.notes = [1]
    u = copy.deepcopy(t)
    u.notes.append(2)
    assert type(u) is Tagged
    assert u.requires_grad
    assert (t.notes, u.notes, u.tag) == ([1], [1, 2], "mine")


def test_the_hooks_of_a_leaf_get_the_leaf_itself():
    t = tagged()
    seen = []
    t.register_post_accumulate_grad_hook(seen.append)
    (t * 2).sum().backward()
    assert seen[0] is t


def test_transforms_keep_the_class_out_of_the_way():
    t = tagged(requires_grad=False)
    found = ndgrad.func.grad(lambda x: (x.sin() * 2).sum())(t)
    assert np.allclose(found.numpy(), 2 * np.cos(A))
    found = ndgrad.func.vmap(lambda x: x.sin())(t)
    assert np.allclose(found.numpy(), np.sin(A))


def test_checkpoints_of_subclasses():
    t = tagged()
    seen = []

    def f(x):
        seen.append((type(x), x.tag))
        return (x.sin() * x).exp()

    y = checkpoint(lambda h: checkpoint(f, h), t)
    y.sum().backward()
    expected = np.exp(np.sin(A) * A) * (np.cos(A) * A + np.sin(A))
    assert np.allclose(t.grad.numpy(), expected)
    assert all(entry == (Tagged, "mine") for entry in seen)
    assert type(y) is Tagged


def test_a_subclass_of_numpys_class():
    class Field(dnp.Array):
        pass

    x = dnp.array(A).requires_grad_()
    f = (x * 2.0).as_subclass(Field)
    y = f * f
    f[0] = 100.0  # the saved value is rebuilt, as for an Array
    assert type(y) is Field
    y.sum().backward()
    assert np.allclose(np.asarray(x.grad.tolist()), 8 * A)


def test_both_names_of_the_function_method():
    class Ours(ndgrad.Tensor):
        @classmethod
        def __ndgrad_function__(cls, func, types, args=(), kwargs=None):
            return "ours"

    class Theirs(ndgrad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "theirs"

    x = ndgrad.tensor(A)
    assert x.as_subclass(Ours).__class__ is Ours
    assert ndgrad.exp(ndgrad.Tensor._make_subclass(Ours, x)) == "ours"
    assert ndgrad.Tensor._make_subclass(Theirs, x) + 1 == "theirs"


def test_a_class_of_no_tensors_may_override_functions():
    class Symbol:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, [type(a).__name__ for a in args], kwargs

    x = ndgrad.tensor(A)
    assert ndgrad.exp(Symbol()) == ("exp", ["Symbol"], {})
    assert ndgrad.sum(Symbol(), dim=0) == ("sum", ["Symbol"], {"dim": 0})
    assert ndgrad.add(x, Symbol()) == x.add(Symbol()) == ("add", ["Tensor", "Symbol"], {})
    assert ndgrad.cat([x, Symbol()])[0] == "cat"
    assert x.view(-1).dot(Symbol())[0] == "dot"
    assert ndgrad.linalg.norm(Symbol())[0] == "linalg_norm"
    assert ndgrad.mul(x, x, out=Symbol())[0] == "mul"


def test_a_class_that_comes_later_overrides_functions_that_were_kept_before():
    kept, method = ndgrad.std, ndgrad.Tensor.sum

    class Late(ndgrad.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    x = ndgrad.Tensor._make_subclass(Late, ndgrad.tensor(A))
    assert (kept(x), method(x), x.flip(0), x[0], -x, 2 - x) == ("std", "sum", "flip", "__getitem__", "neg", "__rsub__")


class Asking(ndgrad.Tensor):
    """Passes every function on."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def test_functions_can_be_pickled_copied_and_inspected():
    import inspect
    import pickle

    functions = (ndgrad.sum, ndgrad.Tensor.sum, ndgrad.linalg.norm, ndgrad.nn.functional.relu, ndgrad.flip, ndgrad.sin)
    for function in (*functions, ndgrad.Tensor.numel):
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function
        assert inspect.signature(function) == inspect.signature(function.__wrapped__)
        assert function.__doc__ == function.__wrapped__.__doc__
    assert next(iter(inspect.signature(ndgrad.ones(2).sum).parameters)) == "dim"
    assert str(inspect.signature(ndgrad.Tensor.lerp_)) == "(self, end, weight)"


def test_modes_and_classes_that_come_and_go_in_many_threads():
    import threading

    from ndgrad.overrides import BaseTorchFunctionMode

    failures = []

    def work():
        try:
            for _ in range(3):
                kind = type("Local", (Asking,), {})
                with BaseTorchFunctionMode():
                    t = ndgrad.ones(2).as_subclass(kind)
                    assert float((t * 2).sum()) == 4.0
                del t, kind
                gc.collect()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert float(ndgrad.ones(2).as_subclass(Asking).sum()) == 2.0


# ----- wrappers ----------------------------------------------------------------------------------------------------------


def test_a_wrapper_goes_through_autograd_custom_functions_and_checkpoints():
    class Cube(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

    w = Wrapped(ndgrad.tensor(A), requires_grad=True)
    y = checkpoint(lambda w: Cube.apply(w.sin()), w)
    assert type(y) is Wrapped
    y.sum().backward()
    assert type(w.grad) is Wrapped
    assert np.allclose(w.grad.elem.numpy(), 3 * np.sin(A) ** 2 * np.cos(A))


def test_only_a_backward_that_meets_a_wrapper_runs_on_tensors():
    lanes = []
    x, w = ndgrad.tensor(A, requires_grad=True), Wrapped(ndgrad.tensor(A), requires_grad=True)
    constant = Wrapped(ndgrad.tensor(A))
    for y in (x.exp(), w.exp(), x * constant, w.clone().mul_(x)):
        y.register_hook(lambda g: lanes.append(thread.task.path))
        y.sum().backward()
    assert lanes == ["arrays", "tensors", "tensors", "tensors"]


def test_a_gradient_that_was_given_is_not_kept_where_backward_runs_on_tensors():
    x, w = ndgrad.tensor(A, requires_grad=True), Wrapped(ndgrad.tensor(A))
    g = ndgrad.ones(3)
    ndgrad.autograd.backward([x, (x * w).sum()], [g, None])
    g.zero_()
    assert np.allclose(x.grad.elem.numpy() if type(x.grad) is Wrapped else x.grad.numpy(), 1 + A)
    x.grad = None
    with BaseTorchDispatchMode():
        x.backward(g)
    g.add_(1)
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_the_graph_of_a_wrapper_dies_by_reference_counting():
    gc.disable()
    try:
        w = Wrapped(ndgrad.tensor(A), requires_grad=True)
        y = w.exp()  # saves its own result
        dead = weakref.ref(y.grad_fn)
        del y
        assert dead() is None
    finally:
        gc.enable()


def test_a_wrapper_with_strides_and_a_device():
    class Strided(Wrapped):
        @staticmethod
        def __new__(cls, elem):
            return ndgrad.Tensor._make_wrapper_subclass(cls, (2, 3), strides=(1, 2), dtype=ndgrad.float32, device="meta")

    w = Strided(ndgrad.zeros(2, 3))
    assert w.stride() == (1, 2)
    assert w.dtype == ndgrad.float32
    assert w.device.type == "meta"


def test_a_wrapper_that_is_not_unwrapped_is_told():
    class Forgets(Wrapped):
        @classmethod
        def __ndgrad_dispatch__(cls, func, types, args=(), kwargs=None):
            return ndgrad.Tensor.__torch_dispatch__(func, types, args, kwargs)

    with pytest.raises(NotImplementedError, match="Unwrap"):
        Forgets(ndgrad.tensor(A)) * 2


def test_a_dispatch_that_raises_leaves_modes_as_they_were():
    class Fails(Wrapped):
        @classmethod
        def __ndgrad_dispatch__(cls, func, types, args=(), kwargs=None):
            raise KeyError("mine")

    busy = len(process.busy)
    w = Fails(ndgrad.tensor(A), requires_grad=True)
    for call in (lambda: w * 2, lambda: w.sum(), lambda: w.detach().mul_(2)):
        with pytest.raises(KeyError):
            call()
    assert len(process.busy) == busy
    assert thread.grad_enabled
