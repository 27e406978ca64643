"""Run a program op by op on tensors, inside any active transforms and modes.

A compiled call is made outside of transforms, but its gradients may be requested inside one: batched by
`is_grads_batched` or by a vmap over a pullback, or along a tangent of the cotangents. The program of the gradients is
then a list of ops like any other, and each op handles a batch or a dual.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.compiler.capture.captured_tensors import find_tracer
from ndgrad._src.compiler.passes.dead_code import without_dead
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.core.variable import wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor


def run_on_tensors(program: Program, tensors: Sequence[Any], outputs: Sequence[Value]) -> list[Any]:
    """Return some outputs of a program for these tensors."""
    wanted = without_dead(Program(program.inputs, list(outputs), program.instructions, program.constants, program.name))
    values: dict[Value, Any] = {v: wrap(Tensor, array) for v, array in wanted.constants.items()}
    values.update(zip(wanted.inputs, tensors, strict=True))
    tracer = find_tracer()
    place = None if tracer is None else tracer.place
    for instruction in wanted.instructions:
        if tracer is not None:
            tracer.place = instruction.where
        arguments = [values[a] if a.__class__ is Value else a for a in instruction.arguments]
        values.update(zip(instruction.results, _run_instruction(instruction, arguments), strict=True))
    if tracer is not None:
        tracer.place = place
    return [values[v] for v in outputs]


def _run_instruction(instruction: Instruction, arguments: list[Any]) -> Sequence[Any]:
    op, settings = instruction.op, instruction.settings
    match op.name:
        case "loop":
            return _loop(*arguments, **settings)
        case "branch":
            return _branch(*arguments, **settings)
        case "while":
            return _run_while(*arguments, **settings)
        case "sweeps":
            return _sweeps(*arguments, **settings)
        case "pieces":
            shape, index = settings["shape"], settings["index"]
            total, *more = [
                tensor_ops.embed(part, shape=shape, index=place) for part, place in zip(arguments, index, strict=True)
            ]
            for part in more:
                total = total + part
            return (total,)
        case "overlaid":
            made, *parts = arguments
            for part, place in zip(parts, settings["index"], strict=True):
                made = tensor_ops.slice_scatter(made, part, index=place)
            return (made,)
    out = op(*arguments, **settings)
    return (out,) if op.outputs == 1 else out


def _loop(
    *tensors: Any,
    body: Program,
    count: int,
    carried: int,
    invariant: int,
    reads: tuple[tuple[int, int], ...],
    last: int,
) -> tuple[Any, ...]:
    """Run the op `loop` (see ndgrad._src.compiler.program.compiler_ops)."""
    state = list(tensors[:carried])
    fixed = tensors[carried : carried + invariant]
    sequences = list(zip(tensors[carried + invariant :], reads, strict=True))
    if find_tracer() is not None:
        return _scan(state, fixed, sequences, body, count, last)
    rounds: list[list[Any]] = []
    out: list[Any] = []
    for t in range(count):
        rows = [tensor_ops.select(array, dim=0, index=start + step * t) for array, (start, step) in sequences]
        out = run_on_tensors(body, [*state, *fixed, *rows], body.outputs)
        state = out[:carried]
        rounds.append(out[carried + last :])
    return (
        *state,
        *out[carried : carried + last],
        *[tensor_ops.stack(*rows, dim=0) for rows in zip(*rounds, strict=True)],
    )


def _scan(
    state: list[Any], fixed: Sequence[Any], sequences: list[Any], body: Program, count: int, last: int
) -> tuple[Any, ...]:
    """Run the same inside a trace, as a loop of the traced program."""
    from ndgrad._src.compiler.capture.control_flow import run_scan  # rarely needed

    carried = len(state)

    def step(carry: Sequence[Any], row: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        out = run_on_tensors(body, [*carry, *fixed, *row], body.outputs)
        return out[:carried], out[carried:]

    rows = [_select_rows(array, start, by, count) for array, (start, by) in sequences]
    following, ys = run_scan(step, state, rows, count, False)
    return (*following, *[tensor_ops.select(y, dim=0, index=count - 1) for y in ys[:last]], *ys[last:])


def _select_rows(array: Any, start: int, step: int, count: int) -> Any:
    """Return rows of an array in the order in which rounds read them."""
    if (start, step, count) == (0, 1, len(array)):
        return array
    if not step:
        row = tensor_ops.getitem(array, index=(slice(start, start + 1),))
        return tensor_ops.expand(row, shape=(count, *row.shape[1:]))
    stop = start + step * count
    return tensor_ops.getitem(array, index=(slice(start, None if stop < 0 else stop, step),))


def _branch(condition: Any, *tensors: Any, on_true: Program, on_false: Program) -> Sequence[Any]:
    from ndgrad._src.control_flow.loops import cond  # rarely needed

    def side(program: Program) -> Any:
        return lambda *given: tuple(run_on_tensors(program, given, program.outputs))

    found: Sequence[Any] = cond(condition, side(on_true), side(on_false), *tensors)
    return found


def _run_while(*tensors: Any, body: Program, carried: int, invariant: int) -> Sequence[Any]:
    from ndgrad._src.control_flow.loops import while_loop  # rarely needed

    fixed = tensors[carried:]

    def run_round(state: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(run_on_tensors(body, [*state, *fixed], body.outputs))

    return while_loop(lambda state: state[-1], run_round, tensors[:carried])


def _sweeps(
    *tensors: Any, body: Program, carried: tuple[int, ...], reads: tuple[tuple[int, ...], ...], **more: Program
) -> Sequence[Any]:
    """Run the op `sweeps` (see ndgrad._src.compiler.program.compiler_ops). Each sample may have its own number of
    rounds.
    """
    from ndgrad._src.compiler.capture.while_loops import Repeated, Sweep, While  # rarely needed
    from ndgrad._src.control_flow.samples import for_samples, goes_on, known_value  # rarely needed

    programs = [body, *[more[f"sweep{number}"] for number in range(1, len(carried))]]
    flag = carried[0] - 1

    def sweep(program: Program, n: int, read: Sequence[int], rows: int) -> Sweep:
        """Return a sweep that knows whether a sample has this round: from the last of the first carry, or from a row.
        """

        def run(given: Sequence[Any]) -> list[Any]:
            seen = given[n : n + rows]
            return run_on_tensors(program, [*given[:n], *[seen[i] for i in read], *given[n + rows :]], program.outputs)

        place = n + flag if rows else flag
        return Sweep(lambda given: for_samples(given[place], run, given, n), n, len(program.outputs) - n)

    made: list[Sweep] = []
    for program, n, read in zip(programs, carried, ((), *reads), strict=True):
        made.append(sweep(program, n, read, sum(s.carried + s.made for s in made)))
    plan = Repeated(lambda given: [goes_on(given[flag])], tuple(made))
    if find_tracer() is not None:
        return list(While.apply(plan, *tensors))
    starts, fixed = plan.parts(tensors)
    rows: list[list[Any]] = []
    while known_value(goes_on(starts[0][flag])):
        rows.append(list(starts[0]))
        starts[0] = plan.sweeps[0].body([*starts[0], *fixed])
    for number, s in enumerate(plan.sweeps[1:], start=1):
        for row in reversed(rows) if number % 2 else rows:
            found = s.body([*starts[number], *row, *fixed])
            row += [*starts[number], *found[s.carried :]]
            starts[number] = found[: s.carried]
    return [t for carry in starts for t in carry]
