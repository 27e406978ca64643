"""Reading, writing and adding elements by an index along one dimension: gather, scatter and their transposes.

The whole array has the shape (outer, size, inner), the part (outer, length, inner), and the index gives for each
element of the part its position along `size`:

    read    part[o, k, i] = whole[o, index[o, k, i], i]
    write   whole[o, index[o, k, i], i] = part[o, k, i]
    add     whole[o, index[o, k, i], i] += part[o, k, i]
    kept    as read, with 0 where the same position occurs again for a larger k: the gradient of a write

The index has steps of its own, which may be 0 if it is the same in all slices. Lines along the dimension do not share
elements, so chunks of lines are independent. Within a line, elements are processed in the order of k: of several
written values the last one is kept, and sums have the same rounding errors for any number of threads. Positions must
be valid.

The function is `void name(ptr argument, i64 chunk, i64 worker)`; the words of its argument are outer, outer of a chunk,
inner, inner of a chunk, chunks of inner, length, size, the steps of the index (outer, length, inner), and the addresses
of whole, part and index. For "kept", the address of scratch memory and the bytes of each worker follow: 4 for each
position of a chunk's lines, where the last k is noted.
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
    noted = f.ahead(data(f, 13), f.mul("%worker", word(f, 14))) if how == "kept" else ""
    number = Vector("i32")

    def note_at(place: str, i: str | int) -> str:
        return f.address("i32", noted, f.add(f.mul(place, inner_grain), i) if not is_last else place)

    def move(place: str, whole_start: str, part_start: str, inner: str | int) -> None:
        there = f.address(element, whole, f.add(whole_start, f.mul(place, inner)))
        here = f.address(element, part, part_start)
        source, goal = (there, here) if how in ("read", "kept") else (here, there)
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
        if how == "kept":
            own_inner, row = (1, whole_row) if is_last else (inner, f.mul(whole_row, inner))
            for is_noted in (False, True):
                with f.loop(length) as k:
                    part_start, index_start = f.mul(f.add(part_row, k), inner), f.add(index_row, f.mul(k, steps[1]))
                    k_short = f.set(f"trunc i64 {k} to i32")
                    with f.loop("1" if is_last else right, "0" if is_last else left) as i:
                        place = place_at(index_start, steps[2], i)
                        note = note_at(place, f.sub(i, left))
                        if not is_noted:
                            f.store(number, k_short, note)
                        else:
                            is_kept = f.set(f"icmp eq i32 {f.load(number, note)}, {k_short}")
                            there = f.address(element, whole, f.add(f.add(row, i), f.mul(place, own_inner)))
                            zero = Vector(element).constant(0)
                            value = f.choose(is_kept, f.load(Vector(element), there), zero, element)
                            f.store(Vector(element), value, f.address(element, part, f.add(part_start, i)))
        elif is_last:
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
