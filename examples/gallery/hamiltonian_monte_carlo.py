"""Hamiltonian Monte Carlo in twenty lines: samples of a banana-shaped density, by its gradient alone."""

from __future__ import annotations

import numpy as np

import ndgrad


# The density has the shape of a banana, which is hard for samplers that take random steps.
def log_density(x):
    """Return the log density: normal in (x0, x1 - x0² + 1), so its mean is (0, 0) and the variance of x1 is 3."""
    return -0.5 * x[0] ** 2 - 0.5 * (x[1] - x[0] ** 2 + 1.0) ** 2


# A sample is a ball that rolls over the landscape of the density. Its random push is new each time,
# and the gradient is the force. Leapfrog steps nearly keep the energy, so almost all proposals are
# accepted.
def sample(gradient, start, count, step, leaps, rng):
    """Sample by leapfrog steps and Metropolis acceptance."""
    x, kept = start, []
    for _ in range(count):
        p = ndgrad.tensor(rng.normal(size=2))
        before = log_density(x) - 0.5 * (p * p).sum()
        new, momentum = x, p + 0.5 * step * gradient(x)
        for leap in range(leaps):
            new = new + step * momentum
            momentum = momentum + (step if leap < leaps - 1 else 0.5 * step) * gradient(new)
        after = log_density(new) - 0.5 * (momentum * momentum).sum()
        if np.log(rng.uniform()) < float(after - before):
            x = new
        kept.append(x.numpy())
    return np.array(kept)


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The error of the samples' mean and variance, and the samples."""
    # `func.grad` turns the density into its gradient. The first 50 samples depend on the start and
    # are dropped. The exact moments are known, so the result can be checked.
    rng = np.random.default_rng(1)
    gradient = ndgrad.func.grad(log_density)
    start = ndgrad.zeros(2, dtype=ndgrad.float64)
    kept = sample(gradient, start, 300 if quick else 3000, 0.25, 8, rng)[50:]
    print(f"mean {kept.mean(0).round(2)}, variance {kept.var(0).round(2)}; exact (0, 0) and (1, 3)")
    error = float(max(abs(kept.mean(0)).max(), abs(kept[:, 0].var() - 1), abs(kept[:, 1].var() - 3) / 3))
    chart = ndgrad.viz.Chart("samples of a banana", x="x₀", y="x₁", equal=True, width=330)
    return error, chart.points(kept[:1500, 0], kept[:1500, 1], size=1.5)


if __name__ == "__main__":
    main()[1].save("hamiltonian_monte_carlo.svg")
