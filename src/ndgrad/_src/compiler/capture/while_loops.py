"""Loops with an unknown number of rounds: `while_loop` in a traced function.

Like a `scan` (ndgrad._src.compiler.capture.control_flow), a while loop is one function of everything that it depends
on, and its derivatives are loops of the same kind. The derivative of a scan reads the inputs of the rounds from an
array with a row for each. Here there is no such array, because a value of a program has a fixed shape. So a loop and
its derivatives are one instruction, which keeps the data that rounds pass to one another in lists of its own.

Note [Sweeps]
    round       one execution of a body
    sweep       one pass over all rounds, with a body of its own. The first sweep finds the number of rounds, the second
                goes back from the last round to the first, the third forward again, and so on
    carry       tensors that a sweep passes from one round to the next
    y           tensors that a round of a sweep returns in addition
    row         a tensor that a sweep leaves in each round for later sweeps: its carry at the start of the round, or a y

The body of a sweep maps (its carry, the rows of earlier sweeps, captured tensors) to (its carry, its y). Then

    jvp         each sweep with additional tangents of its carry, its rows and its y
    vmap        each sweep for all samples
    backward    the same sweeps, followed by one for each, from the last to the first. It carries the cotangents of
                that sweep's carry against its direction and pulls them back through each round. It leaves the
                cotangents of the rows that the sweep has read to the sweeps that follow

are loops of this kind. Odd sweeps go back and even sweeps go forward. Backward first adds the reverse of the last
sweep, which has the other direction, so the directions still alternate. A gradient has two sweeps, and a derivative of
order n has 2**n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ndgrad._src.compiler.capture.control_flow import (
    Flat,
    Tensors,
    batch_carry,
    break_on_error,
    emit,
    is_smooth,
    make_batched,
    make_pullback,
    make_pushforward,
    require_tracer,
    share_inputs,
)
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.subprograms import LiftedFunction, Region
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.compiler_ops import run_while, sweeps
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import np_dtype, wrap
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor


@dataclass(frozen=True)
class Sweep:
    """One pass over the rounds (see Note [Sweeps])."""

    body: Flat
    #: Number of tensors in its carry, and in its y.
    carried: int
    made: int = 0


@dataclass(frozen=True)
class Repeated:
    """A loop that continues while a condition on the first sweep's carry and the rest holds (see Note [Sweeps])."""

    holds: Flat
    sweeps: tuple[Sweep, ...]

    @property
    def total_carried(self) -> int:
        """Number of tensors that all sweeps carry."""
        return sum(s.carried for s in self.sweeps)

    @property
    def rows(self) -> list[int]:
        """Number of rows before each sweep, and after the last."""
        return [0, *accumulate(s.carried + s.made for s in self.sweeps)]

    def parts(self, tensors: Tensors) -> tuple[list[list[Any]], list[Any]]:
        """Split tensors into the carry of each sweep, and the rest."""
        ends = [0, *accumulate(s.carried for s in self.sweeps)]
        return [list(tensors[a:b]) for a, b in pairwise(ends)], list(tensors[ends[-1] :])

    def smooth_rows(self, starts: Sequence[Tensors]) -> list[int]:
        """Return the rows that have derivatives: carried ones of such a dtype, and every y, which is a derivative."""
        found = []
        for first, sweep, carry in zip(self.rows, self.sweeps, starts, strict=False):
            found += [first + i for i, t in enumerate(carry) if is_smooth(t)]
            found += [first + sweep.carried + i for i in range(sweep.made)]
        return found


def run_while_loop(
    holds: Callable[[Tensors], Any], body: Flat, tensors: Tensors, note_change: Callable[[], None] | None = None
) -> list[Any]:
    """Return the final carry of a loop. The program decides when it ends. `note_change` is called if a derivative finds
    that the body is another function now, because it reads objects that have changed.
    """
    n = len(tensors)

    def condition(given: Tensors) -> list[Any]:
        p = holds(given)
        return [p if hasattr(p, "tensor_type") else wrap(tensors[0].tensor_type if n else Tensor, np.asarray(bool(p)))]

    first, second = LiftedFunction(condition, tensors), LiftedFunction(body, tensors)
    m = n + len(first.captured)
    is_traced = False

    def run_again(given: Tensors) -> list[Any]:
        if is_traced and note_change is not None and not second.is_same(LiftedFunction(body, tensors)):
            note_change()
        return second([*given[:n], *given[m:]])

    plan = Repeated(lambda given: first(given[:m]), (Sweep(run_again, n),))
    out = list(While.apply(plan, *tensors, *first.captured, *second.captured))
    is_traced = True
    return out


