"""Random programs made of the table's ops, and a slow reference for their derivatives of any order.

Each op, with one of its sample inputs, becomes a smooth map of the plane: the point moves the op's inputs a little away from the
sample, and the result is projected back to the plane. Such maps can be chained, so a random list of names is a random program.

The reference does not use derivatives. It evaluates the program on a lattice and takes central differences of sixth order, to any
order of derivatives; values are computed once per point.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM, table
from tests.op_programs import SAMPLES, differentiable, program_of

Map = Callable[[Any], Any]

#: Distance by which the inputs of an op move if the point moves by one.
REACH = 0.02


def _is_usable(op: Any, sample: Any) -> bool:
    if op.vjp is NOT_DIFFERENTIABLE or op.batch is RANDOM or op.batch is DATA_DEPENDENT:
        return False
    if not sample.smooth or sample.skip or sample.invariant is not None:
        return False
    positions = differentiable(op, sample)
    arrays = [a for a in sample.args if isinstance(a, np.ndarray)]
    if not positions or not all(a.size for a in arrays) or sum(a.size for a in arrays) > 64:
        return False
    return all(sample.args[i].dtype in (np.float64, np.complex128) for i in positions)


#: "name of an op, number of its sample"
STEPS = sorted(
    f"{name} {i}" for name, samples in SAMPLES.items() if name in table for i, s in enumerate(samples) if _is_usable(table[name], s)
)


@functools.cache
def step(name: str) -> Map | None:
    """Return the map of the plane for an op; None if the sample is at the edge of its domain."""
    op_name, number = name.split()
    op = table[op_name]
    program, inputs = program_of(op, SAMPLES[op_name][int(number)])
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    directions = [ndgrad.tensor(_like(rng, i.numpy())) for i in inputs]

    def outputs(y: Any) -> Any:
        moved = [i + REACH * (d * y).sum(-1) for i, d in zip(inputs, directions, strict=True)]
        flat = [(ndgrad.view_as_real(o) if o.dtype.is_complex else o).reshape(-1) for o in program(*moved)]
        return ndgrad.cat(flat)

    corners = [outputs(ndgrad.tensor(c)).detach().numpy() for c in ([0.0, 0.0], [1.0, 0.5], [-1.0, 1.0], [0.5, -1.0])]
    if not np.isfinite(corners).all() or corners[0].size == 0:
        return None
    projection = rng.normal(size=(2, corners[0].size))
    size = max(np.abs(projection @ (c - corners[0])).max() for c in corners[1:])
    matrix, start = ndgrad.tensor(projection / (size or 1.0)), ndgrad.tensor(corners[0])
    return lambda y: matrix @ (outputs(y) - start)


def _like(rng: Any, a: Any) -> Any:
    made = rng.normal(size=(*a.shape, 2))
    return made + 1j * rng.normal(size=(*a.shape, 2)) if a.dtype.kind == "c" else made


#: Steps with more curvature than a small move of an op's inputs has.
BENDS: dict[str, Map] = {
    "times itself": lambda y: y * y.flip(0) + y,
    "sine": lambda y: (y * 1.5).sin(),
    "norm": lambda y: y / (1.0 + (y * y).sum()),
    "write": lambda y: _write_in_place(y),
}


def _write_in_place(y: Any) -> Any:
    buffer = y.new_zeros(2, 2)
    row = buffer[0]
    row.copy_(y)
    buffer[1] = y.sin()
    row[1:].mul_(y[:1])
    return buffer.sum(0)


class Program:
    """A chain of steps; its repr lists their names."""

    def __init__(self, names: list[str], maps: list[Map]) -> None:
        self.names, self.maps = names, maps
        self.__name__ = " | ".join(names)

    def __call__(self, y: Any) -> Any:
        for m in self.maps:
            y = m(y)
        return y

    def __repr__(self) -> str:
        return f"compose({self.names})"


def compose(names: list[str]) -> Program | None:
    """Return the program of these steps; None if one of them is unusable."""
    maps = [BENDS.get(n) or step(n) for n in names]
    found = [m for m in maps if m is not None]
    return Program(names, found) if len(found) == len(names) else None


# ----- the reference -----------------------------------------------------------------------------------------------------------------

_STENCIL = {1: 0.75, -1: -0.75, 2: -0.15, -2: 0.15, 3: 1 / 60, -3: -1 / 60}

#: A function on the lattice: from integer coordinates to values.
Lattice = Callable[[tuple[int, int]], Any]


def on_lattice(f: Map, point: Any, width: float) -> Lattice:
    return functools.cache(lambda at: f(ndgrad.tensor(point + width * np.array(at))).detach().numpy())


def jacobian(values: Lattice, width: float) -> Lattice:
    """The Jacobian of a function on the lattice: the last dimension is that of the point."""

    def one(at: tuple[int, int]) -> Any:
        return sum(w * values((at[0] + k, at[1])) for k, w in _STENCIL.items()), sum(
            w * values((at[0], at[1] + k)) for k, w in _STENCIL.items()
        )

    return functools.cache(lambda at: np.stack(one(at), axis=-1) / width)
