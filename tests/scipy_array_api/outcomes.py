"""Run all calls or a group of them, and print as JSON what came of each: "" if values and gradients are right, its error, or what is wrong.

    SCIPY_ARRAY_API=1 python -m tests.scipy_array_api.outcomes [<group> [<name>...]]

A process of its own, because SciPy reads the variable when it is imported.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from typing import Any

import numpy as np

import ndgrad.array_api as xp
from ndgrad.numpy import Array
from tests.scipy_array_api.cases import GROUPS, Case

MODULES = (
    "cluster.hierarchy cluster.vq constants differentiate fft integrate interpolate linalg ndimage optimize.elementwise signal "
    "spatial.transform special stats"
)


def parts(result: Any) -> list[Any]:
    return [p for r in result for p in parts(r)] if isinstance(result, (tuple, list)) else [result]


def loss(results: list[Any], module: Any) -> Any:
    """A real number that depends on all results."""
    total: Any = 0.0
    for k, r in enumerate(results):
        r = module.asarray(r)
        weights = module.asarray(np.cos(np.arange(r.size) + k).reshape(r.shape))
        total = total + module.sum(module.real(r) * weights)
        if r.dtype.kind == "c":
            total = total + module.sum(module.imag(r) * (1.0 - weights))
    return total


def directions(x: Any) -> Any:
    """Along which a gradient is compared: the axes of a small array; of a larger one some at random, none of whose elements is small. A
    gradient that is wrong anywhere is wrong along them."""
    dims = x.size * (2 if x.dtype.kind == "c" else 1)
    if dims <= 4:
        units = np.eye(x.size).reshape(x.size, *x.shape)
        return np.concatenate([units, 1j * units]) if x.dtype.kind == "c" else units
    random = np.random.default_rng(0)
    draw = lambda: random.uniform(0.5, 1.0, (4, *x.shape)) * random.choice([-1.0, 1.0], (4, *x.shape))
    return draw() + 1j * draw() if x.dtype.kind == "c" else draw()


def slope(f: Any, arrays: list[Any], which: int, along: Any) -> Any:
    """A central difference, of fourth order so that steps can be long: results of iterations carry noise."""
    step = 2e-4

    def move_by(distance: float) -> Any:
        return f(*(a + distance * along if i == which else a for i, a in enumerate(arrays)))

    near, far = move_by(step) - move_by(-step), move_by(2 * step) - move_by(-2 * step)
    return (8.0 * near - far) / (12 * step)


def outcome(scipy: Any, case: Case) -> str:
    inputs = [xp.asarray(a).requires_grad_() for a in case.arrays]
    try:
        results = parts(case.run(scipy, xp, *inputs))
    except Exception as error:
        if os.environ.get("SHOW"):
            raise
        return type(error).__name__
    try:
        return compared(scipy, case, inputs, results)
    except Exception as error:
        if os.environ.get("SHOW"):
            raise
        return f"wrong: {type(error).__name__}: {error}"


def compared(scipy: Any, case: Case, inputs: list[Any], results: list[Any]) -> str:
    """Values beside SciPy's on plain arrays, gradients beside differences of these."""
    expected = parts(case.run(scipy, np, *case.arrays))
    if not all(type(r) is Array for r in results):
        return f"wrong: results are {sorted({type(r).__name__ for r in results})}"
    for ours, theirs in zip(results, expected, strict=True):
        if not np.allclose(ours.detach().numpy(), theirs, rtol=1e-8, atol=1e-10):
            return f"wrong: the value is {ours.detach().numpy()} and SciPy's {theirs}"
    if case.constant == any(r.requires_grad for r in results):
        return "wrong: the results require grad" if case.constant else "wrong: no result requires grad"
    if not case.constant:
        loss(results, xp).backward()
    for k, t in enumerate(inputs):
        f = lambda *values: float(loss(parts(case.run(scipy, np, *values)), np))
        found = np.zeros(t.shape) if t.grad is None else t.grad.numpy()
        along = directions(case.arrays[k])
        want = np.array([slope(f, list(case.arrays), k, d) for d in along])
        got = np.array([np.sum((found.conj() * d).real) for d in along])
        if not np.allclose(got, want, rtol=case.tolerance, atol=case.tolerance * (1 + np.abs(want).max())):
            return f"wrong: the slopes in argument {k} are {got.tolist()} and should be {want.tolist()}"
    return ""


def main(group: str | None = None, *names: str) -> None:
    assert os.environ.get("SCIPY_ARRAY_API") == "1", "set SCIPY_ARRAY_API=1 before SciPy is imported"
    import scipy

    for name in MODULES.split():
        importlib.import_module(f"scipy.{name}")
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    groups = GROUPS if group is None else {group: {n: c for n, c in GROUPS[group].items() if not names or n in names}}
    print(json.dumps({group: {name: outcome(scipy, case) for name, case in cases.items()} for group, cases in groups.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
