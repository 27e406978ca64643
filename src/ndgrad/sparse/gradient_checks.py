"""Checks of derivatives with respect to sparse tensors: by their values, or by all elements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.sparse import Coo
from ndgrad._src.core.variable import requires_grad, wrap
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.sparse.tensor import SparseTensor, build, coalesced, coo, data_of, dense, like

if TYPE_CHECKING:
    from ndgrad._src.arrays.sparse import Structure


def on_dense(function: Callable[..., Any], inputs: tuple[Any, ...], masked: bool) -> tuple[Any, tuple[Any, ...]]:
    """Turn a function of sparse tensors into one of dense ones, with inputs. With `masked`, a sparse tensor is a
    function of its values; else of all elements, each of which is an entry. Sparse results become dense.
    """
    builders: dict[int, Any] = {}
    given = list(inputs)
    for i, x in enumerate(inputs):
        if not isinstance(x, SparseTensor):
            continue
        structure = x.structure
        if masked:
            plain = coalesced(x.detach())
            builders[i] = functools.partial(build, structure=plain.structure)
            start = data_of(plain).values
        else:
            places = np.indices(structure.place_shape).reshape(len(structure.place_shape), -1)
            every = Coo(places, structure.shape, True)
            builders[i] = functools.partial(_fill_elements, every=every, structure=structure)
            start = data_of(coo(x.detach())).to_full()
        given[i] = wrap(Tensor, start.copy()).requires_grad_(requires_grad(x))

    def on_dense_inputs(*args: Any) -> Tensor | tuple[Tensor, ...]:
        out = function(*(builders[i](a) if i in builders else a for i, a in enumerate(args)))
        return tuple(map(_full, out)) if isinstance(out, (tuple, list)) else _full(out)

    on_dense_inputs.__qualname__ = getattr(function, "__qualname__", type(function).__name__)
    return on_dense_inputs, tuple(given)


def _fill_elements(elements: Tensor, every: Coo, structure: Structure) -> SparseTensor:
    return like(build(elements, every), structure)


def _full(out: Tensor) -> Tensor:
    return dense(out) if isinstance(out, SparseTensor) else out


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Return a gradcheck that takes sparse tensors. ndgrad's own does so already; this is for others.

    Args:
        gradcheck: function like `ndgrad.autograd.gradcheck`, for dense tensors.

    >>> import ndgrad
    >>> check = ndgrad.sparse.as_sparse_gradcheck(ndgrad.autograd.gradcheck)
    >>> x = ndgrad.eye(2, dtype=ndgrad.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x.to_dense(), [x], masked=True)
    True
    """

    @functools.wraps(gradcheck)
    def check(function: Callable[..., Any], inputs: Tensor, **options: Any) -> bool:
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        function, given = on_dense(function, given, bool(options.pop("masked", False)))
        return gradcheck(function, given, **options)

    return check
