"""The contraction order of `einsum` with several operands: by opt_einsum if it is installed."""

from __future__ import annotations

import importlib.util

from ndgrad._src.foundations.switches import module_of_switches

_switches = module_of_switches(__name__, enabled=True, strategy="auto")


def is_available() -> bool:
    """True if opt_einsum is installed; `einsum` then uses it.

    >>> import ndgrad
    >>> isinstance(ndgrad.backends.opt_einsum.is_available(), bool)
    True
    """
    return importlib.util.find_spec("opt_einsum") is not None
