"""Move complex numbers between memory and vectors of their parts, which are every other element.

    every_other      one load at the first element, one that ends with the last: no other memory is read
    interleave       both parts, one store
"""

from __future__ import annotations

from ndgrad._src.compiler.native.ir import Function, Vector


def every_other(f: Function, kind: Vector, start: str) -> str:
    """Load the elements 0, 2, 4, ... from an address on, as many as a vector has."""
    lanes, element = kind.lanes, kind.element
    first = f.load(kind, start)
    second = f.load(kind, f.address(element, start, str(lanes - 1)))
    # The two loads hold elements 0 ... lanes - 1 and lanes - 1 ... 2 lanes - 2.
    picked = [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)]
    return _shuffled(f, kind, first, second, picked)


def interleave(f: Function, kind: Vector, even: str, odd: str, start: str) -> None:
    """Store two vectors, alternating their elements."""
    lanes = kind.lanes
    order = [k // 2 + (lanes if k % 2 else 0) for k in range(2 * lanes)]
    f.store(Vector(kind.element, 2 * lanes), _shuffled(f, kind, even, odd, order), start)


def _shuffled(f: Function, kind: Vector, first: str, second: str, order: list[int]) -> str:
    mask = f"<{len(order)} x i32> <{', '.join(f'i32 {k}' for k in order)}>"
    return f.set(f"shufflevector {kind} {first}, {kind} {second}, {mask}")
