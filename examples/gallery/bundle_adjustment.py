"""Bundle adjustment: cameras and points from the views of the cameras, by Gauss-Newton with a sparse Jacobian."""

from __future__ import annotations

import numpy as np
from scipy.sparse import identity
from scipy.sparse.linalg import spsolve

import ndgrad
from ndgrad.func import sparse_jacobian


# A camera sees the direction of a point, and neither its distance nor its position. Differences of
# all pairs of cameras and points come from one broadcast.
def project(cameras, points):
    """Return the view that each camera (angle, x, y) has of each point of a plane world: the tangent of its bearing."""
    apart = points[None] - cameras[:, None, 1:]
    cos, sin = cameras[:, :1].cos(), cameras[:, :1].sin()
    along, across = cos * apart[..., 0] + sin * apart[..., 1], cos * apart[..., 1] - sin * apart[..., 0]
    return across / along


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The remaining root mean square residual, in units of the noise, and the reconstructed world."""
    # Make a world of points, five cameras, and what the cameras see, with a little noise.
    rng = np.random.default_rng(0)
    cameras, points, noise = 5, 30 if quick else 200, 1e-3
    places = np.stack([0.1 * rng.normal(size=cameras), rng.uniform(-1, 0, cameras), np.linspace(-2, 2, cameras)], 1)
    world = np.stack([rng.uniform(4, 8, points), rng.uniform(-3, 3, points)], 1)
    seen = project(ndgrad.tensor(places), ndgrad.tensor(world))
    seen = seen + noise * ndgrad.tensor(rng.normal(size=tuple(seen.shape)))

    # The unknowns are one long vector: three numbers per camera, then two per point. The residual of
    # a view depends on one camera and one point, so almost all entries of the Jacobian are zero.
    def residual(v):
        c, p = v[: 3 * cameras].reshape(cameras, 3), v[3 * cameras :].reshape(points, 2)
        fixed = 10.0 * (c[:2] - ndgrad.tensor(places[:2]))  # two cameras are known: the frame of the world
        return ndgrad.cat([((project(c, p) - seen) / noise).reshape(-1), fixed.reshape(-1) / noise])

    # `sparse_jacobian` finds the pattern of zeros from one run, and then computes all columns in a
    # few passes. Each step of Gauss-Newton solves a sparse linear system.
    start = np.concatenate([places.ravel(), world.ravel()])
    noisy = start + 0.05 * rng.normal(size=len(start))
    v = ndgrad.tensor(noisy)
    jacobian = sparse_jacobian(residual, v)
    steps = 12
    for _ in range(steps):
        r, j = residual(v).numpy(), jacobian(v)
        v = v - ndgrad.tensor(spsolve((j.T @ j + 1e-6 * identity(len(start))).tocsc(), j.T @ r))
    left = float((residual(v)[: seen.numel()] ** 2).mean().sqrt())
    print(f"{jacobian}: residual {left:.3f} times the noise after {steps} steps")

    # Draw the first guess, the points found, and the cameras.
    found, guess = (w[3 * cameras :].reshape(points, 2).T for w in (v.numpy(), noisy))
    chart = ndgrad.viz.Chart("points of a plane world", equal=True, height=340).points(*guess, "first guess", size=1.5)
    chart.points(*found, "found").points(*v.numpy()[: 3 * cameras].reshape(-1, 3).T[1:], "cameras", size=5)
    return left, chart


if __name__ == "__main__":
    main()[1].save("bundle_adjustment.svg")
