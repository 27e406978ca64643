"""`ndgrad demo`: a demonstration of the package in a few seconds, without further requirements."""

from __future__ import annotations

import argparse
import sys
import time

import ndgrad
from ndgrad._src.command_line import INTERRUPTED
from ndgrad._src.command_line.graph import check_picture, save
from ndgrad._src.command_line.progress import progress

STEPS = 400


def run(options: argparse.Namespace) -> int:
    if options.output is not None:
        check_picture(options.output)
    ndgrad.manual_seed(0)
    model = ndgrad.nn.Sequential(
        ndgrad.nn.Linear(1, 24), ndgrad.nn.Tanh(), ndgrad.nn.Linear(24, 24), ndgrad.nn.Tanh(), ndgrad.nn.Linear(24, 1)
    )
    x = ndgrad.linspace(-3, 3, 96).reshape(-1, 1)
    target = (2 * x).sin() * (-0.2 * x * x).exp()

    print("1. A gradient, next to a central difference of the same function\n")
    exact_model = ndgrad.nn.Sequential(ndgrad.nn.Linear(1, 4), ndgrad.nn.Tanh(), ndgrad.nn.Linear(4, 1)).double()
    weight = next(exact_model.parameters())

    def loss_of(weight_value: ndgrad.Tensor) -> ndgrad.Tensor:
        parameters = {**dict(exact_model.named_parameters()), "0.weight": weight_value}
        return (ndgrad.func.functional_call(exact_model, parameters, (x.double(),)) - target.double()).square().mean()

    (gradient,) = ndgrad.autograd.grad(loss_of(weight), weight)
    for i in range(3):
        step = ndgrad.zeros_like(weight)
        step[i, 0] = 1e-6
        measured = float((loss_of(weight.detach() + step) - loss_of(weight.detach() - step)).detach()) / 2e-6
        print(f"   weight[{i}, 0]   backward {float(gradient[i, 0]):+.9f}   measured {measured:+.9f}")

    print(f"\n2. A network of {sum(p.numel() for p in model.parameters())} parameters learns sin(2x) exp(-x²/5)\n")
    optimizer = ndgrad.optim.Adam(model.parameters(), lr=1e-2)
    began = time.perf_counter()
    steps, is_interrupted = 0, False
    try:
        for _ in progress(STEPS, "   training"):
            optimizer.zero_grad()
            (model(x) - target).square().mean().backward()
            optimizer.step()
            steps += 1
    except KeyboardInterrupt:  # The network learned so far is shown below.
        is_interrupted = True
    learned = model(x).detach()
    loss = (learned - target).square().mean().item()
    print(f"   loss {loss:.1e} after {steps} steps in {time.perf_counter() - began:.1f} s")
    _curve(target.reshape(-1).tolist(), learned.reshape(-1).tolist())
    if is_interrupted:
        print("ndgrad: interrupted; this is the fit so far", file=sys.stderr)
        return INTERRUPTED

    print("\n3. The graph behind the loss\n")
    picture = ndgrad.viz.graph({"loss": (model(x) - target).square().mean()}, params=model)
    if options.output is None:
        print("   " + str(picture).replace("\n", "\n   "))
        print("\n   ndgrad demo -o graph.html draws it as a page to walk in.")
        return 0
    save(picture, options.output)
    print(f"   {options.output}: {picture.caption}")
    return 0


def _curve(target: list[float], learned: list[float], height: int = 9) -> None:
    """Print both curves in characters: `·` for the target, `*` for the learned one."""
    rows = [[" "] * len(target) for _ in range(height)]
    for values, mark in ((target, "·"), (learned, "*")):
        for column, value in enumerate(values):
            rows[min(height - 1, max(0, round((1 - value) / 2 * (height - 1))))][column] = mark
    for row in rows:
        print("   " + "".join(row).rstrip())
    sys.stdout.flush()
