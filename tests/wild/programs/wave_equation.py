"""Two-dimensional wave equation, leapfrog in time, with a sponge at the border; misfit at a line of receivers."""

import numpy as np


def laplacian(u, h):
    lap = np.zeros_like(u)
    lap[1:-1, 1:-1] = (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) / h**2
    return lap


def simulate(c, nt=12, h=1.0, dt=0.3):
    n, m = c.shape
    sponge = np.ones((n, m))
    sponge[0, :] = sponge[-1, :] = sponge[:, 0] = sponge[:, -1] = 0.7
    old = np.zeros((n, m))
    now = np.zeros((n, m))
    record = np.empty((nt, m))
    for it in range(nt):
        new = 2 * now - old + dt**2 * c**2 * laplacian(now, h)
        t = it * dt
        new[n // 2, m // 2] += dt**2 * (1 - 2 * (t - 1.0) ** 2) * np.exp(-((t - 1.0) ** 2))
        new *= sponge
        old, now = now, new
        record[it] = now[1]
    return record


def misfit(c, observed):
    r = simulate(c, nt=observed.shape[0]) - observed
    return 0.5 * np.sum(r * r)
