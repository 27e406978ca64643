"""AMD's MIOpen, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ndgrad._src.foundations.switches import module_of_switches

_switches = module_of_switches(__name__, immediate=False)


def flags(immediate: bool = False) -> AbstractContextManager[None]:
    """Return a context in which the switch is set.

    Args:
        immediate: value of the switch.
    """
    return _switches.during(immediate=immediate)
