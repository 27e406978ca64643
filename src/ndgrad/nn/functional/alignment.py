"""The loss of sequences without alignment (CTC): argument checks and layouts for the op that sums over alignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable, np_dtype, shape_of
from ndgrad._src.ops import alignment  # noqa: F401  # the op is known to the vocabulary once its file is loaded
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.nn.functional.reduction import read_reduction, reduce_loss

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["ctc_loss"]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative log-probability of a sequence of classes, summed over all alignments (CTC).

    Args:
        log_probs: logarithms of probabilities of shape (T, N, C), or (T, C) for one sample.
        targets: classes of shape (N, S), or one vector with all sequences concatenated.
        input_lengths: lengths of the inputs, at most T, one per sample.
        target_lengths: lengths of the targets, one per sample.
        blank: class that separates labels and is not part of a target.
        reduction: `"none"` for one loss per sample, `"mean"` or `"sum"`. The mean divides each loss by the length of
            its target first.
        zero_infinity: whether the loss is zero if an input is too short for its target. Otherwise it is infinite.

    >>> import ndgrad
    >>> log_probs = ndgrad.full((2, 1, 3), 1 / 3).log()
    >>> loss = ndgrad.nn.functional.ctc_loss(log_probs, ndgrad.tensor([[1]]), [2], [1], reduction="sum")
    >>> (ndgrad.exp(-loss) * 9).round()  # (1, 1), (blank, 1) and (1, blank) of nine pairs
    tensor(3.)
    """
    reduction = read_reduction(reduction)
    one = log_probs.dim() == 2
    if one:
        log_probs = ops.unsqueeze(log_probs, dim=1)
    if log_probs.dim() != 3 or not log_probs.numel():
        what = "must not be empty" if log_probs.dim() == 3 else "must have 2 or 3 dimensions"
        raise RuntimeError(
            f"log_probs tensor {what}: ctc_loss got shape {shape_of(log_probs)}, and takes (T, N, C). [nd-ndim]"
        )
    if np_dtype(log_probs).kind not in "fV":
        raise NotImplementedError(
            f'"ctc_loss" not implemented for {log_probs.dtype}: log_probs are logarithms of probabilities, '
            "real floating-point numbers. [nd-dtype]"
        )
    steps, samples, classes = shape_of(log_probs)
    if not 0 <= blank < classes:
        raise RuntimeError(f"blank must be in label range: it is {blank}, and there are {classes} classes. [nd-target]")
    read = _lengths("input_lengths", input_lengths, samples, steps, log_probs)
    written = _lengths("target_lengths", target_lengths, samples, None, log_probs)
    states, skips, ends = _states(_pad_targets(targets, written, samples), written, blank, classes)
    loss: Tensor = ops.ctc_loss(log_probs, states, skips, ends, read, zero_infinity=bool(zero_infinity))
    if reduction == "mean":
        loss = loss / ops.clamp_min(written, 1).to(loss.dtype)
    loss = reduce_loss(loss, reduction)
    return loss.reshape(()) if one and reduction == "none" else loss


def _lengths(name: str, given: Any, samples: int, most: int | None, like: Tensor) -> Tensor:
    """Return lengths as a tensor on the scores' device, one per sample."""
    if not isinstance(given, Variable):
        if not isinstance(given, Sequence):
            raise TypeError(
                f"ctc_loss: {name} must be a tensor or a sequence of integers, not {type(given).__name__}. [nd-type]"
            )
        given = as_tensor(np.asarray(given, dtype=np.int64 if not len(given) else None))
    if np_dtype(given).kind not in "iu":
        raise RuntimeError(f"{name} must be integral: ctc_loss got {given.dtype}. [nd-dtype]")
    if given.dim() == 0 and samples == 1:
        given = given.reshape(1)
    if shape_of(given) != (samples,):
        raise RuntimeError(
            f"{name} must be of size batch_size: ctc_loss got {shape_of(given)} for {samples} samples. [nd-shape]"
        )
    values = values_to_check(given)
    if values is not None:
        for bound, fits, value in (
            ("at least 0", values.min() >= 0, values.min()),
            (f"at most {most}", most is None or values.max() <= most, values.max()),
        ):
            if not fits:
                raise RuntimeError(
                    f"Expected {name} to have value {bound}, but got value {value} (ctc_loss). [nd-range]"
                )
    return given.to(like.device).long()


def _pad_targets(targets: Tensor, lengths: Tensor, samples: int) -> Tensor:
    """Return the targets as (N, S), with S at least one."""
    if np_dtype(targets).kind not in "iufb":
        raise RuntimeError(f"ctc_loss: targets are class numbers, and their dtype is {targets.dtype}. [nd-target]")
    targets = targets.to(lengths.device).long()
    if targets.dim() == 1:
        known = np.array(lengths.tolist(), dtype=np.int64)
        if targets.shape[0] != known.sum():
            raise RuntimeError(
                f"Expected tensor to have size {known.sum()} at dimension 0, but got size {targets.shape[0]} for "
                "argument 'targets': ctc_loss takes as many as target_lengths say. [nd-target]"
            )
        places = np.cumsum(known)[:, None] - known[:, None] + np.arange(max(int(known.max()), 1))
        targets = ops.cat(targets, targets.new_zeros(1), dim=0)  # read by positions beyond the end
        return ops.index(targets, as_tensor(np.minimum(places, targets.shape[0] - 1)).to(targets.device))
    if targets.dim() != 2:
        raise RuntimeError(
            f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument 'targets' "
            "(ctc_loss). [nd-target]"
        )
    if targets.shape[0] != samples:
        raise RuntimeError(
            f"Expected tensor to have size {samples} at dimension 0, but got size {targets.shape[0]} for argument "
            "'targets': ctc_loss takes one row per sample. [nd-target]"
        )
    values = values_to_check(lengths)
    if values is not None and values.max() > targets.shape[1]:
        raise RuntimeError(
            f"Expected tensor to have size at least {values.max()} at dimension 1, but got size {targets.shape[1]} for "
            "argument 'targets': ctc_loss reads as many of a row as target_lengths say. [nd-target]"
        )
    return targets if targets.shape[1] else targets.new_zeros(samples, 1)


def _states(targets: Tensor, lengths: Tensor, blank: int, classes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the classes of the states blank, l_1, blank, ..., blank; a mask of states that may be entered over a
    blank; and the end states of paths.
    """
    samples, longest = shape_of(targets)
    column = lengths.reshape(samples, 1)
    inside = as_tensor(np.arange(longest)).to(targets.device) < column
    labels = ops.where(inside, targets, blank)
    values = values_to_check(labels)
    if values is not None and (values.min() < 0 or values.max() >= classes):
        raise IndexError(
            f"ctc_loss: targets are class numbers from 0 to {classes - 1}, and they go from {values.min()} to "
            f"{values.max()}. log_probs has one place per class in its last dimension, the blank included. [nd-target]"
        )
    blanks = labels.new_full((samples, longest), blank)
    states = ops.cat(ops.stack(blanks, labels, dim=2).reshape(samples, 2 * longest), blanks[:, :1], dim=1)
    numbers = as_tensor(np.arange(2 * longest + 1)).to(targets.device)
    before = ops.cat(states[:, :2], states[:, :-2], dim=1)
    skips = (states != before) & (numbers % 2 == 1) & (states != blank)
    skips = skips & (numbers >= 2)
    ends = (numbers == 2 * column) | (numbers == 2 * column - 1)
    return states, skips, ends
