"""Loops and branches as functions: scan, fori_loop, while_loop, cond, map, with the signatures of jax.lax.

Outside of compiled functions each is the Python code in its docstring: recording, batching and derivatives are those
of the ops in its rounds. There are two reasons to use them. Inside a compiled function the body is traced once for
any length of the loop, and the program takes the branch (compiler/capture/control_flow). And a predicate that vmap
has batched, on which Python cannot branch, decides for each sample (ndgrad._src.control_flow.samples).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ndgrad._src.arrays.dtypes import dtype as as_dtype
from ndgrad._src.arrays.dtypes import int64
from ndgrad._src.checkpoint import checkpoint as checkpointed
from ndgrad._src.control_flow import samples
from ndgrad._src.control_flow.carry import Leaves
from ndgrad._src.core.captures import as_captured
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.modes import modes
from ndgrad._src.core.subclass import as_class
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_map
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.functions.creation import arange, zeros
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.transforms.transforms import vmap

Carry = TypeVar("Carry")
R = TypeVar("R")

_KEEP = (
    "A loop's carry keeps its structure, shapes and dtypes: reshape or cast it in the function, or start with the "
    "like of it."
)


def is_traced() -> bool:
    """True if loops and branches become part of a program: a function is being traced, and no `functionalize` inside it
    sees the ops. Otherwise the ops of the rounds are recorded."""
    state = modes()
    return any(getattr(o, "is_tracer", False) for o in state.observers) and all(
        level.kind != "functional" for level in state.levels
    )


# ----- scan -----------------------------------------------------------------------------------------------------------


@set_module("ndgrad.func")
def scan(
    f: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: int | bool = False,
) -> tuple[Carry, Any]:
    """Run `carry, y = f(carry, x)` for each row x of `xs`; return the last carry and all y, stacked.

    It is this loop:

        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Its derivatives are those of the loop, including derivatives with respect to captured tensors. In a compiled
    function the body is traced once and runs as a native loop.

    Args:
        f: function (carry, x) -> (carry, y). The carry keeps its structure, shapes and dtypes.
        init: first carry, any nested structure of tensors.
        xs: tensors whose first dimension counts the rounds, in any nested structure. With None, x is None.
        length: number of rounds, needed without `xs`.
        reverse: whether the rows are taken from the last to the first. Each y has the index of its x.
        unroll: number of rounds that form one round of the loop in a compiled function. True means all.
        checkpoint: number k of rounds between carries that are kept. A backward pass computes the rounds between them
            again instead of keeping their saved values. True means the square root of the number of rounds, and False
            keeps all saved values.

    Returns:
        The last carry, and all y stacked along a new first dimension.

    >>> import ndgrad
    >>> ndgrad.func.scan(lambda total, x: (total + x, total * x), 0.0, ndgrad.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    carry = Leaves("scan", "the carry", init, xs)
    rows = Leaves("scan", "xs", xs)
    count = _length(rows, length)
    step = _Step("scan", f, carry, rows)
    if count == 0:
        return carry.fill(carry.tensors), step.nothing()
    runs = _plain_rounds
    if is_traced() and unroll is not True and _check_count("unroll", unroll) < count:
        runs = _traced_rounds
        if unroll > 1:
            runs = _Segments(int(unroll), _plain_rounds, _traced_rounds)
    size = _segment(checkpoint, count)
    if size < count:
        runs = _Segments(size, runs, _traced_rounds) if is_traced() else _Checkpoints(size)
    last, ys = runs(step, carry.tensors, rows.tensors, count, reverse)
    return carry.fill(last), step.results(ys)


Tensors = Sequence[Any]
#: One round, from the tensors of the carry and of a row to those of the next carry and of y.
Round = Callable[[Tensors, Tensors], tuple[list[Any], list[Any]]]
#: Runner of rounds: (the round, carry, rows, their number, True for reverse) -> (carry, all y stacked)
Runs = Callable[[Round, Tensors, Tensors, int, bool], tuple[list[Any], list[Any]]]


class _Step:
    """A user's function as a round of a loop."""

    def __init__(self, name: str, f: Callable[..., Any], carry: Leaves, rows: Leaves) -> None:
        self.name = name
        self.f = f
        self.carry = carry
        self.rows = rows
        self.ys: Leaves | None = None

    def __call__(self, carry: Tensors, row: Tensors) -> tuple[list[Any], list[Any]]:
        made = self.f(self.carry.fill(carry), self.rows.fill(row))
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError(
                f"{self.name}: the function returned {type(made).__name__}, but it must return a pair (carry, y). "
                "Return (carry, None) where there is no y. [nd-carry]"
            )
        following = self.carry.check_like(made[0], "before the round", _KEEP)
        if self.ys is None:
            self.ys = Leaves(self.name, "y", made[1], made[0])
            return following, self.ys.tensors
        return following, self.ys.check_like(made[1], "of the first round", "Every round must return the like of it.")

    def results(self, ys: Tensors) -> Any:
        """Return the structure of all y."""
        assert self.ys is not None
        return self.ys.fill(ys)

    def nothing(self) -> Any:
        """Return the result of zero rounds: the function is called once, on zeros, to learn its structure."""
        with no_grad():
            row = [zeros(tuple(t.shape[1:]), dtype=as_dtype(np_dtype(t))) for t in self.rows.tensors]
            _, ys = self(self.carry.tensors, [_as_class_of(r, t) for r, t in zip(row, self.rows.tensors, strict=True)])
            return self.results([_as_class_of(zeros((0, *y.shape), dtype=as_dtype(np_dtype(y))), y) for y in ys])


def _as_class_of(t: Variable, like: Any) -> Any:
    return as_class(t, like.tensor_type)


def _plain_rounds(step: Round, carry: Tensors, rows: Tensors, count: int, reverse: bool) -> tuple[list[Any], list[Any]]:
    """Run the rounds one after another in Python."""
    carry, ys = _run_rounds(step, carry, _split_rows(rows, count, reverse))
    return carry, _stack_columns(ys, reverse)


def _split_rows(rows: Tensors, count: int, reverse: bool) -> list[tuple[Any, ...]]:
    """Return the rows of each round, in the order of the rounds."""
    apart = [tensor_ops.unbind(t, dim=0) for t in rows]
    each = list(zip(*apart, strict=True)) if apart else [()] * count
    return each[::-1] if reverse else each


def _run_rounds(step: Round, carry: Tensors, rows: Sequence[Tensors]) -> tuple[list[Any], list[list[Any]]]:
    ys = []
    for row in rows:
        carry, y = step(carry, row)
        ys.append(y)
    return list(carry), ys


def _stack_columns(ys: list[list[Any]], reverse: bool) -> list[Any]:
    return [tensor_ops.stack(*column[:: -1 if reverse else 1], dim=0) for column in zip(*ys, strict=True)]


class _Checkpoints:
    """Runs rounds in groups; each group keeps its arguments and is run again by backward."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(
        self, step: Round, carry: Tensors, rows: Tensors, count: int, reverse: bool
    ) -> tuple[list[Any], list[Any]]:
        each = _split_rows(rows, count, reverse)
        ys: list[list[Any]] = []
        for start in range(0, count, self.size):
            carry, some = checkpointed(
                _run_rounds, step, list(carry), each[start : start + self.size], use_reentrant=False
            )
            ys += some
        return list(carry), _stack_columns(ys, reverse)


class _Segments:
    """Runs rounds in groups of `size` by `inner`; `outer` runs the groups, and `inner` the remaining rounds."""

    def __init__(self, size: int, inner: Runs, outer: Runs) -> None:
        self.size = size
        self.inner = inner
        self.outer = outer

    def __call__(
        self, step: Round, carry: Tensors, rows: Tensors, count: int, reverse: bool
    ) -> tuple[list[Any], list[Any]]:
        groups, left = divmod(count, self.size)

        def group(carry: Tensors, row: Tensors) -> tuple[list[Any], list[Any]]:
            return self.inner(step, carry, row, self.size, reverse)

        cut = (left, count) if reverse else (0, count - left)  # The remaining rounds are the last ones.
        folded = [tensor_ops.reshape(_part(t, *cut), shape=(groups, self.size, *t.shape[1:])) for t in rows]
        carry, ys = self.outer(group, carry, folded, groups, reverse)
        ys = [tensor_ops.reshape(y, shape=(groups * self.size, *y.shape[2:])) for y in ys]
        if left:
            cut = (0, left) if reverse else (count - left, count)
            carry, rest = self.inner(step, carry, [_part(t, *cut) for t in rows], left, reverse)
            ys = [tensor_ops.cat(*((r, y) if reverse else (y, r)), dim=0) for y, r in zip(ys, rest, strict=True)]
        return list(carry), ys


def _part(t: Variable, start: int, stop: int) -> Any:
    return t if stop - start == t.shape[0] else tensor_ops.getitem(t, index=(slice(start, stop),))


def _traced_rounds(
    step: Round, carry: Tensors, rows: Tensors, count: int, reverse: bool
) -> tuple[list[Any], list[Any]]:
    from ndgrad._src.compiler.capture.control_flow import run_scan  # needed only for compilation

    return run_scan(step, carry, rows, count, reverse)


def _length(rows: Leaves, length: int | None) -> int:
    """Return the number of rounds."""
    if length is not None:
        length = operator.index(length)
        if length < 0:
            raise ValueError(
                f"{rows.name}: length is {length}. It is the number of rounds, and cannot be negative. [nd-carry]"
            )
    for k, t in enumerate(rows.tensors):
        if not t.shape:
            raise ValueError(
                f"{rows.name}: {rows.path(k)} has no dimensions, so it has no rows to go through. Give it a leading "
                "one. [nd-carry]"
            )
        if length is not None and t.shape[0] != length:
            other = "length is" if k == 0 else f"{rows.path(0)} has"
            raise ValueError(
                f"{rows.name}: {rows.path(k)} has {t.shape[0]} rows (shape {tuple(t.shape)}), but {other} {length}. "
                "They must agree. [nd-carry]"
            )
        length = int(t.shape[0])
    if length is None:
        raise ValueError(f"{rows.name}: without xs, the number of rounds is not known. Pass length=. [nd-carry]")
    return length


def _check_count(name: str, number: Any) -> int:
    if isinstance(number, (bool, np.bool_)):
        return 1
    number = operator.index(number)
    if number < 1:
        raise ValueError(f"scan: {name} is {number}. Give a number of rounds, at least 1, or True or False. [nd-carry]")
    return int(number)


def _segment(checkpoint: int | bool, count: int) -> int:
    """Return the number of rounds per checkpoint; all rounds if there are no checkpoints."""
    if checkpoint is False or checkpoint is None:
        return count
    return math.isqrt(count - 1) + 1 if checkpoint is True else min(_check_count("checkpoint", checkpoint), count)


# ----- special scans --------------------------------------------------------------------------------------------------


@set_module("ndgrad.func")
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply `f` to each row of `xs`, one after another, and stack the results: `vmap` with the memory of a loop.

    Args:
        f: function of one row.
        xs: tensors whose first dimension counts the rows, in any nested structure.
        batch_size: number of rows that are computed at once, by `vmap`. The default is 1.

    >>> import ndgrad
    >>> ndgrad.func.map(lambda x: (x * x).sum(), ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([ 5., 25.])
    """
    if batch_size is not None:
        return _map_in_batches(f, xs, _check_count("batch_size", batch_size))
    _length(Leaves("map", "xs", xs), None)
    return scan(lambda nothing, x: (nothing, f(x)), None, xs)[1]


def _map_in_batches(f: Callable[[Any], Any], xs: Any, size: int) -> Any:
    rows = Leaves("map", "xs", xs)
    count = _length(rows, None)
    groups = count // size
    parts = []
    if groups:
        folded = [
            tensor_ops.reshape(_part(t, 0, groups * size), shape=(groups, size, *t.shape[1:])) for t in rows.tensors
        ]
        done = map(vmap(f), rows.fill(folded))
        parts.append(tree_map(lambda y: tensor_ops.reshape(y, shape=(groups * size, *y.shape[2:])), done))
    if groups * size < count or not count:
        rest = rows.fill([_part(t, groups * size, count) for t in rows.tensors])
        parts.append(vmap(f)(rest) if count else map(f, rest))
    return parts[0] if len(parts) == 1 else tree_map(lambda a, b: tensor_ops.cat(a, b, dim=0), *parts)


@set_module("ndgrad.func")
def fori_loop(
    lower: Any, upper: Any, body_fun: Callable[[Any, Carry], Carry], init_val: Carry, *, unroll: int | bool = 1
) -> Carry:
    """Run `val = body_fun(i, val)` for i from `lower` to `upper` - 1; return the last val.

    i is an integer tensor. The bounds are integers. If one is a tensor whose value is unknown while a function is
    traced, the loop is a `while_loop`.

    Args:
        lower: first i.
        upper: end of the loop, which i does not reach.
        body_fun: function (i, val) -> val. It keeps the structure, shapes and dtypes of val.
        init_val: first val, any nested structure of tensors.
        unroll: number of rounds that form one round of the loop in a compiled function. True means all.

    >>> import ndgrad
    >>> ndgrad.func.fori_loop(0, 4, lambda i, total: total + i * i, ndgrad.tensor(0))
    tensor(14)
    """
    low, high = _read_bound("lower", lower), _read_bound("upper", upper)
    if low is None or high is None:
        start = Leaves("fori_loop", "init_val", init_val)
        carry = as_tensor(lower, dtype=int64), start.fill(start.tensors)
        return while_loop(lambda c: c[0] < upper, lambda c: (c[0] + 1, body_fun(*c)), carry)[1]
    return scan(lambda val, i: (body_fun(i, val), None), init_val, arange(low, max(low, high)), unroll=unroll)[0]


def _read_bound(name: str, bound: Any) -> int | None:
    """Return a bound of a loop as a number; None if it is unknown."""
    if isinstance(bound, Variable):
        if tuple(bound.shape) or np_dtype(bound).kind not in "biu":
            raise TypeError(
                f"fori_loop: {name} is a tensor of shape {tuple(bound.shape)} and dtype {np_dtype(bound)}. Give an "
                "integer without dimensions. [nd-carry]"
            )
        known = samples.known_value(bound)
        return None if known is None else int(known)
    return operator.index(bound)


# ----- value-dependent control flow -----------------------------------------------------------------------------------


@set_module("ndgrad.func")
def while_loop(cond_fun: Callable[[Carry], Any], body_fun: Callable[[Carry], Carry], init_val: Carry) -> Carry:
    """Run `val = body_fun(val)` while `cond_fun(val)` holds; return the last val.

    It is differentiable in both modes: the number of rounds is known after it has run. If vmap has batched the
    condition, each sample runs as long as its own condition holds: rounds continue until all samples are done, and
    samples that are done keep their values. In a compiled function the program runs the loop; reverse mode then runs it
    once more, and derivatives of that need the function uncompiled.

    Args:
        cond_fun: function from val to a bool or a 0-d tensor.
        body_fun: function from val to the next val. It keeps the structure, shapes and dtypes of val.
        init_val: first val, any nested structure of tensors.

    >>> import ndgrad
    >>> ndgrad.func.while_loop(lambda x: x < 100, lambda x: x * 3, ndgrad.tensor(1))
    tensor(243)
    """
    carry = Leaves("while_loop", "val", init_val)

    def body(tensors: Tensors) -> list[Any]:
        return carry.check_like(body_fun(carry.fill(tensors)), "before the round", _KEEP)

    def holds(tensors: Tensors) -> Any:
        return _predicate("while_loop: cond_fun returned", cond_fun(carry.fill(tensors)))

    if is_traced():
        from ndgrad._src.compiler.capture.while_loops import run_while_loop  # needed only for compilation

        return carry.fill(run_while_loop(*samples.make_loop(holds, body), carry.tensors))
    going_on, some = samples.make_loop(holds, body)
    tensors = carry.tensors
    while samples.known_value(going_on(tensors)):
        tensors = some(tensors)
    return carry.fill(tensors)


@set_module("ndgrad.func")
def cond(pred: Any, true_fun: Callable[..., R], false_fun: Callable[..., R], *operands: Any) -> R:
    """Return `true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`.

    If `vmap` has batched `pred`, each sample gets the result of its own branch. A branch that some sample takes is
    computed for all of them, with the operands of such a sample in place of the others'. So invalid operations in a
    branch (division by zero, the root of a negative number) do not affect samples that do not take it, nor their
    derivatives. In a compiled function the program takes the branch. Both functions must then return the same
    structure, shapes and dtypes.

    Args:
        pred: bool or 0-d tensor.
        true_fun: branch for a true `pred`.
        false_fun: branch for a false `pred`.
        *operands: arguments of both branches.

    >>> import ndgrad
    >>> ndgrad.func.cond(ndgrad.tensor(True), lambda x: x + 1, lambda x: x - 1, ndgrad.tensor(1.0))
    tensor(2.)
    >>> f = lambda x: ndgrad.func.cond(x > 0, ndgrad.sqrt, lambda x: -x, x)
    >>> ndgrad.func.vmap(f)(ndgrad.tensor([4.0, -3.0]))
    tensor([2., 3.])
    """
    pred = _predicate("cond: pred is", pred)
    known = samples.known_value(pred)
    if known is not None:
        return (true_fun if known else false_fun)(*operands)
    given = Leaves("cond", "operands", operands)
    first = _Branch(true_fun, given)
    second = _Branch(false_fun, given, first)
    found = samples.run_branches(pred, first, second, given.tensors)
    made = first.made or second.made
    assert made is not None
    return made.fill(found)


class _Branch:
    """A branch as a function of tensors, which stores the structure of its result."""

    def __init__(self, f: Callable[..., Any], given: Leaves, first: _Branch | None = None) -> None:
        self.f = f
        self.given = given
        self.first = first
        self.made: Leaves | None = None

    def __call__(self, tensors: Tensors) -> list[Any]:
        result = self.f(*self.given.fill(tensors))
        self.made = Leaves("cond", "the result", result, self.given.tensors)
        if self.first is None or self.first.made is None:
            return self.made.tensors
        return self.first.made.check_like(
            result, "of true_fun", "Here that was false_fun: both must return the same structure, shapes and dtypes."
        )


def _predicate(what: str, p: Any) -> Any:
    if isinstance(p, (bool, int, float, np.bool_)):
        return p
    if not isinstance(p, (Variable, np.ndarray, np.generic)):
        raise TypeError(
            f"{what} of class {type(p).__name__}. Give a number or a tensor of one, such as x > 0. [nd-carry]"
        )
    if tuple(p.shape):
        raise TypeError(
            f"{what} a tensor of shape {tuple(p.shape)}, which is no single value. Reduce it with all() or "
            "any(). [nd-carry]"
        )
    if not isinstance(p, Variable):
        return p
    return as_captured(p) if np_dtype(p).kind == "b" else p != 0
