"""max, min and relatives under torch's names.

`max` has three forms, distinguished by the second argument: none (one value), an int (values and indices along a
dimension), a tensor (the elementwise maximum).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import extremum as ops
from ndgrad._src.ops import selection, shape
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.reduce import deliver, dims_of, ndim_of, run_along

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Dims, Tensor, TensorLike, Tensors

__all__ = ["max", "min", "amax", "amin", "aminmax", "argmax", "argmin"]
METHODS = ("max", "min", "amax", "amin", "aminmax", "argmax", "argmin")


def require_order(name: str, input: Tensor) -> None:
    """Raise for complex numbers, which have no order."""
    if np_dtype(input).kind == "c":
        raise NotImplementedError(
            f"{name}(): not implemented for {as_dtype(np_dtype(input))!r}: complex numbers have no order. "
            "Take it of the real part, or of abs(). [nd-complex]"
        )


def require_elements(name: str, input: Tensor, dims: tuple[int, ...] | None) -> None:
    """Raise if there is no element to choose from: `dims` of size 0, or, for None, an empty tensor."""
    array = input._array
    if array.__class__ is np.ndarray and array.size:
        return
    sizes = tuple(input.shape)
    if dims is None:
        if math.prod(sizes) == 0:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0: of no elements (shape "
                f"{sizes}) there is none to choose. Give a dim whose size is not 0, or look at numel() first. "
                "[nd-too-few]"
            )
        return
    for d in dims:
        if sizes[d] == 0:
            raise IndexError(
                f"{name}(): Expected reduction dim {d} to have non-zero size, but the shape is {sizes}. "
                "Choose another dim, or look at the shape first. [nd-too-few]"
            )


def _extremum(
    name: str,
    full: Op,
    lines: Op,
    place: Op,
    pairs: Op,
    input: Tensor,
    dim: int | Tensor | None,
    keepdim: bool,
    other: TensorLike | None,
    out: Tensor | Tensors | None,
) -> Any:
    if isinstance(dim, Variable):
        if other is not None or keepdim:
            raise TypeError(
                f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}. "
                "Give a dim or another tensor. [nd-type]"
            )
        other, dim = dim, None
    ndim = ndim_of(input, name)
    require_order(name, input)
    if other is not None:
        return deliver(name, pairs(input, other), out, input, other)
    if dim is None:
        require_elements(name, input, None)
        if keepdim:
            return deliver(name, shape.reshape(full(input), shape=(1,) * ndim), out, input)
        return deliver(name, full.eager(input), out, input)
    if isinstance(dim, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'dim' must be int, not {type(dim).__name__}. Use a{name}() "
            "to reduce several dimensions. [nd-type]"
        )
    require_elements(name, input, (as_dim(dim, ndim),) if ndim else ())
    if ndim:
        number = as_dim(dim, ndim)
        indices = place.eager(input, dim=number, keepdim=keepdim)
        values = lines.eager(input, indices, dim=number, keepdim=keepdim)
    else:
        as_dim(dim, 0)
        values, indices = full(input), place(shape.reshape(input, shape=(1,)), dim=0)
    return deliver(name, getattr(return_types, name)(values, indices), out, input)


@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, out: Tensors | None = None) -> return_types.max: ...
@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, other: TensorLike, out: Tensor | None = None) -> Tensor: ...
@both_worlds
def max(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: TensorLike | None = None,
    out: Tensor | Tensors | None = None,
) -> Tensor | return_types.max:
    """The largest element; with `dim`, the largest along it and its index; with another tensor, the larger of each
    pair.

    If several elements are largest, the form without indices shares the gradient among them. The form with indices
    gives it to the first.

    Args:
        input: real tensor.
        dim: dimension to reduce. A tensor in its place has the meaning of `other`.
        keepdim: whether reduced dimensions stay, with size 1.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result, or with `dim` a tuple of two.

    Returns:
        One tensor, or with `dim` the values and their indices.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.max(), x.max(dim=1).indices
    (tensor(5.), tensor([1, 0]))
    """
    return _extremum("max", ops.max_all, ops.max_at, ops.argmax, selection.maximum, input, dim, keepdim, other, out)


@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, out: Tensors | None = None) -> return_types.min: ...
@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, other: TensorLike, out: Tensor | None = None) -> Tensor: ...
@both_worlds
def min(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: TensorLike | None = None,
    out: Tensor | Tensors | None = None,
) -> Tensor | return_types.min:
    """The smallest element; with `dim`, the smallest along it and its index; with another tensor, the smaller of
    each pair.

    Args:
        input: real tensor.
        dim: dimension to reduce. A tensor in its place has the meaning of `other`.
        keepdim: whether reduced dimensions stay, with size 1.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result, or with `dim` a tuple of two.

    Returns:
        One tensor, or with `dim` the values and their indices.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.min(), x.min(dim=0).values
    (tensor(1.), tensor([1., 2.]))
    """
    return _extremum("min", ops.min_all, ops.min_at, ops.argmin, selection.minimum, input, dim, keepdim, other, out)


def _reduce_dims(op: Op, input: Tensor, dim: Dims, keepdim: bool, out: Tensor | None) -> Tensor:
    dims = dims_of(dim, ndim_of(input, op.name))
    require_order(op.name, input)
    require_elements(op.name, input, None if dim is None or dim == () else dims)
    return deliver(op.name, op.eager(input, dim=dims, keepdim=keepdim), out, input)


@both_worlds
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The largest element over `dim`. Ties share the gradient equally.

    Args:
        input: real tensor.
        dim: dimension or dimensions to reduce. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 3.0, 3.0], requires_grad=True)
    >>> x.amax().backward()
    >>> x.grad
    tensor([0.0000, 0.5000, 0.5000])
    """
    return _reduce_dims(ops.amax, input, dim, keepdim, out)


