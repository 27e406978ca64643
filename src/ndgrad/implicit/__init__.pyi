# Written by scripts/surface.py from the declarations of public functions. Do not edit.

from ndgrad.implicit.convergence import (
    ConvergenceError as ConvergenceError, ConvergenceWarning as ConvergenceWarning, SingularError as SingularError,
)
from ndgrad.implicit.linear import linear_solve as linear_solve
from ndgrad.implicit.odes import OdeResult as OdeResult, solve_ivp as solve_ivp
from ndgrad.implicit.optima import least_squares as least_squares, minimize as minimize
from ndgrad.implicit.quadrature import quad as quad
from ndgrad.implicit.roots import fixed_point as fixed_point, root as root

def __dir__() -> list[str]: ...
