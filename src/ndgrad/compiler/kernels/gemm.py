"""Matrix products of any size and stride:   C[M, N] (+)= A[M, K] B[K, N].

The order of loops is Goto's. A block of k and columns of B is packed into strips as wide as a tile; for each block of rows, strip after strip of B (which
fits the first-level cache) meets all rows of the block of A (which fits the second level), tile by tile (tiles.py):

    for columns in chunks:                  C's columns of one chunk, or of several whole ones
        for k in blocks:                    so that a strip of B stays in the first-level cache
            pack B[k, columns]              (packing.py)
            for rows in blocks:             so that a block of A stays in the second-level cache
                pack A[rows, k]             only if A is far from contiguous
                for strip in columns:
                    for tile in rows:       registers

Narrow products (a few rows or a few columns) take other roads: thin.py.

Interface in native code, for an element type float or double (`f32`, `f64`) and a prefix of the library:

    void {prefix}(i64 M, i64 N, i64 K, ptr A, i64 rsA, i64 csA, ptr B, i64 rsB, i64 csB, ptr C, i64 rsC,
                  i64 accumulate, ptr context, ptr buffer, i64 begin, i64 end)
    i64  {prefix}_chunks(i64 M, i64 N, i64 K)
    i64  {prefix}_bytes(i64 M, i64 N, i64 K)

rs and cs are strides of rows and columns in elements, of either sign or zero; C has unit stride along its columns and rsC between rows. C must not
overlap A or B. `accumulate` is 0 or 1. `context` goes to the epilogue. The work is cut into `chunks` pieces that write different parts of C;
a call does those from `begin` to `end`, and threads may run different pieces at once, each with a `buffer` of its own of `bytes` bytes
(64-byte aligned).
"""

from __future__ import annotations

from dataclasses import dataclass

from ndgrad.compiler.kernels.packing import pack_functions
from ndgrad.compiler.kernels.tiles import ACCUMULATE, LAST, Epilogue, TileShape, tile_kernel, tile_name, tile_shape, tile_signature
from ndgrad.compiler.native.ir import SIZES, Function
from ndgrad.compiler.native.target import Target


@dataclass(frozen=True)
class Blocking:
    """Sizes of blocks, in elements."""

    tile: TileShape
    k: int  # of a strip of B
    rows: int  # of a block of A
    columns: int  # of a packed block of B

    @property
    def size(self) -> int:
        return SIZES[self.tile.type.element]


