"""A walk over tiles: positions in up to four loops and columns in strips, each tile a product whose k runs through four
nested loops.

A convolution differs from a matrix product only in the addresses of its operands, which a list of steps in memory
describes (`WALK`).
"""

from __future__ import annotations

from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.kernels.tiles import TileShape, tile_signature
from ndgrad._src.compiler.native.ir import SIZES, Function

#: The loops of k.
LEVELS = 4

#: The parameters of a walk over tiles. All steps are in bytes, `rows1`... in rows of B.
WALK = (
    "n an cn row_n z y x az ay ax cz cy cx N K K1 K2 K3 csA a1 a2 a3 rows1 rows2 rows3 "
    "column_b row_b first_b image_b row0 row_z row_y row_x column0 mode"
).split()


def walk_function(prefix: str, tile: TileShape) -> Function:
    """Write `void walk(ptr walk, A, B, C, context)`: tiles over positions (z, y, x) and N columns, strip after strip of
    B.
    """
    f = Function(
        f"{prefix}_walk", "ptr %walk, ptr %A, ptr %B, ptr %C, ptr %context", linkage="internal", attributes="nounwind"
    )
    w = Fields(f, "%walk", WALK)
    size, lanes = SIZES[tile.type.element], tile.type.lanes
    kinds = tile.vectors + 1
    with f.loop(w["N"], step=str(tile.columns)) as j:
        width = f.least(tile.columns, f.sub(w["N"], j))
        vectors = f.div(f.add(width, lanes - 1), lanes)
        rest = f.sub(width, f.mul(f.sub(vectors, 1), lanes))
        kind = f.choose(f.compare("eq", width, tile.columns), 0, vectors)
        b = f.ahead("%B", f.mul(j, w["column_b"]))
        step_b = f.mul(vectors, lanes * size)
        b = f.ahead(b, f.mul(w["first_b"], step_b))
        steps = {f"b{level}": f.mul(step_b, w[f"rows{level}"]) for level in range(1, LEVELS)}
        steps["b3"] = f.add(steps["b3"], w["image_b"])
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
                    "K": w["K"], "A": f.ahead(a, f.mul(at.name, w["ax"])), "rsA": w["ax"], "csA": w["csA"], "B": b,
                    "rsB": step_b,
                    "C": f.ahead(c, f.mul(at.name, w["cx"])), "rsC": w["cx"], "rest": rest, "mode": w["mode"],
                    "row": f.add(row, f.mul(at.name, w["row_x"])), "column": column, "context": "%context",
                    **{name: w[name] for level in range(1, LEVELS) for name in (f"K{level}", f"a{level}")}, **steps,
                }  # fmt: skip
                arguments = ", ".join(f"{type} {values[name]}" for type, name in tile_signature(LEVELS))
                f.do(f"call void {f.set(f'load ptr, ptr {entry}')}({arguments})")
                at.next = f.add(at.name, rows)
                left_over.stop = f.compare("sge", at.next, w["x"])
    f.returns()
    return f


def call_walk(
    f: Function, name_of: str, walk: str, fields: dict[str, str | int], a: str, b: str, c: str, context: str
) -> None:
    """Call a walk; missing parameters are 0."""
    assert set(fields) <= set(WALK)
    for n, name in enumerate(WALK):
        f.do(f"store i64 {fields.get(name, 0)}, ptr {f.ahead(walk, 8 * n)}")
    f.call_void(name_of, f"ptr {walk}", f"ptr {a}", f"ptr {b}", f"ptr {c}", f"ptr {context}")
