"""Variational inference: the normal distribution nearest to a posterior, by reparametrised samples.

The model is linear regression. Its posterior is known in closed form, so the result can be compared with it.
"""

from __future__ import annotations

import numpy as np

import ndgrad
from ndgrad.distributions import Normal, kl_divergence


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The distance of the mean from the exact posterior mean, in standard deviations, and both densities."""
    # The data are 40 points on a line with noise. The unknowns are the mean and the logarithm of the
    # scale of a normal distribution for both weights.
    rng = np.random.default_rng(0)
    x = np.stack([np.ones(40), rng.normal(size=40)], 1)
    y = x @ [0.7, -1.2] + 0.3 * rng.normal(size=40)
    inputs, targets = ndgrad.tensor(x), ndgrad.tensor(y)
    ndgrad.manual_seed(0)
    mean = ndgrad.zeros(2, dtype=ndgrad.float64, requires_grad=True)
    log_scale = ndgrad.full((2,), -1.0, dtype=ndgrad.float64, requires_grad=True)
    prior = Normal(ndgrad.zeros(2, dtype=ndgrad.float64), ndgrad.ones(2, dtype=ndgrad.float64))
    optimizer = ndgrad.optim.Adam([mean, log_scale], lr=0.03)
    # Minimise the divergence from the prior, less the expected fit. `rsample` draws differentiable
    # samples: noise times the scale, plus the mean.
    for _ in range(300 if quick else 1500):
        q = Normal(mean, log_scale.exp())
        weights = q.rsample((16,))
        fit = Normal(weights @ inputs.T, 0.3).log_prob(targets).sum(1).mean()
        loss = kl_divergence(q, prior).sum() - fit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    # The exact posterior in closed form.
    precision = np.eye(2) + x.T @ x / 0.09
    exact = np.linalg.solve(precision, x.T @ y / 0.09)
    spread = np.sqrt(np.diag(np.linalg.inv(precision)))
    scale = log_scale.detach().exp().numpy()
    print(f"mean {mean.detach().numpy().round(3)}, exact {exact.round(3)}; scale {scale.round(3)}")
    at = exact[1] + np.linspace(-4, 4, 100) * spread[1]
    chart = ndgrad.viz.Chart("the slope, given the data", x="slope", y="density")
    chart.line(at, Normal(exact[1], spread[1]).log_prob(ndgrad.tensor(at)).exp(), "exact")
    chart.line(at, Normal(mean[1].item(), scale[1]).log_prob(ndgrad.tensor(at)).exp(), "found", dashed=True)
    return float((abs(mean.detach().numpy() - exact) / spread).max()), chart


if __name__ == "__main__":
    main()[1].save("variational_inference.svg")
