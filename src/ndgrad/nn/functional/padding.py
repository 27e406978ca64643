"""Padding in all modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad._src.arrays.taps import Taps
from ndgrad._src.ops.padding import constant_pad_nd
from ndgrad._src.ops.resample import border_taps, resample

if TYPE_CHECKING:
    from ndgrad._typing import Number, Sizes, Tensor

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Number | None = None) -> Tensor:
    """Pad a tensor at both ends of its last dimensions, or crop it.

    Args:
        input: tensor of any shape. Modes other than `"constant"` need one or two dimensions in front of the padded
            ones.
        pad: pairs (before, after), the first for the last dimension, the next for the dimension before, and so on.
            Negative numbers crop.
        mode: `"constant"`, `"reflect"` (without the border itself), `"replicate"` (the border) or `"circular"`.
        value: fill value of mode `"constant"`. The default is 0.

    >>> import ndgrad
    >>> ndgrad.nn.functional.pad(ndgrad.tensor([[1.0, 2.0, 3.0]]), (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    shape = tuple(input.shape)
    given = tuple(int(p) for p in pad)
    if len(given) % 2:
        raise RuntimeError(
            f"pad: {given} has an odd number of numbers. Give a pair per dimension, the last dimension first. "
            "[nd-shape]"
        )
    if len(given) > 2 * len(shape):
        raise RuntimeError(
            f"pad: padding {given} has more pairs than an input of shape {shape} has dimensions. [nd-window]"
        )
    # Pairs are given from the last dimension backwards; reverse them to one pair per dimension.
    pairs = tuple(zip(given[::2], given[1::2], strict=True))[::-1]
    pairs = ((0, 0),) * (len(shape) - len(pairs)) + pairs
    for dim, (size, (before, after)) in enumerate(zip(shape, pairs, strict=True)):
        cropped = size + min(before, 0) + min(after, 0)
        if size + before + after < 0 or (cropped < 0 and mode in ("constant", "circular")):
            raise RuntimeError(
                f"pad: padding {given} leaves a negative size in dimension {dim} of an input of shape {shape}. "
                "Crop less. [nd-window]"
            )
    if mode == "constant":
        return constant_pad_nd.eager(input, pads=pairs, value=0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: mode is {mode!r}. Choose constant, reflect, replicate or circular. [nd-option]"
        )
    if value is not None and value != 0:
        raise RuntimeError(f"pad: mode {mode!r} takes no value, but it is {value!r}. Leave it out. [nd-arguments]")
    count = len(given) // 2
    if count not in (1, 2, 3) or len(shape) not in (count + 1, count + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} does not pad {count} dimensions of an input of shape {shape}, "
            "but the last 1 of 2 or 3 dimensions, the last 2 of 3 or 4, or the last 3 of 4 or 5. Reshape it. [nd-ndim]"
        )
    dims = [d for d in range(len(shape) - count, len(shape)) if pairs[d] != (0, 0)]
    taps = tuple([_continue(d, pairs[d], mode, shape, given) for d in dims])
    return resample.eager(input, dim=tuple(dims), taps=taps) if dims else input


def _continue(dim: int, pair: tuple[int, int], mode: str, shape: Sizes, given: Sizes) -> Taps:
    """Return the elements that a padded dimension reads."""
    (before, after), size = pair, shape[dim]
    if mode == "reflect" and max(before, after) >= size:
        raise RuntimeError(
            f"pad: padding {given} asks for more than there is to reflect in dimension {dim} of shape {shape}. "
            "[nd-window]"
        )
    # Circular padding wraps the part around that cropping leaves.
    size = size + min(before, 0) + min(after, 0) if mode == "circular" else size
    if mode == "circular" and max(before, after) > size:
        raise RuntimeError(
            f"pad: padding {given} wraps shape {shape} around more than once in dimension {dim}. Repeat it first. "
            "[nd-window]"
        )
    if not size:
        raise RuntimeError(
            f"pad: an empty dimension cannot be padded by {mode}: dimension {dim} of shape {shape}. "
            "Pad with a constant. [nd-too-few]"
        )
    return border_taps(shape[dim], before, after, mode)
