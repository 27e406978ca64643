"""Tensors as somebody else is to see them: by an outer watch, with another face."""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.modes import thread
from ndgrad.autograd.subclass import as_class


def as_captured(t: Any) -> Any:
    """A tensor as ops would see it. Whoever looks at tensors without calling an op asks here first, since the function
    that is running may be somebody's closure (see Note [Watching and replacing])."""
    return t if thread.captures is None else thread.captures.one(t)


def with_face(t: Any, face: type[Any]) -> Any:
    """A tensor with a given face."""
    return as_class(as_captured(t), face)


__all__ = ["with_face", "as_captured"]
