"""SciPy's optimizers with exact derivatives, and derivatives of their results."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

import ndgrad.numpy as dnp
import ndgrad.scipy.optimize
from ndgrad import func


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def main() -> tuple[float, float]:
    """Return the distance of two minima from ones, and the error of the derivative of a minimum."""
    gradient = func.grad(rosenbrock)

    # Explicit derivatives: SciPy gets functions of plain arrays.
    by_hand = optimize.minimize(
        lambda x: float(rosenbrock(x)),
        np.zeros(6),
        jac=lambda x: gradient(dnp.asarray(x)).numpy(),
        hessp=lambda x, v: func.jvp(gradient, (dnp.asarray(x),), (dnp.asarray(v),))[1].numpy(),
        method="trust-ncg",
    )
    # Automatic derivatives, for a nested structure.
    nested = ndgrad.scipy.optimize.minimize(
        lambda p: rosenbrock(np.concatenate([p["a"], p["b"]])), {"a": np.zeros(3), "b": np.zeros(3)}
    )
    apart = max(float(np.abs(by_hand.x - 1).max()), float(np.abs(nested.x["a"].numpy() - 1).max()))

    # The minimum is a differentiable function of the parameters: argmin_x of cosh(x) - a x is arcsinh(a).
    a = dnp.array(0.7).requires_grad_()
    ndgrad.scipy.optimize.minimize(lambda x: np.cosh(x) - a * x, dnp.array(0.0)).x.backward()
    wrong = abs(a.grad.item() - 1 / np.sqrt(1 + 0.7**2))
    print(
        f"{by_hand.nhev} Hessian products by hand; minima within {apart:.1e}; "
        f"the derivative of a minimum within {wrong:.1e}"
    )
    return apart, wrong


if __name__ == "__main__":
    main()
