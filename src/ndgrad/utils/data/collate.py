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


CollateFunction: TypeAlias = Callable[..., Any]
CollateMap: TypeAlias = "dict[type | tuple[type, ...], CollateFunction]"


def default_collate(batch: Sequence[Any]) -> Any:
    """Return a batch of samples.

    Tensors and arrays of equal shape are stacked, numbers become a tensor (floats in float64), strings are unchanged.
    Mappings, named tuples and sequences become containers of batches. A class that `default_collate_fn_map` names is
    collated by its function there.

    Args:
        batch: samples of one structure.

    >>> default_collate([(1, "a"), (2, "b")])
    [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return a batch of samples, whose elements are collated by the functions of a table.

    Args:
        batch: samples of one structure.
        collate_fn_map: functions by class, or by several classes. A function takes the samples, and the table as
            `collate_fn_map`. An entry of the sample's own class comes before those of its base classes. Containers
            without an entry are collated element by element.
    """
    first = batch[0]
    table = collate_fn_map or {}
    function = table.get(type(first))
    if function is None:
        function = next((made for kinds, made in table.items() if isinstance(first, kinds)), None)
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)

    def collate_part(part: Sequence[Any]) -> Any:
        return collate(part, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _same_mapping(first, {key: collate_part([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        sizes = {len(sample) for sample in batch}
        if len(sizes) > 1:
            raise RuntimeError(
                "default_collate: each element in list of batch should be of equal size, "
                f"but there are {sorted(sizes)}. Give a collate_fn that pads them, or keeps them apart. [nd-loader]"
            )
        columns = [collate_part(column) for column in zip(*batch, strict=True)]
        if _is_named_tuple(first):
            return type(first)(*columns)
        return columns if isinstance(first, tuple) else _same_sequence(first, columns)
    raise TypeError(_refusal_text(first, ""))


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return tensors of equal shape as one tensor with a dimension for the samples."""
    return _stack(batch)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return arrays or NumPy's numbers as a tensor with a dimension for the samples."""
    if batch[0].dtype.kind not in "biufcV":
        raise TypeError(_refusal_text(batch[0], f" of dtype {batch[0].dtype}"))
    return _stack([as_tensor(sample) for sample in batch])


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return floats as a tensor of float64."""
    return tensor(list(batch), dtype=float64)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return integers or bools as a tensor."""
    return tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return strings as they are."""
    return batch


#: Functions of `default_collate` by class. A program may add classes of its own.
default_collate_fn_map: CollateMap = {
    Variable: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    np.generic: collate_numpy_array_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


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
