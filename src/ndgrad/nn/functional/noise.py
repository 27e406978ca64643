"""Random numbers beside a tensor, as constants: for dropout, random slopes and samples. vmap's `randomness` applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.ops import random
from ndgrad.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Tensor



def uniform_like(input: Tensor) -> Tensor:
    """Uniform on [0, 1), in the shape and dtype of `input`."""
    return random.uniform(ops.detach(input))


def exponential_like(input: Tensor) -> Tensor:
    """Exponential of mean one."""
    return random.exponential(ops.detach(input))
