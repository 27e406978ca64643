"""American put on a Cox-Ross-Rubinstein tree."""

import numpy as np


def american_put(S, K, r, sigma, T=1.0, n=30):
    dt = T / n
    u = np.exp(sigma * np.sqrt(dt))
    d = 1 / u
    p = (np.exp(r * dt) - d) / (u - d)
    disc = np.exp(-r * dt)
    prices = np.zeros(n + 1)
    for j in range(n + 1):
        prices[j] = S * u**j * d ** (n - j)
    values = np.maximum(K - prices, 0.0)
    for i in range(n - 1, -1, -1):
        values[: i + 1] = disc * (p * values[1 : i + 2] + (1 - p) * values[: i + 1])
        prices[: i + 1] = prices[: i + 1] * u
        values[: i + 1] = np.maximum(values[: i + 1], K - prices[: i + 1])
    return values[0]
