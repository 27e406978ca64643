"""Predator and prey: solve_ivp, then log-normal misfit to counts."""

import numpy as np
from scipy.integrate import solve_ivp


def field(t, y, a, b, c, d):
    prey, predator = y
    return [a * prey - b * prey * predator, -c * predator + d * prey * predator]


def misfit(log_params, t, counts):
    a, b, c, d = np.exp(log_params)
    sol = solve_ivp(field, (t[0], t[-1]), counts[0], "DOP853", t, args=(a, b, c, d), rtol=1e-10, atol=1e-10)
    return np.mean((np.log(sol.y.T[1:]) - np.log(counts[1:])) ** 2)
