"""Parameters of a differential equation from data: predators and prey, through an adaptive solver and its adjoint."""

from __future__ import annotations

import numpy as np

import ndgrad
from ndgrad.implicit import solve_ivp


# Prey multiply and are eaten; hunters multiply by eating and starve otherwise. The four rates are the
# parameters.
def flow(t, y, rates):
    prey, hunters = y[0], y[1]
    return ndgrad.stack([rates[0] * prey - rates[1] * prey * hunters, rates[2] * prey * hunters - rates[3] * hunters])


# The solver chooses its own steps. Its gradient comes from the adjoint equation, which is solved
# backward in time.
def solution(start, times, rates):
    return solve_ivp(flow, (0.0, float(times[-1])), start, t_eval=times, args=(rates,)).y


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The largest relative error of the four rates, and the curves through the data."""
    # Compute measurements from known rates, and start the search from other ones. Logarithms keep the
    # rates positive.
    true = ndgrad.tensor([1.1, 0.4, 0.1, 0.4], dtype=ndgrad.float64)
    start = ndgrad.tensor([10.0, 5.0], dtype=ndgrad.float64)
    times = ndgrad.linspace(0, 2 if quick else 12, 8 if quick else 25, dtype=ndgrad.float64)
    data = solution(start, times, true)
    logs = ndgrad.tensor(np.log([0.9, 0.5, 0.12, 0.5]), requires_grad=True)

    def misfit(count):
        """Return the mean squared distance of the solution from the first `count` measurements."""
        return (solution(start, times[:count], logs.exp()) - data[:, :count]).square().mean()

    # Fit the first few measurements first: over a whole cycle, a wrong period hides all other errors.
    for count in (8,) if quick else (8, 16, 25):
        optimizer = ndgrad.optim.LBFGS([logs], max_iter=4 if quick else count, line_search_fn="strong_wolfe")

        def closure(count=count, optimizer=optimizer):
            optimizer.zero_grad()
            loss = misfit(count)
            loss.backward()
            return loss

        optimizer.step(closure)
    rates = logs.detach().exp()
    print(f"rates {rates.numpy().round(4)}, true {true.numpy()}")

    # Draw the solution with the found rates through the measurements.
    fine = ndgrad.linspace(0, float(times[-1]), 150, dtype=ndgrad.float64)
    prey, hunters = solution(start, fine, rates)
    chart = ndgrad.viz.Chart("predators and prey", x="time").line(fine, prey, "prey").line(fine, hunters, "predators")
    chart.points(times, data[0], "data").points(times, data[1])
    return float(((rates - true) / true).abs().max()), chart


if __name__ == "__main__":
    main()[1].save("ode_parameters.svg")
