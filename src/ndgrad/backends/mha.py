"""torch's fast path of transformers in eval mode; ndgrad has only one path."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.switches import Switches

_switches = Switches("ndgrad.backends.mha", fastpath=True)


def get_fastpath_enabled() -> bool:
    """Return the value set by `set_fastpath_enabled`."""
    return bool(_switches.fastpath)


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid a path that ndgrad does not have.

    Args:
        value: new value of the switch.
    """
    _switches.fastpath = bool(value)


_refuse_absent(__name__)
