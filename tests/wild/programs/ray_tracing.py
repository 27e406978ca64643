"""A lens of two spherical surfaces: trace a fan of rays by Snell's law; spot size at the image plane."""

import numpy as np


def intersect(origin, direction, centre, radius):
    oc = origin - centre
    b = np.dot(oc, direction)
    c = np.dot(oc, oc) - radius**2
    root = np.sqrt(b * b - c)
    return -b - root if radius > 0 else -b + root


def refract(direction, normal, ratio):
    if np.dot(direction, normal) > 0:
        normal = -normal
    cos1 = -np.dot(direction, normal)
    cos2 = np.sqrt(1 - ratio**2 * (1 - cos1**2))
    return ratio * direction + (ratio * cos1 - cos2) * normal


def spot_size(curvature, heights, thickness=0.4, index=1.5, distance=9.0):
    radii = 1.0 / curvature
    hits = []
    for height in heights:
        origin = np.array([-1.0, height])
        direction = np.array([1.0, 0.0])
        vertex = 0.0
        for radius, n1, n2 in ((radii[0], 1.0, index), (radii[1], index, 1.0)):
            centre = np.zeros(2)
            centre[0] = vertex + radius
            t = intersect(origin, direction, centre, radius)
            origin = origin + t * direction
            normal = (origin - centre) / radius
            direction = refract(direction, normal, n1 / n2)
            vertex += thickness
        t = (distance - origin[0]) / direction[0]
        hits.append(origin[1] + t * direction[1])
    return np.array(hits).std()
