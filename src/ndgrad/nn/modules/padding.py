"""Padding of the spatial axes: constants, reflections, copies of the edge, wrapping around."""

from __future__ import annotations

from typing import Any, ClassVar

from ndgrad.nn import functional as F
from ndgrad.nn.modules.conv import repeated
from ndgrad.nn.modules.module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d",
    "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    _axes: ClassVar[int]
    _mode: ClassVar[str] = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self._axes)

    def forward(self, input: Any) -> Any:
        if self._mode == "circular" and input.dim() not in (self._axes + 1, self._axes + 2):
            raise ValueError(f"expected {self._axes + 1}D or {self._axes + 2}D input (got {input.dim()}D input to {type(self).__name__}).")
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A constant around the last axis: padding (left, right)."""

    _axes = 1


class ConstantPad2d(_ConstantPadNd):
    """A constant around the last two axes: padding (left, right, top, bottom)."""

    _axes = 2


class ConstantPad3d(_ConstantPadNd):
    """A constant around the last three axes: padding (left, right, top, bottom, front, back)."""

    _axes = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Zeros around the last axis."""

    _axes = 1


class ZeroPad2d(_ZeroPadNd):
    """Zeros around the last two axes."""

    _axes = 2


class ZeroPad3d(_ZeroPadNd):
    """Zeros around the last three axes."""

    _axes = 3


class ReflectionPad1d(_Pad):
    """The signal mirrored at its ends."""

    _axes, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """The image mirrored at its edges."""

    _axes, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """The volume mirrored at its faces."""

    _axes, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The ends of the signal repeated."""

    _axes, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The edges of the image repeated."""

    _axes, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The faces of the volume repeated."""

    _axes, _mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The signal wrapped around."""

    _axes, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """The image wrapped around."""

    _axes, _mode = 2, "circular"


class CircularPad3d(_Pad):
    """The volume wrapped around."""

    _axes, _mode = 3, "circular"
