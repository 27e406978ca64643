"""Utilities of distributions, under torch's names: broadcasting, probabilities and logits, lazy attributes, triangles
as vectors.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import ndgrad
from ndgrad._src.core.variable import innermost_array, own_level
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from typing import TypeAlias

    from ndgrad._typing import Device, Dtype, Tensor

    #: A parameter: a tensor, or a number that becomes one.
    Parameter: TypeAlias = Tensor | float

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits", "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060

T = TypeVar("T")


# ----- parameters -----------------------------------------------------------------------------------------------------


def broadcast_all(*values: Parameter) -> tuple[Tensor, ...]:
    """Return numbers and tensors as tensors of one shape. A number gets the dtype of the other tensors.

    Args:
        *values: numbers and tensors.

    >>> import ndgrad
    >>> ndgrad.distributions.utils.broadcast_all(ndgrad.tensor([1.0, 2.0]), 3)
    (tensor([1., 2.]), tensor([3., 3.]))
    """
    for value in values:
        if not (_is_tensor(value) or isinstance(value, numbers.Number)):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                f"__torch_function__, and one is a {type(value).__name__}: make it a tensor with ndgrad.tensor(). "
                "[nd-type]"
            )
    like = next((v for v in values if isinstance(v, ndgrad.Tensor)), None)
    made: list[Any] = [v if _is_tensor(v) else _as_tensor(v, like) for v in values]
    return tuple(ndgrad.broadcast_tensors(*made))


def _is_tensor(value: object) -> bool:
    return isinstance(value, ndgrad.Tensor) or hasattr(type(value), "__torch_function__")


def _as_tensor(value: Any, like: Tensor | None) -> Tensor:
    dtype = ndgrad.get_default_dtype() if like is None else like.dtype
    return ndgrad.tensor(value, dtype=dtype, device=None if like is None else like.device)


def either(probs: Parameter | None, logits: Parameter | None) -> tuple[str, Any]:
    """Return the name and the value of the given one."""
    if (probs is None) == (logits is None):
        raise ValueError(
            "Either `probs` or `logits` must be specified, but not both. "
            f"{'Both' if probs is not None else 'None of them'} was given. [nd-exclusive]"
        )
    return ("logits", logits) if probs is None else ("probs", probs)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities from logits.

    Args:
        logits: log odds, or logarithms of weights along the last dimension.
        is_binary: whether logits are log odds.

    >>> import ndgrad
    >>> ndgrad.distributions.utils.logits_to_probs(ndgrad.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """
    return ndgrad.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities away from 0 and 1, so that their logits are finite.

    Args:
        probs: probabilities.

    >>> import ndgrad
    >>> ndgrad.distributions.utils.clamp_probs(ndgrad.tensor([0.0, 0.5], dtype=ndgrad.float64))
    tensor([2.2204e-16, 5.0000e-01], dtype=ndgrad.float64)
    """
    eps = ndgrad.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return logits of probabilities, clamped to be finite.

    Args:
        probs: probabilities.
        is_binary: whether logits are log odds. Otherwise they are logarithms.

    >>> import ndgrad
    >>> ndgrad.distributions.utils.probs_to_logits(ndgrad.tensor([0.75]), is_binary=True)
    tensor([1.0986])
    """
    clamped = clamp_probs(probs)
    return ndgrad.log(clamped) - ndgrad.log1p(-clamped) if is_binary else ndgrad.log(clamped)


class lazy_property(Generic[T]):
    """Decorator for a method without arguments: an attribute that is computed on first access, and cached.

    A value that belongs to a transform or to a function that is being compiled is not cached, since it is meaningless
    afterwards.

    Args:
        wrapped: method that computes the value.
    """

    def __init__(self, wrapped: Callable[[Any], T]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]  # for its name and docstring

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...
    def __get__(self, instance: object | None, owner: Any = None) -> T | lazy_property[T]:
        if instance is None:
            return self
        with ndgrad.enable_grad():
            value = self.wrapped(instance)
        if not _belongs_to_a_transform(value):
            setattr(instance, self.wrapped.__name__, value)
        return value


def _belongs_to_a_transform(value: object) -> bool:
    return isinstance(value, ndgrad.Tensor) and bool(
        own_level(value) or getattr(innermost_array(value), "is_traced", False)
    )


def are_all(passed: Tensor) -> bool:
    """True if all are true. Values are read through any surrounding transforms; tensors without data pass."""
    values = values_to_check(passed)
    return values is None or bool(values.all())


# ----- docstrings -----------------------------------------------------------------------------------------------------


def inherit_docstrings(cls: type) -> None:
    """Give each public method without a docstring that of the method which it overrides."""
    for name, method in vars(cls).items():
        if inspect.isfunction(method) and method.__doc__ is None and not name.startswith("_"):
            overridden = (vars(base).get(name) for base in cls.__mro__[1:])
            method.__doc__ = next((text for m in overridden if (text := getattr(m, "__doc__", None))), None)


# ----- shapes ---------------------------------------------------------------------------------------------------------


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """Return the sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim > 0 else value


def _standard_normal(shape: Sequence[int], dtype: Dtype, device: Device) -> Tensor:
    return ndgrad.randn(tuple(shape), dtype=dtype, device=device)


def nan_like(value: Tensor) -> Tensor:
    return ndgrad.full_like(value, float("nan"))


def inf_like(value: Tensor) -> Tensor:
    return ndgrad.full_like(value, float("inf"))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements of a matrix on and below a diagonal, row by row.

    Args:
        mat: square matrices in the last two dimensions.
        diag: number of the diagonal; 0 is the main one, and negative ones lie below.

    >>> import ndgrad
    >>> ndgrad.distributions.utils.tril_matrix_to_vec(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 3., 4.])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}]. The matrix has {n} columns. [nd-range]")
    rows, columns = ndgrad.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return the square matrix with a vector's elements on and below a diagonal, row by row, and 0 elsewhere.

    Args:
        vec: vectors along the last dimension, of the length of such a triangle.
        diag: number of the diagonal; 0 is the main one, and negative ones lie below.

    Raises:
        RuntimeError: if no triangle has this number of elements.

    >>> import ndgrad
    >>> ndgrad.distributions.utils.vec_to_tril_matrix(ndgrad.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 0.],
            [2., 3.]])
    """
    # There are n (n + 1) / 2 elements up to the main diagonal, for diag = 0 (with n - 1 instead of n for -1).
    count = vec.shape[-1]
    n = round(((1 + 8 * count) ** 0.5 - 1 - 2 * diag) / 2)
    rows, columns = ndgrad.tril_indices(n, n, diag)
    if len(rows) != count:
        raise RuntimeError(
            f"shape mismatch: a vector of {count} elements is no triangle: a matrix of {n} rows has {len(rows)} on and "
            f"below its diagonal {diag}. Give as many. [nd-shape]"
        )
    out = vec.new_zeros((*vec.shape[:-1], n, n))
    out[..., rows, columns] = vec
    return out
