"""The Transformer (Vaswani et al., 2017).

Masks that are added to scores hold 0 and -inf, boolean ones are True for hidden keys. `is_causal` is a hint: the mask
decides.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad._src.core.grad_mode import is_grad_enabled
from ndgrad._src.foundations.devices import jagged
from ndgrad._src.tensor.functions.creation import arange, full
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad.nn import functional as F
from ndgrad.nn import init
from ndgrad.nn.modules.activation import GELU, ReLU
from ndgrad.nn.modules.attention import MultiheadAttention
from ndgrad.nn.modules.container import ModuleList
from ndgrad.nn.modules.dropout import Dropout
from ndgrad.nn.modules.linear import Linear
from ndgrad.nn.modules.module import Module
from ndgrad.nn.modules.normalization import LayerNorm

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip


# ----- layers ---------------------------------------------------------------------------------------------------------


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    """Return the function of a name. Libraries import this function of torch."""
    if activation == "relu" or activation == "gelu":
        return F.relu if activation == "relu" else F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}. [nd-option]")


def _activation(given: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return _get_activation_fn(given) if isinstance(given, str) else given


class _Layer(Module):
    """Base class of encoder and decoder layers: self-attention and a network of two linear layers, each with a residual
    connection.
    """

    #: True if the layer also attends to the output of an encoder.
    _across: ClassVar[bool]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
        if self._across:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        parts = range(1, 4 if self._across else 3)
        for n in parts:
            setattr(self, f"norm{n}", LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
        for n in parts:
            setattr(self, f"dropout{n}", Dropout(dropout))
        self.activation = _activation(activation)
        relu, gelu = (
            self.activation is f or isinstance(self.activation, kind) for f, kind in ((F.relu, ReLU), (F.gelu, GELU))
        )
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0  # read by torch's kernels, kept

    def _apply_with_residual(self, x: Tensor, number: int, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a part of the layer with its residual connection and norm: normalised before, or after the sum."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        return x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))

    def _attend(
        self,
        attention: MultiheadAttention,
        memory: Tensor | None,
        mask: Tensor | None,
        padding: Tensor | None,
        causal: bool,
    ) -> Callable[[Tensor], Tensor]:
        """Return attention to the memory, or to the input itself if that is None, as a function of the queries."""

        def attend(x: Tensor) -> Tensor:
            seen = x if memory is None else memory
            return attention(
                x, seen, seen, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=causal
            )[0]

        return attend

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "activation" not in self.__dict__ and "activation" not in self._modules:
            self.activation = F.relu


class TransformerEncoderLayer(_Layer):
    """Self-attention, then two linear layers, each with a residual connection.

    Args:
        d_model: number E of features.
        nhead: number of heads, a divisor of `d_model`.
        dim_feedforward: number of features between the two linear layers.
        dropout: probability that an element is dropped in training.
        activation: `"relu"`, `"gelu"` or a function, between the two linear layers.
        layer_norm_eps: number added to variances by the norms.
        batch_first: whether the first dimension is the batch. Otherwise it is time.
        norm_first: whether the input of each part is normalised. Otherwise the sum after it is.
        bias: whether linear layers and norms have biases.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> layer = ndgrad.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(ndgrad.zeros(3, 5, 8)).shape
    ndgrad.Size([3, 5, 8])
    """

    _across = False

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Apply the layer.

        Args:
            src: tensor of shape (S, N, E), (N, S, E) with `batch_first`, or (S, E) for one sample.
            src_mask: mask of shape (S, S), or (N * nhead, S, S). True hides a key from a query; numbers are added to
                the scores.
            src_key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a position of `src`.
            is_causal: hint that `src_mask` is causal; the mask itself must be given.
        """
        attend = self._attend(self.self_attn, None, src_mask, src_key_padding_mask, is_causal)
        return self._apply_with_residual(self._apply_with_residual(src, 1, attend), 2, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, then two linear layers, each with a residual connection.

    Args:
        d_model: number E of features.
        nhead: number of heads, a divisor of `d_model`.
        dim_feedforward: number of features between the two linear layers.
        dropout: probability that an element is dropped in training.
        activation: `"relu"`, `"gelu"` or a function, between the two linear layers.
        layer_norm_eps: number added to variances by the norms.
        batch_first: whether the first dimension is the batch. Otherwise it is time.
        norm_first: whether the input of each part is normalised. Otherwise the sum after it is.
        bias: whether linear layers and norms have biases.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> layer = ndgrad.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(ndgrad.zeros(3, 4, 8), ndgrad.zeros(3, 5, 8)).shape
    ndgrad.Size([3, 4, 8])
    """

    _across = True

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Apply the layer.

        Args:
            tgt: tensor of shape (T, N, E), (N, T, E) with `batch_first`, or (T, E) for one sample.
            memory: output of the encoder, of shape (S, N, E), (N, S, E) with `batch_first`, or (S, E).
            tgt_mask: mask of shape (T, T), or (N * nhead, T, T). True hides a key from a query; numbers are added to
                the scores.
            memory_mask: mask of shape (T, S), or (N * nhead, T, S), for attention to the memory.
            tgt_key_padding_mask: mask of shape (N, T), or (T,). True or -inf hides a position of `tgt`.
            memory_key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a position of the memory.
            tgt_is_causal, memory_is_causal: hints that the masks are causal; the masks themselves must be given.
        """
        attend = self._attend(self.self_attn, None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        look = self._attend(self.multihead_attn, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        return self._apply_with_residual(
            self._apply_with_residual(self._apply_with_residual(tgt, 1, attend), 2, look), 3, self._feed_forward
        )


# ----- stacks of layers -----------------------------------------------------------------------------------------------


def _copies(layer: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


class TransformerEncoder(Module):
    """A stack of copies of an encoder layer, and a norm.

    Args:
        encoder_layer: layer that is copied.
        num_layers: number of copies.
        norm: module applied at the end.
        enable_nested_tensor: whether padding is left out of the computation in inference, if layers and masks allow it.
            Padding of the result is then zero.
        mask_check: accepted as in torch; has no effect here, because masks are always checked.

    >>> import ndgrad
    >>> layer = ndgrad.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)
    >>> ndgrad.nn.TransformerEncoder(layer, num_layers=2)(ndgrad.zeros(5, 3, 8)).shape
    ndgrad.Size([5, 3, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Apply all layers.

        Args:
            src: tensor of shape (S, N, E), (N, S, E) with `batch_first`, or (S, E) for one sample.
            mask: mask of shape (S, S), or (N * nhead, S, S). True hides a key from a query; numbers are added to the
                scores.
            src_key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a position of `src`.
            is_causal: hint that `mask` is causal; the mask itself must be given.
        """
        causal = bool(is_causal) and (mask is not None or src.is_nested)
        width = src.shape[1] if src.dim() == 3 else 0
        packed = empty = None
        if src_key_padding_mask is not None and self._leaves_padding_out(src, mask, src_key_padding_mask):
            if isinstance(src_key_padding_mask._array, np.ndarray) and isinstance(src._array, np.ndarray):
                packed = _without_padding(src, src_key_padding_mask)
            else:  # batched, traced, or on a device: the same result without reading the mask
                empty = _padding_at_ends(src_key_padding_mask)
        if packed is not None:
            src, src_key_padding_mask = packed, None
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        if packed is not None:
            src = src.to_padded_tensor(0.0, (src.shape[0], width, src.shape[2]))
        elif empty is not None:
            src = src.masked_fill(empty.unsqueeze(-1), 0.0)
        return src if self.norm is None else self.norm(src)

    def _leaves_padding_out(self, src: Tensor, mask: Tensor | None, padding: Tensor) -> bool:
        """True if torch computes with a nested tensor, as in inference. Padding at the ends is then zero."""
        first = self.layers[0] if len(self.layers) else None
        return not (
            not self.enable_nested_tensor
            or mask is not None
            or src.is_nested
            or src.dim() != 3
            or not isinstance(first, TransformerEncoderLayer)
            or first.training
            or first.norm_first
            or first.activation_relu_or_gelu == 0
            or first.self_attn.in_proj_bias is None
            or not first.self_attn.batch_first
            or first.self_attn.num_heads % 2
            or tuple(padding.shape) != tuple(src.shape[:2])
            or (is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in self.parameters())))
        )


def _without_padding(src: Tensor, padding: Tensor) -> Tensor | None:
    """Return the sequences as a nested tensor, or None if the padding is not at the ends or the mask changes scores."""
    empty = _padding_at_ends(padding)
    hidden = empty._array
    if not hidden.any() and bool((padding != 0).any()):
        return None
    from ndgrad.nested import narrow  # loaded only for nested tensors

    return narrow(src, 1, 0, as_tensor((~hidden).sum(axis=1)), layout=jagged).contiguous()


def _padding_at_ends(padding: Tensor) -> Tensor:
    """Return a mask of padding; all False if it is not at the ends, or if the mask changes scores."""
    hidden: Any = padding
    excludes: Any = True
    if padding.is_floating_point():
        hidden = padding.isneginf()
        excludes = (hidden | (padding == 0)).all()
    lengths = (~hidden).sum(1, keepdim=True)
    places = arange(padding.shape[1], device=padding.device)
    return hidden & (hidden == (places >= lengths)).all() & excludes


class TransformerDecoder(Module):
    """A stack of copies of a decoder layer, and a norm.

    Args:
        decoder_layer: layer that is copied.
        num_layers: number of copies.
        norm: module applied at the end.

    >>> import ndgrad
    >>> layer = ndgrad.nn.TransformerDecoderLayer(8, 2, dim_feedforward=16)
    >>> ndgrad.nn.TransformerDecoder(layer, num_layers=2)(ndgrad.zeros(4, 3, 8), ndgrad.zeros(5, 3, 8)).shape
    ndgrad.Size([4, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Apply all layers.

        Args:
            tgt: tensor of shape (T, N, E), (N, T, E) with `batch_first`, or (T, E) for one sample.
            memory: output of the encoder, of shape (S, N, E), (N, S, E) with `batch_first`, or (S, E).
            tgt_mask: mask of shape (T, T), or (N * nhead, T, T). True hides a key from a query; numbers are added to
                the scores.
            memory_mask: mask of shape (T, S), or (N * nhead, T, S), for attention to the memory.
            tgt_key_padding_mask: mask of shape (N, T), or (T,). True or -inf hides a position of `tgt`.
            memory_key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a position of the memory.
            tgt_is_causal, memory_is_causal: hints that the masks are causal; the masks themselves must be given.
        """
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal) and tgt_mask is not None,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder, and a decoder that attends to its output (Vaswani et al., 2017).

    Args:
        d_model: number E of features.
        nhead: number of heads, a divisor of `d_model`.
        num_encoder_layers: number of layers of the encoder.
        num_decoder_layers: number of layers of the decoder.
        dim_feedforward: number of features between the two linear layers.
        dropout: probability that an element is dropped in training.
        activation: `"relu"`, `"gelu"` or a function, between the two linear layers.
        custom_encoder, custom_decoder: modules that replace the encoder and the decoder.
        layer_norm_eps: number added to variances by the norms.
        batch_first: whether the first dimension is the batch. Otherwise it is time.
        norm_first: whether the input of each part is normalised. Otherwise the sum after it is.
        bias: whether linear layers and norms have biases.
        device: device of the parameters.
        dtype: dtype of the parameters.

    >>> import ndgrad
    >>> model = ndgrad.nn.Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(ndgrad.zeros(5, 3, 8), ndgrad.zeros(4, 3, 8)).shape
    ndgrad.Size([4, 3, 8])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        super().__init__()
        settings = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device,
            dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is not None:
            self.encoder: Module = custom_encoder
        else:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norm())
        if custom_decoder is not None:
            self.decoder: Module = custom_decoder
        else:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norm())
        for weight in self.parameters():
            if weight.dim() > 1:
                init.xavier_uniform_(weight)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Return the decoder's output for a source and a target.

        Args:
            src: tensor of shape (S, N, E), (N, S, E) with `batch_first`, or (S, E) for one sample.
            tgt: tensor of shape (T, N, E), (N, T, E) with `batch_first`, or (T, E) for one sample.
            src_mask: mask of shape (S, S), or (N * nhead, S, S). True hides a key from a query; numbers are added to
                the scores.
            tgt_mask: mask of shape (T, T), or (N * nhead, T, T). True hides a key from a query; numbers are added to
                the scores.
            memory_mask: mask of shape (T, S), or (N * nhead, T, S), for attention to the memory.
            src_key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a position of `src`.
            tgt_key_padding_mask: mask of shape (N, T), or (T,). True or -inf hides a position of `tgt`.
            memory_key_padding_mask: mask of shape (N, S), or (S,). True or -inf hides a position of the memory.
            src_is_causal, tgt_is_causal, memory_is_causal: hints that the masks are causal; the masks themselves must
                be given.

        Returns:
            A tensor of the shape of `tgt`.
        """
        if src.dim() == 3 and src.shape[0 if self.batch_first else 1] != tgt.shape[0 if self.batch_first else 1]:
            raise RuntimeError(
                f"src and tgt must have batches of one size; their shapes are {tuple(src.shape)} "
                f"and {tuple(tgt.shape)}. [nd-shape]"
            )
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"src and tgt must have d_model features, {self.d_model}, but have {src.shape[-1]} and "
                f"{tgt.shape[-1]}. [nd-shape]"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: Dtype = None) -> Tensor:
        """Return the causal mask: -inf above the diagonal, 0 elsewhere.

        Args:
            sz: number of queries and keys.
            device: device of the result.
            dtype: dtype of the result.

        >>> import ndgrad
        >>> ndgrad.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        return full((sz, sz), float("-inf"), dtype=dtype, device=device).triu(1)
