"""Products with one to three rows or columns. Each number of the large matrix is used once or a few times, so reading
it dominates the cost.

There are two orders, according to the direction in which the large matrix X is contiguous. Y is the narrow one, of 1, 2
or 3 vectors of K numbers:

    dots   X is contiguous along k:     out[i, n] = sum_k X[i, k] Y[n, k],     vectors along k, four rows of X at a time
    sums   X is contiguous along i:     out[n, i] += X[k, i] Y[n, k]           vectors along i, several rows k of X at a time

Both read X from front to back, in a few streams that the processor prefetches.
"""

from __future__ import annotations

from typing import NamedTuple

from ndgrad._src.compiler.kernels.tiles import handed_on, multiply_add
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector, number

#: Maximum number of rows or columns of a narrow operand.
NARROW = 3


def thin_functions(prefix: str, type: Vector) -> list[Function]:
    """Return `{prefix}_dots` and `{prefix}_sums`, each for any narrow operand."""
    parts = [_dots_store(prefix, type), _dots(prefix, type, 1, 1), _sums(prefix, type, 1, 1)]
    for narrow in range(1, NARROW + 1):
        parts += [_dots(prefix, type, 4, narrow), _sums(prefix, type, _depth(narrow), narrow)]
    return [*parts, _all_dots(prefix), _all_sums(prefix)]


def _depth(narrow: int) -> int:
    """Return the number of rows of X that are read at once: their numbers of Y and the sums have to fit the registers.
    """
    return 8 if narrow == 1 else 4


# ----- along k -----

_DOTS = "i64 %K, ptr %X, i64 %rsX, ptr %Y, i64 %rsY, ptr %O, i64 %rsO, i64 %csO, i64 %accumulate"


