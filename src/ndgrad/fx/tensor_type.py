"""Annotations of tensors with sizes, some of which are unknown: `TensorType((2, Dyn))`."""

from __future__ import annotations

from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class _DynType:
    """The class of `Dyn`, the unknown size or type."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"

    __str__ = __repr__


Dyn = _DynType()


class TensorType:
    """Type of tensors with these sizes.

    Args:
        dim: sizes, with `Dyn` for unknown ones.

    >>> from ndgrad.fx.tensor_type import Dyn, TensorType
    >>> TensorType((2, Dyn))
    TensorType[(2, Dyn)]
    """

    def __init__(self, dim: Any) -> None:
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self) -> str:
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(sizes: Any) -> TensorType:
        return TensorType(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes)


def is_consistent(t1: Any, t2: Any) -> bool:
    """True if two types may belong to the same value: unknown sizes agree with all.

    Args:
        t1: first type.
        t2: second type.

    >>> from ndgrad.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType((2, Dyn)), TensorType((2, 3)))
    True
    """
    if t1 == t2 or isinstance(t1, _DynType) or isinstance(t2, _DynType):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(
            is_consistent(a, b) for a, b in zip(t1.__args__, t2.__args__, strict=True)
        )
    return False


def is_more_precise(t1: Any, t2: Any) -> bool:
    """True if the first type says at least as much as the second.

    Args:
        t1: first type.
        t2: second type.

    >>> from ndgrad.fx.tensor_type import Dyn, TensorType, is_more_precise
    >>> is_more_precise(TensorType((2, 3)), TensorType((2, Dyn)))
    True
    """
    if t1 == t2 or isinstance(t2, _DynType):
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(
            is_more_precise(a, b) for a, b in zip(t1.__args__, t2.__args__, strict=True)
        )
    return False
