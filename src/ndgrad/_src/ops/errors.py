"""The errors that ops raise.

NumPy raises ValueError and TypeError for mistakes for which torch raises RuntimeError and NotImplementedError. The
errors here derive from both, so that `except` clauses written for either library catch them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad.errors")
class ShapeError(RuntimeError, ValueError):
    """Shapes that cannot be broadcast together."""


@set_module("ndgrad.errors")
class DtypeError(NotImplementedError, TypeError):
    """A dtype for which an op is not defined."""


@set_module("ndgrad.errors")
class DomainError(RuntimeError, ValueError):
    """Values for which an op is not defined."""


def refuse_complex(name: str, *arrays: Any) -> None:
    """Raise an error for complex arrays, in functions whose rules hold for real numbers only."""
    for x in arrays:
        if np.iscomplexobj(x) if not hasattr(x, "dtype") else x.dtype.kind == "c":
            what = x.dtype if hasattr(x, "dtype") else type(x).__name__
            raise NotImplementedError(
                f"{name}() is a function of real numbers, but got {what}. Take .real, .imag or .abs() first. "
                "[nd-complex]"
            )
