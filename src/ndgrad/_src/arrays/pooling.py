"""Max and average pooling, with their adjoints, in any number of spatial dimensions.

Every array is (N, C, *spatial). `Windows` describes an axis by its taps (ndgrad._src.arrays.taps). It covers regular
windows, with stride, padding and dilation, and the uneven ones of adaptive pooling. So pooling is a maximum or a sum
over taps, and its adjoint is a sum over the transposed taps. Large arrays with regular windows have kernels of their
own, which are faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.correlation import Axis
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.scatter import add_at
from ndgrad._src.arrays.taps import Taps, add_at_positions, maxima, transposed, weighted_sum

Array = NDArray[Any]
Sizes = tuple[int, ...]


class Windows(NamedTuple):
    """The windows along one axis of `size` inputs.

    `stride` is the distance between starts, 0 for uneven windows. `start` is the first start, negative in the padding.
    `counts` are the divisors of averages.
    """

    size: int
    out: int
    start: int
    stride: int
    dilation: int
    taps: Taps
    counts: NDArray[np.intp]

    @property
    def axis(self) -> Axis:
        return Axis(self.size, len(self.taps.index), self.stride, self.dilation, -self.start, self.out)

    @property
    def is_inside(self) -> bool:
        """True if all windows are inside the array."""
        return self.start >= 0 and bool((self.taps.index >= 0).all())


# ----- geometry -----


@lru_cache(maxsize=1024)
def _regular_windows(
    shape: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> tuple[Windows, ...]:
    ndim = len(shape) - 2
    if ndim < 1 or not len(kernel) == len(stride) == len(padding) == len(dilation) == ndim:
        raise ValueError(
            f"pooling an array of shape {tuple(shape)} with kernel {tuple(kernel)}, stride {tuple(stride)}, padding "
            f"{tuple(padding)} and dilation {tuple(dilation)}: the numbers of dimensions do not fit. "
            "Give an array (N, C, *spatial) and one setting per spatial axis. [nd-window]"
        )
    if min(*kernel, *stride, *dilation) < 1:
        raise ValueError(
            f"pooling with kernel {tuple(kernel)}, stride {tuple(stride)} and dilation {tuple(dilation)}: "
            "all of them have to be at least 1. [nd-window]"
        )
    windows: list[Windows] = []
    for size, taps, step, pad, spread in zip(shape[2:], kernel, stride, padding, dilation, strict=True):
        reach = spread * (taps - 1) + 1
        if not 0 <= 2 * pad <= reach:
            raise ValueError(
                f"pooling with kernel {tuple(kernel)}, padding {tuple(padding)} and dilation {tuple(dilation)}: "
                "the padding has to lie between 0 and half the kernel, or a window could see nothing but padding. "
                "Pad the array itself instead. [nd-window]"
            )
        if size + 2 * pad < reach and not (ceil_mode and size + 2 * pad + step > reach):
            raise ValueError(
                f"pooling an array of shape {tuple(shape)}: a kernel of {taps} taps spans {reach} positions, "
                f"but the padded array has {size + 2 * pad}. Use a smaller kernel or more padding. [nd-window]"
            )
        along = regular_axis(size, taps, step, pad, spread, ceil_mode, count_include_pad)
        if along is None:
            raise ValueError(
                f"pooling an array of shape {tuple(shape)} with kernel {tuple(kernel)}, "
                f"padding {tuple(padding)} and dilation {tuple(dilation)}: all taps of a window fall into the padding. "
                "Use less padding or less dilation. [nd-window]"
            )
        windows.append(along)
    return tuple(windows)


@lru_cache(maxsize=1024)
def regular_axis(
    size: int, taps: int, step: int, pad: int, spread: int, ceil_mode: bool, count_include_pad: bool
) -> Windows | None:
    """Return the windows along one axis, or None if a window would see only padding."""
    slack = size + 2 * pad - spread * (taps - 1) - 1
    out = (slack + (step - 1 if ceil_mode else 0)) // step + 1
    if ceil_mode and (out - 1) * step >= size + pad:
        out -= 1  # a window may not begin in the padding at the end
    starts = np.arange(out) * step - pad
    # Windows of ceil mode may extend beyond the padding; that part never counts.
    first, last = (starts, size + pad) if count_include_pad else (np.maximum(starts, 0), size)
    counts = np.minimum(starts + taps, last) - first
    index = starts + np.arange(taps)[:, None] * spread
    index = np.where((index >= 0) & (index < size), index, -1)
    if not (index >= 0).any(axis=0).all():
        return None
    return Windows(size, out, -pad, step, spread, _known_taps(index, size), counts)


@lru_cache(maxsize=1024)
def _taps_of(data: bytes, taps: int, size: int) -> Taps:
    return Taps(np.frombuffer(data, np.intp).reshape(taps, -1), None, size)


def _known_taps(index: NDArray[np.intp], size: int) -> Taps:
    """Return equal taps as one object, because kernels remember the tables of an object."""
    return _taps_of(np.ascontiguousarray(index, np.intp).tobytes(), len(index), size)


@lru_cache(maxsize=1024)
def _adaptive_windows(shape: Sizes, out_sizes: Sizes) -> tuple[Windows, ...]:
    """Return windows in which output i of an axis sees the inputs from floor(i * size / out) to ceil((i + 1) * size /
    out).
    """
    if len(shape) < 3 or len(out_sizes) != len(shape) - 2:
        raise ValueError(
            f"adaptive pooling of an array of shape {tuple(shape)} to {tuple(out_sizes)}: "
            "the numbers of dimensions do not fit. Give an array (N, C, *spatial) and one size per spatial axis. "
            "[nd-window]"
        )
    windows: list[Windows] = []
    for size, out in zip(shape[2:], out_sizes, strict=True):
        if out and size % out == 0 and size:
            windows += _regular_windows((1, 1, size), (size // out,), (size // out,), (0,), (1,), False)
            continue
        if size == 0 and out > 0:
            raise ValueError(
                f"adaptive pooling of an array of shape {tuple(shape)} to {tuple(out_sizes)}: "
                "there is nothing to pool along an axis of length 0. Ask for size 0 there too. [nd-window]"
            )
        outputs = np.arange(out)
        starts = outputs * size // max(out, 1)
        counts = -(-(outputs + 1) * size // max(out, 1)) - starts
        steps = np.arange(max(1, int(counts.max(initial=0))))[:, None]
        index = np.where(steps < counts, starts + steps, -1)
        windows.append(Windows(size, out, 0, 0, 1, _known_taps(index, size), counts))
    return tuple(windows)


# ----- maximum -----


def max_pool(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[Array, NDArray[np.int64]]:
    """Return the maxima of x (N, C, *S) over windows, and the position of each in its plane, in row-major order.

    The first of equal maxima is taken, but the last NaN, as in torch.

    >>> values, indices = max_pool(np.array([[[1.0, 5.0, 2.0, 2.0]]]), (2,), (2,), (0,), (1,))
    >>> values, indices
    (array([[[5., 2.]]]), array([[[1, 2]]]))
    """
    return _max(x, _regular_windows(x.shape, tuple(kernel), tuple(stride), tuple(padding), tuple(dilation), ceil_mode))


def adaptive_max_pool(x: Array, out_sizes: Sequence[int]) -> tuple[Array, NDArray[np.int64]]:
    """Return the maxima of x (N, C, *S) over windows, as many as `out_sizes` gives, and their positions as in
    `max_pool`.

    >>> adaptive_max_pool(np.array([[[1.0, 5.0, 2.0]]]), (2,))
    (array([[[5., 5.]]]), array([[[1, 1]]]))
    """
    return _max(x, _adaptive_windows(x.shape, tuple(out_sizes)))


def _max(x: Array, windows: tuple[Windows, ...]) -> tuple[Array, NDArray[np.int64]]:
    kernels = _regular_kernels(x, windows)
    if kernels is not None:
        values, places = kernels.max_pool(native_kernels.dense(x), [w.axis for w in windows])
        return values, places
    return maxima(library_of(x), x, tuple([w.taps for w in windows]))


def fractional_max_pool(
    x: Array, samples: Array, kernel: Sequence[int], out_sizes: Sequence[int]
) -> tuple[Array, NDArray[np.int64]]:
    """Return the maxima of x (N, C, *S) over windows that begin at irregular steps (Graham, 2014), and their positions.

    Along an axis of n elements the i-th of m windows of k begins at floor((i + u) a) - floor(u a) with a = (n - k) / (m
    - 1), where u is the plane's sample for that axis (N, C, axes). The last window begins at n - k.

    >>> fractional_max_pool(np.array([[[1.0, 5.0, 2.0, 7.0]]]), np.array([[[0.5]]]), (2,), (2,))
    (array([[[5., 7.]]]), array([[[1, 3]]]))
    """
    library = library_of(x)
    planes = (prod(x.shape[:2]),)
    places = library.zeros(planes + (1,) * (2 * len(kernel)), np.int64)
    for axis, (n, k, m) in enumerate(zip(x.shape[2:], kernel, out_sizes, strict=True)):
        u = samples[..., axis].reshape(-1, 1)
        step = u.dtype.type((n - k) / (m - 1)) if m > 1 else u.dtype.type(0)
        starts = ((library.arange(m) + u) * step).astype(np.int64) - (u * step).astype(np.int64)
        starts[:, m - 1 :] = n - k
        reached = starts[:, :, None] + library.arange(k)
        shape = [1] * (2 * len(kernel))
        shape[axis], shape[len(kernel) + axis] = m, k
        places = places * n + reached.reshape(*planes, *shape)
    places = places.reshape(*planes, prod(out_sizes), prod(kernel))
    flat = x.reshape(*planes, 1, prod(x.shape[2:]))
    best = library.take_along_axis(flat, places, -1).argmax(-1) if places.size else places[..., 0]
    index = library.take_along_axis(places, best[..., None], -1)[..., 0]
    values = library.take_along_axis(flat[:, 0], index, -1)
    shape_out = (*x.shape[:2], *out_sizes)
    return values.reshape(shape_out), index.reshape(shape_out)


def max_pool_grad(g: Array, indices: NDArray[np.int64], x_shape: Sequence[int], *, distinct: bool = False) -> Any:
    """Add each g (N, C, *O) at its index into a plane of zeros (N, C, *S): the adjoint of `take_pooled`.

    `distinct` promises that no index occurs twice in a plane, as for windows without overlap; assignment then suffices.

    >>> max_pool_grad(np.array([[[1.0, 10.0]]]), np.array([[[1, 1]]]), (1, 1, 3))
    array([[[ 0., 11.,  0.]]])
    """
    if not g.size:
        return library_of(g).zeros(tuple(x_shape), g.dtype)
    on_device = native_kernels.window_kernels(g)
    if on_device is not None:
        axes = _planes(tuple(x_shape[2:]), g.shape[2:])
        return on_device.max_pool_grad(native_kernels.dense(g), native_kernels.dense(indices), axes)
    found = add_at_positions(g, indices, tuple(x_shape))
    if found is not None:
        return found
    planes, size = prod(x_shape[:2]), prod(x_shape[2:])
    library = library_of(g)
    grad = library.zeros(planes * size, g.dtype)
    flat = (indices.reshape(planes, -1) + library.arange(0, planes * size, size)[:, None]).reshape(-1)
    if distinct:
        grad[flat] = g.reshape(-1)
    else:
        add_at(library, grad, flat, g.reshape(-1))
    return grad.reshape(tuple(x_shape))


@lru_cache(maxsize=1024)
def _planes(sizes: Sizes, out: Sizes) -> tuple[Axis, ...]:
    """Return axes for kernels that need only the sizes of planes and results."""
    return tuple([Axis(n, 1, 1, 1, 0, count) for n, count in zip(sizes, out, strict=True)])


def take_pooled(x: Array, indices: NDArray[np.int64]) -> Any:
    """Return the values of x (N, C, *S) at indices (N, C, *O) into its planes: with `max_pool`'s, its linearisation.

    >>> take_pooled(np.array([[[1.0, 5.0, 2.0]]]), np.array([[[1, 1]]]))
    array([[[5., 5.]]])
    """
    planes, size = prod(x.shape[:2]), prod(x.shape[2:])
    library = library_of(x)
    if not indices.size:
        return library.empty(indices.shape, x.dtype)
    flat = indices.reshape(planes, -1) + library.arange(0, planes * size, size)[:, None]
    return x.reshape(-1).take(flat.reshape(-1)).reshape(indices.shape)


#: Windows per row from which the kernels of regular windows are faster: for rows whose windows are all inside, and for
#: other rows, whose first and last windows are computed one by one.
_SHORT_ROW, _LONG_ROW = 4, 24


def _regular_kernels(x: Array, windows: tuple[Windows, ...]) -> Any:
    """Return the kernels of regular windows if they should be used, else None: for large arrays with long rows."""
    if not all(w.stride for w in windows):
        return None
    if is_on_device(x):
        return native_kernels.window_kernels(x)
    if x.size < native_kernels.SMALLEST or not 1 <= len(windows) <= 3:
        return None
    last = windows[-1]
    if last.out < _SHORT_ROW or (last.out < _LONG_ROW and not last.is_inside):
        return None
    kernels = native_kernels.kernels_for(x)
    return None if kernels is None else kernels.pooling(x.dtype)


# ----- average -----


@lru_cache(maxsize=1024)
def average_taps(
    shape: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> tuple[Taps, ...]:  # fmt: skip
    """Return the taps of means over regular windows of an array (N, C, *S)."""
    windows = _regular_windows(shape, kernel, stride, padding, (1,) * len(kernel), ceil_mode, count_include_pad)
    if divisor_override is None:
        return _means(windows)
    first, *others = (w.taps for w in windows)
    return Taps(first.index, None, first.inputs, np.full(first.outputs, divisor_override)), *others


@lru_cache(maxsize=1024)
def adaptive_taps(shape: Sizes, out_sizes: Sizes) -> tuple[Taps, ...]:
    """Return the taps of means over as many windows of an array (N, C, *S) as `out_sizes` gives."""
    return _means(_adaptive_windows(shape, out_sizes))


def _means(windows: tuple[Windows, ...]) -> tuple[Taps, ...]:
    return tuple([Taps(w.taps.index, None, w.size, w.counts) for w in windows])


def avg_pool(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the means of x (N, C, *S) over windows.

    >>> avg_pool(np.array([[[1.0, 5.0, 2.0, 4.0]]]), (2,), (2,), (0,))
    array([[[3., 3.]]])
    """
    how = (tuple(kernel), tuple(stride), tuple(padding))
    if is_on_device(x) or x.size >= native_kernels.SMALLEST:
        windows = _regular_windows(x.shape, *how, (1,) * len(how[0]), ceil_mode, count_include_pad)
        kernels = _regular_kernels(x, windows)
        if kernels is not None:
            counts = kernels.pooling_counts([w.counts for w in windows], divisor_override)
            return kernels.avg_pool(native_kernels.dense(x), [w.axis for w in windows], counts)
    taps = average_taps(x.shape, *how, ceil_mode, count_include_pad, divisor_override)
    return weighted_sum(library_of(x), x, tuple(range(2, x.ndim)), taps)


def avg_pool_grad(
    g: Array,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Spread each g (N, C, *O) evenly over its window, giving (N, C, *S): the adjoint of `avg_pool`.

    >>> avg_pool_grad(np.array([[[2.0, 4.0]]]), (1, 1, 4), (2,), (2,), (0,))
    array([[[1., 1., 2., 2.]]])
    """
    shape, how = tuple(x_shape), (tuple(kernel), tuple(stride), tuple(padding))
    if is_on_device(g):
        windows = _regular_windows(shape, *how, (1,) * len(how[0]), ceil_mode, count_include_pad)
        kernels = _regular_kernels(g, windows)
        if kernels is not None:
            counts = kernels.pooling_counts([w.counts for w in windows], divisor_override)
            return kernels.avg_pool_grad(native_kernels.dense(g), [w.axis for w in windows], counts)
    taps = average_taps(shape, *how, ceil_mode, count_include_pad, divisor_override)
    return weighted_sum(library_of(g), g, tuple(range(2, g.ndim)), transposed(taps))
