"""Pooling of images whose channels come last, (N, z, y, x, C), as between convolutions with that layout.

All channels of a pixel are neighbours, so a vector of them passes through a window tap by tap, for any stride, dilation
and padding. There is no shuffling, and edges only have shorter ranges of taps. Meaning, table and counts are those of
pooling.py. So are places: numbers within a plane (z, y, x), not counting channels.

    void {prefix}_max_last(ptr table, ptr X, ptr Y, ptr I, i64 begin, i64 end)      rows of outputs: chunk = image * out_z + z
    void {prefix}_average_last(ptr table, ptr counts, ptr X, ptr Y, i64 begin, i64 end)                      the same
    void {prefix}_max_gradient_last(ptr table, ptr G, ptr I, ptr dX, i64 begin, i64 end)                     chunk = image
    void {prefix}_max_windows_last(...)           the same, for disjoint windows: by vectors, from the windows
    void {prefix}_average_gradient_last(ptr table, ptr counts, ptr G, ptr dX, i64 begin, i64 end)            chunk = image
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ndgrad._src.compiler.kernels.pool_work import work_function
from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector

PARAMETERS = {
    "max_last": "ptr %table, ptr %X, ptr %Y, ptr %I, i64 %begin, i64 %end",
    "average_last": "ptr %table, ptr %counts, ptr %X, ptr %Y, i64 %begin, i64 %end",
    "max_gradient_last": "ptr %table, ptr %G, ptr %I, ptr %X, i64 %begin, i64 %end",
    "max_windows_last": "ptr %table, ptr %G, ptr %I, ptr %X, i64 %begin, i64 %end",
    "average_gradient_last": "ptr %table, ptr %counts, ptr %G, ptr %X, i64 %begin, i64 %end",
}

Ranges = dict[str, tuple[str, str, str]]
#: Maps a table's fields, an axis and a position to the first input of its window, and the range of taps that lie
#: inside.
Inside = Callable[[Function, Fields, str, str], tuple[str, str, str]]


def functions(prefix: str, type: Vector, fields: list[str], inside: Inside) -> list[Function]:
    """Return all functions of this file, for the library of pooling."""
    write = _Writer(prefix, type, fields, inside)
    return [
        write.forward("max_last"),
        write.forward("average_last"),
        write.max_gradient(),
        write.distribute("max_windows_last"),
        write.distribute("average_gradient_last"),
        *(work_function(f"{prefix}_{name}", parameters) for name, parameters in PARAMETERS.items()),
    ]


class _Writer:
    def __init__(self, prefix: str, type: Vector, fields: list[str], inside: Inside) -> None:
        self.prefix = prefix
        self.type = type
        self.size = SIZES[type.element]
        self.fields = fields
        self.inside = inside

    def _begin(self, name: str) -> tuple[Function, Fields]:
        f = Function(f"{self.prefix}_{name}", PARAMETERS[name], attributes="nounwind")
        return f, Fields(f, "%table", self.fields)

    def _channels(self, f: Function, t: Fields, write: Callable[[str, str | None], None]) -> None:
        """Call `write(channel, mask)` for each vector of channels, the last with a mask."""
        lanes = self.type.lanes
        whole = f.mul(f.div(t["channels"], lanes), lanes)
        with f.loop(whole, step=str(lanes)) as c:
            write(c, None)
        rest = f.sub(t["channels"], whole)
        with f.when(f.compare("sgt", rest, 0)):
            write(whole, f.first_lanes(self.type, rest))

    def _load(self, f: Function, kind: Vector, place: str, mask: str | None) -> str:
        return f.load(kind, place) if mask is None else f.load_masked(kind, place, mask)

    def _store(self, f: Function, kind: Vector, value: str, place: str, mask: str | None) -> None:
        if mask is None:
            f.store(kind, value, place)
        else:
            f.store_masked(kind, value, place, mask)

    @contextmanager
    def _taps(self, f: Function, t: Fields, ranges: Ranges) -> Iterator[str]:
        """Write loops over the taps of a window that lie inside, without carried values. Yield the place of each in the
        plane.
        """
        at = {}
        with (
            f.loop(ranges["z"][2], start=ranges["z"][1]) as at["z"],
            f.loop(ranges["y"][2], start=ranges["y"][1]) as at["y"],
        ):
            row = self._row(f, t, ranges, at["z"], at["y"])
            with f.loop(ranges["x"][2], start=ranges["x"][1]) as x:
                yield f.add(row, f.mul(x, t["dilation_x"]))

    def _row(self, f: Function, t: Fields, ranges: Ranges, z: str, y: str) -> str:
        """Return the place of the first tap along x."""
        lines = [f.add(ranges[a][0], f.mul(n, t[f"dilation_{a}"])) for a, n in (("z", z), ("y", y))]
        return f.add(f.mul(f.add(f.mul(lines[0], t["in_y"]), lines[1]), t["in_x"]), ranges["x"][0])

    def _divisor(self, f: Function, t: Fields, z: str, y: str, x: str) -> str:
        places = (z, f.add(t["out_z"], y), f.add(f.add(t["out_z"], t["out_y"]), x))
        counts = [f.set(f"load i64, ptr {f.ahead('%counts', f.mul(n, 8))}") for n in places]
        return f.splat(
            f.set(f"sitofp i64 {f.mul(f.mul(counts[0], counts[1]), counts[2])} to {self.type.element}"), self.type
        )

    def forward(self, name: str) -> Function:
        """Write the forward kernel: maxima with their positions, or means. A chunk is one index z of the outputs."""
        f, t = self._begin(name)
        type, size = self.type, self.size
        pixel = f.mul(t["channels"], size)
        image = f.mul(f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"]), pixel)
        places = f.mul(t["channels"], 8)
        with f.loop("%end", start="%begin") as chunk:
            n = f.div(chunk, t["out_z"])
            z = f.sub(chunk, f.mul(n, t["out_z"]))
            plane = f.ahead("%X", f.mul(n, image))
            ranges = {"z": self.inside(f, t, "z", z)}
            with f.loop(t["out_y"]) as y:
                ranges["y"] = self.inside(f, t, "y", y)
                with f.loop(t["out_x"]) as x:
                    ranges["x"] = self.inside(f, t, "x", x)
                    number = f.add(f.mul(f.add(f.mul(chunk, t["out_y"]), y), t["out_x"]), x)
                    out = f.ahead("%Y", f.mul(number, pixel))
                    index = f.ahead("%I", f.mul(number, places)) if name == "max_last" else ""
                    divisor = "" if name == "max_last" else self._divisor(f, t, z, y, x)

                    def visit_taps(
                        c: str,
                        mask: str | None,
                        plane: str = plane,
                        out: str = out,
                        index: str = index,
                        divisor: str = divisor,
                    ) -> None:
                        offset = f.mul(c, size)
                        best, place = self._through_taps(
                            f, t, ranges, f.ahead(plane, offset), pixel, name == "max_last", mask
                        )
                        if divisor:
                            self._store(f, type, f.set(f"fdiv {type} {best}, {divisor}"), f.ahead(out, offset), mask)
                        else:
                            wide = Vector("i64", type.lanes)
                            self._store(f, type, best, f.ahead(out, offset), mask)
                            if type.integer.element != "i64":
                                place = f.set(f"sext {type.integer} {place} to {wide}")
                            self._store(f, wide, place, f.ahead(index, f.mul(c, 8)), mask)

                    self._channels(f, t, visit_taps)
        f.returns()
        return f

    def _through_taps(
        self, f: Function, t: Fields, ranges: Ranges, plane: str, pixel: str, largest: bool, mask: str | None
    ) -> tuple[str, str]:
        """Return the maxima of a vector of channels over a window, the first of equal ones or the last NaN, and their
        places; or the sums.
        """
        type, codes = self.type, self.type.integer
        first = self._row(f, t, ranges, ranges["z"][1], ranges["y"][1])
        first = f.add(first, f.mul(ranges["x"][1], t["dilation_x"]))
        states = [(str(type), type.constant(-np.inf if largest else 0.0)), (str(codes), self._code(f, first))]
        over_z = [f.carry(*s) for s in states]
        with f.loop(ranges["z"][2], start=ranges["z"][1], carried=over_z) as z:
            over_y = [f.carry(c.type, c.name) for c in over_z]
            with f.loop(ranges["y"][2], start=ranges["y"][1], carried=over_y) as y:
                row = self._row(f, t, ranges, z, y)
                over_x = [f.carry(c.type, c.name) for c in over_y]
                with f.loop(ranges["x"][2], start=ranges["x"][1], carried=over_x) as x:
                    place = f.add(row, f.mul(x, t["dilation_x"]))
                    value, best = self._load(f, type, f.ahead(plane, f.mul(place, pixel)), mask), over_x[0].name
                    if largest:
                        better = f.set(f"fcmp ogt {type} {value}, {best}")
                        better = f.set(f"or {type.mask} {better}, {f.set(f'fcmp uno {type} {value}, {value}')}")
                        over_x[0].next = f.set(f"select {type.mask} {better}, {type} {value}, {type} {best}")
                        here = self._code(f, place)
                        over_x[1].next = f.set(f"select {type.mask} {better}, {codes} {here}, {codes} {over_x[1].name}")
                    else:
                        over_x[0].next = f.set(f"fadd {type} {best}, {value}")
                for c, inner in zip(over_y, over_x, strict=True):
                    c.next = inner.name
            for c, inner in zip(over_z, over_y, strict=True):
                c.next = inner.name
        return over_z[0].name, over_z[1].name

    def _code(self, f: Function, place: str) -> str:
        """Return a place in all lanes of integers as wide as the elements."""
        kind = self.type.integer
        return f.splat(place if kind.element == "i64" else f.set(f"trunc i64 {place} to {kind.element}"), kind)

    # ----- gradients -----

    def max_gradient(self) -> Function:
        """Add each element of g at its place."""
        f, t = self._begin("max_gradient_last")
        size, one = self.size, Vector(self.type.element)
        channels, pixel = t["channels"], f.mul(t["channels"], self.size)
        inputs, outputs = (f.mul(f.mul(t[f"{w}_z"], t[f"{w}_y"]), t[f"{w}_x"]) for w in ("in", "out"))
        with f.loop("%end", start="%begin") as n:
            target = f.ahead("%X", f.mul(f.mul(n, inputs), pixel))
            f.call_void("llvm.memset.p0.i64", f"ptr {target}", "i8 0", f"i64 {f.mul(inputs, pixel)}", "i1 false")
            first = f.mul(n, outputs)
            with f.loop(f.add(first, outputs), start=first) as number, f.loop(channels) as c:
                element = f.add(f.mul(number, channels), c)
                place = f.set(f"load i64, ptr {f.ahead('%I', f.mul(element, 8))}")
                at = f.ahead(target, f.mul(f.add(f.mul(place, channels), c), size))
                value = f.load(one, f.ahead("%G", f.mul(element, size)))
                f.store(one, f.set(f"fadd {one} {f.load(one, at)}, {value}"), at)
        f.returns()
        return f

    def distribute(self, name: str) -> Function:
        """Distribute g over the inputs of its windows: at the maximum, or as its share of a mean everywhere."""
        f, t = self._begin(name)
        type, size = self.type, self.size
        pixel = f.mul(t["channels"], size)
        inputs = f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"])
        with f.loop("%end", start="%begin") as n:
            target = f.ahead("%X", f.mul(f.mul(n, inputs), pixel))
            f.call_void("llvm.memset.p0.i64", f"ptr {target}", "i8 0", f"i64 {f.mul(inputs, pixel)}", "i1 false")
            ranges: Ranges = {}
            with f.loop(t["out_z"]) as z:
                ranges["z"] = self.inside(f, t, "z", z)
                with f.loop(t["out_y"]) as y:
                    ranges["y"] = self.inside(f, t, "y", y)
                    with f.loop(t["out_x"]) as x:
                        ranges["x"] = self.inside(f, t, "x", x)
                        row = f.mul(f.add(f.mul(f.add(f.mul(n, t["out_z"]), z), t["out_y"]), y), t["out_x"])
                        number = f.add(row, x)
                        divisor = "" if name == "max_windows_last" else self._divisor(f, t, z, y, x)

                        def over_window(
                            c: str, mask: str | None, number: str = number, divisor: str = divisor, target: str = target
                        ) -> None:
                            offset = f.mul(c, size)
                            value = self._load(f, type, f.ahead(f.ahead("%G", f.mul(number, pixel)), offset), mask)
                            if divisor:
                                value = f.set(f"fdiv {type} {value}, {divisor}")
                                found = ""
                            else:
                                wide = Vector("i64", type.lanes)
                                found = f.ahead("%I", f.mul(f.add(f.mul(number, t["channels"]), c), 8))
                                found = self._load(f, wide, found, mask)
                                if type.integer.element != "i64":
                                    found = f.set(f"trunc {wide} {found} to {type.integer}")
                            with self._taps(f, t, ranges) as place:
                                at = f.ahead(f.ahead(target, f.mul(place, pixel)), offset)
                                if divisor:
                                    new = f.set(f"fadd {type} {self._load(f, type, at, mask)}, {value}")
                                else:
                                    here = f.set(f"icmp eq {type.integer} {found}, {self._code(f, place)}")
                                    new = f.set(f"select {type.mask} {here}, {type} {value}, {type} zeroinitializer")
                                self._store(f, type, new, at, mask)

                        self._channels(f, t, over_window)
        f.returns()
        return f
