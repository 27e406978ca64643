"""Tensors with another face, as somebody else is to see them."""

from __future__ import annotations

from typing import Any

from ndgrad._src.core.captures import as_captured
from ndgrad._src.core.subclass import as_class


def with_face(t: Any, face: type[Any]) -> Any:
    """A tensor with a given face."""
    return as_class(as_captured(t), face)


__all__ = ["with_face", "as_captured"]
