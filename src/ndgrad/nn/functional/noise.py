"""Random numbers in the shape and dtype of a tensor, as constants, for dropout and its kin."""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.variable import np_dtype, wrap
from ndgrad.generator import default_generator


def uniform_like(input: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Uniform on [0, 1)."""
    dtype = np_dtype(input)
    drawn = default_generator.numpy.random(tuple(input.shape) if shape is None else shape, dtype="f4" if dtype.itemsize <= 4 else "f8")
    return wrap(input.face, drawn.astype(dtype, copy=False))


def exponential_like(input: Any) -> Any:
    """Exponential of mean one."""
    dtype = np_dtype(input)
    drawn = default_generator.numpy.standard_exponential(tuple(input.shape), dtype="f4" if dtype.itemsize <= 4 else "f8")
    return wrap(input.face, drawn.astype(dtype, copy=False))
