"""`loss_parallel`: cross entropy of scores whose classes are divided among ranks, without gathering the scores.

With m the greatest score and z the sum of exp(x - m), which are a maximum and a sum over ranks, the loss of a sample is
log z + m - x[target], and only one rank has x[target]. So a rank sends three numbers for each sample instead of its
scores. The sums pass their gradient through unchanged, since every rank computes the same loss. The gradient of the
scores, softmax - one hot, follows by itself.
"""

from __future__ import annotations

from typing import Any, Self

from ndgrad._src.tensor.functions.elementwise import where
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.distributed.tensor.dtensor import DTensor
from ndgrad.distributed.tensor.placements import REPLICATE
from ndgrad.distributed.tensor.redistribution import extreme_total, total
from ndgrad.overrides import TorchFunctionMode


class loss_parallel(TorchFunctionMode):
    """A block in which `nn.functional.cross_entropy` and `CrossEntropyLoss` take scores whose classes are sharded, and
    send three numbers for each sample. Targets and weights may be plain tensors, the same on all ranks.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor import Shard, distribute_tensor
    >>> from ndgrad.distributed.tensor.parallel import loss_parallel
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> scores = distribute_tensor(ndgrad.zeros(2, 4, requires_grad=True), mesh, [Shard(1)])
    >>> with loss_parallel():
    ...     loss = ndgrad.nn.functional.cross_entropy(scores, ndgrad.tensor([0, 3]))
    >>> loss.placements, f"{loss.item():.4f}"
    ((Replicate(),), '1.3863')
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "cross_entropy":
            scores = args[0] if args else kwargs.get("input")
            if isinstance(scores, DTensor):
                return _cross_entropy(*args, **kwargs)
        return func(*args, **kwargs)


def _plain(value: Any, what: str) -> Any:
    """Return a tensor that all ranks have, as a plain tensor."""
    if not isinstance(value, DTensor):
        return value
    if not all(p.is_replicate() for p in value.placements):
        raise ValueError(
            f"loss_parallel: {what} must be the same on all ranks, but is {list(value.placements)}. [nd-dtensor]"
        )
    return value.to_local()


def _cross_entropy(
    input: DTensor,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> DTensor:
    dim = 1 if input.ndim > 1 else 0
    along = [i for i, p in enumerate(input.placements) if p.is_shard(dim)]
    if len(along) != 1 or sum(not p.is_replicate() for p in input.placements) != 1:
        raise ValueError(
            f"loss_parallel: the scores must be sharded in their classes, dimension {dim}, and in nothing else, but "
            f"are {list(input.placements)}. Redistribute them, or use cross_entropy outside the block. [nd-dtensor]"
        )
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum", "none"):
        raise ValueError(f"loss_parallel: reduction is 'mean', 'sum' or 'none', not {reduction!r}. [nd-option]")
    labels, weight = _plain(target, "the target"), _plain(weight, "the weight")
    classes, mesh = input.shape[dim], input.device_mesh
    counted = labels != ignore_index
    labels = where(counted, labels, 0)
    if labels.is_floating_point() or tuple(labels.shape) != (*input.shape[:dim], *input.shape[dim + 1 :]):
        raise ValueError(
            f"loss_parallel: the target must hold the numbers of classes, of shape "
            f"{(*input.shape[:dim], *input.shape[dim + 1 :])}, but is {labels.dtype} of shape {tuple(labels.shape)}. "
            "[nd-target]"
        )
    if labels.numel() and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise IndexError(
            f"Target out of bounds: it must lie from 0 to {classes - 1}, or be {ignore_index}. [nd-target]"
        )
    group, sizes = mesh.get_group(along[0]), input.spec.sizes(along[0])
    start, count = sum(sizes[: group.rank()]), sizes[group.rank()]
    scores = input._local
    greatest = scores.detach().amax(dim) if count else scores.detach().new_full(labels.shape, float("-inf"))
    shifted = scores - extreme_total(greatest, group=group, reduction=ReduceOp.MAX).unsqueeze(dim)
    log_z = total(shifted.exp().sum(dim), group=group).log()
    here = (labels >= start) & (labels < start + count)
    if count:
        own = shifted.gather(dim, where(here, labels - start, 0).unsqueeze(dim)).squeeze(dim)
        own = where(here, own, 0.0)
    else:
        own = shifted.sum(dim)  # a sum over no elements
    loss = log_z - total(own, group=group)
    shares = counted.to(loss.dtype) if weight is None else where(counted, weight[labels], 0.0)
    loss = loss * shares
    if label_smoothing:
        every = scores.new_ones(classes) if weight is None else weight
        mine = every[start : start + count].reshape((-1, *(1,) * (input.ndim - dim - 1)))
        spread = log_z * every.sum() - total((shifted * mine).sum(dim), group=group)
        loss = loss * (1.0 - label_smoothing) + where(counted, spread, 0.0) * (label_smoothing / classes)
    if reduction != "none":
        loss = loss.sum() / (shares.sum() if reduction == "mean" else 1.0)
    made: DTensor = DTensor.from_local(loss, mesh, [REPLICATE] * mesh.ndim)
    return made
