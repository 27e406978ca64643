"""debug_unwrap: the payload under a tensor of a transform, for use in a debugger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.core.saved import lift
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.interpreters.levels import level_number

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


@set_module("ndgrad.func")
def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the payload of a tensor inside a transform: for vmap the whole batch, in front. An ordinary tensor is
    returned unchanged.

    Args:
        tensor: tensor to look into.
        recurse: whether all transforms are removed, instead of the innermost one only.

    Note:
        Use it for inspection only: the transform does not see computations with the payload.

    >>> import ndgrad
    >>> seen = []
    >>> _ = ndgrad.func.vmap(lambda x: (seen.append(ndgrad.func.debug_unwrap(x)), x)[1])(ndgrad.arange(3.0))
    >>> seen
    [tensor([0., 1., 2.])]
    """
    if not isinstance(tensor, Variable):
        raise TypeError(f"debug_unwrap: expected a tensor, but got {type(tensor).__name__}. [nd-type]")
    while level_number(tensor):
        tensor = lift(tensor._array, tensor.tensor_type)
        if not recurse:
            break
    return tensor
