"""Pack a block of a matrix into strips that a micro-kernel reads from front to back.

A strip holds `width` neighbours for each k:   strip[k][w] = X[k, first + w],   and strips follow each other, K * width
elements apart. For B a strip is as wide as a tile, for A as high; so one set of functions packs both, with X being B or
the transpose of A. The function depends on the direction in which X is contiguous:

    along w    rows of a strip are loaded and stored unchanged
    along k    squares of lanes x lanes elements are transposed in registers
    neither    one element at a time

Packing costs one pass over X, and pays as soon as the block is read several times. Strips need no translation of far
addresses, do not compete for the same cache lines, and are prefetched by the processor.
"""

from __future__ import annotations

from collections.abc import Sequence

from ndgrad._src.compiler.native.ir import SIZES, Function, Vector

#: Bytes of a row that are read at once.
_PIECE_BYTES = 256

_PARAMETERS = "i64 %K, i64 %W, ptr noalias %X, i64 %sk, i64 %sw, ptr noalias %P"


def transposed(f: Function, type: Vector, rows: Sequence[str]) -> list[str]:
    """Return the transpose of lanes x lanes elements, by exchanging blocks of 1, 2, 4, ... elements between pairs of
    rows.
    """
    lanes, result = type.lanes, list(rows)
    step = 1
    while step < lanes:
        following = list(result)
        for i in range(lanes):
            if i & step:
                continue
            a, b = result[i], result[i + step]
            low = [n if not n & step else n - step + lanes for n in range(lanes)]
            high = [n + step if not n & step else n + lanes for n in range(lanes)]
            following[i], following[i + step] = shuffled(f, type, a, b, low), shuffled(f, type, a, b, high)
        result, step = following, 2 * step
    return result


def shuffled(f: Function, type: Vector, a: str, b: str, lanes: Sequence[int]) -> str:
    """Return lanes chosen from two vectors, numbered through both."""
    numbers = ", ".join(f"i32 {n}" for n in lanes)
    return f.set(f"shufflevector {type} {a}, {type} {b}, <{len(lanes)} x i32> <{numbers}>")


def pack_functions(prefix: str, type: Vector, width: int, padded: bool) -> list[Function]:
    """Write `{prefix}(K, W, X, sk, sw, P)`: pack K x W elements into strips of `width`; strides in bytes.

    The last strip may have fewer columns. If `padded`, it is as wide as the whole vectors that hold them (for B), and
    the padding is arbitrary. Otherwise it is exactly as wide as its columns (for A).
    """
    along, across, any_ = (make(prefix, type, width, padded) for make in (pack_along, _across, _one_by_one))
    f = Function(prefix, _PARAMETERS, linkage="internal", attributes="nounwind")
    arguments = [f"{p.split()[0]} {p.split()[-1]}" for p in _PARAMETERS.split(", ")]
    size = SIZES[type.element]
    transposes = f.both(f.compare("eq", "%sk", size), f.compare("sge", "%K", type.lanes))
    for function, condition in [(along, f.compare("eq", "%sw", size)), (across, transposes)]:
        with_this, other = f.fresh("use"), f.fresh("other")
        f.branch(condition, with_this, other)
        f.label(with_this)
        f.call_void(function.name, *arguments)
        f.returns()
        f.label(other)
    f.call_void(any_.name, *arguments)
    f.returns()
    return [along, across, any_, f]


def _strip_width(f: Function, type: Vector, width: int, padded: bool, left: str) -> str:
    """Return the width of a strip with `left` remaining columns, in elements."""
    if not padded:
        return f.least(width, left)
    vectors = f.div(f.add(left, type.lanes - 1), type.lanes)
    return f.least(width, f.mul(vectors, type.lanes))


