"""Attention with user functions that change the scores and select pairs.

Both functions take single numbers, (score, batch, head, query, key) and (batch, head, query, key). vmap runs them on
all elements at once. All scores are computed: a `BlockMask` selects pairs, but saves no work here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ndgrad._src.arrays.dtypes import bool_, int32
from ndgrad._src.tensor.functions.creation import arange, full
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad._src.transforms.transforms import vmap

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip

MaskMod = Callable[[Any, Any, Any, Any], Any]
ScoreMod = Callable[[Any, Any, Any, Any, Any], Any]
#: Side of the blocks of a mask, under the name that libraries import.
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Additional results to request from `flex_attention`.

    Args:
        lse: whether logarithms of the sums of exponentials are returned.
        max_scores: whether the largest scores are returned.
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Additional results of `flex_attention`.

    Args:
        lse: logarithms of the sums of exponentials, of shape (B, H, L), or None.
        max_scores: largest score of each query, of shape (B, H, L), or None.
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def _evaluate_on_grid(
    f: Callable[..., Any], sizes: tuple[int, int, int, int], scores: Tensor | None, device: Any
) -> Tensor:
    """Run a function of single numbers on all batches, heads, queries and keys."""
    first: tuple[Any, ...] = () if scores is None else (0,)
    for place in (3, 2, 1, 0):
        f = vmap(f, in_dims=(*first, *(0 if n == place else None for n in range(4))))
    places = [arange(n, device=device) for n in sizes]
    return f(*places) if scores is None else f(scores, *places)


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """Keep all pairs: every query sees every key.

    Args:
        batch, head, token_q, token_kv: numbers of a pair.

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import create_mask, noop_mask
    >>> bool(create_mask(noop_mask, None, None, 2, 3).all())
    True
    """
    return batch.new_ones((), dtype=bool_)


def _callable(mods: tuple[Any, ...]) -> None:
    if not all(callable(mod) for mod in mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mods} [nd-type]")


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the mask of pairs that all masks keep.

    Args:
        *mask_mods: functions of batch, head, query and key.

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import and_masks, create_mask
    >>> mask = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)
    >>> create_mask(mask, None, None, 3, 3).sum().item()
    5
    """
    _callable(mask_mods)

    def both(b: Any, h: Any, q: Any, k: Any) -> Any:
        result = b.new_ones((), dtype=bool_)
        for mod in mask_mods:
            result = result & mod(b, h, q, k)
        return result

    return both


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the mask of pairs that any mask keeps.

    Args:
        *mask_mods: functions of batch, head, query and key.

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import create_mask, or_masks
    >>> mask = or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k == 0)
    >>> create_mask(mask, None, None, 3, 3).sum().item()
    5
    """
    _callable(mask_mods)

    def either(b: Any, h: Any, q: Any, k: Any) -> Any:
        result = b.new_zeros((), dtype=bool_)
        for mod in mask_mods:
            result = result | mod(b, h, q, k)
        return result

    return either


def create_mask(
    mod_fn: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """Return the values of a mask function for all pairs.

    Args:
        mod_fn: function of batch, head, query and key, that returns True for visible pairs.
        B: number of batches. None counts as 1.
        H: number of heads. None counts as 1.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: device of the mask.

    Returns:
        A tensor of shape (B, H, Q_LEN, KV_LEN).

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)[0, 0]
    tensor([[ True, False],
            [ True,  True]])
    """
    return _evaluate_on_grid(mod_fn, (B or 1, H or 1, Q_LEN, KV_LEN), None, device)


class BlockMask:
    """A selection of query-key pairs, as a function, and the list of blocks that contain any.

    Args:
        mask_mod: function of batch, head, query and key, that returns True for visible pairs.
        mask: values of the function, of shape (B, H, queries, keys).
        block_size: numbers of queries and keys in a block.

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2)
    >>> mask.shape, mask.sparsity(), mask.to_dense()[0, 0]
    ((1, 1, 4, 4), 25.0, tensor([[1, 0],
            [1, 1]], dtype=ndgrad.int32))
    """

    def __init__(self, mask_mod: MaskMod, mask: Tensor, block_size: tuple[int, int]) -> None:
        self.mask_mod = mask_mod
        self.BLOCK_SIZE = block_size
        self.shape: tuple[int, ...] = tuple(mask.shape)
        self.seq_lengths = self.shape[-2:]
        batch, heads, queries, keys = mask.shape
        rows, columns = (-(-n // size) for n, size in zip((queries, keys), block_size, strict=True))
        whole = full((batch, heads, rows * block_size[0], columns * block_size[1]), False, device=mask.device)
        whole[:, :, :queries, :keys] = mask
        blocks = whole.reshape(batch, heads, rows, block_size[0], columns, block_size[1])
        some, every = blocks.any(5).any(3), blocks.all(5).all(3)
        self.kv_num_blocks, self.kv_indices = _list_blocks(some & ~every)
        self.full_kv_num_blocks, self.full_kv_indices = _list_blocks(every)
        self._blocks = some

    def to_dense(self) -> Tensor:
        """Return blocks (B, H, rows, columns): 1 for blocks with any pair."""
        return self._blocks.to(int32)

    def numel(self) -> int:
        """Return the total number of pairs."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of pairs in empty blocks."""
        counted = int(self._blocks.sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - counted / self.numel())

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, BLOCK_SIZE={self.BLOCK_SIZE})"


