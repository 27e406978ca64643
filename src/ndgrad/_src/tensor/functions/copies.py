"""Views as copies, under torch's names: `permute_copy` is `permute` with its own memory; and `unsafe_split`.

Functionalised programs use these functions. Each is its view op followed by a copy, so derivatives, batching and
checks are those of the view. `unsafe_split` and its variants return copies too. torch's version shares the tensor's
memory without tracking writes, so that gradients of earlier results can be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad._src.foundations import devices
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.ops import split as split_ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.functions import shape as shapes
from ndgrad._src.tensor.functions import split as parts
from ndgrad._src.tensor.functions import triangle
from ndgrad._src.tensor.functions.convert import clone
from ndgrad._src.tensor.functions.reduce import deliver

if TYPE_CHECKING:
    from ndgrad._src.arrays import dtypes
    from ndgrad._typing import Dims, Shape, Tensor

__all__ = [
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy",
    "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy",
    "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_as_complex_copy", "view_as_real_copy", "view_copy",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
]  # fmt: skip
METHODS = ("narrow_copy", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes")


def _copy(view: Tensor) -> Tensor:
    return clone(view, memory_format=devices.contiguous_format)


def _copy_view(name: str, input: Tensor, view: Tensor, out: Tensor | None) -> Tensor:
    """Return a copy of a view, or write it into `out`."""
    return _copy(view) if out is None else deliver(name, view, out, input)


def _copy_views(
    name: str, input: Tensor, views: tuple[Tensor, ...], out: Sequence[Tensor] | None
) -> tuple[Tensor, ...]:
    """Return copies of views, or write them into the tensors of `out`."""
    if out is None:
        return tuple(map(_copy, views))
    deliver(name, views, tuple(out), input)
    return None  # type: ignore[return-value]  # as torch's functions with a list of outputs


# ----- one view -------------------------------------------------------------------------------------------------------


def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of the tensor itself.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.alias_copy(ndgrad.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return _copy_view("alias_copy", input, shape_ops.alias(input), out)


def as_strided_copy(
    input: Tensor, size: Shape, stride: Shape, storage_offset: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """A copy of `as_strided()`.

    Args:
        input: input tensor.
        size: shape of the view.
        stride: distance of neighbours in each dimension, counted in elements.
        storage_offset: index of the first element in the memory. The default is that of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.as_strided_copy(ndgrad.tensor([1.0, 2.0, 3.0]), (2, 2), (1, 1))
    tensor([[1., 2.],
            [2., 3.]])
    """
    return _copy_view("as_strided_copy", input, parts.as_strided(input, size, stride, storage_offset), out)


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `detach()`: no gradient flows through it.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.detach_copy(ndgrad.ones(2, requires_grad=True)).requires_grad
    False
    """
    return _copy_view("detach_copy", input, input.detach(), out)


