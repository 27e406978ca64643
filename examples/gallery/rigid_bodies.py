"""A billiard shot by gradient: the push that sends one ball off another into a pocket, through their collision."""

from __future__ import annotations

import ndgrad
import ndgrad.numpy as np


def shoot(push, steps=60, dt=0.04):
    """Where the second ball is after the shot: two discs with soft contacts and a little friction."""
    places, speeds = np.array([[0.0, 0.0], [1.0, 0.15]]), np.zeros((2, 2))
    speeds[0] = push
    for _ in range(steps):
        apart = places[1] - places[0]
        distance = np.sqrt((apart**2).sum() + 1e-9)
        force = 150.0 * np.maximum(0.2 - distance, 0.0) * apart / distance
        speeds = speeds * (1 - 0.3 * dt) + dt * np.stack([-force, force])
        places = places + dt * speeds
    return places[1]


def main(quick: bool = False) -> float:
    """How far from the pocket the ball ends."""
    pocket = np.array([1.8, 0.8])
    push = np.array([1.5, 0.05]).requires_grad_()
    optimizer = ndgrad.optim.LBFGS([push], max_iter=25 if quick else 100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = ((shoot(push) - pocket) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    end = shoot(push.detach())
    miss = float(np.sqrt(((end - pocket) ** 2).sum()))
    print(f"push {push.detach().numpy().round(3)} sends the ball to {end.numpy().round(3)}, {miss:.1e} from the pocket")
    return miss


if __name__ == "__main__":
    main()
