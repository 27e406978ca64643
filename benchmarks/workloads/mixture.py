"""A Gaussian mixture model's log-likelihood, with the parametrisation and the sizes of the ADBench suite.

Parameters of component k: a weight alpha_k, a mean mu_k, and the inverse square root of its covariance, a lower
triangular Q_k with exp(q_k) on the diagonal and l_k below it (Srajer, Kukelova, Fitzgibbon: A benchmark of selected
algorithmic differentiation tools on some problems in computer vision and machine learning, 2018). Up to constants

    sum_i logsumexp_k (alpha_k + sum q_k - |Q_k (x_i - mu_k)|^2 / 2) - n logsumexp(alpha)
        - sum_k (gamma^2 / 2 (|exp q_k|^2 + |l_k|^2) - m sum q_k)

The last line is a Wishart prior.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

POINTS = 1000
GAMMA, EXCESS = 1.0, 0


def arrays(width: int, components: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Return alpha, mu, q, l; then the points; then the origin of the elements of each Q (the last: a zero), and a mask
    of its diagonal."""
    random = np.random.default_rng(0)
    below = width * (width - 1) // 2
    parameters = [
        random.standard_normal(components),
        random.random((components, width)),
        0.3 * random.standard_normal((components, width)),
        0.3 * random.standard_normal((components, below)),
    ]
    places = np.full((width, width), below)
    places[np.tril_indices(width, -1)] = np.arange(below)
    return parameters, random.random((POINTS, width)), places.ravel(), np.eye(width)


def _register(name: str, width: int, components: int, compiled_goal: float) -> None:
    title = f"Gaussian mixture, d {width}, K {components}, n {POINTS}"

    @workload(name, title=title, compiled_goal=compiled_goal, tolerance=1e-8, group="adbench")
    def mixture(torch: Any) -> Step:
        """Compute all components at once."""
        weights, points, places, eye = arrays(width, components)
        alpha, mu, q, l = parameters = leaves(torch, weights)
        x, indices, diagonal = torch.tensor(points), torch.tensor(places), torch.tensor(eye)
        zero = torch.tensor(np.zeros((components, 1)))

        def loss() -> Any:
            scale = torch.exp(q)
            lower = torch.cat([l, zero], 1)[:, indices].reshape(components, width, width)
            root = lower + scale[:, :, None] * diagonal
            distances = ((x - mu[:, None, :]) @ root.transpose(1, 2)).square().sum(2)
            terms = (alpha + q.sum(1))[:, None] - 0.5 * distances
            prior = 0.5 * GAMMA**2 * (scale.square().sum() + l.square().sum()) - EXCESS * q.sum()
            return torch.logsumexp(terms, 0).sum() - POINTS * torch.logsumexp(alpha, 0) - prior

        return backward_step(loss, parameters)

    @mixture.functional
    def mixture_functional(dialect: Functional) -> Step:
        """Compute the same in the functional dialect."""
        weights, points, places, eye = arrays(width, components)
        np_ = dialect.np

        def loss(parameters: list[Any], x: Any, zero: Any, diagonal: Any) -> Any:
            alpha, mu, q, l = parameters
            scale = np_.exp(q)
            lower = np_.reshape(np_.concatenate([l, zero], axis=1)[:, places], (components, width, width))
            root = lower + scale[:, :, None] * diagonal
            distances = np_.sum(np_.matmul(x - mu[:, None, :], np_.swapaxes(root, 1, 2)) ** 2, axis=2)
            terms = (alpha + np_.sum(q, axis=1))[:, None] - 0.5 * distances
            prior = 0.5 * GAMMA**2 * (np_.sum(scale**2) + np_.sum(l**2)) - EXCESS * np_.sum(q)
            return np_.sum(dialect.logsumexp(terms, axis=0)) - POINTS * dialect.logsumexp(alpha, axis=0) - prior

        return functional_step(dialect, loss, weights, points, np.zeros((components, 1)), eye)


_register("mixture-small", 10, 25, 0.30)
_register("mixture-large", 64, 100, 0.55)
