"""Negative log marginal likelihood of a Gaussian process with a squared exponential plus periodic kernel."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve


def kernel(x1, x2, theta):
    amp, ell, per_amp, per_ell, period = np.exp(theta[:5])
    d = x1[:, None] - x2[None, :]
    k = amp**2 * np.exp(-0.5 * (d / ell) ** 2)
    k += per_amp**2 * np.exp(-2 * np.sin(np.pi * d / period) ** 2 / per_ell**2)
    return k


def nll(theta, x, y):
    K = kernel(x, x, theta)
    K[np.diag_indices_from(K)] += np.exp(2 * theta[5])
    L, lower = cho_factor(K, lower=True)
    alpha = cho_solve((L, lower), y)
    return 0.5 * y @ alpha + np.sum(np.log(np.diag(L))) + 0.5 * len(y) * np.log(2 * np.pi)
