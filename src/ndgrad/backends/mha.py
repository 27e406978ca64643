"""torch's fast path of transformers in eval mode, which is not here: there is one path."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.backends.switching import Switches

_switches = Switches("ndgrad.backends.mha", fastpath=True)


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` has set."""
    return bool(_switches.fastpath)


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid a path that is not here."""
    _switches.fastpath = bool(value)


_refuse_absent(__name__)