def blocking(tile: TileShape, strip_bytes: int = 2**14, block_bytes: int = 3 * 2**16) -> Blocking:
    """Blocks for a processor: a strip of B for half of the first-level cache, a block of A for a part of the second level's."""
    size = SIZES[tile.type.element]
    k = max(64, strip_bytes // (tile.columns * size) // 8 * 8)
    rows = max(1, block_bytes // (k * size) // tile.rows) * tile.rows
    columns = max(1, 2048 // size // tile.columns) * tile.columns
    return Blocking(tile, k, rows, columns)


def library(prefix: str, element: str, target: Target, epilogue: Epilogue | None = None) -> list[Function | str]:
    """All functions of a matrix product, for `ir.module`; the epilogue becomes part of its micro-kernels."""
    plan = blocking(tile_shape(target, element))
    tile = plan.tile
    names = [tile_name(f"{prefix}_tile", *sizes) for sizes in _tile_sizes(tile)]
    table = f"@{prefix}_tiles = internal constant [{len(names)} x ptr] [{', '.join(f'ptr @{n}' for n in names)}]"
    return [
        table,
        *(tile_kernel(f"{prefix}_tile", tile.type, *sizes, epilogue=epilogue) for sizes in _tile_sizes(tile)),
        *pack_functions(f"{prefix}_pack_b", tile.type, tile.columns),
        *pack_functions(f"{prefix}_pack_a", tile.type, tile.rows),
        _block(prefix, plan, len(names)),
        _grid(prefix, plan),
        _chunks(prefix),
        _bytes(prefix, plan),
        _product(prefix, plan),
    ]


def _tile_sizes(tile: TileShape) -> list[tuple[int, int, bool]]:
    """All tiles down to one row and a part of a vector, in the order of the table."""
    return [(r, v, m) for r in range(1, tile.rows + 1) for v in range(1, tile.vectors + 1) for m in (False, True)]


_OPERANDS = "i64 %M, i64 %N, i64 %K, ptr %A, i64 %rsA, i64 %csA, ptr %B, i64 %rsB, i64 %csB, ptr %C, i64 %rsC"


# ----- one block of C -----


def _block(prefix: str, plan: Blocking, tiles: int) -> Function:
    """Rows and columns of C by one thread; strides in bytes; `%row` and `%column` are the block's place in the whole C."""
    f = Function(f"{prefix}_block", f"{_OPERANDS}, i64 %accumulate, ptr %context, ptr %buffer, i64 %row, i64 %column", linkage="internal",
                 attributes="nounwind")  # fmt: skip
    tile, size = plan.tile, plan.size
    # Equal blocks of k, a whole number of vectors each.
    count = f.most(1, f.div(f.add("%K", plan.k - 1), plan.k))
    deep = f.mul(f.div(f.add(f.div(f.add("%K", f.sub(count, 1)), count), 7), 8), 8)
    direct = f.both(f.compare("eq", "%csB", size), f.compare("sle", "%M", 2 * tile.rows))
    # A transposed A is read in short pieces, each from another page: worth packing when several strips of B will read it.
    packs_a = f.both(f.compare("ne", "%csA", size), f.compare("sgt", "%N", 2 * tile.columns))
    buffer_a = "%buffer"
    buffer_b = f.ahead("%buffer", f.mul(f.add(f.mul(f.choose(packs_a, f.least("%M", plan.rows), 0), deep), 2 * tile.type.lanes), size))
    with f.loop(count) as block:
        k = f.mul(block, deep)
        left = f.sub("%K", k)
        depth = f.least(deep, left)
        again = f.choose(f.compare("sgt", block, 0), ACCUMULATE, "%accumulate")
        mode = f.set(f"or i64 {again}, {f.choose(f.compare('sle', left, depth), LAST, 0)}")
        source_b = f.ahead("%B", f.mul(k, "%rsB"))
        with f.when(f.set(f"xor i1 {direct}, true")):
            f.call_void(f"{prefix}_pack_b", f"i64 {depth}", "i64 %N", f"ptr {source_b}", "i64 %rsB", "i64 %csB", f"ptr {buffer_b}")
        with f.loop("%M", step=str(plan.rows)) as i:
            high = f.least(plan.rows, f.sub("%M", i))
            source_a = f.ahead(f.ahead("%A", f.mul(k, "%csA")), f.mul(i, "%rsA"))
            with f.when(packs_a):
                f.call_void(f"{prefix}_pack_a", f"i64 {depth}", f"i64 {high}", f"ptr {source_a}", "i64 %csA", "i64 %rsA", f"ptr {buffer_a}")
            place = f.ahead("%C", f.mul(i, "%rsC"))
            _strips(f, prefix, plan, tiles, direct, packs_a, source_a, buffer_a, source_b, buffer_b, place, i, high, depth, mode)
    f.returns()
    return f


def _strips(
    f: Function, prefix: str, plan: Blocking, tiles: int, direct: str, packs_a: str, source_a: str, buffer_a: str, source_b: str,
    buffer_b: str, c: str, i: str, high: str, depth: str, mode: str,
) -> None:  # fmt: skip
    """All tiles of a block of rows: strip after strip of B, and within it from row to row."""
    tile, size, lanes = plan.tile, plan.size, plan.tile.type.lanes
    with f.loop("%N", step=str(tile.columns)) as j:
        width = f.least(tile.columns, f.sub("%N", j))
        vectors = f.div(f.add(width, lanes - 1), lanes)
        rest = f.sub(width, f.mul(f.sub(vectors, 1), lanes))
        masked = f.choose(f.compare("slt", rest, lanes), 1, 0)
        kind = f.add(f.mul(f.sub(vectors, 1), 2), masked)
        b = f.choose(direct, f.ahead(source_b, f.mul(j, size)), f.ahead(buffer_b, f.mul(f.mul(j, depth), size)), "ptr")
        step_b = f.choose(direct, "%rsB", f.mul(vectors, lanes * size))
        column = f.add("%column", j)
        place = f.ahead(c, f.mul(j, size))
        first = f.fresh("tiles")
        before, done = f.block, f.fresh("done")
        f.jump(first)
        f.label(first)
        at, following = "%" + f.fresh("at"), "%" + f.fresh("next")
        phi = len(f._lines)
        left = f.sub(high, at)
        # A last tile of one or two rows would wait for its few sums: share the last rows evenly instead. (Packed strips are cut already.)
        half = f.div(f.add(left, 1), 2)
        uneven = f.both(f.compare("sgt", left, tile.rows), f.compare("slt", left, tile.rows + 3))
        uneven = f.both(uneven, f.set(f"xor i1 {packs_a}, true"))
        rows = f.choose(uneven, half, f.least(tile.rows, left))
        number = f.add(f.mul(f.sub(rows, 1), 2 * tile.vectors), kind)
        kernel = f.set(f"load ptr, ptr {f.set(f'getelementptr [{tiles} x ptr], ptr @{prefix}_tiles, i64 0, i64 {number}')}")
        a = f.choose(packs_a, f.ahead(buffer_a, f.mul(f.mul(at, depth), size)), f.ahead(source_a, f.mul(at, "%rsA")), "ptr")
        row_step = f.choose(packs_a, size, "%rsA")
        k_step = f.choose(packs_a, f.mul(rows, size), "%csA")
        values = {
            "K": depth, "A": a, "rsA": row_step, "csA": k_step, "B": b, "rsB": step_b, "C": f.ahead(place, f.mul(at, "%rsC")),
            "rsC": "%rsC", "rest": rest, "mode": mode, "row": f.add(f.add("%row", i), at), "column": column, "context": "%context",
        }  # fmt: skip
        f.do(f"call void {kernel}({', '.join(f'{type} {values[name]}' for type, name in tile_signature())})")
        f.do(f"{following} = add i64 {at}, {rows}")
        f._lines.insert(phi, f"  {at} = phi i64 [0, %{before}], [{following}, %{f.block}]")
        f.branch(f.compare("slt", following, high), first, done)
        f.label(done)


# ----- chunks -----


def _grid(prefix: str, plan: Blocking) -> Function:
    """{rows, columns} of a chunk: C is cut until there are 16 pieces, or they are too small to be worth a thread's while."""
    f = Function(f"{prefix}_grid", "i64 %M, i64 %N, i64 %K", "{ i64, i64 }", linkage="internal", attributes="nounwind")
    tile = plan.tile
    k = f.most("%K", 1)
    # Elements of C that make about 5 us of work, 2**18 multiply-adds.
    enough = f.most(f.div(2**18, k), 1)
    # Columns first: pieces of the same columns would pack B again.
    wide = f.most(f.div(f.add("%N", 15), 16), f.div(enough, f.most("%M", 1)))
    wide = f.least(f.mul(f.div(f.add(f.most(wide, 4 * tile.columns), tile.columns - 1), tile.columns), tile.columns), plan.columns)
    across = f.div(f.add("%N", f.sub(wide, 1)), wide)
    down = f.div(f.add(f.div(16, f.most(across, 1)), 0), 1)
    high = f.most(f.div(f.add("%M", f.sub(f.most(down, 1), 1)), f.most(down, 1)), f.div(enough, wide))
    high = f.mul(f.div(f.add(f.most(high, 8 * tile.rows), tile.rows - 1), tile.rows), tile.rows)
    high = f.least(high, plan.rows)
    f.returns("{ i64, i64 } " + f.set(f"insertvalue {{ i64, i64 }} {f.set(f'insertvalue {{ i64, i64 }} poison, i64 {high}, 0')}, i64 {wide}, 1"))
    return f


def _chunk_sizes(f: Function, prefix: str) -> tuple[str, str, str, str]:
    """(rows of a chunk, columns of a chunk, chunks along M, chunks along N)."""
    grid = f.call("{ i64, i64 }", f"{prefix}_grid", "i64 %M", "i64 %N", "i64 %K")
    high, wide = f.set(f"extractvalue {{ i64, i64 }} {grid}, 0"), f.set(f"extractvalue {{ i64, i64 }} {grid}, 1")
    return high, wide, f.div(f.add("%M", f.sub(high, 1)), high), f.div(f.add("%N", f.sub(wide, 1)), wide)


def _chunks(prefix: str) -> Function:
    f = Function(f"{prefix}_chunks", "i64 %M, i64 %N, i64 %K", "i64", attributes="nounwind")
    _, _, down, across = _chunk_sizes(f, prefix)
    f.returns(f"i64 {f.mul(down, across)}")
    return f


def _bytes(prefix: str, plan: Blocking) -> Function:
    """Room for a block of A and a block of B, with slack for vectors that are stored beyond a strip's end."""
    f = Function(f"{prefix}_bytes", "i64 %M, i64 %N, i64 %K", "i64", attributes="nounwind")
    lanes = plan.tile.type.lanes
    deep = f.least(f.add("%K", 8), plan.k + 8)
    columns = f.least(f.add("%N", lanes), plan.columns)
    f.returns(f"i64 {f.mul(f.add(f.mul(deep, f.add(f.least('%M', plan.rows), columns)), 8 * lanes), plan.size)}")
    return f


def _product(prefix: str, plan: Blocking) -> Function:
    f = Function(prefix, f"{_OPERANDS}, i64 %accumulate, ptr %context, ptr %buffer, i64 %begin, i64 %end", attributes="nounwind")
    size = plan.size
    strides = {name: f.mul(f"%{name}", size) for name in ("rsA", "csA", "rsB", "csB", "rsC")}
    high, wide, down, _ = _chunk_sizes(f, prefix)
    chunk = f.carried("i64", "%begin")
    head, body, after, before = f.fresh("head"), f.fresh("body"), f.fresh("after"), f.block
    f.jump(head)
    f.label(head)
    phi = len(f._lines)
    f.branch(f.compare("slt", chunk.name, "%end"), body, after)
    f.label(body)
    # From a chunk on: the rest of its columns' chunks, or as many whole columns of chunks as a packed block of B holds.
    left = f.sub("%end", chunk.name)
    group = f.div(chunk.name, down)
    first = f.sub(chunk.name, f.mul(group, down))
    several = f.least(f.div(left, down), f.most(1, f.div(plan.columns, wide)))
    whole = f.both(f.compare("eq", first, 0), f.compare("sgt", several, 0))
    groups = f.choose(whole, several, 1)
    pieces = f.choose(whole, down, f.least(f.sub(down, first), left))
    row, column = f.mul(first, high), f.mul(group, wide)
    rows = f.least(f.mul(pieces, high), f.sub("%M", row))
    columns = f.least(f.mul(groups, wide), f.sub("%N", column))
    f.call_void(
        f"{prefix}_block", f"i64 {rows}", f"i64 {columns}", "i64 %K",
        f"ptr {f.ahead('%A', f.mul(row, strides['rsA']))}", f"i64 {strides['rsA']}", f"i64 {strides['csA']}",
        f"ptr {f.ahead('%B', f.mul(column, strides['csB']))}", f"i64 {strides['rsB']}", f"i64 {strides['csB']}",
        f"ptr {f.ahead(f.ahead('%C', f.mul(row, strides['rsC'])), f.mul(column, size))}", f"i64 {strides['rsC']}",
        "i64 %accumulate", "ptr %context", "ptr %buffer", f"i64 {row}", f"i64 {column}",
    )  # fmt: skip
    following = f.add(chunk.name, f.mul(pieces, groups))
    f._lines.insert(phi, f"  {chunk.name} = phi i64 [%begin, %{before}], [{following}, %{f.block}]")
    f.jump(head)
    f.label(after)
    f.returns()
    return f
