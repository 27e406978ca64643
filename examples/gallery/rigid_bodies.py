"""A billiard shot by gradient: the push that sends one ball off another into a pocket, through their collision."""

from __future__ import annotations

import ndgrad
import ndgrad.numpy as np


# A contact is a soft spring: it pushes only while the discs overlap. So the path is a differentiable
# function of the push, through the collision.
def shoot(push, steps=60, dt=0.04):
    """Return the positions of both balls after each step: two discs with soft contacts and a little friction."""
    places, speeds = np.array([[0.0, 0.0], [1.0, 0.15]]), np.zeros((2, 2))
    speeds[0] = push
    history = np.zeros((steps, 2, 2))
    for step in range(steps):
        apart = places[1] - places[0]
        distance = np.sqrt((apart**2).sum() + 1e-9)
        force = 150.0 * np.maximum(0.2 - distance, 0.0) * apart / distance
        speeds = speeds * (1 - 0.3 * dt) + dt * np.stack([-force, force])
        places = places + dt * speeds
        history[step] = places
    return history


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The final distance of the ball from the pocket, and the paths of both balls."""
    # The unknown is the push on the first ball, two numbers. The first guess hits the second ball,
    # but misses the pocket.
    pocket = np.array([1.8, 0.8])
    push = np.array([1.5, 0.05]).requires_grad_()
    optimizer = ndgrad.optim.LBFGS([push], max_iter=25 if quick else 100, line_search_fn="strong_wolfe")

    # The loss is the squared distance of the second ball from the pocket at the end.
    def closure():
        optimizer.zero_grad()
        loss = ((shoot(push)[-1, 1] - pocket) ** 2).sum()
        loss.backward()
        return loss

    # One call runs the whole optimisation.
    optimizer.step(closure)

    # Repeat the shot with the push that was found, and draw both paths.
    ways = shoot(push.detach())
    end = ways[-1, 1]
    miss = float(np.sqrt(((end - pocket) ** 2).sum()))
    print(f"push {push.detach().numpy().round(3)} sends the ball to {end.numpy().round(3)}, {miss:.1e} from the pocket")
    chart = ndgrad.viz.Chart("a billiard shot", equal=True)
    chart.line(*ways[:, 0].T, "first ball").line(*ways[:, 1].T, "second ball")
    return miss, chart.points(pocket[:1], pocket[1:], "pocket", size=6)


if __name__ == "__main__":
    main()[1].save("rigid_bodies.svg")
