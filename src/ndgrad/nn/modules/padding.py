"""Padding of the spatial axes: constants, reflections, copies of the edge, wrapping around."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ndgrad.nn import functional as F
from ndgrad.nn.modules.conv import repeat_per_axis
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    _axes: ClassVar[int]
    _mode: ClassVar[str] = "constant"

    def __init__(self, padding: Shape) -> None:
        super().__init__()
        self.padding = repeat_per_axis(padding, 2 * self._axes)

    def forward(self, input: Tensor) -> Tensor:
        """Pad the input.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        if self._mode == "circular" and input.dim() not in (self._axes + 1, self._axes + 2):
            raise ValueError(
                f"expected {self._axes + 1}D or {self._axes + 2}D input (got {input.dim()}D input "
                f"to {type(self).__name__}). [nd-ndim]"
            )
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(_Pad):
    def __init__(self, padding: Shape, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad the input.

        Args:
            input: tensor of any shape with enough dimensions.
        """
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad the last dimension with a constant.

    Args:
        padding: numbers of elements (left, right), or one number for all. Negative numbers crop.
        value: constant of the padding.

    >>> import ndgrad
    >>> ndgrad.nn.ConstantPad1d((1, 0), 7.0)(ndgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[7., 1., 2., 3.]])
    """

    _axes = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad the last two dimensions with a constant.

    Args:
        padding: numbers of elements (left, right, top, bottom), or one number for all. Negative numbers crop.
        value: constant of the padding.

    >>> import ndgrad
    >>> ndgrad.nn.ConstantPad2d((1, 0, 0, 0), 7.0)(ndgrad.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[7., 1., 2., 3.]]])
    """

    _axes = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad the last three dimensions with a constant.

    Args:
        padding: numbers of elements (left, right, top, bottom, front, back), or one number for all. Negative numbers
            crop.
        value: constant of the padding.

    >>> import ndgrad
    >>> ndgrad.nn.ConstantPad3d(1, 7.0)(ndgrad.ones(1, 2, 2, 2)).shape
    ndgrad.Size([1, 4, 4, 4])
    """

    _axes = 3


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding: Shape) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPadNd):
    """Pad the last dimension with zeros.

    Args:
        padding: numbers of elements (left, right), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.ZeroPad1d((1, 0))(ndgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[0., 1., 2., 3.]])
    """

    _axes = 1


class ZeroPad2d(_ZeroPadNd):
    """Pad the last two dimensions with zeros.

    Args:
        padding: numbers of elements (left, right, top, bottom), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.ZeroPad2d((1, 0, 0, 0))(ndgrad.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[0., 1., 2., 3.]]])
    """

    _axes = 2


class ZeroPad3d(_ZeroPadNd):
    """Pad the last three dimensions with zeros.

    Args:
        padding: numbers of elements (left, right, top, bottom, front, back), or one number for all. Negative numbers
            crop.

    >>> import ndgrad
    >>> ndgrad.nn.ZeroPad3d(1)(ndgrad.ones(1, 2, 2, 2)).shape
    ndgrad.Size([1, 4, 4, 4])
    """

    _axes = 3


class ReflectionPad1d(_Pad):
    """Pad the last dimension with the mirrored input, without repeating the border.

    Args:
        padding: numbers of elements (left, right), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.ReflectionPad1d((1, 0))(ndgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3.]])
    """

    _axes, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pad the last two dimensions with the mirrored input, without repeating the border.

    Args:
        padding: numbers of elements (left, right, top, bottom), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.ReflectionPad2d((1, 0, 0, 0))(ndgrad.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[2., 1., 2., 3.]]])
    """

    _axes, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pad the last three dimensions with the mirrored input, without repeating the border.

    Args:
        padding: numbers of elements (left, right, top, bottom, front, back), or one number for all. Negative numbers
            crop.

    >>> import ndgrad
    >>> ndgrad.nn.ReflectionPad3d(1)(ndgrad.ones(1, 2, 2, 2)).shape
    ndgrad.Size([1, 4, 4, 4])
    """

    _axes, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pad the last dimension with the elements at the border.

    Args:
        padding: numbers of elements (left, right), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.ReplicationPad1d((1, 0))(ndgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 2., 3.]])
    """

    _axes, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pad the last two dimensions with the elements at the border.

    Args:
        padding: numbers of elements (left, right, top, bottom), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.ReplicationPad2d((1, 0, 0, 0))(ndgrad.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[1., 1., 2., 3.]]])
    """

    _axes, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pad the last three dimensions with the elements at the border.

    Args:
        padding: numbers of elements (left, right, top, bottom, front, back), or one number for all. Negative numbers
            crop.

    >>> import ndgrad
    >>> ndgrad.nn.ReplicationPad3d(1)(ndgrad.ones(1, 2, 2, 2)).shape
    ndgrad.Size([1, 4, 4, 4])
    """

    _axes, _mode = 3, "replicate"


class CircularPad1d(_Pad):
    """Pad the last dimension with the input continued periodically.

    Args:
        padding: numbers of elements (left, right), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.CircularPad1d((1, 0))(ndgrad.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3.]])
    """

    _axes, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """Pad the last two dimensions with the input continued periodically.

    Args:
        padding: numbers of elements (left, right, top, bottom), or one number for all. Negative numbers crop.

    >>> import ndgrad
    >>> ndgrad.nn.CircularPad2d((1, 0, 0, 0))(ndgrad.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 1., 2., 3.]]])
    """

    _axes, _mode = 2, "circular"


class CircularPad3d(_Pad):
    """Pad the last three dimensions with the input continued periodically.

    Args:
        padding: numbers of elements (left, right, top, bottom, front, back), or one number for all. Negative numbers
            crop.

    >>> import ndgrad
    >>> ndgrad.nn.CircularPad3d(1)(ndgrad.ones(1, 2, 2, 2)).shape
    ndgrad.Size([1, 4, 4, 4])
    """

    _axes, _mode = 3, "circular"