def _dots(prefix: str, type: Vector, rows: int, narrow: int) -> Function:
    """Write out[i, n] (+)= sum_k X[i, k] Y[n, k] for a few rows; all strides in bytes, those along k are one element.
    """
    f = Function(f"{prefix}_dots_{rows}x{narrow}", _DOTS, linkage="internal", attributes="nounwind")
    size, lanes = SIZES[type.element], type.lanes
    together = max(1, 8 // (rows * narrow))  # vectors per turn: eight sums hide the latency of a multiply-add
    xs = [f.ahead("%X", "0" if i == 0 else f.mul("%rsX", i)) for i in range(rows)]
    ys = [f.ahead("%Y", "0" if n == 0 else f.mul("%rsY", n)) for n in range(narrow)]
    places = [(i, n, u) for i in range(rows) for n in range(narrow) for u in range(together)]
    sums = {p: f.carry(type, "zeroinitializer") for p in places}
    whole = f.mul(f.div("%K", lanes * together), lanes * together)
    with f.loop(whole, step=str(lanes * together), carried=list(sums.values())) as k:
        offset = f.mul(k, size)
        for u in range(together):
            y = [f.load(type, f.ahead(f.ahead(p, offset), u * type.bytes)) for p in ys]
            for i in range(rows):
                x = f.load(type, f.ahead(f.ahead(xs[i], offset), u * type.bytes))
                for n in range(narrow):
                    sums[i, n, u].next = multiply_add(f, type, x, y[n], sums[i, n, u].name)
    tails = {(i, n): f.carry(type, sums[i, n, 0].name) for i in range(rows) for n in range(narrow)}
    with f.loop("%K", start=whole, step=str(lanes), carried=list(tails.values())) as k:
        few = f.first_lanes(type, f.sub("%K", k))
        offset = f.mul(k, size)
        y = [f.load_masked(type, f.ahead(p, offset), few) for p in ys]
        for i in range(rows):
            x = f.load_masked(type, f.ahead(xs[i], offset), few)
            for n in range(narrow):
                tails[i, n].next = multiply_add(f, type, x, y[n], tails[i, n].name)
    for i in range(rows):
        for n in range(narrow):
            total = tails[i, n].name
            for u in range(1, together):
                total = f.set(f"fadd {type} {total}, {sums[i, n, u].name}")
            place = f.ahead(f.ahead("%O", "0" if i == 0 else f.mul("%rsO", i)), "0" if n == 0 else f.mul("%csO", n))
            f.call_void(f"{prefix}_dots_store", f"{type} {total}", f"ptr {place}", "i64 %accumulate")
    f.returns()
    return f


def _dots_store(prefix: str, type: Vector) -> Function:
    """Store the sum of a vector's lanes, or add it to memory."""
    f = Function(
        f"{prefix}_dots_store",
        f"{type} %total, ptr %place, i64 %accumulate",
        linkage="internal",
        attributes="nounwind noinline",
    )
    one = Vector(type.element)
    value = lanes_sum(f, type, "%total")
    with f.when(f.compare("eq", "%accumulate", 0)):
        f.store(one, number(type.element, 0.0), "%place")
    f.store(one, f.set(f"fadd {one} {value}, {f.load(one, '%place')}"), "%place")
    f.returns()
    return f


def lanes_sum(f: Function, type: Vector, value: str) -> str:
    """Return the sum of all lanes, by halves."""
    lanes = type.lanes
    while lanes > 1:
        half = Vector(type.element, lanes // 2)
        low, high = (
            f.set(f"shufflevector {Vector(type.element, lanes)} {value}, {Vector(type.element, lanes)} poison, "
                  f"<{half.lanes} x i32> <{', '.join(f'i32 {n + first}' for n in range(half.lanes))}>")
            for first in (0, half.lanes)
        )  # fmt: skip
        vector = f"<{half.lanes} x {type.element}>"
        value = f.set(f"fadd {vector} {low}, {high}")
        lanes = half.lanes
    return f.set(f"extractelement <1 x {type.element}> {value}, i64 0") if type.lanes > 1 else value


def _all_dots(prefix: str) -> Function:
    """Write all rows of X: four at a time, then the rest one by one."""
    f = Function(f"{prefix}_dots", f"i64 %rows, i64 %narrow, {_DOTS}", linkage="internal", attributes="nounwind")
    fours = f.mul(f.div("%rows", 4), 4)
    with f.loop(fours, step="4") as i:
        x, out = f.ahead("%X", f.mul(i, "%rsX")), f.ahead("%O", f.mul(i, "%rsO"))
        for narrow in range(1, NARROW + 1):
            with f.when(f.compare("eq", "%narrow", narrow)):
                f.call_void(f"{prefix}_dots_4x{narrow}", *handed_on(_DOTS, {"%X": x, "%O": out}))
    with f.loop("%rows", start=fours) as i, f.loop("%narrow") as n:
        places = {"%X": f.ahead("%X", f.mul(i, "%rsX")), "%Y": f.ahead("%Y", f.mul(n, "%rsY"))}
        places["%O"] = f.ahead(f.ahead("%O", f.mul(i, "%rsO")), f.mul(n, "%csO"))
        f.call_void(f"{prefix}_dots_1x1", *handed_on(_DOTS, places))
    f.returns()
    return f


# ----- along i -----

_SUMS = "i64 %N, ptr %X, i64 %rsX, ptr %Y, i64 %rsY, i64 %csY, ptr %O, i64 %rsO, i64 %accumulate"


def _sums(prefix: str, type: Vector, deep: int, narrow: int) -> Function:
    """Write out[n, i] (+)= sum of `deep` rows k of X[k, i] Y[n, k]."""
    f = Function(f"{prefix}_sums_{deep}x{narrow}", _SUMS, linkage="internal", attributes="nounwind")
    size, lanes = SIZES[type.element], type.lanes
    xs = [f.ahead("%X", "0" if k == 0 else f.mul("%rsX", k)) for k in range(deep)]
    outs = [f.ahead("%O", "0" if n == 0 else f.mul("%rsO", n)) for n in range(narrow)]
    factors = {}
    for n in range(narrow):
        row = f.ahead("%Y", "0" if n == 0 else f.mul("%rsY", n))
        for k in range(deep):
            place = f.ahead(row, "0" if k == 0 else f.mul("%csY", k))
            factors[n, k] = f.splat(f.load(Vector(type.element), place), type)
    adds = f.compare("ne", "%accumulate", 0)

    def turn(offset: str, mask: str | None) -> None:
        def load(place: str) -> str:
            return f.load(type, place) if mask is None else f.load_masked(type, place, mask)

        places = [f.ahead(out, offset) for out in outs]
        before, there, after = f.block, f.fresh("there"), f.fresh("sum")
        f.branch(adds, there, after)
        f.label(there)
        old = [load(p) for p in places]
        f.jump(after)
        f.label(after)
        sums = [f.set(f"phi {type} [{value}, %{there}], [zeroinitializer, %{before}]") for value in old]
        for k in range(deep):
            x = load(f.ahead(xs[k], offset))
            sums = [multiply_add(f, type, x, factors[n, k], value) for n, value in enumerate(sums)]
        for place, value in zip(places, sums):
            if mask is None:
                f.store(type, value, place)
            else:
                f.store_masked(type, value, place, mask)

    whole = f.mul(f.div("%N", lanes), lanes)
    with f.loop(whole, step=str(lanes)) as i:
        turn(f.mul(i, size), None)
    rest = f.sub("%N", whole)
    with f.when(f.compare("sgt", rest, 0)):
        turn(f.mul(whole, size), f.first_lanes(type, rest))
    f.returns()
    return f


def _all_sums(prefix: str) -> Function:
    """Write all k: several rows of X at a time, then one. From the second turn on, results are added to memory."""
    f = Function(f"{prefix}_sums", f"i64 %K, i64 %narrow, {_SUMS}", linkage="internal", attributes="nounwind")
    deep = f.choose(f.compare("eq", "%narrow", 1), _depth(1), _depth(2))
    whole = f.mul(f.div("%K", deep), deep)

    def places(k: str) -> dict[str, str]:
        again = f.choose(f.compare("sgt", k, 0), 1, "%accumulate")
        return {"%X": f.ahead("%X", f.mul(k, "%rsX")), "%Y": f.ahead("%Y", f.mul(k, "%csY")), "%accumulate": again}

    with f.loop(whole, step=deep) as k:
        here = places(k)
        for narrow in range(1, NARROW + 1):
            with f.when(f.compare("eq", "%narrow", narrow)):
                f.call_void(f"{prefix}_sums_{_depth(narrow)}x{narrow}", *handed_on(_SUMS, here))
    with f.loop("%K", start=whole) as k, f.loop("%narrow") as n:
        here = places(k)
        here |= {"%Y": f.ahead(here["%Y"], f.mul(n, "%rsY")), "%O": f.ahead("%O", f.mul(n, "%rsO"))}
        f.call_void(f"{prefix}_sums_1x1", *handed_on(_SUMS, here))
    f.returns()
    return f


# ----- selection -----


class ThinCase(NamedTuple):
    """The condition for a narrow product, and its X, Y and result: strides in bytes, `y_k` that of Y along k."""

    condition: str
    kind: str
    length: str
    narrow: str
    x: str
    x_row: str | int
    y: str
    y_row: str | int
    y_k: str | int
    out_row: str | int
    out_column: str | int


def thin_product_function(name: str, prefix: str, type: Vector, parameters: str) -> Function:
    """Write `i1 name(parameters)`: compute the product of a block if it is narrow, and return true if it was.

    The parameters are those of gemm.py's blocks.
    """
    f = Function(name, parameters, "i1", linkage="internal", attributes="nounwind")
    size = SIZES[type.element]
    for case in _thin_cases(f, size, type.lanes):
        take, other = f.fresh(case.kind), f.fresh("other")
        f.branch(case.condition, take, other)
        f.label(take)
        if case.kind == "dots":
            _call_dots(f, prefix, type, case)
        else:
            _call_sums(f, prefix, case)
        f.returns("i1 true")
        f.label(other)
    f.returns("i1 false")
    return f


def _thin_cases(f: Function, size: int, lanes: int) -> list[ThinCase]:
    """Return the narrow products, with the code of their conditions."""
    few_rows, few_columns = f.compare("sle", "%M", NARROW), f.compare("sle", "%N", NARROW)
    deep, some_k = f.compare("sge", "%K", 2 * lanes), f.compare("sgt", "%K", 0)
    wide, high = (f.both(some_k, f.compare("sge", n, 8 * lanes)) for n in ("%N", "%M"))
    near = {stride: f.compare("eq", f"%{stride}", size) for stride in ("rsA", "csA", "rsB", "csB", "rsC")}
    column = f.both(f.both(f.compare("eq", "%N", 1), near["rsA"]), f.both(high, near["rsC"]))
    few_by_k = f.both(f.both(few_columns, near["csA"]), deep)
    k_by_few = f.both(f.both(few_rows, near["rsB"]), deep)
    rows_by_wide = f.both(f.both(few_rows, near["csB"]), wide)
    return [
        ThinCase(few_by_k, "dots", "%M", "%N", "%A", "%rsA", "%B", "%csB", "%rsB", "%rsC", size),
        ThinCase(k_by_few, "dots", "%N", "%M", "%B", "%csB", "%A", "%rsA", "%csA", size, "%rsC"),
        ThinCase(rows_by_wide, "sums", "%N", "%M", "%B", "%rsB", "%A", "%rsA", "%csA", "%rsC", size),
        ThinCase(column, "sums", "%M", "1", "%A", "%csA", "%B", 0, "%rsB", 0, size),
    ]


def _call_dots(f: Function, prefix: str, type: Vector, case: ThinCase) -> None:
    """Call dot products with vectors along k. The narrow operand is copied if its numbers are not contiguous."""
    size, one = SIZES[type.element], Vector(type.element)
    far = f.compare("ne", case.y_k, size)
    with f.when(far), f.loop(case.narrow) as n, f.loop("%K") as k:
        place = f.ahead(f.ahead(case.y, f.mul(n, case.y_row)), f.mul(k, case.y_k))
        f.store(one, f.load(one, place), f.ahead("%buffer", f.mul(f.add(f.mul(n, "%K"), k), size)))
    y = [f"ptr {f.choose(far, '%buffer', case.y, 'ptr')}", f"i64 {f.choose(far, f.mul('%K', size), case.y_row)}"]
    sizes = [f"i64 {case.length}", f"i64 {case.narrow}", "i64 %K"]
    x, out = [f"ptr {case.x}", f"i64 {case.x_row}"], ["ptr %C", f"i64 {case.out_row}"]
    f.call_void(f"{prefix}_dots", *sizes, *x, *y, *out, f"i64 {case.out_column}", "i64 %accumulate")


def _call_sums(f: Function, prefix: str, case: ThinCase) -> None:
    """Call sums of rows, each multiplied by a number."""
    x, out = [f"ptr {case.x}", f"i64 {case.x_row}"], ["ptr %C", f"i64 {case.out_row}"]
    y = [f"ptr {case.y}", f"i64 {case.y_row}", f"i64 {case.y_k}"]
    f.call_void(
        f"{prefix}_sums", "i64 %K", f"i64 {case.narrow}", f"i64 {case.length}", *x, *y, *out, "i64 %accumulate"
    )
