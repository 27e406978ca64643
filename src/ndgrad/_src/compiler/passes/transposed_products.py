"""Compute products in transposed order if they leave the program transposed.

    permute(matmul(a, b), dims=(1, 0))                      ->  matmul(permute(b), permute(a))
    permute(add(matmul(a, b), matmul(c, d)), dims=(1, 0))   ->  add of both, likewise

Transposed operands are read by strides at no cost, while a transposed result has to be copied. The gradient of a weight
that was used transposed is such a result. The pass applies only to outputs, and to products without other readers. It
reassociates: the transposed product may add its terms in another order. For native code alone.
"""

from __future__ import annotations

from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.passes.views import canonical_views
from ndgrad._src.compiler.program.program import Instruction, Program, Value

_rules = Rules(canonical_views)


class _Turning(Walk):
    """A walk that knows the outputs of a program and the values that are read once."""

    outputs: set[Value]
    read_once: set[Value]


def transpose_products(program: Program) -> Program:
    """Return the program with products in the order in which they leave it."""
    definitions, outputs = program.definitions(), set(program.outputs)
    if all(v not in definitions or definitions[v].op.name != "permute" for v in outputs):
        return program
    walk = _Turning(program, _rules)
    walk.outputs = outputs
    walk.read_once = {v for v, users in program.users().items() if len(users) == 1 and v not in outputs}
    return remove_dead_code(walk.run())


@_rules.rule("permute")
def _transpose_product(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, _Turning)
    result, dims = instruction.result, instruction.settings["dims"]
    if result not in walk.outputs or tuple(dims) != swapped(result.ndim):
        return None
    (x,) = instruction.arguments
    terms = _terms(walk, x)
    return None if terms is None else _transpose_sum(walk, terms)


def swapped(ndim: int) -> tuple[int, ...]:
    """Return the order of dimensions with the last two exchanged."""
    return (*range(ndim - 2), ndim - 1, ndim - 2) if ndim > 1 else ()


def _terms(walk: _Turning, value: Value) -> list[Instruction] | None:
    """Return the products whose sum a value is, and the additions, operands first; None if there are other terms."""
    found: list[Instruction] = []
    stack = [value]
    while stack:
        v = stack.pop()
        made = walk.made_by(v, "matmul", "add")
        if made is None or v not in walk.read_once:
            return None
        found.append(made)
        if made.op.name == "matmul":
            if any(operand.ndim < 2 for operand in made.values()):
                return None
        elif all(a.__class__ is Value and a.shape == v.shape for a in made.arguments):
            stack += made.arguments
        else:
            return None
    return found


def _transpose_sum(walk: _Turning, terms: list[Instruction]) -> Value:
    """Return the first of `_terms`, with its last two dimensions exchanged."""
    turned: dict[Value, Value] = {}
    for made in reversed(terms):
        if made.op.name == "add":
            turned[made.result] = walk.emit("add", *[turned[a] for a in made.arguments])
        else:
            a, b = (walk.emit("permute", v, dims=swapped(v.ndim)) for v in made.arguments)
            turned[made.result] = walk.emit("matmul", b, a)
    return turned[terms[0].result]
