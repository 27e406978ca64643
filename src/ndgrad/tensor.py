"""`Tensor`: an array with autograd metadata, under torch's names.

Only what belongs to the object itself stands here: its metadata, its place in the graph, operators. The functions that are
also methods come from ndgrad.api (see api.install).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad import dtypes
from ndgrad.autograd.variable import Variable, meta_of, np_dtype, requires_grad, wrap
from ndgrad.autograd.versions import version_number
from ndgrad.ops import arithmetic, cast, linalg, selection, shape
from ndgrad.ops import complex as complex_ops
from ndgrad.ops.generate import FACES, make_eager
from ndgrad.sizes import Size


class Tensor(Variable):
    """An n-dimensional array that remembers how it was computed."""

    __slots__ = ()
    __array_priority__ = 1000.0

    #: Whether saved values survive later writes (NumPy's face) or raise (torch's).
    keeps_saved = False

    @property
    def face(self) -> type[Any]:
        return FACES[self.__class__]

    # ----- shape and dtype -----

    @property
    def shape(self) -> Size:
        meta = self._meta
        if meta is not None and meta.batch_level:
            return Size(self._array.shape[1:])
        return Size(self._array.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return dtypes.as_dtype(np_dtype(self))

    # ----- autograd -----

    @property
    def requires_grad(self) -> bool:
        return requires_grad(self)

    @property
    def grad_fn(self) -> Any:
        if self._meta is not None and self._meta.view is not None:
            self._meta.view.refresh(self)
        return self._node

    @property
    def grad(self) -> Any:
        return None if self._meta is None else self._meta.grad

    @property
    def _version(self) -> int:
        return version_number(self)

    @property
    def real(self) -> Any:
        return complex_ops.real(self)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        meta_of(self).requires_grad = requires_grad
        return self

    def detach(self) -> Any:
        return shape.detach(self)

    def clone(self) -> Any:
        return cast.clone(self)

    def to(self, dtype: Any) -> Any:
        wanted = dtypes.as_numpy_dtype(dtype)
        return self if np_dtype(self) == wanted else cast.cast(self, dtype=wanted)

    def view_as(self, other: Any) -> Any:
        return shape.alias(self) if tuple(self.shape) == tuple(other.shape) else self.reshape(other.shape)

    def reshape(self, *sizes: Any) -> Any:
        if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
            sizes = tuple(sizes[0])
        return shape.reshape(self, shape=tuple(sizes))

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None) -> None:
        from ndgrad.autograd.engine import backward_from
        from ndgrad.autograd.roots import root_gradients

        keep = create_graph if retain_graph is None else retain_graph
        backward_from([self], root_gradients([self], [gradient]), retain_graph=keep, create_graph=create_graph, inputs=inputs)

    def __repr__(self) -> str:
        return f"tensor({self._array!r})"

    __hash__ = object.__hash__


FACES[Tensor] = Tensor


def _operator(name: str, op: Any, *, reflected: bool = False) -> None:
    """Install an operator that is generated when first used."""

    def first_use(self: Any, *args: Any) -> Any:
        made = make_eager(op, operator=True, reflected=reflected)
        setattr(Tensor, name, made)
        return made(self, *args)

    first_use.__name__ = name
    setattr(Tensor, name, first_use)


_ARITHMETIC = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "pow": arithmetic.pow,
    "matmul": linalg.matmul,
}
for _name, _op in _ARITHMETIC.items():
    _operator(f"__{_name}__", _op)
    _operator(f"__r{_name}__", _op, reflected=True)
_operator("__neg__", arithmetic.neg)
_operator("__eq__", selection.eq)
_operator("__ge__", selection.ge)


def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False) -> Any:
    t = wrap(Tensor, np.array(data, dtype=dtype))
    if requires_grad:
        t.requires_grad_()
    return t
