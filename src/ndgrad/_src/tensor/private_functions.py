"""Private functions of torch's top level that libraries call: checks, and kernels behind public functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import dtypes
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.creation import arange
from ndgrad._src.tensor.functions.order import searchsorted, unique
from ndgrad._src.tensor.functions.rearrange import repeat_interleave
from ndgrad._src.tensor.functions.segments import segment_reduce as _segment_reduce

if TYPE_CHECKING:
    from ndgrad._typing import Dtype, Tensor

__all__ = [
    "_assert_async", "_assert_scalar",
    "_check", "_check_index", "_check_is_size", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with",
    "_check_type", "_check_value", "_check_with", "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo", "_segment_reduce", "_softmax_backward_data", "_unique", "_unique2",
]  # fmt: skip

Message = Callable[[], object] | None


def _check_with(error_type: type[Exception], cond: Any, message: Message) -> None:
    """Raise an error of the given class unless the condition, a bool, holds. `message` is called only then."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)} [nd-type]")
    if cond:
        return
    if message is None:
        raise error_type(
            "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
            "enhancement request.) [nd-values]"
        )
    if not callable(message):
        raise TypeError("message must be a callable [nd-type]")
    raise error_type(str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless the condition holds.

    >>> import ndgrad
    >>> ndgrad._check(2 > 1, lambda: "two is more than one")
    """
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raise IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raise ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raise TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raise NotImplementedError unless the condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless a number is a size: not negative, and at most `max`."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of the given class unless all elements of a boolean tensor are True."""
    if not isinstance(cond, Variable):
        raise TypeError(f"cond must be a tensor, but got {type(cond)} [nd-type]")
    if cond.dtype is not dtypes.bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype} [nd-dtype]")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless all elements of a boolean tensor are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(self: Tensor, assert_msg: str | None = None) -> None:
    """Raise RuntimeError if the only element of a tensor is zero or False.

    >>> import ndgrad
    >>> ndgrad._assert_async(ndgrad.tensor([1.0, 2.0]).gt(0).all())
    """
    if self.numel() == 0:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous, in _assert_async(). [nd-shape]")
    if self.numel() > 1:
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous, in _assert_async(): shape "
            f"{tuple(self.shape)}. Pass x.all(). [nd-shape]"
        )
    text = assert_msg or "Expected Tensor with single nonzero value, but got zero [nd-values]"
    _check_with(RuntimeError, bool(self.item()), lambda: text)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """Raise RuntimeError with the given text if a number is zero or False."""
    _check_with(RuntimeError, bool(self), lambda: assert_msg)


def _unique(self: Tensor, sorted: bool = True, return_inverse: bool = False) -> tuple[Tensor, Tensor]:
    """Return the distinct elements, and for each element of the input its position among them, or an empty tensor."""
    found, inverse, _ = _unique2(self, sorted, return_inverse)
    return found, inverse


def _unique2(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distinct elements, their positions and their counts; an empty tensor for a part that is not wanted.

    >>> import ndgrad
    >>> ndgrad._unique2(ndgrad.tensor([3, 1, 1]), return_counts=True)
    (tensor([1, 3]), tensor([], dtype=ndgrad.int64), tensor([2, 1]))
    """
    found, inverse, counts = unique(self, sorted=sorted, return_inverse=True, return_counts=True)
    nothing = inverse.new_empty((0,))
    return found, inverse if return_inverse else nothing, counts if return_counts else nothing


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Return the row pointers of sorted row indices.

    >>> import ndgrad
    >>> ndgrad._convert_indices_from_coo_to_csr(ndgrad.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    found = searchsorted(self, arange(size + 1, dtype=self.dtype, device=self.device))
    return found.to(dtypes.int32 if out_int32 else dtypes.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Return the two rows of coordinates of a compressed layout; with `transpose`, its rows are the second."""
    rows = repeat_interleave(arange(len(crow_indices) - 1, device=crow_indices.device), crow_indices.diff())
    both = (col_indices, rows) if transpose else (rows, col_indices)
    first, second = (t.to(dtypes.int32 if out_int32 else dtypes.int64) for t in both)
    return first.new_empty((2, len(first))).copy_(first.unsqueeze(0)).index_copy(
        0, first.new_tensor([1], dtype=dtypes.int64), second.unsqueeze(0)
    )


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Dtype) -> Tensor:
    """Return the gradient of softmax from its result.

    >>> import ndgrad
    >>> y = ndgrad.softmax(ndgrad.tensor([0.0, 1.0]), 0)
    >>> ndgrad._softmax_backward_data(ndgrad.ones(2), y, 0, y.dtype)
    tensor([0., 0.])
    """
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)
