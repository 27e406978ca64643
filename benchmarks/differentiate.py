"""Steps of a loss: one forward and one backward pass, in each of the two dialects.

Both dialects return the loss, then the gradients in the order of the parameters, so that results can be compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from benchmarks.libraries import Functional
from benchmarks.registry import Step


class Compiler:
    """The treatment of a function before it is timed: none, or `compile` of its library."""

    compile: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    #: True if a whole training step can be compiled, with its backward pass and its optimizer.
    whole_steps: bool = False
    #: Functions compiled for the current workload.
    made: ClassVar[list[Any]] = []


def compile_step(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function if the current column compiles."""
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
    """Return a step that computes `loss()`, its gradients and the update of an optimizer. The step returns the loss and
    `results()`. `clip()` runs before the update, and `note(loss)` after it.

    ndgrad compiles all of it as one function. torch's compiler ends a graph at a backward pass, so it gets the loss.
    """
    if Compiler.compile is not None and not Compiler.whole_steps:
        loss = compile_step(loss)

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
        update = compile_step(update)

    def step() -> Sequence[Any]:
        return [update(), *results()]

    return step


def leaf(torch: Any, array: np.ndarray) -> Any:
    """Return a leaf tensor that requires grad, with the array's own dtype."""
    return torch.tensor(array, requires_grad=True)


def leaves(torch: Any, arrays: Sequence[np.ndarray]) -> list[Any]:
    """Return one leaf per array."""
    return [leaf(torch, array) for array in arrays]


def backward_step(loss: Callable[[], Any], parameters: Sequence[Any]) -> Step:
    """Return a step that clears the gradients, computes `loss()` and calls `backward()` on it."""
    loss = compile_step(loss)

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
    """Return a step that computes `loss(parameters, *data)` and its gradient with respect to the parameters."""
    value_and_grad = dialect.compile(dialect.value_and_grad(loss))
    inputs = [dialect.array(parameter) for parameter in parameters]
    constants = [dialect.array(array) for array in data]

    def step() -> Sequence[Any]:
        value, gradients = dialect.wait(value_and_grad(inputs, *constants))
        return [value, *gradients]

    return step


def expression_step(torch: Any, expression: str, names: dict[str, Any], leaves: Sequence[Any]) -> Step:
    """Return a step for one expression of torch's dialect: the value, then the gradients of the leaves."""
    function = eval(f"lambda: {expression}", names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = function().detach()
    weights = np.random.default_rng(1).uniform(0.5, 1.5, tuple(value.shape))  # equal weights would cancel in a softmax
    gradient = torch.tensor(weights).to(value.dtype)

    def step() -> list[Any]:
        for t in leaves:
            t.grad = None
        result = function()
        result.backward(gradient)
        return [result, *(t.grad for t in leaves)]

    return step
