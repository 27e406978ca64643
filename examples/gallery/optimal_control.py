"""Optimal control: the force that swings a pendulum up and leaves it standing, by gradients through the simulation."""

from __future__ import annotations

import math

import ndgrad

STEP = 0.05


# The simulation is a Python loop over 60 steps of a pendulum with friction.
def simulate(force):
    """Simulate the pendulum from rest, hanging, one step per entry of `force`. Return all angles and the last speed."""
    angle, speed = ndgrad.zeros((), dtype=ndgrad.float64), ndgrad.zeros((), dtype=ndgrad.float64)
    angles = []
    for u in force:
        speed = speed + STEP * (u - 9.81 * angle.sin() - 0.1 * speed)
        angle = angle + STEP * speed
        angles.append(angle)
    return ndgrad.stack(angles), speed


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The final angle of the pendulum from upright, and its path."""
    # The unknowns are the force at each step. Force has a price, so the best way is to swing back first and gain speed.
    ndgrad.manual_seed(0)
    force = (0.1 * ndgrad.randn(60, dtype=ndgrad.float64)).requires_grad_()
    optimizer = ndgrad.optim.LBFGS(
        [force], max_iter=30 if quick else 300, line_search_fn="strong_wolfe", tolerance_change=1e-12
    )

    # The loss asks for an upright pendulum at rest at the end, and for little force. Its gradient
    # goes backward through all steps.
    def closure():
        optimizer.zero_grad()
        angles, speed = simulate(force)
        loss = 100 * (angles[-1] - math.pi) ** 2 + 10 * speed**2 + 1e-4 * (force**2).sum()
        loss.backward()
        return loss

    # One call runs the whole optimisation.
    optimizer.step(closure)

    # Run the simulation once more with the force that was found, and draw the angle and the force.
    angles, speed = simulate(force.detach())
    end, largest = float(angles[-1]), float(force.detach().abs().max())
    print(f"ends at {math.degrees(end):.1f}° with speed {float(speed):+.3f}; largest force {largest:.1f}")
    times = STEP * ndgrad.arange(1, len(angles) + 1)
    way = ndgrad.viz.Chart("a pendulum swings up", x="time", y="angle, degrees", width=330)
    push = ndgrad.viz.Chart("the force", x="time", width=330)
    return abs(end - math.pi), ndgrad.viz.beside(way.line(times, angles.rad2deg()), push.line(times, force))


if __name__ == "__main__":
    main()[1].save("optimal_control.svg")