class While(Function):
    """A while_loop, or a derivative of one, as a function of the carry of its sweeps and of their captured tensors."""

    @staticmethod
    def forward(plan: Repeated, *tensors: Any) -> Any:
        tracer = require_tracer()
        starts, rest = plan.parts(tensors)
        first, regions = _trace_sweeps(tracer, plan, starts, rest)
        reads = _prune(plan, regions)
        taken = share_inputs({region.program.name: region for region in regions})
        carried = [*starts[0], first, *tensors[len(starts[0]) : plan.total_carried]]
        values = [tracer.argument(t._array) for t in carried]
        results = tuple([Value(v.shape, v.dtype) for v in values])
        settings: dict[str, Any] = {region.program.name: region.program for region in regions}
        if len(regions) == 1:
            settings |= {"carried": len(values), "invariant": len(taken)}
        else:
            settings |= {"carried": (len(starts[0]) + 1, *[s.carried for s in plan.sweeps[1:]]), "reads": reads}
        emit(tracer, run_while if len(regions) == 1 else sweeps, [*values, *taken], settings, results)
        found = [wrap(t.tensor_type, tracer.array(v)) for t, v in zip(carried, results, strict=True)]
        del found[len(starts[0])]
        return tuple(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.plan, *tensors = inputs
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        with break_on_error():
            return (None, *_pull_back(ctx.plan, ctx.saved_tensors, grads, ctx.needs_input_grad[1:]))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        with break_on_error():
            return tuple(_push_forward(ctx.plan, ctx.saved_tensors, tangents))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Repeated, *tensors: Any) -> Any:
        """Run the loop for all samples. The condition itself reports whether any sample continues (see
        ndgrad._src.control_flow.samples).
        """
        given, dims = batch_carry(info, in_dims[1:], plan.total_carried, tensors)
        rest = dims[plan.total_carried :]
        mapped = [
            Sweep(make_batched(s.body, (*(0,) * (s.carried + rows), *rest), info), s.carried, s.made)
            for s, rows in zip(plan.sweeps, plan.rows, strict=False)
        ]
        holds = make_batched(plan.holds, (*(0,) * plan.sweeps[0].carried, *rest), info, None)
        with break_on_error():
            out = While.apply(Repeated(holds, tuple(mapped)), *given)
        return out, (0,) * len(out)


# ----- derivatives ----------------------------------------------------------------------------------------------------


def _pull_back(plan: Repeated, tensors: Tensors, grads: Tensors, needs: Sequence[bool]) -> list[Any]:
    """Return the cotangents of the inputs of a loop."""
    starts, rest = plan.parts(tensors)
    given, _ = plan.parts(grads)
    shared = [i for i, t in enumerate(rest) if is_smooth(t) and needs[plan.total_carried + i]]
    more: list[Sweep] = []
    begin: list[Any] = []
    for j in reversed(range(len(plan.sweeps))):
        more.append(_reverse_sweep(plan, starts, len(rest), shared, j, more))
        begin += [
            tensor_ops.zeros_like(t) if g is None else g
            for t, g in zip(starts[j], given[j], strict=True)
            if is_smooth(t)
        ]
        begin += [tensor_ops.zeros_like(rest[i]) for i in shared]
    out = While.apply(Repeated(plan.holds, (*plan.sweeps, *more)), *tensors[: plan.total_carried], *begin, *rest)
    made = iter(out[plan.total_carried :])
    found: list[Any] = [None] * len(tensors)
    first = plan.total_carried
    for carry in reversed(starts):
        first -= len(carry)
        for i, t in enumerate(carry):
            if is_smooth(t):
                found[first + i] = next(made)
        for i in shared:
            total, here = found[plan.total_carried + i], next(made)
            found[plan.total_carried + i] = here if total is None else tensor_ops.add(total, here)
    return found


