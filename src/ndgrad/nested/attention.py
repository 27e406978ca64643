"""Attention over nested tensors: each sequence attends to itself, without padding.

Sequences of one length (one pair of lengths, if queries and keys differ) are one dense call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ndgrad
from ndgrad.nested.tensor import Batched, build, by_groups, described, handles, is_nested, layout_of, pack

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


@handles("scaled_dot_product_attention")
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
    """Apply attention to each component: `query` is (B, *, j, E), or has the ragged dimension among those of the
    batch.
    """
    function = ndgrad.nn.functional.scaled_dot_product_attention
    options: dict[str, Any] = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    tensors = (query, key, value)
    if attn_mask is not None:
        raise RuntimeError(
            f"scaled_dot_product_attention(): a mask beside nested tensors ({described(query)}) is not supported: "
            "sequences have no padding to be masked. Leave it out, use is_causal=True, or to_padded_tensor(0.0). "
            "[nd-nested]"
        )
    places = {t.ndim - layout_of(t).dim for t in tensors if is_nested(t)}
    dims = {t.ndim for t in tensors}
    if len(dims) != 1 or len({t.shape[0] for t in tensors}) != 1 or len(places) != 1 or 1 in places:
        _mismatch(*tensors)
    (place,) = places
    if place > 2:  # the ragged dimension is one of the batch
        if not all(map(is_nested, tensors)) or len({layout_of(t).size for t in tensors}) != 1:
            _mismatch(*tensors)
        return build(function(*(pack(t)[1] for t in tensors), **options), pack(query)[0])
    if is_nested(key) != is_nested(value) or (is_nested(key) and layout_of(key).size != layout_of(value).size):
        _mismatch(*tensors)
    operands = [t if is_nested(t) else Batched(t) for t in tensors]
    dim = layout_of(query).dim if is_nested(query) else None
    size = layout_of(query).size if is_nested(query) else None
    return by_groups("scaled_dot_product_attention", lambda q, k, v: function(q, k, v, **options), operands, dim, size)


def _mismatch(query: Tensor, key: Tensor, value: Tensor) -> None:
    raise RuntimeError(
        f"scaled_dot_product_attention(): query {described(query)}, key {described(key)} and value {described(value)} "
        "do not fit together. Each is (B, heads, sequence, size) with the sequence ragged, and keys and values have "
        "the same lengths. [nd-nested]"
    )
