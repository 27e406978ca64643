"""Conjugate gradients by hand on a Poisson problem with variable conductivity."""

import numpy as np


def apply_operator(u, kappa):
    out = np.zeros_like(u)
    flux = kappa * np.diff(u)
    out[1:-1] = flux[:-1] - flux[1:]
    out[0] = u[0]
    out[-1] = u[-1]
    return out


def cg(kappa, b, tol=1e-13, maxiter=200):
    x = np.zeros(len(b))
    r = b - apply_operator(x, kappa)
    p = r.copy()
    rs = r @ r
    for _ in range(maxiter):
        Ap = apply_operator(p, kappa)
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        if np.sqrt(new) < tol:
            break
        p = r + (new / rs) * p
        rs = new
    return x


def compliance(kappa, load):
    b = load.copy()
    b[0] = b[-1] = 0.0
    return b @ cg(kappa, b)
