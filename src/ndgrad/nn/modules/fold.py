"""Patches of images as columns, and the sum of columns as images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Tensor

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """Return all patches of images as columns.

    Args:
        kernel_size: size of a patch, one number or one per axis.
        dilation: distance of the elements of a patch, one number or one per axis.
        padding: number of zeros around the image, one number or one per axis.
        stride: step between patches, one number or one per axis.

    >>> import ndgrad
    >>> ndgrad.nn.Unfold(2)(ndgrad.ones(1, 3, 4, 4)).shape
    ndgrad.Size([1, 12, 9])
    """

    def __init__(self, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0, stride: Shape = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the patches.

        Args:
            input: images of shape (N, C, H, W), or (C, H, W) for one sample.

        Returns:
            A tensor of shape (N, C * elements of a patch, patches).
        """
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return settings_text(self, "kernel_size", "dilation", "padding", "stride")


class Fold(Module):
    """Add patches up into images: the transpose of `Unfold`.

    Args:
        output_size: size (H, W) of the images.
        kernel_size: size of a patch, one number or one per axis.
        dilation: distance of the elements of a patch, one number or one per axis.
        padding: number of zeros around the image, one number or one per axis.
        stride: step between patches, one number or one per axis.

    >>> import ndgrad
    >>> ndgrad.nn.Fold((2, 3), 2)(ndgrad.ones(4, 2))
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])
    """

    def __init__(
        self, output_size: Shape, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0, stride: Shape = 1
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the images.

        Args:
            input: columns of shape (N, C * elements of a patch, patches), or without N for one sample.

        Returns:
            A tensor of shape (N, C, H, W).
        """
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return settings_text(self, "output_size", "kernel_size", "dilation", "padding", "stride")