def _list_blocks(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of nonempty blocks in each row, and the column indices with those of nonempty blocks first."""
    present = blocks.to(int32)
    return present.sum(-1).to(int32), (-present).argsort(dim=-1, stable=True).to(int32)


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """Return the pairs that a mask function keeps, for `flex_attention`.

    Args:
        mask_mod: function of batch, head, query and key, that returns True for visible pairs.
        B: number of batches. None counts as 1.
        H: number of heads. None counts as 1.
        Q_LEN: number of queries.
        KV_LEN: number of keys.
        device: device of the mask.
        BLOCK_SIZE: size of blocks, one number or (queries, keys).

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 3, 3)
    >>> q = ndgrad.randn(1, 2, 3, 4)
    >>> out = flex_attention(q, q, q, block_mask=mask)
    >>> bool((out[:, :, 0] == q[:, :, 0]).all())
    True
    """
    _callable((mask_mod,))
    sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(mask_mod, create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), (sizes[0], sizes[1]))


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Compute attention with user functions that change scores and select pairs.

    A query that sees no key gets zeros.

    Args:
        query: tensor of shape (B, H, L, E).
        key: tensor of shape (B, H, S, E).
        value: tensor of shape (B, H, S, F).
        score_mod: function of score, batch, head, query and key that returns the changed score.
        block_mask: selection of visible pairs, from `create_block_mask`.
        scale: factor of the scores. The default is 1 / sqrt(E).
        enable_gqa: whether key and value may have fewer heads, each for several neighbouring heads of the query.
        return_lse: whether logarithms of the sums of exponentials, of shape (B, H, L), are returned too.
        kernel_options: accepted as in torch; have no effect.
        return_aux: request of further results, in place of `return_lse`.

    Returns:
        A tensor of shape (B, H, L, F), or a pair of it and the further results.

    >>> import ndgrad
    >>> from ndgrad.nn.attention.flex_attention import flex_attention
    >>> q = ndgrad.randn(1, 2, 3, 4)
    >>> nearer = flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score - (i - j).abs())
    >>> nearer.shape
    ndgrad.Size([1, 2, 3, 4])
    """
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError(
            "NYI: query, key, and value must be 4D tensors: their shapes are "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}. [nd-ndim]"
        )
    heads, others = query.shape[1], key.shape[1]
    if heads != others:
        if not enable_gqa:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={others}. Try "
                "setting enable_gqa=True for GQA. [nd-shape]"
            )
        if heads % others:
            raise ValueError(
                f"Expect the number of query heads to be a multiple of kv heads: {heads} and {others}. [nd-shape]"
            )
        key, value = (t.repeat_interleave(heads // others, dim=1) for t in (key, value))
    scores = (query @ key.mT) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    batch, _, queries, keys = scores.shape
    if score_mod is not None:
        scores = _evaluate_on_grid(score_mod, (batch, heads, queries, keys), scores, query.device)
    if block_mask is not None:
        if block_mask.shape[-2] < queries or block_mask.shape[-1] < keys:
            raise ValueError(
                f"block_mask was made for {block_mask.shape[-2:]} queries and keys, but there are {(queries, keys)}. "
                "Make it for these lengths. [nd-shape]"
            )
        sizes = (block_mask.shape[0], block_mask.shape[1], queries, keys)
        scores = scores.masked_fill(~_evaluate_on_grid(block_mask.mask_mod, sizes, None, query.device), -math.inf)
    lse = scores.logsumexp(-1)
    nothing = (lse == -math.inf).unsqueeze(-1)
    weights = (scores - lse.masked_fill(nothing.squeeze(-1), 0.0).unsqueeze(-1)).exp()
    out = (weights.masked_fill(nothing, 0.0) @ value).to(query.dtype)
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
