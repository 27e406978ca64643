"""Distances, similarities, and losses based on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.out_argument import copy_into
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import distance as distance_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.norm import vector_norm
from ndgrad.nn.functional.reduction import read_reduction, reduce_loss

if TYPE_CHECKING:
    from ndgrad._typing import Sizes, Tensor

__all__ = [
    "cosine_similarity", "pairwise_distance", "normalize", "cosine_embedding_loss", "margin_ranking_loss",
    "hinge_embedding_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


@both_worlds
def normalize(
    input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """Divide a tensor by its p-norm along dimensions.

    Args:
        input: tensor of any shape.
        p: order of the norm.
        dim: dimension or dimensions of the norm.
        eps: smallest divisor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.normalize(ndgrad.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    size = vector_norm(input, float(as_number("normalize", "p", p)), dim, keepdim=True)
    result = input / ops.clamp_min(size, eps)
    return result if out is None else copy_into("normalize", out, result)


@both_worlds
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angle between vectors along a dimension.

    Args:
        x1, x2: tensors that broadcast against each other.
        dim: dimension of the vectors, after broadcasting.
        eps: smallest norm by which a vector is divided.

    Returns:
        A tensor without `dim`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.cosine_similarity(ndgrad.tensor([[1.0, 1.0]]), ndgrad.tensor([[1.0, 0.0]]))
    tensor([0.7071])
    """
    shape = _broadcast("cosine_similarity", x1, x2)
    if not (is_floating(np_dtype(x1)) or is_floating(np_dtype(x2))):
        raise RuntimeError(
            f"cosine_similarity: expected common dtype to be floating point, but the tensors have {np_dtype(x1)} and "
            f"{np_dtype(x2)}. Convert them with .float(). [nd-dtype]"
        )
    dim = as_dim(dim, len(shape))
    x1, x2 = ops.expand(x1, shape=shape), ops.expand(x2, shape=shape)
    if not shape:
        x1, x2 = ops.reshape(x1, shape=(1,)), ops.reshape(x2, shape=(1,))
    return distance_ops.cosine_similarity.eager(x1, x2, dim=dim, eps=eps)


def _broadcast(name: str, *tensors: Tensor) -> Sizes:
    shapes = [tuple(t.shape) for t in tensors]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(
            f"{name}: tensors of shapes {', '.join(map(str, shapes))} cannot be broadcast together. Reshape them. "
            "[nd-broadcast]"
        ) from None


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the p-norm of `x1 - x2 + eps` along the last dimension.

    Args:
        x1, x2: tensors that broadcast against each other.
        p: order of the norm.
        eps: number added to each difference, which keeps gradients finite.
        keepdim: whether the last dimension stays, with size 1.

    >>> import ndgrad
    >>> ndgrad.nn.functional.pairwise_distance(ndgrad.tensor([[3.0, 4.0]]), ndgrad.zeros(1, 2), eps=0.0)
    tensor([5.])
    """
    _broadcast("pairwise_distance", x1, x2)
    difference = x1 - x2 + eps
    ndim = len(difference.shape)
    return ops.vector_norm(
        difference, ord=float(as_number("pairwise_distance", "p", p)), dim=(ndim - 1,) if ndim else (), keepdim=keepdim
    )


# ----- losses --------------------------------------------------------------------------------------------------------


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return 1 - cos for a target of 1, and max(0, cos - margin) for -1.

    Args:
        input1, input2: vectors of shape (N, D), or (D,).
        target: 1 for similar pairs and -1 for different ones, of shape (N,), or ().
        margin: cosine up to which different pairs cost nothing.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> x, y = ndgrad.tensor([[1.0, 1.0]]), ndgrad.tensor([[1.0, 0.0]])
    >>> ndgrad.nn.functional.cosine_embedding_loss(x, y, ndgrad.tensor([1]))
    tensor(0.2929)
    """
    reduction = read_reduction(reduction, size_average, reduce)
    name, rank = "cosine_embedding_loss", len(target.shape)
    if rank > 1:
        raise RuntimeError(
            f"{name}: 0D or 1D target tensor expected, multi-target not supported; its shape is {tuple(target.shape)}. "
            "[nd-target]"
        )
    if len(input1.shape) != rank + 1 or len(input2.shape) != rank + 1:
        raise RuntimeError(
            f"{name}: {rank}D target tensor expects {rank + 1}D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}. [nd-target]"
        )
    _broadcast(name, input1, input2)
    dim = (rank,)
    product, size1, size2 = (
        ops.sum(a * b, dim=dim, keepdim=False) for a, b in ((input1, input2), (input1, input1), (input2, input2))
    )
    cosine = product / ops.sqrt((size1 + 1e-12) * (size2 + 1e-12))
    loss = ops.where(target == 1, 1.0 - cosine, 0.0) + ops.where(target == -1, ops.clamp_min(cosine - margin, 0.0), 0.0)
    return reduce_loss(loss, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin - target * (input1 - input2)).

    Args:
        input1, input2: scores of the same number of dimensions.
        target: 1 if `input1` should be larger, -1 if `input2` should be.
        margin: difference that is demanded.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> x, y = ndgrad.tensor([2.0, 2.0]), ndgrad.tensor([1.0, 3.0])
    >>> ndgrad.nn.functional.margin_ranking_loss(x, y, ndgrad.tensor([1, 1]), reduction="none")
    tensor([0., 1.])
    """
    reduction = read_reduction(reduction, size_average, reduce)
    if not len(input1.shape) == len(input2.shape) == len(target.shape):
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{tuple(input1.shape)}, input2: {tuple(input2.shape)}, target: {tuple(target.shape)}. [nd-target]"
        )
    _broadcast("margin_ranking_loss", input1, input2, target)
    return reduce_loss(ops.clamp_min(margin - target * (input1 - input2), 0.0), reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the input for a target of 1, and max(0, margin - input) for -1.

    Args:
        input: distances of any shape.
        target: 1 for similar pairs and -1 for different ones, of the same shape.
        margin: distance from which different pairs cost nothing.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per element, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.hinge_embedding_loss(ndgrad.tensor([0.25, 0.25]), ndgrad.tensor([1, -1]), reduction="none")
    tensor([0.2500, 0.7500])
    """
    reduction = read_reduction(reduction, size_average, reduce)
    far = ops.where(target != 1, ops.clamp_min(margin - input, 0.0), 0.0)
    return reduce_loss(far + ops.where(target != -1, input, 0.0), reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return max(0, margin + distance to the positive - distance to the negative).

    Args:
        anchor, positive, negative: vectors of shape (N, D), or (D,). The anchor should be nearer to the positive than
            to the negative.
        margin: difference of distances that is demanded, above 0.
        p: order of the norm.
        eps: number added to each difference of vectors.
        swap: whether the distance from positive to negative is used for the second one if it is smaller.
        size_average, reduce: old forms of `reduction`.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> anchor, near, far = ndgrad.zeros(1, 2), ndgrad.tensor([[0.0, 1.0]]), ndgrad.tensor([[3.0, 4.0]])
    >>> ndgrad.nn.functional.triplet_margin_loss(anchor, near, far, margin=5.0, eps=0.0)
    tensor(1.)
    """
    reduction = read_reduction(reduction, size_average, reduce)

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return pairwise_distance(a, b, p, eps)

    return _triplet("triplet_margin_loss", anchor, positive, negative, distance, margin, swap, reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return the triplet margin loss of any distance.

    Args:
        anchor, positive, negative: vectors of shape (N, D), or (D,). The anchor should be nearer to the positive than
            to the negative.
        distance_function: function or module of two tensors. The default is `pairwise_distance`.
        margin: difference of distances that is demanded, above 0.
        swap: whether the distance from positive to negative is used for the second one if it is smaller.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`.

    >>> import ndgrad
    >>> anchor, near, far = ndgrad.zeros(1, 2), ndgrad.tensor([[0.0, 1.0]]), ndgrad.tensor([[3.0, 4.0]])
    >>> city_block = lambda x, y: (x - y).abs().sum(-1)
    >>> ndgrad.nn.functional.triplet_margin_with_distance_loss(
    ...     anchor, near, far, distance_function=city_block, margin=9.0)
    tensor(3.)
    """
    reduction = read_reduction(reduction)
    distance = pairwise_distance if distance_function is None else distance_function
    return _triplet("triplet_margin_with_distance_loss", anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    name: str,
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise ValueError(f"{name}: Expected margin to be greater than 0, got {margin} instead. [nd-range]")
    ranks = [len(t.shape) for t in (anchor, positive, negative)]
    if len(set(ranks)) != 1:
        raise RuntimeError(
            f"{name}: The anchor, positive, and negative tensors are expected to have the same number of dimensions, "
            f"but got: anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs. [nd-ndim]"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ops.minimum(far, distance(positive, negative))
    return reduce_loss(ops.clamp_min(near - far + margin, 0.0), reduction)
