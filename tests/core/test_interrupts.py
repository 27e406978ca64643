"""Asynchronous exceptions (Ctrl-C, PyThreadState_SetAsyncExc), raised where the interpreter raises them: modes stay intact."""

from __future__ import annotations

import contextlib
import dis
import gc
import itertools
import sys
import threading
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import autograd, func
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.core.modes import Block, modes, process, running, thread
from ndgrad._src.engine import threads
from ndgrad._src.engine.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from ndgrad._src.interpreters import forward_ad
from ndgrad.overrides import FunctionMode
from ndgrad.utils._python_dispatch import DispatchMode

SCENES: dict[str, Any] = {}


def scene(f):
    SCENES[f.__name__] = f
    return f


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


class Square(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


@scene
def gradient():
    return func.grad(lambda x: (x * x).sum())(ndgrad.ones(2))


@scene
def gradient_of_gradient():
    return func.grad(lambda x: func.grad(lambda y: (y * y * x).sum())(x).sum())(ndgrad.ones(2))


@scene
def batched_gradient():
    return func.vmap(func.grad(lambda x: (x * x).sum()))(ndgrad.ones(2, 2))


@scene
def forward_over_reverse():
    return func.jvp(func.grad(lambda x: (x * x * x).sum()), (ndgrad.ones(2),), (ndgrad.ones(2),))[1]


@scene
def pulled_back():
    _, pull = func.vjp(lambda x: x.exp(), ndgrad.ones(2))
    return pull(ndgrad.ones(2))[0]


@scene
def functionalized():
    def f(x):
        y = x.clone()
        y[0] = 3.0
        return (y * y).sum()

    return func.functionalize(f)(ndgrad.ones(2))


@scene
def jet():
    return func.jet(lambda x: x**3, (ndgrad.tensor(2.0),), ([1.0, 0.0],))[0]


@scene
def no_grad_inside_a_transform():
    def f(x):
        with ndgrad.no_grad():
            y = x * 2
        return (x * y).sum()

    return func.grad(f)(ndgrad.ones(2))


@scene
def backward():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    return x.grad


@scene
def backward_with_hooks():
    x = leaf(1.0, 2.0)
    y = x * x
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return x.grad


@scene
def second_order():
    x = leaf(1.0, 2.0)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    return autograd.grad(g.sum(), x)[0]


@scene
def custom_function():
    x = leaf(1.0, 2.0)
    Square.apply(x).sum().backward()
    return x.grad


@scene
def checkpointed():
    x = leaf(1.0, 2.0)
    checkpoint(lambda v: (v * v).exp(), x, use_reentrant=False).sum().backward()
    return x.grad


@scene
def reentrant_checkpoint():
    x = leaf(1.0, 2.0)
    checkpoint(lambda v: v * v, x, use_reentrant=True).sum().backward()
    return x.grad


@scene
def writes_in_place():
    x = leaf(1.0, 2.0)
    y = x * 1
    y[0] *= 3
    v = y[1:]
    v.mul_(x[1:])
    y.sum().backward()
    return x.grad


@scene
def writes_on_numpys_class():
    def f(x):
        u = dnp.zeros(3)
        for i in range(2):
            u[i + 1] = u[i] + x[i] * x[i]
        return u[2]

    return func.grad(f)(dnp.ones(2))


@scene
def passes_on_fresh_stacks():
    """A pass in a hook of a pass in a hook, each in its own thread."""
    x = leaf(1.0, 2.0)

    def run(depth):
        y = x * x

        def go_deeper(g):
            if depth:
                with ndgrad.enable_grad():
                    run(depth - 1)

        y.register_hook(go_deeper)
        y.sum().backward()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "_DEEP", 1)
        run(2)
    return x.grad


class PassingFunctions(FunctionMode):
    def __ndgrad_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class PassingOps(DispatchMode):
    def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


held = ndgrad.no_grad()

BLOCKS = {
    "no_grad": ndgrad.no_grad,
    "no_grad that is held": lambda: held,
    "enable_grad": ndgrad.enable_grad,
    "inference_mode": ndgrad.inference_mode,
    "dual_level": forward_ad.dual_level,
    "saved_tensors_hooks": lambda: saved_tensors_hooks(lambda t: t, lambda t: t),
    "save_on_cpu": save_on_cpu,
    "disable_saved_tensors_hooks": lambda: disable_saved_tensors_hooks("not here"),
    "allow_mutation_on_saved_tensors": allow_mutation_on_saved_tensors,
    "function mode": PassingFunctions,
    "dispatch mode": PassingOps,
}


