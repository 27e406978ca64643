"""Switches that store their value without effect (see `ndgrad.backends`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from ndgrad._src.foundations.missing_names import refusal


class Switches:
    """Named settings, each of the type of its default: only these attributes can be assigned."""

    def __init__(self, owner: str, **defaults: Any) -> None:
        vars(self).update(_owner=owner, _names=frozenset(defaults), **defaults)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise AttributeError(
                f"{self._owner} has no setting {name!r}. There are {', '.join(map(repr, sorted(self._names)))}. "
                "[nd-option]"
            )
        kind = type(getattr(self, name))
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise RuntimeError(
                f"{self._owner}.{name} expects {kind.__name__}, but got {type(value).__name__}. [nd-type]"
            )
        vars(self)[name] = value

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{vars(self)['_owner']} has no setting {name!r}. [nd-option]")

    def set(self, **values: Any) -> dict[str, Any]:
        """Set several, and return their old values; None leaves one unchanged."""
        before = {name: getattr(self, name) for name in values}
        for name, value in values.items():
            if value is not None:
                setattr(self, name, value)
        return before

    @contextmanager
    def during(self, **values: Any) -> Iterator[None]:
        """Return a context in which several are set."""
        before = self.set(**values)
        try:
            yield
        finally:
            self.set(**before)


class _Module(ModuleType):
    """A module with switches among its attributes: assigning one sets it."""

    _switches: Switches

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._switches._names:
            setattr(self._switches, name, value)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self._switches._names:
            return getattr(self._switches, name)
        raise refusal(self.__name__, name)


def module_of_switches(name: str, **defaults: Any) -> Switches:
    """Give a module new switches: `ndgrad.backends.cudnn.benchmark = True`."""
    switches = Switches(name, **defaults)
    give_switches(name, switches)
    return switches


def give_switches(name: str, switches: Switches) -> None:
    """Make existing switches attributes of a module."""
    module = sys.modules[name]
    vars(module)["_switches"] = switches
    module.__class__ = _Module
