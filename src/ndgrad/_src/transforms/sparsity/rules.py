"""Rules from the sets of an op's arguments to those of its results: their interface, and rules for whole kinds of ops.

A rule gets a `Call` and returns, for every output, an array of ids. The one law: a set may be too large but never too
small, for any values of the inputs. So a rule may use the values of arguments that are constants of the program, and
no others. An op without a rule of its own gets the rule of its kind, or `everything`, by which each element of the
result depends on each element of the arguments.

Rules that only move elements run the op itself on ids and return floats (see Note [Ids as tangents] in
`trace`); rules that combine elements return integers, one set for the real and the imaginary part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, RANDOM, Op, RulesOfOps
from ndgrad._src.transforms.sparsity.sets import CONSTANT, DISCRETE, Ids, IndexSets

if TYPE_CHECKING:
    from ndgrad._typing import Payload

Array = np.ndarray[Any, Any]
#: Ids of the elements of a result, or of each of several results.
ResultIds = Array | Sequence[Array]


class Operand:
    """An argument of an op: its value, and the sets of its elements."""

    def __init__(self, value: Payload, parts: Array | None, sets: IndexSets) -> None:
        self.value = value  # an array, a number, or None for an omitted optional argument
        self.parts = parts  # ids as floats, complex if the value is; None for a constant
        self._sets = sets

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value) if self.value is not None else ()

    @cached_property
    def ids(self) -> Ids:
        """Return one id per element."""
        if self.parts is None:
            return np.zeros(self.shape, np.int64)
        if self.parts.dtype.kind != "c":
            return self.parts.astype(np.int64)
        return self._sets.union(self.parts.real.astype(np.int64), self.parts.imag.astype(np.int64))

    @cached_property
    def depends(self) -> bool:
        """True if the value of any element depends on the inputs."""
        return self.parts is not None and bool(self.parts.any())

    @cached_property
    def may_differ_from_zero(self) -> Array:
        """False for elements that are the constant zero."""
        if self.value is None:
            return np.zeros((), bool)
        return np.asarray((self.ids != CONSTANT) | (np.asarray(self.value) != 0))

    def movable_ids(self) -> Array:
        """Return the ids for a rule that moves elements; zeros for a constant."""
        if self.parts is not None:
            return self.parts
        kind = np.complex128 if np.asarray(self.value).dtype.kind == "c" else np.float64
        return np.zeros(self.shape, kind)


class Call:
    """An op with its arguments and results, as passed to a rule."""

    def __init__(
        self, op: Op, operands: Sequence[Operand], settings: dict[str, Any], outs: Sequence[Any], sets: IndexSets
    ) -> None:
        self.op = op
        self.operands = tuple(operands)
        self.settings = settings
        self.outs = tuple(outs)  # results as raw arrays
        self.sets = sets
        wanted = op.differentiable_positions(len(self.operands))
        self.data = tuple(self.operands[i] for i in wanted)  # differentiable arguments
        self.others = tuple(o for i, o in enumerate(self.operands) if i not in wanted)  # indices, masks

    def __getitem__(self, name: str) -> Operand:
        return self.operands[self.op.args.index(name)]

    @property
    def out_shape(self) -> tuple[int, ...]:
        return tuple(self.outs[0].shape)

    @property
    def choice_depends(self) -> bool:
        """True if an index or a mask depends on the inputs."""
        return any(o.depends for o in self.others)

    def forward(self, *arrays: Any, **changed: Any) -> Any:
        """Run the op's own forward function on other arrays."""
        return self.op.forward_for(np)(*arrays, **{**self.settings, **changed})


Rule = Callable[[Call], ResultIds]

rule: RulesOfOps[Rule] = RulesOfOps("index sets")


def rule_for(op: Op) -> Rule:
    """Return the rule of an op, by its name or by its facts."""
    found = rule.get(op.name)
    if found is not None:
        return found
    if op.jvp is NOT_DIFFERENTIABLE:
        return discrete
    if op.batch is RANDOM:
        # Other random ops pass no gradient on.
        return {"standard_gamma": elementwise, "sample_dirichlet": everything}.get(op.name, discrete)
    if op.elementwise or op.batch == "elementwise":
        return elementwise
    return rule.get_by_fact(op) or everything


# ----- rules for kinds of ops -----------------------------------------------------------------------------------------


def everything(call: Call) -> ResultIds:
    """Make each element of the results depend on each element of the arguments: never too small."""
    sets = call.sets
    total = np.zeros((), np.int64)
    for o in call.data:
        total = sets.union(total, sets.union_along(o.ids, tuple(range(o.ids.ndim))))
    if call.choice_depends:
        total = np.maximum(total, DISCRETE)
    return [np.broadcast_to(total, out.shape) for out in call.outs]


def discrete(call: Call) -> ResultIds:
    """For results without a derivative, record only whether their values depend on the inputs."""
    ids = [np.minimum(o.ids, DISCRETE) for o in call.operands]
    if call.op.elementwise:
        return _broadcast(ids, call.out_shape, call.sets)
    depends = DISCRETE if any(i.any() for i in ids) else CONSTANT
    return [np.full(out.shape, depends, np.int64) for out in call.outs]


