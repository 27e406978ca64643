"""A Gaussian process whose length, height and noise are found by maximising the marginal likelihood."""

from __future__ import annotations

import math

import numpy as np

import ndgrad
import ndgrad.numpy as dnp


def covariance(a, b, log_length, log_height):
    return dnp.exp(2 * log_height - 0.5 * ((a[:, None] - b) / dnp.exp(log_length)) ** 2)


def negative_log_likelihood(theta, x, y):
    k = covariance(x, x, theta[0], theta[1]) + dnp.exp(2 * theta[2]) * np.eye(len(x))
    factor = dnp.linalg.cholesky(k)
    white = dnp.linalg.solve(factor, y)
    return 0.5 * (white @ white) + dnp.log(dnp.diagonal(factor)).sum() + 0.5 * len(x) * math.log(2 * math.pi)


def main(quick: bool = False) -> float:
    """The root mean square error of the prediction between the data."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, 24 if quick else 60))
    y = np.sin(2 * x) + 0.05 * rng.normal(size=len(x))
    theta = dnp.array([0.0, 0.0, -1.0]).requires_grad_()
    optimizer = ndgrad.optim.LBFGS([theta], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = negative_log_likelihood(theta, x, y)
        loss.backward()
        return loss

    optimizer.step(closure)
    length, height, noise = np.exp(theta.detach().numpy())
    print(f"length {length:.3f}, height {height:.3f}, noise {noise:.3f} (true noise 0.05)")
    at = np.linspace(-2.5, 2.5, 50)
    with ndgrad.no_grad():
        k = covariance(x, x, theta[0], theta[1]) + noise**2 * np.eye(len(x))
        mean = covariance(at, x, theta[0], theta[1]) @ dnp.linalg.solve(k, y)
    return float(np.sqrt(np.mean((mean.numpy() - np.sin(2 * at)) ** 2)))


if __name__ == "__main__":
    print(f"error between the data {main():.4f}")
