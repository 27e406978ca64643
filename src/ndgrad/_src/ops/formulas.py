"""Elementwise formulas, recorded by running a rule on symbols, and compiled to native kernels.

A rule (`mean * beta + grad * (1 - beta)`) is written once, with operators and methods. On arrays it needs a pass and a
temporary for each step. Run once on symbols it records a formula, whose kernel needs only one pass:

    formula = Formula()
    mean, grad = formula.input(), formula.input()
    formula.signature([mean * 0.9 + grad * 0.1])

Numbers in a formula are not part of its signature. A kernel receives them when it runs, so one kernel serves every step
of an optimizer. Unsupported operations on symbols raise `NoFormula`, and the rule then runs on arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ndgrad._src.ops.operators import Recorded
from ndgrad._src.ops.table import table
from ndgrad._src.ops.vocabulary import find

#: Kinds of operands of a node: another node, or a number given when the kernel runs.
NODE, NUMBER = 0, 1
Reference = tuple[int, int]


class Node(NamedTuple):
    """One op of a formula; an input has the op "". Settings that are floats are numbers of the formula."""

    op: str
    operands: tuple[Reference, ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()
    numbers: tuple[tuple[str, int], ...] = ()


class Signature(NamedTuple):
    """A formula without its numbers."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    numbers: int

    @property
    def inputs(self) -> list[int]:
        """Return the nodes that are operands."""
        return [n for n, node in enumerate(self.nodes) if not node.op]


class NoFormula(Exception):
    """The rule uses an operation that formulas do not support."""


@functools.cache
def _takes_booleans(name: str) -> bool:
    op = find(name)
    return op.of_truths or not {"condition", "mask"}.isdisjoint(op.args)


@functools.cache
def _returns_booleans(name: str) -> bool:
    op = table.get(name)  # None for an input, and for what a kernel reads along rows
    return op is not None and op.returns_bool


class Formula:
    """A formula being recorded."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.numbers: list[float] = []

    def input(self) -> Symbol:
        """Return a symbol for the next operand; operands are numbered in order."""
        return self.node(Node(""))

    def node(self, node: Node) -> Symbol:
        self.nodes.append(node)
        return Symbol(self, len(self.nodes) - 1)

    def apply(self, op: str, *operands: Any, **settings: Any) -> Symbol:
        """Record an op of the table on symbols and numbers."""
        references: tuple[Reference, ...] = tuple([self._reference(x) for x in operands])
        if not _takes_booleans(op):
            for kind, number in references:
                if kind == NODE and _returns_booleans(self.nodes[number].op):
                    raise NoFormula(f"{op} of booleans")
        if not settings:  # fast path: optimizer rules are recorded again in each step
            return self.node(Node(op, references))
        others = tuple([(name, value) for name, value in settings.items() if value.__class__ is not float])
        floats = [(name, value) for name, value in settings.items() if value.__class__ is float]
        numbers = tuple([(name, self._reference(value)[1]) for name, value in floats])
        return self.node(Node(op, references, others, numbers))

    def _reference(self, x: Any) -> Reference:
        if x.__class__ is Symbol:
            return (NODE, x.number)
        if isinstance(x, (float, int)) and not isinstance(x, bool):
            self.numbers.append(float(x))
            return (NUMBER, len(self.numbers) - 1)
        raise NoFormula(type(x).__name__)

    def signature(self, outputs: Sequence[Symbol]) -> Signature:
        return Signature(tuple(self.nodes), tuple([s.number for s in outputs]), len(self.numbers))


class Symbol(Recorded):
    """An array or a tensor in a formula: the node with this number. A write changes the number."""

    def __init__(self, formula: Formula, number: int) -> None:
        self.formula = formula
        self.number = number

    def _record(self, op: str, *operands: Any) -> Symbol:
        return self.formula.apply(op, *operands)

    @property
    def is_input(self) -> bool:
        return not self.formula.nodes[self.number].op

    def maximum(self, other: Any) -> Symbol:
        return self.formula.apply("maximum", self, other)

    def minimum(self, other: Any) -> Symbol:
        return self.formula.apply("minimum", self, other)

    def sqrt(self) -> Symbol:
        return self.formula.apply("sqrt", self)

    def abs(self) -> Symbol:
        return self.formula.apply("abs", self)

    def sign(self) -> Symbol:
        return self.formula.apply("sign", self)

    def detach(self) -> Symbol:
        return Symbol(self.formula, self.number)

    clone = detach

    def clamp(self, min: float, max: float) -> Symbol:
        return self.maximum(min).minimum(max)

    def masked_fill(self, mask: Symbol, value: float) -> Symbol:
        return self.formula.apply("masked_fill", self, mask, value)

    def add_(self, other: Any) -> Symbol:
        self.number = (self + other).number
        return self

    def mul_(self, other: Any) -> Symbol:
        self.number = (self * other).number
        return self

    def __bool__(self) -> bool:
        raise NoFormula("a branch on values")

    def __getattr__(self, name: str) -> Any:
        raise NoFormula(name)


class Words:
    """The vocabulary of rules (ndgrad._src.ops.vocabulary) on symbols."""

    raw = False
    owns = False

    def __init__(self, formula: Formula) -> None:
        self._apply = formula.apply

    def conj(self, x: Any) -> Any:
        return x

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._apply, name.removesuffix("_"))
