"""Gradients of parts: the cost in backward of reads and writes of a part.

Note [Gradients of parts]
The gradient of `x[i]` with respect to `x` is zero except for one part. Made in full, it would cost as much as the whole
`x`, and a loop over a buffer of n elements would cost n^2. So a node that `reads` a part adds its gradient in place to
that part of the gradient already received by the producer of `x`, if the engine owns it (see the engine's Note [Owned
gradients]). Only the first read of an array makes zeros, which the engine then owns. The search passes through whole
views (`x.reshape(...)[i]`, `x.T[i]`): the part is looked up in the gradient by the same steps, and the nodes of the
views receive nothing.

A node that writes a part (`consumes`: CopySlices, index_put) changes only that part of the gradient it owns, and passes
it on.

The same holds on tensors (create_graph, transforms), where adding in place is a recorded write, itself part of the
graph of the next order. There a small gradient is added out of place, which is faster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.device_kernels import add_into
from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.node import Edge
from ndgrad._src.foundations import registry
from ndgrad._src.ops.arithmetic import add

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.core.saved import RuleNode
    from ndgrad._src.core.variable import Variable
    from ndgrad._src.ops.vocabulary import RawOps
    from ndgrad._typing import GraphTask, Payload

#: Below this number of elements, adding in place is slower than making a new array.
SMALL = 4096


def add_to_part(task: GraphTask, node: Any, g: Payload) -> bool:
    """Add the gradient of a read to its part of the gradient that the producer has received.

    Return False if the engine owns no gradient there.
    """
    views: list[Any] = []
    e = node.next[0]
    while e not in task.owned:
        if (
            e.__class__ is Edge
            or not e.passes_parts
            or e.extra is not None
            or (task.wanted is not None and e in task.wanted)
        ):
            return False
        views.append(e)
        e = e.next[0]
    whole = task.received(e)
    if whole is None or not whole.ndim:  # a 0-d gradient may be a NumPy scalar, whose parts are copies
        return False
    if task.path == "arrays":
        return _add_arrays(whole, views, node, g, task.ops)
    return may_write(whole, g) and _add_tensors(whole, views, node, g, task.path == "payloads")


def _add_arrays(whole: NDArray[Any], views: list[Any], node: RuleNode, g: NDArray[Any], ops: RawOps) -> bool:
    part = whole
    for view in reversed(views):
        part = view.op.forward_for(ops.np)(part, **view.settings())
    # A reshape copies a gradient whose memory layout differs from the tensor's.
    if views and not np.may_share_memory(part, whole):
        return False
    view_op = node.op.copies_part or (node.op if node.op.partial_view else None)
    if view_op is not None:
        part = view_op.forward_for(ops.np)(part, **node.settings())
        if part.__class__ is np.ndarray:
            part += g
        else:
            add_into(part, g)
        return True
    write, others, settings = node.adjoint_write(g, ops)
    assert write.write_kernel is not None
    write.write_kernel(ops.np, part, *others, **settings)
    return True


def _add_tensors(whole: Variable, views: list[Any], node: RuleNode, g: Variable, payloads: bool) -> bool:
    part = whole
    for view in reversed(views):
        part = view.op.eager(part, **view.settings())
    if part is not whole and part._storage is not whole._storage:
        return False
    view_op = node.op.copies_part or (node.op if node.op.partial_view else None)
    if view_op is not None:
        write(add, view_op.eager(part, **node.settings()), (g,), {})
        return True
    op, others, settings = node.adjoint_write(g, None, payloads)
    write(op, part, others, settings)
    return True


def sum_of(a: Payload, b: Payload) -> Payload:
    """Return a + b for arrays on a device."""
    return add.forward_for(library_of(a))(a, b)


def may_write(whole: Variable, g: Variable) -> bool:
    """True if adding `g` in place to an owned tensor gradient is better: it is large, plain, and of the same level."""
    if whole.numel() < SMALL or process.dispatching or thread.observers or registry.interpreters:
        return False
    if whole.__class__ not in TENSOR_TYPES or g.__class__ not in TENSOR_TYPES:
        return False
    return not thread.levels or registry.level_number(whole) == registry.level_number(g)
