"""Compare a library of kernels with NumPy before its first use on a machine, and reject it if they differ.

Kernels are tested during development, on the available processors. On another one LLVM chooses other instructions, and
a fault of a tile or of LLVM itself would silently give wrong numbers. So a library of kernels comes with a check, for
instance some products of odd sizes, and its user asks

    reason = problem("matrix products", code, check)      # None: use it

`check(code)` runs the kernels on small arrays and returns a message, or None; `difference` words the comparison. It
runs once per process. It is skipped on the same machine while neither the code nor the processor nor LLVM changes,
because success is stored in the cache. Failure is not stored: it is reported once per process, as a warning, and the
caller uses NumPy instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ndgrad._src.compiler.native import cache
from ndgrad._src.compiler.native.target import Code
from ndgrad._src.foundations.locks import make_lock

Check: TypeAlias = Callable[[Code], str | None]

_PASSED = b"passed"
_verdicts: dict[str, str | None] = {}
_checking = make_lock()


def problem(name: str, code: Code, check: Check) -> str | None:
    """Return the reason why a library of kernels must not be used on this machine, or None if it may be used."""
    with _checking:  # a second thread waits for the verdict of the first
        if code.key not in _verdicts:
            _verdicts[code.key] = _judge(name, code, check)
        return _verdicts[code.key]


def _judge(name: str, code: Code, check: Check) -> str | None:
    entry = cache.key("selftest", name, code.key)
    if cache.load(entry) == _PASSED:
        return None
    try:
        reason = check(code)
    except Exception as error:
        reason = f"the check failed with {type(error).__name__}: {error}"
    if reason is None:
        cache.store(entry, _PASSED)
    else:
        warnings.warn(
            f"ndgrad's compiled {name} do not agree with NumPy on this machine ({code.target.cpu}): {reason}. NumPy is "
            "used in their place, which is slower. NDGRAD_COMPILE_CPU=generic may help; please report it.",
            RuntimeWarning,
            stacklevel=3,
        )
    return reason


def difference(what: str, found: Any, expected: Any, tolerance: float) -> str | None:
    """Describe the difference of two arrays if it exceeds `tolerance` times the largest expected magnitude. NaN and inf
    must be at the same places.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{what} is {found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    finite = np.isfinite(expected)
    if not np.array_equal(found[~finite], expected[~finite], equal_nan=True):
        return f"{what} has other values than NumPy where these are not finite"
    if not finite.any():
        return None
    far = np.abs(found[finite].astype(np.float64) - expected[finite].astype(np.float64))
    scale = max(float(np.abs(expected[finite]).max()), float(np.finfo(np.float64).tiny))
    worst = float(far.max()) if not np.isnan(far).any() else np.inf
    return None if worst <= tolerance * scale else f"{what} is off by {worst:.3g}, with values up to {scale:.3g}"
