"""Loops of which nobody knows the number of rounds: `while_loop` in a traced function.

As a `scan` is one (ndgrad._src.compiler.capture.control_flow), it is one function of everything that it depends on, whose derivatives
are of its kind again. A scan's derivative reads what the rounds were given from an array with a row for each; here there
is no such array, since a value of a program has a shape. So a loop and its derivatives are one instruction, which keeps
what rounds leave for one another in lists of its own.

Note [Sweeps]
It goes through its rounds several times: the first sweep finds out how many there are, the second one goes back
from the last to the first, the third forward again, and so on. A sweep has a carry of its own, and is given, round by
round, the rows that the sweeps before it have left there: the carry that each had when it came to the round, and what it
has made in it, its y. Then

    jvp         each sweep with tangents beside its carry, its rows and its y
    vmap        each sweep for all samples
    backward    the same sweeps, and behind them one for each, from the last to the first: it carries the cotangents of that
                sweep's carry against its direction, pulls them back through each round, and leaves the cotangents of the
                rows which that has read to the sweeps behind it

are loops of this kind. An odd sweep goes back, and an even one goes forward: backward adds, behind sweeps that end with one
of the one kind, the reverse of that first, which is of the other kind. A gradient has two sweeps, and one of order n
has 2**n.
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
    breaking,
    carry_batched,
    emit,
    in_common,
    is_smooth,
    map_of,
    pull_of,
    push_of,
    tracer_here,
)
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.subprograms import Closed, Region
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.compiler_ops import run_while, sweeps
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import np_dtype, wrap
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor


@dataclass(frozen=True)
class Sweep:
    """One way through the rounds: its body, from tensors (carry, rows, the rest) to (carry, y), and how many are carried,
    and made."""

    body: Flat
    carried: int
    made: int = 0


@dataclass(frozen=True)
class Repeated:
    """A loop that goes on while a condition of the first sweep's carry and the rest holds (see Note [Sweeps])."""

    holds: Flat
    sweeps: tuple[Sweep, ...]

    @property
    def carried(self) -> int:
        """How many tensors all sweeps carry."""
        return sum(s.carried for s in self.sweeps)

    @property
    def rows(self) -> list[int]:
        """How many rows there are before each sweep, and behind the last."""
        return [0, *accumulate(s.carried + s.made for s in self.sweeps)]

    def parts(self, tensors: Tensors) -> tuple[list[list[Any]], list[Any]]:
        """What each sweep carries, and the rest."""
        ends = [0, *accumulate(s.carried for s in self.sweeps)]
        return [list(tensors[a:b]) for a, b in pairwise(ends)], list(tensors[ends[-1] :])

    def smooth_rows(self, starts: Sequence[Tensors]) -> list[int]:
        """The rows that have derivatives: of what is carried, those of such a dtype, and every y, which is a derivative."""
        found = []
        for first, sweep, carry in zip(self.rows, self.sweeps, starts, strict=False):
            found += [first + i for i, t in enumerate(carry) if is_smooth(t)]
            found += [first + sweep.carried + i for i in range(sweep.made)]
        return found


def repeated(holds: Callable[[Tensors], Any], body: Flat, tensors: Tensors) -> list[Any]:
    """What a loop carries in the end; the program decides when that is."""
    n = len(tensors)

    def condition(given: Tensors) -> list[Any]:
        p = holds(given)
        return [p if hasattr(p, "face") else wrap(tensors[0].face if n else Tensor, np.asarray(bool(p)))]

    first, second = Closed(condition, tensors), Closed(body, tensors)
    m = n + len(first.captured)
    sweep = Sweep(lambda given: second([*given[:n], *given[m:]]), n)
    plan = Repeated(lambda given: first(given[:m]), (sweep,))
    return list(While.apply(plan, *tensors, *first.captured, *second.captured))