def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy of `diagonal()`.

    Args:
        input: input tensor.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dim1: dimension of the rows.
        dim2: dimension of the columns.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.diagonal_copy(ndgrad.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _copy_view("diagonal_copy", input, triangle.diagonal(input, offset, dim1, dim2), out)


def expand_copy(input: Tensor, size: Shape, *, implicit: bool = False, out: Tensor | None = None) -> Tensor:
    """A copy of `expand()`.

    Args:
        input: input tensor.
        size: new shape. -1 keeps a size.
        implicit: accepted as in torch; has no effect here.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.expand_copy(ndgrad.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return _copy_view("expand_copy", input, shapes.expand(input, size), out)


def narrow_copy(input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `narrow()`.

    Args:
        input: input tensor.
        dim: dimension to cut.
        start: first index. A negative one counts from the end.
        length: number of indices.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.narrow_copy(ndgrad.tensor([1, 2, 3]), 0, 1, 2)
    tensor([2, 3])
    """
    return _copy_view("narrow_copy", input, parts.narrow(input, dim, start, length), out)


def permute_copy(input: Tensor, dims: Sequence[int], *, out: Tensor | None = None) -> Tensor:
    """A copy of `permute()`.

    Args:
        input: input tensor.
        dims: numbers of all dimensions in the new order.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.permute_copy(ndgrad.zeros(2, 3), (1, 0)).shape
    ndgrad.Size([3, 2])
    """
    return _copy_view("permute_copy", input, shapes.permute(input, dims), out)


def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `select()`.

    Args:
        input: input tensor.
        dim: dimension to index.
        index: index along `dim`. A negative one counts from the end.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.select_copy(ndgrad.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    return _copy_view("select_copy", input, parts.select(input, dim, index), out)


def squeeze_copy(input: Tensor, dim: Dims = None, *, out: Tensor | None = None) -> Tensor:
    """A copy of `squeeze()`.

    Args:
        input: input tensor.
        dim: dimension or dimensions to remove if their size is 1. None means all.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.squeeze_copy(ndgrad.zeros(1, 2)).shape
    ndgrad.Size([2])
    """
    return _copy_view("squeeze_copy", input, shapes.squeeze(input, dim), out)


def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `t()`.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.t_copy(ndgrad.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    return _copy_view("t_copy", input, shapes.t(input), out)


def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `transpose()`.

    Args:
        input: input tensor.
        dim0: first dimension to swap.
        dim1: second dimension to swap.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.transpose_copy(ndgrad.zeros(2, 3), 0, 1).shape
    ndgrad.Size([3, 2])
    """
    return _copy_view("transpose_copy", input, shapes.transpose(input, dim0, dim1), out)


def unfold_copy(input: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `unfold()`.

    Args:
        input: input tensor.
        dimension: dimension along which the windows move.
        size: size of a window.
        step: distance of neighbouring windows.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.unfold_copy(ndgrad.arange(4), 0, 2, 1)
    tensor([[0, 1],
            [1, 2],
            [2, 3]])
    """
    return _copy_view("unfold_copy", input, parts.unfold(input, dimension, size, step), out)


def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `unsqueeze()`.

    Args:
        input: input tensor.
        dim: position of the new dimension in the result.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.unsqueeze_copy(ndgrad.zeros(2), 0).shape
    ndgrad.Size([1, 2])
    """
    return _copy_view("unsqueeze_copy", input, shapes.unsqueeze(input, dim), out)


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `view_as_complex()`.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.view_as_complex_copy(ndgrad.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    return _copy_view("view_as_complex_copy", input, shapes.view_as_complex(input), out)


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `view_as_real()`.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.view_as_real_copy(ndgrad.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    return _copy_view("view_as_real_copy", input, shapes.view_as_real(input), out)


def view_copy(input: Tensor, size: Shape | dtypes.DTypeLike, *, out: Tensor | None = None) -> Tensor:
    """A copy of `view()`.

    Args:
        input: input tensor.
        size: new shape, or a dtype.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.view_copy(ndgrad.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return _copy_view("view_copy", input, shapes.view(input, size), out)


def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of a slice along one dimension.

    Args:
        input: input tensor.
        dim: dimension of the slice.
        start: first index. The default is 0.
        end: end of the slice, which is not part of it. The default is the size of `dim`.
        step: positive distance of indices.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.slice_copy(ndgrad.arange(6), 0, 1, 5, 2)
    tensor([1, 3])
    """
    if not input.ndim:
        raise RuntimeError(
            "slice() cannot be applied to a 0-dim tensor, which has no parts. Use reshape(1) first. [nd-ndim]"
        )
    if step <= 0:
        raise RuntimeError(
            f"slice step must be positive, but is {step}. Use flip() for the other direction. [nd-range]"
        )
    number = as_dim(dim, input.ndim)
    first, stop, step = slice(start, end, step).indices(input.shape[number])
    view = split_ops.slice_(input, dim=number, start=first, stop=max(first, stop), step=step)
    return _copy_view("slice_copy", input, view, out)


# ----- several views --------------------------------------------------------------------------------------------------


def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copies of the parts of `split()`.

    Args:
        input: input tensor.
        split_size: size of each part.
        dim: dimension to cut.
        out: sequence of tensors that receive the parts. The function then returns None.

    >>> import ndgrad
    >>> ndgrad.split_copy(ndgrad.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _copy_views("split_copy", input, parts.split(input, split_size, dim), out)


def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copies of the parts of `split_with_sizes()`.

    Args:
        input: input tensor.
        split_sizes: sizes of the parts, whose sum is the size of `dim`.
        dim: dimension to cut.
        out: sequence of tensors that receive the parts. The function then returns None.

    >>> import ndgrad
    >>> ndgrad.split_with_sizes_copy(ndgrad.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return _copy_views("split_with_sizes_copy", input, parts.split_with_sizes(input, split_sizes, dim), out)


def unbind_copy(input: Tensor, dim: int = 0, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Copies of the parts of `unbind()`.

    Args:
        input: input tensor.
        dim: dimension to remove.
        out: sequence of tensors that receive the parts. The function then returns None.

    >>> import ndgrad
    >>> ndgrad.unbind_copy(ndgrad.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    return _copy_views("unbind_copy", input, parts.unbind(input, dim), out)


# ----- writable parts -------------------------------------------------------------------------------------------------


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of the parts of `split()`. They may be written in place while gradients are recorded; the tensor
    stays unchanged.

    Args:
        input: input tensor.
        split_size: size of each part.
        dim: dimension to cut.

    >>> import ndgrad
    >>> ndgrad.unsafe_split(ndgrad.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return split_copy(input, split_size, dim)


def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of the parts of `split_with_sizes()`, which may be written in place.

    Args:
        input: input tensor.
        split_sizes: sizes of the parts, whose sum is the size of `dim`.
        dim: dimension to cut.

    >>> import ndgrad
    >>> ndgrad.unsafe_split_with_sizes(ndgrad.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return split_with_sizes_copy(input, split_sizes, dim)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of the parts of `chunk()`, which may be written in place.

    Args:
        input: input tensor.
        chunks: largest number of parts.
        dim: dimension to cut.

    >>> import ndgrad
    >>> ndgrad.unsafe_chunk(ndgrad.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return tuple(map(_copy, parts.chunk(input, chunks, dim)))
