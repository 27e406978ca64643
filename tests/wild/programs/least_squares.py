"""Weighted polynomial regression with a ridge term; reports the generalised cross-validation score."""

import numpy as np


def design(x, degree):
    X = np.empty((len(x), degree + 1))
    X[:, 0] = 1.0
    for k in range(1, degree + 1):
        X[:, k] = X[:, k - 1] * x
    return X


def gcv(log_lambda, x, y, w, degree=3):
    X = design(x, degree)
    W = np.diag(w)
    A = X.T @ W @ X + np.exp(log_lambda) * np.eye(degree + 1)
    beta = np.linalg.solve(A, X.T @ (w * y))
    resid = y - X @ beta
    hat = np.trace(X @ np.linalg.solve(A, X.T @ W))
    n = len(y)
    return n * np.sum(w * resid**2) / (n - hat) ** 2
