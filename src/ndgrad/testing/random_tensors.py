"""make_tensor: a tensor of random values for a test, of any dtype and memory layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import host_draws
from ndgrad._src.arrays.dtypes import as_dtype, as_numpy_dtype
from ndgrad._src.arrays.precision import finfo
from ndgrad._src.ops.random import source_of
from ndgrad._src.tensor.arguments import as_shape
from ndgrad._src.tensor.functions.data import tensor

if TYPE_CHECKING:
    import numpy.typing as npt

    from ndgrad._src.arrays.dtypes import DTypeLike
    from ndgrad._typing import Device, MemoryFormat, Tensor


def make_tensor(
    *shape: int | Sequence[int],
    dtype: DTypeLike,
    device: Device = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: MemoryFormat = None,
) -> Tensor:
    """Return a tensor of values drawn uniformly from [low, high).

    Args:
        *shape: sizes, as ints or as one tuple.
        dtype: dtype of the result.
        device: device of the result.
        low: smallest value. None means -9, and 0 for bool and unsigned integers.
        high: end of the interval. None means 9, 10 for integers and 2 for bool.
        requires_grad: whether autograd records operations on the result.
        noncontiguous: whether the result is every other element of a larger tensor.
        exclude_zero: whether zeros are replaced by a small number.
        memory_format: memory layout of the result. It excludes `noncontiguous`.

    >>> from ndgrad.testing import make_tensor
    >>> t = make_tensor((2, 3), dtype=ndgrad.float32, low=1, high=2, noncontiguous=True)
    >>> t.shape, t.dtype, t.is_contiguous(), bool((t >= 1).all())
    (ndgrad.Size([2, 3]), ndgrad.float32, False, True)
    """
    sizes = as_shape(shape)
    kind = as_numpy_dtype(dtype)
    discrete = kind.kind in "biu"
    lowest, highest = _limits(kind)
    start, stop = _interval(kind, dtype, low, high, lowest, highest)
    if requires_grad and discrete:
        raise ValueError(
            f"make_tensor: requires_grad=True is not possible for {as_dtype(dtype)}. Give a floating or complex dtype. "
            "[nd-grad-dtype]"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "make_tensor: noncontiguous and memory_format exclude each other. Give one of them. [nd-exclusive]"
        )
    with_gaps = noncontiguous and math.prod(sizes) > 1
    values = _draw(kind, (*sizes[:-1], 2 * sizes[-1]) if with_gaps else sizes, start, stop)
    if exclude_zero:
        smallest = 1 if discrete else float(finfo(kind).tiny)
        values = np.where(values == 0, np.asarray(smallest).astype(kind), values)
    made = tensor(values, dtype=as_dtype(dtype), device=device)
    if with_gaps:
        made = made[..., 1::2]
    elif memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_(requires_grad)


def _limits(kind: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and greatest value of a dtype; for integers the greatest is excluded."""
    if kind.kind == "b":
        return 0, 2
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return int(info.min), int(info.max) + (kind.itemsize < 8)
    found = finfo(kind)
    return float(found.min), float(found.max)


def _interval(
    kind: np.dtype[Any], dtype: DTypeLike, low: float | None, high: float | None, lowest: float, highest: float
) -> tuple[float, float]:
    default = {"b": (0, 2), "u": (0, 10), "i": (-9, 10)}.get(kind.kind, (-9, 9))
    start, stop = (default[0] if low is None else low), (default[1] if high is None else high)
    if math.isnan(start) or math.isnan(stop):
        raise ValueError(f"make_tensor: low={start} and high={stop} must not be NaN. [nd-range]")
    if start > stop or (start == stop and kind.kind in "biu"):
        raise ValueError(f"make_tensor: low must be less than high, but they are {start} and {stop}. [nd-range]")
    if start >= highest or stop <= lowest:
        raise ValueError(
            f"make_tensor: no value of {dtype} lies in [{start}, {stop}): it has those of [{lowest}, {highest}). "
            "[nd-overflow]"
        )
    start, stop = max(start, lowest), min(stop, highest)
    return (math.floor(start), math.ceil(stop)) if kind.kind in "biu" else (start, stop)


def _draw(kind: np.dtype[Any], shape: tuple[int, ...], start: float, stop: float) -> npt.NDArray[Any]:
    source = source_of(None)
    if kind.kind in "iub":
        drawn = host_draws.random(source, shape, kind, low=int(start), high=int(stop))
    elif stop - start >= float(finfo(kind).max):  # the difference may overflow
        drawn = host_draws.uniform(source, shape, kind, low=start / 2, high=stop / 2) * kind.type(2)
    else:
        drawn = host_draws.uniform(source, shape, kind, low=start, high=stop)
    return np.asarray(drawn).astype(kind)


__all__ = ["make_tensor"]
