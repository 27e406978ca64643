"""Products that leave a program transposed, computed so.

    permute(matmul(a, b), dims=(1, 0))                      ->  matmul(permute(b), permute(a))
    permute(add(matmul(a, b), matmul(c, d)), dims=(1, 0))   ->  add of both, likewise

Transposed operands are read by strides at no cost, while a result has to be copied: the gradient of a weight that
was used transposed is one. Only of outputs, and of products that nobody else reads. It reassociates: a product of other
sides may add its terms in another order. For native code alone.
"""

from __future__ import annotations

from ndgrad._src.compiler.passes.dead_code import without_dead
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.passes.views import canonical_views
from ndgrad._src.compiler.program.program import Instruction, Program, Value

_rules = Rules(canonical_views)


class _Turning(Walk):
    """A walk that knows what leaves a program, and what is read once."""

    outputs: set[Value]
    read_once: set[Value]


def with_turned_products(program: Program) -> Program:
    """The program with products in the order in which they leave it."""
    definitions, outputs = program.definitions(), set(program.outputs)
    if all(v not in definitions or definitions[v].op.name != "permute" for v in outputs):
        return program
    walk = _Turning(program, _rules)
    walk.outputs = outputs
    walk.read_once = {v for v, users in program.users().items() if len(users) == 1 and v not in outputs}
    return without_dead(walk.run())


@_rules.rule("permute")
def _of_product(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, _Turning)
    result, dims = instruction.result, instruction.settings["dims"]
    if result not in walk.outputs or tuple(dims) != swapped(result.ndim):
        return None
    (x,) = instruction.arguments
    terms = _terms(walk, x)
    return None if terms is None else _turned(walk, terms)


def swapped(ndim: int) -> tuple[int, ...]:
    """The order of dimensions with the last two in each other's place."""
    return (*range(ndim - 2), ndim - 1, ndim - 2) if ndim > 1 else ()


def _terms(walk: _Turning, value: Value) -> list[Instruction] | None:
    """The products whose sum a value is, and the additions, each before those that it adds; None if there are others."""
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


def _turned(walk: _Turning, terms: list[Instruction]) -> Value:
    """The first of `_terms`, with its last two dimensions in each other's place."""
    turned: dict[Value, Value] = {}
    for made in reversed(terms):
        if made.op.name == "add":
            turned[made.result] = walk.emit("add", *[turned[a] for a in made.arguments])
        else:
            a, b = (walk.emit("permute", v, dims=swapped(v.ndim)) for v in made.arguments)
            turned[made.result] = walk.emit("matmul", b, a)
    return turned[terms[0].result]
