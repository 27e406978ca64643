"""Signatures of layers: convolutions' backwards, windows, pooling, normalisation, attention's weights, CTC.

Samples can always be divided, channels if they do not mix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.ops.table import Op
from ndgrad.distributed.tensor.signatures import (
    Labeller,
    Labels,
    Shape,
    Signature,
    batch_labels,
    normalised_labels,
    signature_rule,
)


def _with_local_shape(op: Op, name: str) -> Any:
    def local(ops: Any, args: Sequence[Any], settings: dict[str, Any], sizes: dict[int, int]) -> Any:
        shape = tuple(sizes.get(i, n) for i, n in enumerate(settings[name]))
        return getattr(ops, op.name)(*args, **{**settings, name: shape})

    return local


@signature_rule("convolution_input")
def _convolution_input(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Transpose of a convolution in its input: a sum over the output channels."""
    space = (None,) * (len(shapes[1]) - 2)
    single = settings["groups"] == 1
    n, out, into = 0, 1 if single else None, 2 if single else None
    return Signature(
        [(n, out, *space), (out, into, *space)], (n, into), reductions={1: "sum"} if single else {},
        linear=op.linear_in(2), result_shape=tuple(settings["x_shape"]), local=_with_local_shape(op, "x_shape"),
    )  # fmt: skip


@signature_rule("convolution_weight")
def _convolution_weight(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Transpose of a convolution in its weight: a sum over the samples."""
    space = (None,) * (len(shapes[0]) - 2)
    single = settings["groups"] == 1
    n, out, into = 0, 1 if single else None, 2 if single else None
    return Signature(
        [(n, out, *space), (n, into, *space)], (out, into), reductions={n: "sum"},
        linear=op.linear_in(2), result_shape=tuple(settings["w_shape"]), local=_with_local_shape(op, "w_shape"),
    )  # fmt: skip


@signature_rule("im2col", "col2im")
def _windows(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    return Signature([(0, *(None,) * (len(shapes[0]) - 1))], (0,), linear=op.linear_in(1))


@signature_rule("take_pooled", "max_unpool", "fractional_max_pool")
def _sign_pooling(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature | None:
    """Pooling divides by samples and channels, and so does its index or its random numbers."""
    if any(len(s) < 3 or s[:2] != shapes[0][:2] for s in shapes):
        return None
    linear = [frozenset((0,))] if op.name != "fractional_max_pool" else []
    return Signature([(0, 1, *(None,) * (len(s) - 2)) for s in shapes], (0, 1), linear=linear)


@signature_rule("grid_sample")
def _sign_sampling(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """Images and positions are divided by samples."""
    return Signature([(0, *(None,) * (len(s) - 1)) for s in shapes], (0,), linear=op.linear_in(2))


@signature_rule("avg_pool_backward")
def _pool_backward(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    space = len(settings["sizes"])
    labels = tuple(range(len(shapes[0]) - space))
    return Signature([(*labels, *(None,) * space)], labels, linear=op.linear_in(1))


@signature_rule("native_batch_norm")
def _batch_norm(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature:
    """Batch normalisation needs whole dimensions where it takes a mean."""
    return normalised_labels(shapes, settings)


@signature_rule("attention_weights")
def _attention_weights(op: Op, shapes: Sequence[Shape | None], settings: dict[str, Any]) -> Signature | None:
    """Attention weights divide by heads and samples, and by queries if no mask depends on positions."""
    q, k, mask = (*shapes, None)[:3]
    assert q is not None
    assert k is not None
    names = Labeller()
    given = [q[:-2], k[:-2], *([] if mask is None else [mask[:-2]])]
    leading, batch = batch_labels(given, names)
    rows = None if settings["is_causal"] else names.one()
    inputs: list[Labels | None] = [(*leading[0], rows, None), (*leading[1], None, None)]
    if len(shapes) > 2:
        if mask is None:
            inputs.append(None)
        else:
            row = rows if len(mask) > 1 and mask[-2] == q[-2] else None
            inputs.append((*leading[2], row, None)[-len(mask) :])
    return Signature(inputs, (*batch, rows))


@signature_rule("ctc_loss")
def _ctc_loss(op: Op, shapes: Sequence[Shape], settings: dict[str, Any]) -> Signature:
    """CTC loss divides by samples, the second dimension of the logits."""
    n = 0
    return Signature([(None, n, None), *((n, *(None,) * (len(s) - 1)) for s in shapes[1:])], (n,))
