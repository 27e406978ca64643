"""Random numbers drawn on a device: one function per op of ndgrad._src.ops.random, with its settings.

Uniform and normal numbers, and zeros and ones, have a kernel each. Other distributions are functions of uniform numbers
in double precision. ndgrad._src.ops.random draws the remaining ones (Poisson, gamma, ...) on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ndgrad._src.arrays import graph_recording, philox
from ndgrad._src.arrays.device_kernels import kernels

_DOUBLE, _SINGLE = numpy.dtype(numpy.float64), numpy.dtype(numpy.float32)
_WORD, _BOOL = numpy.dtype(numpy.uint64), numpy.dtype(bool)


class Source:
    """A generator of a device, with the library of its arrays. NumPy computes the same numbers on the host."""

    def __init__(self, np: Any, generator: Any) -> None:
        self.np, self.generator = np, generator

    def _run_kernel(self, kind: str, shape: Any, dtype: Any, p: float = 0.0, q: float = 1.0) -> Any:
        found = None if self.np is numpy else kernels()
        made = None if found is None else found.draw(kind, self.generator, tuple(shape), dtype, p, q)
        if made is None:
            graph_recording.refuse(
                "a draw of random numbers", f"there is no kernel for {dtype}. Draw before, and write it by copy_()."
            )
        return made

    def _reshape(self, values: Any, shape: Any) -> Any:
        return values.reshape(tuple(shape))

    def uniform(self, shape: Any, dtype: Any, low: float = 0.0, high: float = 1.0) -> Any:
        """Return uniform numbers on [low, high)."""
        made = self._run_kernel("uniform", shape, dtype, low, high)
        if made is not None:
            return made
        u = philox.unit(self.np, self.generator.next(), philox.size(shape), dtype)
        if (low, high) != (0, 1):
            u = u.astype(_SINGLE if u.dtype.itemsize < 8 else u.dtype, copy=False)
            u = (u * (high - low) + low).astype(dtype)
            u = self.np.where(u < high, u, self.np.asarray(low, u.dtype))
        return self._reshape(u, shape)

    def normal(self, shape: Any, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Any:
        """Return normal numbers with the given mean and standard deviation."""
        made = self._run_kernel("normal", shape, dtype, mean, std)
        if made is not None:
            return made
        wide = _DOUBLE if dtype == _DOUBLE else _SINGLE
        z = philox.normal(self.np, self.generator.next(), philox.size(shape), wide)
        return self._reshape((z if (mean, std) == (0, 1) else z * std + mean).astype(dtype, copy=False), shape)

    def open_unit(self, shape: Any) -> Any:
        """Return uniform numbers on (0, 1), in double precision."""
        made = self._run_kernel("inside", shape, _DOUBLE)
        if made is None:
            made = self._reshape(philox.open_unit(self.np, self.generator.next(), philox.size(shape)), shape)
        return made

    def words_64(self, shape: Any) -> Any:
        """Return words of 64 bits."""
        made = self._run_kernel("whole", shape, _WORD)
        if made is None:
            made = self._reshape(philox.words_64(self.np, self.generator.next(), philox.size(shape)), shape)
        return made

    def bernoulli(self, shape: Any, dtype: Any, p: float) -> Any:
        """Return ones with probability p, else zeros."""
        kind = dtype if dtype.char in "?fdeE" else _BOOL
        made = self._run_kernel("below", shape, kind, p)
        if made is None:
            made = self._reshape(philox.bernoulli(self.np, self.generator.next(), philox.size(shape), p), shape)
        return made if made.dtype == dtype else made.astype(dtype)


# ----- numbers in the shape of a tensor -------------------------------------------------------------------------------


def _parts(draw: Callable[[Any, Any], Any], shape: Any, dtype: Any) -> Any:
    """Return complex numbers made of two draws."""
    real = _SINGLE if dtype.itemsize == 8 else _DOUBLE
    both = draw((*shape, 2), real)
    return both.view(dtype).reshape(tuple(shape))


def _uniform(source: Source, shape: Any, dtype: Any, *, low: float, high: float) -> Any:
    if dtype.kind == "c":
        return _parts(lambda s, d: source.uniform(s, d, low, high), shape, dtype)
    return source.uniform(shape, dtype, low, high)


def _normal(source: Source, shape: Any, dtype: Any, *, mean: Any, std: float) -> Any:
    if dtype.kind == "c":  # `std` refers to both parts together
        z = _parts(lambda s, d: source.normal(s, d, 0.0, std * 0.5**0.5), shape, dtype)
        return z if mean == 0 else z + mean
    return source.normal(shape, dtype, mean, std)


def _random(source: Source, shape: Any, dtype: Any, *, low: int, high: int, whole: bool = False) -> Any:
    """Return low + word (high - low) / 2^64, for ranges of up to 2^64. The parts of 32 bits are multiplied
    separately.
    """
    words, span = source.words_64(shape), high - low
    if span < 1 << 64:
        first, second = span >> 32, span & 0xFFFFFFFF
        upper, lower = words >> 32, words & 0xFFFFFFFF
        middle = upper * second + (lower * second >> 32)
        carried = (middle & 0xFFFFFFFF) + lower * first
        words = upper * first + (middle >> 32) + (carried >> 32)
    return (words + (low & (1 << 64) - 1)).astype(dtype if dtype.kind == "u" else numpy.int64, copy=False)


def _permutation(source: Source, shape: Any, dtype: Any) -> Any:
    return source.words_64(shape).argsort(axis=-1)


#: Maps op names to draw(source, shape, dtype, **settings).
DRAWS: dict[str, Callable[..., Any]] = {
    "uniform": _uniform,
    "normal": _normal,
    "log_normal": lambda s, shape, dtype, *, mean, std: s.np.exp(s.normal(shape, _DOUBLE, mean, std)),
    "exponential": lambda s, shape, dtype, *, rate: s.np.log(s.open_unit(shape)) / -rate,
    "cauchy": lambda s, shape, dtype, *, median, sigma: (
        s.np.tan((s.open_unit(shape) - 0.5) * numpy.pi) * sigma + median
    ),
    "geometric": lambda s, shape, dtype, *, p: s.np.maximum(
        s.np.ceil(s.np.log(s.open_unit(shape)) / float(numpy.log1p(-p))), 1.0
    ),
    "random": _random,
    "bernoulli_scalar": lambda s, shape, dtype, *, p: s.bernoulli(shape, dtype, p),
    "permutation": _permutation,
}


# ----- distributions given by arrays ----------------------------------------------------------------------------------


def _normal_of(source: Source, mean: Any, std: Any) -> Any:
    arrays = [a for a in (mean, std) if hasattr(a, "dtype")]
    dtype = numpy.result_type(*[a.dtype for a in arrays])
    shape = numpy.broadcast_shapes(*[a.shape for a in arrays])
    return mean + std * _normal(source, shape, dtype, mean=0.0, std=1.0)


def _rrelu_slopes(source: Source, x: Any, *, lower: float, upper: float) -> Any:
    u = source.uniform(x.shape, x.dtype, lower, upper)
    return source.np.where(x > 0, source.np.ones((), x.dtype), u)


#: Maps op names to draw(source, *arrays, **settings).
FROM_ARRAYS: dict[str, Callable[..., Any]] = {
    "bernoulli": lambda s, p: s.uniform(p.shape, _DOUBLE) < p,
    "normal_tensor": _normal_of,
    "normal_mean": lambda s, mean, *, std: _normal_of(s, mean, std),
    "normal_std": lambda s, std, *, mean: _normal_of(s, mean, std),
    "rrelu_slopes": _rrelu_slopes,
}


def first_arrivals(source: Source, weights: Any, count: int) -> Any:
    """Return the indices of the first `count` of independent exponential times with these rates, along the last
    dimension.
    """
    times = source.np.log(source.open_unit(weights.shape)) / -weights.astype(_DOUBLE)
    times = source.np.where(weights > 0, times, numpy.inf)
    return times.argsort(axis=-1)[..., :count]
