"""The gradient of a convolution's weight.

It sums over images and pixels, so k runs over these, and the rows of the product are input channels:

    dW[t, c, o] = sum over n, pixels p   in[n, p * step + t, c] g[n, p, o]

    void {prefix}_weight_gradient(ptr table, ptr X, ptr G, ptr parts, ptr buffer, i64 begin, i64 end)
    void {prefix}_weight_sum(ptr table, ptr parts, ptr dW, i64 begin, i64 end)          chunk: as many k as a vector has lanes

Images are divided into a fixed number of parts, each summed separately into parts[part, t, c, o]. The last function
adds the parts in their order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ndgrad._src.compiler.kernels.packing import transposed
from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.tile_walk import WALK, call_walk
from ndgrad._src.compiler.kernels.tiles import ACCUMULATE, TileShape
from ndgrad._src.compiler.kernels.windows import ENTRY, HEADER
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector, number

WEIGHT_GRADIENT = "ptr %table, ptr %X, ptr %G, ptr %parts, ptr %buffer, i64 %begin, i64 %end"

WEIGHT_SUM = "ptr %table, ptr %parts, ptr %W, i64 %begin, i64 %end"


def weight_gradient_function(prefix: str, tile: TileShape) -> Function:
    """Write the function for a chunk = (part, slice of the columns): the part's images, a few at a time, added to
    parts[part][group][taps][channel][column].
    """
    return _WeightGradient(prefix, tile).write()


@dataclass(frozen=True)
class _Unit:
    """Values of one unit of work: some images and planes for a slice of the columns."""

    #: First image, number of images, first plane, number of planes, number of pixels in these planes.
    n: str
    together: str
    z0: str
    planes: str
    pixels: str
    #: First column of the slice, number of columns, and the memory of the part.
    first_column: str
    width: str
    base: str


class _WeightGradient:
    """Writer of the function: sizes in bytes and conditions that hold for all chunks, and the loops."""

    def __init__(self, prefix: str, tile: TileShape) -> None:
        self.prefix, self.tile = prefix, tile
        self.f = f = Function(f"{prefix}_weight_gradient", WEIGHT_GRADIENT, attributes="nounwind")
        self.t = t = Fields(f, "%table", HEADER)
        self.e = Fields(f, f.ahead("%table", 8 * len(HEADER)), ENTRY)
        self.walk = f.set(f"alloca [{len(WALK)} x i64]")
        self.size = size = SIZES[tile.type.element]
        # The gathered images: [image][strip of channels][z][y][x][channel].
        channels, self.columns = f.mul(t["groups"], t["channels"]), f.mul(t["groups"], t["columns"])
        self.pixel, self.out_pixel = f.mul(t["strip"], size), f.mul(self.columns, size)
        self.row = f.mul(t["extent_x"], self.pixel)
        self.plane = f.mul(t["extent_y"], self.row)
        self.one_strip = f.mul(t["extent_z"], self.plane)
        channel_strips = f.div(f.add(channels, f.sub(t["strip"], 1)), t["strip"])
        self.held = f.mul(self.one_strip, channel_strips)
        lanes = tile.type.lanes
        self.padded = f.mul(f.div(f.add(t["columns"], lanes - 1), lanes), lanes)
        self.positions = f.mul(t["out_y"], t["out_x"])
        self.channel = f.mul(t["out_z"], self.positions)
        self.image = f.mul(f.mul(f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"]), channels), size)
        self.staging = f.ahead("%buffer", f.mul(t["together"], self.held))
        self.last = f.compare("ne", t["out_last"], 0)
        self.depthwise = f.compare("ne", t["depthwise"], 0)
        self.group_size = f.mul(self.e["depth"], t["columns"])
        self.part_bytes = f.mul(f.mul(t["groups"], self.group_size), size)
        self.units = f.mul(f.div(f.add(t["images"], f.sub(t["together"], 1)), t["together"]), t["blocks"])
        # Slices of whole strips.
        strips = f.div(f.add(t["columns"], tile.columns - 1), tile.columns)
        self.slice_columns = f.mul(f.div(f.add(strips, f.sub(t["slices"], 1)), t["slices"]), tile.columns)
        whole = f.compare("eq", t["strip"], channels)
        # If there are two axes, the second is x: rows of pixels follow one another in the second innermost loop.
        self.flat = f.compare("eq", t["out_y"], 1)
        self.joined = f.both(f.both(f.compare("eq", t["groups"], 1), f.compare("eq", self.e["spread_x"], 1)), whole)

    def write(self) -> Function:
        """Write the loop over chunks, and in it the loop over units of the part."""
        f, t = self.f, self.t
        with f.loop("%end", start="%begin") as chunk:
            part = f.div(chunk, t["slices"])
            first_column = f.mul(f.sub(chunk, f.mul(part, t["slices"])), self.slice_columns)
            width = f.most(0, f.least(self.slice_columns, f.sub(t["columns"], first_column)))
            base = f.ahead("%parts", f.mul(part, self.part_bytes))
            begin, end = (f.div(f.mul(p, self.units), t["parts"]) for p in (part, f.add(part, 1)))
            with f.loop(end, start=begin) as number:
                group = f.div(number, t["blocks"])
                z0 = f.mul(f.sub(number, f.mul(group, t["blocks"])), t["block"])
                n = f.mul(group, t["together"])
                together = f.least(t["together"], f.sub(t["images"], n))
                planes = f.least(t["block"], f.sub(t["out_z"], z0))
                pixels = f.mul(planes, self.positions)
                unit = _Unit(n, together, z0, planes, pixels, first_column, width, base)
                self._collect_images(unit)
                mode = f.choose(f.compare("sgt", number, begin), ACCUMULATE, 0)
                self._add_products(unit, mode)
        f.returns()
        return f

    def _collect_images(self, unit: _Unit) -> None:
        """Gather the images of a unit, and pack their gradients."""
        f, t = self.f, self.t
        first = f.add(f.mul(unit.z0, t["in_step_z"]), t["low_z"])
        with f.loop(unit.together) as i:
            source = f.ahead("%X", f.mul(f.add(unit.n, i), self.image))
            target = f.ahead("%buffer", f.mul(i, self.held))
            f.call_void(f"{self.prefix}_gather", "ptr %table", f"ptr {source}", f"ptr {target}", f"i64 {first}")
            self._pack_columns(unit, i)
            self._pack_depthwise(unit, i)

    def _pack_columns(self, unit: _Unit, i: str) -> None:
        """Pack g of a slice into strips as wide as a tile: [image][group][strip][pixel][column]."""
        f, t, size, lanes = self.f, self.t, self.size, self.tile.type.lanes
        n, z0, pixels, width = unit.n, unit.z0, unit.pixels, unit.width
        with f.loop(f.choose(self.depthwise, 0, t["groups"])) as g:
            stage = f.mul(f.mul(f.mul(f.add(f.mul(i, t["groups"]), g), self.padded), pixels), size)
            here = f.add(f.mul(g, t["columns"]), unit.first_column)
            with f.when(self.last):
                place = f.mul(f.add(f.mul(f.add(n, i), self.channel), f.mul(z0, self.positions)), self.columns)
                f.call_void(
                    f"{self.prefix}_pack_along", f"i64 {pixels}", f"i64 {width}",
                    f"ptr {f.ahead('%G', f.mul(f.add(place, here), size))}", f"i64 {self.out_pixel}", f"i64 {size}",
                    f"ptr {f.ahead(self.staging, stage)}",
                )  # fmt: skip
            with f.when(f.negated(self.last)), f.loop(width, step=str(self.tile.columns)) as j:
                wide = f.least(self.tile.columns, f.sub(width, j))
                across = f.mul(f.div(f.add(wide, lanes - 1), lanes), lanes)
                place = f.mul(f.add(f.mul(f.add(n, i), self.columns), f.add(here, j)), self.channel)
                target = f.ahead(self.staging, f.add(stage, f.mul(f.mul(j, pixels), size)))
                f.call_void(
                    f"{self.prefix}_transpose", f"i64 {wide}", f"i64 {pixels}",
                    f"ptr {f.ahead('%G', f.mul(f.add(place, f.mul(z0, self.positions)), size))}",
                    f"i64 {f.mul(self.channel, size)}", f"ptr {target}", f"i64 {f.mul(across, size)}",
                )  # fmt: skip

    def _pack_depthwise(self, unit: _Unit, i: str) -> None:
        """Pack g of a depthwise convolution, with channels last: [image][pixel][channel]."""
        f, size, pixels = self.f, self.size, unit.pixels
        with f.when(f.both(self.depthwise, f.negated(self.last))):
            place = f.add(f.mul(f.mul(f.add(unit.n, i), self.columns), self.channel), f.mul(unit.z0, self.positions))
            f.call_void(
                f"{self.prefix}_transpose", f"i64 {self.columns}", f"i64 {pixels}",
                f"ptr {f.ahead('%G', f.mul(place, size))}", f"i64 {f.mul(self.channel, size)}",
                f"ptr {f.ahead(self.staging, f.mul(f.mul(i, pixels), self.out_pixel))}", f"i64 {self.out_pixel}",
            )  # fmt: skip
        with f.when(f.both(self.depthwise, self.last)):
            place = f.add(f.mul(f.add(unit.n, i), self.channel), f.mul(unit.z0, self.positions))
            source = f.ahead("%G", f.mul(place, self.out_pixel))
            count = f.mul(pixels, self.out_pixel)
            target = f.ahead(self.staging, f.mul(i, count))
            f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {target}", f"ptr {source}", f"i64 {count}", "i1 false")

    def _add_products(self, unit: _Unit, mode: str) -> None:
        """Add the products of a unit to the part."""
        f, t, e = self.f, self.t, self.e
        strips_of_group = f.mul(f.mul(self.padded, unit.pixels), self.size)
        with f.when(self.depthwise):
            self._walk_depthwise(unit, mode)
        groups = f.choose(self.depthwise, 0, t["groups"])
        with f.loop(groups) as g, f.loop(e["taps_z"]) as tap_z, f.loop(t["channels"], step=t["strip"]) as k:
            self._walk_strip(unit, mode, strips_of_group, g, tap_z, k)

    def _walk_depthwise(self, unit: _Unit, mode: str) -> None:
        f, t, e, size = self.f, self.t, self.e, self.size
        call_walk(
            f, f"{self.prefix}_depthwise_gradient", self.walk,
            {
                "z": e["taps_z"], "y": e["taps_y"], "x": e["taps_x"],
                "az": f.mul(e["spread_z"], self.plane), "ay": f.mul(e["spread_y"], self.row),
                "ax": f.mul(e["spread_x"], self.pixel),
                "cn": f.mul(e["depth"], size), "cz": f.mul(f.mul(e["taps_y"], e["taps_x"]), size),
                "cy": f.mul(e["taps_x"], size), "cx": size, "N": t["groups"],
                "K": t["out_x"], "K1": t["out_y"], "K2": unit.planes, "K3": unit.together,
                "csA": f.mul(t["in_step_x"], self.pixel),
                "a1": f.mul(t["in_step_y"], self.row), "a2": f.mul(t["in_step_z"], self.plane), "a3": self.held,
                "row_b": self.out_pixel, "mode": mode,
            },
            "%buffer", self.staging, unit.base, "null",
        )  # fmt: skip

    def _walk_strip(self, unit: _Unit, mode: str, strips_of_group: str, g: str, tap_z: str, k: str) -> None:
        """Add the products of a strip of channels, for all taps of a plane."""
        f, t, e, size, flat = self.f, self.t, self.e, self.size, self.flat
        row, plane, pixel, joined, planes = self.row, self.plane, self.pixel, self.joined, unit.planes
        here = f.least(t["strip"], f.sub(t["channels"], k))
        rows = f.mul(t["channels"], t["columns"])  # elements of the result for one tap
        c = f.add(f.mul(g, self.group_size), f.mul(f.mul(f.mul(tap_z, e["taps_y"]), e["taps_x"]), rows))
        call_walk(
            f, f"{self.prefix}_walk", self.walk,
            {
                "n": 1, "an": 0, "cn": 0, "row_n": 0, "z": e["taps_y"], "y": f.choose(joined, 1, e["taps_x"]),
                "x": f.choose(joined, f.mul(e["taps_x"], t["channels"]), here),
                "az": f.mul(e["spread_y"], row), "ay": f.mul(e["spread_x"], pixel), "ax": size,
                "cz": f.mul(f.mul(e["taps_x"], rows), size), "cy": f.mul(rows, size),
                "cx": f.mul(t["columns"], size),
                "N": unit.width, "K": t["out_x"], "csA": f.mul(t["in_step_x"], pixel),
                "K1": f.choose(flat, planes, t["out_y"]), "K2": f.choose(flat, 1, planes), "K3": unit.together,
                "a1": f.choose(flat, f.mul(t["in_step_z"], plane), f.mul(t["in_step_y"], row)),
                "a2": f.mul(t["in_step_z"], plane), "a3": self.held,
                "rows1": t["out_x"], "rows2": self.positions, "rows3": 0,
                "column_b": f.mul(unit.pixels, size), "first_b": 0,
                "image_b": f.mul(t["groups"], strips_of_group),
                "row0": 0, "row_z": 0, "row_y": 0, "row_x": 0, "column0": 0,
                "mode": mode,
            },
            f.ahead(f.ahead(f.ahead("%buffer", f.mul(f.mul(tap_z, e["spread_z"]), plane)),
                    f.mul(f.mul(g, t["channels"]), size)),
                    f.mul(f.div(k, t["strip"]), self.one_strip)),
            f.ahead(self.staging, f.mul(g, strips_of_group)),
            f.ahead(unit.base, f.mul(f.add(f.add(c, f.mul(k, t["columns"])), unit.first_column), size)),
            "null",
        )  # fmt: skip


def weight_sum_function(prefix: str, tile: TileShape) -> Function:
    """Write dW[group, column, channel, taps] as the sum of the parts, whose order is [group][taps][channel][column], by
    squares in registers.
    """
    f = Function(f"{prefix}_weight_sum", WEIGHT_SUM, attributes="nounwind")
    t = Fields(f, "%table", HEADER)
    e = Fields(f, f.ahead("%table", 8 * len(HEADER)), ENTRY)
    type, size, lanes, one = tile.type, SIZES[tile.type.element], tile.type.lanes, Vector(tile.type.element)
    group_size = f.mul(e["depth"], t["columns"])
    part_bytes = f.mul(f.mul(t["groups"], group_size), size)
    taps = f.div(e["depth"], t["channels"])

    def total(kind: Vector, place: str) -> str:
        """Return the sum of the parts at a place of the first."""
        value = f.carry(kind, "zeroinitializer" if kind.lanes > 1 else number(kind.element, 0.0))
        with f.repeat(t["parts"], [value]) as part:
            value.next = f.set(f"fadd {kind} {value.name}, {f.load(kind, f.ahead(place, f.mul(part, part_bytes)))}")
        return value.next

    def source(k: str) -> str:
        """Return the offset in bytes of the row of channel k / taps and tap k % taps in a group of the first part."""
        c = f.div(k, taps)
        return f.mul(f.mul(f.add(f.mul(f.sub(k, f.mul(c, taps)), t["channels"]), c), t["columns"]), size)

    squares = f.both(f.compare("sge", e["depth"], lanes), f.compare("sge", t["columns"], lanes))
    with f.loop(t["groups"]) as g:
        here, out = (
            f.ahead("%parts", f.mul(f.mul(g, group_size), size)),
            f.ahead("%W", f.mul(f.mul(g, group_size), size)),
        )
        step = f.mul(e["depth"], size)
        with f.when(squares), f.loop("%end", start="%begin") as turn:
            k = f.least(f.mul(turn, lanes), f.sub(e["depth"], lanes))
            rows = [f.ahead(here, source(f.add(k, n))) for n in range(lanes)]
            with f.loop(t["columns"], step=str(lanes)) as column:
                j = f.least(column, f.sub(t["columns"], lanes))
                values = [total(type, f.ahead(row, f.mul(j, size))) for row in rows]
                for n, value in enumerate(transposed(f, type, values)):
                    f.store(type, value, f.ahead(f.ahead(out, f.mul(f.add(j, n), step)), f.mul(k, size)))
        with (
            f.when(f.negated(squares)),
            f.loop(f.least(f.mul("%end", lanes), e["depth"]), start=f.mul("%begin", lanes)) as k,
        ):
            row = f.ahead(here, source(k))
            with f.loop(t["columns"]) as j:
                f.store(
                    one, total(one, f.ahead(row, f.mul(j, size))), f.ahead(f.ahead(out, f.mul(j, step)), f.mul(k, size))
                )
    f.returns()
    return f
