"""Views, in-place writes, saves, hooks and backward in any order, against a slow reference.

The reference keeps, in addition to every array, its whole Jacobian with respect to the leaves: an array with one more axis. A view is a
view of both arrays, a write writes both, and nothing is ever saved, so nothing can be stale. After every step the values agree, and a
gradient agrees with the Jacobian. For Arrays it always must; for torch's tensor class backward may refuse instead, because a saved value
was overwritten.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

import ndgrad
import ndgrad.numpy as anp
from ndgrad import autograd

SHAPES = ((3,), (2, 3))
LEAF_ELEMENTS = 9


class Inapplicable(Exception):
    """Raised by a step that makes no sense for the drawn values."""


def need(condition: bool) -> None:
    if not condition:
        raise Inapplicable


def step(**strategies: Any) -> Callable[[Any], Any]:
    """A rule that does nothing if it cannot be applied (`assume` would discard the whole run, and few would remain)."""

    def decorate(f: Any) -> Any:
        @functools.wraps(f)
        def apply(self: Any, **drawn: Any) -> Any:
            try:
                return f(self, **drawn)
            except Inapplicable:
                return multiple() if "target" in strategies else None

        return rule(**strategies)(apply)

    return decorate


class Pair:
    """A tensor with its expected value and Jacobian, as views of the memory that the tensor is a view of."""

    def __init__(self, tensor: Any, value: Any, jacobian: Any, constant: bool = False, fixed: bool = False) -> None:
        self.tensor, self.value, self.jacobian = tensor, value, jacobian
        self.constant = constant  # outside the graph, though it may share memory with a tensor inside
        self.fixed = fixed  # memory of a leaf, which must not be written

    def __repr__(self) -> str:
        return f"Pair(shape={self.value.shape})"


UNARY = {
    "sin": (lambda t: t.sin(), np.sin, np.cos),
    "tanh": (lambda t: t.tanh(), np.tanh, lambda v: 1 - np.tanh(v) ** 2),
    "square": (lambda t: t * t, np.square, lambda v: 2 * v),
    "halve": (lambda t: t * 0.5, lambda v: v * 0.5, lambda v: np.full_like(v, 0.5)),
}
IN_PLACE = {
    "sin": lambda t: t.sin_(),
    "tanh": lambda t: t.tanh_(),
    "square": lambda t: t.square_(),
    "halve": lambda t: t.mul_(0.5),
}
VIEWS = {
    "first": lambda t: t[0, ...],  # the dots make a view, in NumPy too
    "last": lambda t: t[-1:],
    "rest": lambda t: t[1:],
    "column": lambda t: t[..., 1],
    "new": lambda t: t[None],
    "every other": lambda t: t[..., ::2],
}


def view_of_jacobian(name: str, jacobian: Any) -> Any:
    """Return the same view with one more axis at the end."""
    if name == "column":
        return jacobian[..., 1, :]
    if name == "every other":
        return jacobian[..., ::2, :]
    return VIEWS[name](jacobian)


def times(factor: Any, jacobian: Any) -> Any:
    return np.asarray(factor)[..., None] * jacobian


class Machine(RuleBasedStateMachine):
    numpy_type = True
    tensors = Bundle("tensors")

    @initialize(target=tensors)
    def leaves(self) -> Any:
        make = anp.array if self.numpy_type else ndgrad.tensor
        self.pairs: list[Pair] = []
        self.refused = 0
        done = 0
        for shape in SHAPES:
            size = int(np.prod(shape))
            value = np.linspace(0.2, 0.9, size).reshape(shape)
            jacobian = np.zeros((size, LEAF_ELEMENTS))
            jacobian[:, done : done + size] = np.eye(size)
            tensor = make(value.copy())
            tensor.requires_grad_()
            jacobian = jacobian.reshape(*shape, LEAF_ELEMENTS)
            self.pairs.append(Pair(tensor, value, jacobian, fixed=True))
            self.pairs.append(Pair(tensor * 1.0, value.copy(), jacobian.copy()))
            done += size
        self.leaf_tensors = [p.tensor for p in self.pairs if p.fixed]
        self.expected_grad = np.zeros(LEAF_ELEMENTS)
        return multiple(*self.pairs)

    def keep(self, pair: Pair) -> Pair:
        need(np.abs(pair.value).max(initial=0.0) < 1e3)
        self.pairs.append(pair)
        return pair

    # ----- out of place -----

    @step(target=tensors, a=tensors, name=st.sampled_from(sorted(UNARY)))
    def unary(self, a: Pair, name: str) -> Pair:
        run, f, derivative = UNARY[name]
        return self.keep(Pair(run(a.tensor), f(a.value), times(derivative(a.value), a.jacobian)))

    @step(target=tensors, a=tensors, b=tensors, multiply=st.booleans())
    def binary(self, a: Pair, b: Pair, multiply: bool) -> Pair:
        try:
            shape = np.broadcast_shapes(a.value.shape, b.value.shape)
        except ValueError:
            raise Inapplicable from None
        ja = np.broadcast_to(a.jacobian.reshape((1,) * (len(shape) - a.value.ndim) + a.jacobian.shape), (*shape, LEAF_ELEMENTS))
        jb = np.broadcast_to(b.jacobian.reshape((1,) * (len(shape) - b.value.ndim) + b.jacobian.shape), (*shape, LEAF_ELEMENTS))
        if multiply:
            va, vb = np.broadcast_to(a.value, shape), np.broadcast_to(b.value, shape)
            return self.keep(Pair(a.tensor * b.tensor, va * vb, times(vb, ja) + times(va, jb)))
        return self.keep(Pair(a.tensor + b.tensor, a.value + b.value, ja + jb))

    @step(target=tensors, a=tensors, factor=st.sampled_from([0.5, 2.0, -1.0]))
    def hooked(self, a: Pair, factor: float) -> Pair:
        """A value whose hook scales its gradient, as if its derivative were scaled."""
        made = a.tensor * 1.0
        if made.requires_grad:
            made.register_hook(lambda g: g * factor)
        return self.keep(Pair(made, a.value.copy(), a.jacobian * factor))

    # ----- views -----

    @step(target=tensors, a=tensors, name=st.sampled_from(sorted(VIEWS)))
    def view(self, a: Pair, name: str) -> Pair:
        need(a.value.ndim > 0 and a.value.shape[0] > 0 and a.value.ndim < 4)
        need(name != "column" or a.value.shape[-1] > 1)
        made = VIEWS[name](a.tensor)
        return self.keep(Pair(made, VIEWS[name](a.value), view_of_jacobian(name, a.jacobian), a.constant, a.fixed))

    @step(target=tensors, a=tensors)
    def transposed(self, a: Pair) -> Pair:
        need(a.value.ndim == 2)
        return self.keep(Pair(a.tensor.T, a.value.T, a.jacobian.transpose(1, 0, 2), a.constant, a.fixed))

    @step(target=tensors, a=tensors)
    def detached(self, a: Pair) -> Pair:
        """The same memory without a history."""
        need(not a.fixed)
        return self.keep(Pair(a.tensor.detach(), a.value, np.zeros_like(a.jacobian), constant=True))

    # ----- writes -----

    def write(self, a: Pair, value: Any, jacobian: Any) -> None:
        a.value[...] = value
        if not a.constant:
            a.jacobian[...] = jacobian

    @step(a=tensors, name=st.sampled_from(sorted(IN_PLACE)))
    def unary_in_place(self, a: Pair, name: str) -> None:
        need(not a.fixed and a.value.ndim > 0)
        _, f, derivative = UNARY[name]
        IN_PLACE[name](a.tensor)
        self.write(a, f(a.value), times(derivative(a.value), a.jacobian))

    @step(a=tensors, b=tensors, kind=st.sampled_from(["add", "multiply", "copy"]))
    def binary_in_place(self, a: Pair, b: Pair, kind: str) -> None:
        need(not a.fixed and a.value.ndim > 0)
        need(not (a.constant and b.tensor.requires_grad))  # memory outside the graph would enter it
        need(b.value.ndim <= a.value.ndim)
        need(all(m in (1, n) for m, n in zip(b.value.shape[::-1], a.value.shape[::-1], strict=False)))
        vb = np.broadcast_to(b.value, a.value.shape).copy()
        jb = np.broadcast_to(b.jacobian.reshape((1,) * (a.value.ndim - b.value.ndim) + b.jacobian.shape), a.jacobian.shape).copy()
        need(kind != "multiply" or np.abs(a.value * vb).max(initial=0.0) < 1e3)
        if kind == "add":
            a.tensor.add_(b.tensor)
            self.write(a, a.value + vb, a.jacobian + jb)
        elif kind == "multiply":
            a.tensor.mul_(b.tensor)
            self.write(a, a.value * vb, times(vb, a.jacobian) + times(a.value, jb))
        else:
            a.tensor[...] = b.tensor
            self.write(a, vb, jb)

    @step(a=tensors, b=tensors)
    def assign_a_part(self, a: Pair, b: Pair) -> None:
        need(not a.fixed and a.value.ndim > 0 and b.value.ndim == 0 and a.value.shape[0] > 0)
        need(not (a.constant and b.tensor.requires_grad))
        value, jacobian = b.value.copy(), b.jacobian.copy()
        a.tensor[0] = b.tensor
        a.value[0] = value
        if not a.constant:
            a.jacobian[0] = jacobian

    @step(a=tensors)
    def unrecorded_write(self, a: Pair) -> None:
        """Under no_grad the values change, but the history does not."""
        need(not a.fixed and a.value.ndim > 0)
        with ndgrad.no_grad():
            a.tensor.mul_(0.5)
        a.value[...] *= 0.5

    # ----- backward -----

    @step(a=tensors, accumulate=st.booleans())
    def gradient(self, a: Pair, accumulate: bool) -> None:
        weights = np.cos(np.arange(a.value.size)).reshape(a.value.shape)
        expected = (times(weights, a.jacobian)).reshape(-1, LEAF_ELEMENTS).sum(0)
        if not a.tensor.requires_grad:
            assert np.allclose(expected, 0.0)
            return
        try:
            if accumulate:
                a.tensor.backward(ndgrad.tensor(weights), retain_graph=True)
                self.expected_grad += expected
            else:
                found = autograd.grad(a.tensor, self.leaf_tensors, ndgrad.tensor(weights), retain_graph=True, materialize_grads=True)
                assert np.allclose(np.concatenate([g.numpy().ravel() for g in found]), expected)
        except RuntimeError as error:
            if self.numpy_type or "modified by an inplace operation" not in str(error):
                raise
            self.refused += 1

    # ----- invariants -----

    @invariant()
    def values_agree(self) -> None:
        for pair in getattr(self, "pairs", ()):
            assert np.allclose(pair.tensor.detach().numpy(), pair.value)

    @invariant()
    def accumulated_gradients_agree(self) -> None:
        if getattr(self, "pairs", None):
            found = [np.zeros(p.shape) if p.grad is None else p.grad.numpy() for p in self.leaf_tensors]
            assert np.allclose(np.concatenate([g.ravel() for g in found]), self.expected_grad)


class NumPyFace(Machine):
    numpy_type = True


class TorchFace(Machine):
    numpy_type = False


TestOnNumPysFace = NumPyFace.TestCase
TestOnNumPysFace.settings = settings(settings.default, stateful_step_count=30)
TestOnTorchsFace = TorchFace.TestCase
TestOnTorchsFace.settings = settings(settings.default, stateful_step_count=30)


def test_a_write_that_saves_its_input_over_a_result_that_was_saved():
    """Found by the machine: tanh saves its result and sin its input, which is that result, and both are overwritten."""
    x = anp.array(np.linspace(0.2, 0.9, 6).reshape(2, 3))
    x.requires_grad_()
    y = x.tanh()
    y.sin_()
    (g,) = autograd.grad(y, x, ndgrad.ones(2, 3))
    t = np.tanh(x.detach().numpy())
    assert np.allclose(g.numpy(), np.cos(t) * (1 - t * t))
