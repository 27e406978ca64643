"""Arm's KleidiAI, which is not used."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def is_available() -> bool:
    """Return False."""
    return False


_refuse_absent(__name__)
