"""Robertson-like chemical kinetics, backward Euler with Newton and a hand-written Jacobian."""

import numpy as np


def rhs(c, k):
    r1 = k[0] * c[0]
    r2 = k[1] * c[1] * c[2]
    r3 = k[2] * c[1] ** 2
    return np.array([-r1 + r2, r1 - r2 - r3, r3])


def jacobian(c, k):
    J = np.zeros((3, 3))
    J[0] = [-k[0], k[1] * c[2], k[1] * c[1]]
    J[1] = [k[0], -k[1] * c[2] - 2 * k[2] * c[1], -k[1] * c[1]]
    J[2, 1] = 2 * k[2] * c[1]
    return J


def integrate(log_k, c0, dt=0.05, steps=12):
    k = np.exp(log_k)
    c = np.array(c0, dtype=float)
    history = [c]
    for _ in range(steps):
        guess = c.copy()
        for _ in range(25):
            residual = guess - c - dt * rhs(guess, k)
            delta = np.linalg.solve(np.eye(3) - dt * jacobian(guess, k), residual)
            guess = guess - delta
            if np.linalg.norm(delta) < 1e-13:
                break
        c = guess
        history.append(c)
    return np.array(history)


def yield_of_product(log_k, c0):
    return integrate(log_k, c0)[:, 2].mean()
