"""Soft alignment score of two sequences (the partition function of Needleman-Wunsch)."""

import math

import numpy as np


def soft_max(values, temperature):
    top = max(values)
    return top + temperature * math.log(sum(math.exp((v - top) / temperature) for v in values))


def score(match, mismatch, gap, a, b, temperature=0.7):
    F = np.zeros((len(a) + 1, len(b) + 1))
    for i in range(1, len(a) + 1):
        F[i, 0] = F[i - 1, 0] + gap
    for j in range(1, len(b) + 1):
        F[0, j] = F[0, j - 1] + gap
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            s = match if a[i - 1] == b[j - 1] else mismatch
            F[i, j] = soft_max([F[i - 1, j - 1] + s, F[i - 1, j] + gap, F[i, j - 1] + gap], temperature)
    return float(F[-1, -1])
