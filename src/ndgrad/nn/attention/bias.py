"""Causal masks for `scaled_dot_product_attention`, aligned with the first or with the last keys."""

from __future__ import annotations

import enum
from typing import Self

from ndgrad._src.arrays.dtypes import bool_
from ndgrad._src.tensor.functions.creation import ones
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.overrides import _disabled_torch_function_impl

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Alignment of the diagonal of a causal mask."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask (queries, keys), True for visible keys; results computed from it are plain tensors.

    Args:
        variant: alignment of the diagonal, with the first or with the last keys.
        seq_len_q: number of queries.
        seq_len_kv: number of keys.

    >>> import ndgrad
    >>> from ndgrad.nn.attention.bias import CausalBias, CausalVariant
    >>> CausalBias(CausalVariant.LOWER_RIGHT, 2, 3).sum(1)
    tensor([2, 3])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int
    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]  # a plain function, as in torch

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Self:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, but is {type(variant).__name__}. [nd-type]")
        offset = 0 if variant is CausalVariant.UPPER_LEFT else seq_len_kv - seq_len_q
        made = Tensor._make_subclass(cls, ones(seq_len_q, seq_len_kv, dtype=bool_).tril(offset))
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made


def causal_upper_left(*size: int) -> CausalBias:
    """Return the mask under which query i sees keys 0 to i.

    Args:
        *size: numbers of queries and keys.

    >>> import ndgrad
    >>> ndgrad.nn.attention.bias.causal_upper_left(2, 3).int()
    tensor([[1, 0, 0],
            [1, 1, 0]], dtype=ndgrad.int32)
    """
    if len(size) != 2:
        raise AssertionError(f"causal_upper_left only supports 2D tensors: it got sizes {size}. [nd-ndim]")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return the mask under which the last query sees all keys, and each earlier query one key less.

    Args:
        *size: numbers of queries and keys.

    >>> import ndgrad
    >>> ndgrad.nn.attention.bias.causal_lower_right(2, 3).int()
    tensor([[1, 1, 0],
            [1, 1, 1]], dtype=ndgrad.int32)
    """
    if len(size) != 2:
        raise AssertionError(f"causal_lower_right only supports 2D tensors: it got sizes {size}. [nd-ndim]")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
