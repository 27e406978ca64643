"""Pooling: maxima, means and norms over windows, and the inverse of max pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn import functional as F
from ndgrad.nn.modules.conv import repeat_per_axis
from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Shape

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


class _Pool(Module):
    """Base class: a pooling function, its number of axes, and the settings shown in the module's text."""

    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]
    _shown: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding")

    def extra_repr(self) -> str:
        return settings_text(self, *self._shown)


class _MaxPoolNd(_Pool):
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Shape,
        stride: Shape | None = None,
        padding: Shape = 0,
        dilation: Shape = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    # A pair with return_indices; declared as the usual case. (Type checkers also accept unpacking a tensor.)
    def forward(self, input: Tensor) -> Tensor:
        """Return the maxima, or with `return_indices` a pair of maxima and indices.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )


class MaxPool1d(_MaxPoolNd):
    """Return the largest element of each window.

    Args:
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        padding: number of elements -inf at both ends, at most half a window.
        dilation: distance of the elements of a window.
        return_indices: whether the indices of the maxima are returned too, for `MaxUnpool1d`.
        ceil_mode: whether windows that start inside and end outside count.

    Shape:
        input (N, C, L) or (C, L).

    >>> import ndgrad
    >>> ndgrad.nn.MaxPool1d(2)(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]))
    tensor([[5., 3.]])
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """Return the largest element of each window.

    Args:
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of elements -inf at both ends, one number or one per axis, at most half a window.
        dilation: distance of the elements of a window, one number or one per axis.
        return_indices: whether the indices of the maxima are returned too, for `MaxUnpool2d`.
        ceil_mode: whether windows that start inside and end outside count.

    Shape:
        input (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.MaxPool2d(2)(ndgrad.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """Return the largest element of each window.

    Args:
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of elements -inf at both ends, one number or one per axis, at most half a window.
        dilation: distance of the elements of a window, one number or one per axis.
        return_indices: whether the indices of the maxima are returned too, for `MaxUnpool3d`.
        ceil_mode: whether windows that start inside and end outside count.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.MaxPool3d(2)(ndgrad.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[13., 15.]]]])
    """

    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    def __init__(self, kernel_size: Shape, stride: Shape | None = None, padding: Shape = 0) -> None:
        super().__init__()
        self.kernel_size = repeat_per_axis(kernel_size, self._axes)
        self.stride = self.kernel_size if stride is None else repeat_per_axis(stride, self._axes)
        self.padding = repeat_per_axis(padding, self._axes)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return zeros with the maxima at their indices.

        Args:
            input: maxima of shape (N, C, ...), or (C, ...) for one sample.
            indices: indices of the maxima, of the same shape.
            output_size: size before the pooling, which several sizes may fit. The default is the size without leftover
                elements.
        """
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Return zeros with the maxima of a pooling at their indices.

    Args:
        kernel_size: size of a window of the pooling.
        stride: step between windows of the pooling. The default is `kernel_size`.
        padding: padding of the pooling.

    Shape:
        input and indices (N, C, L) or (C, L).

    >>> import ndgrad
    >>> top, places = ndgrad.nn.MaxPool1d(2, return_indices=True)(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]))
    >>> ndgrad.nn.MaxUnpool1d(2)(top, places)
    tensor([[0., 5., 0., 3.]])
    """

    _axes, _function = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Return zeros with the maxima of a pooling at their indices.

    Args:
        kernel_size: size of a window of the pooling, one number or one per axis.
        stride: step between windows of the pooling, one number or one per axis. The default is `kernel_size`.
        padding: padding of the pooling, one number or one per axis.

    Shape:
        input and indices (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> top, places = ndgrad.nn.MaxPool2d(2, return_indices=True)(ndgrad.arange(16.0).reshape(1, 4, 4))
    >>> ndgrad.nn.MaxUnpool2d(2)(top, places)
    tensor([[[ 0.,  0.,  0.,  0.],
             [ 0.,  5.,  0.,  7.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 13.,  0., 15.]]])
    """

    _axes, _function = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Return zeros with the maxima of a pooling at their indices.

    Args:
        kernel_size: size of a window of the pooling, one number or one per axis.
        stride: step between windows of the pooling, one number or one per axis. The default is `kernel_size`.
        padding: padding of the pooling, one number or one per axis.

    Shape:
        input and indices (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> top, places = ndgrad.nn.MaxPool3d(2, return_indices=True)(ndgrad.arange(16.0).reshape(1, 2, 2, 4))
    >>> ndgrad.nn.MaxUnpool3d(2)(top, places).shape
    ndgrad.Size([1, 2, 2, 4])
    """

    _axes, _function = 3, staticmethod(F.max_unpool3d)


class AvgPool1d(_Pool):
    """Return the mean of each window.

    Args:
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        padding: number of zeros at both ends, at most half a window.
        ceil_mode: whether windows that start inside and end outside count.
        count_include_pad: whether padding counts in the number of elements.

    Shape:
        input (N, C, L) or (C, L).

    >>> import ndgrad
    >>> ndgrad.nn.AvgPool1d(2)(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]))
    tensor([[3.0000, 2.5000]])
    """

    def __init__(
        self,
        kernel_size: Shape,
        stride: Shape | None = None,
        padding: Shape = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeat_per_axis(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else repeat_per_axis(stride, 1)
        self.padding = repeat_per_axis(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the means.

        Args:
            input: tensor of shape (N, C, L), or (C, L) for one sample.
        """
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolNd(_Pool):
    def __init__(
        self,
        kernel_size: Shape,
        stride: Shape | None = None,
        padding: Shape = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the means.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolNd):
    """Return the mean of each window.

    Args:
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of zeros at both ends, one number or one per axis, at most half a window.
        ceil_mode: whether windows that start inside and end outside count.
        count_include_pad: whether padding counts in the number of elements.
        divisor_override: number by which sums are divided. The default is the number of elements.

    Shape:
        input (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.AvgPool2d(2)(ndgrad.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """Return the mean of each window.

    Args:
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of zeros at both ends, one number or one per axis, at most half a window.
        ceil_mode: whether windows that start inside and end outside count.
        count_include_pad: whether padding counts in the number of elements.
        divisor_override: number by which sums are divided. The default is the number of elements.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.AvgPool3d(2)(ndgrad.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[6.5000, 8.5000]]]])
    """

    _function = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Shape, stride: Shape | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return type(self)._function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """Return the p-norm of each window, `sum(x ** p) ** (1 / p)`.

    Args:
        norm_type: order p of the norm.
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        ceil_mode: whether windows that start inside and end outside count.

    Shape:
        input (N, C, L) or (C, L).

    >>> import ndgrad
    >>> ndgrad.nn.LPPool1d(2, 2)(ndgrad.tensor([[3.0, 4.0, 6.0, 8.0]]))
    tensor([[ 5., 10.]])
    """

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """Return the p-norm of each window, `sum(x ** p) ** (1 / p)`.

    Args:
        norm_type: order p of the norm.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        ceil_mode: whether windows that start inside and end outside count.

    Shape:
        input (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.LPPool2d(2, 2)(ndgrad.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 6.4807,  9.8995],
             [21.4009, 25.3377]]])
    """

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """Return the p-norm of each window, `sum(x ** p) ** (1 / p)`.

    Args:
        norm_type: order p of the norm.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        ceil_mode: whether windows that start inside and end outside count.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.LPPool3d(2, 2)(ndgrad.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[22.3607, 27.2029]]]])
    """

    _function = staticmethod(F.lp_pool3d)


# ----- to a given size ------------------------------------------------------------------------------------------------


class _AdaptiveMaxPoolNd(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int | None], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Tensor:
        """Return the maxima, or with `return_indices` a pair of maxima and indices.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Return the maxima of a given number of windows along the axis.

    Args:
        output_size: number of windows.
        return_indices: whether the indices of the maxima are returned too.

    Shape:
        input (N, C, L) or (C, L).

    >>> import ndgrad
    >>> ndgrad.nn.AdaptiveMaxPool1d(2)(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]))
    tensor([[5., 3.]])
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Return the maxima of a given number of windows along each axis.

    Args:
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.
        return_indices: whether the indices of the maxima are returned too.

    Shape:
        input (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.AdaptiveMaxPool2d((1, 2))(ndgrad.arange(16.0).reshape(1, 4, 4))
    tensor([[[13., 15.]]])
    """

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Return the maxima of a given number of windows along each axis.

    Args:
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.
        return_indices: whether the indices of the maxima are returned too.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.AdaptiveMaxPool3d((1, 1, 2))(ndgrad.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[13., 15.]]]])
    """

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Return the means.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return type(self)._function(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Return the means of a given number of windows along the axis.

    Args:
        output_size: number of windows.

    Shape:
        input (N, C, L) or (C, L).

    >>> import ndgrad
    >>> ndgrad.nn.AdaptiveAvgPool1d(2)(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]))
    tensor([[3.0000, 2.5000]])
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Return the means of a given number of windows along each axis.

    Args:
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.

    Shape:
        input (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.AdaptiveAvgPool2d((1, 2))(ndgrad.arange(16.0).reshape(1, 4, 4))
    tensor([[[6.5000, 8.5000]]])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Return the means of a given number of windows along each axis.

    Args:
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.AdaptiveAvgPool3d((1, 1, 2))(ndgrad.arange(16.0).reshape(1, 2, 2, 4))
    tensor([[[[6.5000, 8.5000]]]])
    """

    _function = staticmethod(F.adaptive_avg_pool3d)


# ----- irregular steps -----------------------------------------------------------------------------------------------


class _FractionalMaxPoolNd(_Pool):
    _shown = ()

    def __init__(
        self,
        kernel_size: Shape,
        output_size: Shape | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio [nd-exclusive]")
        if output_size is not None and output_ratio is not None:
            raise ValueError(f"{name}: only one of output_size and output_ratio may be specified [nd-exclusive]")
        self.kernel_size = repeat_per_axis(kernel_size, self._axes)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeat_per_axis(output_size, self._axes)
        self.output_ratio: tuple[float, ...] | None = None
        if output_ratio is not None:
            given = (output_ratio,) * self._axes if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
            if len(given) != self._axes or not all(0 < ratio < 1 for ratio in given):
                raise ValueError(
                    f"{name}: output_ratio must be between 0 and 1 (got {output_ratio}), one number or {self._axes}. "
                    "[nd-range]"
                )
            self.output_ratio = given

    def forward(self, input: Tensor) -> Tensor:
        """Return the maxima, or with `return_indices` a pair of maxima and indices.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return type(self)._function(
            input, self.kernel_size, self.output_size, self.output_ratio, return_indices=self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Return the maxima of windows with random steps, so that sizes shrink by any factor (Graham, 2014).

    Args:
        kernel_size: size of a window, one number or one per axis.
        output_size: number of windows, one number or one per axis.
        output_ratio: quotient of output and input size, one number or one per axis, between 0 and 1. It excludes
            `output_size`.
        return_indices: whether the indices of the maxima are returned too.

    Shape:
        input (N, C, H, W) or (C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.FractionalMaxPool2d(2, output_ratio=0.7)(ndgrad.ones(1, 1, 6, 6)).shape
    ndgrad.Size([1, 1, 4, 4])
    """

    _axes = 2
    _function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Return the maxima of windows with random steps, so that sizes shrink by any factor (Graham, 2014).

    Args:
        kernel_size: size of a window, one number or one per axis.
        output_size: number of windows, one number or one per axis.
        output_ratio: quotient of output and input size, one number or one per axis, between 0 and 1. It excludes
            `output_size`.
        return_indices: whether the indices of the maxima are returned too.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.FractionalMaxPool3d(2, output_ratio=0.7)(ndgrad.ones(1, 1, 6, 6, 6)).shape
    ndgrad.Size([1, 1, 4, 4, 4])
    """

    _axes = 3
    _function = staticmethod(F.fractional_max_pool3d)
