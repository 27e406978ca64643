"""Crank-Nicolson diffusion with the Thomas algorithm, in place; how much has left after a while."""

import numpy as np


def thomas(a, b, c, d):
    """Solves in place: b and d are overwritten."""
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[n - 1] /= b[n - 1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
    return d


def escaped(diffusivity, u0, dx=0.1, dt=0.004, steps=5):
    n = len(u0)
    u = u0.copy()
    r = np.empty(n)
    r[:] = diffusivity * dt / (2 * dx**2)
    for _ in range(steps):
        rhs = np.empty(n)
        rhs[0] = rhs[n - 1] = 0.0
        for i in range(1, n - 1):
            rhs[i] = r[i] * u[i - 1] + (1 - 2 * r[i]) * u[i] + r[i] * u[i + 1]
        lower, upper = -r.copy(), -r.copy()
        upper[0] = lower[-1] = 0.0
        main = 1 + 2 * r
        main[0] = main[-1] = 1.0
        u = thomas(lower, main, upper, rhs)
    return u0.sum() - u.sum()
