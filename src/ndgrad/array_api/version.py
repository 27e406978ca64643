"""Versions of the standard that `__array_namespace__` accepts. Each later one contains the earlier ones."""

from __future__ import annotations

import sys
from types import ModuleType

VERSION = "2024.12"
KNOWN = ("2021.12", "2022.12", "2023.12", VERSION)


def namespace(api_version: str | None) -> ModuleType:
    """Return the module for a version of the standard; None means the newest.

    >>> import ndgrad.array_api as xp
    >>> xp.zeros(1).__array_namespace__(api_version="2023.12") is xp
    True
    """
    if api_version is not None and api_version not in KNOWN:
        raise ValueError(
            f"__array_namespace__(): version {api_version!r} of the array API standard is not supported. "
            f"Ask for one of {', '.join(KNOWN)}, or leave api_version out. [nd-option]"
        )
    return sys.modules["ndgrad.array_api"]


