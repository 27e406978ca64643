"""NumPy's namespace over differentiable Arrays: the creation functions, so that buffers made here can hold differentiable values."""

from __future__ import annotations

from ndgrad.numpy.array import Array
from ndgrad.numpy.creation import (
    arange,
    array,
    asarray,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)

ndarray = Array

__all__ = [
    "Array", "arange", "array", "asarray", "empty", "empty_like", "eye", "full", "full_like", "identity", "linspace",
    "ndarray", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip
