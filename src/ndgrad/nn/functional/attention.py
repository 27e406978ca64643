"""Scaled dot-product attention, and multi-head attention built on it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.native_kernels import attention_kernels
from ndgrad._src.arrays.precision import FLOATING
from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import attention as attention_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.nn.functional.affine import linear
from ndgrad.nn.functional.regularization import dropout

if TYPE_CHECKING:
    from ndgrad._typing import Sizes, Tensor

__all__ = ["scaled_dot_product_attention", "multi_head_attention_forward"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return softmax(query key^T scale + mask) value.

    Args:
        query: tensor of shape (..., L, E).
        key: tensor of shape (..., S, E).
        value: tensor of shape (..., S, F).
        attn_mask: mask that broadcasts to (..., L, S). A boolean mask is True for visible keys; other masks are added
            to the scores.
        dropout_p: probability that a weight is dropped. There is no training mode here, so pass 0 for evaluation.
        is_causal: whether query i sees only keys 0 to i. It excludes `attn_mask`.
        scale: factor of the scores. The default is 1 / sqrt(E).
        enable_gqa: whether each head of key and value (dimension -3) serves several neighbouring heads of the query.

    Returns:
        A tensor of shape (..., L, F).

    >>> import ndgrad
    >>> q, k, v = ndgrad.zeros(2, 4), ndgrad.zeros(2, 4), ndgrad.tensor([[0.0], [6.0]])
    >>> ndgrad.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    tensor([[0.],
            [3.]])
    """
    name = "scaled_dot_product_attention"
    q, k, v = (tuple(t.shape) for t in (query, key, value))
    if min(len(q), len(k), len(v)) < 2:
        raise RuntimeError(
            f"{name}: query, key and value must have at least 2 dimensions, but have shapes {q}, {k}, {v}. [nd-ndim]"
        )
    if q[-1] != k[-1] or k[-2] != v[-2]:
        raise RuntimeError(
            f"{name}: shapes {q}, {k}, {v} do not fit: query and key agree in the last size, "
            "key and value in the one before. [nd-shape]"
        )
    if attn_mask is not None and is_causal:
        raise RuntimeError(
            f"{name}: Explicit attn_mask should not be set when is_causal=True. Put the causal part into the mask. "
            "[nd-exclusive]"
        )
    if attn_mask is not None and np_dtype(attn_mask).kind not in "b" + FLOATING:
        raise RuntimeError(
            f"{name}: Expected attn_mask dtype to be bool or float, but it is {np_dtype(attn_mask)}. "
            "Convert it with .bool(). [nd-dtype]"
        )
    if not enable_gqa:
        _check_broadcast(name, q, k, v, None if attn_mask is None else tuple(attn_mask.shape))
    scale, dropout_p = as_number(name, "scale", scale), as_number(name, "dropout_p", dropout_p)
    scale = 1.0 / math.sqrt(q[-1]) if scale is None and q[-1] else 1.0 if scale is None else float(scale)
    heads = None
    if enable_gqa:
        query, key, value, attn_mask, heads = _grouped_heads(name, query, key, value, attn_mask)
    if dropout_p > 0.0:
        weights = attention_ops.attention_weights.eager(query, key, attn_mask, is_causal=is_causal, scale=scale)
        out = ops.matmul(dropout(weights, dropout_p), value)
    elif attn_mask is None and _has_logs(query, key, value, scale):
        out = attention_ops.attention_with_logs.strict(query, key, value, is_causal=is_causal, scale=scale)[0]
    else:
        out = attention_ops.attention.strict(query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    return out if heads is None else ops.reshape(out, shape=(*out.shape[:-4], heads, *out.shape[-2:]))


def _has_logs(query: Tensor, key: Tensor, value: Tensor, scale: float) -> bool:
    """True if a device keeps the logarithms for faster gradients: all tensors are plain arrays."""
    if not (query.__class__ in TENSOR_TYPES and key.__class__ in TENSOR_TYPES and value.__class__ in TENSOR_TYPES):
        return False
    arrays = query._array, key._array, value._array
    kernels = attention_kernels(*arrays, None)
    return kernels is not None and bool(kernels.keeps_logs(*arrays, scale))


def _check_broadcast(name: str, q: Sizes, k: Sizes, v: Sizes, mask: Sizes | None) -> None:
    if mask is None and q[:-2] == k[:-2] == v[:-2]:
        return
    try:
        lead = np.broadcast_shapes(q[:-2], k[:-2], v[:-2])
        fits = mask is None or np.broadcast_shapes(mask, (*lead, q[-2], k[-2]))[-2:] == (q[-2], k[-2])
    except ValueError:
        fits = False
    if not fits:
        with_mask = "" if mask is None else f" and a mask of shape {mask}"
        raise RuntimeError(
            f"{name}: shapes {q}, {k} and {v}{with_mask} do not fit: leading sizes are equal or 1, "
            "and a mask broadcasts to (..., queries, keys). Where key and value have fewer heads, use enable_gqa. "
            "[nd-shape]"
        )


def _grouped_heads(
    name: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, int]:
    """Return the query's heads as (heads of the key, heads per each); key and value get a dimension of size one there,
    without copies.
    """
    if min(len(t.shape) for t in (query, key, value)) < 3:
        raise RuntimeError(
            f"{name}: enable_gqa needs a dimension of heads: at least 3 dimensions in query, key and value. [nd-ndim]"
        )
    heads, shared = query.shape[-3], key.shape[-3]
    if value.shape[-3] != shared or not shared or heads % shared:
        raise RuntimeError(
            f"{name}: Number of heads in key and value must divide the number of heads in query, "
            f"but they are {shared}, {value.shape[-3]} and {heads}. [nd-divisible]"
        )
    each = heads // shared
    query = ops.reshape(query, shape=(*query.shape[:-3], shared, each, *query.shape[-2:]))
    key, value = (ops.unsqueeze(t, dim=len(t.shape) - 2) for t in (key, value))
    if mask is not None and len(mask.shape) > 2:
        split = (shared, each) if mask.shape[-3] == heads else (1, 1)
        mask = ops.reshape(mask, shape=(*mask.shape[:-3], *split, *mask.shape[-2:]))
    return query, key, value, mask, heads


# ----- several heads -------------------------------------------------------------------------------------------------


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention with several heads: project, split into heads, attend, join, project.

    `nn.MultiheadAttention` holds the weights. Masks are True (or -inf) for hidden keys, the opposite of
    `scaled_dot_product_attention`.

    Args:
        query: tensor of shape (L, N, E), or (L, E) for one sample.
        key: tensor of shape (S, N, K), or (S, K).
        value: tensor of shape (S, N, V), or (S, V).
        embed_dim_to_check: expected size of E.
        num_heads: number of heads, a divisor of E.
        in_proj_weight: weights of the projections of query, key and value, stacked to (3 E, E).
        in_proj_bias: biases of these projections, of shape (3 E,).
        bias_k, bias_v: rows of shape (1, 1, E) that are appended to projected keys and values.
        add_zero_attn: whether a key and a value of zeros are appended.
        dropout_p: probability that an attention weight is dropped in training.
        out_proj_weight: weight of the last projection, of shape (E, E).
        out_proj_bias: bias of the last projection.
        training: whether dropout is applied.
        key_padding_mask: mask of shape (N, S), or (S,), that hides keys of a sample.
        need_weights: whether attention weights are returned too. Without them the computation is faster.
        attn_mask: mask of shape (L, S), or (N * num_heads, L, S), that hides keys from queries or is added to the
            scores.
        use_separate_proj_weight: whether the next three weights are used instead of `in_proj_weight`.
        q_proj_weight, k_proj_weight, v_proj_weight: weights of shapes (E, E), (E, K) and (E, V).
        static_k, static_v: projected keys and values of shape (N * num_heads, S, E / num_heads), which replace the
            computed ones.
        average_attn_weights: whether returned weights are averaged over heads.
        is_causal: hint that `attn_mask` is causal; the mask itself must be given.

    Returns:
        The output, of the shape of `query`, and the weights or None. Weights have shape (N, L, S), or (N, num_heads, L,
        S) without averaging.

    >>> import ndgrad
    >>> x, e = ndgrad.ones(3, 4), ndgrad.eye(4)
    >>> out, weights = ndgrad.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 4, 2, ndgrad.cat([e, e, e]), None, None, None, False, 0.0, e, None)
    >>> out.shape, weights.shape
    (ndgrad.Size([3, 4]), ndgrad.Size([3, 3]))
    """
    name = "multi_head_attention_forward"
    batched = len(query.shape) == 3
    if not batched:
        query, key, value = (ops.unsqueeze(t, dim=1) for t in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else ops.unsqueeze(key_padding_mask, dim=0)
    length, batch, embed = query.shape
    if embed != embed_dim_to_check or embed % num_heads:
        raise AssertionError(
            f"{name}: was expecting embedding dimension of {embed_dim_to_check}, a multiple of num_heads "
            f"{num_heads}, but got {embed}. [nd-divisible]"
        )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            f"{name}: Need attn_mask if specifying the is_causal hint. Give the causal mask. [nd-arguments]"
        )
    head = embed // num_heads
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    extra, has_more = 0, bias_k is not None and bias_v is not None
    if has_more or static_k is not None or static_v is not None:
        q, k, v = _project_inputs(query, key, value, in_proj_weight, in_proj_bias, separate)
        if has_more:
            k = ops.cat(k, ops.expand(bias_k, shape=(1, batch, embed)), dim=0)
            v = ops.cat(v, ops.expand(bias_v, shape=(1, batch, embed)), dim=0)
            extra += 1
        q = _heads(q, num_heads)
        k, v = (
            _heads(t, num_heads) if given is None else ops.reshape(given, shape=(batch, num_heads, *given.shape[1:]))
            for t, given in ((k, static_k), (v, static_v))
        )
    else:
        q, k, v = _project_to_heads(query, key, value, in_proj_weight, in_proj_bias, separate, num_heads)
    if add_zero_attn:
        zeros = ops.zeros_like(ops.detach(ops.slice(k, dim=2, start=0, stop=1, step=1)))
        k, v = ops.cat(k, zeros, dim=2), ops.cat(v, zeros, dim=2)
        extra += 1
    mask = _join_masks(attn_mask, key_padding_mask, batch, num_heads, extra, np_dtype(q))
    rate = dropout_p if training else 0.0
    scale = 1.0 / math.sqrt(head)
    weights = None
    if need_weights:
        weights = attention_ops.attention_weights.eager(q, k, mask, is_causal=False, scale=scale)
        weights = dropout(weights, rate) if rate > 0.0 else weights
        out = ops.matmul(weights, v)
    else:
        out = scaled_dot_product_attention(q, k, v, mask, rate, scale=scale)
    out = ops.reshape(ops.permute(out, dims=(2, 0, 1, 3)), shape=(length, batch, embed))
    out = linear(out, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = ops.mean(weights, dim=(1,), keepdim=False)
    if batched:
        return out, weights
    return ops.squeeze_dim(out, dims=(1,)), None if weights is None else ops.squeeze_dim(weights, dims=(0,))


def _thirds(t: Tensor, dim: int) -> list[Tensor]:
    each = t.shape[dim] // 3
    return [ops.slice(t, dim=dim, start=i * each, stop=(i + 1) * each, step=1) for i in range(3)]


def _project_inputs(
    query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Tensor | None, separate: tuple[Any, Any, Any] | None
) -> list[Tensor]:
    """Return the projections of query, key and value, each by its third of the weight or by a weight of its own."""
    each = _thirds(weight, 0) if separate is None else separate
    biases = [None] * 3 if bias is None else _thirds(bias, 0)
    return [linear(t, w, b) for t, w, b in zip((query, key, value), each, biases, strict=True)]


def _project_to_heads(
    query: Tensor, key: Tensor, value: Tensor, weight: Any, bias: Tensor | None, separate: tuple[Any, Any, Any] | None,
    heads: int,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the projections of query, key and value as heads. Those of the same tensor are one product."""
    if separate is not None or key is not value:
        return tuple([_heads(t, heads) for t in _project_inputs(query, key, value, weight, bias, separate)])
    if query is key:
        return _split_heads(linear(query, weight, bias), 3, heads)
    embed = query.shape[2]

    def project(t: Tensor, first: int, last: int) -> Tensor:
        part = ops.slice(weight, dim=0, start=first, stop=last, step=1)
        return linear(t, part, None if bias is None else ops.slice(bias, dim=0, start=first, stop=last, step=1))

    return (_heads(project(query, 0, embed), heads), *_split_heads(project(key, embed, 3 * embed), 2, heads))


