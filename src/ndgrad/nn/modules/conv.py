"""Convolutions and their transposes over one, two and three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Shape

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def repeat_per_axis(value: Shape, axes: int) -> tuple[int, ...]:
    """Return a setting as one value per axis."""
    return tuple(value) if isinstance(value, Sequence) else (value,) * axes


class _ConvNd(Module):
    """Base class of convolutions and their transposes."""

    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Tensor]]
    _transposed: ClassVar[bool] = False
    weight: Parameter
    bias: Parameter  # None with bias=False

    def _set_up(
        self,
        channels: tuple[int, int],
        kernel_size: Shape,
        stride: Shape,
        padding: Shape | str,
        dilation: Shape,
        output_padding: Shape,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device,
        dtype: Dtype,
    ) -> None:
        super().__init__()
        in_channels, out_channels = channels
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, but is {groups}. [nd-range]")
        for name, count in (("in_channels", in_channels), ("out_channels", out_channels)):
            if count % groups:
                raise ValueError(f"{name} must be divisible by groups: {count} is not by {groups}. [nd-divisible]")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"padding is {padding!r}. Use 'same', 'valid' or numbers. [nd-option]")
            if padding == "same" and any(s != 1 for s in repeat_per_axis(stride, self._axes)):
                raise ValueError(
                    f"padding='same' needs a stride of 1, and stride is {stride}. Give the padding in numbers. "
                    "[nd-exclusive]"
                )
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but is {padding_mode!r}. [nd-option]")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = repeat_per_axis(kernel_size, self._axes)
        self.stride = repeat_per_axis(stride, self._axes)
        self.padding: Any = padding if isinstance(padding, str) else repeat_per_axis(padding, self._axes)
        self.dilation = repeat_per_axis(dilation, self._axes)
        self.transposed = self._transposed
        self.output_padding = repeat_per_axis(output_padding, self._axes)
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._padding_for_pad()
        self._make_weights(bias, device, dtype)

    def _padding_for_pad(self) -> tuple[int, ...]:
        """Return the padding as `F.pad` takes it: before and after, the last axis first."""
        if self.padding == "valid":
            sides = [(0, 0)] * len(self.kernel_size)
        elif self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            sides = [(n // 2, n - n // 2) for n in totals]
        else:
            sides = [(int(n), int(n)) for n in self.padding]
        return tuple(n for side in reversed(sides) for n in side)

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = (
            (self.in_channels, self.out_channels) if self._transposed else (self.out_channels, self.in_channels)
        )
        return (first, second // self.groups, *self.kernel_size)

    def _make_weights(self, bias: bool, device: Device, dtype: Dtype) -> None:
        self.weight = new_parameter(*self._weight_shape(), device=device, dtype=dtype)
        if bias:
            self.bias = new_parameter(self.out_channels, device=device, dtype=dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Fill with uniform numbers up to 1 / sqrt(inputs per output)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, usual in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (usual,) * len(value):
                text += f", {name}={value}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    """Base class of convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Shape,
        stride: Shape = 1,
        padding: Shape | str = 0,
        dilation: Shape = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        channels = (in_channels, out_channels)
        self._set_up(channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode, device, dtype)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        function = type(self)._function
        if self.padding_mode == "zeros":
            return function(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return function(padded, weight, bias, self.stride, 0, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Compute the convolution.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
        """
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Compute the cross-correlation over one axis with learned kernels, plus a bias.

    Args:
        in_channels: number C of input channels.
        out_channels: number M of output channels.
        kernel_size: size of the kernel.
        stride: step of the kernel.
        padding: size of the padding at both ends; or `"valid"` for none, or `"same"` to keep the size, which needs a
            stride of 1.
        dilation: distance of the taps of the kernel.
        groups: number of groups of channels that are convolved separately, a divisor of both numbers of channels.
        bias: whether each output channel has a learned bias.
        padding_mode: content of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (N, C, L) or (C, L), output (N, M, ...), weight (M, C / groups, kernel). Each size n becomes (n + 2 *
        padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    >>> import ndgrad
    >>> ndgrad.nn.Conv1d(3, 8, kernel_size=3, padding=1)(ndgrad.zeros(2, 3, 4)).shape
    ndgrad.Size([2, 8, 4])
    """

    _axes, _function = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Compute the cross-correlation over two axes with learned kernels, plus a bias.

    Args:
        in_channels: number C of input channels.
        out_channels: number M of output channels.
        kernel_size: size of the kernel, one number or one per axis.
        stride: step of the kernel, one number or one per axis.
        padding: size of the padding at both ends, one number or one per axis; or `"valid"` for none, or `"same"` to
            keep the size, which needs a stride of 1.
        dilation: distance of the taps of the kernel, one number or one per axis.
        groups: number of groups of channels that are convolved separately, a divisor of both numbers of channels.
        bias: whether each output channel has a learned bias.
        padding_mode: content of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (N, C, H, W) or (C, H, W), output (N, M, ...), weight (M, C / groups, kernel_h, kernel_w). Each size n
        becomes (n + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    >>> import ndgrad
    >>> ndgrad.nn.Conv2d(3, 8, kernel_size=3, padding=1)(ndgrad.zeros(2, 3, 4, 4)).shape
    ndgrad.Size([2, 8, 4, 4])
    """

    _axes, _function = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Compute the cross-correlation over three axes with learned kernels, plus a bias.

    Args:
        in_channels: number C of input channels.
        out_channels: number M of output channels.
        kernel_size: size of the kernel, one number or one per axis.
        stride: step of the kernel, one number or one per axis.
        padding: size of the padding at both ends, one number or one per axis; or `"valid"` for none, or `"same"` to
            keep the size, which needs a stride of 1.
        dilation: distance of the taps of the kernel, one number or one per axis.
        groups: number of groups of channels that are convolved separately, a divisor of both numbers of channels.
        bias: whether each output channel has a learned bias.
        padding_mode: content of the padding: `"zeros"`, `"reflect"`, `"replicate"` or `"circular"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W), output (N, M, ...), weight (M, C / groups, kernel_d, kernel_h, kernel_w).
        Each size n becomes (n + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1.

    >>> import ndgrad
    >>> ndgrad.nn.Conv3d(3, 8, kernel_size=3, padding=1)(ndgrad.zeros(2, 3, 4, 4, 4)).shape
    ndgrad.Size([2, 8, 4, 4, 4])
    """

    _axes, _function = 3, staticmethod(F.conv3d)


# ----- transposes -----------------------------------------------------------------------------------------------------


class _ConvTranspose(_ConvNd):
    """Base class of transposed convolutions: learned upsampling."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Shape,
        stride: Shape = 1,
        padding: Shape = 0,
        output_padding: Shape = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Shape = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}, and {padding_mode!r} was given. '
                "[nd-option]"
            )
        channels = (in_channels, out_channels)
        self._set_up(
            channels, kernel_size, stride, padding, dilation, output_padding, groups, bias, padding_mode, device, dtype
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """Return the output padding for the given output size: several sizes are convolved to the same one."""
        if output_size is None:
            return self.output_padding
        name, axes = type(self).__name__, self._axes
        wanted, ndim = list(output_size), input.dim()
        if len(wanted) == ndim and ndim > axes:
            wanted = wanted[ndim - axes :]
        if len(wanted) != axes:
            raise ValueError(
                f"{name}: for {ndim}D input, output_size must have {axes} or {ndim} elements (got {len(wanted)}): "
                f"{tuple(output_size)}. [nd-window]"
            )
        sizes = list(input.shape[ndim - axes :])
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(sizes, self.stride, self.padding, self.dilation, self.kernel_size, strict=True)
        ]
        most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
        if not all(low <= n <= high for low, n, high in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"{name}: requested an output size of {tuple(output_size)}, but valid sizes range from {least} "
                f"to {most} (for an input of {sizes}). [nd-window]"
            )
        return tuple(n - low for n, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Compute the transposed convolution.

        Args:
            input: tensor of shape (N, C, ...), or (C, ...) for one sample.
            output_size: sizes of the output, which several sizes may fit. The default follows from `output_padding`.
        """
        padding = self._output_padding(input, output_size)
        function = type(self)._function
        return function(input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """Apply the adjoint of `Conv1d` in its input, with learned kernels: learned upsampling.

    Args:
        in_channels: number C of input channels.
        out_channels: number M of output channels.
        kernel_size: size of the kernel.
        stride: distance of the outputs of neighbouring elements.
        padding: number of outputs that are cut off at both ends.
        output_padding: size that is added at the end, below the stride or the dilation.
        groups: number of groups of channels that are convolved separately, a divisor of both numbers of channels.
        bias: whether each output channel has a learned bias.
        dilation: distance of the taps of the kernel.
        padding_mode: must be `"zeros"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (N, C, L) or (C, L), output (N, M, ...), weight (C, M / groups, kernel). Each size n becomes (n - 1) *
        stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    >>> import ndgrad
    >>> ndgrad.nn.ConvTranspose1d(8, 3, kernel_size=2, stride=2)(ndgrad.zeros(2, 8, 4)).shape
    ndgrad.Size([2, 3, 8])
    """

    _axes, _function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """Apply the adjoint of `Conv2d` in its input, with learned kernels: learned upsampling.

    Args:
        in_channels: number C of input channels.
        out_channels: number M of output channels.
        kernel_size: size of the kernel, one number or one per axis.
        stride: distance of the outputs of neighbouring elements, one number or one per axis.
        padding: number of outputs that are cut off at both ends, one number or one per axis.
        output_padding: size that is added at the end, one number or one per axis, below the stride or the dilation.
        groups: number of groups of channels that are convolved separately, a divisor of both numbers of channels.
        bias: whether each output channel has a learned bias.
        dilation: distance of the taps of the kernel, one number or one per axis.
        padding_mode: must be `"zeros"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (N, C, H, W) or (C, H, W), output (N, M, ...), weight (C, M / groups, kernel_h, kernel_w). Each size n
        becomes (n - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    >>> import ndgrad
    >>> ndgrad.nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(ndgrad.zeros(2, 8, 4, 4)).shape
    ndgrad.Size([2, 3, 8, 8])
    """

    _axes, _function = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """Apply the adjoint of `Conv3d` in its input, with learned kernels: learned upsampling.

    Args:
        in_channels: number C of input channels.
        out_channels: number M of output channels.
        kernel_size: size of the kernel, one number or one per axis.
        stride: distance of the outputs of neighbouring elements, one number or one per axis.
        padding: number of outputs that are cut off at both ends, one number or one per axis.
        output_padding: size that is added at the end, one number or one per axis, below the stride or the dilation.
        groups: number of groups of channels that are convolved separately, a divisor of both numbers of channels.
        bias: whether each output channel has a learned bias.
        dilation: distance of the taps of the kernel, one number or one per axis.
        padding_mode: must be `"zeros"`.
        device: device of the parameters.
        dtype: dtype of the parameters.

    Shape:
        input (N, C, D, H, W) or (C, D, H, W), output (N, M, ...), weight (C, M / groups, kernel_d, kernel_h, kernel_w).
        Each size n becomes (n - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1.

    >>> import ndgrad
    >>> ndgrad.nn.ConvTranspose3d(8, 3, kernel_size=2, stride=2)(ndgrad.zeros(2, 8, 4, 4, 4)).shape
    ndgrad.Size([2, 3, 8, 8, 8])
    """

    _axes, _function = 3, staticmethod(F.conv_transpose3d)
