"""Compute the matrix products of all rounds of a loop at once, outside the loop.

    in each round     y = matmul(row of x, w)             ->   before the loop, matmul(x, w); each round reads a row
    in each round     s = add(s, matmul(permute(a), g))   ->   after the loop, s + matmul of all a and all g, concatenated by rows
    in each round     s = add(s, sum(g, dim=(0,)))        ->   after the loop, s + sum of all g, if these are stored anyway
    of every round    y = matmul(g, w)                    ->   after the loop, matmul of all g, concatenated by rows, with w

A recurrent network takes its inputs through its weights one step at a time, and adds up the gradients of its weights
step by step: small products, and a carried sum as large as the weights. One large product does the same work several
times as fast.

It reassociates: sums over rounds are added in another order, and products of many rows may add in another order than
products of few.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ndgrad._src.compiler.passes.basic_index import Place, is_whole, written
from ndgrad._src.compiler.passes.loop_parts import LoopParts
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Value

#: Maximum bytes of the values of all rounds that are stored for a product after the loop.
MOST_BYTES = 64 << 20

hoisting = Rules()


@hoisting.rule("loop")
def _hoist(walk: Walk, instruction: Instruction) -> Rewritten:
    parts = _Parts(instruction)
    if not parts.products_before(walk) + parts.products_after() + parts.sums_after():
        return None
    return parts.emit(walk)


@dataclass(eq=False, slots=True)
class _Sum:
    """A carried sum that is computed after the loop: its start, and the values of the body whose rows are multiplied or
    added.
    """

    result: Value
    start: Value
    left: Value | None
    right: Value


class _Parts(LoopParts):
    """A loop whose products are moved out."""

    def __init__(self, instruction: Instruction) -> None:
        super().__init__(instruction)
        self.sums: list[_Sum] = []
        #: products of a value of every round with an invariant: (the loop's result, the value, the other factor)
        self.late: list[tuple[Value, Value, Value]] = []

    # ----- before the loop --------------------------------------------------------------------------------------------

    def products_before(self, walk: Walk) -> int:
        """Move products of rows with invariants before the loop. Return their number."""
        found = 0
        for instruction in self.body:
            if instruction.op.name != "matmul":
                continue
            a, b = instruction.arguments
            if a in self.rows and b in self.fixed and a.ndim in (1, 2) and b.ndim == 2:
                array, first, step = self.rows[a]
                array, first, step = self._needed(walk, array, first, step)
                n = array.shape[0]
                flat = array if a.ndim == 1 else walk.reshaped(array, (n * a.shape[0], a.shape[1]))
                product = walk.emit("matmul", flat, self.fixed[b])
                self.rows[instruction.result] = walk.reshaped(product, (n, *instruction.result.shape)), first, step
                found += 1
        self.body = [i for i in self.body if not any(v in self.rows for v in i.results)]
        return found

    def _needed(self, walk: Walk, array: Value, first: int, step: int) -> tuple[Value, int, int]:
        """Return the rows that the loop reads, if they are few of many."""
        if 4 * self.count >= 3 * array.shape[0]:
            return array, first, step
        return _rows(walk, array, first, self.count, step), 0, 1

    # ----- after the loop ---------------------------------------------------------------------------------------------

    def products_after(self) -> int:
        """Move products with invariants after the loop, if the body does not read them. Return their number."""
        made, uses = self.made(), self.uses()
        found = []
        for v, result in self.stacks:
            term = made.get(v)
            if term is None or term.op.name != "matmul" or uses[v] != 1:
                continue
            g, b = term.arguments
            if (
                g.ndim == 2
                and b.ndim == 2
                and b in self.fixed
                and g not in self.fixed
                and self.count * g.nbytes <= MOST_BYTES
            ):
                found.append((result, g, self.fixed[b]))
        gone = {result for result, _, _ in found}
        self.stacks = [(v, result) for v, result in self.stacks if result not in gone]
        self.late += found
        return len(found)

    def sums_after(self) -> int:
        """Move carried sums of products, and of sums, after the loop. Return their number."""
        made, uses = self.made(), self.uses()
        wanted = {v for v, _ in self.stacks} | {g for _, g, _ in self.late}
        found = []
        for begin, (following, result) in self.next.items():
            addition = made.get(following)
            if addition is None or addition.op.name != "add" or uses.get(begin) != 1 or uses[following] != 1:
                continue
            terms = [a for a in addition.arguments if a is not begin]
            term = made.get(terms[0]) if len(terms) == 1 and terms[0].__class__ is Value else None
            if term is None or uses[terms[0]] != 1 or terms[0].shape != begin.shape:
                continue
            pair = self._factors(term, made)
            if pair is not None and (pair[0] is not None or pair[1] in wanted):
                found.append(_Sum(result, self.starts[begin], *pair))
                wanted.update(v for v in pair if v is not None)
                del self.starts[begin]
        self.next = {v: n for v, n in self.next.items() if v in self.starts}
        self.sums += found
        return len(found)

    def _factors(self, term: Instruction, made: dict[Value, Instruction]) -> tuple[Value | None, Value] | None:
        """Return a and g of matmul(permute(a), g), or None and g for the sum of g's rows."""
        if term.op.name == "matmul":
            a, g = term.arguments
            turned = made.get(a)
            if turned is None or turned.op.name != "permute" or a.ndim != 2 or g.ndim != 2:
                return None
            (a,) = turned.arguments
            bytes_ = self.count * sum(v.nbytes for v in (a, g) if v not in self.rows)
            return (a, g) if bytes_ <= MOST_BYTES and a not in self.fixed and g not in self.fixed else None
        if (
            term.op.name == "sum"
            and term.settings["dim"] == (0,)
            and not term.settings["keepdim"]
            and term.settings["dtype"] is None
        ):
            (g,) = term.arguments
            return (None, g) if g.ndim == 2 else None
        return None

    # ----- the remaining loop -----------------------------------------------------------------------------------------

    def emit(self, walk: Walk) -> tuple[Value, ...]:
        """Emit the loop and return the values of its results."""
        stacked = dict(self.stacks)
        factors = [v for total in self.sums for v in (total.left, total.right) if v is not None]
        for v in [*factors, *[g for _, g, _ in self.late]]:
            if v not in self.rows and v not in stacked:
                stacked[v] = Value((self.count, *v.shape), v.dtype)
        extra = [(v, result) for v, result in stacked.items() if all(result is not r for _, r in self.stacks)]
        self.stacks += extra
        walk.append(self.rebuilt())
        totals = {total.result: self._total(walk, total, stacked) for total in self.sums}
        for result, g, b in self.late:
            totals[result] = walk.reshaped(walk.emit("matmul", self._below(walk, g, stacked), b), result.shape)
        return tuple([totals.get(v, v) for v in self.instruction.results])

    def _total(self, walk: Walk, total: _Sum, stacked: dict[Value, Value]) -> Value:
        below = functools.partial(self._below, walk, stacked=stacked)
        if total.left is None:
            made = walk.emit("sum", below(total.right), dim=(0,), keepdim=False, dtype=None)
        else:
            made = walk.emit("matmul", walk.emit("permute", below(total.left), dims=(1, 0)), below(total.right))
        return walk.emit("add", total.start, made)

    def _below(self, walk: Walk, v: Value, stacked: dict[Value, Value]) -> Value:
        """Return a value of all rounds, with the rows of all rounds concatenated."""
        array = _rows(walk, *self.rows[v][:2], self.count, self.rows[v][2]) if v in self.rows else stacked[v]
        return walk.reshaped(array, (self.count * v.shape[0], v.shape[1]))


def _rows(walk: Walk, array: Value, first: int, count: int, step: int) -> Value:
    index: tuple[Place, ...] = ((first, count, step), *[(0, n, 1) for n in array.shape[1:]])
    return array if is_whole(index, array.shape) else walk.emit("getitem", array, index=written(index))
