"""`ndgrad check`: compare gradients of a user's function by reverse mode, forward mode and finite differences."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.command_line import CommandError
from ndgrad._src.command_line.progress import progress
from ndgrad._src.command_line.targets import Target

#: Up to this many elements of an argument are checked; larger arguments are sampled.
MOST_ELEMENTS = 200
STEP = 1e-6


def run(options: argparse.Namespace) -> int:
    target = Target(options.target, options.shape, options.inputs, options.seed)
    names = list(target.differentiable)
    if not names:
        raise CommandError(
            f"{target.name} has no argument of floating point to differentiate. Give some with --inputs. [nd-command]"
        )
    out = target.result()
    again = target.result()
    if not ndgrad.equal(ndgrad.nan_to_num(out.detach()), ndgrad.nan_to_num(again.detach())):
        raise CommandError(
            f"{target.name} returned two different results for the same arguments, so finite differences cannot "
            "measure its gradients. Call ndgrad.manual_seed(0) inside it. [nd-command]"
        )
    if not out.requires_grad:
        print(ndgrad.autograd.explain(out, target.values[names[0]]))
        raise CommandError(
            f"the result of {target.name} does not depend on its arguments through a graph. [nd-command]"
        )
    rng = np.random.default_rng(options.seed)
    weights = ndgrad.tensor(rng.normal(size=tuple(out.shape)), dtype=ndgrad.float64)

    def value(arguments: dict[str, Any]) -> Any:
        """Return the result as a number, with random weights so that errors do not cancel."""
        return (target.call(arguments).real * weights).sum()

    print(
        f"{target.name}({', '.join(f'{n} {tuple(target.values[n].shape)}' for n in names)})"
        f" -> {tuple(out.shape)}, in float64\n"
    )
    # Rows of the table report infinite and undefined values; the warnings of single ops would only repeat them.
    with np.errstate(all="ignore"):
        return _compare(target, value, names, rng, options)


def _compare(
    target: Target, value: Callable[[dict[str, Any]], Any], names: list[str], rng: Any, options: argparse.Namespace
) -> int:
    """Print all comparisons and a summary. Return the exit status."""
    worst = _table(value, target.values, names, rng, options.tolerance)
    worst = max(worst, _forward_mode(value, target.values, names, rng, options.tolerance))
    if options.second:
        print("\nsecond derivatives, in a random direction\n")
        direction = {n: _direction(target.values[n], rng) for n in names}

        def slope(arguments: dict[str, Any]) -> Any:
            gradients = ndgrad.autograd.grad(
                value(arguments), [arguments[n] for n in names], create_graph=True, allow_unused=True
            )
            return sum((g.conj() * direction[n]).real.sum() for n, g in zip(names, gradients) if g is not None)

        worst = max(worst, _table(slope, target.values, names, rng, 10 * options.tolerance))
    if worst <= 1:
        print("\nThe gradients agree.")
        return 0
    if not math.isfinite(worst):
        print(
            "\nA value or gradient is infinite or undefined at this point. Choose arguments with --inputs where the "
            "function is smooth, or find the op with ndgrad.autograd.detect_anomaly()."
        )
        return 1
    print(
        "\nThe gradients disagree. If the function is not smooth at this point (a kink, a tie, a branch), try another "
        "--seed; if it has a custom backward, look there; otherwise please report it."
    )
    return 1


def _table(
    f: Callable[[dict[str, Any]], Any], values: dict[str, Any], names: list[str], rng: Any, tolerance: float
) -> float:
    """Print a row per argument; return the largest error, in units of the tolerance."""
    whole = f(values)
    # The derivative of a linear function is constant: it has no graph, and is compared with zeros.
    gradients = (
        ndgrad.autograd.grad(whole, [values[n] for n in names], allow_unused=True)
        if whole.requires_grad
        else [None] * len(names)
    )
    print(f"  {'argument':16} {'elements':>9} {'largest gradient':>17} {'largest error':>14}   worst element")
    largest = 0.0
    for name, gradient in zip(names, gradients):
        x = values[name].detach()
        exact: Any = np.zeros(tuple(x.shape)) if gradient is None else np.asarray(gradient.detach().numpy())
        places = list(np.ndindex(*x.shape))
        if len(places) > MOST_ELEMENTS:
            places = [places[i] for i in sorted(rng.choice(len(places), MOST_ELEMENTS, replace=False))]
        rows, is_whole = [], False
        try:
            for n in progress(len(places), f"  {name}"):
                rows.append((places[n], exact[places[n]], _difference(f, values, name, places[n])))
            is_whole = True
        except KeyboardInterrupt:  # The elements measured so far are shown below.
            pass
        errors = [_error(ours, measured) for _, ours, measured in rows]
        error = max(errors, default=0.0)
        place, ours, measured = rows[errors.index(error)] if rows else ((), 0.0, 0.0)
        largest = max(largest, error / tolerance)
        mark = "ok" if error <= tolerance else f"WRONG: {ours:.6g}, measured {measured:.6g}"
        size = float(np.abs(exact).max()) if exact.size else 0.0
        at = f"{name}[{', '.join(map(str, place))}]" if place else name
        print(
            f"  {name:16} {len(errors):9} {size:17.6g} {error:14.1e}   {at:14} {mark}"
            + (" (a constant)" if gradient is None else "")
        )
        if not is_whole:
            raise KeyboardInterrupt
    return largest


def _error(ours: complex, measured: complex) -> float:
    """Return the difference of two numbers, relative to the larger of 1 and ours; infinite if one is not finite."""
    error = float(abs(ours - measured) / (1 + abs(ours)))
    return error if math.isfinite(error) else math.inf


def _difference(
    f: Callable[[dict[str, Any]], Any], values: dict[str, Any], name: str, place: tuple[int, ...]
) -> complex:
    """Return the central difference in one element; for a complex one in both directions, packed like gradients."""
    found: complex = 0.0
    for way in (1.0, 1j) if values[name].is_complex() else (1.0,):
        ends = []
        for sign in (1.0, -1.0):
            moved = values[name].detach().clone()
            moved[place] = moved[place] + sign * STEP * way
            ends.append(float(f({**values, name: moved.requires_grad_()}).detach()))
        found += way * (ends[0] - ends[1]) / (2 * STEP)
    return found


def _direction(x: Any, rng: Any) -> Any:
    parts = [rng.normal(size=tuple(x.shape)) for _ in range(2 if x.is_complex() else 1)]
    return ndgrad.tensor(parts[0] + 1j * parts[1] if len(parts) > 1 else parts[0], dtype=x.dtype)


def _forward_mode(
    f: Callable[[dict[str, Any]], Any], values: dict[str, Any], names: list[str], rng: Any, tolerance: float
) -> float:
    """Compare forward mode with reverse mode in a random direction, if the function supports it; return the error
    in units of the tolerance."""
    points = tuple(values[n].detach() for n in names)
    tangents = tuple(_direction(p, rng) for p in points)
    gradients = ndgrad.autograd.grad(f(values), [values[n] for n in names], allow_unused=True)
    # In the real inner product, the two modes are transposes of each other.
    reverse = sum(float((g.conj() * t).real.sum()) for g, t in zip(gradients, tangents) if g is not None)
    try:
        _, slope = ndgrad.func.jvp(lambda *xs: f({**values, **dict(zip(names, xs))}), points, tangents)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        print(f"\n  forward mode: not through this function ({str(error).splitlines()[0]})")
        return 0.0
    apart = _error(reverse, float(slope))
    print(
        f"\n  forward mode against reverse mode, in a random direction: {apart:.1e} "
        + ("ok" if apart <= tolerance else "WRONG")
    )
    return apart / tolerance
