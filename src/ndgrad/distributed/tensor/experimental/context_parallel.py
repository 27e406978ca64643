"""`context_parallel`: a block in which tensors hold this rank's part of a sequence, and attention is ring attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.functions.data import tensor as make_tensor
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed import ops
from ndgrad.distributed.device_mesh import DeviceMesh
from ndgrad.distributed.tensor.experimental.ring_attention import ring_attention, segments_of
from ndgrad.overrides import TorchFunctionMode


def _places(mesh: DeviceMesh, length: int) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the positions of the sequence on each rank."""
    count = mesh.size()
    if length % (2 * count):
        raise ValueError(
            f"context_parallel: a sequence of {length} cannot be cut into {2 * count} chunks of one length, two for "
            f"each of {count} ranks. Pad it to a multiple of {2 * count}. [nd-divisible]"
        )
    each = [length // count] * count
    return [
        np.concatenate([np.arange(start, start + n) for start, n in segments_of(r, count, each, True)])
        for r in range(count)
    ]


def _check(mesh: DeviceMesh, buffers: Sequence[Any], dims: Sequence[int]) -> None:
    if mesh.ndim != 1:
        raise ValueError(
            f"context_parallel: a sequence is divided along one dimension of a mesh, not {mesh!r}. Give one, by its "
            'name: mesh["sequence"]. [nd-dtensor]'
        )
    if len(buffers) != len(dims):
        raise ValueError(
            f"context_parallel: {len(buffers)} buffers, and {len(dims)} dimensions of sequences. [nd-shape]"
        )


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: Sequence[Any] | None = None,
    buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Any] | None = None,
) -> Iterator[None]:
    """Return a context in which each of `buffers` holds this rank's part along its sequence dimension, and
    `scaled_dot_product_attention` is ring attention over the mesh. Afterwards the buffers are restored, except those in
    `no_restore_buffers`.

    Rank r of n has chunks r and 2n - 1 - r of 2n, so that causal attention takes equally long on all ranks. Tensors
    that depend on positions (masks, positions, targets) must be among the buffers.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.experimental import context_parallel
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> x = ndgrad.ones(1, 2, 4, 8)
    >>> with context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]):
    ...     y = ndgrad.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    >>> y.shape
    ndgrad.Size([1, 2, 4, 8])
    >>> ndgrad.distributed.destroy_process_group()
    """
    given, dims = list(buffers or ()), list(buffer_seq_dims or ())
    _check(mesh, given, dims)
    keep = {id(b) for b in no_restore_buffers or ()}
    whole = [b.data for b in given]
    parts = [_part(mesh, b, dim) for b, dim in zip(given, dims, strict=True)]
    try:
        for b, part in zip(given, parts, strict=True):
            b.data = part
        with _RingInstead(mesh):
            yield
    finally:
        for b, values in zip(given, whole, strict=True):
            if id(b) not in keep:
                b.data = values


def _part(mesh: DeviceMesh, buffer: Any, dim: int) -> Any:
    if buffer.requires_grad and not buffer.is_leaf:
        raise ValueError(
            "context_parallel: a buffer was computed from tensors that require grad, and its part would not know. "
            "Compute it inside the block. [nd-drops-gradient]"
        )
    places = _places(mesh, buffer.shape[dim])[mesh.get_local_rank()]
    with no_grad():
        return buffer.detach().index_select(dim, make_tensor(places))


class _RingInstead(TorchFunctionMode):
    """A mode that replaces attention by ring attention."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.group = mesh.get_group()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            return self._attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        if attn_mask is not None or dropout_p:
            raise NotImplementedError(
                "context_parallel: attention with a mask or with dropout does not go round. Use is_causal, or attend "
                "outside the block. [nd-unsupported]"
            )
        return ring_attention(
            query,
            key,
            value,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
            group=self.group,
            load_balanced=True,
        )


def context_parallel_unshard(mesh: DeviceMesh, buffers: Sequence[Tensor], seq_dims: Sequence[int]) -> list[Tensor]:
    """Reassemble tensors that `context_parallel` has divided, on every rank; differentiable.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.experimental import context_parallel_unshard
    >>> ndgrad.distributed.init_process_group()
    >>> mesh = ndgrad.distributed.init_device_mesh("cpu", (1,))
    >>> context_parallel_unshard(mesh, [ndgrad.arange(4.0)], [0])
    [tensor([0., 1., 2., 3.])]
    >>> ndgrad.distributed.destroy_process_group()
    """
    _check(mesh, buffers, seq_dims)
    found = []
    for buffer, dim in zip(buffers, seq_dims, strict=True):
        joined = ops.all_gather(buffer, group=mesh.get_group(), dim=dim % buffer.ndim)
        places = np.concatenate(_places(mesh, joined.shape[dim]))
        found.append(joined.index_select(dim, make_tensor(np.argsort(places))))
    return found
