"""`scipy.signal.windows`: those with a parameter are differentiable in it; the others are SciPy's own, as constants."""

from __future__ import annotations

from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import beyond, floating

__all__ = ["exponential", "gaussian", "general_cosine", "general_gaussian", "general_hamming", "kaiser"]


def _places(M: int, sym: bool) -> tuple[Any, int]:
    """Sample numbers less the middle; a periodic window is a symmetric one without its last sample."""
    n = int(M)
    if n != M or n < 0:
        raise ValueError("Window length M must be a non-negative integer")
    whole = n if sym or n <= 1 else n + 1
    return (numpy.arange(whole) - (whole - 1) / 2.0)[:n], whole


def gaussian(M: int, std: Any, sym: bool = True) -> Any:
    places, _ = _places(M, sym)
    return np.exp(-0.5 * (places / floating(std)) ** 2)


def general_gaussian(M: int, p: Any, sig: Any, sym: bool = True) -> Any:
    places, _ = _places(M, sym)
    return np.exp(-0.5 * abs(places / floating(sig)) ** (2.0 * floating(p)))


def exponential(M: int, center: Any = None, tau: Any = 1.0, sym: bool = True) -> Any:
    places, whole = _places(M, sym)
    middle = (whole - 1) / 2.0
    return np.exp(-abs(places + (0.0 if center is None else middle - floating(center))) / floating(tau))


def kaiser(M: int, beta: Any, sym: bool = True) -> Any:
    places, whole = _places(M, sym)
    if whole <= 1:
        return np.ones(len(places))
    b = floating(beta)
    height = numpy.sqrt(numpy.clip(1 - (2 * places / (whole - 1)) ** 2, 0.0, None))
    return tensor_ops.i0(b * height) / tensor_ops.i0(b)


def general_cosine(M: int, a: Any, sym: bool = True) -> Any:
    """A weighted sum of cosines."""
    places, whole = _places(M, sym)
    if whole <= 1:
        return np.ones(len(places))
    weights = floating(a)
    angle = 2 * numpy.pi * places / (whole - 1)
    return sum(weights[k] * numpy.cos(k * angle) for k in range(weights.shape[0]))


def general_hamming(M: int, alpha: Any, sym: bool = True) -> Any:
    a = floating(alpha)
    return general_cosine(M, np.stack([a, 1.0 - a]), sym)


__getattr__ = beyond("signal.windows", {}, otherwise="gaussian, kaiser, general_cosine, general_gaussian, general_hamming or exponential")
