"""Parameters of a differential equation from data: predators and prey, through an adaptive solver and its adjoint."""

from __future__ import annotations

import numpy as np

import ndgrad
from ndgrad.implicit import solve_ivp


def flow(t, y, rates):
    prey, hunters = y[0], y[1]
    return ndgrad.stack([rates[0] * prey - rates[1] * prey * hunters, rates[2] * prey * hunters - rates[3] * hunters])


def solution(start, times, rates):
    return solve_ivp(flow, (0.0, float(times[-1])), start, t_eval=times, args=(rates,)).y


def main(quick: bool = False) -> float:
    """The largest relative error of the four rates."""
    true = ndgrad.tensor([1.1, 0.4, 0.1, 0.4], dtype=ndgrad.float64)
    start = ndgrad.tensor([10.0, 5.0], dtype=ndgrad.float64)
    times = ndgrad.linspace(0, 2 if quick else 20, 8 if quick else 30, dtype=ndgrad.float64)
    data = solution(start, times, true)
    logs = ndgrad.tensor(np.log([0.9, 0.5, 0.12, 0.5]), requires_grad=True)
    optimizer = ndgrad.optim.LBFGS([logs], max_iter=8 if quick else 60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (solution(start, times, logs.exp()) - data).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    rates = logs.detach().exp()
    print(f"rates {rates.numpy().round(4)}, true {true.numpy()}")
    return float(((rates - true) / true).abs().max())


if __name__ == "__main__":
    main()
