"""A deep equilibrium layer: its output is the fixed point of a small network, its gradient comes from the equation."""

from __future__ import annotations

import ndgrad
from ndgrad.implicit import fixed_point


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The training loss on a task that one linear layer cannot solve (parity of three bits), and its curve."""
    # The task: the product of three signs. The parameters are four arrays; scaled random numbers are
    # a good start.
    ndgrad.manual_seed(0)
    width = 12
    inside = (0.1 * ndgrad.randn(width, width, dtype=ndgrad.float64)).requires_grad_()
    into = (0.8 * ndgrad.randn(3, width, dtype=ndgrad.float64)).requires_grad_()
    bias = (0.3 * ndgrad.randn(width, dtype=ndgrad.float64)).requires_grad_()
    out = (0.3 * ndgrad.randn(width, dtype=ndgrad.float64)).requires_grad_()
    bits = ndgrad.tensor([[i >> k & 1 for k in range(3)] for i in range(8)], dtype=ndgrad.float64) * 2 - 1
    target = bits.prod(1)

    # The layer repeats this step until its state no longer changes.
    def step(z, inside, driven):
        return (z @ inside + driven).tanh()

    # `fixed_point` finds the state, and its gradient comes from the equation `z = step(z)`. So the
    # iterations need no memory, and their number does not matter.
    losses = []
    optimizer = ndgrad.optim.Adam([inside, into, bias, out], lr=0.03)
    for _ in range(60 if quick else 300):
        z = fixed_point(step, ndgrad.zeros(8, width, dtype=ndgrad.float64), args=(inside, bits @ into + bias))
        loss = ((z @ out - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(f"loss {losses[-1]:.1e} on the parity of three bits")
    chart = ndgrad.viz.Chart("a layer that is a fixed point", x="step", y="loss", log_y=True)
    return losses[-1], chart.line(range(len(losses)), losses)


if __name__ == "__main__":
    main()[1].save("implicit_layer.svg")