def _reverse_sweep(
    plan: Repeated, starts: Sequence[Tensors], rest: int, shared: Sequence[int], j: int, before: Sequence[Sweep]
) -> Sweep:
    """Return the sweep against the j-th sweep of a loop. It follows the loop's sweeps and those against the later ones.

    It carries the cotangents of the j-th carry, and sums of the cotangents of the shared rest. Its y are the cotangents
    of the rows that the j-th sweep reads, as far as known at that point: from itself and from earlier sweeps.
    """
    sweep, first, end = plan.sweeps[j], plan.rows[j], plan.rows[j + 1]
    n = sweep.carried
    moving = [i for i, t in enumerate(starts[j]) if is_smooth(t)]
    smooth = plan.smooth_rows(starts)
    reading = [r for r in smooth if r < first]
    #: Rows whose cotangents the previous sweep has left.
    left = [r for r in smooth if r < end] if before else []
    ys = [r - first for r in left if r >= first + n]
    rows = plan.rows[-1] + sum(s.carried + s.made for s in before)
    carried = len(moving) + len(shared)
    places = [*moving, *[n + r for r in reading], *[n + first + i for i in shared]]
    pull = make_pullback(sweep.body, n + first + rest, places, [*moving, *ys])

    def body(tensors: Tensors) -> list[Any]:
        own, seen, others = tensors[:carried], tensors[carried : carried + rows], tensors[carried + rows :]
        known = dict(zip(left, seen[rows - len(left) :], strict=True))
        primals = [*seen[first : first + n], *seen[:first], *others]
        found = pull([*primals, *own[: len(moving)], *[known[first + i] for i in ys]])
        cotangents = [
            tensor_ops.add(g, known[r]) if r in known else g
            for r, g in zip([*[first + i for i in moving], *reading], found, strict=False)
        ]
        sums = [tensor_ops.add(a, b) for a, b in zip(own[len(moving) :], found[len(cotangents) :], strict=True)]
        return [*cotangents[: len(moving)], *sums, *cotangents[len(moving) :]]

    return Sweep(body, carried, len(reading))


def _push_forward(plan: Repeated, tensors: Tensors, tangents: Tensors) -> list[Any]:
    """Return the tangents of the outputs of a loop."""
    starts, rest = plan.parts(tensors)
    given, of_rest = plan.parts(tangents)
    shared = [i for i, t in enumerate(of_rest) if t is not None]
    begin: list[Any] = []
    both: list[Sweep] = []
    #: Positions of rows, and of their tangents, among the rows of the new sweeps.
    rows: list[int] = []
    tangent_rows: dict[int, int] = {}
    for sweep, carry, own in zip(plan.sweeps, starts, given, strict=True):
        moving = [i for i, t in enumerate(carry) if is_smooth(t)]
        begin += carry
        begin += [tensor_ops.zeros_like(carry[i]) if own[i] is None else own[i] for i in moving]
        count = sum(s.carried + s.made for s in both)
        both.append(_add_tangents(sweep, moving, len(rest), shared, tuple(rows), dict(tangent_rows), count))
        n, m, y = sweep.carried, len(moving), sweep.made
        tangent_rows.update({len(rows) + i: count + n + k for k, i in enumerate(moving)})
        tangent_rows.update({len(rows) + n + k: count + n + m + y + k for k in range(y)})
        rows += [*range(count, count + n), *range(count + n + m, count + n + m + y)]

    def holds(tensors: Tensors) -> list[Any]:
        carried = both[0].carried
        return plan.holds([*tensors[: len(starts[0])], *tensors[carried : carried + len(rest)]])

    out = While.apply(Repeated(holds, tuple(both)), *begin, *rest, *[of_rest[i] for i in shared])
    made = iter(out)
    found: list[Any] = []
    for carry in starts:
        for _ in carry:
            next(made)
        found += [next(made) if is_smooth(t) else None for t in carry]
    return found


