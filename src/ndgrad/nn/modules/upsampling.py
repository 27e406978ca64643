"""Resampling of images to another size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn.modules.module import Module, settings_text

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Tensor

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Resize images to a size or by a factor.

    Args:
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.
        mode: `"nearest"`, `"nearest-exact"`, `"area"`, `"linear"` (one axis), `"bilinear"` or `"bicubic"` (two axes) or
            `"trilinear"` (three axes).
        align_corners: whether the outermost pixels keep their positions. Otherwise pixels are areas and the edges of
            the image keep their positions. Only the linear and cubic modes take it.
        recompute_scale_factor: whether positions are computed from the rounded sizes instead of `scale_factor`.

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
        """Resize the input.

        Args:
            input: tensor of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        """
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
    """Resize images, each pixel with the value of the nearest one.

    Args:
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.

    >>> import ndgrad
    >>> ndgrad.nn.UpsamplingNearest2d(scale_factor=2)(ndgrad.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[1., 1., 3., 3.],
              [1., 1., 3., 3.]]]])
    """

    def __init__(self, size: Shape | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Resize images by bilinear interpolation, with aligned corners.

    Args:
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.

    >>> import ndgrad
    >>> ndgrad.nn.UpsamplingBilinear2d((1, 3))(ndgrad.tensor([[[[1.0, 3.0]]]]))
    tensor([[[[1., 2., 3.]]]])
    """

    def __init__(self, size: Shape | None = None, scale_factor: float | tuple[float, ...] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
