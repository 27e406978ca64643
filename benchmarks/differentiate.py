"""From a loss to a step: one forward and one backward pass, in each of the two dialects.

Both return the loss, then the gradients in the order of the parameters, so that results can be compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from benchmarks.libraries import Functional
from benchmarks.registry import Step


class Compiler:
    """What a column does to a function before it is timed: nothing, or `compile` of its library."""

    compile: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    #: whether a whole training step can be compiled, its backward pass and its optimizer with it
    whole_steps: bool = False
    #: what was compiled for the workload at hand
    made: ClassVar[list[Any]] = []


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as the column at hand runs it."""
    if Compiler.compile is None:
        return function
    made = Compiler.compile(function)
    Compiler.made.append(made)
    return made


def training_step(
    loss: Callable[[], Any],
    optimizer: Any,
    results: Callable[[], Sequence[Any]],
    clip: Callable[[], Any] | None = None,
    note: Callable[[Any], None] | None = None,
) -> Step:
    """A step that computes `loss()`, its gradients and the update of an optimizer. It returns the loss and `results()`.
    `clip()` comes before the update, and `note(loss)` behind it.

    ndgrad compiles all of it as one function. torch's compiler ends a graph at a backward pass, so it gets the loss.
    """
    if Compiler.compile is not None and not Compiler.whole_steps:
        loss = compiled(loss)

    def update() -> Any:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        if clip is not None:
            clip()
        optimizer.step()
        if note is not None:
            note(value)
        return value

    if Compiler.whole_steps:
        update = compiled(update)

    def step() -> Sequence[Any]:
        return [update(), *results()]

    return step


def leaf(torch: Any, array: np.ndarray) -> Any:
    """A leaf tensor that requires grad, of the array's own dtype."""
    return torch.tensor(array, requires_grad=True)


def leaves(torch: Any, arrays: Sequence[np.ndarray]) -> list[Any]:
    """One leaf per array."""
    return [leaf(torch, array) for array in arrays]


def backward_step(loss: Callable[[], Any], parameters: Sequence[Any]) -> Step:
    """A step that clears the gradients, computes `loss()` and calls `backward()` on it."""
    loss = compiled(loss)

    def step() -> Sequence[Any]:
        for parameter in parameters:
            parameter.grad = None
        value = loss()
        value.backward()
        return [value, *(parameter.grad for parameter in parameters)]

    return step


def functional_step(
    dialect: Functional, loss: Callable[..., Any], parameters: Sequence[np.ndarray], *data: Any
) -> Step:
    """A step that computes `loss(parameters, *data)` and its gradient with respect to the parameters."""
    value_and_grad = dialect.compile(dialect.value_and_grad(loss))
    inputs = [dialect.array(parameter) for parameter in parameters]
    constants = [dialect.array(array) for array in data]

    def step() -> Sequence[Any]:
        value, gradients = dialect.wait(value_and_grad(inputs, *constants))
        return [value, *gradients]

    return step


def expression_step(torch: Any, expression: str, names: dict[str, Any], leaves: Sequence[Any]) -> Step:
    """One expression of torch's dialect, forward and back: it returns the value, then the gradients of the leaves."""
    function = eval(f"lambda: {expression}", names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = function().detach()
    weights = np.random.default_rng(1).uniform(0.5, 1.5, tuple(value.shape))  # equal ones would cancel in a softmax
    gradient = torch.tensor(weights).to(value.dtype)

    def step() -> list[Any]:
        for t in leaves:
            t.grad = None
        result = function()
        result.backward(gradient)
        return [result, *(t.grad for t in leaves)]

    return step
