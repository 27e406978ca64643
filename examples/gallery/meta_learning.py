"""Meta-learning (MAML): a start from which one gradient step fits any sine wave, by a gradient through that step."""

from __future__ import annotations

import numpy as np

import ndgrad
from ndgrad.func import grad, vmap


# The network is a function of a dictionary of parameters. This makes a step of training a function,
# too.
def predict(p, x):
    return ((x[:, None] * p["w1"] + p["b1"]).tanh() @ p["w2"]).squeeze(-1)


def loss(p, x, y):
    return ((predict(p, x) - y) ** 2).mean()


# One step of gradient descent: new parameters as a differentiable function of the old ones.
def adapt(p, x, y, rate=0.1):
    return {name: p[name] - rate * g for name, g in grad(loss)(p, x, y).items()}


# A task is a sine wave with its own height and phase, seen at ten points. Ten other points test the
# result.
def tasks(rng, count):
    height, phase = rng.uniform(0.5, 2, (count, 1)), rng.uniform(0, np.pi, (count, 1))
    x = rng.uniform(-3, 3, (2, count, 10))
    return [
        ndgrad.tensor(v, dtype=ndgrad.float32) for pair in ((t, height * np.sin(t + phase)) for t in x) for v in pair
    ]


# `vmap` runs the tasks as one batch: each has its own gradient step from the shared start.
def after_one_step(p, *data):
    """Return the loss on new points of each task, after a step on its first points."""
    return vmap(lambda x, y, new_x, new_y: loss(adapt(p, x, y), new_x, new_y))(*data).mean()


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The loss after one step from the learned start, relative to that from a random start, and one task."""
    # Minimise the loss after the step. The gradient goes through the step, so it contains second
    # derivatives.
    rng = np.random.default_rng(0)
    ndgrad.manual_seed(0)
    p = {"w1": ndgrad.randn(32), "b1": ndgrad.randn(32), "w2": 0.3 * ndgrad.randn(32, 1)}
    p = {name: v.requires_grad_() for name, v in p.items()}
    unseen = tasks(rng, 100)
    before = float(after_one_step(p, *unseen).detach())
    optimizer = ndgrad.optim.Adam(p.values(), lr=5e-3)
    for _ in range(150 if quick else 1500):
        optimizer.zero_grad()
        after_one_step(p, *tasks(rng, 25)).backward()
        optimizer.step()
    after = float(after_one_step(p, *unseen).detach())
    print(f"loss of a new task after one step: {before:.2f} from a random start, {after:.2f} from the learned one")

    # Predictions for one new task: from the start, and after one step on ten points.
    x, y, _, _ = (v[0] for v in unseen)
    curve = ndgrad.linspace(-3, 3, 100)
    chart = ndgrad.viz.Chart("one step from the learned start", x="x")
    chart.line(curve, predict(p, curve), "before", dashed=True)
    chart.line(curve, predict(adapt(p, x, y), curve), "after one step").points(x, y, "the task's points", size=3.5)
    return after / before, chart


if __name__ == "__main__":
    main()[1].save("meta_learning.svg")
