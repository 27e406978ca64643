"""Torque-free rigid body: quaternion attitude, midpoint rule; the pointing error at the end."""

import numpy as np


def quat_mul(p, q):
    return np.array(
        [
            p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
            p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
            p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
            p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
        ]
    )


def rotation_matrix(q):
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def rates(omega, inertia):
    return np.cross(inertia * omega, omega) / inertia


def pointing_error(omega0, inertia, target, steps=20, dt=0.05):
    q = np.array([1.0, 0.0, 0.0, 0.0])
    omega = omega0
    for _ in range(steps):
        mid = omega + 0.5 * dt * rates(omega, inertia)
        qmid = q + 0.25 * dt * quat_mul(q, np.concatenate(([0.0], omega)))
        q = q + 0.5 * dt * quat_mul(qmid, np.concatenate(([0.0], mid)))
        omega = omega + dt * rates(mid, inertia)
        q /= np.sqrt((q**2).sum())
    boresight = rotation_matrix(q)[:, 2]
    return np.arccos(np.clip(boresight @ target, -1, 1))
