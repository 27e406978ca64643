"""Dropout: elements or whole channels are set to zero at random, and the rest is scaled up to keep the mean."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.arithmetic import mul
from ndgrad._src.ops.dropout import native_dropout
from ndgrad._src.ops.fill import copy
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.nn.functional.noise import kept_like

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]


def _check(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}. [nd-range]")


def _drop(input: Tensor, p: float, training: bool, inplace: bool, like: Tensor | None = None) -> Tensor:
    """Keep each element of `like` (which broadcasts against the input) with probability 1 - p."""
    p = as_number("dropout", "p", p)
    if not training or p == 0.0 or not math.prod(input.shape):
        return input
    if p == 1.0:
        return write(mul, input, (0.0,), {}) if inplace else input * 0.0
    mask = kept_like(input if like is None else like, p)
    scale = _divide_one(1.0 - p, np_dtype(input))
    return (
        write(native_dropout, input, (mask,), {"scale": scale})
        if inplace
        else native_dropout.eager(input, mask, scale=scale)
    )


def _divide_one(by: float, dtype: np.dtype[Any]) -> float:
    """Return the quotient 1 / by, rounded as in a dtype."""
    if dtype.kind not in "fV" or dtype.itemsize == 8:
        return 1.0 / by
    return float((np.float32(1) / np.float32(by)).astype(dtype))


def _channels(input: Tensor) -> Tensor:
    """Return one element per sample and channel, with the rank of the input."""
    return ops.getitem(input, index=(slice(None), slice(None), *(slice(0, 1),) * (len(input.shape) - 2)))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to zero with probability `p`, and divide the others by 1 - p.

    Args:
        input: tensor of any shape.
        p: probability that an element is dropped.
        training: whether elements are dropped. Otherwise the input itself is returned.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.dropout(ndgrad.ones(3), p=0.5, training=False)
    tensor([1., 1., 1.])
    """
    _check("dropout", p)
    return _drop(input, p, training, inplace)


def _drop_channels(name: str, spatial: int, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check(name, p)
    ndim = len(input.shape)
    if ndim not in (spatial + 1, spatial + 2):
        if spatial == 1 or ndim < 2:
            raise RuntimeError(
                f"{name}: Expected {spatial + 1}D or {spatial + 2}D input, but received a {ndim}D input (shape "
                f"{tuple(input.shape)}). Reshape it to (N, C, ...) or (C, ...). [nd-ndim]"
            )
        warnings.warn(
            (
                f"{name}: a {ndim}-D input (shape {tuple(input.shape)}) is deprecated, and will be an error. "
                "Use dropout instead."
            ),
            stacklevel=3,
        )
    elif spatial == 2 and ndim == 3:
        warnings.warn(
            (
                f"{name}: a 3-D input (shape {tuple(input.shape)}) is read as (N, C, L), for historical reasons, "
                "not as one sample (C, H, W). Use dropout1d for the first, or unsqueeze(0) for the second."
            ),
            stacklevel=3,
        )
    if spatial == 2 or ndim == spatial + 2:
        return _drop(input, p, training, inplace, _channels(input))
    return _drop(input, p, training, inplace, ops.getitem(input, index=(slice(None), *(slice(0, 1),) * (ndim - 1))))


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero with probability `p`, and divide the others by 1 - p.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        p: probability that a channel is dropped.
        training: whether elements are dropped. Otherwise the input itself is returned.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.dropout1d(ndgrad.ones(2, 3), p=1.0)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return _drop_channels("dropout1d", 1, input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero with probability `p`, and divide the others by 1 - p.

    Args:
        input: tensor of shape (N, C, H, W). A tensor of three dimensions is read as (N, C, L), with a warning.
        p: probability that a channel is dropped.
        training: whether elements are dropped. Otherwise the input itself is returned.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.dropout2d(ndgrad.ones(1, 1, 1, 3), p=1.0)
    tensor([[[[0., 0., 0.]]]])
    """
    return _drop_channels("dropout2d", 2, input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to zero with probability `p`, and divide the others by 1 - p.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        p: probability that a channel is dropped.
        training: whether elements are dropped. Otherwise the input itself is returned.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.dropout3d(ndgrad.ones(1, 1, 1, 3), p=1.0)
    tensor([[[[0., 0., 0.]]]])
    """
    return _drop_channels("dropout3d", 3, input, p, training, inplace)


# The limit of selu for large negative input: a value that leaves its mean and variance repairable.
_SATURATED = -1.7580993408473766


def _alpha(input: Tensor, p: float, training: bool, inplace: bool, like: Tensor) -> Tensor:
    """Set dropped elements to selu's lower bound s, and restore mean 0 and variance 1 by an affine map.

    With q = 1 - p of the elements kept, the mixture has mean p s and variance q + q p s^2, so out = a (mixture - p s)
    with a = (q (1 + p s^2))^(-1/2).
    """
    p = as_number("alpha_dropout", "p", p)
    if not training or p == 0.0 or not math.prod(input.shape):
        return input
    if p == 1.0:
        return write(mul, input, (0.0,), {}) if inplace else input * 0.0
    a = 1.0 / math.sqrt((_SATURATED * _SATURATED * p + 1) * (1 - p))
    kept = ops.cast(kept_like(like, p), dtype=np_dtype(input))
    shift = (kept - 1.0) * (-_SATURATED * a) + -_SATURATED * a * p
    out = input * (kept * a) + shift
    return write(copy, input, (out,), {}) if inplace else out


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Apply dropout that keeps the mean and the variance of selu's outputs.

    Dropped elements become the lower bound of selu, and an affine map restores mean 0 and variance 1.

    Args:
        input: tensor of any shape.
        p: probability that an element is dropped.
        training: whether elements are dropped. Otherwise the input itself is returned.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.alpha_dropout(ndgrad.ones(3), p=0.5, training=False)
    tensor([1., 1., 1.])
    """
    _check("alpha_dropout", p)
    return _alpha(input, p, training, inplace, input)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Apply `alpha_dropout` to whole channels.

    Args:
        input: tensor of shape (N, C, ...).
        p: probability that a channel is dropped.
        training: whether elements are dropped. Otherwise the input itself is returned.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.feature_alpha_dropout(ndgrad.ones(1, 2, 3), p=0.5, training=True).shape
    ndgrad.Size([1, 2, 3])
    """
    _check("feature_alpha_dropout", p)
    if training and len(input.shape) < 2:
        raise RuntimeError(
            "feature_alpha_dropout: Feature dropout requires at least 2 dimensions in the input, "
            f"which has shape {tuple(input.shape)}. [nd-ndim]"
        )
    return _alpha(input, p, training, inplace, _channels(input)) if training else input
