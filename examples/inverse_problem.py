"""An existing simulator fitted to data: `diffuse` is plain NumPy without ndgrad, and
writes into its own buffers."""

from __future__ import annotations

from typing import Any

import numpy as np

import ndgrad
import ndgrad.numpy as dnp


def diffuse(conductivity, source, steps=60, dt=0.2):
    """Simulate heat in a rod with cold ends, in plain NumPy."""
    u = np.zeros(len(source))
    history = np.empty((steps, len(source)))
    for n in range(steps):
        flux = np.zeros(len(source) + 1)
        flux[1:-1] = conductivity * np.diff(u)
        u[1:-1] += dt * (flux[2:-1] - flux[1:-2] + source[1:-1])
        history[n] = u
    return history[9::10]


def main() -> float:
    """Return the distance of the fitted conductivity from the true one."""
    x = np.linspace(0.0, 1.0, 12)
    true = 1.0 + 0.5 * np.sin(2 * np.pi * x[:-1])
    source = np.exp(-((x - 0.4) ** 2) / 0.02) + 0.5
    data = diffuse(true, source)

    model = ndgrad.lift(diffuse)
    theta = dnp.zeros(len(true)).requires_grad_()
    optimizer = ndgrad.optim.LBFGS(
        [theta], max_iter=150, line_search_fn="strong_wolfe", tolerance_grad=1e-12, tolerance_change=1e-14
    )

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((model(np.exp(theta), source) - data) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    error = float(np.abs(np.exp(theta.detach().numpy()) - true).max())
    print(f"the conductivity of {len(true)} cells is found to within {error:.1e}")
    return error


if __name__ == "__main__":
    main()