class While(Function):
    """A while_loop, or a derivative of one, as a function of what its sweeps carry and of what they capture."""

    @staticmethod
    def forward(plan: Repeated, *tensors: Any) -> Any:
        tracer = tracer_here()
        starts, rest = plan.parts(tensors)
        first, regions = _traced(tracer, plan, starts, rest)
        reads = _pruned(plan, regions)
        taken = in_common({region.program.name: region for region in regions})
        carried = [*starts[0], first, *tensors[len(starts[0]) : plan.carried]]
        values = [tracer.argument(t._array) for t in carried]
        results = tuple([Value(v.shape, v.dtype) for v in values])
        settings: dict[str, Any] = {region.program.name: region.program for region in regions}
        if len(regions) == 1:
            settings |= {"carried": len(values), "invariant": len(taken)}
        else:
            settings |= {"carried": (len(starts[0]) + 1, *[s.carried for s in plan.sweeps[1:]]), "reads": reads}
        emit(tracer, run_while if len(regions) == 1 else sweeps, [*values, *taken], settings, results)
        found = [wrap(t.face, tracer.array(v)) for t, v in zip(carried, results, strict=True)]
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
        with breaking():
            return (None, *_pulled(ctx.plan, ctx.saved_tensors, grads, ctx.needs_input_grad[1:]))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        with breaking():
            return tuple(_pushed(ctx.plan, ctx.saved_tensors, tangents))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Repeated, *tensors: Any) -> Any:
        """The loop for all samples; the condition says itself whether any sample goes on (see ndgrad._src.control_flow.samples)."""
        given, dims = carry_batched(info, in_dims[1:], plan.carried, tensors)
        rest = dims[plan.carried :]
        mapped = [
            Sweep(map_of(s.body, (*(0,) * (s.carried + rows), *rest), info), s.carried, s.made)
            for s, rows in zip(plan.sweeps, plan.rows, strict=False)
        ]
        holds = map_of(plan.holds, (*(0,) * plan.sweeps[0].carried, *rest), info, None)
        with breaking():
            out = While.apply(Repeated(holds, tuple(mapped)), *given)
        return out, (0,) * len(out)


# ----- derivatives ----------------------------------------------------------------------------------------------------


def _pulled(plan: Repeated, tensors: Tensors, grads: Tensors, needs: Sequence[bool]) -> list[Any]:
    """The cotangents of what a loop was given."""
    starts, rest = plan.parts(tensors)
    given, _ = plan.parts(grads)
    shared = [i for i, t in enumerate(rest) if is_smooth(t) and needs[plan.carried + i]]
    more: list[Sweep] = []
    begin: list[Any] = []
    for j in reversed(range(len(plan.sweeps))):
        more.append(_against(plan, starts, len(rest), shared, j, more))
        begin += [
            tensor_ops.zeros_like(t) if g is None else g
            for t, g in zip(starts[j], given[j], strict=True)
            if is_smooth(t)
        ]
        begin += [tensor_ops.zeros_like(rest[i]) for i in shared]
    out = While.apply(Repeated(plan.holds, (*plan.sweeps, *more)), *tensors[: plan.carried], *begin, *rest)
    made = iter(out[plan.carried :])
    found: list[Any] = [None] * len(tensors)
    first = plan.carried
    for carry in reversed(starts):
        first -= len(carry)
        for i, t in enumerate(carry):
            if is_smooth(t):
                found[first + i] = next(made)
        for i in shared:
            total, here = found[plan.carried + i], next(made)
            found[plan.carried + i] = here if total is None else tensor_ops.add(total, here)
    return found


def _against(
    plan: Repeated, starts: Sequence[Tensors], rest: int, shared: Sequence[int], j: int, before: Sequence[Sweep]
) -> Sweep:
    """The sweep that goes against the j-th of a loop, behind its sweeps and those that go against the later ones.

    It carries the cotangents of what that carries, and sums of those of the rest that is shared. Its y are the
    cotangents of the rows which that was given, as far as they are known then: from itself, and from sweeps before."""
    sweep, first, end = plan.sweeps[j], plan.rows[j], plan.rows[j + 1]
    n = sweep.carried
    moving = [i for i, t in enumerate(starts[j]) if is_smooth(t)]
    smooth = plan.smooth_rows(starts)
    reading = [r for r in smooth if r < first]
    #: the rows whose cotangents the sweep before has left
    left = [r for r in smooth if r < end] if before else []
    ys = [r - first for r in left if r >= first + n]
    rows = plan.rows[-1] + sum(s.carried + s.made for s in before)
    carried = len(moving) + len(shared)
    places = [*moving, *[n + r for r in reading], *[n + first + i for i in shared]]
    pull = pull_of(sweep.body, n + first + rest, places, [*moving, *ys])

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


