"""Optimal control: the force that swings a pendulum up and leaves it standing, by gradients through the simulation."""

from __future__ import annotations

import math

import ndgrad


def simulate(force, dt=0.05):
    """The pendulum from rest, hanging: semi-implicit Euler, one step per entry of `force`."""
    angle, speed = ndgrad.zeros((), dtype=ndgrad.float64), ndgrad.zeros((), dtype=ndgrad.float64)
    for u in force:
        speed = speed + dt * (u - 9.81 * angle.sin() - 0.1 * speed)
        angle = angle + dt * speed
    return angle, speed


def main(quick: bool = False) -> float:
    """How far from upright the pendulum ends."""
    ndgrad.manual_seed(0)
    force = (0.1 * ndgrad.randn(60, dtype=ndgrad.float64)).requires_grad_()
    optimizer = ndgrad.optim.LBFGS(
        [force], max_iter=30 if quick else 300, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    def closure():
        optimizer.zero_grad()
        angle, speed = simulate(force)
        loss = 100 * (angle - math.pi) ** 2 + 10 * speed**2 + 1e-4 * (force**2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    angle, speed = simulate(force.detach())
    largest = float(force.detach().abs().max())
    print(f"ends at {math.degrees(float(angle)):.1f}° with speed {float(speed):+.3f}; largest force {largest:.1f}")
    return abs(float(angle) - math.pi)


if __name__ == "__main__":
    main()
