"""Convolutions over the tiles of matrix products, without a matrix of patches.

Internally, channels come last. A pixel of the input is then a row of numbers. The next pixel and the next taps along x,
y and z are at fixed steps. A tile of output pixels times output channels is a matrix product whose k runs through four
nested loops,

    out[x, :] = sum_z sum_y sum_x' sum_c   in[z, y, x * step + x', c] W[z, y, x', c, :]

all with fixed steps in memory (tiles.py, `levels`). The input is copied once, image by image, into a buffer with zero
padding and channels last. Images are passed as (N, C, *S), or with channels last if requested. All sizes are read from
a table (windows.py). Few output channels are the rows of a tile instead, and nothing is transposed
(plane_convolution.py).

    void {prefix}_weights(ptr table, ptr W, ptr packed, i64 begin, i64 end)              first: strips begin..end of the weight
    void {prefix}_correlate(ptr table, ptr X, ptr packed, ptr Y, ptr context, ptr buffer, i64 begin, i64 end)
                                                                                         chunks begin..end; a buffer for each thread

The same function is the forward pass and the gradient of the input, depending on the table. The epilogue sees `row` as
the number of the output pixel in (N, *S) and `column` as the output channel; only the forward pass runs it on
consecutive pixels.

The gradient of the weight is another sum: weight_gradient.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ndgrad._src.compiler.kernels.depthwise import depthwise_functions
from ndgrad._src.compiler.kernels.layout import gather_function, transpose_function
from ndgrad._src.compiler.kernels.packing import pack_along, transposed
from ndgrad._src.compiler.kernels.plane_convolution import padded_planes_function, planes_function
from ndgrad._src.compiler.kernels.pool_work import work_function
from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.tile_walk import LEVELS, WALK, call_walk, walk_function
from ndgrad._src.compiler.kernels.tiles import ACCUMULATE, LAST, Epilogue, TileShape, tile_kernel, tile_name, tile_shape
from ndgrad._src.compiler.kernels.weight_gradient import (
    WEIGHT_GRADIENT,
    WEIGHT_SUM,
    weight_gradient_function,
    weight_sum_function,
)
from ndgrad._src.compiler.kernels.windows import ENTRY, HEADER
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector
from ndgrad._src.compiler.native.target import Target

WEIGHTS = "ptr %table, ptr %W, ptr %packed, i64 %begin, i64 %end"
CORRELATE = "ptr %table, ptr %X, ptr %packed, ptr %Y, ptr %context, ptr %buffer, i64 %begin, i64 %end"


def library(prefix: str, element: str, target: Target, epilogue: Epilogue | None = None) -> list[Function | str]:
    """Return all functions of convolutions, for `ir.module`."""
    tile = tile_shape(target, element)
    kinds = [(tile.vectors, False), *((v, True) for v in range(1, tile.vectors + 1))]
    sizes = [(r, v, m) for r in range(1, tile.rows + 1) for v, m in kinds]
    names = [tile_name(f"{prefix}_tile", *s) for s in sizes]
    return [
        f"@{prefix}_tiles = internal constant [{len(names)} x ptr] [{', '.join(f'ptr @{n}' for n in names)}]",
        *(tile_kernel(f"{prefix}_tile", tile.type, *s, epilogue=epilogue, levels=LEVELS) for s in sizes),
        transpose_function(f"{prefix}_transpose", tile.type, narrow=(3, tile.rows)),
        gather_function(f"{prefix}_gather", prefix, tile.type),
        pack_along(f"{prefix}_pack", tile.type, tile.columns, padded=True),
        walk_function(prefix, tile),
        *depthwise_functions(prefix, tile.type, epilogue),
        padded_planes_function(prefix, tile),
        planes_function(prefix, tile),
        _weights(prefix, tile),
        _correlate(prefix, tile),
        weight_gradient_function(prefix, tile),
        weight_sum_function(prefix, tile),
        work_function(f"{prefix}_weights", WEIGHTS),
        work_function(f"{prefix}_correlate", CORRELATE),
        work_function(f"{prefix}_weight_gradient", WEIGHT_GRADIENT),
        work_function(f"{prefix}_weight_sum", WEIGHT_SUM),
    ]


def _weights(prefix: str, tile: TileShape) -> Function:
    """Write the packing of W into strips: packed[entry][group][strip][taps z, y, x][channel][columns of the strip]."""
    f = Function(f"{prefix}_weights", WEIGHTS, attributes="nounwind")
    t = Fields(f, "%table", HEADER)
    size, lanes = SIZES[tile.type.element], tile.type.lanes
    padded = f.mul(f.div(f.add(t["columns"], lanes - 1), lanes), lanes)
    depthwise = f.compare("ne", t["depthwise"], 0)
    with f.when(f.compare("ne", t["planes"], 0)):
        # Copy the weight unchanged; the only chunk is the first.
        count = f.mul(f.mul(t["groups"], t["weight_group"]), size)
        f.call_void("llvm.memcpy.p0.p0.i64", "ptr %packed", "ptr %W", f"i64 {count}", "i1 false")
        f.returns()
        f.label(f.fresh("never"))
    with f.when(depthwise):
        _filters(f, tile, t)
    with f.loop(t["entries"]) as entry, f.loop(f.choose(depthwise, 0, t["groups"])) as group:
        e = Fields(f, f.ahead("%table", f.add(8 * len(HEADER), f.mul(entry, 8 * len(ENTRY)))), ENTRY)
        base = f.add(e["packed"], f.mul(f.mul(group, e["depth"]), padded))
        # A column of the forward pass is contiguous, [channel][taps]. Columns of its adjoint, whose taps descend, are
        # not.
        forward = f.both(f.compare("sgt", e["tap_step_x"], 0), f.compare("sge", e["depth"], lanes))
        with f.loop("%end", start="%begin") as number:
            j = f.mul(number, tile.columns)
            width = f.least(tile.columns, f.sub(t["columns"], j))
            strip = f.ahead("%packed", f.mul(f.add(base, f.mul(j, e["depth"])), size))
            column = f.ahead("%W", f.mul(f.add(f.mul(group, t["weight_group"]), f.mul(j, t["weight_column"])), size))
            across = f.mul(f.mul(f.div(f.add(width, lanes - 1), lanes), lanes), size)
            with f.when(forward):
                _columns_in_one_piece(f, tile, t, e, strip, column, width, across)
            with f.when(f.negated(forward)):
                _columns_by_element(f, tile, t, e, strip, column, width, across)
    f.returns()
    return f


def _filters(f: Function, tile: TileShape, t: Fields) -> None:
    """Write the filters of a depthwise convolution: packed[entry][taps z, y, x][channel]."""
    size, lanes, one = SIZES[tile.type.element], tile.type.lanes, Vector(tile.type.element)
    padded = f.mul(f.div(f.add(t["groups"], lanes - 1), lanes), lanes)
    with f.loop(t["entries"]) as entry:
        e = Fields(f, f.ahead("%table", f.add(8 * len(HEADER), f.mul(entry, 8 * len(ENTRY)))), ENTRY)
        with f.loop(e["taps_z"]) as z, f.loop(e["taps_y"]) as y, f.loop(e["taps_x"]) as x, f.loop(t["groups"]) as g:
            tap = f.add(f.mul(f.add(f.mul(z, e["taps_y"]), y), e["taps_x"]), x)
            place = f.mul(g, t["weight_group"])
            for a, index in zip("zyx", (z, y, x)):
                place = f.add(place, f.add(e[f"tap_first_{a}"], f.mul(index, e[f"tap_step_{a}"])))
            value = f.load(one, f.ahead("%W", f.mul(place, size)))
            f.store(one, value, f.ahead("%packed", f.mul(f.add(f.add(e["packed"], f.mul(tap, padded)), g), size)))


def _columns_in_one_piece(
    f: Function, tile: TileShape, t: Fields, e: Fields, strip: str, column: str, width: str, across: str
) -> None:
    """Transpose squares of lanes columns and lanes neighbours of [channel][taps] in registers."""
    size, lanes = SIZES[tile.type.element], tile.type.lanes
    with f.loop(e["depth"], step=str(lanes)) as turn:
        k = f.least(turn, f.sub(e["depth"], lanes))
        rows = []
        for n in range(lanes):
            channel = f.div(f.add(k, n), t["weight_channel"])
            tap = f.sub(f.add(k, n), f.mul(channel, t["weight_channel"]))
            rows.append(f.ahead(strip, f.mul(f.add(f.mul(tap, t["channels"]), channel), across)))
        with f.loop(width, step=str(lanes)) as j:
            # Missing columns are read from the last existing one and ignored.
            places = [f.least(f.add(j, n), f.sub(width, 1)) for n in range(lanes)]
            loads = [
                f.load(tile.type, f.ahead(column, f.mul(f.add(f.mul(p, t["weight_column"]), k), size))) for p in places
            ]
            for row, value in zip(rows, transposed(f, tile.type, loads)):
                f.store(tile.type, value, f.ahead(row, f.mul(j, size)))


def _columns_by_element(
    f: Function, tile: TileShape, t: Fields, e: Fields, strip: str, column: str, width: str, across: str
) -> None:
    """Write channel by channel, so that the taps of a channel, which are neighbours in W, are read together."""
    size, one = SIZES[tile.type.element], Vector(tile.type.element)
    step = f.mul(t["weight_column"], size)
    with f.loop(t["channels"]) as k:
        here = f.mul(k, t["weight_channel"])
        with f.loop(e["taps_z"]) as z, f.loop(e["taps_y"]) as y, f.loop(e["taps_x"]) as x:
            tap = f.add(f.mul(f.add(f.mul(z, e["taps_y"]), y), e["taps_x"]), x)
            place = here
            for a, index in zip("zyx", (z, y, x)):
                place = f.add(place, f.add(e[f"tap_first_{a}"], f.mul(index, e[f"tap_step_{a}"])))
            source, out = (
                f.ahead(column, f.mul(place, size)),
                f.ahead(strip, f.mul(f.add(f.mul(tap, t["channels"]), k), across)),
            )
            with f.loop(width) as n:
                f.store(one, f.load(one, f.ahead(source, f.mul(n, step))), f.ahead(out, f.mul(n, size)))


def _correlate(prefix: str, tile: TileShape) -> Function:
    return _Correlation(prefix, tile).write()


@dataclass(frozen=True)
class _Chunk:
    """Values of one chunk: some images and planes."""

    #: First image, number of images, first plane, number of planes, and the position of the first plane.
    n: str
    together: str
    z0: str
    planes: str
    m0: str
    #: Number of pixels before those of the chunk, and the memory for its results.
    pixels: str
    out: str


class _Correlation:
    """Writer of the function: sizes in bytes and conditions that hold for all chunks, and the loops."""

    def __init__(self, prefix: str, tile: TileShape) -> None:
        self.prefix = prefix
        self.f = f = Function(f"{prefix}_correlate", CORRELATE, attributes="nounwind")
        self.t = t = Fields(f, "%table", HEADER)
        self._call_planes()
        self.walk = f.set(f"alloca [{len(WALK)} x i64]")
        size, lanes = SIZES[tile.type.element], tile.type.lanes
        self.size, self.lanes = size, lanes
        channels, self.columns = f.mul(t["groups"], t["channels"]), f.mul(t["groups"], t["columns"])
        self.pixel, self.out_pixel = f.mul(channels, size), f.mul(self.columns, size)
        self.row, self.out_row = f.mul(t["extent_x"], self.pixel), f.mul(t["out_x"], self.out_pixel)
        self.plane, self.out_plane = f.mul(t["extent_y"], self.row), f.mul(t["out_y"], self.out_row)
        self.positions = f.mul(t["out_y"], t["out_x"])
        self.image = f.mul(f.mul(f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"]), channels), size)
        self.padded = f.mul(f.div(f.add(t["columns"], lanes - 1), lanes), lanes)
        self.last = f.compare("ne", t["out_last"], 0)
        self.depthwise = f.compare("ne", t["depthwise"], 0)
        self.groups = f.choose(self.depthwise, 0, t["groups"])
        self.held = f.mul(t["extent_z"], self.plane)
        self.staging = f.ahead("%buffer", f.mul(t["together"], self.held))

    def _call_planes(self) -> None:
        """Leave the chunks to another function if the table says so."""
        f = self.f
        with f.when(f.compare("ne", self.t["planes"], 0)):
            with f.loop("%end", start="%begin") as chunk:
                f.call_void(
                    f"{self.prefix}_planes", "ptr %table", "ptr %X", "ptr %packed", "ptr %Y", "ptr %buffer", f"i64 {chunk}"
                )
            f.returns()
            f.label(f.fresh("never"))

    def write(self) -> Function:
        """Write the loop over chunks."""
        f, t = self.f, self.t
        with f.loop("%end", start="%begin") as number:
            group = f.div(number, t["blocks"])
            z0 = f.mul(f.sub(number, f.mul(group, t["blocks"])), t["block"])
            n = f.mul(group, t["together"])
            together = f.least(t["together"], f.sub(t["images"], n))
            planes = f.least(t["block"], f.sub(t["out_z"], z0))
            m0 = f.div(z0, t["out_step_z"])
            first = f.add(f.mul(m0, t["in_step_z"]), t["low_z"])
            with f.loop(together) as i:
                source, target = f.ahead("%X", f.mul(f.add(n, i), self.image)), f.ahead("%buffer", f.mul(i, self.held))
                f.call_void(f"{self.prefix}_gather", "ptr %table", f"ptr {source}", f"ptr {target}", f"i64 {first}")
            pixels = f.mul(f.add(f.mul(n, t["out_z"]), z0), self.positions)
            out = f.choose(self.last, f.ahead("%Y", f.mul(pixels, self.out_pixel)), self.staging, "ptr")
            chunk = _Chunk(n, together, z0, planes, m0, pixels, out)
            with f.loop(t["entries"]) as entry:
                self._add_entry(chunk, entry)
            with f.when(f.negated(self.last)), f.loop(together) as i:
                self._move_channels(chunk, i)
        f.returns()
        return f

    def _add_entry(self, chunk: _Chunk, entry: str) -> None:
        """Compute the positions of one entry among the planes of a chunk."""
        f, t = self.f, self.t
        e = Fields(f, f.ahead("%table", f.add(8 * len(HEADER), f.mul(entry, 8 * len(ENTRY)))), ENTRY)
        step = t["out_step_z"]
        inside = f.div(f.add(f.most(f.sub(chunk.planes, e["place_z"]), 0), f.sub(step, 1)), step)
        count = f.least(inside, f.sub(e["count_z"], chunk.m0))
        a = f.ahead(
            f.ahead(f.ahead("%buffer", f.mul(e["offset_z"], self.plane)), f.mul(e["offset_y"], self.row)),
            f.mul(e["offset_x"], self.pixel),
        )
        c = f.ahead(
            f.ahead(f.ahead(chunk.out, f.mul(e["place_z"], self.out_plane)), f.mul(e["place_y"], self.out_row)),
            f.mul(e["place_x"], self.out_pixel),
        )
        row0 = f.add(
            f.add(chunk.pixels, f.mul(e["place_z"], self.positions)),
            f.add(f.mul(e["place_y"], t["out_x"]), e["place_x"]),
        )
        # Taps along x and channels are one loop if neighbouring pixels are neighbouring taps.
        joined = f.both(
            f.both(f.compare("eq", t["groups"], 1), f.compare("eq", e["spread_x"], 1)),
            f.compare("eq", t["channel_block"], t["channels"]),
        )
        space = self._space(chunk, e, count, row0)
        with f.when(self.depthwise):
            self._walk_depthwise(e, space, a, c)
        with f.loop(self.groups) as g, f.loop(t["channels"], step=t["channel_block"]) as k:
            self._walk_channels(e, space, a, c, joined, g, k)

    def _space(self, chunk: _Chunk, e: Fields, count: str, row0: str) -> dict[str, str | int]:
        """Return the arguments of both traversals of an image."""
        f, t, step = self.f, self.t, self.t["out_step_z"]
        return {
            "n": chunk.together, "an": self.held, "cn": f.mul(t["out_z"], self.out_plane),
            "row_n": f.mul(t["out_z"], self.positions),
            "z": count, "y": e["count_y"], "x": e["count_x"],
            "az": f.mul(t["in_step_z"], self.plane), "ay": f.mul(t["in_step_y"], self.row),
            "ax": f.mul(t["in_step_x"], self.pixel),
            "cz": f.mul(step, self.out_plane), "cy": f.mul(t["out_step_y"], self.out_row),
            "cx": f.mul(t["out_step_x"], self.out_pixel), "K2": e["taps_y"], "K3": e["taps_z"],
            "a1": f.mul(e["spread_x"], self.pixel), "a2": f.mul(e["spread_y"], self.row),
            "a3": f.mul(e["spread_z"], self.plane),
            "row0": row0, "row_z": f.mul(step, self.positions), "row_y": f.mul(t["out_step_y"], t["out_x"]),
            "row_x": t["out_step_x"],
        }  # fmt: skip

    def _walk_depthwise(self, e: Fields, space: dict[str, str | int], a: str, c: str) -> None:
        f, t, lanes = self.f, self.t, self.lanes
        call_walk(
            f, f"{self.prefix}_depthwise", self.walk,
            {
                **space,
                "N": t["groups"], "K1": e["taps_x"],
                "row_b": f.mul(f.mul(f.div(f.add(t["groups"], lanes - 1), lanes), lanes), self.size),
            },
            a, f.ahead("%packed", f.mul(e["packed"], self.size)), c, "%context",
        )  # fmt: skip

    def _walk_channels(
        self, e: Fields, space: dict[str, str | int], a: str, c: str, joined: str, g: str, k: str
    ) -> None:
        """Add the products of a block of input channels of one group."""
        f, t, size = self.f, self.t, self.size
        left = f.sub(t["channels"], k)
        deep = f.least(t["channel_block"], left)
        mode = f.choose(f.compare("sgt", k, 0), ACCUMULATE, 0)
        mode = f.set(f"or i64 {mode}, {f.choose(f.compare('sle', left, t['channel_block']), LAST, 0)}")
        whole = f.mul(e["taps_x"], deep)
        call_walk(
            f, f"{self.prefix}_walk", self.walk,
            {
                **space,
                "N": t["columns"], "K": f.choose(joined, whole, deep), "csA": size,
                "K1": f.choose(joined, 1, e["taps_x"]),
                "rows1": t["channels"], "rows2": f.mul(e["taps_x"], t["channels"]),
                "rows3": f.mul(f.mul(e["taps_y"], e["taps_x"]), t["channels"]),
                "column_b": f.mul(e["depth"], size), "first_b": k, "image_b": 0,
                "column0": f.mul(g, t["columns"]), "mode": mode,
            },
            f.ahead(a, f.mul(f.add(f.mul(g, t["channels"]), k), size)),
            f.ahead("%packed", f.mul(f.add(e["packed"], f.mul(f.mul(g, e["depth"]), self.padded)), size)),
            f.ahead(c, f.mul(f.mul(g, t["columns"]), size)),
            "%context",
        )  # fmt: skip

    def _move_channels(self, chunk: _Chunk, i: str) -> None:
        """Transpose a finished image from channels last to channels first."""
        f, t, positions = self.f, self.t, self.positions
        channel = f.mul(t["out_z"], positions)
        target = f.add(f.mul(f.mul(f.add(chunk.n, i), self.columns), channel), f.mul(chunk.z0, positions))
        f.call_void(
            f"{self.prefix}_transpose", f"i64 {f.mul(chunk.planes, positions)}", f"i64 {self.columns}",
            f"ptr {f.ahead(chunk.out, f.mul(i, f.mul(t['out_z'], self.out_plane)))}", f"i64 {self.out_pixel}",
            f"ptr {f.ahead('%Y', f.mul(target, self.size))}", f"i64 {f.mul(channel, self.size)}",
        )  # fmt: skip
