"""In-place writes: the checks, the write itself, and the history afterwards.

Every op's trailing-underscore form comes through `write`: compute, check that the result fits, then (and only then) change
memory, the version, and the history. So a write that fails leaves the tensor as it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.autograd.dispatch import dispatch, own_edge, payload_dtype, raw, save_input
from ndgrad.autograd.modes import thread
from ndgrad.autograd.node import next_sequence_number
from ndgrad.autograd.variable import Variable, edge, wrap
from ndgrad.autograd.versions import storage_of
from ndgrad.autograd.view import DEFAULT, rebase, write_error
from ndgrad.ops.generate import save_plan


def check_writable(t: Any, op_name: str, value_requires_grad: bool = False) -> None:
    """Raise, with the reason, if `t` may not be written in place now."""
    meta = t._meta
    if meta is None:
        return
    if meta.inference and not thread.inference:
        raise RuntimeError(
            f"{op_name}: in-place update of an inference tensor outside inference mode is not allowed: its version is not "
            "tracked, so a saved value could change unseen. clone() it first, and write the clone."
        )
    if not thread.grad_enabled:
        return
    if meta.requires_grad and t._node is None:
        raise RuntimeError(
            f"{op_name}: a leaf tensor of shape {tuple(t.shape)} that requires grad is modified in place: its gradient would belong to "
            "neither the old nor the new value. Do the write under no_grad(), or on a clone()."
        )
    info = meta.view
    if info is not None:
        base_meta = info.base._meta
        if base_meta is not None and base_meta.requires_grad and info.base._node is None:
            raise RuntimeError(
                f"{op_name}: a view of a leaf tensor that requires grad is modified in place. "
                "Do the write under no_grad(), or on a view of a clone()."
            )
        if info.creation != DEFAULT and (value_requires_grad or edge(info.base) is not None):
            raise write_error(t, info.creation)


def write(op: Any, target: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """`target` becomes op(target, *args), in place, and is returned."""
    if thread.dual_levels or thread.levels:
        from ndgrad.func.levels import write_through_transforms

        handled = write_through_transforms(op, target, args, settings)
        if handled is not NotImplemented:
            return handled
    return write_level(op, target, args, settings, 0)


def write_level(op: Any, target: Any, args: tuple[Any, ...], settings: dict[str, Any], level: int) -> Any:
    """The write on a tensor of `level`, with all transforms above it dealt with."""
    others = [own_edge(a, level) for a in args]
    check_writable(target, op.name + "_", any(e is not None for e in others))
    storage = storage_of(target)
    array = target._array
    arguments = (target, *args)
    fits = op.forward_for(np)(*(raw(a) for a in arguments), **settings)
    _check_fits(op, target, fits)
    record = op.differentiable and thread.grad_enabled and payload_dtype(array).kind in "fc"
    self_edge = own_edge(target, level) if record else None
    by_name = dict(zip(op.args, arguments, strict=True))
    edges = {a: own_edge(by_name[a], level) for a in op.differentiable_args} if record else {}
    before = None
    if any(e is not None for e in edges.values()):
        plan = save_plan(op)
        if op.args[0] in plan.arrays:
            before = _old_value(target, self_edge)
    storage.before_write(array)
    array[...] = fits
    storage.bump(op.name + "_")
    if any(e is not None for e in edges.values()):
        node = _inplace_node(op, target, before, by_name, settings, edges, level)
        set_history(target, node, self_edge)
    return target


def _check_fits(op: Any, target: Any, result: Any) -> None:
    if tuple(result.shape) != tuple(target._array.shape):
        try:
            np.broadcast_shapes(result.shape, target._array.shape)
        except ValueError:
            fits = False
        else:
            fits = len(result.shape) <= len(target._array.shape) and all(
                r in (1, n) for r, n in zip(result.shape[::-1], target._array.shape[::-1], strict=False)
            )
        if not fits:
            raise RuntimeError(
                f"{op.name}_: the result has shape {tuple(result.shape)} and does not fit into the tensor of shape "
                f"{tuple(target._array.shape)} that it is written to. Use {op.name}(), which makes a new tensor."
            )
    if not np.can_cast(result.dtype, target._array.dtype, "same_kind"):
        raise RuntimeError(
            f"{op.name}_: result type {result.dtype} can't be cast to the desired output type {target._array.dtype}. "
            f"Use {op.name}(), which makes a new tensor, or convert the tensor with .to() first."
        )
    if not target._array.flags.writeable:
        raise RuntimeError(
            f"{op.name}_: the tensor of shape {tuple(target._array.shape)} is over read-only memory. clone() it first."
        )


def _old_value(target: Any, self_edge: Any) -> Any:
    """The value before the write, as a tensor with the history it had."""
    from ndgrad.autograd.saved import with_history

    return with_history(wrap(target.face, target._array.copy()), self_edge)


def _inplace_node(
    op: Any, target: Any, before: Any, by_name: dict[str, Any], settings: dict[str, Any], edges: dict[str, Any], level: int
) -> Any:
    node = op.level_node_class() if level else op.node_class()
    if level:
        node.level = level
    node.seq = next_sequence_number()
    node.next = tuple(edges[a] for a in op.differentiable_args)
    node.extra = None
    node.shape = tuple(target._array.shape)
    node.dtype = payload_dtype(target._array)
    plan = save_plan(op)
    needed = {a for a, e in edges.items() if e is not None}
    for name in plan.arrays:
        if plan.users[name] & needed:
            save_input(node, name, before if name == op.args[0] else by_name[name], thread.saved_hooks)
    for name in plan.outs:
        if plan.users[name] & needed:
            setattr(node, name, target._array)
            setattr(node, name + "_s", target._storage)
            setattr(node, name + "_v", target._storage.version)
            if target.keeps_saved:
                target._storage.keeps = True
    for name in plan.settings:
        setattr(node, name, settings[name])
    for name in plan.facts:
        arg, fact = name.rsplit("_", 1)
        value = by_name[arg]
        setattr(node, name, {"shape": lambda v: tuple(v.shape), "ndim": lambda v: len(v.shape), "dtype": payload_dtype}[fact](raw(value)))
    return node


def set_history(target: Any, node: Any, self_edge: Any) -> None:
    """After a write that `node` describes: the new history of the target, and of its base if it is a view."""
    meta = target._meta
    info = None if meta is None else meta.view
    if info is None:
        target._node = node
        if meta is not None:
            meta.output_nr = 0
        return
    rebase(info.base, info.path, node, edge(info.base))
    info.version = None  # the view's own history is replayed from the base when next asked for


def write_out(op: Any, args: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """`op(..., out=out)`: the result is written into `out`, which is resized if it is empty, as in torch."""
    for t in (*args, out):
        if isinstance(t, Variable) and thread.grad_enabled and t.requires_grad:
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
                "requires grad. Call it without out=, or under no_grad()."
            )
    result = dispatch(op, args, settings)
    return copy_into(op.name, out, result)


def copy_into(name: str, out: Any, result: Any) -> Any:
    storage = storage_of(out)
    if not np.can_cast(result._array.dtype, out._array.dtype, "same_kind"):
        raise RuntimeError(
            f"{name}(): result type {result._array.dtype} can't be cast to the desired output type {out._array.dtype} of out=."
        )
    if tuple(out.shape) != tuple(result.shape):
        out._array = np.empty(result._array.shape, out._array.dtype)
    storage.before_write(out._array)
    out._array[...] = result._array
    storage.bump(f"{name}(out=)")
    return out
