"""OpenMP, which is not used: threads belong to Python and to native kernels."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def is_available() -> bool:
    """Return False."""
    return False


_refuse_absent(__name__)
