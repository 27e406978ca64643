"""Fuse the formula of attention's gradients into one op again, for devices that have a kernel for it.

    p = attention_weights(q, k)                                 |
    h = p (g v' - sum(p (g v')))                                |  gq, gk, gv = attention_gradients(g, q, k, v)
    gq = scale h k,   gk = scale h' q,   gv = p' g              |

The rule (ndgrad._src.ops.attention) is written in matrix products, which passes and native code can optimise. A device
has kernels that never hold all the weights, so this pass recognises the formula and replaces it. It reassociates: the
kernels add up tile by tile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Instruction, Program, Value, rewritten


class _Found(NamedTuple):
    """Operands and results of a recognised rule."""

    g: Value
    v: Value
    gq: Value
    gk: Value
    gv: Value


def attention_gradients(program: Program) -> Program:
    """Return the program with one op for the three gradients of each attention."""
    if not any(i.op.name == "attention_weights" for i in program.instructions):
        return program
    users = program.users()
    made: dict[Value, tuple[Instruction, _Found]] = {}
    for instruction in program.instructions:
        if instruction.op.name == "attention_weights" and instruction.arguments[2] is None:
            found = _match_rule(program, users, instruction)
            if found is not None:
                made[_last(program, found)] = instruction, found
    if not made:
        return program
    replaced: dict[Value, Value] = {}
    definitions = program.definitions()

    def rewrite(instruction: Instruction) -> list[Instruction] | None:
        if len(instruction.results) != 1 or instruction.result not in made:
            return None
        weights, found = made[instruction.result]
        q, k, _ = weights.arguments
        operands, dtype = [found.g, q, k, found.v], q.dtype
        sources = [definitions.get(v) for v in operands]
        if all(s is not None and s.op.name == "cast" and s.arguments[0].dtype.char in "eE" for s in sources):
            operands = [s.arguments[0] for s in sources]  # type: ignore[union-attr]  # none is None
        results = tuple([Value(v.shape, operands[1].dtype) for v in (q, k, found.v)])
        new = [Instruction(op_named("attention_gradients"), tuple(operands), dict(weights.settings), results)]
        for result, old in zip(results, (found.gq, found.gk, found.gv), strict=True):
            wide = Value(result.shape, dtype)
            new.append(Instruction(op_named("cast"), (result,), {"dtype": dtype}, (wide,)))
            replaced[old] = wide
        return [instruction, *new]

    # All operands are available after the last of the three results. The other two are read only later.
    return _keep_logs(remove_dead_code(rewritten(_with_readers_last(program, made), rewrite, replaced)))


def _keep_logs(program: Program) -> Program:
    """Return the program in which attention also stores the values that speed up its gradients in the same program."""
    gradients = {i.arguments[1:4]: i for i in program.instructions if i.op.name == "attention_gradients"}
    kept: dict[tuple[Value, ...], tuple[Value, ...]] = {}

    def rewrite(instruction: Instruction) -> list[Instruction] | None:
        operands = instruction.arguments[:3]
        if instruction.op.name == "attention" and operands in gradients and instruction.arguments[3] is None:
            if instruction.settings != gradients[operands].settings or operands in kept:
                return None
            logs = Value(operands[0].shape[:-1], np.dtype(np.float32))
            kept[operands] = instruction.result, logs
            op, settings = op_named("attention_kept"), instruction.settings
            return [Instruction(op, operands, settings, (instruction.result, logs), instruction.where)]
        if instruction.op.name == "attention_gradients" and instruction.arguments[1:4] in kept:
            arguments = (*instruction.arguments, *kept[instruction.arguments[1:4]])
            return [Instruction(instruction.op, arguments, instruction.settings, instruction.results, instruction.where)]
        return None

    return rewritten(program, rewrite, {})


def _with_readers_last(program: Program, made: dict[Value, tuple[Instruction, _Found]]) -> Program:
    """Return the program with all readers of attention's gradients after the last of these gradients."""
    instructions = list(program.instructions)
    for last, (_, found) in made.items():
        position = next(n for n, i in enumerate(instructions) if last in i.results)
        late = {found.gq, found.gk, found.gv}
        before, moved = [], []
        for i in instructions[: position + 1]:
            if any(v in late for v in i.values()):
                moved.append(i)
                late.update(i.results)
            else:
                before.append(i)
        instructions = [*before, *moved, *instructions[position + 1 :]]
    return Program(program.inputs, program.outputs, instructions, program.constants, program.name)


def _last(program: Program, found: _Found) -> Value:
    order = {v: n for n, i in enumerate(program.instructions) for v in i.results}
    return max((found.gq, found.gk, found.gv), key=order.__getitem__)


def _match_rule(program: Program, users: dict[Value, list[Instruction]], weights: Instruction) -> _Found | None:
    """Return the operands of the rule around the weights; None unless the pattern matches exactly and all heads are
    alike.
    """
    p, scale = weights.result, weights.settings["scale"]
    q, k, _ = weights.arguments
    definitions = program.definitions()

    def find_reader(value: object, name: str) -> Instruction | None:
        found = definitions.get(value) if isinstance(value, Value) else None
        return found if found is not None and found.op.name == name else None

    for h in [u for u in users.get(p, ()) if u.op.name == "mul"]:
        difference = find_reader(next((a for a in h.arguments if a is not p), None), "sub")
        if difference is None:
            continue
        product, total = difference.arguments
        summed, scored = find_reader(total, "sum"), find_reader(product, "matmul")
        if summed is None or scored is None or (weighted := find_reader(summed.arguments[0], "mul")) is None:
            continue
        if {*weighted.arguments} != {p, product} or (swapped := find_reader(scored.arguments[1], "permute")) is None:
            continue
        g, v = scored.arguments[0], swapped.arguments[0]
        by_weights = [u for u in users.get(p, ()) if u.op.name == "permute" and _swaps(u)]
        gv = _product_of(users, by_weights, g)
        gq = _scaled(users, [u for u in users.get(h.result, ()) if u.op.name == "matmul" and u.arguments[1] is k], scale)
        turned = [u for u in users.get(h.result, ()) if u.op.name == "permute" and _swaps(u)]
        gk = _scaled(users, _matmuls(users, turned, q), scale)
        lead = q.shape[:-2]
        if gv is not None and gq is not None and gk is not None and k.shape[:-2] == v.shape[:-2] == lead:
            return _Found(g, v, gq, gk, gv)
    return None


def _swaps(permute: Instruction) -> bool:
    n = permute.result.ndim
    return permute.settings["dims"] == (*range(n - 2), n - 1, n - 2)


def _matmuls(users: dict[Value, list[Instruction]], left: list[Instruction], right: Value) -> list[Instruction]:
    readers = [u for view in left for u in users.get(view.result, ())]
    return [u for u in readers if u.op.name == "matmul" and u.arguments[1] is right]


def _product_of(users: dict[Value, list[Instruction]], left: list[Instruction], right: Value) -> Value | None:
    found = _matmuls(users, left, right)
    return found[0].result if found else None


def _scaled(users: dict[Value, list[Instruction]], products: list[Instruction], scale: float) -> Value | None:
    if scale == 1.0 and products:
        return products[0].result
    for product in products:
        for u in users.get(product.result, ()):
            if u.op.name == "mul" and any(a.__class__ is float and a == scale for a in u.arguments):
                return u.result
    return None
