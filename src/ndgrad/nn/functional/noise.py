"""Random numbers beside a tensor, as constants: for dropout, random slopes and samples. vmap's `randomness` applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.core.generate import FACES
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops import random
from ndgrad._src.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Tensor



def uniform_like(input: Tensor) -> Tensor:
    """Uniform on [0, 1), in the shape and dtype of `input`."""
    return random.uniform(ops.detach(input))


def kept_like(input: Tensor, p: float) -> Tensor:
    """True with probability 1 - p, in the shape of `input`. On a GPU that is drawn as such, in one kernel."""
    if input.device.type != "cuda":
        return uniform_like(input) >= p
    array = input._array if input.__class__ in FACES else None
    if array is not None and is_on_device(array):
        template = wrap(FACES[input.__class__], library_of(array).empty((), numpy.bool_))
        template = ops.expand(template, shape=tuple(array.shape))
    else:  # inside a transform or a trace, which follow it
        template = ops.cast(ops.detach(input), dtype=numpy.dtype(bool))
    return random.bernoulli_scalar(template, p=1.0 - p)


def exponential_like(input: Tensor) -> Tensor:
    """Exponential of mean one."""
    return random.exponential(ops.detach(input))
