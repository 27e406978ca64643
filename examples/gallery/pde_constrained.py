"""The ground between two boreholes: the speed of waves, by optimisation constrained by the wave equation.

Explosions go off in one borehole, and microphones record in the other. The simulator is ordinary NumPy code, with one
buffer for all times that each step fills; only the import is changed. One backward pass gives the gradient in the speed
of every cell, whatever the number of cells.
"""

from __future__ import annotations

import ndgrad
import ndgrad.numpy as np


# Each step computes the wave from the two steps before, and writes it into the buffer `wave`. Cells
# near the border damp the wave, so that it leaves without an echo.
def simulate(speed, source, steps, dt=0.4):
    """Simulate an explosion in row `source` of one side, with absorbing borders. Return the recording of the other."""
    rows, columns = speed.shape
    row, column = np.arange(rows)[:, None], np.arange(columns)
    edge = np.minimum(np.minimum(row, rows - 1 - row), np.minimum(column, columns - 1 - column))
    calm = 1 - 0.06 * np.maximum(4 - edge, 0) / 4
    factor = (dt * speed[1:-1, 1:-1]) ** 2
    wave = np.zeros((steps, rows, columns))
    for n in range(2, steps):
        now, before = wave[n - 1], wave[n - 2]
        bend = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2] - 4 * now[1:-1, 1:-1]
        wave[n, 1:-1, 1:-1] = 2 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + factor * bend
        late = 0.25 * (n - 12)
        wave[n, source, 3] += (1 - 2 * late**2) * np.exp(-(late**2))  # a Ricker wavelet
        wave[n] *= calm
    return wave[:, :, -4]


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The remaining misfit, relative to that of the first guess, and the maps."""
    # Make the true ground, with a slow and a fast block, and record the explosions at several depths.
    size, steps = (14, 50) if quick else (24, 95)
    true = np.ones((size, size))
    true[size // 4 : size // 2, size // 3 : 2 * size // 3] = 0.8
    true[5 * size // 8 : 7 * size // 8, size // 2 : 3 * size // 4] = 1.25
    sources = (size // 2,) if quick else (3, 8, 12, 16, 20)
    heard = [simulate(true, source, steps) for source in sources]

    # The unknown is the logarithm of the speed of each cell, with a penalty on jumps.
    theta = np.zeros((size, size)).requires_grad_()
    optimizer = ndgrad.optim.LBFGS(
        [theta], max_iter=8 if quick else 40, line_search_fn="strong_wolfe", tolerance_change=1e-14
    )

    # The misfit compares the simulated recordings with the true ones. The penalty prefers few edges, because
    # many grounds explain the recordings about equally well.
    def closure():
        optimizer.zero_grad()
        misfit = sum(((simulate(np.exp(theta), s, steps) - data) ** 2).sum() for s, data in zip(sources, heard))
        rough = [np.diff(theta, axis=axis) for axis in (0, 1)]
        loss = misfit + 0.02 * sum(np.sqrt(r**2 + 1e-4).sum() - 0.01 * r.size for r in rough)
        loss.backward()
        return loss

    # One call runs the whole optimisation.
    first = float(closure().detach())
    optimizer.step(closure)
    last = float(closure().detach())

    # Draw the true ground, the ground that was found, and one of the recordings.
    found = np.exp(theta.detach())
    error = float(np.abs(found - true).mean() / np.abs(true - 1).mean())
    print(f"misfit {first:.2e} -> {last:.2e}; the {theta.size} speeds are at {error:.2f} of the first guess's error")
    maps = {"the ground": true, "found": found}
    charts = [ndgrad.viz.Chart(name, width=220, height=244).image(v, low=0.75, high=1.3) for name, v in maps.items()]
    echoes = ndgrad.viz.Chart("heard: time runs down", width=180, height=244)
    return last / first, ndgrad.viz.beside(*charts, echoes.image(heard[-1][::2], signed=True))


if __name__ == "__main__":
    main()[1].save("pde_constrained.svg")
