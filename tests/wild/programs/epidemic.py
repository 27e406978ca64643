"""SIR epidemic with seasonal forcing, classical Runge-Kutta; Poisson likelihood of weekly cases."""

import numpy as np


def sir(t, y, beta, gamma, amplitude):
    S, I = y[:2]
    b = beta * (1 + amplitude * np.cos(2 * np.pi * t))
    dydt = np.zeros(3)
    dydt[0] = -b * S * I
    dydt[1] = b * S * I - gamma * I
    dydt[2] = gamma * I
    return dydt


def rk4(f, y0, ts, *args):
    ys = np.zeros((len(ts), len(y0)))
    ys[0, :] = y0
    for n in range(len(ts) - 1):
        h = ts[n + 1] - ts[n]
        k1 = f(ts[n], ys[n], *args)
        k2 = f(ts[n] + h / 2, ys[n] + h / 2 * k1, *args)
        k3 = f(ts[n] + h / 2, ys[n] + h / 2 * k2, *args)
        k4 = f(ts[n] + h, ys[n] + h * k3, *args)
        ys[n + 1, :] = ys[n] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return ys


def deviance(params, cases, population=1000.0):
    beta, gamma, amplitude = params
    ts = np.linspace(0, 0.4, len(cases) + 1)
    ys = rk4(sir, [0.98, 0.02, 0.0], ts, beta, gamma, amplitude)
    incidence = -np.diff(ys[:, 0]) * population
    return 2 * np.sum(incidence - cases + cases * np.log(cases / incidence))
