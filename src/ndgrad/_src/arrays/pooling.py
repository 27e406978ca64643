"""Max and average pooling, with their adjoints, in any number of spatial dimensions.

Every array is (N, C, *spatial). The constraint that shaped this file: all poolings are separable. A maximum or a sum
over a window is one over each axis in turn, so a window costs the sum of its sides and not their product, and each step
is a few passes over whole arrays. `Windows` describes an axis by the inputs that each of its taps reads. It covers
regular windows, with stride, padding and dilation, and the uneven ones of adaptive pooling. Work on NumPy arrays is
split into blocks of planes that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import native_kernels, threads
from ndgrad._src.arrays.correlation import Axis
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.precision import computing_dtype, is_floating, widen
from ndgrad._src.arrays.scatter import add_at

Array = NDArray[Any]
Selection = slice | NDArray[np.intp]

# Input bytes of one block: about a core's second-level cache. Smaller blocks lose time passing the interpreter lock
# around: with a quarter of this, two threads were slower than one.
_BLOCK_BYTES = 2**20
_BYTES_PER_THREAD = 2**21  # input bytes from which another thread pays off


class Windows(NamedTuple):
    """The windows along one axis of `size` inputs: outputs reads[t][0] see inputs reads[t][1] as their tap t.

    `starts` holds the input of tap 0 for each output. It is outside for windows that begin in the padding; tap t is
    `dilation * t` further. `stride` is the distance of starts, or 0 if they are uneven. `counts` are the divisors of
    averages.
    """

    size: int
    out: int
    starts: NDArray[np.intp]
    stride: int
    dilation: int
    reads: list[tuple[Selection, Selection]]
    counts: NDArray[np.intp]


# ----- geometry -----


def _regular_windows(
    shape: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> list[Windows]:
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
    windows = []
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
    return windows


@lru_cache(maxsize=1024)
def _regular_axes(
    shape: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...],
    dilation: tuple[int, ...], ceil_mode: bool,
) -> tuple[Axis, ...]:  # fmt: skip
    """Return the spatial axes of a pooling, after checking them."""
    return tuple([_axis(w) for w in _regular_windows(shape, kernel, stride, padding, dilation, ceil_mode)])


@lru_cache(maxsize=1024)
def _planes(sizes: tuple[int, ...], out: tuple[int, ...]) -> tuple[Axis, ...]:
    """Return axes with only sizes."""
    return tuple([Axis(n, 1, 1, 1, 0, count) for n, count in zip(sizes, out, strict=True)])


@lru_cache(maxsize=1024)
def regular_axis(
    size: int, taps: int, step: int, pad: int, spread: int, ceil_mode: bool, count_include_pad: bool
) -> Windows | None:
    """Return the windows along one axis, or None if a window would see only padding."""
    slack = size + 2 * pad - spread * (taps - 1) - 1
    out = (slack + (step - 1 if ceil_mode else 0)) // step + 1
    if ceil_mode and (out - 1) * step >= size + pad:
        out -= 1  # a window may not begin in the padding at the end
    axis = Axis(size, taps, step, spread, pad, out)
    starts = np.arange(out) * step - pad
    # Windows of ceil mode may extend beyond the padding; that part never counts.
    first, last = (starts, size + pad) if count_include_pad else (np.maximum(starts, 0), size)
    counts = np.minimum(starts + taps, last) - first
    reads: list[tuple[Selection, Selection]] = [axis.reads(tap) for tap in range(taps)]
    seeing = np.zeros(out, bool)
    for outputs, _ in reads:
        seeing[outputs] = True
    return Windows(size, out, starts, step, spread, reads, counts) if seeing.all() else None


def _adaptive_windows(shape: Sequence[int], out_sizes: Sequence[int]) -> list[Windows]:
    """Return windows in which output i of an axis sees the inputs from floor(i * size / out) to ceil((i + 1) * size /
    out).
    """
    if len(shape) < 3 or len(out_sizes) != len(shape) - 2:
        raise ValueError(
            f"adaptive pooling of an array of shape {tuple(shape)} to {tuple(out_sizes)}: "
            "the numbers of dimensions do not fit. Give an array (N, C, *spatial) and one size per spatial axis. "
            "[nd-window]"
        )
    windows = []
    for size, out in zip(shape[2:], out_sizes, strict=True):
        if out and size % out == 0 and size:
            windows += _regular_windows((1, 1, size), (size // out,), (size // out,), (0,), (1,), False)
            continue
        if size == 0 and out > 0:
            raise ValueError(
                f"adaptive pooling of an array of shape {tuple(shape)} to {tuple(out_sizes)}: "
                "there is nothing to pool along an axis of length 0. Ask for size 0 there too. [nd-window]"
            )
        index = np.arange(out)
        starts = index * size // max(out, 1)
        counts = -(-(index + 1) * size // max(out, 1)) - starts
        reads: list[tuple[Selection, Selection]] = []
        for tap in range(counts.max(initial=0)):
            outputs = np.flatnonzero(counts > tap)
            reads.append((outputs, starts[outputs] + tap))
        windows.append(Windows(size, out, starts, 0, 1, reads, counts))
    return windows


def _index_along(axis: int, selection: Selection) -> tuple[Any, ...]:
    """Return the index for `selection` along an axis counted from the end."""
    return (..., selection, *[slice(None)] * (-axis - 1))


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
    on_device = native_kernels.window_kernels(x)
    if on_device is not None:
        axes = _regular_axes(x.shape, tuple(kernel), tuple(stride), tuple(padding), tuple(dilation), ceil_mode)
        values, places = on_device.max_pool(native_kernels.dense(x), axes)
        return values, places
    return _max(x, _regular_windows(x.shape, kernel, stride, padding, dilation, ceil_mode))


def adaptive_max_pool(x: Array, out_sizes: Sequence[int]) -> tuple[Array, NDArray[np.int64]]:
    """Return the maxima of x (N, C, *S) over windows, as many as `out_sizes` gives, and their positions as in
    `max_pool`.

    >>> adaptive_max_pool(np.array([[[1.0, 5.0, 2.0]]]), (2,))
    (array([[[5., 5.]]]), array([[[1, 1]]]))
    """
    return _max(x, _adaptive_windows(x.shape, out_sizes))


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
    planes, size = prod(x_shape[:2]), prod(x_shape[2:])
    library = library_of(g)
    kernels = native_kernels.kernels_for(g) if indices.__class__ is np.ndarray and indices.flags.c_contiguous else None
    kernels = None if kernels is None or indices.dtype != np.int64 else kernels.pooling(g.dtype)
    if kernels is not None and len(x_shape) <= 5 and indices.min() >= 0 and indices.max() < size:
        return kernels.max_pool_grad(g, indices, _planes(tuple(x_shape[2:]), g.shape[2:]))
    grad = library.zeros((planes, size), g.dtype)
    g_flat = g.reshape(planes, -1)
    index_flat = indices.reshape(planes, -1)

    def work(block: slice) -> None:
        target = grad[block]
        flat = index_flat[block] + library.arange(0, target.size, size)[:, None]
        if distinct:
            target.reshape(-1)[flat.reshape(-1)] = g_flat[block].reshape(-1)
        else:
            add_at(library, target.reshape(-1), flat.reshape(-1), g_flat[block].reshape(-1))

    _run_in_blocks(library, work, planes, size * g.itemsize)
    return grad.reshape(tuple(x_shape))


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


def _max(x: Array, windows: list[Windows]) -> tuple[Array, NDArray[np.int64]]:
    """Pool the last axis first, so that "the first maximum along each axis" is the first one in row-major order.

    Each value carries a number that encodes the taps it came from. At the end a table converts it to an offset from the
    window's start.
    """
    kernels = _native(x, windows)
    if kernels is not None:
        values, places = kernels.max_pool(native_kernels.dense(x), [_axis(w) for w in windows])
        return values, places
    if x.__class__ is np.ndarray and not all(w.stride for w in windows) and x.size:
        few = _max_of_few_windows(x, windows)
        if few is not None:
            return few
    spatial = tuple(axis.out for axis in windows)
    planes = prod(x.shape[:2])
    taps = [len(axis.reads) for axis in windows]
    pitches = [prod(axis.size for axis in windows[number + 1 :]) for number in range(len(windows))]
    base = reduce(np.add.outer, [axis.starts * pitch for axis, pitch in zip(windows, pitches, strict=True)])
    steps = [
        np.arange(count) * (axis.dilation * pitch) for count, axis, pitch in zip(taps, windows, pitches, strict=True)
    ]
    offsets = reduce(np.add.outer, steps).reshape(-1)
    code_dtype = np.dtype(np.uint8) if prod(taps) <= 256 else np.dtype(np.int64)
    library = library_of(x)
    values = library.empty((planes, *spatial), x.dtype)
    indices = library.empty((planes, *spatial), np.int64)
    flat = x.reshape(planes, *x.shape[2:])
    even = library is np and all(axis.stride for axis in windows)
    base, offsets = library.asarray(base, np.int64), library.asarray(offsets, np.int64)

    def work(block: slice) -> None:
        part = flat[block]
        part = widen(part)  # exact, and NumPy compares sixteen-bit floats one by one
        found = _max_of_even_windows(part, windows, code_dtype) if even else None
        result, code = found or _max_of_planes(library, part, windows, code_dtype)
        values[block] = result
        if library is np:
            np.take(offsets, code.astype(np.intp), out=indices[block], mode="clip")
        else:
            indices[block] = offsets[code]
        indices[block] += base

    if values.size:
        _run_in_blocks(library, work, planes, prod(x.shape[2:]) * x.itemsize)
    return values.reshape(*x.shape[:2], *spatial), indices.reshape(*x.shape[:2], *spatial)


def _native(x: Array, windows: list[Windows]) -> Any:
    """Return the native kernels if they should be used, else None.

    They serve large arrays with evenly spaced windows, in long rows or in rows without padding.
    """
    if is_on_device(x):
        return native_kernels.window_kernels(x) if all(w.stride for w in windows) else None
    if x.size < native_kernels.SMALLEST or not 1 <= len(windows) <= 3 or not all(w.stride for w in windows):
        return None
    last = windows[-1]
    if last.out < _SHORT_ROW or (last.out < _LONG_ROW and not _is_inside(last)):
        return None
    kernels = native_kernels.kernels_for(x)
    return None if kernels is None else kernels.pooling(x.dtype)


def _is_inside(w: Windows) -> bool:
    """True if all windows along an axis are inside the array."""
    return bool(w.starts[0] >= 0 and w.starts[-1] + (len(w.reads) - 1) * w.dilation < w.size)


def _axis(w: Windows) -> Axis:
    return Axis(w.size, len(w.reads), w.stride, w.dilation, -int(w.starts[0]) if w.out else 0, w.out)


def _max_of_few_windows(x: Array, windows: list[Windows]) -> tuple[Array, NDArray[np.int64]] | None:
    """Compute `_max` one window at a time, for uneven windows, which are large if they are few.

    Returns None for many windows, and if a NaN wins, because the last NaN must be found.
    """
    spatial = tuple(w.out for w in windows)
    if prod(spatial) > _FEW or any(w.dilation != 1 for w in windows) or not is_floating(x.dtype):
        return None
    planes = prod(x.shape[:2])
    flat = x.reshape(planes, *x.shape[2:])
    values, places = np.empty((planes, *spatial), x.dtype), np.empty((planes, *spatial), np.int64)
    for index in np.ndindex(*spatial):
        starts = [int(w.starts[i]) for w, i in zip(windows, index, strict=True)]
        sizes = [int(w.counts[i]) for w, i in zip(windows, index, strict=True)]
        ranges = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        window = flat[(slice(None), *ranges)].reshape(planes, -1)
        best = window.argmax(axis=1)
        values[(slice(None), *index)] = window[np.arange(planes), best]
        within = np.unravel_index(best, sizes)
        place = np.zeros(planes, np.int64)
        for w, start, offset in zip(windows, starts, within, strict=True):
            place = place * w.size + (start + offset)
        places[(slice(None), *index)] = place
    if np.isnan(values).any():
        return None
    return values.reshape(*x.shape[:2], *spatial), places.reshape(*x.shape[:2], *spatial)


#: Windows per row from which native kernels, which work row by row, are faster than passes over whole arrays. The first
#: number is for rows whose windows are all inside. In other rows the first and last windows are computed one by one,
#: which the second number covers.
_SHORT_ROW, _LONG_ROW = 4, 24
#: Up to this many windows are computed one at a time.
_FEW = 64


def _max_of_even_windows(x: Array, windows: list[Windows], code_dtype: np.dtype[Any]) -> tuple[Array, Array] | None:
    """Compute `_max_of_planes` for evenly spaced windows in long contiguous passes; None for special cases.

    NumPy spends some 12 ns on starting each row, as much as on a hundred numbers. So a tap is one shift of the whole
    flattened array. This computes windows that begin anywhere, also those that extend from one row into the next, and
    the needed ones are picked afterwards. It cannot choose among several NaNs, nor distinguish padding from a lowest
    value in the array.
    """
    lowest = _lowest(x.dtype)
    spans = [(axis.out - 1) * axis.stride + (len(axis.reads) - 1) * axis.dilation + 1 for axis in windows]
    padded = any(
        axis.starts[0] < 0 or span + axis.starts[0] > axis.size for axis, span in zip(windows, spans, strict=True)
    )
    if padded:
        ranges = [
            Axis(axis.size, 1, 1, 1, -int(axis.starts[0]), span).reads(0)
            for axis, span in zip(windows, spans, strict=True)
        ]
        inside = np.full((len(x), *spans), lowest, x.dtype)
        inside[(slice(None), *(here for here, _ in ranges))] = x[(slice(None), *(there for _, there in ranges))]
        x = inside
    x = np.ascontiguousarray(x)
    last = windows[-1]
    if last.dilation == 1 and last.stride == len(last.reads) > 1 and last.out * last.stride == x.shape[-1]:
        x, code = _max_of_tiles(x, last.stride, code_dtype)
    else:
        x, code = _max_of_shifts(x, np.zeros(x.shape, code_dtype), -1, last, 1)
    weight = len(last.reads)  # weight of a tap along the next axis within the code
    for axis in range(-2, -len(windows) - 1, -1):
        x, code = _max_of_shifts(x, code, axis, windows[axis], weight)
        weight *= len(windows[axis].reads)
    if (is_floating(x.dtype) and np.isnan(x).any()) or (padded and (x == lowest).any()):
        return None
    return x, code


def _max_of_shifts(x: Array, code: Array, axis: int, windows: Windows, weight: int) -> tuple[Array, Array]:
    """Pool one axis of values and codes by shifts of the whole array."""
    pitch = prod(x.shape[x.ndim + axis + 1 :])
    best, best_code = np.empty_like(x), code.copy()
    length = x.size - (len(windows.reads) - 1) * windows.dilation * pitch
    current, current_code = x.reshape(-1)[:length], best_code.reshape(-1)[:length]
    for tap in range(1, len(windows.reads)):
        shift = tap * windows.dilation * pitch
        candidate = x.reshape(-1)[shift : shift + length]
        _take_code(candidate > current, code.reshape(-1)[shift : shift + length], tap * weight, current_code)
        current = np.maximum(current, candidate, out=best.reshape(-1)[:length])
    best = best if len(windows.reads) > 1 else x
    return _pick(best, axis, windows), _pick(best_code, axis, windows)


def _pick(x: Array, axis: int, windows: Windows) -> Array:
    """Select the starts of windows along an axis.

    A row behind the axis is copied as one item, for which NumPy takes half the time.
    """
    starts = slice(0, (windows.out - 1) * windows.stride + 1, windows.stride)
    shape, rest = x.shape[: x.ndim + axis + 1], x.shape[x.ndim + axis + 1 :]
    rows = x.reshape(-1).view(np.dtype((np.void, prod(rest) * x.itemsize))).reshape(shape)
    return np.ascontiguousarray(rows[..., starts]).reshape(-1).view(x.dtype).reshape(*shape[:-1], windows.out, *rest)


def _max_of_tiles(x: Array, taps: int, code_dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Pool the last axis if windows tile it. Each tap is then one evenly spaced read of the flattened array."""
    flat = x.reshape(-1)
    best, candidate = flat[::taps].copy(), flat[1::taps].copy()
    code = (candidate > best).astype(code_dtype)
    np.maximum(best, candidate, out=best)
    for tap in range(2, taps):
        candidate = flat[tap::taps].copy()
        np.copyto(code, code_dtype.type(tap), where=candidate > best)
        np.maximum(best, candidate, out=best)
    shape = (*x.shape[:-1], x.shape[-1] // taps)
    return best.reshape(shape), code.reshape(shape)


def _take_code(better: Array, candidate: Array, tap: int, current: Array) -> None:
    """Set current = candidate + tap where better, by bit operations, because np.where takes 4 ns for each byte."""
    change = candidate + current.dtype.type(tap)
    change ^= current
    change &= np.negative(better.view(np.uint8) if current.dtype == np.uint8 else better.astype(current.dtype))
    current ^= change


def _max_of_planes(library: Any, x: Array, windows: list[Windows], code_dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Return maxima over windows of the last axes, and for each the number of its tap in row-major order of the
    kernel.
    """
    code = library.zeros(x.shape, code_dtype)
    weight = 1
    for axis in range(-1, -len(windows) - 1, -1):
        x, code = _max_along(library, x, code, axis, windows[axis], weight)
        weight *= len(windows[axis].reads)
    return x, code


def _max_along(library: Any, x: Array, code: Array, axis: int, windows: Windows, weight: int) -> tuple[Array, Array]:
    """Pool one axis of values and codes. The tap along this axis adds its number times `weight` to the code."""
    shape = list(x.shape)
    shape[axis] = windows.out
    best = library.full(shape, _lowest(x.dtype), x.dtype)
    best_code = library.zeros(shape, code.dtype)
    # If nothing exceeds the lowest value, the first tap inside the array counts.
    for tap, (outputs, inputs) in reversed(list(enumerate(windows.reads))):
        best_code[_index_along(axis, outputs)] = code[_index_along(axis, inputs)] + code.dtype.type(tap * weight)
    for tap, (outputs, inputs) in enumerate(windows.reads):
        where = _index_along(axis, outputs)
        candidate, current, current_code = x[_index_along(axis, inputs)], best[where], best_code[where]
        better = candidate > current
        if is_floating(x.dtype):
            better |= candidate != candidate  # np.maximum propagates a NaN, but its position must be recorded
        _take_code(better, code[_index_along(axis, inputs)], tap * weight, current_code)
        best[where] = library.maximum(current, candidate)
        best_code[where] = current_code
    return best, best_code


def _covers(outputs: Selection, count: int) -> bool:
    return outputs == slice(0, count) if isinstance(outputs, slice) else len(outputs) == count


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


# ----- average -----


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
    windows = _regular_windows(x.shape, kernel, stride, padding, (1,) * len(kernel), ceil_mode, count_include_pad)
    return _mean(x, windows, divisor_override)


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
    windows = _regular_windows(x_shape, kernel, stride, padding, (1,) * len(kernel), ceil_mode, count_include_pad)
    return _mean_adjoint(g, x_shape, windows, divisor_override)


def adaptive_avg_pool(x: Array, out_sizes: Sequence[int]) -> Any:
    """Return the means of x (N, C, *S) over windows, as many as `out_sizes` gives.

    >>> adaptive_avg_pool(np.array([[[1.0, 5.0, 2.0]]]), (2,))
    array([[[3. , 3.5]]])
    """
    return _mean(x, _adaptive_windows(x.shape, out_sizes), None)


def adaptive_avg_pool_grad(g: Array, x_shape: Sequence[int]) -> Any:
    """Return the adjoint of `adaptive_avg_pool`.

    >>> adaptive_avg_pool_grad(np.array([[[2.0, 4.0]]]), (1, 1, 3))
    array([[[1., 3., 2.]]])
    """
    return _mean_adjoint(g, x_shape, _adaptive_windows(x_shape, g.shape[2:]), None)


def _divisor(windows: list[Windows], override: int | None) -> Array:
    """Return the number of inputs that each output averages: the product of the counts along the axes."""
    counts: Array = np.ones((), np.int64)
    for axis in windows:
        counts = counts[..., None] * axis.counts
    return counts if override is None else np.full(counts.shape, override)


def _mean(x: Array, windows: list[Windows], override: int | None) -> Any:
    kernels = _native(x, windows)
    if kernels is not None:
        counts = kernels.pooling_counts([w.counts for w in windows], override)
        return kernels.avg_pool(native_kernels.dense(x), [_axis(w) for w in windows], counts)
    spatial = tuple(axis.out for axis in windows)
    planes = prod(x.shape[:2])
    summing = computing_dtype(x.dtype)
    library = library_of(x)
    divisor = library.asarray(_divisor(windows, override).astype(summing))
    flat = x.reshape(planes, *x.shape[2:])
    means = library.empty((planes, *spatial), x.dtype)

    def work(block: slice) -> None:
        part = flat[block].astype(summing, copy=False)
        for axis in range(-1, -len(windows) - 1, -1):
            part = _sum_along(library, part, axis, windows[axis])
        means[block] = part / divisor

    if means.size:
        _run_in_blocks(library, work, planes, prod(x.shape[2:]) * x.itemsize)
    return means.reshape(*x.shape[:2], *spatial)


def _mean_adjoint(g: Array, x_shape: Sequence[int], windows: list[Windows], override: int | None) -> Any:
    kernels = _native(g, windows) if is_on_device(g) else None
    if kernels is not None:
        counts = kernels.pooling_counts([w.counts for w in windows], override)
        return kernels.avg_pool_grad(native_kernels.dense(g), [_axis(w) for w in windows], counts)
    planes = prod(x_shape[:2])
    summing = computing_dtype(g.dtype)
    library = library_of(g)
    divisor = library.asarray(_divisor(windows, override).astype(summing))
    flat = g.reshape(planes, *g.shape[2:])
    grad = library.empty((planes, *x_shape[2:]), g.dtype)

    def work(block: slice) -> None:
        part = flat[block] / divisor
        for axis in range(-len(windows), 0):
            part = _spread_along(library, part, axis, windows[axis])
        grad[block] = part

    if grad.size:
        _run_in_blocks(library, work, planes, prod(x_shape[2:]) * g.itemsize)
    return grad.reshape(tuple(x_shape))


#: Up to this many outputs along an axis, uneven windows are summed by a product.
_NARROW = 32


def _incidence(windows: Windows, dtype: Any) -> Array:
    """Return a matrix with 1 if an output (row) sees an input (column). Sums over uneven windows are products with
    it.
    """
    index = np.arange(windows.size)
    starts, counts = windows.starts[:, None], windows.counts[:, None]
    return ((index >= starts) & (index < starts + counts)).astype(dtype)


def _sum_by_product(library: Any, x: Array, axis: int, windows: Windows, adjoint: bool) -> Any:
    """Compute `_sum_along` or its adjoint as a matrix product, for few and large uneven windows.

    Returns None for other windows, and if an infinity or a NaN, times zero, has affected other windows.
    """
    if library is not np or windows.stride or windows.out > _NARROW or x.dtype.char not in "fd":
        return None
    matrix = _incidence(windows, x.dtype)
    with np.errstate(invalid="ignore"):
        out = np.moveaxis(np.tensordot(x, matrix, ((x.ndim + axis,), (0 if adjoint else 1,))), -1, axis)
    return out if np.isfinite(out).all() else None


def _sum_along(library: Any, x: Array, axis: int, windows: Windows) -> Array:
    found = _sum_by_product(library, x, axis, windows, False)
    if found is not None:
        return found
    (outputs, inputs), *rest = windows.reads
    if _covers(outputs, windows.out) and rest and _covers(rest[0][0], windows.out):
        total: Array = x[_index_along(axis, inputs)] + x[_index_along(axis, rest[0][1])]
        rest = rest[1:]
    else:
        rest = windows.reads
        shape = list(x.shape)
        shape[axis] = windows.out
        total = library.zeros(shape, x.dtype)
    for outputs, inputs in rest:
        total[_index_along(axis, outputs)] += x[_index_along(axis, inputs)]
    return total


def _spread_along(library: Any, g: Array, axis: int, windows: Windows) -> Any:
    """Compute the adjoint of `_sum_along`."""
    found = _sum_by_product(library, g, axis, windows, True)
    if found is not None:
        return found
    shape = list(g.shape)
    shape[axis] = windows.size
    spread = library.zeros(shape, g.dtype)
    for outputs, inputs in windows.reads:
        if isinstance(inputs, slice):
            spread[_index_along(axis, inputs)] += g[_index_along(axis, outputs)]
        else:  # with more outputs than inputs, two outputs may see the same input as the same tap
            add_at(library, spread, _index_along(axis, inputs), g[_index_along(axis, outputs)])
    return spread


# ----- blocks -----


def _run_in_blocks(library: Any, work: Callable[[slice], None], planes: int, plane_bytes: int) -> None:
    """Call `work` for slices of planes that fit the cache, on several threads if it pays off; on a GPU for all at
    once.
    """
    if library is not np:
        return work(slice(0, planes))
    sharing = max(1, min(threads.max_threads, planes * plane_bytes // _BYTES_PER_THREAD))
    count = max(1, min(_BLOCK_BYTES // max(plane_bytes, 1), -(-planes // sharing)))

    def worker(blocks: Iterator[slice]) -> None:
        for block in blocks:
            work(block)

    blocks = [slice(start, start + count) for start in range(0, planes, count)]
    threads.share(blocks, worker, threads=sharing)
