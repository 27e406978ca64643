"""Named results of functions that return several tensors: `x.max(dim=0).values`.

There is one class per function, as in torch, so that a printed result names its function and a program can tell
results apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def _text(self: tuple[Any, ...], fields: tuple[str, ...]) -> str:
    """Format one field per line."""
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(fields, self))
    return f"{type(self).__module__}.{type(self).__name__}(\n{lines})"


class _Ranked(NamedTuple):
    """Values, and their indices along the dimension."""

    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


class aminmax(NamedTuple):
    """The smallest and the largest elements.

    >>> import ndgrad
    >>> ndgrad.aminmax(ndgrad.tensor([3.0, 1.0, 2.0])).max
    tensor(3.)
    """

    min: Tensor
    max: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


class max(_Ranked):
    """The largest elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 3.0]).max(dim=0).indices
    tensor(0)
    """

    __slots__ = ()


class min(_Ranked):
    """The smallest elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).min(dim=0).indices
    tensor(1)
    """

    __slots__ = ()


class median(_Ranked):
    """The medians along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).median(dim=0).indices
    tensor(2)
    """

    __slots__ = ()


class nanmedian(_Ranked):
    """The medians along a dimension, ignoring NaNs, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, float("nan"), 2.0]).nanmedian(dim=0).indices
    tensor(2)
    """

    __slots__ = ()


class mode(_Ranked):
    """The most frequent elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 3.0]).mode(dim=0).indices
    tensor(2)
    """

    __slots__ = ()


class cummax(_Ranked):
    """The running maxima along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 3.0, 2.0]).cummax(dim=0).indices
    tensor([0, 1, 1])
    """

    __slots__ = ()


class cummin(_Ranked):
    """The running minima along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).cummin(dim=0).indices
    tensor([0, 1, 1])
    """

    __slots__ = ()


class sort(_Ranked):
    """The sorted elements along a dimension, and their former indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).sort().indices
    tensor([1, 2, 0])
    """

    __slots__ = ()


class topk(_Ranked):
    """The largest elements along a dimension, in order, and their former indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).topk(2).indices
    tensor([0, 2])
    """

    __slots__ = ()


class kthvalue(_Ranked):
    """The k-th smallest elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).kthvalue(2).indices
    tensor(2)
    """

    __slots__ = ()


class frexp(NamedTuple):
    """Mantissas in [0.5, 1) and exponents of two.

    >>> import ndgrad
    >>> ndgrad.frexp(ndgrad.tensor([6.0])).exponent
    tensor([3], dtype=ndgrad.int32)
    """

    mantissa: Tensor
    exponent: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


class histogram(NamedTuple):
    """Counts in bins, and the edges of the bins.

    >>> import ndgrad
    >>> ndgrad.histogram(ndgrad.tensor([1.0, 2.0]), 2).bin_edges
    tensor([1.0000, 1.5000, 2.0000])
    """

    hist: Tensor
    bin_edges: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


class histogramdd(NamedTuple):
    """Counts in boxes, and the edges along each dimension.

    >>> import ndgrad
    >>> ndgrad.histogramdd(ndgrad.tensor([[1.0, 2.0]]), 1).bin_edges
    (tensor([0.5000, 1.5000]), tensor([1.5000, 2.5000]))
    """

    hist: Tensor
    bin_edges: tuple[Tensor, ...]

    def __repr__(self) -> str:
        return _text(self, self._fields)


class geqrf(NamedTuple):
    """Householder vectors below R, and the factors of the reflections.

    >>> import ndgrad
    >>> ndgrad.geqrf(ndgrad.tensor([[3.0], [4.0]])).tau
    tensor([1.6000])
    """

    a: Tensor
    tau: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


for _result in [value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, tuple)]:
    _result.__module__ = "ndgrad.return_types"  # path shown in texts and written into pickles
