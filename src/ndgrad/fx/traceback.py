"""Metadata that tracers copy to every new node while a block asks for it."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = [
    "annotate", "annotate_fn", "format_stack", "get_current_meta", "has_preserved_node_meta", "preserve_node_meta",
    "set_current_meta", "set_stack_trace",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

_meta: ContextVar[dict[str, Any]] = ContextVar("fx_meta", default={})  # noqa: B039  # replaced, never changed
_preserved: ContextVar[bool] = ContextVar("fx_preserved", default=False)


def has_preserved_node_meta() -> bool:
    """True inside `preserve_node_meta`.

    >>> from ndgrad.fx.traceback import has_preserved_node_meta, preserve_node_meta
    >>> with preserve_node_meta():
    ...     has_preserved_node_meta()
    True
    """
    return _preserved.get()


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Return a block in which tracers copy the current metadata to new nodes.

    Args:
        enable: whether metadata is copied.
    """
    tokens = _preserved.set(enable), _meta.set({**_meta.get()})
    try:
        yield
    finally:
        _preserved.reset(tokens[0])
        _meta.reset(tokens[1])


def get_current_meta() -> dict[str, Any]:
    """Return the metadata for new nodes."""
    return _meta.get()


@contextmanager
def set_current_meta(node: Any, pass_name: str = "") -> Iterator[None]:
    """Return a block in which new nodes take the metadata of a node, inside `preserve_node_meta`.

    Args:
        node: node with the metadata.
        pass_name: accepted as in torch; has no effect.
    """
    token = _meta.set({**node.meta} if _preserved.get() else _meta.get())
    try:
        yield
    finally:
        _meta.reset(token)


def set_stack_trace(stack: list[str]) -> None:
    """Set the lines that new nodes keep as their trace, inside `preserve_node_meta`.

    Args:
        stack: lines of the trace.
    """
    if _preserved.get() and stack:
        _meta.set({**_meta.get(), "stack_trace": "".join(stack)})


def format_stack() -> list[str]:
    """Return the lines of the current trace: of the metadata, or else of the running code."""
    if _preserved.get():
        return [_meta.get().get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Return a block in which new nodes take these entries in `meta["custom"]`.

    Args:
        annotation_dict: entries to add.
    """
    before = _meta.get()
    tokens = (
        _preserved.set(True),
        _meta.set({**before, "custom": {**before.get("custom", {}), **annotation_dict}}),
    )
    try:
        yield
    finally:
        _preserved.reset(tokens[0])
        _meta.reset(tokens[1])


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[F], F]:
    """Decorate a function: its nodes take these entries, as with `annotate`.

    Args:
        annotation_dict: entries to add.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call  # type: ignore[return-value]  # the same signature

    return decorate
