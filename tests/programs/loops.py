"""Random functions of loops and branches in one another, under random transforms."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import ndgrad
from ndgrad.func import associative_scan, cond, fori_loop, grad, hessian, jacfwd, jacrev, jvp, scan, vmap, while_loop
from ndgrad.func import map as mapped

SMOOTH: list[Callable[..., Any]] = [
    lambda a, b: (a * b).sin(),
    lambda a, b: (a + b).tanh(),
    lambda a, b: a * 0.5 - b * 0.3,
    lambda a, b: (a * a + 1).sqrt() * b,
    lambda a, b: (a @ b) * 0.1 + a,
    lambda a, b: a - b.mean(),
    lambda a, b: ndgrad.softmax(a, 0) + b * 0.1,
    lambda a, b: (a * 0.3).exp() * 0.5 + b.flip(0) * 0.2,
    lambda a, b: ndgrad.where(a > b, a * 0.7, b),
]


class Drawn:
    """A function of a vector, a matrix of rows and a weight, drawn by a seed; each call is the same program."""

    def __init__(self, seed: int, depth: int = 2) -> None:
        rng = random.Random(seed)
        self.run = self._state(rng, depth)

    def __call__(self, x: Any, rows: Any, w: Any) -> Any:
        return (self.run(x, rows, w) * w).sum()

    def _state(self, rng: random.Random, depth: int) -> Callable[[Any, Any, Any], Any]:
        """A vector from a vector, rows, and a weight that is closed over."""
        parts = [self._part(rng, depth) for _ in range(rng.randint(1, 3))]

        def run(c: Any, rows: Any, w: Any) -> Any:
            for part in parts:
                c = part(c, rows, w)
            return c

        return run

    def _part(self, rng: random.Random, depth: int) -> Callable[[Any, Any, Any], Any]:
        op, which = rng.choice(SMOOTH), rng.random()
        if depth == 0 or rng.random() < 0.3:
            return (lambda c, rows, w: op(c, w)) if which < 0.5 else (lambda c, rows, w: op(c, rows[0]))
        inner, other = self._state(rng, depth - 1), self._state(rng, depth - 1)
        reverse, number = rng.random() < 0.5, rng.randint(0, 5)
        options: dict[str, Any] = {"reverse": reverse}
        options.update(rng.choice([{}, {}, {"checkpoint": 2}, {"unroll": 2}]))

        def by_scan(c: Any, rows: Any, w: Any) -> Any:
            last, ys = scan(lambda s, row: (inner(op(s, row), rows, w), s.sum() * row), c, rows, **options)
            return op(last, ys.sum(0) * 0.1)

        def by_fori(c: Any, rows: Any, w: Any) -> Any:
            return fori_loop(0, number, lambda i, s: inner(op(s, rows[i % 4]), rows, w) + i * 0.01, c)

        def by_cond(c: Any, rows: Any, w: Any) -> Any:
            return cond(c.sum() > w.sum() * 0.5, lambda s: inner(s, rows, w), lambda s: other(op(s, w), rows, w), c)

        def by_while(c: Any, rows: Any, w: Any) -> Any:
            def holds(s: Any) -> Any:
                return (s[1] < 4) & ((s[0] * s[0]).sum() < 20)

            return while_loop(holds, lambda s: (inner(s[0], rows, w) * 1.1, s[1] + 1), (c, ndgrad.tensor(0)))[0]

        def by_map(c: Any, rows: Any, w: Any) -> Any:
            return c + mapped(lambda row: inner(op(row, c), rows, w), rows).mean(0)

        def by_prefixes(c: Any, rows: Any, w: Any) -> Any:
            return c * 0.5 + associative_scan(lambda a, b: a * b * 0.5 + 0.1, rows, reverse=reverse).mean(0)

        return rng.choice([by_scan, by_scan, by_fori, by_cond, by_while, by_map, by_prefixes])


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "grad": lambda f: grad(f, argnums=(0, 1, 2)),
    "jvp": lambda f: lambda *args: jvp(f, args, args),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f)),
    "hessian": lambda f: hessian(f),
    "jacrev of grad": lambda f: jacrev(grad(f), argnums=2),
    "grad of grad of grad": lambda f: grad(lambda *a: grad(lambda *a: grad(f, 2)(*a).sum(), 0)(*a).sum(), 2),
    "vmap of jacrev of grad": lambda f: lambda x, r, w: vmap(jacrev(grad(f, 2), 2), in_dims=(0, None, None))(ndgrad.stack([x, -x]), r, w),
    "vmap": lambda f: lambda x, r, w: vmap(f, in_dims=(0, None, None))(ndgrad.stack([x, -x, x * 2]), r, w),
    "vmap of grad": lambda f: lambda x, r, w: vmap(grad(f, argnums=(0, 2)), in_dims=(None, 0, None))(x, ndgrad.stack([r, -r]), w),
    "grad of vmap": lambda f: lambda x, r, w: grad(lambda w: vmap(f, in_dims=(0, None, None))(ndgrad.stack([x, -x]), r, w).sum())(w),
}


def transformed(seed: int) -> tuple[str, Callable[..., Any], list[Any]]:
    """The program of a seed under one of the transforms, which is named, and arguments for it."""
    rng = np.random.default_rng(seed)
    args = [ndgrad.tensor(rng.standard_normal(shape)) for shape in ((3,), (4, 3), (3,))]
    name = random.Random(seed).choice(list(TRANSFORMS))
    return name, TRANSFORMS[name](Drawn(seed)), args
