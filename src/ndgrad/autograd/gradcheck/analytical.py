"""Jacobians by the engine and by forward mode, element by element, for comparison with finite differences.

Each element takes one backward or forward run without batching, since gradcheck also checks batching.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, requires_grad, wrap
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.interpreters import forward_ad
from ndgrad.autograd.gradcheck.numerical import Array, host_array

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def as_tuple(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable(outputs: Sequence[Any]) -> list[int]:
    """Return the positions of the outputs that gradients can start from."""
    return [i for i, o in enumerate(outputs) if isinstance(o, Variable) and requires_grad(o)]


def like(t: Tensor, values: Array) -> Tensor:
    """Return a constant with given values on the device of `t`."""
    library = library_of(innermost_array(t))
    return wrap(t.tensor_type, library.asarray(np.asarray(values).reshape(tuple(t.shape)).astype(np_dtype(t))))


def unit(t: Tensor, element: int, value: complex) -> Tensor:
    """Return a constant like `t`, zero except for one element."""
    values = np.zeros(math.prod(t.shape), np_dtype(t))
    values[element] = value
    return like(t, values)


def pull(
    outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], create_graph: bool = False
) -> tuple[Any, ...]:
    """Return gradients of the inputs; None if no path leads there."""
    found: tuple[Any, ...] = grad(
        list(outputs), list(inputs), list(cotangents), retain_graph=True, create_graph=create_graph, allow_unused=True
    )
    return found


def reverse_jacobian(
    output: Tensor, inputs: Sequence[Any], imaginary: bool = False, step: Callable[[], None] = lambda: None
) -> tuple[list[Array], float]:
    """Return, per input, the gradients of the real (or imaginary) parts of an output's elements, as columns.

    Also return the largest difference between two runs of the same backward.
    """
    size = math.prod(output.shape)
    found = [np.zeros((math.prod(t.shape), size), np_dtype(t)) for t in inputs]
    spread = 0.0
    for element in range(size):
        cotangent = unit(output, element, 1j if imaginary else 1.0)
        once, again = (pull([output], inputs, [cotangent]) for _ in range(2))
        for matrix, g, h in zip(found, once, again, strict=True):
            if (g is None) != (h is None):
                spread = math.inf
            elif g is not None:
                matrix[:, element] = host_array(g).ravel()
                other = np.asarray(host_array(h).ravel().astype(matrix.dtype))
                spread = max(spread, largest_difference(matrix[:, element], other))
        step()
    return found, spread


def largest_difference(a: Array, b: Array) -> float:
    """Return the largest difference of all elements; elements that are NaN, or equally infinite, in both are the
    same.
    """
    if not a.size:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return float(np.max(np.where(same, 0.0, np.abs(np.where(same, 0, a) - np.where(same, 0, b)))))


def zero_tangents(args: Sequence[Any], positions: Sequence[int]) -> dict[int, Tensor]:
    """Return zero tangents of some arguments, by position."""
    return {i: like(args[i], np.zeros(tuple(args[i].shape))) for i in positions}


def push(func: Callable[..., Any], args: Sequence[Any], tangents: dict[int, Any]) -> tuple[list[Any], list[Any]]:
    """Return the outputs of `func` and their tangents (None if there is none), for tangents of some of its
    arguments.
    """
    with forward_ad.dual_level() as level:
        duals = [forward_ad.make_dual(a, tangents[i], level=level) if i in tangents else a for i, a in enumerate(args)]
        outputs = as_tuple(func(*duals))
        pairs = [
            forward_ad.unpack_dual(cast(Any, o), level=level) if isinstance(o, Variable) else (o, None) for o in outputs
        ]
    return [p for p, _ in pairs], [t for _, t in pairs]


def forward_jacobian(
    func: Callable[..., Any],
    args: Sequence[Any],
    position: int,
    others: Sequence[int],
    imaginary: bool = False,
    step: Callable[[], None] = lambda: None,
) -> list[Array | None]:
    """Return, per output, its derivatives along the real (or imaginary) parts of one argument's elements, as rows.

    The tangents of other differentiable arguments are zeros, as in torch, so that a function may read them. The result
    is None for an output that no tangent reaches.
    """
    t = args[position]
    size = math.prod(t.shape)
    zeros = zero_tangents(args, [i for i in others if i != position])
    found: list[Array | None] = []
    for element in range(size):
        outputs, tangents = push(func, args, {**zeros, position: unit(t, element, 1j if imaginary else 1.0)})
        if not found:
            found = [None] * len(outputs)
        for number, (o, tangent) in enumerate(zip(outputs, tangents, strict=True)):
            if tangent is None:
                continue
            matrix = found[number]
            if matrix is None:
                matrix = found[number] = np.zeros((size, math.prod(o.shape)), np_dtype(o))
            matrix[element] = host_array(tangent).ravel()
        step()
    return found
