"""Attention with several heads.

Masks that are added to scores hold 0 and -inf, boolean ones are True for hidden keys. `is_causal` is a hint: the mask
decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.linear import NonDynamicallyQuantizableLinear
from ndgrad.nn.modules.module import Module, new_parameter
from ndgrad.nn.parameter import Parameter

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Multi-head attention: each query gets a weighted mean of the values in each head, followed by a linear map.

    Args:
        embed_dim: number E of features of queries and results.
        num_heads: number of heads, a divisor of `embed_dim`.
        dropout: probability that an attention weight is dropped in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned key and a learned value are appended.
        add_zero_attn: whether a key and a value of zeros are appended.
        kdim, vdim: numbers of features of keys and values. The default is `embed_dim`.
        batch_first: whether the first dimension is the batch. Otherwise it is time.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> attention = ndgrad.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = ndgrad.zeros(3, 5, 8)
    >>> out, weights = attention(x, x, x)
    >>> out.shape, weights.shape
    (ndgrad.Size([3, 5, 8]), ndgrad.Size([3, 5, 5]))
    """

    # Parameters that the settings leave out are None.
    in_proj_weight: Parameter
    in_proj_bias: Parameter
    q_proj_weight: Parameter
    k_proj_weight: Parameter
    v_proj_weight: Parameter
    bias_k: Parameter
    bias_v: Parameter

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be positive, but are {embed_dim} and {num_heads}. [nd-range]"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(
                f"embed_dim must be divisible by num_heads: {embed_dim} is not by {num_heads}. [nd-divisible]"
            )

        def weight(wanted: bool, *shape: int) -> Parameter | None:
            return new_parameter(*shape, device=device, dtype=dtype) if wanted else None

        same = self._qkv_same_embed_dim
        self.register_parameter("q_proj_weight", weight(not same, embed_dim, embed_dim))
        self.register_parameter("k_proj_weight", weight(not same, embed_dim, self.kdim))
        self.register_parameter("v_proj_weight", weight(not same, embed_dim, self.vdim))
        self.register_parameter("in_proj_weight", weight(same, 3 * embed_dim, embed_dim))
        self.register_parameter("in_proj_bias", weight(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        self.register_parameter("bias_k", weight(add_bias_kv, 1, 1, embed_dim))
        self.register_parameter("bias_v", weight(add_bias_kv, 1, 1, embed_dim))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the results of attention, and the weights.

        Args:
            query: tensor of shape (L, N, E), (N, L, E) with `batch_first`, or (L, E) for one sample; or a nested
                tensor.
            key: tensor of shape (S, N, kdim), (N, S, kdim) with `batch_first`, or (S, kdim).
            value: tensor of shape (S, N, vdim), (N, S, vdim) with `batch_first`, or (S, vdim).
            key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a key of a sample.
            need_weights: whether attention weights are returned too. Without them the computation is faster.
            attn_mask: mask of shape (L, S) or (N * num_heads, L, S). True hides a key from a query; numbers are added
                to the scores.
            average_attn_weights: whether returned weights are averaged over heads.
            is_causal: hint that `attn_mask` is causal; the mask itself must be given.

        Returns:
            The output, of the shape of `query`, and the weights or None. Weights have shape (N, L, S), or (N,
            num_heads, L, S) without averaging.
        """
        if query.is_nested:
            return self._attend_within_sequences(
                query, key, value, key_padding_mask, need_weights, attn_mask, is_causal
            ), None
        self._check(query, key, value, key_padding_mask, attn_mask)
        batched = query.dim() == 3
        if self.batch_first and batched:
            moved = {id(t): t.transpose(0, 1) for t in (query, key, value)}  # the same tensor stays the same
            query, key, value = moved[id(query)], moved[id(key)], moved[id(value)]
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if self.batch_first and batched else out), weights

    def _attend_within_sequences(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        need_weights: bool,
        attn_mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        """Apply attention to nested tensors (batch, sequence, embedding): each sequence attends to itself."""
        asked = {
            "batch_first=False": not self.batch_first,
            "need_weights=True": need_weights,
            "key_padding_mask": key_padding_mask is not None,
            "attn_mask": attn_mask is not None,
            "add_bias_kv": self.bias_k is not None,
            "add_zero_attn": self.add_zero_attn,
        }
        if any(asked.values()) or not (key.is_nested and value.is_nested):
            what = ", ".join(name for name, given in asked.items() if given) or "dense keys or values"
            raise AssertionError(
                f"MultiheadAttention does not support NestedTensor (query {tuple(query.shape)}) with {what}: sequences "
                "have no padding, and their weights have no common size. Make it with batch_first=True and call it "
                "with nested query, key and value, need_weights=False, and is_causal=True for a causal mask; or use "
                "to_padded_tensor(0.0). [nd-nested]"
            )
        if self._qkv_same_embed_dim:
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(t, w, b).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for t, w, b in zip((query, key, value), weights, biases, strict=True)
        )
        dropout = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=is_causal)
        return self.out_proj(out.transpose(1, 2).flatten(-2))

    def _check(self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None) -> None:
        dims = query.dim()
        if dims not in (2, 3):
            raise AssertionError(
                f"query must have 3 dimensions, or 2 without a batch; its shape is {tuple(query.shape)}. [nd-ndim]"
            )
        if key.dim() != dims or value.dim() != dims:
            raise AssertionError(
                f"query, key and value must have as many dimensions, but have {dims}, {key.dim()} and {value.dim()}. "
                "[nd-ndim]"
            )
        time, samples = (1, 0) if self.batch_first and dims == 3 else (0, 1)
        length, sources = query.shape[time], key.shape[time]
        if padding is not None:
            wanted = (query.shape[samples], sources) if dims == 3 else (sources,)
            if tuple(padding.shape) != wanted:
                raise AssertionError(
                    f"key_padding_mask must have shape {wanted}, but has {tuple(padding.shape)}. [nd-shape]"
                )
        if mask is not None:
            heads = self.num_heads * (query.shape[samples] if dims == 3 else 1)
            if tuple(mask.shape) not in ((length, sources), (heads, length, sources)):
                raise RuntimeError(
                    f"attn_mask must have shape {(length, sources)} or {(heads, length, sources)}, "
                    f"but has {tuple(mask.shape)}. [nd-shape]"
                )
