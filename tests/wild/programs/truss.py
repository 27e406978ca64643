"""Plane truss by the stiffness method: assembly of element matrices by index, then the tip deflection."""

import numpy as np


def assemble(nodes, bars, areas, young=200.0):
    ndof = 2 * len(nodes)
    K = np.zeros((ndof, ndof))
    for area, (i, j) in zip(areas, bars):
        d = nodes[j] - nodes[i]
        L = np.hypot(d[0], d[1])
        c, s = d / L
        k = young * area / L * np.outer([-c, -s, c, s], [-c, -s, c, s])
        dofs = [2 * i, 2 * i + 1, 2 * j, 2 * j + 1]
        K[np.ix_(dofs, dofs)] += k
    return K


def tip_deflection(areas, nodes, bars, fixed, load):
    K = assemble(nodes, bars, areas)
    free = np.setdiff1d(np.arange(len(K)), fixed)
    u = np.zeros(len(K))
    u[free] = np.linalg.solve(K[np.ix_(free, free)], load[free])
    return np.linalg.norm(u[-2:])
