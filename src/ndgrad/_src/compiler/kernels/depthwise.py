"""Depthwise convolutions: one filter for each channel. Channels share nothing, so there is no matrix product.

    out[p, c] = sum over taps t   in[p * step + t, c] W[t, c]

With channels last this is elementwise in c: vectors along channels, a few pixels at a time, whose sums stay in
registers during the loop over taps. The gradient of the weight is elementwise in c too,   dW[t, c] = sum over pixels p
in[p * step + t, c] g[p, c].
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.tile_walk import WALK
from ndgrad._src.compiler.kernels.tiles import Epilogue, Tile, multiply_add
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector

#: Numbers of pixels processed at a time, the largest possible first; and number of sums over pixels.
_PIXELS, _SUMS = (8, 4, 2, 1), 4

_KERNEL = ", ".join([
    *(f"i64 %{name}" for name in ("K1", "K2", "K3", "a1", "a2", "a3")),
    *("ptr %A", "i64 %rsA", "ptr %B", "i64 %rsB", "ptr %C", "i64 %rsC", "i64 %rest", "i64 %row", "i64 %column",
        "ptr %context"),
])  # fmt: skip


def depthwise_functions(prefix: str, type: Vector, epilogue: Epilogue | None) -> list[Function]:
    """Write `{prefix}_depthwise(walk, A, B, C, context)`: a walk (tile_walk.py) whose columns are channels of A as well
    as of C.
    """
    kernels = [_kernel(prefix, type, pixels, masked, epilogue) for pixels in _PIXELS for masked in (False, True)]
    return [*kernels, _walk(prefix, type), _gradient(prefix, type)]


def _kernel(prefix: str, type: Vector, pixels: int, masked: bool, epilogue: Epilogue | None) -> Function:
    f = Function(
        f"{prefix}_depthwise_{pixels}{'m' if masked else ''}", _KERNEL, linkage="internal", attributes="nounwind"
    )
    tile = Tile(f, type, pixels, 1, "%row", "%column", "%context", f.first_lanes(type, "%rest") if masked else None)
    offsets = ["0", *(f.mul("%rsA", i) for i in range(1, pixels))]

    def nest(level: int, a: str, b: str, values: list[str]) -> tuple[str, list[str]]:
        """Write the loops over taps along z, y and x. Return the end of B, and the sums."""
        sums, at_b = [f.carried(type, value) for value in values], f.carried("ptr", b)
        with f.loop(f"%K{level}", carried=[*sums, at_b]) as tap:
            here = f.ahead(a, f.mul(tap, f"%a{level}"))
            names = [s.name for s in sums]
            if level > 1:
                at_b.next, new = nest(level - 1, here, at_b.name, names)
            else:
                weight = f.load(type, at_b.name)
                new = [multiply_add(f, type, f.load(type, f.ahead(here, o)), weight, n) for o, n in zip(offsets, names)]
                at_b.next = f.ahead(at_b.name, "%rsB")
            for s, value in zip(sums, new):
                s.next = value
        return at_b.name, [s.name for s in sums]

    _, done = nest(3, "%A", "%B", ["zeroinitializer"] * pixels)
    tile.values = {(i, 0): value for i, value in enumerate(done)}
    if epilogue is not None:
        epilogue(tile)
    for i in range(pixels):
        tile.store(tile.values[i, 0], f.ahead("%C", f.mul("%rsC", i) if i else 0), 0)
    f.returns()
    return f


def _walk(prefix: str, type: Vector) -> Function:
    f = Function(
        f"{prefix}_depthwise",
        "ptr %walk, ptr %A, ptr %B, ptr %C, ptr %context",
        linkage="internal",
        attributes="nounwind",
    )
    w = Fields(f, "%walk", WALK)
    size, lanes = SIZES[type.element], type.lanes
    ends = ["0", *(f.mul(f.div(w["x"], pixels), pixels) for pixels in _PIXELS)]
    with f.loop(w["N"], step=str(lanes)) as j:
        rest = f.sub(w["N"], j)
        b, offset, column = f.ahead("%B", f.mul(j, size)), f.mul(j, size), f.add(w["column0"], j)
        full = f.compare("sge", rest, lanes)
        with f.loop(w["n"]) as n, f.loop(w["z"]) as z, f.loop(w["y"]) as y:
            a = f.ahead(
                f.ahead(f.ahead(f.ahead("%A", offset), f.mul(n, w["an"])), f.mul(z, w["az"])), f.mul(y, w["ay"])
            )
            c = f.ahead(
                f.ahead(f.ahead(f.ahead("%C", offset), f.mul(n, w["cn"])), f.mul(z, w["cz"])), f.mul(y, w["cy"])
            )
            row = f.add(f.add(w["row0"], f.mul(n, w["row_n"])), f.add(f.mul(z, w["row_z"]), f.mul(y, w["row_y"])))
            for pixels, start, stop in zip(_PIXELS, ends, ends[1:]):
                with f.loop(stop, start=start, step=str(pixels)) as x:
                    taps = [f"i64 {w[name]}" for name in ("K1", "K2", "K3", "a1", "a2", "a3")]
                    operands = [
                        f"ptr {f.ahead(a, f.mul(x, w['ax']))}",
                        f"i64 {w['ax']}",
                        f"ptr {b}",
                        f"i64 {w['row_b']}",
                    ]
                    out = [f"ptr {f.ahead(c, f.mul(x, w['cx']))}", f"i64 {w['cx']}"]
                    places = [f"i64 {rest}", f"i64 {f.add(row, f.mul(x, w['row_x']))}", f"i64 {column}", "ptr %context"]
                    for suffix, wanted in (("", full), ("m", f.negated(full))):
                        with f.when(wanted):
                            f.call_void(f"{prefix}_depthwise_{pixels}{suffix}", *taps, *operands, *out, *places)
    f.returns()
    return f


def _gradient(prefix: str, type: Vector) -> Function:
    """Write `{prefix}_depthwise_gradient(walk, A, B, C, context)`: positions z, y, x are taps; k runs over pixels;
    C[channel][tap].

    A has pixels in steps csA, a1, a2, a3. B (the gradient of the output) has them consecutively, `row_b` bytes apart.
    """
    f = Function(
        f"{prefix}_depthwise_gradient",
        "ptr %walk, ptr %A, ptr %B, ptr %C, ptr %context",
        linkage="internal",
        attributes="nounwind",
    )
    w = Fields(f, "%walk", WALK)
    size, lanes, one = SIZES[type.element], type.lanes, Vector(type.element)
    adds = f.compare("ne", w["mode"], 0)
    with f.loop(w["N"], step=str(lanes)) as j, f.loop(w["z"]) as z, f.loop(w["y"]) as y, f.loop(w["x"]) as x:
        rest, offset = f.sub(w["N"], j), f.mul(j, size)
        a = f.ahead(f.ahead(f.ahead(f.ahead("%A", offset), f.mul(z, w["az"])), f.mul(y, w["ay"])), f.mul(x, w["ax"]))
        total = _over_pixels(f, type, w, 3, a, f.ahead("%B", offset), ["zeroinitializer"] * _SUMS)[1]
        while len(total) > 1:
            total = [f.set(f"fadd {type} {one_half}, {other}") for one_half, other in zip(total[::2], total[1::2])]
        tap = f.ahead(f.ahead(f.ahead("%C", f.mul(z, w["cz"])), f.mul(y, w["cy"])), f.mul(x, w["cx"]))
        for lane in range(lanes):
            with f.when(f.compare("sgt", rest, lane)):
                place = f.ahead(tap, f.mul(f.add(j, lane), w["cn"]))
                with f.when(f.negated(adds)):
                    f.store(one, one.constant(0.0), place)
                value = f.set(f"extractelement {type} {total[0]}, i64 {lane}")
                f.store(one, f.set(f"fadd {one} {f.load(one, place)}, {value}"), place)
    f.returns()
    return f


def _over_pixels(
    f: Function, type: Vector, w: Fields, level: int, a: str, b: str, sums: list[str]
) -> tuple[str, list[str]]:
    """Write the loops over images and pixels along z, y and x. Return the end of B, and the sums.

    Along x, several sums alternate, so that none waits for itself.
    """
    count, step = (w["K"], w["csA"]) if level == 0 else (w[f"K{level}"], w[f"a{level}"])
    if level:
        carried, at_b = [f.carried(type, value) for value in sums], f.carried("ptr", b)
        with f.loop(count, carried=[*carried, at_b]) as n:
            here = f.ahead(a, f.mul(n, step))
            at_b.next, new = _over_pixels(f, type, w, level - 1, here, at_b.name, [c.name for c in carried])
            for c, value in zip(carried, new):
                c.next = value
        return at_b.name, [c.name for c in carried]
    whole = f.mul(f.div(count, _SUMS), _SUMS)
    for stride, start, stop in ((_SUMS, "0", whole), (1, whole, count)):
        carried = [f.carried(type, value) for value in sums[:stride]]
        with f.loop(stop, start=start, step=str(stride), carried=carried) as n:
            for i, c in enumerate(carried):
                place, other = (f.ahead(p, f.mul(f.add(n, i), s)) for p, s in ((a, step), (b, w["row_b"])))
                c.next = multiply_add(f, type, f.load(type, place), f.load(type, other), c.name)
        sums = [*(c.name for c in carried), *sums[stride:]]
    return f.ahead(b, f.mul(count, w["row_b"])), sums
