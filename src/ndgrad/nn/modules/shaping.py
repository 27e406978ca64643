"""Modules that change shapes and sizes and have nothing to learn: flattening, shuffling, patches,
resampling, distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Tensor

__all__ = [
    "ChannelShuffle", "CosineSimilarity", "Flatten", "Fold", "PairwiseDistance", "PixelShuffle", "PixelUnshuffle",
    "Unflatten", "Unfold", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d",
]  # fmt: skip


class Flatten(Module):
    """Dimensions start_dim to end_dim as one; by default all but the batch.

    >>> import ndgrad
    >>> ndgrad.nn.Flatten()(ndgrad.ones(2, 3, 4)).shape
    ndgrad.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return settings_text(self, "start_dim", "end_dim")


class Unflatten(Module):
    """One dimension as several.

    >>> import ndgrad
    >>> ndgrad.nn.Unflatten(1, (3, 4))(ndgrad.ones(2, 12)).shape
    ndgrad.Size([2, 3, 4])
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}."
            )
        for place, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {place}."
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return settings_text(self, "dim", "unflattened_size")


# ----- pixels and patches ---------------------------------------------------------------------------------------------


class PixelShuffle(Module):
    """Channels as finer pixels: (C r^2, H, W) becomes (C, H r, W r).

    >>> import ndgrad
    >>> ndgrad.nn.PixelShuffle(2)(ndgrad.arange(4.0).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return settings_text(self, "upscale_factor")


class PixelUnshuffle(Module):
    """The inverse of PixelShuffle: blocks of pixels as channels.

    >>> import ndgrad
    >>> ndgrad.nn.PixelUnshuffle(2)(ndgrad.ones(1, 4, 4)).shape
    ndgrad.Size([4, 2, 2])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return settings_text(self, "downscale_factor")


class ChannelShuffle(Module):
    """The channels of several groups interleaved.

    >>> import ndgrad
    >>> ndgrad.nn.ChannelShuffle(2)(ndgrad.arange(4).reshape(1, 4, 1)).flatten()
    tensor([0, 2, 1, 3])
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return settings_text(self, "groups")


class Unfold(Module):
    """All patches of images (N, C, H, W), as columns (N, C * taps, positions).

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
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return settings_text(self, "kernel_size", "dilation", "padding", "stride")


class Fold(Module):
    """Patches added up into images: the transpose of Unfold.

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
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return settings_text(self, "output_size", "kernel_size", "dilation", "padding", "stride")


# ----- resampling -----------------------------------------------------------------------------------------------------


class Upsample(Module):
    """Images (N, C, *spatial) resized to `size`, or by `scale_factor`.

    >>> import ndgrad
    >>> ndgrad.nn.Upsample(scale_factor=2)(ndgrad.tensor([[[1.0, 3.0]]]))
    tensor([[[1., 1., 3., 3.]]])
    """

    def __init__(
        self,
        size: Shape | None = None,
        scale_factor: float | tuple[float, ...] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: float | tuple[float, ...] | None = tuple(float(f) for f in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        return settings_text(self, "size" if self.scale_factor is None else "scale_factor", "mode")


class UpsamplingNearest2d(Upsample):
    """Upsample with mode 'nearest'.

    >>> import ndgrad
    >>> ndgrad.nn.UpsamplingNearest2d(scale_factor=2)(ndgrad.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[1., 1., 3., 3.],
              [1., 1., 3., 3.]]]])
    """

    def __init__(self, size: Shape | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode 'bilinear' and aligned corners.

    >>> import ndgrad
    >>> ndgrad.nn.UpsamplingBilinear2d((1, 3))(ndgrad.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[1., 2., 3.]]]])
    """

    def __init__(self, size: Shape | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


# ----- distances ------------------------------------------------------------------------------------------------------


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    >>> import ndgrad
    >>> ndgrad.nn.CosineSimilarity()(ndgrad.tensor([[1.0, 1.0]]), ndgrad.tensor([[1.0, 0.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the differences (plus eps) between vectors along the last dimension.

    >>> import ndgrad
    >>> ndgrad.nn.PairwiseDistance(eps=0.0)(ndgrad.tensor([[3.0, 4.0]]), ndgrad.zeros(1, 2))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
