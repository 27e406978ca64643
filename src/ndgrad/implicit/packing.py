"""Nested structures of tensors as one real vector, the form that solvers use.

Complex leaves count as pairs of real numbers: so residuals need not be holomorphic, and every Jacobian is a real
matrix. The packing consists of ops, so derivatives of every mode pass through it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact, result_dtype
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.foundations.pytree import PyTree, TreeSpec, tree_flatten, tree_unflatten
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.implicit.rewrapping import as_captured, with_tensor_type


class Layout:
    """Positions of a structure's leaves in the vector, and their shapes and dtypes."""

    def __init__(self, name: str, tree: PyTree, tensor_type: type[Any]) -> None:
        leaves, self.spec = tree_flatten(tree)
        if not leaves:
            raise ValueError(f"{name} holds no tensor. Pass at least one number, array or tensor. [nd-too-few]")
        tensors = [as_tensor(name, leaf, tensor_type) for leaf in leaves]
        self.tensor_type = tensor_type
        self.shapes = [tuple(t.shape) for t in tensors]
        self.dtypes = [np_dtype(t) for t in tensors]
        for dtype, shape in zip(self.dtypes, self.shapes):
            if not is_inexact(dtype):
                raise TypeError(
                    f"{name} holds a tensor of dtype {dtype} (shape {shape}). Solvers need real or complex numbers: "
                    "convert it. [nd-dtype]"
                )
        #: The dtype of the vector.
        self.dtype = result_dtype(*(np.empty(0, d).real.dtype for d in self.dtypes))
        self.sizes = [math.prod(s) * (2 if d.kind == "c" else 1) for s, d in zip(self.shapes, self.dtypes)]
        self.size = sum(self.sizes)
        self.tensors = tensors

    def pack(self, leaves: Sequence[Any]) -> Tensor:
        """Return the leaves (tensors) as one vector."""
        return _vector(leaves, self.dtype)

    def unpack(self, vector: Tensor) -> PyTree:
        """Return the structure that a vector represents."""
        vector = with_tensor_type(vector, self.tensor_type)
        leaves, start = [], 0
        for shape, dtype, size in zip(self.shapes, self.dtypes, self.sizes, strict=True):
            t = vector if size == self.size else tensor_ops.getitem(vector, index=(slice(start, start + size),))
            start += size
            real = np.empty(0, dtype).real.dtype
            if np_dtype(t) != real:
                t = tensor_ops.cast(t, dtype=real)
            if dtype.kind == "c":
                t = tensor_ops.reshape(t, shape=(2, *shape))
                t = tensor_ops.complex(tensor_ops.getitem(t, index=(0,)), tensor_ops.getitem(t, index=(1,)))
            elif len(shape) != 1:
                t = tensor_ops.reshape(t, shape=shape)
            leaves.append(t)
        return tree_unflatten(leaves, self.spec)

    def pack_result(self, name: str, result: PyTree) -> Tensor:
        """Return the result of a user's function as a vector of this layout's size."""
        vector = _vector(tensors_of(name, result, self.tensor_type), self.dtype)
        if vector.shape[0] != self.size:
            shapes = [tuple(np.shape(leaf)) for leaf in tree_flatten(result)[0]]
            raise ValueError(
                f"{name} returned {vector.shape[0]} numbers (shapes {shapes}) for {self.size} unknowns (shapes "
                f"{self.shapes}). It must return one equation per unknown. [nd-problem]"
            )
        return vector


def _vector(leaves: Sequence[Any], dtype: np.dtype[Any]) -> Tensor:
    """Concatenate tensors; a complex one counts as its real parts and then its imaginary parts."""
    parts = []
    for t in leaves:
        if np_dtype(t).kind == "c":
            t = tensor_ops.stack(tensor_ops.real(t), tensor_ops.imag(t), dim=0)
        if len(t.shape) != 1:
            t = tensor_ops.reshape(t, shape=(math.prod(t.shape),))
        parts.append(t if np_dtype(t) == dtype else tensor_ops.cast(t, dtype=dtype))
    return parts[0] if len(parts) == 1 else tensor_ops.cat(*parts, dim=0)


def as_tensor(name: str, leaf: object, tensor_type: type[Any]) -> Tensor:
    """Return a leaf as a tensor of a class: numbers and arrays become constants."""
    if isinstance(leaf, Variable):
        return as_captured(leaf)
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} holds {type(leaf).__name__}, which is no number, array or tensor ({error}). [nd-type]"
        ) from None
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if not is_inexact(array.dtype):
        raise TypeError(
            f"{name} holds {type(leaf).__name__} of dtype {array.dtype}, which is no number, array or tensor. [nd-type]"
        )
    return wrap(tensor_type, array)


def tensors_of(name: str, result: PyTree, tensor_type: type[Any]) -> list[Any]:
    """Return the leaves of a user's result. If all are plain numbers, the graph was lost."""
    leaves, _ = tree_flatten(result)
    if not any(isinstance(leaf, Variable) for leaf in leaves):
        kinds = ", ".join(sorted({type(leaf).__name__ for leaf in leaves})) or "nothing"
        raise TypeError(
            f"{name} returned {kinds}, and no tensor, so its derivatives cannot be known. Compute with the tensors "
            "that it is given and return the result; ndgrad's functions (and NumPy's, on Arrays) keep track of it. "
            "[nd-transform-result]"
        )
    return [as_tensor(name, leaf, tensor_type) for leaf in leaves]


def tensor_type_of_tree(*trees: PyTree) -> type[Any]:
    """Return the class of the tensors in some structures: Array if any is one, as for ops."""
    found: type[Any] = Tensor
    for tree in trees:
        for leaf in tree_flatten(tree)[0]:
            if isinstance(leaf, Variable) and leaf.tensor_type.is_numpy_type:
                found = leaf.tensor_type
    return found


__all__ = ["Layout", "PyTree", "TreeSpec", "as_tensor", "tensor_type_of_tree", "tensors_of"]