def _split_heads(t: Tensor, count: int, heads: int) -> tuple[Tensor, ...]:
    """Return the parts of (L, N, count E) as (N, heads, L, E / heads)."""
    length, batch, size = t.shape
    t = ops.reshape(t, shape=(length, batch, count, heads, size // (count * heads)))
    parts: tuple[Tensor, ...] = ops.unbind(ops.permute(t, dims=(2, 1, 3, 0, 4)), dim=0)
    return parts


def _heads(t: Tensor, heads: int) -> Tensor:
    """Reshape (L, N, E) to (N, heads, L, E / heads)."""
    length, batch, embed = t.shape
    return ops.permute(ops.reshape(t, shape=(length, batch, heads, embed // heads)), dims=(1, 2, 0, 3))


def _join_masks(
    attn_mask: Tensor | None, padding: Tensor | None, batch: int, heads: int, extra: int, dtype: np.dtype[Any]
) -> Tensor | None:
    """Return the sum of both masks, broadcast to (N, heads, L, S), to be added to the scores; None if there is
    neither.
    """
    parts = []
    if attn_mask is not None:
        mask = _additive(attn_mask, dtype)
        shape = tuple(mask.shape)
        if len(shape) == 3:
            mask = ops.reshape(
                mask, shape=(batch, heads, *shape[1:]) if shape[0] == batch * heads else (*shape[:1], 1, *shape[1:])
            )
        parts.append(mask)
    if padding is not None:
        mask = _additive(padding, dtype)
        parts.append(ops.reshape(mask, shape=(batch, 1, 1, mask.shape[-1])))
    if not parts:
        return None
    joined = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return (
        ops.constant_pad_nd(joined, pads=(*((0, 0),) * (len(joined.shape) - 1), (0, extra)), value=0.0)
        if extra
        else joined
    )


def _additive(mask: Tensor, dtype: np.dtype[Any]) -> Tensor:
    if np_dtype(mask).kind != "b":
        return mask
    return ops.cast(ops.where(mask, -math.inf, 0.0), dtype=dtype)
