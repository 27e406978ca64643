"""One log density in plain NumPy: ndgrad finds its mode and curvature, and emcee samples from it, starting
there."""

from __future__ import annotations

from typing import Any

import emcee
import numpy as np
from scipy import optimize

import ndgrad.numpy as dnp
from ndgrad import func


def log_posterior(theta: Any, x: Any, y: Any, yerr: Any) -> Any:
    """Return the log posterior of a straight line through points whose errors may be underestimated."""
    slope, offset, log_f = theta
    model = slope * x + offset
    variance = yerr**2 + model**2 * np.exp(2 * log_f)
    prior = -0.5 * np.sum((theta - np.array([-1.0, 4.0, -1.0])) ** 2 / 4.0)
    return prior - 0.5 * np.sum((y - model) ** 2 / variance + np.log(variance))


def main() -> float:
    """Return the largest deviation of the samples' means from the mode, in standard deviations."""
    rng = np.random.default_rng(1)
    x = np.sort(10 * rng.random(40))
    yerr = 0.1 + 0.3 * rng.random(40)
    y = -0.96 * x + 4.3 + np.abs(0.2 * (-0.96 * x + 4.3)) * rng.standard_normal(40) + yerr * rng.standard_normal(40)

    value_and_gradient = func.grad_and_value(lambda t: -log_posterior(t, x, y, yerr))

    def objective(theta: Any) -> tuple[float, Any]:
        gradient, value = value_and_gradient(dnp.asarray(theta))
        return value.item(), gradient.numpy()

    mode = optimize.minimize(objective, np.array([-1.0, 4.0, -1.5]), jac=True, method="BFGS").x
    hessian = func.hessian(lambda t: -log_posterior(t, x, y, yerr))(dnp.asarray(mode)).numpy()
    covariance = np.linalg.inv(hessian)

    sampler = emcee.EnsembleSampler(16, 3, log_posterior, args=(x, y, yerr))
    sampler.random_state = np.random.RandomState(2).get_state()
    sampler.run_mcmc(rng.multivariate_normal(mode, covariance, size=16), 400)
    samples: Any = sampler.get_chain(discard=100, flat=True)
    away = float(np.max(np.abs(samples.mean(axis=0) - mode) / np.sqrt(np.diag(covariance))))
    ratio = samples.std(axis=0) / np.sqrt(np.diag(covariance))
    print(
        f"mode {mode.round(3)}; the samples' means lie within {away:.2f} deviations of it, "
        f"their spread is {ratio.round(2)} times Laplace's"
    )
    return away


if __name__ == "__main__":
    main()
