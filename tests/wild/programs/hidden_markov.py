"""Forward algorithm of a hidden Markov model with Poisson emissions, in log space."""

import numpy as np
from scipy.special import gammaln, logsumexp


def log_forward(log_rates, logits, counts):
    n_states = len(log_rates)
    T = len(counts)
    log_trans = logits - logsumexp(logits, axis=1, keepdims=True)
    emission = counts[:, None] * log_rates - np.exp(log_rates) - gammaln(counts + 1)[:, None]
    alpha = np.empty((T, n_states))
    alpha[0] = -np.log(n_states) + emission[0]
    for t in range(1, T):
        for j in range(n_states):
            alpha[t, j] = logsumexp(alpha[t - 1] + log_trans[:, j]) + emission[t, j]
    return logsumexp(alpha[-1])
