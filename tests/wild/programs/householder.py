"""QR by Householder reflections, in place; least squares with it."""

import numpy as np


def householder_qr(A):
    R = np.array(A, dtype=float)
    m, n = R.shape
    Q = np.identity(m)
    for k in range(n):
        x = R[k:, k]
        alpha = -np.sign(x[0]) * np.linalg.norm(x)
        v = x.copy()
        v[0] -= alpha
        v /= np.linalg.norm(v)
        R[k:, k:] -= 2.0 * np.outer(v, v @ R[k:, k:])
        Q[:, k:] -= 2.0 * np.outer(Q[:, k:] @ v, v)
    return Q, R


def back_substitute(R, y):
    n = R.shape[1]
    x = np.zeros(n)
    for i in reversed(range(n)):
        x[i] = (y[i] - R[i, i + 1 :].dot(x[i + 1 :])) / R[i, i]
    return x


def prediction(A, y, at):
    Q, R = householder_qr(A)
    return at @ back_substitute(R[: R.shape[1]], Q.T @ y)