def in_a_block(make):
    def run():
        x = leaf(1.0, 2.0)
        with make():
            return (x * x).detach()

    return run


SCENES |= {f"block {name}": in_a_block(make) for name, make in BLOCKS.items()}


# ----- points at which CPython raises asynchronous exceptions -----------------------------------------------------------------


class Interrupt(KeyboardInterrupt):
    pass


_after_call = {}


def _points(code):
    """Return the offsets of instructions before which the interpreter checks for signals: after calls, and at the start of a loop round.

    The interpreter raises after a call as if the call had raised; a trace function raises as if the next instruction had. If another
    handler covers that instruction (`return f()` in a `try`), it cannot represent the call."""
    if code not in _after_call:
        instructions = list(dis.get_instructions(code))
        handlers = dis._parse_exception_table(code)

        def handler(at):
            return next((entry.target for entry in handlers if entry.start <= at.offset < entry.end), None)

        calls = {
            after.offset
            for call, after in itertools.pairwise(instructions)
            if call.opname in ("CALL", "CALL_FUNCTION_EX", "CALL_KW") and handler(call) == handler(after)
        }
        _after_call[code] = calls | {a.argval for a in instructions if a.opname == "JUMP_BACKWARD"}
    return _after_call[code]


class Interrupter:
    """Raises at the n-th possible point of an interrupt: at the entry of a function of the package, after a call, or before a loop's
    next round."""

    def __init__(self, at=None):
        self.at, self.count, self.where = at, 0, None

    def _meet(self, frame):
        self.count += 1
        if self.count - 1 == self.at:
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            raise Interrupt

    def global_trace(self, frame, event, arg):
        if "/ndgrad/" not in frame.f_code.co_filename and "<ndgrad" not in frame.f_code.co_filename:
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            # Only C code could protect the end of a block: the entry of __exit__ is the only point that a `with` leaves open.
            # A worker does not listen at the start and at the end of its thread: no interrupt is sent to it there.
            self_ = frame.f_locals.get("self")
            is_exit = frame.f_code.co_name == "__exit__" and isinstance(self_, Block)
            is_deaf = frame.f_code in (threads._Worker.run.__code__, threads._Worker._run_to_the_end.__code__)
            if not (is_exit or is_deaf):
                self._meet(frame)
        return self.local_trace

    def local_trace(self, frame, event, arg):
        if event == "opcode" and frame.f_lasti in _points(frame.f_code) and frame.f_code is not threads._Worker.run.__code__:
            self._meet(frame)
        return self.local_trace

    def __enter__(self):
        threading.settrace(self.global_trace)
        sys.settrace(self.global_trace)
        return self

    def __exit__(self, *exc):
        sys.settrace(None)
        threading.settrace(None)


def state():
    fields = {name: getattr(modes(), name) for name in type(modes()).__slots__[2:]}
    return {**fields, "task": running()}


def check_that_all_is_well(before, where):
    assert state() == before, where
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0], where
    assert func.grad(lambda v: (v**3).sum())(ndgrad.ones(1)).tolist() == [3.0], where


# Python itself drops an exception that is raised in a finalizer, with a message.
in_finalizers_too = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def plain(value):
    return np.asarray(value.detach().numpy()).tolist()


@pytest.mark.one_in(2)
@in_finalizers_too
@pytest.mark.parametrize("name", SCENES)
def test_an_interrupt_at_many_points_leaves_the_modes_as_they_were(name):
    interrupt_everywhere(name, 25)


@pytest.mark.slow
@in_finalizers_too
@pytest.mark.parametrize("name", SCENES)
def test_an_interrupt_at_most_points_leaves_the_modes_as_they_were(name):
    interrupt_everywhere(name, 500)


def interrupt_everywhere(name, most):
    if name == "block function mode":
        most //= 10  # each one replaces every public function
    run = SCENES[name]
    expected, before = plain(run()), state()
    with Interrupter() as counted:
        run()
    assert counted.count > 10
    for at in range(0, counted.count, -(-counted.count // most)):
        with Interrupter(at) as met, contextlib.suppress(Interrupt):
            run()
        where = f"{name}: point {at} of {counted.count}, {met.where}"
        check_that_all_is_well(before, where)
        if process.busy:
            gc.collect()  # a block that was not left in order holds itself
        assert not process.busy, where
        assert not process.open, where
    assert plain(run()) == expected
    assert thread.levels == ()
