"""Classification of ops for the engine: the route of an op's nodes (`Node.route`)."""

from __future__ import annotations

from ndgrad._src.core.node import GENERAL, RULE, UNARY
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.ops.table import VARIABLE, Op


def first_route(op: Op) -> int:
    """Return the initial `Node.route` (see ndgrad._src.core.node)."""
    if returns_parts(op):
        return RULE
    if op.outputs != 1 or op.consumes or reads_part(op):
        return GENERAL
    unary = op.elementwise and len(op.args) == 1 and not op.variadic and op.jvp == "elementwise"
    return UNARY if unary else RULE


def reads_part(op: Op) -> bool:
    """True if the op reads a part of its input. Its gradient is added in place (see _src.core.part_gradients)."""
    return op.partial_view or op.copies_part is not None or op.adjoint_write is not None


def joins(op: Op) -> bool:
    """True if the op joins any number of arrays into one and saves none (cat, stack)."""
    if not op.variadic or op.outputs != 1 or len(op.args) != 1 or op.view or op.joint_rule is None:
        return False
    plan = save_plan(op)
    return not plan.arrays and not plan.outs


def returns_parts(op: Op) -> bool:
    """True if the op has any number of outputs, and one rule that needs only their gradients (split, unbind)."""
    if op.outputs != VARIABLE or len(op.args) != 1 or op.joint_rule is not None or not op.differentiable:
        return False
    plan = save_plan(op)
    return not plan.arrays and not plan.outs


def has_number_form(op: Op) -> bool:
    """True if the op, with a Python number as second argument, behaves like an op of one argument."""
    return (
        op.elementwise
        and len(op.args) == 2
        and not op.variadic
        and op.jvp == "elementwise"
        and op.outputs == 1
        and len(op.rules) == 2
    )
