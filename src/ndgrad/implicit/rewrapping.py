"""Tensors rewrapped as another tensor class."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ndgrad._src.core.captures import as_captured
from ndgrad._src.core.subclass import as_class

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

T = TypeVar("T", bound="Tensor")


def with_tensor_type(t: Tensor, tensor_type: type[T]) -> T:
    """Return a tensor as the given tensor class."""
    return as_class(as_captured(t), tensor_type)


__all__ = ["with_tensor_type", "as_captured"]
