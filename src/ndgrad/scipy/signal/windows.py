"""`scipy.signal.windows`: windows with a parameter are differentiable in it; the others are SciPy's own, as
constants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import floating, make_module_getattr, public_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike

__all__ = ["exponential", "gaussian", "general_cosine", "general_gaussian", "general_hamming", "kaiser"]


def _places(M: int, sym: bool) -> tuple[NDArray[Any], int]:
    """Return sample numbers minus the middle; a periodic window is a symmetric one without its last sample."""
    n = int(M)
    if n != M or n < 0:
        raise ValueError("Window length M must be a non-negative integer [nd-range]")
    whole = n if sym or n <= 1 else n + 1
    return (numpy.arange(whole) - (whole - 1) / 2.0)[:n], whole


def gaussian(M: int, std: ArrayLike, sym: bool = True) -> Array:
    """A Gaussian window of M samples, differentiable in its width `std`.

    Args:
        M: number of samples.
        std: standard deviation in samples.
        sym: whether the window is symmetric, for filters. False makes it periodic, for spectra.

    >>> from ndgrad.scipy.signal import windows
    >>> windows.gaussian(3, std=1.0)
    array([0.60653066, 1.        , 0.60653066])
    """
    places, _ = _places(M, sym)
    return np.exp(-0.5 * (places / floating(std)) ** 2)


def general_gaussian(M: int, p: ArrayLike, sig: ArrayLike, sym: bool = True) -> Array:
    """The window exp(-|x / sig|^(2p) / 2), differentiable in p and sig.

    Args:
        M: number of samples.
        p: exponent. 1 is a Gaussian.
        sig: standard deviation in samples.
        sym: whether the window is symmetric, for filters. False makes it periodic, for spectra.

    >>> from ndgrad.scipy.signal import windows
    >>> windows.general_gaussian(3, p=1.0, sig=1.0)
    array([0.60653066, 1.        , 0.60653066])
    """
    places, _ = _places(M, sym)
    return np.exp(-0.5 * abs(places / floating(sig)) ** (2.0 * floating(p)))


def exponential(M: int, center: ArrayLike | None = None, tau: ArrayLike = 1.0, sym: bool = True) -> Array:
    """A window that falls as exp(-|x| / tau) from its centre, differentiable in it and in tau.

    Args:
        M: number of samples.
        center: place of the centre in samples. The default is the middle.
        tau: decay length in samples.
        sym: whether the window is symmetric, for filters. False makes it periodic, for spectra.

    >>> from ndgrad.scipy.signal import windows
    >>> windows.exponential(3, tau=2.0)
    array([0.60653066, 1.        , 0.60653066])
    """
    places, whole = _places(M, sym)
    middle = (whole - 1) / 2.0
    return np.exp(-abs(places + (0.0 if center is None else middle - floating(center))) / floating(tau))


def kaiser(M: int, beta: ArrayLike, sym: bool = True) -> Array:
    """Kaiser's window, differentiable in beta.

    Args:
        M: number of samples.
        beta: shape: 0 is a box, and larger numbers are narrower.
        sym: whether the window is symmetric, for filters. False makes it periodic, for spectra.

    >>> from ndgrad.scipy.signal import windows
    >>> windows.kaiser(3, beta=2.0)
    array([0.43867628, 1.        , 0.43867628])
    """
    places, whole = _places(M, sym)
    if whole <= 1:
        return np.ones(len(places))
    b = floating(beta)
    height = numpy.sqrt(numpy.clip(1 - (2 * places / (whole - 1)) ** 2, 0.0, None))
    return tensor_ops.i0(b * height) / tensor_ops.i0(b)


def general_cosine(M: int, a: ArrayLike, sym: bool = True) -> Array:
    """A weighted sum of cosines.

    Args:
        M: number of samples.
        a: weights of the cosines, the constant first.
        sym: whether the window is symmetric, for filters. False makes it periodic, for spectra.

    >>> from ndgrad.scipy.signal import windows
    >>> windows.general_cosine(4, [0.5, 0.5]).round(6)
    array([0.  , 0.75, 0.75, 0.  ])
    """
    places, whole = _places(M, sym)
    if whole <= 1:
        return np.ones(len(places))
    weights = floating(a)
    angle = 2 * numpy.pi * places / (whole - 1)
    return (weights[:, None] * numpy.cos(numpy.arange(weights.shape[0])[:, None] * angle)).sum(axis=0)


def general_hamming(M: int, alpha: ArrayLike, sym: bool = True) -> Array:
    """The window alpha - (1 - alpha) cos, differentiable in alpha.

    Args:
        M: number of samples.
        alpha: weight of the constant.
        sym: whether the window is symmetric, for filters. False makes it periodic, for spectra.

    >>> from ndgrad.scipy.signal import windows
    >>> windows.general_hamming(3, alpha=0.5)
    array([0., 1., 0.])
    """
    a = floating(alpha)
    return general_cosine(M, np.stack([a, 1.0 - a]), sym)


__getattr__ = make_module_getattr(
    "signal.windows", {}, otherwise="gaussian, kaiser, general_cosine, general_gaussian, general_hamming or exponential"
)
__dir__ = public_of(__name__)
