"""Change the order of dimensions in memory: transpose matrices, and convert images with channels first into padded
images with channels last.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndgrad._src.compiler.kernels.packing import pieces, shuffled, transposed
from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.windows import HEADER
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector


def transpose_function(name: str, type: Vector, narrow: Sequence[int] = ()) -> Function:
    """Write `void name(R, C, X, sx, Y, sy)`: Y[j, i] = X[i, j] for R rows i and C columns j; sx, sy: bytes from row to
    row of X and of Y.

    Squares of lanes x lanes are transposed in registers; the last ones overlap those before. So are matrices of fewer
    rows, if their number is one of `narrow`. Others are copied element by element.
    """
    f = Function(
        name,
        "i64 %R, i64 %C, ptr noalias %X, i64 %sx, ptr noalias %Y, i64 %sy",
        linkage="internal",
        attributes="nounwind",
    )
    size, lanes, one = SIZES[type.element], type.lanes, Vector(type.element)
    squares = f.both(f.compare("sge", "%R", lanes), f.compare("sge", "%C", lanes))
    with f.when(squares):
        with f.loop("%R", step=str(lanes)) as turn:
            i = f.least(turn, f.sub("%R", lanes))
            rows = [f.ahead("%X", f.mul("%sx", f.add(i, n))) for n in range(lanes)]
            out = f.ahead("%Y", f.mul(i, size))
            with f.loop("%C", step=str(lanes)) as column:
                j = f.least(column, f.sub("%C", lanes))
                offset = f.mul(j, size)
                for n, row in enumerate(transposed(f, type, [f.load(type, f.ahead(row, offset)) for row in rows])):
                    f.store(type, row, f.ahead(out, f.mul("%sy", f.add(j, n))))
        f.returns()
        f.label(f.fresh("never"))
    for height in narrow:
        if height >= lanes:
            continue
        with f.when(f.both(f.compare("eq", "%R", height), f.compare("sge", "%C", lanes))):
            rows = [f.ahead("%X", f.mul("%sx", n) if n else 0) for n in range(height)]
            with f.loop("%C", step=str(lanes)) as column:
                j = f.least(column, f.sub("%C", lanes))
                offset = f.mul(j, size)
                loaded = [f.load(type, f.ahead(row, offset)) for row in rows]
                for n, row in enumerate(transposed(f, type, loaded + [loaded[-1]] * (lanes - height))):
                    out = f.ahead("%Y", f.mul("%sy", f.add(j, n)))
                    for place, piece in pieces(type, height):
                        first = place // size
                        part = shuffled(f, type, row, "poison", range(first, first + piece.lanes))
                        if piece.lanes == 1:
                            part = f.set(f"extractelement <1 x {type.element}> {part}, i64 0")
                        f.store(piece, part, f.ahead(out, place))
            f.returns()
            f.label(f.fresh("never"))
    with f.loop("%R") as i:
        row, out = f.ahead("%X", f.mul("%sx", i)), f.ahead("%Y", f.mul(i, size))
        with f.loop("%C") as j:
            f.store(one, f.load(one, f.ahead(row, f.mul(j, size))), f.ahead(out, f.mul(j, "%sy")))
    f.returns()
    return f


def gather_function(name: str, prefix: str, type: Vector) -> Function:
    """Write `void name(table, X, P, first)`: an image X, from plane `first` along z on, into P[strip, z, y, x, channel
    of the strip] with zeros beyond X.

    X is (channels, z, y, x), or (z, y, x, channels) if the table has `in_last`. The table has the sizes (windows.py).
    """
    f = Function(
        name, "ptr %table, ptr noalias %X, ptr noalias %P, i64 %first", linkage="internal", attributes="nounwind"
    )
    t = Fields(f, "%table", HEADER)
    size = SIZES[type.element]
    channels = f.mul(t["groups"], t["channels"])
    pixel, in_pixel = f.mul(t["strip"], size), f.mul(channels, size)
    strips = f.div(f.add(channels, f.sub(t["strip"], 1)), t["strip"])
    row = f.mul(t["extent_x"], pixel)
    plane = f.mul(t["extent_y"], row)
    held = f.mul(t["extent_z"], plane)
    with f.when(f.compare("ne", t["padded"], 0)):
        f.call_void("llvm.memset.p0.i64", "ptr %P", "i8 0", f"i64 {f.mul(held, strips)}", "i1 false")
    channel = f.mul(f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"]), size)
    # The part of a row that lies inside of the array; the rest is padding.
    start, stop = f.most(t["low_x"], 0), f.least(f.add(t["low_x"], t["extent_x"]), t["in_x"])
    length = f.most(f.sub(stop, start), 0)
    last = f.compare("ne", t["in_last"], 0)
    with f.loop(f.least(t["extent_z"], f.sub(t["in_z"], "%first")), start=f.most(f.sub(0, "%first"), 0)) as z:
        from_z = f.mul(f.add(z, "%first"), t["in_y"])
        y_start, y_stop = f.most(f.sub(0, t["low_y"]), 0), f.least(t["extent_y"], f.sub(t["in_y"], t["low_y"]))
        with f.loop(y_stop, start=y_start) as y:
            target = f.ahead("%P", f.add(f.add(f.mul(z, plane), f.mul(y, row)), f.mul(f.sub(start, t["low_x"]), pixel)))
            place = f.add(f.mul(f.add(from_z, f.add(y, t["low_y"])), t["in_x"]), start)
            with f.loop(strips) as s:
                first = f.mul(s, t["strip"])
                wide = f.least(t["strip"], f.sub(channels, first))
                out = f.ahead(target, f.mul(s, held))
                with f.when(last):
                    source = f.ahead(f.ahead("%X", f.mul(place, in_pixel)), f.mul(first, size))
                    count = f.mul(wide, size)
                    with f.loop(length) as x:
                        a, b = f.ahead(source, f.mul(x, in_pixel)), f.ahead(out, f.mul(x, pixel))
                        f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {b}", f"ptr {a}", f"i64 {count}", "i1 false")
                with f.when(f.negated(last)):
                    source = f.ahead(f.ahead("%X", f.mul(place, size)), f.mul(first, channel))
                    sizes = [f"i64 {wide}", f"i64 {length}"]
                    f.call_void(
                        f"{prefix}_transpose", *sizes, f"ptr {source}", f"i64 {channel}", f"ptr {out}", f"i64 {pixel}"
                    )
    f.returns()
    return f
