"""The errors that ops raise.

NumPy's classes (ValueError, TypeError) are not torch's (RuntimeError, NotImplementedError). The errors here belong to
both worlds' classes, so that `except` clauses written for either catch them.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class ShapeError(RuntimeError, ValueError):
    """Shapes that cannot be broadcast together."""


class DtypeError(NotImplementedError, TypeError):
    """A dtype for which an op is not defined."""


class DomainError(RuntimeError, ValueError):
    """Values for which an op is not defined."""


def refuse_complex(name: str, *arrays: Any) -> None:
    """For functions whose rules hold on the real line only, while their formulas would give some number elsewhere."""
    for x in arrays:
        if np.iscomplexobj(x) if not hasattr(x, "dtype") else x.dtype.kind == "c":
            what = x.dtype if hasattr(x, "dtype") else type(x).__name__
            raise NotImplementedError(
                f"{name}() is a function of real numbers, and got {what}. Take .real, .imag or .abs() first. "
                "[nd-complex]"
            )
