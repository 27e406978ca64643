"""Chains: steps that pass through a batch together, index by index.

    product0: scores[b] = q[b] k[b]^T                 for b in batch, by the workers:
    kernel0:  weights[b] = softmax(scores[b])     ->      product0[b], kernel0[b], product1[b]
    product1: out[b] = weights[b] v[b]

Consecutive steps form a chain if each one, at an index of the batch, reads only results that the others wrote at that
index. Such steps need not wait for each other's whole result. A worker takes one index through all of them.
Intermediate values stay in its cache, and workers synchronise once. Attention is such a chain over heads or examples,
forward and backward. The arithmetic does not change.

The elements of a value that a step touches at index i are a *region*, which moves by one step per index. If the chain
writes a value, no two indices may touch the same element of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ndgrad._src.compiler.lower.loop_nests import Access, Nest
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.lower.steps import Chain, Kernel, Step
from ndgrad._src.compiler.native.target import Target
from ndgrad._src.compiler.program.program import Value

#: Minimum number of indices of a batch, so that all workers have work.
_FEWEST = 8
#: Maximum bytes that the steps of a chain write at one index, so that they stay in the second-level cache.
_BAND = 3 << 17
#: Minimum floating-point operations of the products of a chain.
_FLOPS = 500_000
#: Maximum number of steps.
_LONGEST = 32


def form_chains(steps: Sequence[Step], target: Target) -> list[Step]:
    """Return the steps, with chains as one step each."""
    found: list[Step] = []
    links: dict[Kernel | Product, _Link] = {}
    number = 0
    while number < len(steps):
        best: Chain | None = None
        for extent in _extents(steps, number):
            chain = _longest(steps, number, extent, target, links)
            if len(chain.steps) > (1 if best is None else len(best.steps)) and chain.flops >= _FLOPS:
                best = chain
        found.append(steps[number] if best is None else best)
        number += 1 if best is None else len(best.steps)
    return found


def _extents(steps: Sequence[Step], number: int) -> list[int]:
    """Return the possible index counts of a chain from a step on: the leading dimensions of the next batch of products,
    if one follows soon.
    """
    if not isinstance(steps[number], (Kernel, Product)):
        return []
    for step in steps[number : number + 3]:
        if isinstance(step, Product) and step.batch:
            counts = {prod(step.batch[: d + 1]) for d in range(len(step.batch))}
            return sorted([n for n in counts if n >= _FEWEST], reverse=True)
    return []


def _longest(
    steps: Sequence[Step], number: int, extent: int, target: Target, links: dict[Kernel | Product, _Link]
) -> Chain:
    """Return the longest chain of so many indices that begins with a step and whose writes stay in the cache."""
    chain = Chain([], extent)
    written: set[Value] = set()
    seen: dict[Value, list[_Region | None]] = {}
    for step in steps[number : number + _LONGEST]:
        if not isinstance(step, (Kernel, Product)):
            break
        if step not in links:
            links[step] = _Link(step, target)
        regions = links[step].regions(extent)
        written |= step.written_values()
        if regions is None or sum(v.nbytes for v in written) > _BAND * extent:
            break
        for root, region in regions:
            seen.setdefault(root, []).append(region)
        if not all(_are_apart(region, other) for root, region in regions if root in written for other in seen[root]):
            break
        chain.steps.append(step)
    return chain


class _Region(NamedTuple):
    """The elements of a value that a step reads or writes: at index i, `span` elements from offset + i * step on."""

    offset: int
    step: int
    span: int
    indices: int

    @property
    def is_band(self) -> bool:
        """True if each part is no longer than its step."""
        return self.offset >= 0 and self.offset + self.span <= self.step

    @property
    def end(self) -> int:
        return self.offset + (self.indices - 1) * self.step + self.span


def _are_apart(one: _Region | None, two: _Region | None) -> bool:
    """True if no two different indices touch the same element of a value, given the regions that a chain touches."""
    if one is None or two is None:
        return False
    if one is two:
        return one.span <= one.step
    if one.step == two.step and one.is_band and two.is_band:
        return True
    return one.span <= one.step and two.span <= two.step and (one.end <= two.offset or two.end <= one.offset)


class _Link:
    """The reads and writes of a step that decide if it can be part of a chain."""

    def __init__(self, step: Kernel | Product, target: Target) -> None:
        self.step = step
        if isinstance(step, Kernel):
            slots = {value: n for n, value in enumerate(step.touched())}
            self.nest = Nest(step, "kernel", target, slots)

    def regions(self, extent: int) -> list[tuple[Value, _Region | None]] | None:
        """Return the regions of each value if the step passes through so many indices; None if it cannot. Accesses
        other than by steps have no region.
        """
        if isinstance(self.step, Product):
            return _product_regions(self.step, extent)
        nest = self.nest
        if self.step.targets or nest.splits_row or nest.extent % extent:
            return None
        found = [(a.root, _region_of_access(nest.shape, a, extent)) for a in nest.every]
        writes = {id(a) for a in (*nest.stores.values(), *[a for puts in nest.puts.values() for a in puts])}
        for access, (_, region) in zip(nest.every, found, strict=True):
            if id(access) in writes and (region is None or region.span > region.step):
                return None
        return found


def _region_of_access(shape: list[int], access: Access, extent: int) -> _Region | None:
    if min(access.strides) < 0:
        return None
    turns = shape[0] // extent
    lengths = [turns, *shape[1:]]
    span = 1 + sum((n - 1) * stride for n, stride in zip(lengths, access.strides, strict=True))
    return _Region(access.offset, turns * access.strides[0], span, extent)


def _product_regions(step: Product, extent: int) -> list[tuple[Value, _Region | None]] | None:
    leading = next((d for d in range(1, len(step.batch) + 1) if prod(step.batch[:d]) == extent), None)
    if leading is None:
        return None
    part = step.result.size // extent
    places = [(p.root, _region_of_place(p, leading, extent)) for p in (step.a, step.b)]
    return [*places, (step.result, _Region(0, part, part, extent))]


def _region_of_place(place: Place, leading: int, extent: int) -> _Region | None:
    """Return the region of a place whose leading dimensions are the indices; None unless they are one step apart."""
    step = place.strides[leading - 1]
    expected = step
    for n, stride in zip(reversed(place.shape[:leading]), reversed(place.strides[:leading]), strict=True):
        if n != 1 and stride != expected:
            return None
        expected *= n
    if min(place.strides) < 0:
        return None
    inside = zip(place.shape[leading:], place.strides[leading:], strict=True)
    return _Region(place.offset, step, 1 + sum((n - 1) * stride for n, stride in inside), extent)
