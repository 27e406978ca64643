"""Max and average pooling over windows with stride, padding and dilation, with their gradients; planes are
(z, y, x), as in windows.py.

Along z and y the taps of a window that lie inside the plane are a range, found once per row of outputs. Along x,
outputs whose windows lie wholly inside are computed a vector at a time, or half a vector if there are fewer. The last
vector overlaps the one before. With stride 1 a tap of neighbouring outputs is one load, with stride 2 two loads and a
shuffle, else one load per lane. The outputs at the edges are computed one by one.

The maximum is the first of equal ones, and the last NaN, as everywhere in ndgrad. Its place in the plane is stored,
too. An average divides by the number of taps inside, or inside the padding, or by a given number. The caller provides
the counts for each axis.

    void {prefix}_max(ptr table, ptr X, ptr Y, ptr I, i64 begin, i64 end)       planes begin..end of X into Y, places (i64) into I
    void {prefix}_max_gradient(ptr table, ptr G, ptr I, ptr dX, i64 begin, i64 end)
    void {prefix}_average(ptr table, ptr counts, ptr X, ptr Y, i64 begin, i64 end)
    void {prefix}_average_gradient(ptr table, ptr counts, ptr G, ptr dX, i64 begin, i64 end)

`counts` holds the divisors as i64: those of z, then y, then x; their product is the divisor of an output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.compiler.kernels import pooling_last
from ndgrad._src.compiler.kernels.packing import shuffled
from ndgrad._src.compiler.kernels.pool_work import work_function
from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.windows import Axis, three
from ndgrad._src.compiler.native.ir import SIZES, Carried, Function, Vector
from ndgrad._src.compiler.native.target import Target

PARAMETERS = {
    "max": "ptr %table, ptr %X, ptr %Y, ptr %I, i64 %begin, i64 %end",
    "max_gradient": "ptr %table, ptr %G, ptr %I, ptr %X, i64 %begin, i64 %end",
    "average": "ptr %table, ptr %counts, ptr %X, ptr %Y, i64 %begin, i64 %end",
    "average_gradient": "ptr %table, ptr %counts, ptr %G, ptr %X, i64 %begin, i64 %end",
}
TABLE = [*(f"{what}_{a}" for what in ("in", "out", "taps", "stride", "dilation", "before") for a in "zyx"), "channels"]


def pooling_table(axes: Sequence[Axis], channels: int = 1) -> NDArray[np.int64]:
    """Return the table of windows along one to three axes, with the number of channels if they come last
    (pooling_last.py).
    """
    z = three(axes)
    fields = ("size", "out", "taps", "stride", "dilation", "before")
    return np.array([*(getattr(a, what) for what in fields for a in z), channels], np.int64)


def average_counts(counts: Sequence[NDArray[np.intp]], override: int | None = None) -> NDArray[np.int64]:
    """Return the divisors of averages: the counts of each axis for each of its outputs, or a given number for all."""
    *rest, x = counts
    one = np.ones(1, np.int64)
    z, y = (one, one) if not rest else (rest[0], rest[1] if rest[1:] else one)
    if override is not None:
        z, y, x = np.full(len(z), override), np.ones(len(y), np.int64), np.ones(len(x), np.int64)
    return np.concatenate([z, y, x]).astype(np.int64)


def library(prefix: str, element: str, target: Target) -> list[Function | str]:
    """Return all functions of pooling, for `ir.module`."""
    type = Vector(element, target.lanes(element))
    rows = [_rows(prefix, kind, t, step) for kind in ("max", "average") for t, step in _variants(type)]
    return [
        *rows,
        *(_planes(prefix, kind, type) for kind in ("max", "average")),
        _max_gradient(prefix, type),
        _average_gradient(prefix, type),
        *(work_function(f"{prefix}_{kind}", parameters) for kind, parameters in PARAMETERS.items()),
        *pooling_last.functions(prefix, type, TABLE, _inside),
    ]


def _variants(type: Vector) -> list[tuple[Vector, int]]:
    """Return the types and strides that have a function of their own; stride 0 is any."""
    return [*((t, step) for t in _widths(type) for step in (1, 2, 0)), (Vector(type.element), 0)]


def _widths(type: Vector) -> list[Vector]:
    """Return whole vectors, and halves for short rows."""
    return [type, *([Vector(type.element, type.lanes // 2)] if type.lanes > 2 else [])]


_ROW = (
    "ptr %table, ptr %counts, ptr %plane, ptr %Y, ptr %I, i64 %row_of, i64 %first_z, i64 %last_z, i64 %first_y, "
    "i64 %last_y, i64 %divisor, i64 %from, i64 %to"
)


def _inside(f: Function, t: Fields, axis: str, position: str) -> tuple[str, str, str]:
    """Return the first input of an output's window along an axis, and the range of its taps that lie inside."""
    start = f.sub(f.mul(position, t[f"stride_{axis}"]), t[f"before_{axis}"])
    d, round_up = t[f"dilation_{axis}"], f.sub(t[f"dilation_{axis}"], 1)
    first = f.div(f.add(f.most(f.sub(0, start), 0), round_up), d)
    last = f.least(t[f"taps_{axis}"], f.div(f.add(f.most(f.sub(t[f"in_{axis}"], start), 0), round_up), d))
    return start, first, last


