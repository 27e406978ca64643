"""Gradients of convolutions as functions, from sizes and the gradient of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.core.grad_mode import enable_grad
from ndgrad._src.engine.backward_api import grad
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgrad._typing import Shape, Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _differentiate_by_input(
    convolution: Callable[..., Tensor], size: Sequence[int], weight: Tensor, g: Tensor, how: Any
) -> Tensor:
    with enable_grad():
        x = weight.new_zeros(tuple(size)).requires_grad_()  # the result is linear in it, so its values do not matter
        return grad(convolution(x, weight, None, *how), x, g)[0]


def _differentiate_by_weight(
    convolution: Callable[..., Tensor], x: Tensor, size: Sequence[int], g: Tensor, how: Any
) -> Tensor:
    with enable_grad():
        weight = x.new_zeros(tuple(size)).requires_grad_()
        return grad(convolution(x, weight, None, *how), weight, g)[0]


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Shape = 1,
    padding: Shape = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv1d with respect to its input.

    >>> import ndgrad
    >>> ndgrad.nn.grad.conv1d_input((1, 1, 3), ndgrad.ones(1, 1, 2), ndgrad.ones(1, 1, 2))
    tensor([[[1., 2., 1.]]])
    """
    return _differentiate_by_input(F.conv1d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Shape = 1,
    padding: Shape = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv1d with respect to its weight.

    >>> import ndgrad
    >>> ndgrad.nn.grad.conv1d_weight(ndgrad.arange(3.0).reshape(1, 1, 3), (1, 1, 2), ndgrad.ones(1, 1, 2))
    tensor([[[1., 3.]]])
    """
    return _differentiate_by_weight(F.conv1d, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Shape = 1,
    padding: Shape = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv2d with respect to its input.

    >>> import ndgrad
    >>> ndgrad.nn.grad.conv2d_input((1, 1, 1, 3), ndgrad.ones(1, 1, 1, 2), ndgrad.ones(1, 1, 1, 2))
    tensor([[[[1., 2., 1.]]]])
    """
    return _differentiate_by_input(F.conv2d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Shape = 1,
    padding: Shape = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv2d with respect to its weight.

    >>> import ndgrad
    >>> ndgrad.nn.grad.conv2d_weight(ndgrad.arange(3.0).reshape(1, 1, 1, 3), (1, 1, 1, 2), ndgrad.ones(1, 1, 1, 2))
    tensor([[[[1., 3.]]]])
    """
    return _differentiate_by_weight(F.conv2d, input, weight_size, grad_output, (stride, padding, dilation, groups))


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Shape = 1,
    padding: Shape = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv3d with respect to its input.

    >>> import ndgrad
    >>> ndgrad.nn.grad.conv3d_input((1, 1, 1, 1, 3), ndgrad.ones(1, 1, 1, 1, 2), ndgrad.ones(1, 1, 1, 1, 2)).shape
    ndgrad.Size([1, 1, 1, 1, 3])
    """
    return _differentiate_by_input(F.conv3d, input_size, weight, grad_output, (stride, padding, dilation, groups))


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Shape = 1,
    padding: Shape = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the gradient of conv3d with respect to its weight.

    >>> import ndgrad
    >>> ndgrad.nn.grad.conv3d_weight(ndgrad.ones(1, 1, 1, 1, 3), (1, 1, 1, 1, 2), ndgrad.ones(1, 1, 1, 1, 2)).shape
    ndgrad.Size([1, 1, 1, 1, 2])
    """
    return _differentiate_by_weight(F.conv3d, input, weight_size, grad_output, (stride, padding, dilation, groups))
