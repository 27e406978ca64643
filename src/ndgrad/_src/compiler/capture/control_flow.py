"""Loops and branches of a traced function, as programs inside its program.

A loop or branch is one custom function of everything that it depends on: its initial carry, the rows that it reads, and
the tensors that its body captures. So transforms treat it like any function, and each of its derivatives is a loop or
branch again:

    backward    a loop in reverse, whose body pulls the cotangents of one round back through that round
    jvp         a loop whose body pushes tangents through one round
    vmap        the loop of the batched body

For tensors without transforms the body is traced once, and the loop becomes an instruction of the program. A round of a
derivative starts with the carry of the corresponding round, so a loop also returns the initial carry of every round. A
pass finds and shares computations that a round would then do twice (ndgrad._src.compiler.passes.shared_rounds).

The number of rounds of a while_loop is unknown, so there is no array with a row for each. It has a file of its own
(ndgrad._src.compiler.capture.while_loops).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.compiler.capture.captured_tensors import find_tracer
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.subprograms import LiftedFunction, Region
from ndgrad._src.compiler.passes.basic_index import Place, to_setting
from ndgrad._src.compiler.program.compiler_ops import branch, loop
from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad._src.core.variable import np_dtype, wrap
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.ops.vocabulary import find, tensor_ops
from ndgrad._src.transforms.transforms import jvp, vjp, vmap

Tensors = Sequence[Any]
Flat = Callable[[Tensors], list[Any]]


def is_smooth(t: Any) -> bool:
    """True if a tensor's dtype has derivatives."""
    return is_inexact(np_dtype(t))


@contextmanager
def break_on_error() -> Iterator[None]:
    """Context that turns the failure of a rule into a graph break. A backward pass must not mistake it for a failure of
    the function.
    """
    try:
        yield
    except GraphBreak:
        raise
    except Exception as error:
        reason = f"{type(error).__name__} in the derivative of a loop or branch: {str(error)[:300]}"
        raise GraphBreak(reason) from None  # contextlib confuses a RuntimeError from a StopIteration with the latter


# ----- scan -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rounds:
    """A loop: its body maps tensors (carry, row, the rest) to (carry, y). `carried` and `rows` count the first two
    groups.

    The last y are the initial carry of the round.
    """

    body: Flat
    carried: int
    rows: int
    count: int
    reverse: bool

    def parts(self, tensors: Tensors) -> tuple[list[Any], list[Any], list[Any]]:
        """Split tensors into carry, rows and the rest."""
        n, m = self.carried, self.carried + self.rows
        return list(tensors[:n]), list(tensors[n:m]), list(tensors[m:])


def add_carry_output(body: Flat, carried: int) -> Flat:
    """Return a body that also returns its initial carry, as the last y."""

    def run(tensors: Tensors) -> list[Any]:
        return [*body(tensors), *tensors[:carried]]

    return run


def run_scan(
    step: Callable[[Tensors, Tensors], tuple[list[Any], list[Any]]],
    carry: Tensors,
    rows: Tensors,
    count: int,
    reverse: bool,
    note_change: Callable[[], None] | None = None,
) -> tuple[list[Any], list[Any]]:
    """Return the last carry and all y, stacked, of a loop. `note_change` is called if a derivative finds that the step
    is another function now, because it reads objects that have changed.
    """
    n = len(carry)

    def body(tensors: Tensors) -> list[Any]:
        following, ys = step(tensors[:n], tensors[n : n + len(rows)])
        return [*following, *ys]

    shown = [tensor_ops.getitem(t, index=(0,)) for t in rows]
    lifted = LiftedFunction(body, [*carry, *shown])
    is_traced = False

    def run_again(tensors: Tensors) -> list[Any]:
        if is_traced and note_change is not None and not lifted.is_same(LiftedFunction(body, [*carry, *shown])):
            note_change()
        return lifted(tensors)

    plan = Rounds(add_carry_output(run_again, n), n, len(rows), count, reverse)
    out = _run(plan, [*carry, *rows, *lifted.captured])
    is_traced = True
    return out[:n], out[n : len(out) - n]


def _run(plan: Rounds, tensors: Tensors) -> list[Any]:
    return list(Scan.apply(plan, *tensors))


