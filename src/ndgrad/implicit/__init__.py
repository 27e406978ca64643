"""Solvers as differentiable functions: roots, fixed points, linear systems, optima, differential equations, integrals.

SciPy does the numerical work. Derivatives, of every order and in both modes, come from the equation that the result
satisfies, never from the solver's steps. So memory for backward does not grow with the number of steps.
"""

from __future__ import annotations

from typing import Any

_HOMES = {
    **dict.fromkeys(("fixed_point", "root"), "roots"),
    "linear_solve": "linear",
    **dict.fromkeys(("least_squares", "minimize"), "optima"),
    **dict.fromkeys(("OdeResult", "solve_ivp"), "odes"),
    "quad": "quadrature",
    **dict.fromkeys(("ConvergenceError", "ConvergenceWarning", "SingularError"), "convergence"),
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ndgrad.implicit' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ndgrad.implicit.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
