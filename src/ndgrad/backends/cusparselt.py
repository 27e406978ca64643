"""NVIDIA's cuSPARSELt, which is not used."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def is_available() -> bool:
    """Return False."""
    return False


def version() -> int | None:
    """Return None: there is no cuSPARSELt."""
    return None


def get_max_alg_id() -> int | None:
    """Return None: there is no cuSPARSELt."""
    return None


_refuse_absent(__name__)