def _pushed(plan: Repeated, tensors: Tensors, tangents: Tensors) -> list[Any]:
    """The tangents of what a loop returns."""
    starts, rest = plan.parts(tensors)
    given, of_rest = plan.parts(tangents)
    shared = [i for i, t in enumerate(of_rest) if t is not None]
    begin: list[Any] = []
    both: list[Sweep] = []
    #: the places of rows, and of their tangents, among those of the new sweeps
    rows: list[int] = []
    beside: dict[int, int] = {}
    for sweep, carry, own in zip(plan.sweeps, starts, given, strict=True):
        moving = [i for i, t in enumerate(carry) if is_smooth(t)]
        begin += carry
        begin += [tensor_ops.zeros_like(carry[i]) if own[i] is None else own[i] for i in moving]
        count = sum(s.carried + s.made for s in both)
        both.append(_with_tangents(sweep, moving, len(rest), shared, tuple(rows), dict(beside), count))
        n, m, y = sweep.carried, len(moving), sweep.made
        beside.update({len(rows) + i: count + n + k for k, i in enumerate(moving)})
        beside.update({len(rows) + n + k: count + n + m + y + k for k in range(y)})
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


def _with_tangents(
    sweep: Sweep,
    moving: Sequence[int],
    rest: int,
    shared: Sequence[int],
    rows: tuple[int, ...],
    beside: dict[int, int],
    count: int,
) -> Sweep:
    """A sweep that carries tangents as well, of `moving` and behind all, and makes those of its y. Of the `count` rows that it
    is given, `rows` are those of the sweep itself, and `beside` says where the tangents of these are."""
    n, m = sweep.carried, sweep.carried + len(moving)
    smooth = [*moving, *range(n, n + sweep.made)]
    places = [*moving, *[n + r for r in beside], *[n + len(rows) + i for i in shared]]
    push = push_of(sweep.body, n + len(rows) + rest, places, smooth)

    def body(tensors: Tensors) -> list[Any]:
        seen, others = tensors[m : m + count], tensors[m + count :]
        primals = [*tensors[:n], *[seen[r] for r in rows], *others[:rest]]
        made = sweep.body(primals)
        pushed = push([*primals, *tensors[n:m], *[seen[r] for r in beside.values()], *others[rest:]])
        return [*made[:n], *pushed[: len(moving)], *made[n:], *pushed[len(moving) :]]

    return Sweep(body, m, 2 * sweep.made)


# ----- programs -------------------------------------------------------------------------------------------------------


def _traced(
    tracer: Any, plan: Repeated, starts: Sequence[Tensors], rest: Tensors
) -> tuple[Any, list[Region]]:
    """Whether there is a first round, and the programs of one in each sweep. That of the first gives, behind what it
    carries, whether there is another round."""
    n = plan.sweeps[0].carried

    def first_sweep(given: Tensors) -> list[Any]:
        made = plan.sweeps[0].body([*given[:n], *rest])
        return [*made, *plan.holds([*made, *rest])]

    (first,) = plan.holds([*starts[0], *rest])
    regions = [_region(tracer, first_sweep, [*starts[0], first], (), "body")]
    rows = list(starts[0])
    for number, (sweep, carry) in enumerate(zip(plan.sweeps[1:], starts[1:], strict=True), start=1):
        region = _region(tracer, _with_rest(sweep.body, rest), carry, rows, f"sweep{number}")
        regions.append(region)
        made = zip(region.faces[sweep.carried :], region.program.outputs[sweep.carried :], strict=True)
        rows += [*carry, *[wrap(face, tracer.array(v)) for face, v in made]]
    return first, regions


def _with_rest(body: Flat, rest: Tensors) -> Flat:
    return lambda given: body([*given, *rest])


def _region(tracer: Any, body: Flat, carry: Tensors, rows: Tensors, name: str) -> Region:
    """The program of a sweep, for what is like these tensors."""
    region = Region(tracer, body, [(t, None) for t in (*carry, *rows)], (), name)
    kinds = [(tuple(t.shape), np_dtype(t)) for t in carry]
    made = [(v.shape, v.dtype) for v in region.program.outputs[: len(kinds)]]
    if made != kinds:
        raise GraphBreak(f"what a while_loop carries becomes {made}, after {kinds}")
    return region


def _pruned(plan: Repeated, regions: Sequence[Region]) -> tuple[tuple[int, ...], ...]:
    """Let the programs of sweeps behind the first read only what they use, and make only what is read. The numbers of
    the rows that each reads, as the op counts them: behind the first carry comes whether there is another round, and y
    that nobody reads are none."""
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
