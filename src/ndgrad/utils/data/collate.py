"""Batches from samples: tensors of equal shape are stacked, numbers become tensors, structures are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ndgrad._src.arrays.dtypes import float64
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.data import as_tensor, tensor
from ndgrad._src.tensor.functions.join import stack
from ndgrad._src.tensor.tensor_class import Tensor

#: Type codes of arrays without numbers, which cannot become tensors. Libraries import it.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
#: Start of the error for a sample that cannot be in a batch.
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """Convert the arrays of a sample to tensors; other values are unchanged.

    Args:
        data: sample, which may be a container.

    >>> import numpy as np
    >>> default_convert({"x": np.zeros(2), "name": "a"})
    {'x': tensor([0., 0.], dtype=ndgrad.float64), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return as_tensor(data) if data.dtype.kind in "biufcV" else data
    if isinstance(data, (Variable, str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _same_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    return _same_sequence(data, [default_convert(v) for v in data]) if isinstance(data, Sequence) else data


def default_collate(batch: Sequence[Any]) -> Any:
    """Return a batch of samples.

    Tensors and arrays of equal shape are stacked, numbers become a tensor (floats in float64), strings are unchanged.
    Mappings, named tuples and sequences become containers of batches.

    Args:
        batch: samples of one structure.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return a batch of samples, made by functions for single classes of samples.

    Args:
        batch: samples of one structure.
        collate_fn_map: function for each class, or tuple of classes, of samples: `f(batch, *, collate_fn_map)`.
            Containers of other classes are batched item by item.

    >>> from ndgrad.utils.data.collate import collate, default_collate_fn_map
    >>> join = {str: lambda batch, *, collate_fn_map=None: "".join(batch)}
    >>> collate([(1, "a"), (2, "b")], collate_fn_map=default_collate_fn_map | join)
    [tensor([1, 2]), 'ab']
    """
    first = batch[0]
    if collate_fn_map is not None:
        made = collate_fn_map.get(type(first))
        if made is None:
            made = next((make for kind, make in collate_fn_map.items() if isinstance(first, kind)), None)
        if made is not None:
            return made(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _same_mapping(first, columns)
    if isinstance(first, Sequence):
        sizes = {len(sample) for sample in batch}
        if len(sizes) > 1:
            raise RuntimeError(
                "default_collate: each element in list of batch should be of equal size, "
                f"but there are {sorted(sizes)}. Give a collate_fn that pads them, or keeps them apart. [nd-loader]"
            )
        parts = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)]
        if _is_named_tuple(first):
            return type(first)(*parts)
        return parts if isinstance(first, tuple) else _same_sequence(first, parts)
    raise TypeError(_refusal_text(first, ""))


def _stack_tensors(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    return _stack(batch)


def _stack_arrays(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    if batch[0].dtype.kind not in "biufcV":
        raise TypeError(_refusal_text(batch[0], f" of dtype {batch[0].dtype}"))
    return _stack([as_tensor(sample) for sample in batch])


def _join_floats(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    return tensor(list(batch), dtype=float64)


def _join_integers(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    return tensor(list(batch))


def _keep(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    return batch


CollateMap: TypeAlias = dict[Any, Callable[..., Any]]
#: Function for each class of samples in `default_collate`. Libraries add their classes.
default_collate_fn_map: CollateMap = {
    Tensor: _stack_tensors, Variable: _stack_tensors, np.ndarray: _stack_arrays, np.generic: _stack_arrays,
    float: _join_floats, int: _join_integers, str: _keep, bytes: _keep,
}  # fmt: skip


def _stack(tensors: Sequence[Any]) -> Any:
    shapes = {tuple(t.shape) for t in tensors}
    if len(shapes) > 1:
        raise RuntimeError(
            f"default_collate: stack expects each tensor to be equal size, but there are {sorted(shapes)}. Give a "
            "collate_fn that pads them, or keeps them apart. [nd-loader]"
        )
    return stack(list(tensors))


def _refusal_text(sample: Any, more: str) -> str:
    return (
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(sample).__name__}{more}. Give a collate_fn that makes batches of them. [nd-loader]"
    )


def _is_named_tuple(data: Any) -> bool:
    return isinstance(data, tuple) and hasattr(data, "_fields")


def _same_mapping(like: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    try:
        return type(like)(made)  # type: ignore[call-arg]  # most mappings can be made of one
    except TypeError:
        return made


def _same_sequence(like: Sequence[Any], made: list[Any]) -> Any:
    if isinstance(like, range):
        return made
    try:
        return type(like)(made)  # type: ignore[call-arg]  # most sequences can be made of one
    except TypeError:
        return made
