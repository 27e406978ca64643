"""Convolutions over the tiles of matrix products, without a matrix of patches.

Inside, channels come last. A pixel of the input is then a row of numbers, the next pixel lies a fixed step further, and so do the next
tap along x, y and z: a tile of output pixels times output channels is a matrix product whose k runs through four nested loops,

    out[x, :] = sum_z sum_y sum_x' sum_c   in[z, y, x * step + x', c] W[z, y, x', c, :]

all with fixed steps in memory (tiles.py, `levels`). The input is copied once, image by image, into a buffer with its zeros around it and
channels last; images come and go as (N, C, *S), or with channels last if asked. Everything is read from a table (windows.py).

    void {prefix}_weights(ptr table, ptr W, ptr packed)                                  once per call, by one thread
    void {prefix}_correlate(ptr table, ptr X, ptr packed, ptr Y, ptr context, ptr buffer, i64 begin, i64 end)
                                                                                         chunks begin..end; a buffer for each thread

The same function is the forward pass and the gradient of the input; the table says which. The epilogue sees `row` as the number of the
output pixel in (N, *S) and `column` as the output channel; only the forward pass runs it on consecutive pixels.

The gradient of the weight sums over images and pixels, so here those are k, and the rows of the product are input channels:

    dW[t, c, o] = sum over n, pixels p   in[n, p * step + t, c] g[n, p, o]

    void {prefix}_weight_gradient(ptr table, ptr X, ptr G, ptr parts, ptr buffer, i64 begin, i64 end)
    void {prefix}_weight_sum(ptr table, ptr parts, ptr dW)

Images are dealt into a fixed number of parts, each summed by itself into parts[part, t, c, o]; the last function adds the parts in their
order, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from ndgrad.compiler.kernels.fields import Fields
from ndgrad.compiler.kernels.layout import gather_function, transpose_function
from ndgrad.compiler.kernels.packing import transposed
from ndgrad.compiler.kernels.tiles import ACCUMULATE, LAST, Epilogue, TileShape, tile_kernel, tile_name, tile_shape, tile_signature
from ndgrad.compiler.kernels.windows import ENTRY, HEADER
from ndgrad.compiler.native.ir import SIZES, Function, Vector, number
from ndgrad.compiler.native.target import Target

_LEVELS = 4


#: What a walk over tiles is told; all steps are in bytes, `rows1`... in rows of B.
_WALK = [
    *("n", "an", "cn", "row_n", "z", "y", "x", "az", "ay", "ax", "cz", "cy", "cx", "N", "K", "K1", "K2", "K3", "csA", "a1", "a2", "a3", "rows1", "rows2", "rows3"),
    *("column_b", "row_b", "first_b", "row0", "row_z", "row_y", "row_x", "column0", "mode"),
]


def library(prefix: str, element: str, target: Target, epilogue: Epilogue | None = None) -> list[Function | str]:
    """All functions of convolutions, for `ir.module`."""
    tile = tile_shape(target, element)
    kinds = [(tile.vectors, False), *((v, True) for v in range(1, tile.vectors + 1))]
    sizes = [(r, v, m) for r in range(1, tile.rows + 1) for v, m in kinds]
    names = [tile_name(f"{prefix}_tile", *s) for s in sizes]
    return [
        f"@{prefix}_tiles = internal constant [{len(names)} x ptr] [{', '.join(f'ptr @{n}' for n in names)}]",
        *(tile_kernel(f"{prefix}_tile", tile.type, *s, epilogue=epilogue, levels=_LEVELS) for s in sizes),
        transpose_function(f"{prefix}_transpose", tile.type),
        gather_function(f"{prefix}_gather", prefix, tile.type),
        _walk(prefix, tile),
        _weights(prefix, tile),
        _correlate(prefix, tile),
        _weight_gradient(prefix, tile),
        _weight_sum(prefix, tile),
    ]


def _walk(prefix: str, tile: TileShape) -> Function:
    """`void walk(ptr walk, A, B, C, context)`: tiles over positions (z, y, x) and N columns, strip after strip of B."""
    f = Function(f"{prefix}_walk", "ptr %walk, ptr %A, ptr %B, ptr %C, ptr %context", linkage="internal", attributes="nounwind")
    w = Fields(f, "%walk", _WALK)
    size, lanes = SIZES[tile.type.element], tile.type.lanes
    kinds = tile.vectors + 1
    packed = f.compare("eq", w["row_b"], 0)
    with f.loop(w["N"], step=str(tile.columns)) as j:
        width = f.least(tile.columns, f.sub(w["N"], j))
        vectors = f.div(f.add(width, lanes - 1), lanes)
        rest = f.sub(width, f.mul(f.sub(vectors, 1), lanes))
        kind = f.choose(f.compare("eq", width, tile.columns), 0, vectors)
        b = f.ahead("%B", f.mul(j, w["column_b"]))
        step_b = f.choose(packed, f.mul(vectors, lanes * size), w["row_b"])
        b = f.ahead(b, f.mul(w["first_b"], step_b))
        steps = {f"b{level}": f.mul(step_b, w[f"rows{level}"]) for level in range(1, _LEVELS)}
        strip = f.ahead("%C", f.mul(j, size))
        column = f.add(w["column0"], j)
        with f.loop(w["n"]) as n, f.loop(w["z"]) as z, f.loop(w["y"]) as y:
            a = f.ahead(f.ahead(f.ahead("%A", f.mul(n, w["an"])), f.mul(z, w["az"])), f.mul(y, w["ay"]))
            c = f.ahead(f.ahead(f.ahead(strip, f.mul(n, w["cn"])), f.mul(z, w["cz"])), f.mul(y, w["cy"]))
            row = f.add(f.add(w["row0"], f.mul(n, w["row_n"])), f.add(f.mul(z, w["row_z"]), f.mul(y, w["row_y"])))
            at = f.carried("i64", "0")
            with f.when(f.compare("sgt", w["x"], 0)), f.until([at]) as left_over:
                left = f.sub(w["x"], at.name)
                uneven = f.both(f.compare("sgt", left, tile.rows), f.compare("slt", left, tile.rows + 3))
                rows = f.choose(uneven, f.div(f.add(left, 1), 2), f.least(tile.rows, left))
                index = f.add(f.mul(f.sub(rows, 1), kinds), kind)
                entry = f.set(f"getelementptr [{tile.rows * kinds} x ptr], ptr @{prefix}_tiles, i64 0, i64 {index}")
                values = {
                    "K": w["K"], "A": f.ahead(a, f.mul(at.name, w["ax"])), "rsA": w["ax"], "csA": w["csA"], "B": b, "rsB": step_b,
                    "C": f.ahead(c, f.mul(at.name, w["cx"])), "rsC": w["cx"], "rest": rest, "mode": w["mode"],
                    "row": f.add(row, f.mul(at.name, w["row_x"])), "column": column, "context": "%context",
                    **{name: w[name] for level in range(1, _LEVELS) for name in (f"K{level}", f"a{level}")}, **steps,
                }  # fmt: skip
                arguments = ", ".join(f"{type} {values[name]}" for type, name in tile_signature(_LEVELS))
                f.do(f"call void {f.set(f'load ptr, ptr {entry}')}({arguments})")
                at.next = f.add(at.name, rows)
                left_over.stop = f.compare("sge", at.next, w["x"])
    f.returns()
    return f


def _call_walk(f: Function, prefix: str, walk: str, fields: dict[str, str | int], a: str, b: str, c: str, context: str) -> None:
    assert set(fields) == set(_WALK)
    for n, name in enumerate(_WALK):
        f.do(f"store i64 {fields[name]}, ptr {f.ahead(walk, 8 * n)}")
    f.call_void(f"{prefix}_walk", f"ptr {walk}", f"ptr {a}", f"ptr {b}", f"ptr {c}", f"ptr {context}")


def _weights(prefix: str, tile: TileShape) -> Function:
    """W into strips: packed[entry][group][strip][taps z, y, x][channel][columns of the strip]."""
    f = Function(f"{prefix}_weights", "ptr %table, ptr noalias %W, ptr noalias %packed", attributes="nounwind")
    t = Fields(f, "%table", HEADER)
    size, lanes, one = SIZES[tile.type.element], tile.type.lanes, Vector(tile.type.element)
    padded = f.mul(f.div(f.add(t["columns"], lanes - 1), lanes), lanes)
    with f.loop(t["entries"]) as entry, f.loop(t["groups"]) as group:
        e = Fields(f, f.ahead("%table", f.add(8 * len(HEADER), f.mul(entry, 8 * len(ENTRY)))), ENTRY)
        base = f.add(e["packed"], f.mul(f.mul(group, e["depth"]), padded))
        source = f.mul(group, t["weight_group"])
        with f.loop(t["columns"], step=str(tile.columns)) as j:
            width = f.least(tile.columns, f.sub(t["columns"], j))
            across = f.mul(f.div(f.add(width, lanes - 1), lanes), lanes)
            strip = f.add(base, f.mul(j, e["depth"]))
            column = f.add(source, f.mul(j, t["weight_column"]))
            with f.loop(e["taps_z"]) as z, f.loop(e["taps_y"]) as y, f.loop(e["taps_x"]) as x:
                tap = f.add(f.mul(f.add(f.mul(z, e["taps_y"]), y), e["taps_x"]), x)
                target = f.add(strip, f.mul(f.mul(tap, t["channels"]), across))
                for a, index in zip("zyx", (z, y, x)):
                    column = f.add(column, f.add(e[f"tap_first_{a}"], f.mul(index, e[f"tap_step_{a}"])))
                with f.loop(t["channels"]) as k:
                    place = f.ahead("%W", f.mul(f.add(column, f.mul(k, t["weight_channel"])), size))
                    out = f.ahead("%packed", f.mul(f.add(target, f.mul(k, across)), size))
                    with f.loop(width) as n:
                        value = f.load(one, f.ahead(place, f.mul(f.mul(n, t["weight_column"]), size)))
                        f.store(one, value, f.ahead(out, f.mul(n, size)))
    f.returns()
    return f


def _correlate(prefix: str, tile: TileShape) -> Function:
    f = Function(
        f"{prefix}_correlate", "ptr %table, ptr %X, ptr %packed, ptr %Y, ptr %context, ptr %buffer, i64 %begin, i64 %end", attributes="nounwind"
    )
    t = Fields(f, "%table", HEADER)
    walk = f.set(f"alloca [{len(_WALK)} x i64]")
    size, lanes = SIZES[tile.type.element], tile.type.lanes
    channels, columns = f.mul(t["groups"], t["channels"]), f.mul(t["groups"], t["columns"])
    pixel, out_pixel = f.mul(channels, size), f.mul(columns, size)
    row, out_row = f.mul(t["extent_x"], pixel), f.mul(t["out_x"], out_pixel)
    plane, out_plane = f.mul(t["extent_y"], row), f.mul(t["out_y"], out_row)
    positions = f.mul(t["out_y"], t["out_x"])
    image = f.mul(f.mul(f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"]), channels), size)
    padded = f.mul(f.div(f.add(t["columns"], lanes - 1), lanes), lanes)
    last = f.compare("ne", t["out_last"], 0)
    held = f.mul(t["extent_z"], plane)
    staging = f.ahead("%buffer", f.mul(t["together"], held))
    with f.loop("%end", start="%begin") as chunk:
        group = f.div(chunk, t["blocks"])
        z0 = f.mul(f.sub(chunk, f.mul(group, t["blocks"])), t["block"])
        n = f.mul(group, t["together"])
        together = f.least(t["together"], f.sub(t["images"], n))
        planes = f.least(t["block"], f.sub(t["out_z"], z0))
        m0 = f.div(z0, t["out_step_z"])
        first = f.add(f.mul(m0, t["in_step_z"]), t["low_z"])
        with f.loop(together) as i:
            source, target = f.ahead("%X", f.mul(f.add(n, i), image)), f.ahead("%buffer", f.mul(i, held))
            f.call_void(f"{prefix}_gather", "ptr %table", f"ptr {source}", f"ptr {target}", f"i64 {first}")
        pixels = f.mul(f.add(f.mul(n, t["out_z"]), z0), positions)  # before those of this chunk
        out = f.choose(last, f.ahead("%Y", f.mul(pixels, out_pixel)), staging, "ptr")
        with f.loop(t["entries"]) as entry:
            e = Fields(f, f.ahead("%table", f.add(8 * len(HEADER), f.mul(entry, 8 * len(ENTRY)))), ENTRY)
            # Positions of this entry among the chunk's planes.
            step = t["out_step_z"]
            inside = f.div(f.add(f.most(f.sub(planes, e["place_z"]), 0), f.sub(step, 1)), step)
            count = f.least(inside, f.sub(e["count_z"], m0))
            a = f.ahead(f.ahead(f.ahead("%buffer", f.mul(e["offset_z"], plane)), f.mul(e["offset_y"], row)), f.mul(e["offset_x"], pixel))
            c = f.ahead(f.ahead(f.ahead(out, f.mul(e["place_z"], out_plane)), f.mul(e["place_y"], out_row)), f.mul(e["place_x"], out_pixel))
            row0 = f.add(f.add(pixels, f.mul(e["place_z"], positions)), f.add(f.mul(e["place_y"], t["out_x"]), e["place_x"]))
            # Taps along x and channels are one loop where neighbouring pixels are neighbouring taps.
            joined = f.both(f.both(f.compare("eq", t["groups"], 1), f.compare("eq", e["spread_x"], 1)), f.compare("eq", t["channel_block"], t["channels"]))
            with f.loop(t["groups"]) as g, f.loop(t["channels"], step=t["channel_block"]) as k:
                left = f.sub(t["channels"], k)
                deep = f.least(t["channel_block"], left)
                mode = f.choose(f.compare("sgt", k, 0), ACCUMULATE, 0)
                mode = f.set(f"or i64 {mode}, {f.choose(f.compare('sle', left, t['channel_block']), LAST, 0)}")
                whole = f.mul(e["taps_x"], deep)
                _call_walk(
                    f, prefix, walk,
                    {
                        "n": together, "an": held, "cn": f.mul(t["out_z"], out_plane), "row_n": f.mul(t["out_z"], positions),
                        "z": count, "y": e["count_y"], "x": e["count_x"],
                        "az": f.mul(t["in_step_z"], plane), "ay": f.mul(t["in_step_y"], row), "ax": f.mul(t["in_step_x"], pixel),
                        "cz": f.mul(step, out_plane), "cy": f.mul(t["out_step_y"], out_row), "cx": f.mul(t["out_step_x"], out_pixel),
                        "N": t["columns"], "K": f.choose(joined, whole, deep), "csA": size,
                        "K1": f.choose(joined, 1, e["taps_x"]), "K2": e["taps_y"], "K3": e["taps_z"],
                        "a1": f.mul(e["spread_x"], pixel), "a2": f.mul(e["spread_y"], row), "a3": f.mul(e["spread_z"], plane),
                        "rows1": t["channels"], "rows2": f.mul(e["taps_x"], t["channels"]),
                        "rows3": f.mul(f.mul(e["taps_y"], e["taps_x"]), t["channels"]),
                        "column_b": f.mul(e["depth"], size), "row_b": 0, "first_b": k, "row0": row0, "row_z": f.mul(step, positions),
                        "row_y": f.mul(t["out_step_y"], t["out_x"]), "row_x": t["out_step_x"], "column0": f.mul(g, t["columns"]), "mode": mode,
                    },
                    f.ahead(a, f.mul(f.add(f.mul(g, t["channels"]), k), size)),
                    f.ahead("%packed", f.mul(f.add(e["packed"], f.mul(f.mul(g, e["depth"]), padded)), size)),
                    f.ahead(c, f.mul(f.mul(g, t["columns"]), size)),
                    "%context",
                )  # fmt: skip
        with f.when(f.set(f"xor i1 {last}, true")), f.loop(together) as i:
            channel = f.mul(t["out_z"], positions)
            target = f.add(f.mul(f.mul(f.add(n, i), columns), channel), f.mul(z0, positions))
            f.call_void(
                f"{prefix}_transpose", f"i64 {f.mul(planes, positions)}", f"i64 {columns}",
                f"ptr {f.ahead(out, f.mul(i, f.mul(t['out_z'], out_plane)))}", f"i64 {out_pixel}",
                f"ptr {f.ahead('%Y', f.mul(target, size))}", f"i64 {f.mul(channel, size)}",
            )  # fmt: skip
    f.returns()
    return f


# ----- the gradient of the weight -----


def _weight_gradient(prefix: str, tile: TileShape) -> Function:
    """Chunk = (part, slice of the columns): the part's images, a few at a time, added to parts[part][group][taps][channel][column]."""
    f = Function(
        f"{prefix}_weight_gradient", "ptr %table, ptr %X, ptr %G, ptr %parts, ptr %buffer, i64 %begin, i64 %end", attributes="nounwind"
    )
    t = Fields(f, "%table", HEADER)
    e = Fields(f, f.ahead("%table", 8 * len(HEADER)), ENTRY)
    walk = f.set(f"alloca [{len(_WALK)} x i64]")
    size = SIZES[tile.type.element]
    channels, columns = f.mul(t["groups"], t["channels"]), f.mul(t["groups"], t["columns"])
    pixel, out_pixel = f.mul(channels, size), f.mul(columns, size)
    row = f.mul(t["extent_x"], pixel)
    plane = f.mul(t["extent_y"], row)
    held = f.mul(t["extent_z"], plane)
    positions = f.mul(t["out_y"], t["out_x"])
    channel = f.mul(t["out_z"], positions)
    image = f.mul(f.mul(f.mul(f.mul(t["in_z"], t["in_y"]), t["in_x"]), channels), size)
    staging = f.ahead("%buffer", f.mul(t["together"], held))
    last = f.compare("ne", t["out_last"], 0)
    group_size = f.mul(e["depth"], t["columns"])
    part_bytes = f.mul(f.mul(t["groups"], group_size), size)
    units = f.mul(f.div(f.add(t["images"], f.sub(t["together"], 1)), t["together"]), t["blocks"])
    # Slices of whole strips.
    strips = f.div(f.add(t["columns"], tile.columns - 1), tile.columns)
    slice_columns = f.mul(f.div(f.add(strips, f.sub(t["slices"], 1)), t["slices"]), tile.columns)
    joined = f.both(f.compare("eq", t["groups"], 1), f.compare("eq", e["spread_x"], 1))
    with f.loop("%end", start="%begin") as chunk:
        part = f.div(chunk, t["slices"])
        first_column = f.mul(f.sub(chunk, f.mul(part, t["slices"])), slice_columns)
        width = f.most(0, f.least(slice_columns, f.sub(t["columns"], first_column)))
        base = f.ahead("%parts", f.mul(part, part_bytes))
        begin, end = (f.div(f.mul(p, units), t["parts"]) for p in (part, f.add(part, 1)))
        with f.loop(end, start=begin) as unit:
            group = f.div(unit, t["blocks"])
            z0 = f.mul(f.sub(unit, f.mul(group, t["blocks"])), t["block"])
            n = f.mul(group, t["together"])
            together = f.least(t["together"], f.sub(t["images"], n))
            planes = f.least(t["block"], f.sub(t["out_z"], z0))
            pixels = f.mul(planes, positions)
            first = f.add(f.mul(z0, t["in_step_z"]), t["low_z"])
            with f.loop(together) as i:
                source, target = f.ahead("%X", f.mul(f.add(n, i), image)), f.ahead("%buffer", f.mul(i, held))
                f.call_void(f"{prefix}_gather", "ptr %table", f"ptr {source}", f"ptr {target}", f"i64 {first}")
                with f.when(f.set(f"xor i1 {last}, true")):
                    place = f.add(f.mul(f.mul(f.add(n, i), columns), channel), f.mul(z0, positions))
                    f.call_void(
                        f"{prefix}_transpose", f"i64 {columns}", f"i64 {pixels}",
                        f"ptr {f.ahead('%G', f.mul(place, size))}", f"i64 {f.mul(channel, size)}",
                        f"ptr {f.ahead(staging, f.mul(f.mul(i, pixels), out_pixel))}", f"i64 {out_pixel}",
                    )  # fmt: skip
            g_place = f.ahead("%G", f.mul(f.add(f.mul(n, channel), f.mul(z0, positions)), out_pixel))
            gradient = f.choose(last, g_place, staging, "ptr")
            mode = f.choose(f.compare("sgt", unit, begin), ACCUMULATE, 0)
            with f.loop(t["groups"]) as g, f.loop(e["taps_z"]) as tap_z:
                rows = f.mul(t["channels"], t["columns"])  # elements of the result for one tap
                c = f.add(f.mul(g, group_size), f.mul(f.mul(f.mul(tap_z, e["taps_y"]), e["taps_x"]), rows))
                _call_walk(
                    f, prefix, walk,
                    {
                        "n": 1, "an": 0, "cn": 0, "row_n": 0, "z": e["taps_y"], "y": f.choose(joined, 1, e["taps_x"]),
                        "x": f.choose(joined, f.mul(e["taps_x"], t["channels"]), t["channels"]),
                        "az": f.mul(e["spread_y"], row), "ay": f.mul(e["spread_x"], pixel), "ax": size,
                        "cz": f.mul(f.mul(e["taps_x"], rows), size), "cy": f.mul(rows, size), "cx": f.mul(t["columns"], size),
                        "N": width, "K": t["out_x"], "csA": f.mul(t["in_step_x"], pixel),
                        "K1": t["out_y"], "K2": planes, "K3": together,
                        "a1": f.mul(t["in_step_y"], row), "a2": f.mul(t["in_step_z"], plane), "a3": held,
                        "rows1": t["out_x"], "rows2": positions, "rows3": pixels,
                        "column_b": size, "row_b": out_pixel, "first_b": 0, "row0": 0, "row_z": 0, "row_y": 0, "row_x": 0, "column0": 0,
                        "mode": mode,
                    },
                    f.ahead(f.ahead("%buffer", f.mul(f.mul(tap_z, e["spread_z"]), plane)), f.mul(f.mul(g, t["channels"]), size)),
                    f.ahead(gradient, f.mul(f.add(f.mul(g, t["columns"]), first_column), size)),
                    f.ahead(base, f.mul(f.add(c, first_column), size)),
                    "null",
                )  # fmt: skip
    f.returns()
    return f


