"""Window functions: those of torch.signal.windows, symmetric by default, and the older ones of torch, periodic by
default.

Windows depend on numbers alone, so they are computed with NumPy in double precision and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.arrays.special_source import special
from ndgrad._src.tensor.arguments import as_integer
from ndgrad._src.tensor.functions.creation import Options

if TYPE_CHECKING:
    from typing import Unpack

    from numpy.typing import NDArray

    from ndgrad._typing import FactoryOptions, Tensor

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]

_HANN, _BLACKMAN, _NUTTALL = (0.5, 0.5), (0.42, 0.5, 0.08), (0.3635819, 0.4891775, 0.1365995, 0.0106411)


# ----- formulas in the distance k from the first point and the distance of the last -----------------------------------


def _cosines(k: NDArray[Any], last: float, a: Iterable[float]) -> NDArray[Any]:
    """Return a0 - a1 cos(x) + a2 cos(2x) - ..., where x covers one full turn."""
    return sum(np.asarray((-1) ** i * c * np.cos(2 * np.pi * i * k / last)) for i, c in enumerate(a)) + np.zeros_like(k)


def _triangle(k: NDArray[Any], last: float) -> NDArray[Any]:
    return 1.0 - np.abs(2.0 * k / last - 1.0)


def _kaiser(k: NDArray[Any], last: float, beta: float) -> NDArray[Any]:
    inside = np.maximum(1.0 - (2.0 * k / last - 1.0) ** 2, 0.0)
    # Both Bessel functions are scaled by exp(-beta), so that neither overflows.
    scaled: NDArray[Any] = special("i0e")(beta * np.sqrt(inside)) * np.exp(beta * (np.sqrt(inside) - 1.0))
    return scaled / special("i0e")(np.float64(beta))


def _make_window(
    name: str,
    length: int,
    symmetric: bool,
    options: FactoryOptions,
    formula: Callable[[NDArray[Any], float], NDArray[Any]],
) -> Tensor:
    """Return a window of `length` points. A periodic one is a symmetric one of length + 1, without the last point."""
    given = Options(name, options)
    dtype = given.dtype or dtypes.get_default_dtype().numpy
    if length == 1:
        values = np.ones(1)
    else:
        values = formula(np.arange(length, dtype=np.float64), float(length - 1 if symmetric else length))
    return given.tensor(name, values.astype(dtype))


# ----- torch.signal.windows -------------------------------------------------------------------------------------------


def _signal_window(
    name: str, M: int, sym: bool, options: FactoryOptions, formula: Callable[[NDArray[Any], float], NDArray[Any]]
) -> Tensor:
    length = as_integer(name, "M", M)
    if length < 0:
        raise ValueError(
            f"{name} requires non-negative window length, got M={length}. Give the number of points. [nd-range]"
        )
    wanted = options.get("dtype")
    if wanted is not None and dtypes.as_numpy_dtype(wanted).name not in ("float32", "float64"):
        raise ValueError(
            f"{name} expects float32 or float64 dtypes, got: {dtypes.as_dtype(wanted)!r}. Convert the window. "
            "[nd-dtype]"
        )
    return _make_window(name, length, sym, options, formula)


def bartlett(M: int, *, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """A triangle that is 0 at its ends.

    Args:
        M: number of points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _signal_window("bartlett", M, sym, options, _triangle)


