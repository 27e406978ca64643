"""Running sums, running products and linear recurrences along lines whose number and length are known at run time.

    sum       h[k] = h[k-1] + x[k]
    product   h[k] = h[k-1] x[k]
    linear    h[k] = a[k] h[k-1] + x[k], each operation rounded

Every step waits for the one before it, so several lines are processed side by side. More of them are if they are
adjacent in memory, along another dimension than the last, because then whole cache lines are used. The last lines of a
chunk may be computed twice, with the same results. Running sums and products of float32 are kept in double precision,
since an error persists to the end.

The function is `void name(ptr argument, i64 chunk, i64 worker)`; the words of its argument are lines, lines of a chunk,
length, 1 or -1 for the direction, elements from one of a line to the next, and the locations of the addresses of the
result, of x and of a.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.elementwise import data, word
from ndgrad._src.compiler.native.ir import Function, Vector

#: Lines side by side: rows, and lines along other dimensions.
ROWS, COLUMNS = 4, 16


def scan_function(how: str, element: str, abreast: int) -> Function:
    """Return the function of a scan, "sum", "product" or "linear", of so many lines side by side."""
    f = Function(how, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    kind = element if how == "linear" else "double"
    lines_in_all, grain, length, direction, inner = (word(f, n) for n in range(5))
    places = [data(f, 5 + n) for n in range(3 if how == "linear" else 2)]
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
            lines.append([f.address(element, place, start) for place in places])
        states = [f.carried(kind, _widened(f, element, kind, f.load(Vector(element), line[1]))) for line in lines]
        for state, line in zip(states, lines, strict=True):
            _store(f, element, kind, state.first, line[0])
        with f.loop(length, "1", carried=states) as k:
            offset = f.mul(k, step)
            for state, line in zip(states, lines, strict=True):
                here = [f.address(element, pointer, offset) for pointer in line]
                x = _widened(f, element, kind, f.load(Vector(element), here[1]))
                if how == "linear":
                    product = f.set(f"fmul {kind} {f.load(Vector(element), here[2])}, {state.name}")
                    state.next = f.set(f"fadd {kind} {product}, {x}")
                else:
                    state.next = f.set(f"{'fadd' if how == 'sum' else 'fmul'} {kind} {state.name}, {x}")
                _store(f, element, kind, state.next, here[0])
    f.returns()
    return f


def _widened(f: Function, element: str, kind: str, value: str) -> str:
    return value if element == kind else f.set(f"fpext {element} {value} to {kind}")


def _store(f: Function, element: str, kind: str, value: str, pointer: str) -> None:
    rounded = value if element == kind else f.set(f"fptrunc {kind} {value} to {element}")
    f.store(Vector(element), rounded, pointer)