def _weight_sum(prefix: str, tile: TileShape) -> Function:
    """dW[group, column, channel, taps] = the sum of the parts, whose order is [group][taps][channel][column]; squares go through registers."""
    f = Function(f"{prefix}_weight_sum", "ptr %table, ptr %parts, ptr noalias %W", attributes="nounwind")
    t = Fields(f, "%table", HEADER)
    e = Fields(f, f.ahead("%table", 8 * len(HEADER)), ENTRY)
    type, size, lanes, one = tile.type, SIZES[tile.type.element], tile.type.lanes, Vector(tile.type.element)
    group_size = f.mul(e["depth"], t["columns"])
    part_bytes = f.mul(f.mul(t["groups"], group_size), size)
    taps = f.div(e["depth"], t["channels"])

    def total(kind: Vector, place: str) -> str:
        """The sum of the parts at a place of the first."""
        value = f.carried(kind, "zeroinitializer" if kind.lanes > 1 else number(kind.element, 0.0))
        with f.repeat(t["parts"], [value]) as part:
            value.next = f.set(f"fadd {kind} {value.name}, {f.load(kind, f.ahead(place, f.mul(part, part_bytes)))}")
        return value.next

    def source(k: str) -> str:
        """Where the row of channel k / taps and tap k % taps lies in a group of the first part, in bytes."""
        c = f.div(k, taps)
        return f.mul(f.mul(f.add(f.mul(f.sub(k, f.mul(c, taps)), t["channels"]), c), t["columns"]), size)

    squares = f.both(f.compare("sge", e["depth"], lanes), f.compare("sge", t["columns"], lanes))
    with f.loop(t["groups"]) as g:
        here, out = f.ahead("%parts", f.mul(f.mul(g, group_size), size)), f.ahead("%W", f.mul(f.mul(g, group_size), size))
        step = f.mul(e["depth"], size)
        with f.when(squares), f.loop(e["depth"], step=str(lanes)) as turn:
            k = f.least(turn, f.sub(e["depth"], lanes))
            rows = [f.ahead(here, source(f.add(k, n))) for n in range(lanes)]
            with f.loop(t["columns"], step=str(lanes)) as column:
                j = f.least(column, f.sub(t["columns"], lanes))
                values = [total(type, f.ahead(row, f.mul(j, size))) for row in rows]
                for n, value in enumerate(transposed(f, type, values)):
                    f.store(type, value, f.ahead(f.ahead(out, f.mul(f.add(j, n), step)), f.mul(k, size)))
        with f.when(f.set(f"xor i1 {squares}, true")), f.loop(e["depth"]) as k:
            row = f.ahead(here, source(k))
            with f.loop(t["columns"]) as j:
                f.store(one, total(one, f.ahead(row, f.mul(j, size))), f.ahead(f.ahead(out, f.mul(j, step)), f.mul(k, size)))
    f.returns()
    return f
