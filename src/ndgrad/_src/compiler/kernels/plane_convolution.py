"""Convolutions with few output channels, over images with channels first.

A tile has whole vectors of columns. If output channels are the columns (convolution.py), six of them fill three
quarters of one vector, and a tile of one vector is too small to keep the processor busy. With stride 1 the tile can be
transposed: output channels are its rows, pixels of a row of the image its columns,

    out[o, x] = sum_c sum_z sum_y sum_x'   W[o, c, z, y, x'] in[c, z, y, x + x']

The micro-kernel is the same. A is the weight as stored in memory. B is the input, whose "row" k is the image from tap k
on, so that neighbouring columns are neighbouring pixels. Nothing is transposed, and the input is copied only if it is
padded. `windows.table` decides by the share of the vectors that either form would use.
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.tiles import TileShape, tile_signature
from ndgrad._src.compiler.kernels.windows import ENTRY, HEADER
from ndgrad._src.compiler.native.ir import SIZES, Function

PARAMETERS = "ptr %table, ptr %X, ptr %W, ptr %Y, ptr %buffer, i64 %chunk"


def planes_function(prefix: str, tile: TileShape) -> Function:
    """Write `void {prefix}_planes(table, X, W, Y, buffer, chunk)`: chunk = (image, block of planes along z)."""
    f = Function(f"{prefix}_planes", PARAMETERS, linkage="internal", attributes="nounwind")
    t = Fields(f, "%table", HEADER)
    e = Fields(f, f.ahead("%table", 8 * len(HEADER)), ENTRY)
    size = SIZES[tile.type.element]
    padded = f.compare("ne", t["padded"], 0)
    image = f.div("%chunk", t["blocks"])
    z0 = f.mul(f.sub("%chunk", f.mul(image, t["blocks"])), t["block"])
    planes = f.least(t["block"], f.sub(t["out_z"], z0))
    first = f.add(f.mul(z0, t["in_step_z"]), t["low_z"])
    channels, columns = f.mul(t["groups"], t["channels"]), f.mul(t["groups"], t["columns"])

    # Steps in the input: those of the copy, or of the image itself.
    in_row = f.mul(t["in_x"], size)
    in_plane = f.mul(t["in_y"], in_row)
    in_channel = f.mul(t["in_z"], in_plane)
    x = f.ahead("%X", f.mul(f.mul(image, channels), in_channel))
    with f.when(padded):
        f.call_void(f"{prefix}_padded_planes", "ptr %table", f"ptr {x}", "ptr %buffer", f"i64 {first}")
    row = f.choose(padded, f.mul(t["extent_x"], size), in_row)
    plane = f.choose(padded, f.mul(t["extent_y"], row), in_plane)
    channel = f.choose(padded, f.mul(t["extent_z"], plane), in_channel)
    # Without padding nothing is read before the image begins: the first planes, rows and columns are all >= 0.
    inside = f.add(f.add(f.mul(first, in_plane), f.mul(t["low_y"], in_row)), f.mul(t["low_x"], size))
    source = f.choose(padded, "%buffer", f.ahead(x, inside), "ptr")

    out_row = f.mul(t["out_x"], size)
    out_plane = f.mul(t["out_y"], out_row)
    out_channel = f.mul(t["out_z"], out_plane)
    target = f.ahead("%Y", f.add(f.mul(f.mul(image, columns), out_channel), f.mul(z0, out_plane)))
    taps = f.add(f.add(e["tap_first_z"], e["tap_first_y"]), e["tap_first_x"])
    steps = {
        "K": e["taps_x"], "csA": f.mul(e["tap_step_x"], size), "rsB": f.mul(e["spread_x"], size),
        "K1": e["taps_y"], "a1": f.mul(e["tap_step_y"], size), "b1": f.mul(e["spread_y"], row),
        "K2": e["taps_z"], "a2": f.mul(e["tap_step_z"], size), "b2": f.mul(e["spread_z"], plane),
        "K3": t["channels"], "a3": f.mul(t["weight_channel"], size), "b3": channel,
    }  # fmt: skip
    with f.loop(t["groups"]) as g:
        w = f.ahead("%W", f.mul(f.add(f.mul(g, t["weight_group"]), taps), size))
        group = f.ahead(source, f.mul(f.mul(g, t["channels"]), channel))
        out = f.ahead(target, f.mul(f.mul(g, t["columns"]), out_channel))
        with f.loop(planes) as z, f.loop(t["out_y"]) as y, f.loop(t["out_x"], step=str(tile.columns)) as j:
            b = f.add(f.mul(f.mul(z, t["in_step_z"]), plane), f.mul(f.mul(y, t["in_step_y"]), row))
            c = f.add(f.mul(z, out_plane), f.mul(y, out_row))
            there, here = (f.ahead(f.ahead(base, step), f.mul(j, size)) for base, step in ((group, b), (out, c)))
            _rows_of_tiles(f, prefix, tile, t, steps, f.sub(t["out_x"], j), w, there, here, out_channel)
    f.returns()
    return f


def _rows_of_tiles(
    f: Function, prefix: str, tile: TileShape, t: Fields, steps: dict[str, str], left: str, w: str, b: str, c: str,
    out_channel: str,
) -> None:  # fmt: skip
    """Write all output channels of a group for a tile's pixels, of which `left` exist, in tiles of about equal heights.
    """
    size, lanes, kinds = SIZES[tile.type.element], tile.type.lanes, tile.vectors + 1
    width = f.least(tile.columns, left)
    vectors = f.div(f.add(width, lanes - 1), lanes)
    kind = f.choose(f.compare("eq", width, tile.columns), 0, vectors)
    tiles = f.div(f.add(t["columns"], tile.rows - 1), tile.rows)
    height = f.div(f.add(t["columns"], f.sub(tiles, 1)), tiles)
    with f.loop(t["columns"], step=height) as first:
        rows = f.least(height, f.sub(t["columns"], first))
        index = f.add(f.mul(f.sub(rows, 1), kinds), kind)
        entry = f.set(f"getelementptr [{tile.rows * kinds} x ptr], ptr @{prefix}_tiles, i64 0, i64 {index}")
        weight_row = f.mul(t["weight_column"], size)
        values = {
            **steps, "A": f.ahead(w, f.mul(first, weight_row)), "rsA": weight_row, "B": b,
            "C": f.ahead(c, f.mul(first, out_channel)), "rsC": out_channel,
            "rest": f.sub(width, f.mul(f.sub(vectors, 1), lanes)),
            "mode": "0", "row": "0", "column": "0", "context": "null",
        }  # fmt: skip
        arguments = ", ".join(f"{type} {values[name]}" for type, name in tile_signature(4))
        f.do(f"call void {f.set(f'load ptr, ptr {entry}')}({arguments})")


def padded_planes_function(prefix: str, tile: TileShape) -> Function:
    """Write `void {prefix}_padded_planes(table, X, P, first)`: an image (channels, z, y, x), from plane `first` along z
    on, into P with zeros beyond its end.
    """
    f = Function(
        f"{prefix}_padded_planes", "ptr %table, ptr noalias %X, ptr noalias %P, i64 %first", linkage="internal",
        attributes="nounwind",
    )  # fmt: skip
    t = Fields(f, "%table", HEADER)
    size = SIZES[tile.type.element]
    channels = f.mul(t["groups"], t["channels"])
    row, in_row = f.mul(t["extent_x"], size), f.mul(t["in_x"], size)
    plane, in_plane = f.mul(t["extent_y"], row), f.mul(t["in_y"], in_row)
    held, in_channel = f.mul(t["extent_z"], plane), f.mul(t["in_z"], in_plane)
    f.call_void("llvm.memset.p0.i64", "ptr %P", "i8 0", f"i64 {f.mul(channels, held)}", "i1 false")
    start, stop = f.most(t["low_x"], 0), f.least(f.add(t["low_x"], t["extent_x"]), t["in_x"])
    length = f.mul(f.most(f.sub(stop, start), 0), size)
    y_start, y_stop = f.most(f.sub(0, t["low_y"]), 0), f.least(t["extent_y"], f.sub(t["in_y"], t["low_y"]))
    z_start, z_stop = f.most(f.sub(0, "%first"), 0), f.least(t["extent_z"], f.sub(t["in_z"], "%first"))
    with f.loop(channels) as c, f.loop(z_stop, start=z_start) as z, f.loop(y_stop, start=y_start) as y:
        target = f.add(f.add(f.mul(c, held), f.mul(z, plane)), f.add(f.mul(y, row), f.mul(f.sub(start, t["low_x"]), size)))
        source = f.add(
            f.add(f.mul(c, in_channel), f.mul(f.add(z, "%first"), in_plane)),
            f.add(f.mul(f.add(y, t["low_y"]), in_row), f.mul(start, size)),
        )
        f.call_void(
            "llvm.memcpy.p0.p0.i64", f"ptr {f.ahead('%P', target)}", f"ptr {f.ahead('%X', source)}", f"i64 {length}",
            "i1 false",
        )  # fmt: skip
    f.returns()
    return f
