"""Division of a batch into micro-batches, and concatenation of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.tensor.functions.join import cat
from ndgrad._src.tensor.tensor_class import Tensor

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """The dimension along which a tensor is divided into micro-batches, or along which results are concatenated.

    Args:
        split_dim: dimension.

    >>> from ndgrad.distributed.pipelining.microbatch import TensorChunkSpec
    >>> TensorChunkSpec.from_tuple((0, 1))
    (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = int(split_dim)

    @staticmethod
    def from_tuple(chunk_dims: Sequence[int]) -> tuple[TensorChunkSpec, ...]:
        """Return a spec for each positional argument.

        Args:
            chunk_dims: dimension of each argument.
        """
        return tuple(TensorChunkSpec(dim) for dim in chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> dict[str, TensorChunkSpec]:
        """Return a spec for each keyword argument.

        Args:
            chunk_dims: dimension of each argument by name.
        """
        return {name: TensorChunkSpec(dim) for name, dim in chunk_dims.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorChunkSpec) and other.split_dim == self.split_dim

    def __hash__(self) -> int:
        return hash((TensorChunkSpec, self.split_dim))

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"


def _is_spec(value: object) -> bool:
    return value is None or isinstance(value, TensorChunkSpec)


def _specs_for(values: Any, spec: Any, what: str) -> tuple[list[Any], list[Any], Any]:
    """Return the leaves of values, the spec of each, and the structure. One spec stands for all leaves below it."""
    leaves, structure = tree_flatten(values)
    if spec is None:
        return leaves, [TensorChunkSpec(0)] * len(leaves), structure
    if _is_spec(spec):
        return leaves, [spec] * len(leaves), structure
    named = isinstance(values, dict)
    if len(spec) != len(values) or named != isinstance(spec, dict) or (named and set(spec) != set(values)):
        raise ValueError(f"{what}: {len(values)} values, and the spec is {spec}. [nd-arguments]")
    given = [spec[k] for k in values] if named else list(spec)
    parts = list(values.values()) if named else list(values)
    found: list[Any] = []
    for part, one in zip(parts, given, strict=True):
        count = len(tree_flatten(part)[0])
        found += [one] * count if _is_spec(one) else _specs_for(part, one, what)[1]
    return leaves, found, structure


def _divide(value: Any, spec: TensorChunkSpec | None, count: int) -> list[Any]:
    if spec is None or not isinstance(value, Tensor) or value.ndim == 0:
        return [value] * count
    dim = spec.split_dim
    if not -value.ndim <= dim < value.ndim:
        raise IndexError(f"{spec}: the tensor has shape {tuple(value.shape)}. [nd-dim]")
    size = value.shape[dim]
    if size % count:
        raise ValueError(
            f"a batch of {size} cannot be divided into {count} micro-batches of one size, and a mean over parts of "
            f"different sizes is not the mean. Give a batch whose size is a multiple of {count}. [nd-divisible]"
        )
    return list(value.split(size // count, dim)) if size else [value] * count


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: Any = None,
    kwargs_chunk_spec: Any = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Divide arguments into micro-batches of one size. Values that are not tensors are the same in all of them.

    Args:
        args: positional arguments.
        kwargs: keyword arguments.
        chunks: number of micro-batches.
        args_chunk_spec: `TensorChunkSpec` of each positional argument, or None for one that is not divided. By default
            tensors are divided along their first dimension.
        kwargs_chunk_spec: the same by name.

    Returns:
        The positional arguments and the keyword arguments of each micro-batch.

    >>> from ndgrad.distributed.pipelining.microbatch import split_args_kwargs_into_chunks
    >>> split_args_kwargs_into_chunks((ndgrad.ones(4), 3), {}, 2)
    ([(tensor([1., 1.]), 3), (tensor([1., 1.]), 3)], [{}, {}])
    """
    divided = []
    given = (args, args_chunk_spec, "args_chunk_spec"), (kwargs or {}, kwargs_chunk_spec, "kwargs_chunk_spec")
    for values, spec, what in given:
        leaves, specs, structure = _specs_for(values, spec, what)
        parts = [_divide(value, one, chunks) for value, one in zip(leaves, specs, strict=True)]
        divided.append([tree_unflatten([part[i] for part in parts], structure) for i in range(chunks)])
    return divided[0], divided[1]


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """Concatenate the values of micro-batches.

    Args:
        chunks: values of each micro-batch, of one structure.
        chunk_spec: `TensorChunkSpec` of each value, or None for one that is the same in all micro-batches. By default
            tensors are concatenated along their first dimension.

    >>> from ndgrad.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks
    >>> merge_chunks([ndgrad.ones(1), ndgrad.zeros(2)], TensorChunkSpec(0))
    tensor([1., 0., 0.])
    """
    if not chunks:
        raise ValueError("merge_chunks: there are no micro-batches. [nd-arguments]")
    _, specs, structure = _specs_for(chunks[0], chunk_spec, "chunk_spec")
    columns = zip(*(tree_flatten(chunk)[0] for chunk in chunks), strict=True)
    merged = []
    for column, spec in zip(columns, specs, strict=True):
        first = column[0]
        joins = spec is not None and isinstance(first, Tensor) and first.ndim > 0
        merged.append(cat(list(column), spec.split_dim) if joins else first)
    return tree_unflatten(merged, structure)


_refuse_absent(__name__)
