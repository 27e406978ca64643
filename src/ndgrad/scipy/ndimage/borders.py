"""Extension of an image beyond its borders, and argument handling of `ndimage` functions.

All modes but "constant" read the image itself at other indices, so an extended image is one indexing of it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad.implicit.convergence import scipy_module
from ndgrad.numpy.coercion import as_array, constant, deliver, many_axes
from ndgrad.scipy._without_rules import strip_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike, Axes, Dtype

    #: Destination of a result, or its dtype.
    Output: TypeAlias = Array | NDArray[Any] | Dtype
    #: Extension of an image beyond its borders: for all axes, or one by one.
    Modes: TypeAlias = str | Sequence[str]
    #: An integer for all axes, or one for each.
    Whole: TypeAlias = int | Sequence[int]

P = ParamSpec("P")

#: Names with the same meaning for filters.
_SAME = {"grid-mirror": "reflect", "grid-constant": "constant", "grid-wrap": "wrap"}
MODES = ("reflect", "constant", "nearest", "mirror", "wrap", *_SAME)


def deliver_output(name: str, made: Array, output: Output) -> Array:
    """Return a result in the array or the dtype that the parameter `output` names."""
    if output is None:
        return made
    if isinstance(output, (Variable, numpy.ndarray)):
        return deliver(name, made, output, "unsafe")
    return made.astype(output)


def wrap_image_function(function: Callable[Concatenate[Array, P], Array]) -> Callable[Concatenate[ArrayLike, P], Array]:
    """Wrap a function of a floating-point image, whose result goes to the parameter `output`: into an array, or to a
    dtype. Integer images give integers, by SciPy's function.
    """
    name = function.__name__
    place = function.__code__.co_varnames.index("output") - 1

    @functools.wraps(function)
    def call(input: ArrayLike, *args: Any, **kwargs: Any) -> Array:
        output: Output = kwargs.pop("output", None)
        if len(args) > place:
            output, args = args[place], (*args[:place], None, *args[place + 1 :])
        t = as_array(input)
        if np_dtype(t).kind in "biu" and not at_stake(args, kwargs):
            theirs = getattr(scipy_module("ndimage", f"ndgrad.scipy.ndimage.{name}"), name)
            made = constant(
                numpy.asarray(theirs(strip_tensors(t), *strip_tensors(args), **strip_tensors(kwargs)))
            )
        else:
            made = function(t if np_dtype(t).kind in "fc" else t.astype(numpy.float64), *args, **kwargs)
        return deliver_output(name, made, output)

    return call  # type: ignore[return-value]  # its parameters are those of `function`


def mode_of(mode: str) -> str:
    if mode not in MODES:
        raise RuntimeError(f"boundary mode not supported: {mode!r}. Choose one of {', '.join(MODES)}. [nd-option]")
    return str(_SAME.get(mode, mode))


def sequence(value: Any, count: int) -> list[Any]:
    """Return one entry per axis."""
    if isinstance(value, str) or (not isinstance(value, Variable) and numpy.ndim(value) == 0):
        return [value] * count
    if isinstance(value, Variable):
        found = [value[i] for i in range(value.shape[0])] if value.ndim else [value] * count
    else:
        found = list(value)
    if len(found) != count:
        raise RuntimeError(
            f"sequence argument must have length equal to input rank: {found!r} for {count} axes. [nd-shape]"
        )
    return found


def axes_of(axes: Axes, ndim: int) -> tuple[int, ...]:
    return many_axes(axes, ndim)


def places(n: int, before: int, after: int, mode: str) -> NDArray[Any]:
    """Map the indices -before ... n + after - 1 into the image, for every mode but "constant"."""
    i = numpy.arange(-before, n + after)
    if mode == "nearest":
        return numpy.clip(i, 0, n - 1)
    if mode == "wrap":
        return i % n
    if mode == "mirror":
        if n == 1:
            return numpy.zeros_like(i)
        i = i % (2 * n - 2)
        return numpy.where(i >= n, 2 * n - 2 - i, i)
    i = i % (2 * n)
    return numpy.where(i >= n, 2 * n - 1 - i, i)


def extend(t: Array, axis: int, before: int, after: int, mode: str, cval: ArrayLike) -> Array:
    """Extend the image on both sides of an axis."""
    if before == after == 0:
        return t
    if mode == "constant":
        margin = [(before, after) if d == axis else (0, 0) for d in range(t.ndim)]
        if isinstance(cval, Variable):
            return np.pad(t - cval, margin) + cval
        return np.pad(t, margin, constant_values=cval)
    return np.take(t, places(t.shape[axis], before, after, mode), axis=axis)


def neighbourhoods(
    t: Array, footprint: NDArray[Any], modes: Sequence[str], cval: ArrayLike, origins: Sequence[int],
) -> Array:  # fmt: skip
    """Return the neighbours of every pixel inside the footprint, in a new last axis."""
    shape = t.shape
    for d, size in enumerate(footprint.shape):
        before = size // 2 + origins[d]
        if not 0 <= before < size:
            raise ValueError(
                f"invalid origin {origins[d]} for a filter of size {size}: it must lie inside the filter. [nd-window]"
            )
        t = extend(t, d, before, size - 1 - before, modes[d], cval)
    parts = [
        t[tuple(slice(int(k), int(k) + n) for k, n in zip(offset, shape, strict=True))]
        for offset in numpy.argwhere(footprint)
    ]
    return np.stack(parts, axis=-1)


def total(parts: Sequence[Array]) -> Array:
    """Return the sum of one or more parts."""
    return functools.reduce(operator.add, parts)
