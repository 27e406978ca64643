"""Optimization on manifolds: a backend for pymanopt.

The backend gives gradients and Hessian products of a cost function; pymanopt handles the geometry.
"""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# pymanopt's abstract methods have no types, so pyright takes `None` for their results.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymanopt
from pymanopt.autodiff import backend_decorator_factory
from pymanopt.autodiff.backends._backend import Backend

import ndgrad.numpy as dnp
from ndgrad import func


class NdgradBackend(Backend):
    """Cost functions written for NumPy, differentiated by ndgrad."""

    def __init__(self) -> None:
        super().__init__("ndgrad")

    @staticmethod
    def is_available() -> bool:
        return True

    def prepare_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: float(function(*map(dnp.asarray, args)))

    def generate_gradient_operator(self, function: Callable[..., Any], num_arguments: int) -> Callable[..., Any]:
        gradient = func.grad(function, argnums=tuple(range(num_arguments)))

        def call(*args: Any) -> Any:
            found = [g.numpy() for g in gradient(*map(dnp.asarray, args))]
            return found[0] if num_arguments == 1 else found

        return call

    def generate_hessian_operator(self, function: Callable[..., Any], num_arguments: int) -> Callable[..., Any]:
        gradient = func.grad(function, argnums=tuple(range(num_arguments)))

        def call(*args: Any) -> Any:
            points, vectors = args[:num_arguments], args[num_arguments:]
            _, products = func.jvp(gradient, tuple(map(dnp.asarray, points)), tuple(map(dnp.asarray, vectors)))
            found = [p.numpy() for p in products]
            return found[0] if num_arguments == 1 else found

        return call


differentiated_by_ndgrad = backend_decorator_factory(NdgradBackend)


def main() -> float:
    """Return the distance of the minimum from the largest eigenvalue."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((8, 8))
    A = A + A.T
    manifold = pymanopt.manifolds.Sphere(8)

    @differentiated_by_ndgrad(manifold)
    def cost(x: Any) -> Any:
        return -x @ A @ x

    problem = pymanopt.Problem(manifold, cost)
    found = pymanopt.optimizers.TrustRegions(verbosity=0).run(problem, initial_point=np.ones(8) / np.sqrt(8.0))
    error = abs(-found.cost - np.linalg.eigvalsh(A).max())
    print(
        f"the largest eigenvalue to within {error:.1e}, in {found.iterations} iterations of trust "
        "regions with exact Hessians"
    )
    return error


if __name__ == "__main__":
    main()
