"""Replacements that hold during a trace: methods of modules, wrapped functions, and functions of wrapped modules.

A trace replaces names of modules and classes for all threads, so every replacement passes calls from other threads and
calls without proxies on to the original. One thread traces at a time; traces inside traces nest.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from ndgrad._src.foundations.locks import make_lock
from ndgrad.fx.node import map_aggregate
from ndgrad.fx.proxy import Proxy

#: Global functions registered by `wrap`: (identity of the module's globals, name) -> globals.
wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
#: Methods registered by `wrap` on classes: (class, name).
wrapped_methods: list[tuple[type[Any], str]] = []

_lock = make_lock()
_MISSING = object()


def find_proxy(*values: Any) -> Proxy | None:
    """Return a proxy among values and their containers, or None."""
    found: list[Proxy] = []

    def note(leaf: Any) -> Any:
        if isinstance(leaf, Proxy):
            found.append(leaf)
        return leaf

    map_aggregate(values, note)
    return found[0] if found else None


def record_calls(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that records calls with proxies as one node, and passes other calls on."""

    @functools.wraps(original)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", original, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    record._is_recording = True  # type: ignore[attr-defined]  # functions take attributes
    return record


def record_method_calls(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method that records calls with proxies as a call of the method."""

    @functools.wraps(original)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return record


class Patches:
    """A block with replacements, which are taken back in reverse order at its end."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._visited: set[int] = set()

    def __enter__(self) -> Self:
        _lock.acquire()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            while self._undo:
                owner, name, original = self._undo.pop()
                if isinstance(owner, dict):
                    if original is _MISSING:
                        owner.pop(name, None)
                    else:
                        owner[name] = original
                elif original is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
        finally:
            self._visited.clear()
            _lock.release()

    def replace_global(self, scope: dict[str, Any], name: str, new: Any) -> None:
        self._undo.append((scope, name, scope.get(name, _MISSING)))
        scope[name] = new

    def replace_method(self, cls: type[Any], name: str, new: Any) -> None:
        self._undo.append((cls, name, vars(cls).get(name, _MISSING)))
        setattr(cls, name, new)

    def replace_wrapped(self) -> None:
        """Replace everything that `wrap` registered."""
        for (_, name), scope in list(wrapped_functions.items()):
            original = scope.get(name, vars(builtins).get(name))
            if original is not None and not hasattr(original, "_is_recording"):
                self.replace_global(scope, name, record_calls(original))
        for cls, name in wrapped_methods:
            self.replace_method(cls, name, record_method_calls(getattr(cls, name), name))

    def replace_recorded(self, scope: dict[str, Any], functions: Iterable[int]) -> None:
        """Replace the functions with these identities in the globals of a module, once for each module."""
        if id(scope) in self._visited or scope is vars(builtins):
            return
        self._visited.add(id(scope))
        known = frozenset(functions)
        for name, value in list(scope.items()):
            if not name.startswith("_") and callable(value) and id(value) in known:
                self.replace_global(scope, name, record_calls(value))