def elementwise(call: Call) -> ResultIds:
    """Return the union of the arguments' sets, element by element."""
    ids = [o.ids for o in call.data] + [np.minimum(o.ids, DISCRETE) for o in call.others if o.depends]
    try:
        shape = np.broadcast_shapes(*(i.shape for i in ids), call.out_shape)
    except ValueError:
        return everything(call)
    return _broadcast(ids, shape, call.sets) if shape == call.out_shape else everything(call)


def _broadcast(ids: Sequence[Ids], shape: tuple[int, ...], sets: IndexSets) -> Ids:
    total = np.zeros((), np.int64)
    for i in ids:
        total = sets.union(total, i) if i.any() else total
    return np.broadcast_to(total, shape)


@rule("floor_divide", "trunc_divide", "floor", "ceil", "trunc", "round", "sign")
def _step(call: Call) -> ResultIds:
    """For steps: the derivative is zero wherever it exists."""
    return np.minimum(elementwise(call), DISCRETE)


@rule("zeros_like", "zero", "fill")
def _independent(call: Call) -> ResultIds:
    return np.zeros(call.out_shape, np.int64)


# ----- elementwise ops with more precise rules ------------------------------------------------------------------------


@rule("copysign", "nextafter")
def _follows_first(call: Call) -> ResultIds:
    x, y = call.operands
    return _broadcast([x.ids, np.minimum(y.ids, DISCRETE)], call.out_shape, call.sets)


@rule("heaviside")
def _heaviside(call: Call) -> ResultIds:
    x, values = call.operands
    return _broadcast([np.minimum(x.ids, DISCRETE), values.ids], call.out_shape, call.sets)


@rule("mul")
def _mul(call: Call) -> ResultIds:
    """A factor that is the constant zero makes the product independent of the other."""
    x, y = call.operands
    return call.sets.union(
        np.where(y.may_differ_from_zero, x.ids, CONSTANT), np.where(x.may_differ_from_zero, y.ids, CONSTANT)
    )


@rule("div")
def _div(call: Call) -> ResultIds:
    x, y = call.operands
    return call.sets.union(x.ids, np.where(x.may_differ_from_zero, y.ids, CONSTANT))


@rule("addcmul", "addcdiv")
def _add_product(call: Call) -> ResultIds:
    x, first, second = call.operands
    if call.op.name == "addcmul":
        there = first.may_differ_from_zero & second.may_differ_from_zero
    else:
        there = first.may_differ_from_zero
    if call.settings["value"] == 0:
        there = there & False
    product = np.where(there, call.sets.union(first.ids, second.ids), CONSTANT)
    return np.broadcast_to(call.sets.union(x.ids, product), call.out_shape)


@rule("pow")
def _pow(call: Call) -> ResultIds:
    x, exponent = call.operands
    base = np.where(exponent.may_differ_from_zero, x.ids, CONSTANT)
    return np.broadcast_to(call.sets.union(base, exponent.ids), call.out_shape)


@rule("where")
def _where(call: Call) -> ResultIds:
    """A constant condition selects one argument; other conditions may select either."""
    condition, x, y = call.operands
    if not condition.depends:
        return np.where(condition.value, x.movable_ids(), y.movable_ids())
    either = call.sets.union(call.sets.union(x.ids, y.ids), np.minimum(condition.ids, DISCRETE))
    either = np.where(x.may_differ_from_zero | y.may_differ_from_zero, either, CONSTANT)
    return np.where(condition.ids != CONSTANT, either, np.where(condition.value, x.ids, y.ids))


@rule("masked_fill")
def _masked_fill(call: Call) -> ResultIds:
    x, mask, y = call.operands
    either = call.sets.union(call.sets.union(x.ids, y.ids), np.minimum(mask.ids, DISCRETE))
    either = np.where(x.may_differ_from_zero | y.may_differ_from_zero, either, CONSTANT)
    return np.where(mask.ids != CONSTANT, either, np.where(mask.value, y.ids, x.ids))


@rule("keep", "native_dropout")
def _keep(call: Call) -> ResultIds:
    x, mask = call.operands
    if not mask.depends:
        return np.where(np.asarray(mask.value) != 0, x.movable_ids(), 0.0)
    return np.where(x.may_differ_from_zero, elementwise(call), CONSTANT)


@rule("copy")
def _copy(call: Call) -> ResultIds:
    """The result does not depend on the first argument."""
    return np.broadcast_to(_to_dtype(call.operands[1].movable_ids(), call.outs[0].dtype), call.out_shape)


@rule("fill_with")
def _fill_with(call: Call) -> ResultIds:
    return np.broadcast_to(_to_dtype(call["value"].movable_ids(), call.outs[0].dtype), call.out_shape)


@rule("cast", "to_device")
def _cast(call: Call) -> ResultIds:
    return _to_dtype(call.operands[0].movable_ids(), call.outs[0].dtype)


def _to_dtype(parts: Array, dtype: np.dtype[Any]) -> Array:
    """Return the ids of a value cast to a dtype: a real value has no imaginary part, so its ids are dropped."""
    return parts.real if parts.dtype.kind == "c" and dtype.kind != "c" else parts


@rule("complex")
def _complex(call: Call) -> ResultIds:
    real, imag = np.broadcast_arrays(call["real"].ids, call["imag"].ids)
    return real + 1j * imag


@rule("conj")
def _conj(call: Call) -> ResultIds:
    return call.operands[0].movable_ids()


@rule("scale_diagonal", "scale_bins", "clone")
def _keep_positions(call: Call) -> ResultIds:
    return call.operands[0].movable_ids()
