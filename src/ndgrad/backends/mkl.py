"""Intel's MKL, if NumPy uses it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.backends.cpu import build

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """True if NumPy's linear algebra is MKL's.

    >>> import ndgrad
    >>> isinstance(ndgrad.backends.mkl.is_available(), bool)
    True
    """
    return "mkl" in str(build().get("Build Dependencies", {}).get("blas", {}).get("name", "")).lower()


class verbose:
    """Block in which MKL would print its calls. It raises an error, because NumPy calls MKL.

    Args:
        enable: `VERBOSE_OFF`. Other values raise RuntimeError.
    """

    def __init__(self, enable: int) -> None:
        if enable != VERBOSE_OFF:
            raise RuntimeError(
                "backends.mkl.verbose: MKL is called by NumPy and cannot be told from here to print its calls. "
                "Set the environment variable MKL_VERBOSE=1 before Python starts. [nd-unsupported]"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        pass


_refuse_absent(__name__)
