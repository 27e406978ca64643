"""Pooling: maxima, means and norms over windows, and the way back from maxima."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ndgrad.nn import functional as F
from ndgrad.nn.modules.conv import repeated
from ndgrad.nn.modules.module import Module, settings_text

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d", "AdaptiveMaxPool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _Pool(Module):
    """A pooling function, how many axes it is for, and the settings that the text of the module shows."""

    _axes: ClassVar[int]
    _function: ClassVar[Callable[..., Any]]
    _shown: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding")

    def extra_repr(self) -> str:
        return settings_text(self, *self._shown)


class _MaxPoolNd(_Pool):
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
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

    def forward(self, input: Any) -> Any:
        return type(self)._function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, ceil_mode=self.ceil_mode, return_indices=self.return_indices
        )


class MaxPool1d(_MaxPoolNd):
    """The maximum of every window of (batch, channels, length)."""

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPoolNd):
    """The maximum of every window of (batch, channels, height, width)."""

    _function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPoolNd):
    """The maximum of every window of (batch, channels, depth, height, width)."""

    _function = staticmethod(F.max_pool3d)


class _MaxUnpoolNd(_Pool):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self._axes)
        self.stride = self.kernel_size if stride is None else repeated(stride, self._axes)
        self.padding = repeated(padding, self._axes)

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Maxima back at their places, zeros elsewhere."""

    _axes, _function = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpoolNd):
    """Maxima back at their places, zeros elsewhere."""

    _axes, _function = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Maxima back at their places, zeros elsewhere."""

    _axes, _function = 3, staticmethod(F.max_unpool3d)


class AvgPool1d(_Pool):
    """The mean of every window of (batch, channels, length)."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else repeated(stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPoolNd(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
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

    def forward(self, input: Any) -> Any:
        return type(self)._function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, self.divisor_override
        )


class AvgPool2d(_AvgPoolNd):
    """The mean of every window of (batch, channels, height, width)."""

    _function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPoolNd):
    """The mean of every window of (batch, channels, depth, height, width)."""

    _function = staticmethod(F.avg_pool3d)


class _LPPoolNd(_Pool):
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        return type(self)._function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """The p-norm of every window of (batch, channels, length)."""

    _function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPoolNd):
    """The p-norm of every window of (batch, channels, height, width)."""

    _function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPoolNd):
    """The p-norm of every window of (batch, channels, depth, height, width)."""

    _function = staticmethod(F.lp_pool3d)


# ----- to a given size -------------------------------------------------------------------------------------------------


class _AdaptiveMaxPoolNd(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Any) -> Any:
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima over windows that make the output as long as asked for."""

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima over windows that make the output as large as asked for."""

    _function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima over windows that make the output as large as asked for."""

    _function = staticmethod(F.adaptive_max_pool3d)


class _AdaptiveAvgPoolNd(_Pool):
    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        return type(self)._function(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means over windows that make the output as long as asked for."""

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means over windows that make the output as large as asked for."""

    _function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means over windows that make the output as large as asked for."""

    _function = staticmethod(F.adaptive_avg_pool3d)
