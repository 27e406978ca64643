"""Positions of boxes: a layered layout, as small as possible while readable.

    layers      a box is one layer above its deepest consumer (longest path from the outputs), so a parameter is next
                to its use
    order       within a layer, sweeps of barycentres; the order with the fewest crossings is kept
    positions   each box as near as possible to the mean of its neighbours, in least squares, without overlapping in
                the given order

Edges over several layers get a bend in each, which takes part in all steps as a box without a body. The least-squares
step is exact: with the gaps subtracted, "keep the order" becomes "do not decrease". That is isotonic regression,
solved in one pass by pooling neighbours.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

_SWEEPS = 12


@dataclass(eq=False)
class Spot:
    """A box, or a bend of an edge, with its position. `x` is the middle, `y` the top."""

    width: float
    height: float
    box: Any = None
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    top: float = 0.0  # `top` and `bottom` are those of the layer; edges bend between layers, behind no box
    bottom: float = 0.0
    reach: int = 0
    weight: float = 1.0
    above: list[Spot] = field(default_factory=list)  # producers
    below: list[Spot] = field(default_factory=list)  # consumers


@dataclass
class Placed:
    """A finished layout: spots of the boxes by box, the path of every edge from producer to consumer, and the total
    size."""

    spots: dict[Any, Spot]
    runs: list[tuple[Any, Any, list[Spot]]]
    width: float
    height: float


def place(
    boxes: list[Any],
    edges: list[tuple[Any, Any]],
    sizes: dict[Any, tuple[float, float]],
    gap: tuple[float, float] = (22.0, 36.0),
) -> Placed:
    """Lay out boxes, given consumers before producers; `edges` are (producer, consumer) pairs."""
    spots = {box: Spot(*sizes[box], box=box) for box in boxes}
    consumers: dict[Any, list[Any]] = {box: [] for box in boxes}
    for producer, consumer in edges:
        consumers[producer].append(consumer)
    for box in boxes:
        spots[box].layer = max((spots[c].layer + 1 for c in consumers[box]), default=0)
    layers: list[list[Spot]] = [[] for _ in range(1 + max(spot.layer for spot in spots.values()))]
    for spot in spots.values():
        layers[spot.layer].append(spot)
    runs = []
    for producer, consumer in dict.fromkeys(edges):
        run = [spots[consumer]]
        for number in range(spots[consumer].layer + 1, spots[producer].layer):
            bend = Spot(4.0, 0.0, layer=number)
            layers[number].append(bend)
            run.append(bend)
        run.append(spots[producer])
        for low, high in pairwise(run):
            low.above.append(high)
            high.below.append(low)
        runs.append((producer, consumer, run[::-1]))
    for layer in reversed(layers):  # A box with more behind it is closer to the trunk, which should be straight.
        for s in layer:
            s.reach = max((n.reach + 1 for n in s.above), default=0)
            s.weight = 1.0 + s.reach**2
    _order(layers)
    _positions(layers, gap[0])
    left = min(s.x - s.width / 2 for layer in layers for s in layer)
    height = 0.0
    for layer in reversed(layers):
        tallest = max(s.height for s in layer)
        for s in layer:
            s.x -= left
            s.y = height + (tallest - s.height) / 2
            s.top, s.bottom = height, height + tallest
        height += tallest + gap[1]
    width = max(s.x + s.width / 2 for layer in layers for s in layer)
    return Placed(spots, runs, width, height - gap[1])


# ----- order ----------------------------------------------------------------------------------------------------------


def _order(layers: list[list[Spot]]) -> None:
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        upwards = sweep % 2 == 0
        for layer in layers[1:] if upwards else layers[-2::-1]:
            fixed = {s: float(i) for i, s in enumerate(layers[layer[0].layer + (-1 if upwards else 1)])}
            here = {s: float(i) for i, s in enumerate(layer)}
            layer.sort(key=lambda s: _mean([fixed[n] for n in (s.below if upwards else s.above)], here[s]))
        found = _crossings(layers)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _crossings(layers: list[list[Spot]]) -> int:
    """Count crossing edges: pairs in the wrong order at their upper ends, when sorted by their lower ones."""
    count = 0
    for low, high in pairwise(layers):
        where = {s: i for i, s in enumerate(high)}
        seen: list[int] = []
        for s in low:
            ends = sorted(where[n] for n in s.above)
            for end in ends:
                count += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return count


# ----- positions ------------------------------------------------------------------------------------------------------


def _positions(layers: list[list[Spot]], gap: float) -> None:
    for layer in layers:
        x = 0.0
        for s in layer:
            s.x = x + s.width / 2
            x += s.width + gap
    for sweep in range(2 * _SWEEPS):
        both = sweep >= _SWEEPS
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = []
            for s in layer:
                sides = s.below + s.above if both else s.below if sweep % 2 == 0 else s.above
                weight = sum(n.weight for n in sides)
                wanted.append(sum(n.x * n.weight for n in sides) / weight if sides else s.x)
            _settle(layer, wanted, gap)


def _settle(layer: list[Spot], wanted: list[float], gap: float) -> None:
    """Move boxes to the positions nearest to the wanted ones that keep order and gaps."""
    offsets = [0.0]
    for left, right in pairwise(layer):
        between = gap if left.box is not None and right.box is not None else gap / 2
        offsets.append(offsets[-1] + left.width / 2 + right.width / 2 + between)
    pools: list[list[float]] = []  # [sum of weighted positions, weight, count]
    for s, x, offset in zip(layer, wanted, offsets, strict=True):
        pools.append([(x - offset) * s.weight, s.weight, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, weight_of, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += weight_of
            pools[-1][2] += count
    position = 0
    for total, weight, count in pools:
        for _ in range(int(count)):
            layer[position].x = total / weight + offsets[position]
            position += 1
