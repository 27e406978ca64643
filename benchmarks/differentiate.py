"""From a loss to a step: one forward and one backward pass, in each of the two dialects.

Both return the loss, then the gradients in the order of the parameters, so that results can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.libraries import Functional
from benchmarks.registry import Step


class Compiler:
    """What a column does to a function before it is timed: nothing, or `compile` of its library."""

    compile: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function as the column at hand runs it."""
    return function if Compiler.compile is None else Compiler.compile(function)


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
