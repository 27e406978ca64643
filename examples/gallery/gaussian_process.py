"""A Gaussian process whose length, height and noise are found by maximising the marginal likelihood."""

from __future__ import annotations

import math

import numpy as np

import ndgrad
import ndgrad.numpy as dnp


# Nearby points have similar values: the covariance falls with the squared distance.
def covariance(a, b, log_length, log_height):
    return dnp.exp(2 * log_height - 0.5 * ((a[:, None] - b) / dnp.exp(log_length)) ** 2)


# The likelihood of the data needs a factorisation of the covariance matrix. Its derivative goes
# through `cholesky` and `solve`.
def negative_log_likelihood(theta, x, y):
    k = covariance(x, x, theta[0], theta[1]) + dnp.exp(2 * theta[2]) * np.eye(len(x))
    factor = dnp.linalg.cholesky(k)
    white = dnp.linalg.solve(factor, y)
    return 0.5 * (white @ white) + dnp.log(dnp.diagonal(factor)).sum() + 0.5 * len(x) * math.log(2 * math.pi)


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The root mean square error of the prediction between the data points, and the prediction."""
    # The data are a sine with noise. The logarithms of length, height and noise are the unknowns, so
    # that all three stay positive.
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 24 if quick else 60))
    y = np.sin(2 * x) + 0.05 * rng.normal(size=len(x))
    theta = dnp.array([0.0, 0.0, -1.0]).requires_grad_()
    optimizer = ndgrad.optim.LBFGS([theta], max_iter=60, line_search_fn="strong_wolfe")

    # L-BFGS calls a closure, which returns the loss and leaves its gradient in `theta.grad`.
    def closure():
        optimizer.zero_grad()
        loss = negative_log_likelihood(theta, x, y)
        loss.backward()
        return loss

    # One call runs the whole optimisation.
    optimizer.step(closure)
    length, height, noise = np.exp(theta.detach().numpy())
    print(f"length {length:.3f}, height {height:.3f}, noise {noise:.3f} (true noise 0.05)")

    # Prediction between the data points, with its uncertainty.
    at = np.linspace(-2.5, 2.5, 50)
    with ndgrad.no_grad():
        k = covariance(x, x, theta[0], theta[1]) + noise**2 * np.eye(len(x))
        across = covariance(at, x, theta[0], theta[1])
        mean = (across @ dnp.linalg.solve(k, y)).numpy()
        spread = np.sqrt(height**2 - (across * dnp.linalg.solve(k, across.T).T).sum(1).numpy())
    error = float(np.sqrt(np.mean((mean - np.sin(2 * at)) ** 2)))
    print(f"error between the data {error:.4f}")
    chart = ndgrad.viz.Chart("a Gaussian process", x="x")
    chart.band(at, mean - 2 * spread, mean + 2 * spread, "two deviations")
    return error, chart.line(at, mean, "prediction").points(x, y, "data")


if __name__ == "__main__":
    main()[1].save("gaussian_process.svg")