def _rows(prefix: str, kind: str, type: Vector, step: int) -> Function:
    """Write outputs x from..to of one row, whose windows begin at element `row_of` of the plane and have the taps
    first..last along z and y.

    In vectors, all taps along x lie inside. A single output may lie at the edge.
    """
    f = Function(f"{prefix}_{kind}_{type.lanes}_{step}", _ROW, linkage="internal", attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    size, code_type = SIZES[type.element], type.integer
    row_of, first_z, last_z, first_y, last_y = "%row_of", "%first_z", "%last_z", "%first_y", "%last_y"
    plane_step, row_step = f.mul(f.mul(t["dilation_z"], t["in_y"]), t["in_x"]), f.mul(t["dilation_y"], t["in_x"])
    stride = str(step) if step else t["stride_x"]
    with f.loop("%to", start="%from", step=str(type.lanes)) as x:
        if type.lanes > 1:
            start_x, first_x, last_x = f.sub(f.mul(x, stride), t["before_x"]), "0", t["taps_x"]
        else:
            start_x, first_x, last_x = _inside(f, t, "x", x)
        start = f.add(row_of, start_x)
        first = f.add(f.add(f.mul(first_z, plane_step), f.mul(first_y, row_step)), f.mul(first_x, t["dilation_x"]))
        lowest = -np.inf if kind == "max" else 0.0
        best = _through_taps(f, kind, type, step, stride, t, start, first, lowest, (plane_step, row_step),
                             (first_z, last_z, first_y, last_y, first_x, last_x))  # fmt: skip
        place = f.ahead("%Y", f.mul(x, size))
        if kind == "max":
            f.store(type, best[0], place)
            wide = Vector("i64", type.lanes)
            found = best[1] if code_type.element == "i64" else f.set(f"sext {code_type} {best[1]} to {wide}")
            found = f.set(f"add {wide} {found}, {f.splat(start, wide)}")
            if type.lanes > 1:
                numbers = f"<{', '.join(f'i64 {n}' for n in range(type.lanes))}>"
                found = f.set(f"add {wide} {found}, {f.set(f'mul {wide} {numbers}, {f.splat(stride, wide)}')}")
            f.store(wide, found, f.ahead("%I", f.mul(x, 8)))
        else:
            along = f.ahead("%counts", f.mul(f.add(f.add(t["out_z"], t["out_y"]), x), 8))
            divisor = f.mul("%divisor", f.set(f"load i64, ptr {along}"))
            number = f.splat(f.set(f"sitofp i64 {divisor} to {type.element}"), type)
            f.store(type, f.set(f"fdiv {type} {best[0]}, {number}"), place)
    f.returns()
    return f


def _through_taps(
    f: Function, kind: str, type: Vector, step: int, stride: str, t: Fields, start: str, first: str, lowest: float,
    steps: tuple[str, str], ranges: tuple[str, ...],
) -> tuple[str, str]:  # fmt: skip
    """Write the loop over the taps of a window. Return the maximum and its offset from the window's start, or the sum.
    """
    code_type, size = type.integer, SIZES[type.element]
    values = [(str(type), type.constant(lowest)), (str(code_type), _narrowed(f, first, code_type))]
    first_z, last_z, first_y, last_y, first_x, last_x = ranges

    def carry(outer: list[tuple[str, str]]) -> list[Carried]:
        return [f.carry(kind_of, value) for kind_of, value in outer]

    over_z = carry(values)
    with f.loop(last_z, start=first_z, carried=over_z) as z:
        over_y = carry([(c.type, c.name) for c in over_z])
        with f.loop(last_y, start=first_y, carried=over_y) as y:
            over_x = carry([(c.type, c.name) for c in over_y])
            with f.loop(last_x, start=first_x, carried=over_x) as x:
                offset = f.add(f.add(f.mul(z, steps[0]), f.mul(y, steps[1])), f.mul(x, t["dilation_x"]))
                candidate = _strided(f, type, f.ahead("%plane", f.mul(f.add(start, offset), size)), step, stride)
                best, code = over_x[0].name, over_x[1].name
                if kind == "max":
                    better = f.set(f"fcmp ogt {type} {candidate}, {best}")
                    better = f.set(f"or {type.mask} {better}, {f.set(f'fcmp uno {type} {candidate}, {candidate}')}")
                    over_x[0].next = f.set(f"select {type.mask} {better}, {type} {candidate}, {type} {best}")
                    here = _narrowed(f, offset, code_type)
                    over_x[1].next = f.set(f"select {type.mask} {better}, {code_type} {here}, {code_type} {code}")
                else:
                    over_x[0].next = f.set(f"fadd {type} {best}, {candidate}")
            for c, inner in zip(over_y, over_x):
                c.next = inner.name
        for c, inner in zip(over_z, over_y):
            c.next = inner.name
    return over_z[0].name, over_z[1].name


def _narrowed(f: Function, value: str, type: Vector) -> str:
    """Return an i64 in all lanes of an integer type."""
    return f.splat(value if type.element == "i64" else f.set(f"trunc i64 {value} to {type.element}"), type)


def _strided(f: Function, type: Vector, pointer: str, step: int, stride: str) -> str:
    """Load elements at a pointer, `stride` apart. With stride 2 the second load ends with the last required element."""
    if type.lanes == 1 or step == 1:
        return f.load(type, pointer)
    lanes, one = type.lanes, Vector(type.element)
    if step == 2:
        low, high = f.load(type, pointer), f.load(type, f.ahead(pointer, (lanes - 1) * SIZES[type.element]))
        chosen = [2 * n if 2 * n < lanes else lanes + 2 * n - (lanes - 1) for n in range(lanes)]
        return shuffled(f, type, low, high, chosen)
    value = "poison"
    for n in range(lanes):
        element = f.load(one, f.ahead(pointer, f.mul(f.mul(stride, n), SIZES[type.element]) if n else 0))
        value = f.set(f"insertelement {type} {value}, {type.element} {element}, i64 {n}")
    return value


def _planes(prefix: str, kind: str, type: Vector) -> Function:
    """Write all rows of planes begin..end. Each row has outputs at the left edge, inside, and at the right edge."""
    f = Function(f"{prefix}_{kind}", PARAMETERS[kind], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    size = SIZES[type.element]
    in_plane, out_plane = (f.mul(f.mul(t[f"{w}_z"], t[f"{w}_y"]), t[f"{w}_x"]) for w in ("in", "out"))
    # Outputs whose windows lie inside along x: x * stride >= before, and x * stride - before + reach <= size.
    stride, before = t["stride_x"], t["before_x"]
    reach = f.add(f.mul(f.sub(t["taps_x"], 1), t["dilation_x"]), 1)
    left = f.least(t["out_x"], f.div(f.add(before, f.sub(stride, 1)), stride))
    remaining = f.sub(f.add(t["in_x"], before), reach)
    right = f.choose(f.compare("sge", remaining, 0), f.add(f.div(f.most(remaining, 0), stride), 1), 0)
    right = f.most(left, f.least(t["out_x"], right))
    inside = f.sub(right, left)
    widths = _widths(type)
    # From `single` to the right edge, outputs are computed one by one: all outputs, if they do not fill a vector.
    single = f.choose(f.compare("sge", inside, widths[-1].lanes), right, left)
    with f.loop("%end", start="%begin") as plane, f.loop(t["out_z"]) as z, f.loop(t["out_y"]) as y:
        (start_z, *range_z), (start_y, *range_y) = _inside(f, t, "z", z), _inside(f, t, "y", y)
        row = f.add(f.mul(plane, out_plane), f.mul(f.add(f.mul(z, t["out_y"]), y), t["out_x"]))
        divisor = "1"
        if kind == "average":
            counts = [f.set(f"load i64, ptr {f.ahead('%counts', f.mul(n, 8))}") for n in (z, f.add(t["out_z"], y))]
            divisor = f.mul(*counts)
        common = [
            "ptr %table", "ptr null" if kind == "max" else "ptr %counts",
            f"ptr {f.ahead('%X', f.mul(f.mul(plane, in_plane), size))}",
            f"ptr {f.ahead('%Y', f.mul(row, size))}",
            f"ptr {f.ahead('%I', f.mul(row, 8)) if kind == 'max' else 'null'}",
            f"i64 {f.mul(f.add(f.mul(start_z, t['in_y']), start_y), t['in_x'])}",
            *(f"i64 {tap}" for tap in (*range_z, *range_y)), f"i64 {divisor}",
        ]  # fmt: skip
        with f.when(f.compare("sgt", left, 0)):
            f.call_void(f"{prefix}_{kind}_1_0", *common, "i64 0", f"i64 {left}")
        fits = [f.compare("sge", inside, width.lanes) for width in widths]
        chosen = [fits[0], *(f.both(fit, f.negated(wider)) for fit, wider in zip(fits[1:], fits))]
        for width, use in zip(widths, chosen):
            last = f.add(left, f.mul(f.div(inside, width.lanes), width.lanes))
            for step, wanted in (
                (1, f.compare("eq", stride, 1)),
                (2, f.compare("eq", stride, 2)),
                (0, f.compare("sgt", stride, 2)),
            ):
                with f.when(f.both(use, wanted)):
                    name = f"{prefix}_{kind}_{width.lanes}_{step}"
                    f.call_void(name, *common, f"i64 {left}", f"i64 {last}")
                    with f.when(f.compare("slt", last, right)):
                        f.call_void(name, *common, f"i64 {f.sub(right, width.lanes)}", f"i64 {right}")
        with f.when(f.compare("slt", single, t["out_x"])):
            f.call_void(f"{prefix}_{kind}_1_0", *common, f"i64 {single}", f"i64 {t['out_x']}")
    f.returns()
    return f


# ----- gradients -----


def _max_gradient(prefix: str, type: Vector) -> Function:
    """Add each element of g at its place."""
    f = Function(f"{prefix}_max_gradient", PARAMETERS["max_gradient"], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    size, one = SIZES[type.element], Vector(type.element)
    in_plane, out_plane = (f.mul(f.mul(t[f"{w}_z"], t[f"{w}_y"]), t[f"{w}_x"]) for w in ("in", "out"))
    with f.loop("%end", start="%begin") as plane:
        target = f.ahead("%X", f.mul(f.mul(plane, in_plane), size))
        f.call_void("llvm.memset.p0.i64", f"ptr {target}", "i8 0", f"i64 {f.mul(in_plane, size)}", "i1 false")
        first = f.mul(plane, out_plane)
        with f.loop(f.add(first, out_plane), start=first) as n:
            place = f.ahead(target, f.mul(f.set(f"load i64, ptr {f.ahead('%I', f.mul(n, 8))}"), size))
            value = f.load(one, f.ahead("%G", f.mul(n, size)))
            f.store(one, f.set(f"fadd {one} {f.load(one, place)}, {value}"), place)
    f.returns()
    return f


def _average_gradient(prefix: str, type: Vector) -> Function:
    """Add each element of g, divided, to all inputs of its window."""
    f = Function(f"{prefix}_average_gradient", PARAMETERS["average_gradient"], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    size, one = SIZES[type.element], Vector(type.element)
    in_plane, out_plane = (f.mul(f.mul(t[f"{w}_z"], t[f"{w}_y"]), t[f"{w}_x"]) for w in ("in", "out"))
    with f.loop("%end", start="%begin") as plane:
        target = f.ahead("%X", f.mul(f.mul(plane, in_plane), size))
        f.call_void("llvm.memset.p0.i64", f"ptr {target}", "i8 0", f"i64 {f.mul(in_plane, size)}", "i1 false")
        with f.loop(t["out_z"]) as z, f.loop(t["out_y"]) as y:
            start_z, first_z, last_z = _inside(f, t, "z", z)
            start_y, first_y, last_y = _inside(f, t, "y", y)
            counts = [f.set(f"load i64, ptr {f.ahead('%counts', f.mul(n, 8))}") for n in (z, f.add(t["out_z"], y))]
            row = f.add(f.mul(plane, out_plane), f.mul(f.add(f.mul(z, t["out_y"]), y), t["out_x"]))
            with f.loop(t["out_x"]) as x:
                start_x, first_x, last_x = _inside(f, t, "x", x)
                along = f.set(f"load i64, ptr {f.ahead('%counts', f.mul(f.add(f.add(t['out_z'], t['out_y']), x), 8))}")
                divisor = f.set(f"sitofp i64 {f.mul(f.mul(*counts), along)} to {one}")
                value = f.set(f"fdiv {one} {f.load(one, f.ahead('%G', f.mul(f.add(row, x), size)))}, {divisor}")
                with f.loop(last_z, start=first_z) as tz, f.loop(last_y, start=first_y) as ty:
                    line = f.mul(f.add(f.mul(f.add(start_z, f.mul(tz, t["dilation_z"])), t["in_y"]),
                                       f.add(start_y, f.mul(ty, t["dilation_y"]))), t["in_x"])  # fmt: skip
                    with f.loop(last_x, start=first_x) as tx:
                        place = f.ahead(target, f.mul(f.add(f.add(line, start_x), f.mul(tx, t["dilation_x"])), size))
                        f.store(one, f.set(f"fadd {one} {f.load(one, place)}, {value}"), place)
    f.returns()
    return f
