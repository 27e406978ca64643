"""OpenMP, which is not used: threads are Python's and those of native kernels."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def is_available() -> bool:
    """False."""
    return False


_refuse_absent(__name__)
