"""ARMA(2, 1) with GARCH errors: conditional log likelihood."""

import numpy as np


def loglik(params, y):
    phi1, phi2, theta, omega, alpha, beta = params
    n = len(y)
    eps = np.zeros(n)
    h = np.zeros(n)
    h[:2] = y.var()
    ll = 0.0
    for t in range(2, n):
        mean = phi1 * y[t - 1] + phi2 * y[t - 2] + theta * eps[t - 1]
        eps[t] = y[t] - mean
        h[t] = omega + alpha * eps[t - 1] ** 2 + beta * h[t - 1]
        ll -= 0.5 * (np.log(2 * np.pi * h[t]) + eps[t] ** 2 / h[t])
    return ll
