"""Named results of functions that return several tensors: `x.max(dim=0).values`.

One class per function, as in torch, so that a result says where it came from when printed and a program can tell them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def _text(self: tuple[Tensor, ...], fields: tuple[str, ...]) -> str:
    """One field to a line."""
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(fields, self))
    return f"{__name__}.{type(self).__name__}(\n{lines})"


class _Ranked(NamedTuple):
    """Values, and where along the dimension they stand."""

    values: Tensor
    indices: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


class aminmax(NamedTuple):
    """The smallest and the largest elements: `ndgrad.aminmax(x).max`."""

    min: Tensor
    max: Tensor

    def __repr__(self) -> str:
        return _text(self, self._fields)


class max(_Ranked):
    """The result of `ndgrad.max` along a dimension."""

    __slots__ = ()


class min(_Ranked):
    """The result of `ndgrad.min` along a dimension."""

    __slots__ = ()


class median(_Ranked):
    """The result of `ndgrad.median` along a dimension."""

    __slots__ = ()


class nanmedian(_Ranked):
    """The result of `ndgrad.nanmedian` along a dimension."""

    __slots__ = ()


class mode(_Ranked):
    """The result of `ndgrad.mode` along a dimension."""

    __slots__ = ()


class cummax(_Ranked):
    """The result of `ndgrad.cummax` along a dimension."""

    __slots__ = ()


class cummin(_Ranked):
    """The result of `ndgrad.cummin` along a dimension."""

    __slots__ = ()


class sort(_Ranked):
    """The result of `ndgrad.sort` along a dimension."""

    __slots__ = ()


class topk(_Ranked):
    """The result of `ndgrad.topk` along a dimension."""

    __slots__ = ()


class kthvalue(_Ranked):
    """The result of `ndgrad.kthvalue` along a dimension."""

    __slots__ = ()
