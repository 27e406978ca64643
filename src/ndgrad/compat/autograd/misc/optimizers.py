"""First-order optimizers as functions: each takes `grad(x, i)` and a start of any structure, and calls
`callback(x, i, g)` if given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.compat.autograd.misc.flatten import flatten

Gradient = Callable[[Any, int], Any]
Callback = Callable[[Any, int, Any], Any] | None
Step = Callable[[Any, Any, int], Any]


def _optimize(grad: Gradient, x0: Any, callback: Callback, num_iters: int, step: Step) -> Any:
    """Run `step(x, g, i)` on the flat vector for all iterations."""
    x, unflatten = flatten(x0)
    for i in range(num_iters):
        gradient = grad(unflatten(x), i)
        if callback is not None:
            callback(unflatten(x), i, gradient)
        x = step(x, flatten(gradient)[0], i)
    return unflatten(x)


def sgd(
    grad: Gradient, x0: Any, callback: Callback = None, num_iters: int = 200, step_size: float = 0.1, mass: float = 0.9
) -> Any:
    """Minimise by stochastic gradient descent with momentum, and return the last point.

    Args:
        grad: function of the point and of the number of the step that returns the gradient.
        x0: start: a number, an array, or nested structures of them.
        callback: function of the point, the number of the step and the gradient, called before each step.
        num_iters: number of steps.
        step_size: length of a step, relative to the velocity.
        mass: share of the velocity that is kept.
    """
    velocity: Any = 0.0

    def step(x: Any, g: Any, i: int) -> Any:
        nonlocal velocity
        velocity = mass * velocity - (1.0 - mass) * g
        return x + step_size * velocity

    return _optimize(grad, x0, callback, num_iters, step)


def rmsprop(
    grad: Gradient,
    x0: Any,
    callback: Callback = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """Minimise by root mean square propagation, and return the last point. Steps are divided by a running root mean
    square of the gradients, which starts at one.

    Args:
        grad: function of the point and of the number of the step that returns the gradient.
        x0: start: a number, an array, or nested structures of them.
        callback: function of the point, the number of the step and the gradient, called before each step.
        num_iters: number of steps.
        step_size: length of a step, relative to the scaled gradient.
        gamma: share of the mean square that is kept.
        eps: number added to the divisor.
    """
    square: Any = 1.0

    def step(x: Any, g: Any, i: int) -> Any:
        nonlocal square
        square = square * gamma + g**2 * (1.0 - gamma)
        return x - step_size * g / (np.sqrt(square) + eps)

    return _optimize(grad, x0, callback, num_iters, step)


def adam(
    grad: Gradient, x0: Any, callback: Callback = None, num_iters: int = 100, step_size: float = 0.001, b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:  # fmt: skip
    """Minimise by Adam, and return the last point. Momentum and mean squares are both corrected for their start at
    zero.

    Args:
        grad: function of the point and of the number of the step that returns the gradient.
        x0: start: a number, an array, or nested structures of them.
        callback: function of the point, the number of the step and the gradient, called before each step.
        num_iters: number of steps.
        step_size: length of a step, relative to the scaled gradient.
        b1: share of the mean gradient that is kept.
        b2: share of the mean square that is kept.
        eps: number added to the divisor.
    """
    first: Any = 0.0
    second: Any = 0.0

    def step(x: Any, g: Any, i: int) -> Any:
        nonlocal first, second
        first = (1.0 - b1) * g + b1 * first
        second = (1.0 - b2) * g**2 + b2 * second
        return x - step_size * (first / (1.0 - b1 ** (i + 1))) / (np.sqrt(second / (1.0 - b2 ** (i + 1))) + eps)

    return _optimize(grad, x0, callback, num_iters, step)
