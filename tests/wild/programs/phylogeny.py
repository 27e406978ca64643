"""Felsenstein pruning on a small tree under HKY85; log likelihood of an alignment."""

import numpy as np
from scipy.linalg import expm

STATES = "ACGT"
TREE = ((("human", 0), ("chimp", 1), 4), (("mouse", 2), ("rat", 3), 5), None)


def rate_matrix(kappa, pi):
    Q = np.zeros((4, 4))
    for i in range(4):
        for j in range(4):
            if i != j:
                transition = {STATES[i], STATES[j]} in ({"A", "G"}, {"C", "T"})
                Q[i, j] = pi[j] * (kappa if transition else 1.0)
    for i in range(4):
        Q[i, i] = -np.sum(Q[i])
    scale = -sum(pi[i] * Q[i, i] for i in range(4))
    return Q / scale


def tip(sequence):
    partial = np.zeros((len(sequence), 4))
    for site, base in enumerate(sequence):
        partial[site, STATES.index(base)] = 1.0
    return partial


def prune(node, Q, branches, alignment):
    if isinstance(node[0], str):
        return tip(alignment[node[0]]), node[1]
    left, right, branch = node
    product = 1.0
    for child in (left, right):
        partial, b = prune(child, Q, branches, alignment)
        P = expm(Q * branches[b])
        product = product * (partial @ P.T)
    return product, branch


def log_likelihood(log_params, alignment, pi):
    params = np.exp(log_params)
    Q = rate_matrix(params[0], pi)
    partial, _ = prune(TREE, Q, params[1:], alignment)
    return np.log(partial @ pi).sum()
