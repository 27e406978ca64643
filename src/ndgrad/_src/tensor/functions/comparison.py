"""Comparisons, tests and logic under torch's names: functions whose results are booleans.

Booleans have no derivative. An in-place form writes 0 or 1 in the tensor's dtype, so the tensor no longer depends on
its old value: the write is recorded as a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.core.inplace import write
from ndgrad._src.core.out_argument import write_out
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import comparison, fill
from ndgrad._src.ops.table import table

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Tensor, TensorLike

_IN_PLACE = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not")

__all__ = ["isposinf", "isneginf", "isclose", "allclose", "equal"]

METHODS = (*__all__, *(name + "_" for name in _IN_PLACE))

ALIASES = {"not_equal_": "ne_", "less_": "lt_", "less_equal_": "le_", "greater_": "gt_", "greater_equal_": "ge_"}


def _overwrite(t: Tensor, op: Op, *other: TensorLike) -> Tensor:
    return write(fill.copy, t, (op(t, *other),), {})


def eq_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `eq`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor or number, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).eq_(2.0)
    tensor([0., 1.])
    """
    return _overwrite(self, comparison.eq, other)


def ne_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `ne`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor or number, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).ne_(2.0)
    tensor([1., 0.])
    """
    return _overwrite(self, comparison.ne, other)


def lt_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `lt`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor or number, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).lt_(2.0)
    tensor([1., 0.])
    """
    return _overwrite(self, comparison.lt, other)


def le_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `le`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor or number, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 3.0]).le_(2.0)
    tensor([1., 0.])
    """
    return _overwrite(self, comparison.le, other)


def gt_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `gt`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor or number, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 3.0]).gt_(2.0)
    tensor([0., 1.])
    """
    return _overwrite(self, comparison.gt, other)


def ge_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `ge`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor or number, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).ge_(2.0)
    tensor([0., 1.])
    """
    return _overwrite(self, comparison.ge, other)


def logical_and_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `logical_and`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor of any dtype, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 0.0]).logical_and_(ndgrad.tensor([True, True]))
    tensor([1., 0.])
    """
    return _overwrite(self, comparison.logical_and, other)


def logical_or_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `logical_or`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor of any dtype, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 0.0]).logical_or_(ndgrad.tensor([False, False]))
    tensor([1., 0.])
    """
    return _overwrite(self, comparison.logical_or, other)


def logical_xor_(self: Tensor, other: TensorLike) -> Tensor:
    """In-place version of `logical_xor`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.
        other: tensor of any dtype, which broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 0.0]).logical_xor_(ndgrad.tensor([True, True]))
    tensor([0., 1.])
    """
    return _overwrite(self, comparison.logical_xor, other)


def logical_not_(self: Tensor) -> Tensor:
    """In-place version of `logical_not`; writes 0 or 1 in the tensor's dtype.

    Args:
        self: tensor to change.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 0.0]).logical_not_()
    tensor([0., 1.])
    """
    return _overwrite(self, comparison.logical_not)


def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the input is positive infinity.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.isposinf(ndgrad.tensor([1.0, float("inf"), -float("inf")]))
    tensor([False,  True, False])
    """
    return _infinite("isposinf", input, out)


def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the input is negative infinity.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.isneginf(ndgrad.tensor([1.0, float("inf"), -float("inf")]))
    tensor([False, False,  True])
    """
    return _infinite("isneginf", input, out)


def _infinite(name: str, input: Tensor, out: Tensor | None) -> Tensor:
    if isinstance(input, Variable) and np_dtype(input).kind == "c":
        raise RuntimeError(
            f"{name} does not support complex inputs, which have no sign. Take the real or imaginary part. [nd-complex]"
        )
    if out is None:
        return table[name](input)
    return write_out(table[name], (input,), {}, out)


def isclose(
    input: Tensor, other: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """True where |input - other| <= atol + rtol |other|.

    Args:
        input: tensor to compare.
        other: reference of the same dtype, which broadcasts with `input`.
        rtol: tolerance relative to `other`.
        atol: absolute tolerance.
        equal_nan: whether two NaNs are close.

    >>> import ndgrad
    >>> ndgrad.isclose(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([1.0 + 1e-9, 1.1]))
    tensor([ True, False])
    """
    _check_closeness("isclose", input, other, rtol, atol)
    return comparison.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(
    input: Tensor, other: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """True if |input - other| <= atol + rtol |other| everywhere.

    Args:
        input: tensor to compare.
        other: reference of the same dtype, which broadcasts with `input`.
        rtol: tolerance relative to `other`.
        atol: absolute tolerance.
        equal_nan: whether two NaNs are close.

    >>> import ndgrad
    >>> ndgrad.allclose(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([1.0 + 1e-9, 1.1]))
    False
    """
    _check_closeness("allclose", input, other, rtol, atol)
    return _everywhere("allclose", comparison.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _check_closeness(function: str, input: TensorLike, other: TensorLike, rtol: float, atol: float) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(
                f"{function}(): {name} must be greater than or equal to zero, but got {value}. Give a tolerance. "
                "[nd-range]"
            )
    if isinstance(input, Variable) and isinstance(other, Variable) and np_dtype(input) != np_dtype(other):
        raise RuntimeError(
            f"{function}(): dtypes {np_dtype(input)} and {np_dtype(other)} did not match. "
            "Convert one of the tensors with .to(). [nd-dtype-mismatch]"
        )


def equal(input: Tensor, other: Tensor) -> bool:
    """True if two tensors have the same shape and the same elements.

    Args:
        input: first tensor.
        other: second tensor.

    >>> import ndgrad
    >>> ndgrad.equal(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1, 2]))
    True
    """
    if not isinstance(input, Variable) or not isinstance(other, Variable):
        kinds = f"{type(input).__name__} and {type(other).__name__}"
        raise TypeError(
            f"equal() takes two tensors, but got {kinds}. Wrap arrays with ndgrad.as_tensor(...). [nd-type]"
        )
    return tuple(input.shape) == tuple(other.shape) and _everywhere("equal", comparison.eq(input, other))


def _everywhere(function: str, answer: Tensor) -> bool:
    if isinstance(answer._array, Variable):
        raise RuntimeError(
            f"{function}() inside vmap: its answer is one Python bool, and each sample of the batch has its own. "
            f"Use the elementwise form (isclose, eq) and all(), or call {function}() outside vmap. [nd-vmap-value]"
        )
    values = answer._array if answer.run_op is None else answer.checked_values()
    return bool(values.all())
