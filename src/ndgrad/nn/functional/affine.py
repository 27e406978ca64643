"""Affine and bilinear maps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgrad._src.ops import linear as linear_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad.nn.functional.spatial import sizes_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["linear", "bilinear"]


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Apply an affine map to the last dimension: `input @ weight.T + bias`.

    Args:
        input: tensor of shape (..., in_features).
        weight: matrix of shape (out_features, in_features), or vector of shape (in_features,) for a single output.
        bias: vector of shape (out_features,).
        out: tensor that receives the result.

    Returns:
        A tensor of shape (..., out_features), or (...) if the weight is a vector.

    >>> import ndgrad
    >>> x, w, b = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([[1.0, 10.0]]), ndgrad.tensor([100.0])
    >>> ndgrad.nn.functional.linear(x, w, b)
    tensor([121.])
    """
    try:
        shape, w_shape = sizes_of(input), sizes_of(weight)
    except AttributeError:
        kinds = f"{type(input).__name__} and {type(weight).__name__}"
        raise TypeError(
            f"linear(): input and weight must be tensors, but are {kinds}. Wrap them with ndgrad.as_tensor(...). "
            "[nd-type]"
        ) from None
    if len(w_shape) not in (1, 2) or not shape or shape[-1] != w_shape[-1]:
        sizes = f"{math.prod(shape[:-1])}x{shape[-1] if shape else 1} and {'x'.join(map(str, w_shape[::-1]))}"
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({sizes}): linear of an input of shape {shape} and a weight of "
            f"shape {w_shape}. The last sizes of both must agree; the weight is (outputs, inputs). [nd-matmul]"
        )
    if out is not None:
        return deliver("linear", linear(input, weight, bias), out, input, weight, bias)
    if len(w_shape) == 1:
        product = ops.matmul(input, weight)
        return product if bias is None else product + bias
    if bias is not None and sizes_of(bias) != w_shape[:1]:
        if len(bias.shape) > 1 or (bias.shape and bias.shape[0] != 1):
            raise RuntimeError(
                f"linear: a bias of shape {tuple(bias.shape)} for {w_shape[0]} outputs. Give one number per output. "
                "[nd-shape]"
            )
        return linear_ops.linear.strict(input, weight, None) + bias
    return linear_ops.linear.strict(input, weight, bias)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the bilinear forms `input1 @ weight[k] @ input2`, one for each output k.

    Args:
        input1: tensor of shape (..., in1_features).
        input2: tensor of shape (..., in2_features), with the same leading dimensions.
        weight: tensor of shape (out_features, in1_features, in2_features).
        bias: vector of shape (out_features,).

    Returns:
        A tensor of shape (..., out_features).

    >>> import ndgrad
    >>> x, y = ndgrad.tensor([[1.0, 2.0]]), ndgrad.tensor([[3.0, 4.0]])
    >>> ndgrad.nn.functional.bilinear(x, y, ndgrad.eye(2).reshape(1, 2, 2))
    tensor([[11.]])
    """
    a, b, w = tuple(input1.shape), tuple(input2.shape), tuple(weight.shape)
    if len(w) != 3 or a[:-1] != b[:-1] or a[-1:] != w[1:2] or b[-1:] != w[2:]:
        raise RuntimeError(
            f"bilinear: inputs of shapes {a} and {b} do not fit a weight of shape {w}. The weight is (outputs, "
            "last size of the first, last size of the second), and the other sizes of the inputs agree. [nd-shape]"
        )
    if bias is not None and tuple(bias.shape) != w[:1]:
        raise RuntimeError(
            f"bilinear: a bias of shape {tuple(bias.shape)} for {w[0]} outputs. Give one number per output. [nd-shape]"
        )
    # Multiply input1 with every weight matrix first: (rows, inputs1) @ (inputs1, outputs * inputs2).
    mixed = ops.matmul(input1, ops.reshape(ops.permute(weight, dims=(1, 0, 2)), shape=(w[1], w[0] * w[2])))
    mixed = ops.reshape(mixed, shape=(*a[:-1], w[0], w[2]))
    out = ops.reshape(ops.matmul(mixed, ops.reshape(input2, shape=(*b, 1))), shape=(*a[:-1], w[0]))
    return out if bias is None else out + bias
