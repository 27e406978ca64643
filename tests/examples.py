"""How many examples a property tries."""

from __future__ import annotations

from hypothesis import settings


def at_least(number: int) -> settings:
    """This many examples in a short run, and as many as any other property in a long one."""
    return settings(max_examples=max(number, settings.default.max_examples))