class Scan(Function):
    """A loop as a function of its carry, its rows and the captured tensors of its body."""

    @staticmethod
    def forward(plan: Rounds, *tensors: Any) -> Any:
        return tuple(_emit_loop(plan, tensors))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.plan, *tensors = inputs
        ctx.count = len(tensors)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, *output)
        ctx.save_for_forward(*tensors, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        saved = ctx.saved_tensors
        with break_on_error():
            return (None, *_pull_back(ctx.plan, saved[: ctx.count], saved[ctx.count :], grads, ctx.needs_input_grad[1:]))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        saved = ctx.saved_tensors
        with break_on_error():
            return tuple(_push_forward(ctx.plan, saved[: ctx.count], saved[ctx.count :], tangents))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Rounds, *tensors: Any) -> Any:
        with break_on_error():
            return _batch(info, in_dims[1:], plan, tensors)


def _pull_back(plan: Rounds, inputs: Tensors, outputs: Tensors, grads: Tensors, needs: Sequence[bool]) -> list[Any]:
    """Return the cotangents of the inputs of a loop."""
    n, m = plan.carried, plan.carried + plan.rows
    carries = outputs[len(outputs) - n :]
    rest = inputs[m:]
    wanted = [is_smooth(t) and (i < n or needs[i]) for i, t in enumerate(inputs)]  # carries depend on carries
    moving = [i for i in range(n) if wanted[i]]
    reading = [i for i in range(n, m) if wanted[i]]
    shared = [i for i in range(m, len(inputs)) if wanted[i]]
    given = [i for i, g in enumerate(grads) if g is not None and i >= n]
    start = [tensor_ops.zeros_like(outputs[i]) if grads[i] is None else grads[i] for i in moving]
    start += [tensor_ops.zeros_like(inputs[i]) for i in shared]
    carried = len(start)

    pull = make_pullback(plan.body, len(inputs), [*moving, *reading, *shared], [*moving, *given])

    def body(tensors: Tensors) -> list[Any]:
        own, row, others = (
            tensors[:carried],
            tensors[carried : carried + m + len(given)],
            tensors[carried + m + len(given) :],
        )
        found = pull([*row[:m], *others, *own[: len(moving)], *row[m:]])
        last = len(moving) + len(reading)
        sums = [tensor_ops.add(a, b) for a, b in zip(own[len(moving) :], found[last:], strict=True)]
        return [*found[: len(moving)], *sums, *found[len(moving) : last]]

    rows = [*carries, *inputs[n:m], *[grads[i] for i in given]]
    back = Rounds(add_carry_output(body, carried), carried, len(rows), plan.count, not plan.reverse)
    if not moving and not given:
        return [None] * len(inputs)
    out = _run(back, [*start, *rows, *rest])
    found: list[Any] = [None] * len(inputs)
    for i, g in zip([*moving, *shared, *reading], out, strict=False):
        found[i] = g
    return found


def _push_forward(plan: Rounds, inputs: Tensors, outputs: Tensors, tangents: Tensors) -> list[Any]:
    """Return the tangents of the outputs of a loop."""
    n, m = plan.carried, plan.carried + plan.rows
    carries = outputs[len(outputs) - n :]
    moving = [i for i in range(n) if is_smooth(inputs[i])]
    reading = [i for i in range(n, m) if tangents[i] is not None]
    shared = [i for i in range(m, len(inputs)) if tangents[i] is not None]
    smooth = [i for i, t in enumerate(outputs) if is_smooth(t)]
    start = [tensor_ops.zeros_like(inputs[i]) if tangents[i] is None else tangents[i] for i in moving]
    carried = len(start)

    push = make_pushforward(plan.body, len(inputs), [*moving, *reading, *shared], smooth)

    def body(tensors: Tensors) -> list[Any]:
        own, row = tensors[:carried], tensors[carried : carried + m + len(reading)]
        others = tensors[carried + m + len(reading) :]
        left = len(inputs) - m
        return push([*row[:m], *others[:left], *own, *row[m:], *others[left:]])

    rows = [*carries, *inputs[n:m], *[tangents[i] for i in reading]]
    tangent = Rounds(add_carry_output(body, carried), carried, len(rows), plan.count, plan.reverse)
    made = _run(tangent, [*start, *rows, *inputs[m:], *[tangents[i] for i in shared]])
    found: list[Any] = [None] * len(outputs)
    for i, t in zip(smooth, made, strict=False):
        found[i] = t
    return found