def pack_along(prefix: str, type: Vector, width: int, padded: bool) -> Function:
    """Write `{prefix}_along`, for an X that is contiguous along w.

    It packs a few strips at a time, so that X is read in pieces of some lines, and the written places do not compete
    for the same cache lines.
    """
    f = Function(f"{prefix}_along", _PARAMETERS, linkage="internal", attributes="nounwind")
    size = SIZES[type.element]
    together = max(1, _PIECE_BYTES // (width * size))
    full = f.div("%W", width)
    grouped = f.mul(f.div(full, together), together)
    strip = f.mul("%K", width * size)
    for count, start, stop in ((together, "0", grouped), (1, grouped, full)):
        with f.loop(stop, start=start, step=str(count)) as j:
            source, target = f.ahead("%X", f.mul(j, width * size)), f.ahead("%P", f.mul(j, strip))
            targets = [f.ahead(target, f.mul(strip, n) if n else 0) for n in range(count)]
            with f.loop("%K") as k:
                row, offset = f.ahead(source, f.mul(k, "%sk")), f.mul(k, width * size)
                for n, place in enumerate(targets):
                    here = f.ahead(place, offset)
                    for at, piece in pieces(type, width):
                        f.store(piece, f.load(piece, f.ahead(row, n * width * size + at)), f.ahead(here, at))
    # Pack the last strip, of fewer columns, by masked vectors.
    rest = f.sub("%W", f.mul(full, width))
    step = f.mul(_strip_width(f, type, width, padded, rest), size)
    source, target = f.ahead("%X", f.mul(full, width * size)), f.ahead("%P", f.mul(full, strip))
    with f.when(f.compare("sgt", rest, 0)), f.loop("%K") as k:
        row, here = f.ahead(source, f.mul(k, "%sk")), f.ahead(target, f.mul(k, step))
        with f.loop(rest, step=str(type.lanes)) as j:
            few = f.first_lanes(type, f.sub(rest, j))
            f.store(type, f.load_masked(type, f.ahead(row, f.mul(j, size)), few), f.ahead(here, f.mul(j, size)))
    f.returns()
    return f


def pieces(type: Vector, width: int) -> list[tuple[int, Vector]]:
    """Return a row of `width` elements as whole vectors and smaller ones for the rest: (offset in bytes, type)."""
    found, offset, lanes = [], 0, type.lanes
    while width:
        while lanes > width:
            lanes //= 2
        found.append((offset, Vector(type.element, lanes)))
        offset, width = offset + found[-1][1].bytes, width - lanes
    return found


def _across(prefix: str, type: Vector, width: int, padded: bool) -> Function:
    """Write the packing of an X that is contiguous along k: transpose squares of lanes x lanes elements in registers. K
    is at least `lanes`.

    Whole vectors are stored, in ascending order of memory. The next row overwrites the excess of a row. Missing columns
    are read from the last existing one and ignored.
    """
    f = Function(f"{prefix}_across", _PARAMETERS, linkage="internal", attributes="nounwind")
    size, lanes = SIZES[type.element], type.lanes
    strip = f.mul("%K", width * size)
    together = 1 if padded else -(-width // lanes)  # squares side by side that must be stored row by row
    with f.loop("%W", step=str(lanes if padded else width)) as j:
        number = f.div(j, width)
        inside = f.sub(j, f.mul(number, width))
        step = f.mul(_strip_width(f, type, width, padded, f.sub("%W", f.mul(number, width))), size)
        target = f.ahead("%P", f.add(f.mul(number, strip), f.mul(inside, size)))
        columns = [f.ahead("%X", f.mul("%sw", f.least(f.add(j, n), f.sub("%W", 1)))) for n in range(lanes * together)]
        with f.loop("%K", step=str(lanes)) as turn:
            # The last square ends with K, and overlaps the one before.
            k = f.least(turn, f.sub("%K", lanes))
            offset = f.mul(k, size)
            rows = [f.load(type, f.ahead(c, offset)) for c in columns]
            squares = [transposed(f, type, rows[g * lanes : (g + 1) * lanes]) for g in range(together)]
            place = f.ahead(target, f.mul(k, step))
            for n in range(lanes):
                row = f.ahead(place, f.mul(step, n) if n else 0)
                for g, square in enumerate(squares):
                    f.store(type, square[n], f.ahead(row, g * type.bytes))
    f.returns()
    return f


def _one_by_one(prefix: str, type: Vector, width: int, padded: bool) -> Function:
    f = Function(f"{prefix}_any", _PARAMETERS, linkage="internal", attributes="nounwind")
    size = SIZES[type.element]
    strip = f.mul("%K", width * size)
    with f.loop("%W") as j:
        number = f.div(j, width)
        inside = f.sub(j, f.mul(number, width))
        step = f.mul(_strip_width(f, type, width, padded, f.sub("%W", f.mul(number, width))), size)
        target = f.ahead("%P", f.add(f.mul(number, strip), f.mul(inside, size)))
        source = f.ahead("%X", f.mul(j, "%sw"))
        with f.loop("%K") as k:
            value = f.set(f"load {type.element}, ptr {f.ahead(source, f.mul(k, '%sk'))}, align {size}")
            f.do(f"store {type.element} {value}, ptr {f.ahead(target, f.mul(k, step))}, align {size}")
    f.returns()
    return f
