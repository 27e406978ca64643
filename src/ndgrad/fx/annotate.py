"""Annotations of types on values of a trace."""

from __future__ import annotations

from typing import TypeVar

from ndgrad.fx.proxy import Proxy

__all__ = ["annotate"]

T = TypeVar("T")


def annotate(val: T, type: object) -> T:
    """Give the node of a proxy a type; other values pass through.

    >>> from ndgrad.fx.annotate import annotate
    >>> annotate(3, int)
    3
    """
    if isinstance(val, Proxy):
        if val.node.type is not None:
            raise RuntimeError(
                f"Tried to annotate a value that already had a type on it! Existing type is {val.node.type} and new "
                f"type is {type}. This could happen if you tried to annotate a function parameter value. [nd-fx-graph]"
            )
        val.node.type = type
    return val
