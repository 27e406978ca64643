"""A physics-informed network: u'' = -π² sin(πx), u = 0 at both ends, by a network whose derivatives are exact."""

from __future__ import annotations

import math

import ndgrad
from ndgrad.func import functional_call, grad, vmap


def main(quick: bool = False) -> tuple[float, ndgrad.viz.Picture]:
    """The largest error of the solution, which is sin(πx), and the solution."""
    # The unknown function is a small network in double precision, which is trained at 60 points.
    ndgrad.manual_seed(0)
    net = ndgrad.nn.Sequential(
        ndgrad.nn.Linear(1, 24), ndgrad.nn.Tanh(), ndgrad.nn.Linear(24, 24), ndgrad.nn.Tanh(), ndgrad.nn.Linear(24, 1)
    ).double()
    x = ndgrad.linspace(0, 1, 25 if quick else 60, dtype=ndgrad.float64)

    # The solution is zero at both ends. The factor `x (1 - x)` guarantees it, so the loss needs no
    # term for it.
    def u(p, x):
        return x * (1 - x) * functional_call(net, p, (x.reshape(1),)).squeeze()  # zero at both ends by construction

    # Two nested `grad` give the second derivative at one point, and `vmap` computes it at all points.
    # `functional_call` makes the parameters an argument.
    curvature = vmap(grad(grad(u, argnums=1), argnums=1), in_dims=(None, 0))
    parameters = dict(net.named_parameters())
    optimizer = ndgrad.optim.LBFGS(net.parameters(), max_iter=60 if quick else 300, line_search_fn="strong_wolfe")

    # The loss is the residual of the equation. Its gradient in the parameters differentiates a third
    # time.
    def closure():
        optimizer.zero_grad()
        residual = curvature(parameters, x) + math.pi**2 * (math.pi * x).sin()
        loss = (residual**2).mean()
        loss.backward()
        return loss

    # Compare the solution with the exact one.
    loss = optimizer.step(closure)
    found = vmap(u, in_dims=(None, 0))(parameters, x)
    error = float((found - (math.pi * x).sin()).abs().max().detach())
    print(f"loss {float(loss.detach()):.1e} at first; largest error of the solution {error:.1e}")
    chart = ndgrad.viz.Chart("a differential equation solved by a network", x="x")
    return error, chart.line(x, (math.pi * x).sin(), "exact").points(x, found, "the network")


if __name__ == "__main__":
    main()[1].save("physics_informed.svg")
