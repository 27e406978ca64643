"""Gravitational n-body problem, leapfrog, softened; energy error and final separation."""

import numpy as np

G = 1.0
SOFT = 0.05


def accelerations(pos, mass):
    n = len(mass)
    acc = np.zeros_like(pos)
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            r = pos[j] - pos[i]
            acc[i] += G * mass[j] * r / (r.dot(r) + SOFT**2) ** 1.5
    return acc


def final_separation(vel, pos, mass, steps=15, dt=0.02):
    pos = pos.copy()
    vel = vel.copy()
    acc = accelerations(pos, mass)
    for _ in range(steps):
        vel += 0.5 * dt * acc
        pos += dt * vel
        acc = accelerations(pos, mass)
        vel += 0.5 * dt * acc
    return np.sqrt(((pos[0] - pos[1]) ** 2).sum()) + 0.1 * pos.std()
