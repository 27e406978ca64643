"""Natural cubic spline through knots (tridiagonal solve by hand), and its misfit to data."""

import numpy as np


def second_derivatives(x, y):
    n = len(x)
    h = np.diff(x)
    u = np.zeros(n - 1)
    y2 = np.zeros(n)
    for i in range(1, n - 1):
        sig = h[i - 1] / (h[i - 1] + h[i])
        p = sig * y2[i - 1] + 2.0
        y2[i] = (sig - 1.0) / p
        u[i] = (y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1]
        u[i] = (6.0 * u[i] / (h[i - 1] + h[i]) - sig * u[i - 1]) / p
    for k in range(n - 2, -1, -1):
        y2[k] = y2[k] * y2[k + 1] + (u[k] if k else 0.0)
    return y2


def evaluate(x, y, y2, at):
    k = np.clip(np.searchsorted(x, at) - 1, 0, len(x) - 2)
    h = x[k + 1] - x[k]
    a = (x[k + 1] - at) / h
    b = (at - x[k]) / h
    return a * y[k] + b * y[k + 1] + ((a**3 - a) * y2[k] + (b**3 - b) * y2[k + 1]) * h**2 / 6.0


def chi2(knots, x, at, data):
    y2 = second_derivatives(x, knots)
    return np.mean((evaluate(x, knots, y2, at) - data) ** 2)