def blackman(M: int, *, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return Blackman's window, with three cosine terms: 0.42 - 0.5 cos(x) + 0.08 cos(2x), where x covers one turn.

    Args:
        M: number of points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _signal_window("blackman", M, sym, options, lambda k, last: _cosines(k, last, _BLACKMAN))


def cosine(M: int, *, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Half a period of the sine.

    Args:
        M: number of points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.cosine(4)
    tensor([0.3827, 0.9239, 0.9239, 0.3827])
    """
    return _signal_window("cosine", M, sym, options, lambda k, last: np.sin(np.pi * (k + 0.5) / (last + 1.0)))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Unpack[FactoryOptions]
) -> Tensor:
    """Return an exponential window exp(-|k - center| / tau).

    Args:
        M: number of points.
        center: position of the maximum, only with `sym=False`. The default is the middle.
        tau: number of points in which the window falls by the factor e.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(
            f"exponential: Tau must be positive, got: {tau} instead. It is the distance over which the window falls. "
            "[nd-range]"
        )
    if sym and center is not None:
        raise ValueError(
            f"exponential: Center must be None for symmetric windows, but is {center}. Pass sym=False with it. "
            "[nd-exclusive]"
        )

    def formula(k: NDArray[Any], last: float) -> NDArray[Any]:
        return np.exp(-np.abs(k - (last / 2 if center is None else center)) / tau)

    return _signal_window("exponential", M, sym, options, formula)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """A normal density without its constant factor: exp(-(k - middle)^2 / (2 std^2)).

    Args:
        M: number of points.
        std: standard deviation, in points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: Standard deviation must be positive, got: {std} instead. [nd-range]")
    return _signal_window("gaussian", M, sym, options, lambda k, last: np.exp(-(((k - last / 2) / std) ** 2) / 2))


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """A sum of cosines with alternating signs: a[0] - a[1] cos(x) + a[2] cos(2x) - ...

    Args:
        M: number of points.
        a: coefficients of the cosines, where x covers one turn.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: Coefficients must be a list/tuple, but a is {type(a).__name__}. [nd-type]")
    terms = tuple(float(c) for c in a)
    if not terms:
        raise ValueError("general_cosine: Coefficients cannot be empty. Give at least a constant term. [nd-too-few]")
    return _signal_window("general_cosine", M, sym, options, lambda k, last: _cosines(k, last, terms))


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return a window with one cosine term: alpha - (1 - alpha) cos(x), where x covers one turn.

    Args:
        M: number of points.
        alpha: constant term.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.general_hamming(3, alpha=0.75)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _signal_window("general_hamming", M, sym, options, lambda k, last: _cosines(k, last, (alpha, 1.0 - alpha)))


def hamming(M: int, *, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return Hamming's window 0.54 - 0.46 cos(x), where x covers one turn.

    Args:
        M: number of points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _signal_window("hamming", M, sym, options, lambda k, last: _cosines(k, last, (0.54, 0.46)))


def hann(M: int, *, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return Hann's window 0.5 - 0.5 cos(x), where x covers one turn.

    Args:
        M: number of points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _signal_window("hann", M, sym, options, lambda k, last: _cosines(k, last, _HANN))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """The Bessel function I0 of beta times a half circle, divided by its value in the middle.

    Args:
        M: number of points.
        beta: shape of the window, at least 0. Larger values make it narrower.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.kaiser(3, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead. [nd-range]")
    return _signal_window("kaiser", M, sym, options, lambda k, last: _kaiser(k, last, beta))


def nuttall(M: int, *, sym: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Four cosine terms, with small values at the ends.

    Args:
        M: number of points.
        sym: whether the window is symmetric. If False, it is one period of a periodic function, for spectra.
        **options: `dtype` (float32 or float64), `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    return _signal_window("nuttall", M, sym, options, lambda k, last: _cosines(k, last, _NUTTALL))


# ----- older windows --------------------------------------------------------------------------------------------------


def _window(
    name: str,
    length: int,
    periodic: bool,
    options: FactoryOptions,
    formula: Callable[[NDArray[Any], float], NDArray[Any]],
) -> Tensor:
    count = as_integer(name, "window_length", length)
    if count < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={count}. [nd-range]")
    wanted = options.get("dtype")
    if wanted is not None and not is_floating(dtypes.as_numpy_dtype(wanted)):
        raise RuntimeError(
            f"{name} expects floating point dtypes, got: {dtypes.as_dtype(wanted)!r}. Convert the window afterwards. "
            "[nd-dtype]"
        )
    return _make_window(name, count, not periodic, options, formula)


def bartlett_window(window_length: int, periodic: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return a triangle that is 0 at its start.

    Args:
        window_length: number of points.
        periodic: whether the window is one period of a periodic function, for spectra. If False, it is symmetric.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("bartlett_window", window_length, periodic, options, _triangle)


def blackman_window(window_length: int, periodic: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return Blackman's window 0.42 - 0.5 cos(x) + 0.08 cos(2x), where x covers one turn.

    Args:
        window_length: number of points.
        periodic: whether the window is one period of a periodic function, for spectra. If False, it is symmetric.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _window("blackman_window", window_length, periodic, options, lambda k, last: _cosines(k, last, _BLACKMAN))


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Unpack[FactoryOptions],
) -> Tensor:
    """Return Hamming's window alpha - beta cos(x), where x covers one turn.

    Args:
        window_length: number of points.
        periodic: whether the window is one period of a periodic function, for spectra. If False, it is symmetric.
        alpha: constant term.
        beta: factor of the cosine.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.hamming_window(2)
    tensor([0.0800, 1.0000])
    """
    return _window("hamming_window", window_length, periodic, options, lambda k, last: _cosines(k, last, (alpha, beta)))


def hann_window(window_length: int, periodic: bool = True, **options: Unpack[FactoryOptions]) -> Tensor:
    """Return Hann's window 0.5 - 0.5 cos(x), where x covers one turn.

    Args:
        window_length: number of points.
        periodic: whether the window is one period of a periodic function, for spectra. If False, it is symmetric.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, options, lambda k, last: _cosines(k, last, _HANN))


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Unpack[FactoryOptions]
) -> Tensor:
    """The Bessel function I0 of beta times a half circle, divided by its value in the middle.

    Args:
        window_length: number of points.
        periodic: whether the window is one period of a periodic function, for spectra. If False, it is symmetric.
        beta: shape of the window. Larger values make it narrower.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    >>> import ndgrad
    >>> ndgrad.kaiser_window(2, beta=1.0)
    tensor([0.7898, 1.0000])
    """
    return _window("kaiser_window", window_length, periodic, options, lambda k, last: _kaiser(k, last, beta))
