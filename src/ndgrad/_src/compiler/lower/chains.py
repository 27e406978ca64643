"""Chains: steps that go through a batch together, one index after the other.

    product0: scores[b] = q[b] k[b]^T                 for b in batch, by the workers:
    kernel0:  weights[b] = softmax(scores[b])     ->      product0[b], kernel0[b], product1[b]
    product1: out[b] = weights[b] v[b]

Steps in a row, of which each reads of the others' results, at an index of the batch, only what they have written at
that index, need not wait for one another's whole. A worker takes an index through all of them, so what lies between
stays in its cache, and workers meet once. Attention is such a chain, one head or one example after the other, forward
and backward. The arithmetic is that of the steps.

What a step touches of a value at index i is a *region*, one step further at each index. Of a value that the chain
writes, no two indices may touch the same element.
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

#: Indices of a batch, at least: there must be work for all workers.
_FEWEST = 8
#: The bytes that the steps of a chain write at one index, at most: they should stay in the second-level cache.
_BAND = 3 << 17
#: Floating-point operations of its products, at least.
_FLOPS = 500_000
#: Steps, at most.
_LONGEST = 32


def chained(steps: Sequence[Step], target: Target) -> list[Step]:
    """The steps, those together that are chains."""
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
    """The numbers of indices that a chain from a step on may have: those of the leading dimensions of the next batch
    of products, if there is one soon."""
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
    """The chain of so many indices that begins with a step, as far as what it writes stays in the cache."""
    chain = Chain([], extent)
    written: set[Value] = set()
    seen: dict[Value, list[_Region | None]] = {}
    for step in steps[number : number + _LONGEST]:
        if not isinstance(step, (Kernel, Product)):
            break
        if step not in links:
            links[step] = _Link(step, target)
        regions = links[step].regions(extent)
        written |= step.written()
        if regions is None or sum(v.nbytes for v in written) > _BAND * extent:
            break
        for root, region in regions:
            seen.setdefault(root, []).append(region)
        if not all(_are_apart(region, other) for root, region in regions if root in written for other in seen[root]):
            break
        chain.steps.append(step)
    return chain


class _Region(NamedTuple):
    """What a step reads or writes of a value: at index i, elements from offset + i * step on, as many as span."""

    offset: int
    step: int
    span: int
    indices: int

    @property
    def is_band(self) -> bool:
        """Whether it keeps to parts that are as long as its step."""
        return self.offset >= 0 and self.offset + self.span <= self.step

    @property
    def end(self) -> int:
        return self.offset + (self.indices - 1) * self.step + self.span


def _are_apart(one: _Region | None, two: _Region | None) -> bool:
    """Whether no two different indices touch the same element of a value, of which a chain touches these regions."""
    if one is None or two is None:
        return False
    if one is two:
        return one.span <= one.step
    if one.step == two.step and one.is_band and two.is_band:
        return True
    return one.span <= one.step and two.span <= two.step and (one.end <= two.offset or two.end <= one.offset)


class _Link:
    """What a step reads and writes, as far as that decides whether it can be part of a chain."""

    def __init__(self, step: Kernel | Product, target: Target) -> None:
        self.step = step
        if isinstance(step, Kernel):
            slots = {value: n for n, value in enumerate(step.touched())}
            self.nest = Nest(step, "kernel", target, slots)

    def regions(self, extent: int) -> list[tuple[Value, _Region | None]] | None:
        """What it touches of which value, where it goes through so many indices; None if it cannot. What it touches
        in another way than by steps has no region."""
        if isinstance(self.step, Product):
            return _product_regions(self.step, extent)
        nest = self.nest
        if self.step.targets or nest.splits_row or nest.extent % extent:
            return None
        found = [(a.root, _of_access(nest.shape, a, extent)) for a in nest.every]
        writes = {id(a) for a in (*nest.stores.values(), *[a for puts in nest.puts.values() for a in puts])}
        for access, (_, region) in zip(nest.every, found, strict=True):
            if id(access) in writes and (region is None or region.span > region.step):
                return None
        return found


def _of_access(shape: list[int], access: Access, extent: int) -> _Region | None:
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
    places = [(p.root, _of_place(p, leading, extent)) for p in (step.a, step.b)]
    return [*places, (step.result, _Region(0, part, part, extent))]


def _of_place(place: Place, leading: int, extent: int) -> _Region | None:
    """The region of a place whose leading dimensions are the indices: None unless they are one step apart."""
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
