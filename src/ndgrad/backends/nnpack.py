"""NNPACK, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ndgrad._src.foundations.switches import module_of_switches

_switches = module_of_switches(__name__, enabled=True)


def is_available() -> bool:
    """Return False."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the switch, and return its old value."""
    return (_switches.set(enabled=_enabled)["enabled"],)


def flags(enabled: bool = False) -> AbstractContextManager[None]:
    """Return a context in which the switch is set.

    Args:
        enabled: value of the switch.
    """
    return _switches.during(enabled=enabled)
