"""What kind of op it is, to the engine: how the nodes of an op run (`Node.route`)."""

from __future__ import annotations

from ndgrad._src.core.node import GENERAL, RULE, UNARY
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.ops.table import VARIABLE, Op


def first_route(op: Op) -> int:
    """What `Node.route` starts as (see ndgrad._src.core.node)."""
    if returns_parts(op):
        return RULE
    if op.outputs != 1 or op.consumes or reads_part(op):
        return GENERAL
    unary = op.elementwise and len(op.args) == 1 and not op.variadic and op.jvp == "elementwise"
    return UNARY if unary else RULE


def reads_part(op: Op) -> bool:
    """Whether the op reads a part of its input, to whose gradient its own is added in place (see
    ndgrad._src.core.part_gradients)."""
    return op.partial_view or op.copies_part is not None or op.adjoint_write is not None


def joins(op: Op) -> bool:
    """Whether the op makes one array of any number of them, and saves none (cat, stack)."""
    if not op.variadic or op.outputs != 1 or len(op.args) != 1 or op.view or op.joint_rule is None:
        return False
    plan = save_plan(op)
    return not plan.arrays and not plan.outs


def returns_parts(op: Op) -> bool:
    """Whether the op has any number of outputs, and one rule that needs nothing but their gradients (split, unbind)."""
    if op.outputs != VARIABLE or len(op.args) != 1 or op.joint_rule is not None or not op.differentiable:
        return False
    plan = save_plan(op)
    return not plan.arrays and not plan.outs


def has_number_form(op: Op) -> bool:
    """Whether the op, with a Python number as second argument, is as good as an op of one argument."""
    return (
        op.elementwise
        and len(op.args) == 2
        and not op.variadic
        and op.jvp == "elementwise"
        and op.outputs == 1
        and len(op.rules) == 2
    )