@both_worlds
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The smallest element over `dim`. Ties share the gradient equally.

    Args:
        input: real tensor.
        dim: dimension or dimensions to reduce. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.amin(ndgrad.tensor([[1.0, 5.0], [4.0, 2.0]]), dim=1)
    tensor([1., 2.])
    """
    return _reduce_dims(ops.amin, input, dim, keepdim, out)


@both_worlds
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Tensors | None = None
) -> return_types.aminmax:
    """Smallest and largest element, of all or along one `dim`; ties share the gradient equally.

    Args:
        input: real tensor.
        dim: dimension to reduce. None means all.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tuple of tensors that receive the results.

    Returns:
        The smallest and the largest element, as `min` and `max`.

    >>> import ndgrad
    >>> ndgrad.aminmax(ndgrad.tensor([3.0, 1.0, 2.0])).max
    tensor(3.)
    """
    ndim = ndim_of(input, "aminmax")
    require_order("aminmax", input)
    dims = dims_of(None if dim is None else as_dim(dim, ndim), ndim)
    require_elements("aminmax", input, None if dim is None else dims)
    result = return_types.aminmax(
        ops.amin(input, dim=dims, keepdim=keepdim), ops.amax(input, dim=dims, keepdim=keepdim)
    )
    return deliver("aminmax", result, out, input)


def _arg_extremum(op: Op, input: Tensor, dim: int | None, keepdim: bool, out: Tensor | None) -> Tensor:
    name = op.name
    ndim = ndim_of(input, name)
    kind = np_dtype(input).kind
    if kind == "c" or (kind == "b" and not input.is_numpy_type):
        raise RuntimeError(
            f"{name}(): does not support {as_dtype(np_dtype(input))!r} input. Convert it to integers or floats first. "
            "[nd-dtype]"
        )
    if dim is None:
        if math.prod(input.shape) == 0:
            raise IndexError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Give a dim whose size is not 0. [nd-too-few]"
            )
        result = op(shape.reshape(input, shape=(math.prod(input.shape),)), dim=0)
        result = shape.reshape(result, shape=(1,) * ndim) if keepdim else result
    else:
        require_elements(name, input, (as_dim(dim, ndim),) if ndim else ())
        result = run_along(op, name, input, dim, keepdim=keepdim and ndim > 0)
    return deliver(name, result, out)


@both_worlds
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The index of the largest element, the first of several: along `dim`, or in the flattened tensor.

    Args:
        input: real tensor.
        dim: dimension to reduce. None means the flattened tensor.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.argmax(), x.argmax(dim=1)
    (tensor(1), tensor([1, 0]))
    """
    return _arg_extremum(ops.argmax, input, dim, keepdim, out)


@both_worlds
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The index of the smallest element, the first of several: along `dim`, or in the flattened tensor.

    Args:
        input: real tensor.
        dim: dimension to reduce. None means the flattened tensor.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.argmin(), x.argmin(dim=1)
    (tensor(0), tensor([0, 1]))
    """
    return _arg_extremum(ops.argmin, input, dim, keepdim, out)
