"""oneDNN, which is not used."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ndgrad._src.foundations.switches import module_of_switches

_switches = module_of_switches(__name__, enabled=True, deterministic=False, allow_tf32=True, fp32_precision="none")


def is_available() -> bool:
    """Return False."""
    return False


def is_acl_available() -> bool:
    """Return False."""
    return False


def flags(enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True) -> AbstractContextManager[None]:
    """Return a context in which the switches are set.

    Args:
        enabled: whether oneDNN may be used.
        deterministic: whether algorithms must be deterministic.
        allow_tf32: whether products may use TF32.
    """
    return _switches.during(enabled=enabled, deterministic=deterministic, allow_tf32=allow_tf32)
