"""Fusion of batch normalisation, in evaluation, into the layer before it: scale and shift become part of weight and
bias.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.tensor.functions.creation import ones_like, zeros_like
from ndgrad.nn.modules.batchnorm import _BatchNorm
from ndgrad.nn.modules.conv import _ConvNd
from ndgrad.nn.modules.linear import Linear
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

ConvT = TypeVar("ConvT", bound=_ConvNd)
LinearT = TypeVar("LinearT", bound=Linear)


def fuse_conv_bn_eval(conv: ConvT, bn: _BatchNorm, transpose: bool = False) -> ConvT:
    """Return a convolution equal to `conv` followed by `bn`, both in evaluation.

    Args:
        conv: convolution.
        bn: batch normalisation after it, with running statistics.
        transpose: whether the convolution is a transposed one.

    Raises:
        AssertionError: if a module is in training mode.

    >>> import ndgrad
    >>> conv, bn = ndgrad.nn.Conv1d(2, 3, 1).eval(), ndgrad.nn.BatchNorm1d(3).eval()
    >>> x = ndgrad.ones(1, 2, 4)
    >>> fused = ndgrad.nn.utils.fuse_conv_bn_eval(conv, bn)
    >>> bool(((fused(x) - bn(conv(x))).abs() < 1e-5).all())
    True
    """
    fused = _copy_for("fuse_conv_bn_eval", conv, bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a convolution fused with a batch normalisation.

    Args:
        conv_w: weight of the convolution.
        conv_b: bias of the convolution, or None.
        bn_rm, bn_rv: running mean and variance.
        bn_eps: number added to the variance.
        bn_w, bn_b: scale and shift, or None.
        transpose: whether the convolution is a transposed one.

    >>> import ndgrad
    >>> one = ndgrad.ones(1)
    >>> weight, bias = ndgrad.nn.utils.fuse_conv_bn_weights(ndgrad.ones(1, 1, 1), None, one, 4 * one, 0.0, None, None)
    >>> weight.item(), bias.item()
    (0.5, -0.5)
    """
    shape = [1, -1] if transpose else [-1, 1]
    return _fuse_batch_norm(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape + [1] * (conv_w.dim() - 2))


def fuse_linear_bn_eval(linear: LinearT, bn: _BatchNorm) -> LinearT:
    """Return a linear layer equal to `linear` followed by `bn`, both in evaluation.

    Args:
        linear: linear layer.
        bn: batch normalisation after it, with running statistics.

    Raises:
        AssertionError: if a module is in training mode, or if sizes differ.

    >>> import ndgrad
    >>> linear, bn = ndgrad.nn.Linear(2, 3).eval(), ndgrad.nn.BatchNorm1d(3).eval()
    >>> x = ndgrad.ones(4, 2)
    >>> bool(((ndgrad.nn.utils.fuse_linear_bn_eval(linear, bn)(x) - bn(linear(x))).abs() < 1e-5).all())
    True
    """
    fused = _copy_for("fuse_linear_bn_eval", linear, bn)
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1, but they are "
            f"{linear.out_features} and {bn.num_features}. [nd-parametrization]"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of a linear layer fused with a batch normalisation.

    Args:
        linear_w: weight of the layer.
        linear_b: bias of the layer, or None.
        bn_rm, bn_rv: running mean and variance.
        bn_eps: number added to the variance.
        bn_w, bn_b: scale and shift, or None.

    >>> import ndgrad
    >>> one = ndgrad.ones(1)
    >>> weight, bias = ndgrad.nn.utils.fuse_linear_bn_weights(ndgrad.ones(1, 1), None, one, 4 * one, 0.0, one, one)
    >>> weight.item(), bias.item()
    (0.5, 0.5)
    """
    return _fuse_batch_norm(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _copy_for(said: str, layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError(
            f"{said}: Fusion only for eval! Call eval() on the layer and on the batch normalisation. [nd-call-order]"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError(
            f"{said}: the batch normalisation keeps no running statistics: there is nothing to fuse. "
            "[nd-parametrization]"
        )
    return copy.deepcopy(layer)


def _fuse_batch_norm(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    bn_weight: Tensor | None,
    bn_bias: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    dtypes = weight.dtype, weight.dtype if bias is None else bias.dtype
    learned = weight.requires_grad, True if bias is None else bias.requires_grad
    bias = zeros_like(mean) if bias is None else bias
    scale = (ones_like(mean) if bn_weight is None else bn_weight) * (var + eps).rsqrt()
    shifted = (bias - mean) * scale + (zeros_like(mean) if bn_bias is None else bn_bias)
    values = (weight * scale.reshape(shape)).to(dtypes[0]), shifted.to(dtypes[1])
    made = [Parameter(value.detach(), wanted) for value, wanted in zip(values, learned, strict=True)]
    return made[0], made[1]
