"""NNPACK, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ndgrad.backends.switching import module_of_switches

_switches = module_of_switches(__name__, enabled=True)


def is_available() -> bool:
    """False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the switch, and say what it was."""
    return (_switches.set(enabled=_enabled)["enabled"],)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """A block in which the switch is set."""
    return _switches.during(enabled=enabled)