def _batch(
    info: Any, dims: tuple[Any, ...], plan: Rounds, tensors: Tensors
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Run a loop for all samples. The whole carry is batched, because it may become so in any round."""
    n, m = plan.carried, plan.carried + plan.rows
    given, dims = batch_carry(info, dims, n, tensors)
    given = [
        _permute_first(t, (1, 0)) if d == 0 and n <= i < m else t for i, (t, d) in enumerate(zip(given, dims, strict=True))
    ]
    out = _run(Rounds(make_batched(plan.body, dims, info), n, plan.rows, plan.count, plan.reverse), given)
    return tuple(out), (*(0,) * n, *(1,) * (len(out) - n))


def _expand_samples(t: Any, size: int) -> Any:
    return tensor_ops.expand(t, shape=(size, *t.shape))


def _permute_first(t: Any, first: tuple[int, int]) -> Any:
    return tensor_ops.permute(t, dims=(*first, *range(2, len(t.shape))))


def _emit_loop(plan: Rounds, tensors: Tensors) -> list[Any]:
    """Trace the body and append the loop to the program."""
    tracer = require_tracer()
    carry, rows, rest = plan.parts(tensors)
    own = [(t, None) for t in carry] + [(t, tuple(t.shape[1:])) for t in rows]
    region = Region(tracer, plan.body, own, rest)
    region.hoist(tracer)
    n = len(carry)
    program = region.program
    carried, read = region.own[:n], region.own[n:]
    program.inputs = [*carried, *region.taken.values(), *read]
    for now, following in zip(carried, program.outputs, strict=False):
        if (now.shape, now.dtype) != (following.shape, following.dtype):
            raise GraphBreak(
                f"what a loop carries becomes {following.dtype}{following.shape}, after {now.dtype}{now.shape}"
            )
    stacks = [Value((plan.count, *v.shape), v.dtype) for v in program.outputs[n:]]
    results = (*[Value(v.shape, v.dtype) for v in carried], *stacks)
    arguments = [tracer.argument(t._array) for t in (*carry, *rows)]
    settings = {
        "body": program,
        "count": plan.count,
        "carried": n,
        "invariant": len(region.taken),
        "reads": ((plan.count - 1, -1) if plan.reverse else (0, 1),) * len(rows),
        "last": 0,
    }
    emit(tracer, loop, [*arguments[:n], *region.taken, *arguments[n:]], settings, results)
    found = [*results[:n], *[_sort_rows(tracer, v, plan.reverse) for v in stacks]]
    return [wrap(tensor_type, tracer.array(v)) for tensor_type, v in zip(region.tensor_types, found, strict=True)]


def _sort_rows(tracer: Any, stack: Value, reverse: bool) -> Value:
    """Return the stacked outputs of all rounds in the order of the rows that the rounds read."""
    if not reverse or stack.shape[0] == 1:
        return stack
    index: tuple[Place, ...] = ((stack.shape[0] - 1, stack.shape[0], -1), *[(0, n, 1) for n in stack.shape[1:]])
    found: Value = tracer.emit(find("getitem"), (stack,), {"index": to_setting(index)})[0]
    return found


# ----- branches -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Branches:
    """Two functions of the same tensors, with results of the same shapes and dtypes."""

    when_true: Flat
    when_false: Flat

    def transform(self, change: Callable[[Flat], Flat]) -> Branches:
        """Return both functions after a change."""
        return Branches(change(self.when_true), change(self.when_false))


def run_branch(pred: Any, when_true: Flat, when_false: Flat, tensors: Tensors) -> list[Any]:
    """Return the results of one of two functions. The program decides which one."""
    first, second = LiftedFunction(when_true, tensors), LiftedFunction(when_false, tensors)
    n, m = len(tensors), len(tensors) + len(first.captured)
    plan = Branches(lambda given: first(given[:m]), lambda given: second([*given[:n], *given[m:]]))
    return list(Cond.apply(plan, pred, *tensors, *first.captured, *second.captured))


class Cond(Function):
    """A branch as a function of the tensors that both sides depend on."""

    @staticmethod
    def forward(plan: Branches, pred: Any, *tensors: Any) -> Any:
        tracer = require_tracer()
        sides = {
            name: Region(tracer, f, (), tensors, name)
            for name, f in (("on_true", plan.when_true), ("on_false", plan.when_false))
        }
        taken = share_inputs(sides)
        programs = {name: region.program for name, region in sides.items()}
        values = [[(v.shape, v.dtype) for v in p.outputs] for p in programs.values()]
        if values[0] != values[1]:
            raise GraphBreak(f"the branches of a cond give {values[0]} and {values[1]}")
        results = tuple([Value(*kind) for kind in values[0]])
        emit(tracer, branch, [tracer.argument(pred._array), *taken], programs, results)
        return tuple([wrap(tensor_type, tracer.array(v)) for tensor_type, v in zip(sides["on_true"].tensor_types, results, strict=True)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.plan = inputs[0]
        ctx.smooth = [i for i, t in enumerate(output) if is_smooth(t)]
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        pred, *tensors = ctx.saved_tensors
        places = [i for i, t in enumerate(tensors) if is_smooth(t) and ctx.needs_input_grad[i + 2]]
        given = [i for i, g in enumerate(grads) if g is not None]
        with break_on_error():
            plan = ctx.plan.transform(lambda f: make_pullback(f, len(tensors), places, given))
            out = Cond.apply(plan, pred, *tensors, *[grads[i] for i in given])
        found: list[Any] = [None] * len(tensors)
        for i, g in zip(places, out, strict=True):
            found[i] = g
        return (None, None, *found)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
        pred, *tensors = ctx.saved_tensors
        places = [i for i, t in enumerate(tangents) if t is not None]
        with break_on_error():
            plan = ctx.plan.transform(lambda f: make_pushforward(f, len(tensors), places, ctx.smooth))
            out = Cond.apply(plan, pred, *tensors, *[tangents[i] for i in places])
        found: list[Any] = [None] * (max(ctx.smooth, default=-1) + 1)
        for i, t in zip(ctx.smooth, out, strict=True):
            found[i] = t
        return tuple(found)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Branches, pred: Any, *tensors: Any) -> Any:
        with break_on_error():
            out = Cond.apply(plan.transform(lambda f: make_batched(f, in_dims[2:], info)), pred, *tensors)
        return out, (0,) * len(out)


def share_inputs(regions: dict[str, Region]) -> list[Value]:
    """Let programs take the same values of the surrounding program, after their own inputs. Return these values."""
    taken = list(dict.fromkeys(v for region in regions.values() for v in region.taken))
    for region in regions.values():
        inner = [region.taken[v] if v in region.taken else Value(v.shape, v.dtype) for v in taken]
        region.program.inputs = [*region.own, *inner]
    return taken


def emit(tracer: Any, op: Any, arguments: Tensors, settings: dict[str, Any], results: tuple[Value, ...]) -> None:
    """Append an instruction with known results."""
    tracer.program.instructions.append(Instruction(op, tuple(arguments), settings, results, tracer.place or tracer.line()))


def require_tracer() -> Any:
    """Return the tracer of the program that a loop or branch becomes part of."""
    tracer = find_tracer()
    if tracer is None:
        raise GraphBreak("a loop or branch of a program is run outside of it")
    return tracer


def _replace_at(tensors: Tensors, places: Sequence[int], others: Tensors) -> list[Any]:
    """Return tensors with others in some positions."""
    full = list(tensors)
    for i, t in zip(places, others, strict=True):
        full[i] = t
    return full


def make_pullback(f: Flat, count: int, places: Sequence[int], given: Sequence[int]) -> Flat:
    """Return a function from `count` arguments of `f` and cotangents of its results `given` to the cotangents of the
    arguments at `places`.
    """

    def run(tensors: Tensors) -> list[Any]:
        primals = tensors[:count]

        def part(*variable: Any) -> tuple[Any, ...]:
            made = f(_replace_at(primals, places, variable))
            return tuple([made[i] for i in given])

        _, pull = vjp(part, *[primals[i] for i in places])
        return list(pull(tuple(tensors[count:])))

    return run


def make_pushforward(f: Flat, count: int, places: Sequence[int], smooth: Sequence[int]) -> Flat:
    """Return a function from `count` arguments of `f` and tangents of those at `places` to the tangents of its results
    `smooth`.
    """

    def run(tensors: Tensors) -> list[Any]:
        primals = tensors[:count]

        def part(*variable: Any) -> tuple[Any, ...]:
            made = f(_replace_at(primals, places, variable))
            return tuple([made[i] for i in smooth])

        return list(jvp(part, tuple([primals[i] for i in places]), tuple(tensors[count:]))[1])

    return run


def make_batched(f: Flat, dims: tuple[Any, ...], info: Any, out_dims: int | None = 0) -> Flat:
    """Return a function for all samples."""
    if all(d is None for d in dims):  # without batched arguments all results are equal
        return lambda tensors: [_expand_samples(t, info.batch_size) if out_dims == 0 else t for t in f(tensors)]

    def one(*sample: Any) -> tuple[Any, ...]:
        return tuple(f(sample))

    mapped = vmap(one, dims, out_dims, randomness=info.randomness)
    return lambda tensors: list(mapped(*tensors))


def batch_carry(info: Any, dims: tuple[Any, ...], n: int, tensors: Tensors) -> tuple[list[Any], tuple[Any, ...]]:
    """Return tensors with the first `n` batched, and the batch dimensions."""
    given = [
        _expand_samples(t, info.batch_size) if d is None and i < n else t
        for i, (t, d) in enumerate(zip(tensors, dims, strict=True))
    ]
    return given, (*(0,) * n, *dims[n:])
