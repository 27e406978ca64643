"""Channels as pixels and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Turn channels into blocks of pixels.

    Args:
        upscale_factor: size r of a block.

    Shape:
        input (..., C * r * r, H, W), output (..., C, H * r, W * r).

    >>> import ndgrad
    >>> ndgrad.nn.PixelShuffle(2)(ndgrad.arange(4.0).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange the input.

        Args:
            input: tensor of shape (..., C * r * r, H, W).
        """
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return settings_text(self, "upscale_factor")


class PixelUnshuffle(Module):
    """Turn blocks of pixels into channels: the inverse of `PixelShuffle`.

    Args:
        downscale_factor: size r of a block.

    Shape:
        input (..., C, H * r, W * r), output (..., C * r * r, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.PixelUnshuffle(2)(ndgrad.ones(1, 4, 4)).shape
    ndgrad.Size([4, 2, 2])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Rearrange the input.

        Args:
            input: tensor of shape (..., C, H * r, W * r).
        """
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return settings_text(self, "downscale_factor")
