"""Views, in-place writes, hooks, retained gradients and backward in any order, step by step on torch and on ndgrad.

After every step both have the same values, versions, leaves and gradients, both have raised the same kind of error or none, and hooks have
seen the same gradients in the same order.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

import ndgrad
from tests.torch_parity.side_by_side import error_name

MODULES = (torch, ndgrad)


class Inapplicable(Exception):
    """A step that makes no sense for what was drawn."""


def need(condition: bool) -> None:
    if not condition:
        raise Inapplicable


def step(**strategies: Any) -> Callable[[Any], Any]:
    """A rule; where it cannot be applied, nothing happens."""

    def decorate(f: Any) -> Any:
        @functools.wraps(f)
        def apply(self: Any, **drawn: Any) -> Any:
            try:
                return f(self, **drawn)
            except Inapplicable:
                return multiple() if "target" in strategies else None

        return rule(**strategies)(apply)

    return decorate


class Both:
    """One tensor of each library, and what is known of it."""

    def __init__(self, theirs: Any, ours: Any, *, is_view: bool = False) -> None:
        self.tensors = theirs, ours
        self.is_view = is_view

    @property
    def theirs(self) -> Any:
        return self.tensors[0]

    def __repr__(self) -> str:
        return f"Both(shape={tuple(self.theirs.shape)})"


UNARY: dict[str, Any] = {
    "sin": lambda t: t.sin(),
    "tanh": lambda t: t.tanh(),
    "exp": lambda t: (t * 0.1).exp(),
    "square": lambda t: t * t,
    "halve": lambda t: t * 0.5,
    "sum": lambda t: t.sum(0),
}
IN_PLACE: dict[str, Any] = {
    "sin_": lambda t: t.sin_(),
    "tanh_": lambda t: t.tanh_(),
    "mul_": lambda t: t.mul_(0.5),
    "add_": lambda t: t.add_(1.0),
    "zero_": lambda t: t.zero_(),
}
VIEWS: dict[str, Any] = {
    "first": lambda t: t[0],
    "rest": lambda t: t[1:],
    "transpose": lambda t: t.transpose(0, -1),
    "unsqueeze": lambda t: t.unsqueeze(0),
    "column": lambda t: t[..., 1],
    "view": lambda t: t.view(-1),
}


class SideBySide(RuleBasedStateMachine):
    tensors = Bundle("tensors")

    @initialize(target=tensors)
    def leaves(self) -> Any:
        self.pairs: list[Both] = []
        self.events: tuple[list[Any], list[Any]] = ([], [])
        self.hooks = 0
        for shape in ((3,), (2, 3)):
            value = np.linspace(0.2, 0.9, int(np.prod(shape))).reshape(shape)
            pair = Both(*(m.tensor(value.copy(), requires_grad=True) for m in MODULES))
            self.pairs += [pair, Both(*(t * 1.0 for t in pair.tensors))]
        return multiple(*self.pairs)

    def run(self, f: Callable[[int], Any]) -> list[Any] | None:
        """Do something with both; None if both refused, in the same way."""
        found, errors = [], []
        for i in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found.append(f(i))
                    errors.append(None)
                except Exception as error:
                    found.append(None)
                    errors.append(error)
        assert [e and error_name(e) for e in errors[:1]] == [e and error_name(e) for e in errors[1:]], errors
        return None if errors[0] is not None else found

    def keep(self, found: list[Any] | None, *, is_view: bool = False) -> Any:
        if found is None or found[0].numel() == 0 or float(found[0].detach().abs().max()) > 1e3:
            return multiple()
        pair = Both(*found, is_view=is_view)
        self.pairs.append(pair)
        return pair

    @step(target=tensors, a=tensors, name=st.sampled_from(sorted(UNARY)))
    def unary(self, a: Both, name: str) -> Any:
        need(name != "sum" or a.theirs.dim() > 0)
        return self.keep(self.run(lambda i: UNARY[name](a.tensors[i])))

    @step(target=tensors, a=tensors, b=tensors, multiply=st.booleans())
    def binary(self, a: Both, b: Both, multiply: bool) -> Any:
        return self.keep(self.run(lambda i: a.tensors[i] * b.tensors[i] if multiply else a.tensors[i] + b.tensors[i]))

    @step(target=tensors, a=tensors, name=st.sampled_from(sorted(VIEWS)))
    def view(self, a: Both, name: str) -> Any:
        need(0 < a.theirs.dim() < 4)
        need(name != "column" or a.theirs.shape[-1] > 1)
        return self.keep(self.run(lambda i: VIEWS[name](a.tensors[i])), is_view=True)

    @step(target=tensors, a=tensors)
    def detached(self, a: Both) -> Any:
        need(not a.is_view)
        return self.keep(self.run(lambda i: a.tensors[i].detach()))

    @step(a=tensors, name=st.sampled_from(sorted(IN_PLACE)))
    def in_place(self, a: Both, name: str) -> None:
        self.run(lambda i: IN_PLACE[name](a.tensors[i]) is None)

    @step(a=tensors, b=tensors, multiply=st.booleans())
    def binary_in_place(self, a: Both, b: Both, multiply: bool) -> None:
        need(a.theirs.untyped_storage().data_ptr() != b.theirs.untyped_storage().data_ptr())
        self.run(lambda i: (a.tensors[i].mul_ if multiply else a.tensors[i].add_)(b.tensors[i]) is None)

    @step(a=tensors, b=tensors)
    def assignment(self, a: Both, b: Both) -> None:
        need(a.theirs.dim() > 0)
        need(a.theirs.untyped_storage().data_ptr() != b.theirs.untyped_storage().data_ptr())
        self.run(lambda i: a.tensors[i].__setitem__(0, b.tensors[i]))

    @step(a=tensors)
    def unrecorded_write(self, a: Both) -> None:
        def write(i: int) -> None:
            with MODULES[i].no_grad():
                a.tensors[i].mul_(0.5)

        self.run(write)

    @step(a=tensors, factor=st.sampled_from([None, 2.0]))
    def hook(self, a: Both, factor: float | None) -> None:
        need(not a.is_view)  # hooks on views whose base is written later: a difference of its own
        self.hooks += 1
        number = self.hooks

        def register(i: int) -> None:
            def note_gradient(g: Any) -> Any:
                self.events[i].append((number, np.asarray(g.detach().tolist())))
                return None if factor is None else g * factor

            a.tensors[i].register_hook(note_gradient)

        self.run(register)

    @step(a=tensors)
    def retain(self, a: Both) -> None:
        self.run(lambda i: a.tensors[i].retain_grad())

    @step(a=tensors, retain_graph=st.booleans(), create_graph=st.booleans())
    def backward(self, a: Both, retain_graph: bool, create_graph: bool) -> None:
        weights = np.cos(np.arange(a.theirs.numel())).reshape(tuple(a.theirs.shape))
        found = self.run(
            lambda i: a.tensors[i].backward(
                MODULES[i].tensor(weights), retain_graph=retain_graph or create_graph, create_graph=create_graph
            )
        )
        if found is None:  # torch may have accumulated something before it failed, and the hooks have run: ndgrad has not, or other ones
            self.start_again()

    @step(a=tensors, b=tensors)
    def grad(self, a: Both, b: Both) -> None:
        weights = np.cos(np.arange(a.theirs.numel())).reshape(tuple(a.theirs.shape))
        found = self.run(
            lambda i: MODULES[i].autograd.grad(a.tensors[i], b.tensors[i], MODULES[i].tensor(weights), retain_graph=True, allow_unused=True)
        )
        if found is None:
            self.start_again()
            return
        (theirs,), (ours,) = found
        assert (theirs is None) == (ours is None)
        if theirs is None:
            self.start_again()  # torch has run the root's hooks all the same: a difference of its own
        else:
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-12)

    def start_again(self) -> None:
        for i in range(2):
            self.events[i].clear()
            for pair in self.pairs:
                if pair.tensors[i].is_leaf or pair.tensors[i].retains_grad:
                    pair.tensors[i].grad = None

    @invariant()
    def all_agrees(self) -> None:
        for pair in getattr(self, "pairs", ()):
            theirs, ours = pair.tensors
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-12)
            assert ours._version == theirs._version
            states = []
            for t in (theirs, ours):
                try:
                    states.append((t.requires_grad, t.is_leaf, t.retains_grad))
                except RuntimeError as error:
                    states.append(error_name(error))
            assert states[0] == states[1]
            if states[0] == "RuntimeError":
                continue
            if theirs.is_leaf or theirs.retains_grad:
                assert (theirs.grad is None) == (ours.grad is None)
                if theirs.grad is not None:
                    np.testing.assert_allclose(ours.grad.detach().numpy(), theirs.grad.detach().numpy(), atol=1e-12)
        theirs, ours = getattr(self, "events", ([], []))
        assert [n for n, _ in theirs] == [n for n, _ in ours]
        for (_, g), (_, h) in zip(theirs, ours, strict=True):
            np.testing.assert_allclose(h, g, atol=1e-12)


TestSideBySide = SideBySide.TestCase
TestSideBySide.settings = settings(settings.default, stateful_step_count=30)
