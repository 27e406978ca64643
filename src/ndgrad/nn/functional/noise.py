"""Constant random tensors for dropout, random slopes and samples. vmap's `randomness` applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops import random
from ndgrad._src.ops.random import empty_like
from ndgrad._src.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def uniform_like(input: Tensor) -> Tensor:
    """Return uniform numbers on [0, 1), in the shape and dtype of `input`."""
    return random.uniform(ops.detach(input))


def kept_like(input: Tensor, p: float) -> Tensor:
    """Return a mask that is True with probability 1 - p, in the shape of `input`. On a GPU, one kernel draws it."""
    array = input._array if input.__class__ in TENSOR_TYPES else None
    if array.__class__ is numpy.ndarray:
        template = wrap(TENSOR_TYPES[input.__class__], empty_like(array, numpy.dtype(bool)))
    elif array is not None and is_on_device(array):
        template = wrap(TENSOR_TYPES[input.__class__], library_of(array).empty((), numpy.bool_))
        template = ops.expand(template, shape=tuple(array.shape))
    else:  # followed by transforms and traces
        template = ops.cast(ops.detach(input), dtype=numpy.dtype(bool))
    return random.bernoulli_scalar(template, p=1.0 - p)


def exponential_like(input: Tensor) -> Tensor:
    """Return exponential numbers of mean one, drawn in the order of dimensions."""
    array = input._array if input.__class__ in TENSOR_TYPES else None
    if array.__class__ is numpy.ndarray:
        return random.exponential(wrap(TENSOR_TYPES[input.__class__], numpy.empty(array.shape, array.dtype)))
    return random.exponential(ops.detach(input))
