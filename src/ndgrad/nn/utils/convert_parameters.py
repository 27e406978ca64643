"""Parameters as one vector and back, for optimisers of other libraries (SciPy)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.join import cat

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return all parameters, flattened and concatenated; inside the graph.

    Args:
        parameters: tensors in their order.

    >>> import ndgrad
    >>> ndgrad.nn.utils.parameters_to_vector(ndgrad.nn.Linear(3, 2).parameters()).shape
    ndgrad.Size([8])
    """
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set each parameter to its part of a vector.

    Parameters share the memory of the vector, and its graph is dropped.

    Args:
        vec: vector with all values, for example from `parameters_to_vector`.
        parameters: tensors in the same order.

    Raises:
        RuntimeError: if the vector is too short.

    >>> import ndgrad
    >>> layer = ndgrad.nn.Linear(1, 1)
    >>> ndgrad.nn.utils.vector_to_parameters(ndgrad.tensor([2.0, 3.0]), layer.parameters())
    >>> layer.bias.item()
    3.0
    """
    if not isinstance(vec, Variable):
        raise TypeError(
            f"expected a Tensor, but got: {type(vec).__name__}. Wrap it with ndgrad.as_tensor(...). [nd-type]"
        )
    given = list(parameters)
    needed = sum(p.numel() for p in given)
    if vec.numel() < needed:
        raise RuntimeError(
            f"vector_to_parameters: a vector of {vec.numel()} elements for parameters of {needed}. "
            "Give one per element. [nd-shape]"
        )
    start = 0
    for p in given:
        count = p.numel()
        p.data = vec[start : start + count].view_as(p).data
        start += count
