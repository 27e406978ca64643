"""Hierarchical model of eight schools, non-centred, as a log density for a sampler."""

import numpy as np
from scipy import stats


def log_density(z, y, sigma):
    mu, log_tau, eta = z[0], z[1], z[2:]
    tau = np.exp(log_tau)
    theta = mu + tau * eta
    lp = stats.norm.logpdf(mu, 0, 5)
    lp += stats.cauchy.logpdf(tau, 0, 5) + log_tau
    lp += np.sum(stats.norm.logpdf(eta))
    lp += np.sum(stats.norm.logpdf(y, theta, sigma))
    return lp
