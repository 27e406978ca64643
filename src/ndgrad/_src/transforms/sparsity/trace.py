"""Run a function once to find the inputs on which each result depends.

Note [Ids as tangents]
Forward mode already carries data with every element of a tensor: its tangent. A trace opens a dual level and stores
the ids of sets there (see _src.transforms.sparsity.sets). Views of a tensor are then views of its ids, a write into a
buffer writes ids into the buffer's ids, and transforms inside the traced function (such as an inner grad) carry them
like tangents, without further code. Only ops combine ids by rules of their own. Ids are floats, exact to 2^53. Those
of a complex tensor are complex: its real and imaginary part are separate elements, so that real, imag and
view_as_real are views too.

The function runs at one point. Its Python code takes the branches of that point. Choices inside of ops (where, sort,
gather by a computed index) are covered for all points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays.integers import count_places
from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.dispatch import dispatch
from ndgrad._src.core.layout import lay_out_like
from ndgrad._src.core.modes import section, thread
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, wrap
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad._src.interpreters.forward_ad import (
    dual_level,
    dual_view,
    interpreters,
    make_dual,
    save_tangents,
    set_tangent,
    strip,
    tangent_of,
)
from ndgrad._src.transforms.sparsity import contractions, moves, reductions  # noqa: F401  (they register their rules)
from ndgrad._src.transforms.sparsity.rules import Array, Call, Operand, rule_for
from ndgrad._src.transforms.sparsity.sets import DISCRETE, Ids, IndexSets, distinct

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload


class Pattern(NamedTuple):
    """The entries of a matrix that may differ from zero, in compressed rows: those of row i are
    indices[starts[i] : starts[i + 1]]."""

    shape: tuple[int, int]
    starts: Ids
    indices: Ids

    @property
    def rows(self) -> Ids:
        """Return the row of each entry."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int64), np.diff(self.starts))

    @property
    def nnz(self) -> int:
        return len(self.indices)

    def transpose(self) -> Pattern:
        return pattern_of(self.indices, self.rows, (self.shape[1], self.shape[0]))

    def symmetric_part(self) -> Pattern:
        """Return the entries whose mirror image is an entry too."""
        n = self.shape[0]
        there = self.rows * n + self.indices
        common = np.intersect1d(there, self.indices * n + self.rows, assume_unique=True)
        return pattern_of(common // n, common % n, self.shape)


def pattern_of(rows: Ids, columns: Ids, shape: tuple[int, int]) -> Pattern:
    """Return the pattern with entries at (rows, columns), in any order and possibly repeated."""
    keys = distinct(np.asarray(rows, np.int64) * max(shape[1], 1) + columns)
    counts = count_places(keys // max(shape[1], 1), shape[0])
    return Pattern(shape, np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]), keys % max(shape[1], 1))


@section
def trace(func: Callable[..., Any], inputs: Sequence[Any]) -> Pattern:
    """Return the pattern of the Jacobian of func(*inputs): rows are elements of the results, columns elements of the
    inputs."""
    sizes = [math.prod(t.shape) for t in inputs]
    with _tracing(sum(sizes)) as (tracer, level):
        ids = np.split(tracer.sets.singletons(), np.cumsum(sizes, dtype=np.int64)[:-1])
        traced = [
            make_dual(t, tracer.make_tangent(t, part.reshape(tuple(t.shape))), level=level)
            for t, part in zip(inputs, ids, strict=True)
        ]
        return tracer.pattern(tree_flatten(func(*traced))[0])


@contextmanager
def _tracing(columns: int) -> Iterator[tuple[Tracer, int]]:
    with dual_level() as level:
        tracer = interpreters[level] = Tracer(level, IndexSets(columns))
        try:
            yield tracer, level
        finally:
            del interpreters[level]


