"""Reading, writing and adding elements by an index along one dimension: gather, scatter and their transposes.

The whole array has the shape (outer, size, inner), the part (outer, length, inner), and the index gives for each
element of the part its position along `size`:

    read    part[o, k, i] = whole[o, index[o, k, i], i]
    write   whole[o, index[o, k, i], i] = part[o, k, i]
    add     whole[o, index[o, k, i], i] += part[o, k, i]

The index has steps of its own, which may be 0 if it is the same in all slices. Lines along the dimension do not share
elements, so chunks of lines are independent. Within a line, elements are processed in the order of k: of several
written values the last one is kept, and sums have the same rounding errors for any number of threads. Positions must
be valid.

The function is `void name(ptr argument, i64 chunk, i64 worker)`; the words of its argument are outer, outer of a chunk,
inner, inner of a chunk, chunks of inner, length, size, the steps of the index (outer, length, inner), and the addresses
of whole, part and index.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.elementwise import data, word
from ndgrad._src.compiler.native.ir import Function, Vector


def line_function(how: str, element: str, is_last: bool) -> Function:
    """Return the function that reads, writes or adds elements of an LLVM type; `is_last`: `inner` is 1."""
    f = Function(how, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    outer, outer_grain, inner, inner_grain, pieces, length, size = (word(f, n) for n in range(7))
    steps = [word(f, 7 + n) for n in range(3)]
    whole, part, index = (data(f, 10 + n) for n in range(3))

    def move(place: str, whole_start: str, part_start: str, inner: str | int) -> None:
        there = f.address(element, whole, f.add(whole_start, f.mul(place, inner)))
        here = f.address(element, part, part_start)
        source, goal = (there, here) if how == "read" else (here, there)
        value = f.load(Vector(element), source)
        if how == "add":
            value = f.set(f"fadd {element} {f.load(Vector(element), there)}, {value}")
        f.store(Vector(element), value, goal)

    def place_at(start: str, step: str, i: str) -> str:
        return f.load(Vector("i64"), f.address("i64", index, f.add(start, f.mul(i, step))))

    block = f.set(f"udiv i64 %chunk, {pieces}")
    first = f.mul(block, outer_grain)
    left = f.mul(f.sub("%chunk", f.mul(block, pieces)), inner_grain)
    right = f.least(f.add(left, inner_grain), inner)
    with f.loop(f.least(f.add(first, outer_grain), outer), first) as o:
        whole_row, part_row, index_row = f.mul(o, size), f.mul(o, length), f.mul(o, steps[0])
        if is_last:
            with f.loop(length) as k:
                move(place_at(index_row, steps[1], k), whole_row, f.add(part_row, k), 1)
        else:
            whole_row = f.mul(whole_row, inner)
            with f.loop(length) as k:
                part_start, index_start = f.mul(f.add(part_row, k), inner), f.add(index_row, f.mul(k, steps[1]))
                with f.loop(right, left) as i:
                    place = place_at(index_start, steps[2], i)
                    move(place, f.add(whole_row, i), f.add(part_start, i), inner)
    f.returns()
    return f
