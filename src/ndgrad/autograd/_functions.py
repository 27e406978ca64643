"""`torch.autograd._functions`: functions of torch's first releases that programs still call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad._src.custom_functions.function import Function

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["Resize"]


class Resize(Function):
    """`Resize.apply(tensor, sizes)`: the tensor's elements in another shape, as a tensor of its own.

    >>> import ndgrad
    >>> from ndgrad.autograd._functions import Resize
    >>> Resize.apply(ndgrad.arange(4.0), (2, 2))
    tensor([[0., 1.],
            [2., 3.]])
    """

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: tuple[int, ...]) -> Tensor:
        if math.prod(sizes) != tensor.numel():
            raise RuntimeError(
                f"requested resize to {tuple(sizes)} ({math.prod(sizes)} elements in total), but the given tensor has "
                f"a size of {tuple(tensor.shape)} ({tensor.numel()} elements). Resize can only change the shape; "
                "index or pad the tensor to change its number of elements. [nd-shape]"
            )
        ctx.input_sizes = tensor.shape
        return tensor.contiguous().view(sizes).clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return grad_output.reshape(ctx.input_sizes), None
