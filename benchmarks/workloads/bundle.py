"""Bundle adjustment: the Jacobian of reprojection errors, at the size of ADBench's first problem.

A camera has eleven numbers: a rotation vector r, a centre c, a focal length f, a principal point x0 and two
coefficients of radial distortion k. A point X is seen at

    P = R(r) (X - c),   p = (P_x, P_y) / P_z,   p (1 + k_1 |p|^2 + k_2 |p|^4) f + x0

and the residual of an observation is the difference from the observed position, times a weight. Each observation
depends on one camera and one point, so the Jacobian is one block of 2 x 15 per observation: vmap of jacrev.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.differentiate import compile_step
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

CAMERAS, POINTS, OBSERVATIONS = 49, 7_776, 31_843


def arrays() -> list[np.ndarray]:
    """Return, for each observation, its camera, its point, its weight, and the observed position."""
    random = np.random.default_rng(0)
    cameras = np.concatenate(
        [
            0.2 * random.standard_normal((CAMERAS, 3)),
            np.array([0.0, 0.0, -5.0]) + 0.1 * random.standard_normal((CAMERAS, 3)),
            1.0 + 0.1 * random.random((CAMERAS, 1)),
            0.1 * random.standard_normal((CAMERAS, 2)),
            0.01 * random.standard_normal((CAMERAS, 2)),
        ],
        axis=1,
    )
    points = random.standard_normal((POINTS, 3))
    seen_by, seen = random.integers(0, CAMERAS, OBSERVATIONS), random.integers(0, POINTS, OBSERVATIONS)
    return [cameras[seen_by], points[seen], random.random(OBSERVATIONS), random.standard_normal((OBSERVATIONS, 2))]


def residual(sqrt: Any, cos: Any, sin: Any, stack: Any, camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    """Return the residual of one observation; the rotation is Rodrigues' formula."""
    rx, ry, rz = camera[0], camera[1], camera[2]
    x, y, z = point[0] - camera[3], point[1] - camera[4], point[2] - camera[5]
    angle = sqrt(rx * rx + ry * ry + rz * rz)
    ux, uy, uz = rx / angle, ry / angle, rz / angle
    c, s = cos(angle), sin(angle)
    along = (ux * x + uy * y + uz * z) * (1.0 - c)
    px = x * c + (uy * z - uz * y) * s + ux * along
    py = y * c + (uz * x - ux * z) * s + uy * along
    pz = z * c + (ux * y - uy * x) * s + uz * along
    u, v = px / pz, py / pz
    radius = u * u + v * v
    stretch = (1.0 + camera[9] * radius + camera[10] * radius * radius) * camera[6]
    return stack([weight * (u * stretch + camera[7] - seen[0]), weight * (v * stretch + camera[8] - seen[1])])


@workload(
    "bundle",
    title=f"bundle adjustment, {OBSERVATIONS:,} observations",
    compiled_goal=0.15,
    tolerance=1e-8,
    group="adbench",
)
def bundle(torch: Any) -> Step:
    """Compute blocks of the Jacobian with respect to camera, point and weight."""
    given = [torch.tensor(a) for a in arrays()]

    def one(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        return residual(torch.sqrt, torch.cos, torch.sin, torch.stack, camera, point, weight, seen)

    jacobians = compile_step(torch.func.vmap(torch.func.jacrev(one, argnums=(0, 1, 2))))

    def step() -> Sequence[Any]:
        return list(jacobians(*given))

    return step


@bundle.functional
def bundle_functional(dialect: Functional) -> Step:
    """Compute the same blocks in the functional dialect."""
    np_ = dialect.np
    given = [dialect.array(a) for a in arrays()]

    def one(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
        return residual(np_.sqrt, np_.cos, np_.sin, np_.stack, camera, point, weight, seen)

    jacobians = dialect.compile(dialect.row_jacobians(one, 3))

    def step() -> Sequence[Any]:
        return list(dialect.wait(jacobians(*given)))

    return step
