"""Running sums, products, extrema and linear recurrences along lines of a number and length known at run time.

    sum       h[k] = h[k-1] + x[k]
    product   h[k] = h[k-1] x[k]
    linear    h[k] = a[k] h[k-1] + x[k], each operation rounded
    maximum   the largest of x[0] ... x[k] and its last position; from the first NaN on, the last NaN so far
    minimum   the smallest, likewise

Every step waits for the one before it, so several lines are processed side by side. More of them are if they are
adjacent in memory, along another dimension than the last, because then whole cache lines are used. The last lines of a
chunk may be computed twice, with the same results. Running sums and products of float32 are kept in double precision,
since an error persists to the end.

The function is `void name(ptr argument, i64 chunk, i64 worker)`; the words of its argument are lines, lines of a chunk,
length, 1 or -1 for the direction, elements from one of a line to the next, and the addresses of the result, of x, and of
a or of the positions.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.elementwise import data, word
from ndgrad._src.compiler.native.ir import Function, Vector

#: Lines side by side: rows, and lines along other dimensions.
ROWS, COLUMNS = 4, 16


def scan_function(how: str, element: str, abreast: int) -> Function:
    """Return the function of a scan, by its name in the table above, of so many lines side by side."""
    f = Function(how, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    kind = "double" if how in ("sum", "product") else element
    has_places = how in ("maximum", "minimum")
    elements = [element, element, *(["i64"] if has_places else [element] if how == "linear" else [])]
    lines_in_all, grain, length, direction, inner = (word(f, n) for n in range(5))
    places = [data(f, 5 + n) for n in range(len(elements))]
    step = f.mul(direction, inner)
    first = f.choose(f.compare("slt", direction, 0), f.mul(f.sub(length, 1), inner), 0)
    begin = f.mul("%chunk", grain)
    end = f.least(f.add(begin, grain), lines_in_all)
    with f.loop(end, begin, str(abreast)) as r:
        lines = []
        for n in range(abreast):
            number = f.least(f.add(r, n), f.sub(end, 1))
            outer = f.set(f"udiv i64 {number}, {inner}")
            column = f.sub(number, f.mul(outer, inner))
            start = f.add(f.add(f.mul(f.mul(outer, length), inner), column), first)
            lines.append([f.address(e, place, start) for e, place in zip(elements, places, strict=True)])
        states = [f.carry(kind, _widen(f, element, kind, f.load(Vector(element), line[1]))) for line in lines]
        positions = [f.carry("i64", "0") for _ in lines] if has_places else []
        for state, line in zip(states, lines, strict=True):
            _store(f, element, kind, state.first, line[0])
            if has_places:
                f.store(Vector("i64"), "0", line[2])
        with f.loop(length, "1", carried=[*states, *positions]) as k:
            offset = f.mul(k, step)
            for n, (state, line) in enumerate(zip(states, lines, strict=True)):
                here = [f.address(e, pointer, offset) for e, pointer in zip(elements, line, strict=True)]
                x = _widen(f, element, kind, f.load(Vector(element), here[1]))
                if has_places:
                    is_new = _replaces(f, how, kind, x, state.name)
                    state.next = f.choose(is_new, x, state.name, kind)
                    positions[n].next = f.choose(is_new, k, positions[n].name)
                    f.store(Vector("i64"), positions[n].next, here[2])
                elif how == "linear":
                    product = f.set(f"fmul {kind} {f.load(Vector(element), here[2])}, {state.name}")
                    state.next = f.set(f"fadd {kind} {product}, {x}")
                else:
                    state.next = f.set(f"{'fadd' if how == 'sum' else 'fmul'} {kind} {state.name}, {x}")
                _store(f, element, kind, state.next, here[0])
    f.returns()
    return f


def _replaces(f: Function, how: str, kind: str, x: str, best: str) -> str:
    """Return the condition that x is the new extremum: not behind the best so far, or NaN."""
    is_ahead = f.set(f"fcmp {'oge' if how == 'maximum' else 'ole'} {kind} {x}, {best}")
    return f.either(is_ahead, f.set(f"fcmp uno {kind} {x}, {x}"))


def _widen(f: Function, element: str, kind: str, value: str) -> str:
    return value if element == kind else f.set(f"fpext {element} {value} to {kind}")


def _store(f: Function, element: str, kind: str, value: str, pointer: str) -> None:
    rounded = value if element == kind else f.set(f"fptrunc {kind} {value} to {element}")
    f.store(Vector(element), rounded, pointer)
