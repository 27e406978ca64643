"""The micro-kernel of matrix products: a tile of C that stays in registers while it runs through k.

    C[i, j] (+)= sum_k A[i, k] B[k, j]        for `rows` rows i and `vectors` whole vectors of columns j

Each turn of the loop loads `vectors` vectors of B and, row by row, one number of A that is broadcast to all lanes. Then
rows * vectors multiply-adds follow. Two conditions decide its speed. There must be enough accumulators to hide the
latency of a multiply-add (4 cycles times 2 units = 8). Everything must fit into registers: rows * vectors accumulators
+ vectors of B + one of A. Hence 6 x 2 vectors for 16 registers, 8 x 3 for 32.

A has any strides (in bytes): a transposed or packed A needs no other kernel. B has unit stride along its columns. At
the edges of C there are kernels with fewer rows and vectors, and with a mask over the last vector.

k may be a nest of up to three loops (`levels`), each with its own step in A and B. A convolution is then a matrix
product without the matrix of patches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ndgrad._src.compiler.native.ir import SIZES, Function, Vector
from ndgrad._src.compiler.native.target import Target

#: Bits of a tile's `mode`: add to the contents of C; these are the last k, so the epilogue runs.
ACCUMULATE, LAST = 1, 2


@dataclass(frozen=True)
class TileShape:
    """The largest tile of a processor: rows of single numbers of A, columns in whole vectors."""

    rows: int
    vectors: int
    type: Vector

    @property
    def columns(self) -> int:
        return self.vectors * self.type.lanes


def tile_shape(target: Target, element: str) -> TileShape:
    """Return the tile that fills the registers of a processor: 32 of them with AVX-512 and NEON, 16 otherwise."""
    return TileShape(*((8, 3) if target.registers == 32 else (6, 2)), Vector(element, target.lanes(element)))


@dataclass
class Tile:
    """A finished tile before it is stored, for an epilogue, which reads and replaces `values[row, vector]`.

    `row` and `column` are the position of the tile's first element in the whole C (names of i64), `context` is a
    pointer from the caller of the product. `load` and `store` are restricted to existing columns.
    """

    f: Function
    type: Vector
    rows: int
    vectors: int
    row: str
    column: str
    context: str
    mask: str | None = None
    values: dict[tuple[int, int], str] = field(default_factory=dict)

    def load(self, pointer: str, vector: int) -> str:
        """Load vector number `vector` of a row of the tile; the pointer is that of the tile's first column."""
        place = self.f.ahead(pointer, vector * self.type.bytes)
        if self.mask is not None and vector == self.vectors - 1:
            return self.f.load_masked(self.type, place, self.mask)
        return self.f.load(self.type, place)

    def store(self, value: str, pointer: str, vector: int) -> None:
        place = self.f.ahead(pointer, vector * self.type.bytes)
        if self.mask is not None and vector == self.vectors - 1:
            self.f.store_masked(self.type, value, place, self.mask)
        else:
            self.f.store(self.type, value, place)


Epilogue = Callable[[Tile], None]


def tile_name(prefix: str, rows: int, vectors: int, masked: bool, near: str = "") -> str:
    return f"{prefix}_{rows}x{vectors}{'m' if masked else ''}{near}"


def tile_signature(levels: int = 1) -> list[tuple[str, str]]:
    """Return the parameters of a micro-kernel, (type, name). Strides are in bytes; `rest` is the number of lanes of a
    masked last vector.
    """
    outer = [(f"i64 K{n}", f"i64 a{n}", f"i64 b{n}") for n in range(1, levels)]
    operands = ["i64 K", "ptr A", "i64 rsA", "i64 csA", "ptr B", "i64 rsB", "ptr C", "i64 rsC"]
    words = [
        *operands,
        "i64 rest",
        "i64 mode",
        "i64 row",
        "i64 column",
        "ptr context",
        *(w for level in outer for w in level),
    ]
    pairs = [word.split(" ") for word in words]
    return [(a, b) for a, b in pairs]


def parameters(signature: list[tuple[str, str]]) -> str:
    return ", ".join(f"{type}{' noalias' if name in 'ABC' else ''} %{name}" for type, name in signature)


#: Number of k in a turn of an unrolled loop.
_TURNS = 4

Place = tuple[int, int]
Values = dict[Place, str]


