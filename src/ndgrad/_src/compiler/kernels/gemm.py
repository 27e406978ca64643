"""Matrix products of any size and stride:   C[M, N] (+)= A[M, K] B[K, N].

The order of loops is Goto's. A block of k and columns of B is packed into strips as wide as a tile; for each block of
rows, strip after strip of B (which fits the first-level cache) meets all rows of the block of A (which fits the second
level), tile by tile (tiles.py):

    for columns in chunks:                  C's columns of one chunk, or of several whole ones
        for k in blocks:                    so that a strip of B stays in the first-level cache
            pack B[k, columns]              (packing.py)
            for rows in blocks:             so that a block of A stays in the second-level cache
                pack A[rows, k]             only if A is far from contiguous
                for strip in columns:
                    for tile in rows:       registers

Narrow products (a few rows or a few columns) take other paths: thin_products.py.

Note [B is packed ahead] A piece of the work packs its rows of A and its columns of B. Pieces of the same rows pack the
same A, and pieces of the same columns the same B. With many pieces that is a tenth of the time. If C has many rows,
pieces are therefore as wide as C (or as a block of B may be), and all threads together pack B once in advance.

Interface in native code, for an element type float or double (`f32`, `f64`) and a prefix of the library:

    void {prefix}(i64 M, i64 N, i64 K, ptr A, i64 rsA, i64 csA, ptr B, i64 rsB, i64 csB, ptr C, i64 rsC,
                  i64 accumulate, ptr context, ptr packed, ptr buffer, i64 begin, i64 end)
    void {prefix}_batch(i64 dims, ptr table, the same arguments)
    i64  {prefix}_bytes(i64 M, i64 N, i64 K)
    i64  {prefix}_ahead(i64 M, i64 N, i64 K)                    bytes of a B to pack ahead, 0 for none
    i64  {prefix}_chunks(i64 M, i64 N, i64 K, i64 ahead)        `ahead`: 1 if it is
    i64  {prefix}_down(the same), {prefix}_across(the same)     chunks along M and N; those along M run fastest
    i64  {prefix}_ahead_chunks(i64 N)
    void {prefix}_ahead_pack(i64 N, i64 K, ptr B, i64 rsB, i64 csB, ptr packed, i64 begin, i64 end)

rs and cs are strides of rows and columns in elements, of either sign or zero; C has unit stride along its columns and
rsC between rows, and must not overlap A or B. `accumulate` is 0 or 1. `context` is passed to the epilogue. The work is
cut into `chunks` pieces that write different parts of C. A call computes those from `begin` to `end`. Threads may run
different pieces at once, each with its own `buffer` of `bytes` bytes (64-byte aligned). `packed` is null, or the output
of `ahead_pack`, which all pieces read. `{prefix}_work`, `{prefix}_batch_work` and `{prefix}_ahead_pack_work` are the
same for the pool of threads (pool_work.py).

A batch, for which nothing is packed ahead, has `dims` dimensions, each a line of the table: i64 length, and the strides
of A, B and C (in elements; 0 repeats a matrix). Its work has chunks(M, N, K) pieces for each product, one product after
the other. The epilogue sees row numbers that count through the whole batch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from ndgrad._src.compiler.kernels.packing import pack_functions
from ndgrad._src.compiler.kernels.pool_work import work_function
from ndgrad._src.compiler.kernels.thin_products import NARROW, thin_functions, thin_product_function
from ndgrad._src.compiler.kernels.tiles import (
    ACCUMULATE,
    LAST,
    Epilogue,
    TileShape,
    handed_on,
    tile_kernel,
    tile_name,
    tile_shape,
    tile_signature,
)
from ndgrad._src.compiler.native.ir import SIZES, Function
from ndgrad._src.compiler.native.target import Target


@dataclass(frozen=True)
class Blocking:
    """Sizes of blocks, in elements."""

    tile: TileShape
    k: int  # k of a strip of B
    rows: int  # rows of a block of A
    columns: int  # columns of a packed block of B
    pack_above: int = 8  # minimum number of strips of B for packing a block of A stored in rows

    @property
    def size(self) -> int:
        return SIZES[self.tile.type.element]


def blocking(tile: TileShape, strip_bytes: int = 3 * 2**13, block_bytes: int = 2**18, columns: int = 2048) -> Blocking:
    """Return blocks for a processor: a strip of B for half of the first-level cache, a block of A for a part of the
    second level's.
    """
    size = SIZES[tile.type.element]
    k = max(256, strip_bytes // (tile.columns * size) // 8 * 8)
    rows = max(1, block_bytes // (k * size) // tile.rows) * tile.rows
    columns = max(1, 4 * columns // size // tile.columns) * tile.columns
    return Blocking(tile, k, rows, columns)


def library(
    prefix: str, element: str, target: Target, epilogue: Epilogue | None = None, plan: Blocking | None = None
) -> list[Function | str]:
    """Return all functions of a matrix product, for `ir.module`. The epilogue becomes part of its micro-kernels."""
    plan = plan or blocking(tile_shape(target, element))
    tile = plan.tile
    names = [tile_name(f"{prefix}_tile", *sizes) for sizes in _tile_sizes(tile)]
    table = f"@{prefix}_tiles = internal constant [{len(names)} x ptr] [{', '.join(f'ptr @{n}' for n in names)}]"
    return [
        table,
        *(
            tile_kernel(f"{prefix}_tile", tile.type, r, v, m, epilogue, near=n)
            for r, v, m, n in dict.fromkeys(_tile_sizes(tile))
        ),
        *pack_functions(f"{prefix}_pack_b", tile.type, tile.columns, padded=True),
        *pack_functions(f"{prefix}_pack_a", tile.type, tile.rows, padded=False),
        *thin_functions(prefix, tile.type),
        thin_product_function(f"{prefix}_thin", prefix, tile.type, _BLOCK),
        _block(prefix, plan, len(names), epilogue is not None),
        _grid(prefix, plan),
        _chunks(prefix, plan),
        *(_count(prefix, plan, name) for name in ("down", "across")),
        _bytes(prefix, plan),
        _ahead(prefix, plan),
        _ahead_chunks(prefix, plan),
        _ahead_pack(prefix, plan),
        _part(prefix, plan),
        _product(prefix),
        _batch(prefix, plan),
        work_function(prefix, PRODUCT),
        work_function(f"{prefix}_batch", BATCH),
        work_function(f"{prefix}_ahead_pack", AHEAD),
    ]


def _tile_sizes(tile: TileShape) -> list[tuple[int, int, bool, str]]:
    """Return all tiles down to one row and a part of a vector, in the order of the table. Only full tiles have a
    version without a mask, to have fewer.
    """
    kinds = [(tile.vectors, False), *((v, True) for v in range(1, tile.vectors + 1))]
    sizes = [(r, v, m, "") for r in range(1, tile.rows + 1) for v, m in kinds]
    whole = (tile.rows, tile.vectors, False)
    # With many registers LLVM loads several k of A at once, and then runs out of registers.
    return [*sizes, (*whole, "p"), (*whole, "k" if tile.rows * tile.vectors <= 12 else "")]


_OPERANDS = "i64 %M, i64 %N, i64 %K, ptr %A, i64 %rsA, i64 %csA, ptr %B, i64 %rsB, i64 %csB, ptr %C, i64 %rsC"


# ----- one block of C -----

#: Bytes of a line of the cache.
_LINE = 64


_BLOCK = f"{_OPERANDS}, i64 %accumulate, ptr %context, ptr %packed, i64 %padded, ptr %buffer, i64 %row, i64 %column"


def _block(prefix: str, plan: Blocking, tiles: int, finishes: bool) -> Function:
    """Write rows and columns of C for one thread; strides in bytes.

    `%row` and `%column` are the block's position in the whole C, `%padded` the columns of a B that is packed ahead.
    """
    f = Function(f"{prefix}_block", _BLOCK, linkage="internal", attributes="nounwind")
    tile, size = plan.tile, plan.size
    thin = f.call("i1", f"{prefix}_thin", *handed_on(_BLOCK))
    done, onward = f.fresh("done"), f.fresh("onward")
    f.branch(thin, done, onward)
    f.label(done)
    if finishes:
        # The sums are in C already: a product with K = 0 that adds to C runs the epilogue over it.
        f.call_void(f"{prefix}_block", *handed_on(_BLOCK, {"%K": "0", "%accumulate": "1"}))
    f.returns()
    f.label(onward)
    count, deep = _blocks_of_k(f, plan)
    ahead = f.set("icmp ne ptr %packed, null")
    direct = f.both(f.compare("eq", "%csB", size), f.compare("sle", "%M", 2 * tile.rows))
    direct = f.both(direct, f.negated(ahead))
    # A transposed A is read in short pieces, each from another page. Packing pays if several strips of B read it.
    packs_a = f.compare(
        "sgt", "%N", f.choose(f.compare("eq", "%csA", size), plan.pack_above * tile.columns, 2 * tile.columns)
    )
    buffer_a = "%buffer"
    own_b = f.ahead(
        "%buffer", f.mul(f.add(f.mul(f.choose(packs_a, f.least("%M", plan.rows), 0), deep), 2 * tile.type.lanes), size)
    )
    with f.loop(count) as block:
        k = f.mul(block, deep)
        left = f.sub("%K", k)
        depth = f.least(deep, left)
        again = f.choose(f.compare("sgt", block, 0), ACCUMULATE, "%accumulate")
        mode = f.set(f"or i64 {again}, {f.choose(f.compare('sle', left, depth), LAST, 0)}")
        along_rows = f.compare("sle", f.mul(depth, "%N"), 2**14 // size)
        # A single block of rows reads each strip once. Pack a few strips at a time, so that they are still in the
        # cache.
        few = f.both(f.compare("sle", "%M", plan.rows), f.negated(f.either(f.either(along_rows, direct), ahead)))
        place = f.mul(f.add(f.mul(k, "%padded"), f.mul("%column", depth)), size)
        buffer_b = f.choose(ahead, f.ahead("%packed", place), own_b, "ptr")
        group = f.choose(few, 4 * tile.columns, f.most("%N", 1))
        with f.loop("%N", step=group) as first:
            wide = f.least(group, f.sub("%N", first))
            source_b = f.ahead(f.ahead("%B", f.mul(k, "%rsB")), f.mul(first, "%csB"))
            with f.when(f.negated(f.either(direct, ahead))):
                f.call_void(
                    f"{prefix}_pack_b",
                    f"i64 {depth}",
                    f"i64 {wide}",
                    f"ptr {source_b}",
                    "i64 %rsB",
                    "i64 %csB",
                    f"ptr {buffer_b}",
                )
            with f.loop("%M", step=str(plan.rows)) as i:
                high = f.least(plan.rows, f.sub("%M", i))
                source_a = f.ahead(f.ahead("%A", f.mul(k, "%csA")), f.mul(i, "%rsA"))
                with f.when(f.both(packs_a, f.compare("eq", first, 0))):
                    packed = [
                        f"i64 {depth}",
                        f"i64 {high}",
                        f"ptr {source_a}",
                        "i64 %csA",
                        "i64 %rsA",
                        f"ptr {buffer_a}",
                    ]
                    f.call_void(f"{prefix}_pack_a", *packed)
                strips = _Strips(
                    direct, packs_a, along_rows, source_a, buffer_a, source_b, buffer_b, depth, mode, high, wide,
                    c=f.ahead(f.ahead("%C", f.mul(i, "%rsC")), f.mul(first, size)), row=f.add("%row", i),
                    column=f.add("%column", first),
                )  # fmt: skip
                _all_tiles(f, prefix, plan, tiles, strips)
    f.returns()
    return f


def _blocks_of_k(f: Function, plan: Blocking) -> tuple[str, str]:
    """Return the number of blocks of k, and the k of each: equal, and a whole number of vectors."""
    count = f.most(1, _divide_up(f, "%K", plan.k))
    return count, _rounded_up(f, _divide_up(f, "%K", count), 8)


class _Strips(NamedTuple):
    """The names of the operands of the tiles of a block of rows."""

    direct: str
    packs_a: str
    along_rows: str
    source_a: str
    buffer_a: str
    source_b: str
    buffer_b: str
    depth: str
    mode: str
    high: str
    wide: str
    c: str
    row: str
    column: str


def _all_tiles(f: Function, prefix: str, plan: Blocking, tiles: int, strips: _Strips) -> None:
    """Write all tiles of a block of rows, strip after strip of B, and within a strip from row to row.

    With few k, if all of B fits the first-level cache, the order is row after row, so that C is written in memory
    order.
    """
    tile, size, lanes = plan.tile, plan.size, plan.tile.type.lanes
    direct, packs_a, along_rows, depth, high, wide = (
        strips.direct, strips.packs_a, strips.along_rows, strips.depth, strips.high, strips.wide,
    )  # fmt: skip
    # While a strip of B is used, each tile prefetches its share of the next one. With many columns the strips are far
    # apart.
    strip = f.mul(depth, tile.columns * size)
    share = f.div(f.add(strip, f.sub(high, 1)), high)
    far = f.both(f.compare("sgt", f.mul(depth, wide), 2**18 // size), f.negated(direct))
    # Whole tiles of near operands have kernels of their own, the last two of the table.
    near = f.both(f.negated(direct), f.either(packs_a, f.compare("eq", "%csA", size)))
    row, column = f.carry("i64", "0"), f.carry("i64", "0")
    at, j = row.name, column.name
    with f.repeat_until([row, column]) as tiles_left:
        # Columns.
        width = f.least(tile.columns, f.sub(wide, j))
        vectors = f.div(f.add(width, lanes - 1), lanes)
        rest = f.sub(width, f.mul(f.sub(vectors, 1), lanes))
        kind = f.choose(f.compare("eq", width, tile.columns), 0, vectors)
        b = f.choose(
            direct,
            f.ahead(strips.source_b, f.mul(j, size)),
            f.ahead(strips.buffer_b, f.mul(f.mul(j, depth), size)),
            "ptr",
        )
        step_b = f.choose(direct, "%rsB", f.mul(vectors, lanes * size))
        # Rows. A last tile of one or two rows would wait for its few sums, so the last rows are divided evenly instead.
        # (Packed strips are cut already.)
        left = f.sub(high, at)
        uneven = f.both(f.compare("sgt", left, tile.rows), f.compare("slt", left, tile.rows + 3))
        uneven = f.both(uneven, f.negated(packs_a))
        rows = f.choose(uneven, f.div(f.add(left, 1), 2), f.least(tile.rows, left))
        packed_a = f.ahead(strips.buffer_a, f.mul(f.mul(at, depth), size))
        a = f.choose(packs_a, packed_a, f.ahead(strips.source_a, f.mul(at, "%rsA")), "ptr")
        with f.when(far):
            following, begin = f.ahead(b, strip), f.mul(at, share)
            with f.loop(f.least(strip, f.add(begin, f.mul(rows, share))), start=begin, step=str(_LINE)) as offset:
                f.call_void("llvm.prefetch.p0", f"ptr {f.ahead(following, offset)}", "i32 0", "i32 2", "i32 1")
        number = f.add(f.mul(f.sub(rows, 1), tile.vectors + 1), kind)
        quick = f.both(f.both(f.compare("eq", rows, tile.rows), f.compare("eq", kind, 0)), near)
        number = f.choose(quick, f.choose(packs_a, tiles - 2, tiles - 1), number)
        kernel = f.set(
            f"load ptr, ptr {f.set(f'getelementptr [{tiles} x ptr], ptr @{prefix}_tiles, i64 0, i64 {number}')}"
        )
        values = {
            "K": depth, "A": a, "rsA": f.choose(packs_a, size, "%rsA"),
            "csA": f.choose(packs_a, f.mul(rows, size), "%csA"),
            "B": b, "rsB": step_b, "C": f.ahead(f.ahead(strips.c, f.mul(j, size)), f.mul(at, "%rsC")), "rsC": "%rsC",
            "rest": rest,
            "mode": strips.mode, "row": f.add(strips.row, at), "column": f.add(strips.column, j), "context": "%context",
        }  # fmt: skip
        f.do(f"call void {kernel}({', '.join(f'{type} {values[name]}' for type, name in tile_signature())})")
        # The next tile: along the inner direction, or from the beginning of the next one.
        right, down = f.add(j, tile.columns), f.add(at, rows)
        end_of_row, end_of_strip = f.compare("sge", right, wide), f.compare("sge", down, high)
        column.next = f.choose(along_rows, f.choose(end_of_row, 0, right), f.choose(end_of_strip, right, j))
        row.next = f.choose(along_rows, f.choose(end_of_row, down, at), f.choose(end_of_strip, 0, down))
        tiles_left.stop = f.both(end_of_row, end_of_strip)


# ----- chunks -----

#: Minimum multiply-adds for another thread: about 5 us of work.
_CHUNK = 2**18


#: Number of pieces of a large product: several for each thread, since some start late, but no more, since each packs
#: its operands anew.
_PIECES = max(8, min(64, 4 * (os.cpu_count() or 2)))


#: The parameters that decide the division of a product.
_SIZES = "i64 %M, i64 %N, i64 %K, i64 %ahead"


def _grid(prefix: str, plan: Blocking) -> Function:
    """Write the numbers of chunks {down, across}.

    A piece packs its rows of A and its columns of B, so it should be about as high as it is wide, unless B is packed
    ahead. It should also be large enough for a thread.
    """
    f = Function(f"{prefix}_grid", _SIZES, "{ i64, i64 }", linkage="internal", attributes="nounwind")
    tile = plan.tile
    area = f.mul(f.most("%M", 1), f.most("%N", 1))
    count = f.most(1, f.least(_PIECES, f.div(f.mul(area, f.most("%K", 1)), _CHUNK)))
    side = f.call("double", "llvm.sqrt.f64", f"double {f.set(f'uitofp i64 {f.div(area, count)} to double')}")
    side = f.most(1, f.set(f"fptoui double {side} to i64"))
    across = f.least(f.div(f.add("%N", f.div(side, 2)), side), f.div("%N", 4 * tile.columns))
    across = f.least(_power_of_two(f, across), count)
    across = f.choose(f.compare("ne", "%ahead", 0), 1, across)
    across = f.most(1, f.most(across, _divide_up(f, "%N", plan.columns)))
    down = f.most(1, f.least(_divide_up(f, count, across), f.div("%M", 8 * tile.rows)))
    pair = f.set(f"insertvalue {{ i64, i64 }} poison, i64 {down}, 0")
    pair = f.set(f"insertvalue {{ i64, i64 }} {pair}, i64 {across}, 1")
    f.returns(f"{{ i64, i64 }} {pair}")
    return f


def _power_of_two(f: Function, a: str) -> str:
    """Return a power of two near a size, so that the pieces down and across have the requested number, and threads
    share them evenly.
    """
    zeros = f.call("i64", "llvm.ctlz.i64", f"i64 {f.most(1, f.div(f.mul(a, 3), 2))}", "i1 false")
    return f.set(f"shl i64 1, {f.sub(63, zeros)}")


def _divide_up(f: Function, a: str | int, b: str | int) -> str:
    """Return the quotient of sizes, rounded up."""
    return f.div(f.add(a, f.sub(b, 1)), b)


def _rounded_up(f: Function, a: str, step: int) -> str:
    return f.mul(_divide_up(f, a, step), step)


def _chunk_counts(f: Function, prefix: str, ahead: str = "%ahead") -> tuple[str, str]:
    """Return (chunks along M, chunks along N)."""
    grid = f.call("{ i64, i64 }", f"{prefix}_grid", *handed_on(_SIZES, {"%ahead": ahead}))
    return f.set(f"extractvalue {{ i64, i64 }} {grid}, 0"), f.set(f"extractvalue {{ i64, i64 }} {grid}, 1")


def piece_begins(f: Function, number: str | int, pieces: str | int, size: str | int, step: int) -> str:
    """Return the beginning of a piece of a size, cut as evenly as tiles of `step` allow."""
    return f.least(size, f.mul(f.div(f.mul(number, _divide_up(f, size, step)), pieces), step))


def _is_small(f: Function, plan: Blocking) -> str:
    """True if a product is a single chunk, so that no division is needed."""
    return f.both(f.compare("sle", f.mul(f.mul("%M", "%N"), "%K"), _CHUNK), f.compare("sle", "%N", plan.columns))


def _chunks(prefix: str, plan: Blocking) -> Function:
    f = Function(f"{prefix}_chunks", _SIZES, "i64", attributes="nounwind")
    with f.when(_is_small(f, plan)):
        some = f.both(f.compare("sgt", "%M", 0), f.compare("sgt", "%N", 0))
        f.returns(f"i64 {f.choose(some, 1, 0)}")
        f.label(f.fresh("never"))
    down, across = _chunk_counts(f, prefix)
    some = f.both(f.compare("sgt", "%M", 0), f.compare("sgt", "%N", 0))
    f.returns(f"i64 {f.choose(some, f.mul(down, across), 0)}")
    return f


def _count(prefix: str, plan: Blocking, name: str) -> Function:
    """Return the number of chunks along M or along N."""
    f = Function(f"{prefix}_{name}", _SIZES, "i64", attributes="nounwind")
    with f.when(_is_small(f, plan)):
        f.returns("i64 1")
        f.label(f.fresh("never"))
    down, across = _chunk_counts(f, prefix)
    f.returns(f"i64 {down if name == 'down' else across}")
    return f


def _bytes(prefix: str, plan: Blocking) -> Function:
    """Return the bytes for a block of A and a block of B, with slack for vectors that are stored beyond a strip's end.
    """
    f = Function(f"{prefix}_bytes", "i64 %M, i64 %N, i64 %K", "i64", attributes="nounwind")
    lanes = plan.tile.type.lanes
    deep = f.least(f.add("%K", 8), plan.k + 8)
    columns = f.least(f.add("%N", lanes), plan.columns)
    blocks = f.mul(deep, f.add(f.least("%M", plan.rows), columns))
    narrow = f.add(f.mul("%K", NARROW), 8 * lanes)
    f.returns(f"i64 {f.mul(f.add(blocks, narrow), plan.size)}")
    return f


# ----- packing ahead -----

#: Minimum multiply-adds, and minimum tiles along M, for packing B ahead (Note [B is packed ahead]).
_AHEAD = 2**23
_AHEAD_TILES = 24
#: Number of strips that a chunk packs.
_AHEAD_STRIPS = 4

AHEAD = "i64 %N, i64 %K, ptr %B, i64 %rsB, i64 %csB, ptr %packed, i64 %begin, i64 %end"


def _padded(f: Function, plan: Blocking) -> str:
    """Return the columns of B in whole vectors."""
    return _rounded_up(f, "%N", plan.tile.type.lanes)


def _ahead(prefix: str, plan: Blocking) -> Function:
    f = Function(f"{prefix}_ahead", "i64 %M, i64 %N, i64 %K", "i64", attributes="nounwind")
    pays = f.both(
        f.compare("sge", "%M", _AHEAD_TILES * plan.tile.rows), f.compare("sge", "%N", 2 * plan.tile.columns)
    )
    pays = f.both(pays, f.compare("sge", f.mul(f.mul("%M", "%N"), "%K"), _AHEAD))
    f.returns(f"i64 {f.choose(pays, f.mul(f.mul(_padded(f, plan), '%K'), plan.size), 0)}")
    return f


def _ahead_chunks(prefix: str, plan: Blocking) -> Function:
    f = Function(f"{prefix}_ahead_chunks", "i64 %N", "i64", attributes="nounwind")
    f.returns(f"i64 {_divide_up(f, '%N', _AHEAD_STRIPS * plan.tile.columns)}")
    return f


def _ahead_pack(prefix: str, plan: Blocking) -> Function:
    """Write the packing of all blocks of k of some strips: packed[block of k][strip][k][column]."""
    f = Function(f"{prefix}_ahead_pack", AHEAD, attributes="nounwind")
    size, group = plan.size, _AHEAD_STRIPS * plan.tile.columns
    count, deep = _blocks_of_k(f, plan)
    rows, columns = f.mul("%rsB", size), f.mul("%csB", size)
    padded = _padded(f, plan)
    first = f.mul("%begin", group)
    wide = f.sub(f.least("%N", f.mul("%end", group)), first)
    with f.loop(count) as block:
        k = f.mul(block, deep)
        depth = f.least(deep, f.sub("%K", k))
        source = f.ahead(f.ahead("%B", f.mul(k, rows)), f.mul(first, columns))
        target = f.ahead("%packed", f.mul(f.add(f.mul(k, padded), f.mul(first, depth)), size))
        packed = [f"i64 {depth}", f"i64 {wide}", f"ptr {source}", f"i64 {rows}", f"i64 {columns}", f"ptr {target}"]
        f.call_void(f"{prefix}_pack_b", *packed)
    f.returns()
    return f


# ----- the whole -----

#: The parameters of a product, and of a batch of them.
PRODUCT = f"{_OPERANDS}, i64 %accumulate, ptr %context, ptr %packed, ptr %buffer, i64 %begin, i64 %end"
BATCH = f"i64 %dims, ptr %table, {PRODUCT}"


def _product(prefix: str) -> Function:
    f = Function(prefix, PRODUCT, attributes="nounwind")
    f.call_void(f"{prefix}_part", *handed_on(PRODUCT), "i64 0")
    f.returns()
    return f


def _batch(prefix: str, plan: Blocking) -> Function:
    """Write products over all indices of the batch. The last dimension runs fastest, and each product has all its
    chunks.
    """
    f = Function(f"{prefix}_batch", BATCH, attributes="nounwind")
    each = f.most(1, f.call("i64", f"{prefix}_chunks", "i64 %M", "i64 %N", "i64 %K", "i64 0"))
    chunk = f.carry("i64", "%begin")
    with f.when(f.compare("slt", "%begin", "%end")), f.repeat_until([chunk]) as chunks_left:
        index = f.div(chunk.name, each)
        first = f.sub(chunk.name, f.mul(index, each))
        last = f.least(each, f.add(first, f.sub("%end", chunk.name)))
        left = f.carry("i64", index)
        offsets = [f.carry("i64", "0") for _ in "ABC"]
        with f.loop("%dims", carried=[left, *offsets]) as d:
            line = f.ahead("%table", f.mul(f.sub(f.sub("%dims", 1), d), 32))
            length, *strides = (f.set(f"load i64, ptr {f.ahead(line, 8 * n)}") for n in range(4))
            left.next = f.div(left.name, length)
            place = f.sub(left.name, f.mul(left.next, length))
            for offset, stride in zip(offsets, strides):
                offset.next = f.add(offset.name, f.mul(place, stride))
        moved = {f"%{m}": f.ahead(f"%{m}", f.mul(offset.name, plan.size)) for m, offset in zip("ABC", offsets)}
        moved |= {"%begin": first, "%end": last, "%packed": "null"}
        f.call_void(f"{prefix}_part", *handed_on(PRODUCT, moved), f"i64 {f.mul(index, '%M')}")
        chunk.next = f.add(chunk.name, f.sub(last, first))
        chunks_left.stop = f.compare("sge", chunk.next, "%end")
    f.returns()
    return f


def _part(prefix: str, plan: Blocking) -> Function:
    """Write chunks of one product, whose rows are counted from `%row0` on."""
    f = Function(f"{prefix}_part", f"{PRODUCT}, i64 %row0", linkage="internal", attributes="nounwind")
    size = plan.size
    strides = {name: f.mul(f"%{name}", size) for name in ("rsA", "csA", "rsB", "csB", "rsC")}
    with f.when(_is_small(f, plan)):
        with f.when(f.compare("slt", "%begin", "%end")):
            same = {f"%{name}": value for name, value in strides.items()}
            same |= {"%row": "%row0", "%column": "0", "%packed": "null", "%padded": "0"}
            f.call_void(f"{prefix}_block", *handed_on(_BLOCK, same))
        f.returns()
        f.label(f.fresh("never"))
    tile, padded = plan.tile, _padded(f, plan)
    down, across = _chunk_counts(f, prefix, f.set(f"zext i1 {f.set('icmp ne ptr %packed, null')} to i64"))
    wide = _rounded_up(f, _divide_up(f, "%N", across), tile.columns)
    chunk = f.carry("i64", "%begin")
    with f.when(f.compare("slt", "%begin", "%end")), f.repeat_until([chunk]) as chunks_left:
        # Starting from a chunk, take the rest of its column of chunks, or as many whole columns of chunks as a packed
        # block of B holds.
        left = f.sub("%end", chunk.name)
        group = f.div(chunk.name, down)
        first = f.sub(chunk.name, f.mul(group, down))
        several = f.least(f.div(left, down), f.most(1, f.div(plan.columns, wide)))
        whole = f.both(f.compare("eq", first, 0), f.compare("sgt", several, 0))
        groups = f.choose(whole, several, 1)
        pieces = f.choose(whole, down, f.least(f.sub(down, first), left))
        row, end = (piece_begins(f, n, down, "%M", tile.rows) for n in (first, f.add(first, pieces)))
        column, past = (piece_begins(f, n, across, "%N", tile.columns) for n in (group, f.add(group, groups)))
        rows, columns = f.sub(end, row), f.sub(past, column)
        f.call_void(
            f"{prefix}_block", f"i64 {rows}", f"i64 {columns}", "i64 %K",
            f"ptr {f.ahead('%A', f.mul(row, strides['rsA']))}", f"i64 {strides['rsA']}", f"i64 {strides['csA']}",
            f"ptr {f.ahead('%B', f.mul(column, strides['csB']))}", f"i64 {strides['rsB']}", f"i64 {strides['csB']}",
            f"ptr {f.ahead(f.ahead('%C', f.mul(row, strides['rsC'])), f.mul(column, size))}", f"i64 {strides['rsC']}",
            "i64 %accumulate", "ptr %context", "ptr %packed", f"i64 {padded}", "ptr %buffer",
            f"i64 {f.add('%row0', row)}", f"i64 {column}",
        )  # fmt: skip
        chunk.next = f.add(chunk.name, f.mul(pieces, groups))
        chunks_left.stop = f.compare("sge", chunk.next, "%end")
    f.returns()
    return f
