"""torch's `mps` namespace: Apple's GPUs, which are not used here."""

from __future__ import annotations

from typing import NoReturn

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def is_available() -> bool:
    """Return False.

    >>> import ndgrad
    >>> ndgrad.mps.is_available(), ndgrad.mps.device_count()
    (False, 0)
    """
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"mps.{what}() needs a GPU of Apple's, and none is used here. Ask mps.is_available() first. [nd-gpu]"
    )


def synchronize() -> None:
    """Raise an error: there is no such GPU."""
    _refuse("synchronize")


def empty_cache() -> None:
    """Raise an error: there is no such GPU."""
    _refuse("empty_cache")


def manual_seed(seed: int) -> None:
    """Raise an error: there is no such GPU.

    Args:
        seed: not used.
    """
    _refuse("manual_seed")


def seed() -> None:
    """Raise an error: there is no such GPU."""
    _refuse("seed")


def current_allocated_memory() -> int:
    """Raise an error: there is no such GPU."""
    _refuse("current_allocated_memory")


def driver_allocated_memory() -> int:
    """Raise an error: there is no such GPU."""
    _refuse("driver_allocated_memory")


_refuse_absent(__name__)
