"""Gaussian elimination with partial pivoting and row swaps, for the determinant and the solution."""

import numpy as np


def eliminate(A, b):
    A = A.copy()
    b = b.copy()
    n = len(b)
    det = 1.0
    for k in range(n):
        p = k + np.argmax(np.abs(A[k:, k]))
        if p != k:
            A[[k, p]] = A[[p, k]]
            tmp = b[k]
            b[k] = b[p]
            b[p] = tmp
            det = -det
        det *= A[k, k]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            A[i, k:] -= factor * A[k, k:]
            b[i] -= factor * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.sum(A[i, i + 1 :] * x[i + 1 :])) / A[i, i]
    return x, det


def quantity(A, b):
    x, det = eliminate(A, b)
    return x.max() - x.min() + np.log(abs(det))
