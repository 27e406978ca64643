"""Tensors rewrapped as another tensor class."""

from __future__ import annotations

from typing import Any

from ndgrad._src.core.captures import as_captured
from ndgrad._src.core.subclass import as_class


def with_face(t: Any, face: type[Any]) -> Any:
    """Return a tensor as the given tensor class."""
    return as_class(as_captured(t), face)


__all__ = ["with_face", "as_captured"]