class Tracer:
    """The interpreter of a dual level whose tangents are ids."""

    def __init__(self, level: int, sets: IndexSets) -> None:
        self.level = level
        self.sets = sets

    # ----- ops --------------------------------------------------------------------------------------------------------

    def run(self, op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if op.view or op.shares_storage:
            return self._view(op, args, settings)
        level = self.level
        primals = tuple(strip(a, level) for a in args)
        out = dispatch(op, primals, settings, settled=True)
        outs = (out,) if op.outputs == 1 else out
        operands = [Operand(_value(p), self._parts(a), self.sets) for p, a in zip(primals, args, strict=True)]
        call = Call(op, operands, settings, [innermost_array(o) for o in outs], self.sets)
        made = rule_for(op)(call)
        if isinstance(made, (np.ndarray, np.generic)):  # the forward function of an element gives a number
            made = [np.asarray(made)]
        self._attach(outs, made, op.discrete_outputs)
        node = next((o._node for o in outs if o._node is not None), None)
        if node is not None:
            save_tangents(
                node, op, tuple(tangent_of(a, level) for a in args), tuple(tangent_of(o, level) for o in outs), level
            )
        return out

    def _view(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        out = dual_view(op, args, settings)
        if op.shares_storage:  # A detached value has no derivative, but depends on the inputs.
            parts = self._parts(args[0])
            assert parts is not None
            if parts.shape == tuple(out.shape):
                self._attach((out,), (np.minimum(Operand(None, parts, self.sets).ids, DISCRETE),), ())
            else:
                self._attach((out,), (np.full(tuple(out.shape), DISCRETE, np.int64),), ())
        return out

    def run_function(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Payload:
        """Run a custom function. It is opaque, so every output depends on every input."""
        out = cls.apply(*(strip(a, self.level) if isinstance(a, Variable) else a for a in args), **kwargs)
        total = np.zeros((), np.int64)
        for a in args:
            parts = self._parts(a)
            if parts is not None:
                ids = Operand(None, parts, self.sets).ids
                total = self.sets.union(total, self.sets.union_along(ids, tuple(range(ids.ndim))))
        outs = [o for o in (out if isinstance(out, tuple) else (out,)) if isinstance(o, Variable)]
        self._attach(outs, [np.broadcast_to(total, tuple(o.shape)) for o in outs], ())
        return out

    def _attach(self, outs: Sequence[Any], made: Sequence[Array], without_derivative: Any) -> None:
        for number, (o, ids) in enumerate(zip(outs, made, strict=True)):
            if not ids.any():
                continue
            if not is_inexact(np_dtype(o)) or number in without_derivative or not thread.forward_grad_enabled:
                ids = np.minimum(ids.real, DISCRETE)
            set_tangent(o, lay_out_like(o, self.make_tangent(o, ids)), self.level)

    # ----- ids as tensors ---------------------------------------------------------------------------------------------

    def make_tangent(self, like: Variable, ids: Array) -> Any:
        """Return ids as the tangent of the tensor `like`."""
        made: Array
        if np_dtype(like).kind != "c":
            made = ids.real.astype(np.float64)
        elif ids.dtype.kind == "i":
            made = ids + 1j * ids
        else:
            made = ids.astype(np.complex128)
        return wrap(like.tensor_type, np.array(np.broadcast_to(made, tuple(like.shape))))

    def zero(self, base: Variable) -> Variable | None:
        return lay_out_like(base, self.make_tangent(base, np.zeros(tuple(base.shape), np.int64)))

    def _parts(self, a: Payload) -> Array | None:
        tangent = tangent_of(a, self.level)
        # Ids are NumPy arrays on every device.
        return None if tangent is None else np.asarray(innermost_array(tangent))

    def pattern(self, outputs: Sequence[Any]) -> Pattern:
        ids = [np.zeros(0, np.int64)]
        for o in outputs:
            if not isinstance(o, Variable):
                raise TypeError(
                    f"the function of a sparse derivative must return tensors, but returned {type(o).__name__}. "
                    "Return the tensor itself, not a number taken from it. [nd-transform-result]"
                )
            parts = self._parts(o)
            size = math.prod(o.shape)
            ids.append(np.zeros(size, np.int64) if parts is None else Operand(None, parts, self.sets).ids.ravel())
        every = np.concatenate(ids)
        members, owners = self.sets.members(every)
        starts = np.concatenate([[0], np.cumsum(count_places(owners, len(every)), dtype=np.int64)])
        return Pattern((len(every), self.sets.columns), starts, members)


def _value(a: Payload) -> Any:
    """Return the value of an argument in NumPy's memory."""
    if not isinstance(a, Variable):
        return a
    array = innermost_array(a)
    return array if library_of(array) is np else array.get()
