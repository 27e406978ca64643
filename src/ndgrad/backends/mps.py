"""Apple's GPUs, which are not used."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def is_available() -> bool:
    """Return False.

    >>> import ndgrad
    >>> ndgrad.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """Return False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """True if the system is macOS of at least that version.

    Args:
        major: first part of the version.
        minor: second part of the version.
    """
    import platform

    found = platform.mac_ver()[0]
    return bool(found) and tuple(map(int, (found + ".0").split(".")[:2])) >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """True if the system is macOS of at least version 13.minor.

    Args:
        minor: second part of the version.
    """
    return is_macos_or_newer(13, minor)


_refuse_absent(__name__)
