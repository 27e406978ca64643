"""Terms: values of a program that is being written, with operators, for bodies and rules of ops.

A body or a rule (ndgrad._src.ops.composite, table) runs on arrays, on tensors or on terms. On terms each op that it
uses becomes an instruction:

    walk = ...                                       # a Walk (rewrite.py)
    y = op.body(TermOps(walk), [Term(walk, x)], {})  # emits the body's instructions

Settings that a call omits have the defaults of the op's block. A term has no values: a body that branches on one raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.rewrite import Rules, Walk
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.ops.operators import Recorded


class Term(Recorded):
    """A value of the program that a walk writes."""

    __slots__ = ("value", "walk")

    def __init__(self, walk: Walk, value: Value) -> None:
        self.walk = walk
        self.value = value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return len(self.value.shape)

    @property
    def size(self) -> int:
        return self.value.size

    def _record(self, op: str, *operands: Any) -> Term:
        found: Term = TermOps(self.walk).apply(op, *operands)
        return found

    def __matmul__(self, other: Any) -> Term:
        found: Term = self._record("matmul", self, other)
        return found

    def __getitem__(self, index: Any) -> Term:
        return TermOps(self.walk).apply("getitem", self, index=index if isinstance(index, tuple) else (index,))

    def __bool__(self) -> bool:
        raise TypeError("a body or rule branches on a value, which a program does not have yet [nd-bug]")

    def __len__(self) -> int:
        return self.shape[0]


class TermOps:
    """The vocabulary of bodies and rules (ndgrad._src.ops.vocabulary) on terms."""

    raw = False
    owns = False

    def __init__(self, walk: Walk) -> None:
        self.walk = walk

    def apply(self, name: str, *arguments: Any, **settings: Any) -> Any:
        """Emit an op, and return a term for its result, or a tuple of terms."""
        op = op_named(name)
        if not any(a.__class__ is Term for a in arguments):  # numbers
            return op.forward_for(np)(*arguments, **settings)
        given = [a.value if a.__class__ is Term else a for a in arguments]
        results = self.walk.emit_all(op, *given, **{**op.settings, **settings})
        terms = tuple([Term(self.walk, value) for value in results])
        return terms[0] if op.outputs == 1 else terms

    def conj(self, x: Term) -> Term:
        return self.apply("conj", x) if x.dtype.kind == "c" else x

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **settings: self.apply(name.removesuffix("_"), *arguments, **settings)


def as_terms(walk: Walk, arguments: Iterable[Any]) -> list[Any]:
    """Return the arguments of an instruction with terms in place of values."""
    return [Term(walk, a) if a.__class__ is Value else a for a in arguments]


def write_program(name: str, function: Callable[..., Any], inputs: Sequence[Any]) -> Program:
    """Return the program of a function of a vocabulary and terms.

    `inputs` have a shape and a dtype each, or are passed as they are. The function returns one term or a tuple in which
    None stands for no result.
    """
    walk = Walk(Program([], [], name=name), Rules())
    values = [Value(tuple(x.shape), np.dtype(x.dtype)) if hasattr(x, "dtype") else x for x in inputs]
    out = function(TermOps(walk), *as_terms(walk, values))
    outputs = [t.value for t in (out if isinstance(out, tuple) else (out,)) if t is not None]
    return Program(
        [v for v in values if v.__class__ is Value], outputs, walk.instructions, walk.constants, name
    )
