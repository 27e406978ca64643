"""`utils._python_dispatch`, `overrides` and `utils.hooks`: modes, their stack, classes that override, tables of functions."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch

import ndgrad
from tests.torch_parity.behaviour import agree, behaviour, says
from tests.torch_parity.side_by_side import Programs, leaf

PROGRAMS = Programs()
program = PROGRAMS.enter


def mod(m, n):
    return import_module(f"{m.__name__}.{n}")


def dispatch_modes(m):
    return mod(m, "utils._python_dispatch")


def logging_mode(m, log, label=""):

    class L(dispatch_modes(m).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(label + func.__name__.split(".")[0])
            return func(*args, **kwargs or {})

    return L()


@program
def mode_stack(m):
    P = dispatch_modes(m)
    log = []
    a, b = (logging_mode(m, log, "a"), logging_mode(m, log, "b"))
    with a, b:
        out = [
            len(P._get_current_dispatch_mode_stack()),
            P._get_current_dispatch_mode() is b,
            P.is_in_torch_dispatch_mode(),
            P.any_torch_dispatch_mode_on_stack(),
        ]
        with P._disable_current_modes() as old:
            m.ones(2) + 1
            out += [len(P._get_current_dispatch_mode_stack()), len(old)]
        with P._pop_mode_temporarily():
            m.ones(2).sin()
            out.append(len(P._get_current_dispatch_mode_stack()))
        m.ones(2).cos()
    return (out, [l for l in log if l[1:] in ("add", "sin", "cos")], len(P._get_current_dispatch_mode_stack()))


@program
def mode_not_overridden(m):

    class N(dispatch_modes(m).TorchDispatchMode):
        pass

    def f():
        with N():
            m.ones(2) + 1

    return says(f).cls


@program
def mode_reenter(m):
    log = []
    a = logging_mode(m, log)
    with a, a:
        m.ones(2).sin()
    return [l for l in log if l == "sin"]


@program
def mode_returns_notimplemented(m):

    class N(dispatch_modes(m).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    def f():
        with N():
            m.ones(2) + 1

    return says(f).cls


@program
def mode_replaces(m):

    class N(dispatch_modes(m).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **kwargs or {})
            return out * 10 if func.__name__.startswith("sin") else out

    x = leaf(m, 2)
    with N():
        y = x.sin()
    y.sum().backward()
    return (y, x.grad)


@program
def pop_none(m):
    return says(lambda: dispatch_modes(m)._pop_mode_temporarily().__enter__()).__class__.__name__


def overrides(m):
    return mod(m, "overrides")


@program
def function_mode(m):
    log = []

    class F(overrides(m).TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(func.__name__)
            return func(*args, **kwargs or {})

    with F():
        m.ones(2).sin()
        m.add(m.ones(2), 1)
        m.nn.functional.relu(m.ones(2))
    return (
        [l for l in log if l in ("sin", "add", "relu", "ones")],
        overrides(m)._get_current_function_mode() is None,
        len(overrides(m)._get_current_function_mode_stack()),
    )


@program
def has_function(m):

    class W(m.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            return super().__torch_function__(f, types, args, kwargs or {})

    w = m.ones(2).as_subclass(W)
    o = overrides(m)
    return (
        o.has_torch_function((w, 1)),
        o.has_torch_function((m.ones(1),)),
        o.has_torch_function_unary(w),
        o.has_torch_function_variadic(1, w),
        o.is_tensor_like(w),
        o.is_tensor_like(3),
    )


@program
def wrap_function(m):
    o = overrides(m)

    class Q:
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            return "Q:" + f.__name__

    @o.wrap_torch_function(lambda a, b=None: (a, b))
    def mine(a, b=None):
        return a

    return (mine(Q()), mine(3), mine(3, Q()), m.add(Q(), 1), says(lambda: o.handle_torch_function(mine, (3,), 3)).cls)


@program
def function_notimplemented(m):

    class Q:
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            return NotImplemented

    return says(lambda: m.add(Q(), 1))


@program
def redispatch(m):
    log = []

    class W(m.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            log.append(f.__name__)
            return overrides(m).redispatch_function(f, types, args, kwargs or {})

    w = m.ones(2).as_subclass(W)
    y = m.add(w, 1)
    return (log, type(y) is m.Tensor, y)


@program
def tables(m):
    o = overrides(m)
    return (
        m.add in o.get_testing_overrides(),
        m.is_tensor in o.get_ignored_functions(),
        any(m.add in v for v in o.get_overridable_functions().values()),
        isinstance(o.resolve_name(m.add), str),
        o.is_tensor_method_or_property(m.Tensor.add),
        o.is_tensor_method_or_property(m.add),
    )


@program
def disable(m):
    log = []

    class W(m.Tensor):
        @classmethod
        def __torch_function__(cls, f, types, args=(), kwargs=None):
            log.append(f.__name__)
            return super().__torch_function__(f, types, args, kwargs or {})

    w = m.ones(2).as_subclass(W)
    log.clear()
    with m._C.DisableTorchFunctionSubclass():
        y = w.sin()
    return (log, type(y) is m.Tensor)


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_behaviour(name):
    theirs, ours = (behaviour(PROGRAMS[name], m) for m in (torch, ndgrad))
    assert agree(theirs, ours), f"torch: {theirs}\nndgrad: {ours}"