def _add_tangents(
    sweep: Sweep,
    moving: Sequence[int],
    rest: int,
    shared: Sequence[int],
    rows: tuple[int, ...],
    tangent_rows: dict[int, int],
    count: int,
) -> Sweep:
    """Return a sweep that also carries the tangents of `moving`, after its own carry, and makes those of its y. Of the
    `count` rows that it reads, `rows` are those of the original sweep, and `tangent_rows` gives the positions of their
    tangents.
    """
    n, m = sweep.carried, sweep.carried + len(moving)
    smooth = [*moving, *range(n, n + sweep.made)]
    places = [*moving, *[n + r for r in tangent_rows], *[n + len(rows) + i for i in shared]]
    push = make_pushforward(sweep.body, n + len(rows) + rest, places, smooth)

    def body(tensors: Tensors) -> list[Any]:
        seen, others = tensors[m : m + count], tensors[m + count :]
        primals = [*tensors[:n], *[seen[r] for r in rows], *others[:rest]]
        made = sweep.body(primals)
        pushed = push([*primals, *tensors[n:m], *[seen[r] for r in tangent_rows.values()], *others[rest:]])
        return [*made[:n], *pushed[: len(moving)], *made[n:], *pushed[len(moving) :]]

    return Sweep(body, m, 2 * sweep.made)


# ----- programs -------------------------------------------------------------------------------------------------------


def _trace_sweeps(
    tracer: Any, plan: Repeated, starts: Sequence[Tensors], rest: Tensors
) -> tuple[Any, list[Region]]:
    """Return whether there is a first round, and the programs of one round of each sweep. The first program also
    returns, after its carry, whether there is another round.
    """
    n = plan.sweeps[0].carried

    def first_sweep(given: Tensors) -> list[Any]:
        made = plan.sweeps[0].body([*given[:n], *rest])
        return [*made, *plan.holds([*made, *rest])]

    (first,) = plan.holds([*starts[0], *rest])
    regions = [_trace_region(tracer, first_sweep, [*starts[0], first], (), "body")]
    rows = list(starts[0])
    for number, (sweep, carry) in enumerate(zip(plan.sweeps[1:], starts[1:], strict=True), start=1):
        region = _trace_region(tracer, _add_rest(sweep.body, rest), carry, rows, f"sweep{number}")
        regions.append(region)
        made = zip(region.tensor_types[sweep.carried :], region.program.outputs[sweep.carried :], strict=True)
        rows += [*carry, *[wrap(tensor_type, tracer.array(v)) for tensor_type, v in made]]
    return first, regions


def _add_rest(body: Flat, rest: Tensors) -> Flat:
    return lambda given: body([*given, *rest])


def _trace_region(tracer: Any, body: Flat, carry: Tensors, rows: Tensors, name: str) -> Region:
    """Return the program of a sweep for tensors of these kinds."""
    region = Region(tracer, body, [(t, None) for t in (*carry, *rows)], (), name)
    kinds = [(tuple(t.shape), np_dtype(t)) for t in carry]
    made = [(v.shape, v.dtype) for v in region.program.outputs[: len(kinds)]]
    if made != kinds:
        raise GraphBreak(f"what a while_loop carries becomes {made}, after {kinds}")
    return region


def _prune(plan: Repeated, regions: Sequence[Region]) -> tuple[tuple[int, ...], ...]:
    """Reduce the programs of later sweeps: each reads only rows that it uses, and makes only rows that are read.

    Return the numbers of the rows that each sweep reads, as the op counts them: the flag for another round follows the
    first carry, and unread y get no number.
    """
    wanted: set[int] = set()
    reads: list[list[int]] = []
    for j in reversed(range(1, len(regions))):
        region, n, first = regions[j], plan.sweeps[j].carried, plan.rows[j]
        program = region.program
        kept = [v for i, v in enumerate(program.outputs) if i < n or first + i in wanted]
        program.outputs = kept
        region.program = program = remove_dead_code(program)
        used = {v for i in program.instructions for v in i.values()} | set(kept)
        reads.append([r for r in range(first) if region.own[n + r] in used])
        wanted.update(reads[-1])
        region.own = [*region.own[:n], *[region.own[n + r] for r in reads[-1]]]
        region.taken = {around: inner for around, inner in region.taken.items() if inner in used}
    numbers: dict[int, int] = {}
    count = 0
    for j, (sweep, first) in enumerate(zip(plan.sweeps, plan.rows, strict=False)):
        for r in range(first, first + sweep.carried + sweep.made):
            if r < first + sweep.carried or r in wanted:
                numbers[r] = count
                count += 1
        count += j == 0
    return tuple([tuple([numbers[r] for r in found]) for found in reversed(reads)])
