"""Errors and warnings of solvers that did not converge.

The derivative of a solution is the derivative of an equation that holds. If it does not hold, there is no derivative.
So an error is the default, and it states the residual of the equation.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Library


class ConvergenceError(RuntimeError):
    """A solver stopped before it had a solution. `x` is its last point, `residual` the remaining error.

    Args:
        message: text of the error.
        x: last point of the solver.
        residual: remaining error at that point.

    >>> from ndgrad import implicit
    >>> try:
    ...     implicit.root(lambda x: x * x + 1.0, 0.5)
    ... except implicit.ConvergenceError as error:
    ...     print(error.residual >= 1.0)
    True
    """

    def __init__(self, message: str, x: NDArray[Any] | None = None, residual: float | None = None) -> None:
        super().__init__(message)
        self.x = x
        self.residual = residual


class ConvergenceWarning(RuntimeWarning):
    """The warning instead of a ConvergenceError with `on_failure="warn"`.

    >>> from ndgrad import implicit
    >>> issubclass(implicit.ConvergenceWarning, RuntimeWarning)
    True
    """


class SingularError(np.linalg.LinAlgError, RuntimeError):
    """The equations do not determine the solution's derivative.

    >>> import numpy
    >>> from ndgrad import implicit
    >>> issubclass(implicit.SingularError, numpy.linalg.LinAlgError)
    True
    """


class SolverResult(Protocol):
    """The attributes of SciPy's `OptimizeResult` that are read here."""

    x: NDArray[Any]
    success: bool
    message: str


def not_converged(name: str, reason: str, residual: float, remedy: str, x: NDArray[Any], on_failure: str) -> None:
    """Raise an error, or warn if the caller accepts failures."""
    text = (
        f"{name}: the solver did not converge ({' '.join(reason.split())}); "
        f"the largest residual is {residual:.3g}. {remedy}"
    )
    if on_failure == "raise":
        raise ConvergenceError(f"{text} [nd-no-convergence]", x, residual)
    if on_failure == "warn":
        warnings.warn(
            text + " Derivatives of this result are those of an equation that does not hold.",
            ConvergenceWarning,
            stacklevel=4,
        )


def check_on_failure(name: str, on_failure: str) -> None:
    """Check a user's `on_failure`; SciPy's own names, whose results report failure, use "return" internally."""
    if on_failure not in ("raise", "warn", "return"):
        raise ValueError(f"{name}: on_failure is {on_failure!r}. Choose 'raise' or 'warn'. [nd-option]")


def singular(name: str, what: str, shape: tuple[int, ...]) -> SingularError:
    return SingularError(
        f"{name}: {what} (shape {shape}) is singular at the solution, so the solution is no differentiable "
        "function of the parameters there (a double root, or a flat direction of the objective). "
        "Change the problem so that the solution is isolated, or add a small regularising term. [nd-singular]"
    )


def scipy_module(name: str, needed_by: str) -> Library:
    """Return a module of SciPy, which is an optional dependency."""
    import importlib

    try:
        return importlib.import_module(f"scipy.{name}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{needed_by} runs on SciPy's solvers, which are not installed: pip install scipy. [nd-install]"
        ) from error


__all__ = [
    "ConvergenceError", "ConvergenceWarning", "SingularError", "SolverResult", "check_on_failure", "not_converged",
    "scipy_module", "singular",
]  # fmt: skip
