"""Nested tensors in torch's files: conversion to and from parts."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.tensor.structured import carries, constant
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nested.tensor import build, data_of, is_nested, layout_of, make_layout, refuse

if TYPE_CHECKING:
    from ndgrad.nested.tensor import NestedTensor


def parts_of(t: Tensor) -> dict[str, Any]:
    """Return the parts of a nested tensor in a file, under torch's names."""
    if carries(t):
        refuse("saving inside a transform", (t,), {})
    layout = layout_of(t)
    return {
        "values": wrap(Tensor, data_of(t).values),
        "offsets": constant(layout.offsets),
        "lengths": constant(layout.size.lengths) if layout.given_lengths else None,
        "_ragged_idx": layout.dim,
        "_metadata_cache": {},
        "requires_grad": bool(t.requires_grad) and t.is_leaf,
    }


def from_parts(parts: object) -> NestedTensor:
    """Return the nested tensor with these parts, checked like any other."""
    known: dict[str, Any] = parts if type(parts) is dict else {}
    values: Any
    values, offsets, lengths, dim = (known.get(n) for n in ("values", "offsets", "lengths", "_ragged_idx"))
    leaf = known.get("requires_grad", False)
    arrays = [a for a in (offsets, lengths) if a is not None]
    if (
        not all(isinstance(t, Tensor) and not is_nested(t) for t in (values, *arrays))
        or any(isinstance(t._array, Variable) for t in arrays)
        or offsets is None
        or type(dim) is not int
        or type(leaf) is not bool
    ):
        raise pickle.UnpicklingError(
            "a nested tensor in the file lacks its values or offsets. The file is damaged. [nd-file-damaged]"
        )
    numbers = [None if a is None else np.asarray(a._array) for a in (offsets, lengths)]
    try:
        layout = make_layout("ndgrad.load", tuple(values.shape), numbers[0], numbers[1], dim)
        made = build(values.detach(), layout)
        return made.requires_grad_() if leaf else made
    except RuntimeError as error:
        raise pickle.UnpicklingError(f"{error} The file is damaged. [nd-file-damaged]") from None