def tile_kernel(
    prefix: str,
    type: Vector,
    rows: int,
    vectors: int,
    masked: bool,
    epilogue: Epilogue | None = None,
    levels: int = 1,
    near: str = "",
) -> Function:
    """Write the micro-kernel of one size of tile. `near` is a promise about the operands: see `_unrolled`."""
    f = Function(
        tile_name(prefix, rows, vectors, masked, near),
        parameters(tile_signature(levels)),
        linkage="internal",
        attributes="nounwind",
    )
    mask = f.first_lanes(type, "%rest") if masked else None
    tile = Tile(f, type, rows, vectors, "%row", "%column", "%context", mask)
    row_offsets = ["0", *(f.mul("%rsA", i) for i in range(1, rows))]
    zeros: Values = {(i, v): "zeroinitializer" for i in range(rows) for v in range(vectors)}

    def nest(level: int, a: str, b: str, values: Values) -> Values:
        """Write the loop of a level and those inside it. Return the final values of the accumulators."""
        at_a, at_b = f.carried("ptr", a), f.carried("ptr", b)
        sums = {p: f.carried(type, value) for p, value in values.items()}
        with f.repeat(f"%K{level or ''}", [at_a, at_b, *sums.values()]):
            values = {p: s.name for p, s in sums.items()}
            values = nest(level - 1, at_a.name, at_b.name, values) if level else turn(at_a.name, at_b.name, values)
            at_a.next = f.ahead(at_a.name, f"%a{level}" if level else "%csA")
            at_b.next = f.ahead(at_b.name, f"%b{level}" if level else "%rsB")
            for p, s in sums.items():
                s.next = values[p]
        return values

    def turn(a: str, b: str, values: Values) -> Values:
        columns = [tile.load(b, v) for v in range(vectors)]
        values = dict(values)
        for i in range(rows):
            one = f.splat(
                f.set(f"load {type.element}, ptr {f.ahead(a, row_offsets[i])}, align {SIZES[type.element]}"), type
            )
            for v in range(vectors):
                values[i, v] = multiply_add(f, type, one, columns[v], values[i, v])
        return values

    # Prefetch the lines of C while the sums are computed. (Both ends, because a row of a tile may lie in two lines.)
    rows_c = [f.ahead("%C", "0" if i == 0 else f.mul("%rsC", i)) for i in range(rows)]
    for row in rows_c:
        for offset in (0, vectors * type.bytes - 1):
            f.call_void("llvm.prefetch.p0", f"ptr {f.ahead(row, offset)}", "i32 1", "i32 3", "i32 1")
    some = f.compare("sgt", "%K", 0)
    for level in range(1, levels):
        some = f.both(some, f.compare("sgt", f"%K{level}", 0))
    if near:
        tile.values = _unrolled(tile, near, row_offsets, zeros)
    else:
        tile.values = _only_if(f, type, some, zeros, lambda: nest(levels - 1, "%A", "%B", zeros))
    _finish(tile, rows_c, epilogue)
    return f


def _unrolled(tile: Tile, near: str, row_offsets: list[str], values: Values) -> Values:
    """Write the loop over k, four at a time, for a packed B and a near A: packed ("p"), or contiguous along k ("k").

    Addresses of operands are then constant offsets from a few pointers, and fewer instructions separate the
    multiply-adds.
    """
    f, type, size = tile.f, tile.type, SIZES[tile.type.element]
    columns = tile.vectors * type.bytes
    starts = ["%A"] if near == "p" else [f.ahead("%A", offset) for offset in row_offsets]
    b, whole = "%B", f.mul(f.div("%K", _TURNS), _TURNS)
    for turns, start, stop in ((_TURNS, "0", whole), (1, whole, "%K")):
        pointers, at_b = [f.carried("ptr", p) for p in starts], f.carried("ptr", b)
        sums = {p: f.carried(type, value) for p, value in values.items()}
        with f.loop(stop, start=start, step=str(turns), carried=[*pointers, at_b, *sums.values()]):
            new = {p: s.name for p, s in sums.items()}
            for u in range(turns):
                row = [tile.load(f.ahead(at_b.name, u * columns), v) for v in range(tile.vectors)]
                for i in range(tile.rows):
                    place = (
                        (pointers[0].name, (u * tile.rows + i) * size) if near == "p" else (pointers[i].name, u * size)
                    )
                    one = f.splat(f.load(Vector(type.element), f.ahead(*place)), type)
                    for v in range(tile.vectors):
                        new[i, v] = multiply_add(f, type, one, row[v], new[i, v])
            for pointer in pointers:
                pointer.next = f.ahead(pointer.name, turns * size * (tile.rows if near == "p" else 1))
            at_b.next = f.ahead(at_b.name, turns * columns)
            for p, s in sums.items():
                s.next = new[p]
        starts, b, values = [p.name for p in pointers], at_b.name, {p: s.name for p, s in sums.items()}
    return values


def handed_on(parameters: str, changed: dict[str, str] | None = None) -> list[str]:
    """Return the parameters of a function as the arguments of another, some of them changed."""
    pairs = [(word.split()[0], word.split()[-1]) for word in parameters.split(", ")]
    return [f"{type} {(changed or {}).get(name, name)}" for type, name in pairs]


def multiply_add(f: Function, type: Vector, a: str, b: str, c: str) -> str:
    """Return a * b + c, with one rounding if the processor has that instruction."""
    return f.call(type, f"llvm.fmuladd.{type.suffix}", f"{type} {a}", f"{type} {b}", f"{type} {c}")


def _finish(tile: Tile, rows: list[str], epilogue: Epilogue | None) -> None:
    """Add to C if requested, run the epilogue on the sums if these were the last k, and store."""
    f = tile.f

    def added() -> Values:
        return {
            (i, v): f.set(f"fadd {tile.type} {value}, {tile.load(rows[i], v)}") for (i, v), value in tile.values.items()
        }

    def changed() -> Values:
        assert epilogue is not None
        epilogue(tile)
        return tile.values

    for bit, change in [(ACCUMULATE, added), *([(LAST, changed)] if epilogue else [])]:
        asked = f.set(f"icmp ne i64 {f.set(f'and i64 %mode, {bit}')}, 0")
        tile.values = _only_if(f, tile.type, asked, dict(tile.values), change)
    for (i, v), value in tile.values.items():
        tile.store(value, rows[i], v)
    f.returns()


def _only_if(f: Function, type: Vector, condition: str, values: Values, change: Callable[[], Values]) -> Values:
    """Return the values, changed if an i1 holds."""
    then, after, before = f.fresh("then"), f.fresh("after"), f.block
    f.branch(condition, then, after)
    f.label(then)
    changed = change()
    end = f.block
    f.jump(after)
    f.label(after)
    return {p: f.set(f"phi {type} [{changed[p]}, %{end}], [{value}, %{before}]") for p, value in values.items()}
