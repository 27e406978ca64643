"""In-place writes: the checks, the write itself, and the history afterwards.

Every op's trailing-underscore form calls `write`, which checks, computes, and only then changes memory, version and
history. So a write that fails leaves the tensor unchanged.

While a transform is open, an in-place op runs out of place, through every level. Only the copy of the result into the
target happens in place, level by level (see ndgrad._src.interpreters.transform_writes).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ndgrad._src.arrays.device_kernels import copy_to, write_elementwise
from ndgrad._src.arrays.library import is_on_device, library_of, on_second_library
from ndgrad._src.arrays.precision import INEXACT, fits, result_dtype
from ndgrad._src.arrays.scatter import check_at_once
from ndgrad._src.core.batched_parts import is_picked
from ndgrad._src.core.borrowed_memory import Lent
from ndgrad._src.core.call_watchers import watched_write
from ndgrad._src.core.detach_checks import refuse_loss_in_lent, with_numbers
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.hooks import move_retained
from ndgrad._src.core.modes import modes, process, restore, scope, thread
from ndgrad._src.core.node import OVERWRITE, OVERWRITING
from ndgrad._src.core.op_errors import after_failure
from ndgrad._src.core.record import move_together, node_of, own_edge, save_output
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.core.saved import with_history
from ndgrad._src.core.stored_tensors import KeptMeta
from ndgrad._src.core.subclass import has_dispatch, note_wrappers
from ndgrad._src.core.variable import ESCAPED, Variable, edge, np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import InferenceStorage, Storage, is_inference, kept_storage, storage_of
from ndgrad._src.core.view import DEFAULT, rebase, write_error
from ndgrad._src.foundations import registry
from ndgrad._src.ops.fill import assign, copy

if TYPE_CHECKING:
    from ndgrad._src.core.node import Edge, Node
    from ndgrad._src.core.saved import RuleNode
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload, Storage

T = TypeVar("T", bound="Variable")


def check_writable(t: Variable, op_name: str, value_requires_grad: bool = False, part: bool = False) -> None:
    """Raise, with the reason, if `t` may not be written in place now."""
    state = modes()
    if is_inference(t) and not state.inference:
        raise RuntimeError(
            f"{op_name}: Inplace update to inference tensor outside InferenceMode is not allowed: its version "
            "is not tracked, so a saved value could change unseen. Write a clone() of it. [nd-inference]"
        )
    meta = t._meta
    if meta is None or not state.grad_enabled:
        return
    info = meta.view
    if info is not None and info.creation != DEFAULT and (value_requires_grad or edge(info.base) is not None):
        raise write_error(t, info.creation)
    if meta.requires_grad and t._node is None:
        raise RuntimeError(
            f"{op_name}: a {'view of a ' if part else ''}leaf Variable that requires grad is being used in an "
            f"in-place operation (shape {tuple(t.shape)}): its gradient would belong to neither the old nor the new "
            "value. Do the write under no_grad(), or on a clone(). [nd-leaf-write]"
        )
    if (meta if info is None else info.base._meta).__class__ is KeptMeta and (
        value_requires_grad or t._node is not None
    ):
        raise RuntimeError(
            f"{op_name}: a view of shape {tuple(t.shape)} that was read from a graph is being used in an in-place "
            "operation. The view has not been kept since it was saved, so its base would not learn of the write. "
            "Write a clone() of it, or keep the view. [nd-view-write]"
        )
    if info is not None:
        base_meta = info.base._meta
        if base_meta is not None and base_meta.requires_grad and info.base._node is None:
            raise RuntimeError(
                f"{op_name}: a view of a leaf Variable that requires grad is being used in an in-place operation "
                f"(shape {tuple(t.shape)}). Do the write under no_grad(), or on a view of a clone(). [nd-leaf-write]"
            )
        if t._node is not None and edge(info.base) is None and not info.is_stale(t):
            raise RuntimeError(
                f"{op_name}: a view of shape {tuple(t.shape)} of a tensor that has left the graph since (detach_()) "
                "is being used in an in-place operation: what it does not overwrite would lose its history. "
                "Write a clone() of the view, or take the view again. [nd-view-write]"
            )
        if value_requires_grad:
            info.check_geometry(t)


#: Part of a tensor, as a view op and its settings.
Part = tuple[Any, dict[str, Any]]


def write(
    op: Op,
    target: Variable,
    args: tuple[Any, ...],
    settings: dict[str, Any],
    watched: bool = False,
    part: Part | None = None,
) -> Any:
    """Set `target` to op(target, *args) in place, and return it.

    With `part`, only that part is set, by the op `copy`; its view is not made unless an observer could see it.
    """
    if settings:
        settings = with_numbers(op, settings)
    if (
        part is not None
        and (process.busy or process.dispatching or target.__class__ not in TENSOR_TYPES)
        and _others_see(target, args)
    ):
        view, named = part
        target, part = view(target, **named), None
    if not process.busy:
        return (
            write_level(op, target, args, settings, 0, True)
            if part is None
            else _write_part(target, part, args[0], True)
        )
    state = modes()
    if state.only_no_grad() and part is None:
        return write_level(op, target, args, settings, 0, False)
    if thread.watchers and not watched:
        perform = functools.partial(write, op, target, args, settings, True, part)
        return watched_write(op, target, args, perform)
    if state.captures is not None:
        args = state.captures.see_write(target, args)
    if process.open or state.levels or is_picked(target):
        from ndgrad._src.interpreters.transform_writes import write_in_transforms  # avoids an import cycle

        return write_in_transforms(op, target, args, settings)
    if part is not None:
        return _write_part(target, part, args[0], state.grad_enabled)
    return write_level(op, target, args, settings, 0, state.grad_enabled)


def _others_see(target: Variable, args: tuple[Any, ...]) -> bool:
    """True if a transform, an observer or a class with its own dispatch handles a write of `args` to a tensor."""
    is_observed = process.open or thread.levels or thread.observers or target.__class__ not in TENSOR_TYPES
    return bool(is_observed) or (process.dispatching and any(has_dispatch(a.__class__) for a in args))


def write_level(op: Op, target: T, args: tuple[Any, ...], settings: dict[str, Any], level: int, recording: bool) -> T:
    """Write to a tensor whose payload is an array. With `recording`, record the write in the graph of `level`."""
    if not on_second_library:
        args = move_together(op, (target, *args))[1:]
    name = op.name + "_"
    has_graph = target._node is not None or target._meta is not None
    others = []
    for a in args:
        if a.__class__ in TENSOR_TYPES or isinstance(a, Variable):
            others.append(a._array)
            has_graph = has_graph or a._node is not None or a._meta is not None
        else:
            others.append(a)
    edges = _edges(op, target, args, level) if has_graph and recording and op.differentiable else None
    if target._meta is not None or target._storage.__class__ is not Storage:
        _check_target(op.name, target, args, recording, edges is not None)
    array = target._array
    if array.__class__ is not np.ndarray and target.run_op is not None:  # its class keeps the values elsewhere
        return target.take_result(op, args, settings)
    storage = target._storage or storage_of(target)
    array = target._array
    check_memory(name, array)
    # Inputs are saved before the write: the write must invalidate an input that shares the target's memory.
    node = None if edges is None else inplace_node(op, target, args, settings, edges, level)
    if process.dispatching or (process.busy and thread.observers):
        run = functools.partial(perform, op, array, others, settings, storage)
        _perform_observed(op, target, args, settings, node, run)
    else:
        perform(op, array, others, settings, storage)
        storage.bump(name)
        if node is not None:
            if node.plan.outs:
                save_outputs(node, target)
            set_history(target, node)
    if process.busy and thread.debug:
        registry.provenance.note_write(name, target, args, node is not None, op.kind == "overwrite")
    return target


def _check_target(
    name: str, target: Variable, args: tuple[Any, ...], recording: bool, recorded: bool, part: bool = False
) -> None:
    """Raise if `target` must not be written: a leaf, most views, tensors of inference mode, memory lent by NumPy."""
    if target._storage.__class__ is InferenceStorage or (recording and target._meta is not None):
        check_writable(target, name + "_", recorded, part=part)
    if recorded and target._storage.__class__ is Lent:
        refuse_loss_in_lent(name, target, args)


def _edges(op: Op, target: Variable, args: tuple[Any, ...], level: int) -> tuple[Any, ...] | None:
    """Return the gradient edges of the differentiable arguments of a write; None if there is nothing to record."""
    if np_dtype(target).kind not in INEXACT:  # also for a tensor that has outlived its transform
        return None
    edges = tuple([own_edge(args[i - 1] if i else target, level) for i in op.differentiable_positions(len(args) + 1)])
    return edges if edges.count(None) < len(edges) else None


def _perform_observed(
    op: Op,
    target: Variable,
    args: tuple[Any, ...],
    settings: dict[str, Any],
    node: Any,
    perform: Callable[[], None],
) -> None:
    """Perform a write that observers see. If an observer fails after the write, the write is still recorded."""
    from ndgrad._src.core.op_observers import observed_write  # op_observers imports this module

    storage = storage_of(target)
    before = None if is_inference(target) else storage.version
    done = False

    def run() -> None:
        nonlocal done
        perform()
        done = True

    try:
        observed_write(op, target, args, settings, run)
        done = True
    finally:
        if done:
            # If the version has changed, a dispatch mode performed the write through the op and counted it.
            if before is None or storage.version is before:
                storage.bump(op.name + "_")
            if node is not None:
                save_outputs(node, target)
                set_history(target, node)
                info = None if target._meta is None else target._meta.view
                note_wrappers((target if info is None else info.base)._node, (target, *args))


def _write_part(target: Variable, part: Part, value: Variable, recording: bool) -> Variable:
    """Set a part of `target` to `value`: the same result as `write_level` on the view, without making the view."""
    if not on_second_library:
        _, value = move_together(copy, (target, value))
    e_value = own_edge(value, 0) if recording else None
    recorded = recording and (e_value is not None or requires_grad(target)) and np_dtype(target).kind in INEXACT
    _check_target("copy", target, (value,), recording, recorded, part=True)
    storage = target._storage or storage_of(target)
    array = target._array
    (view, named), library = part, np if array.__class__ is np.ndarray else library_of(array)
    found = view.forward_for(library)(array, **named)
    check_memory("copy_", found)  # checks the part alone: one element of an expanded tensor may be written
    # The part covers the whole tensor.
    if found.ndim == array.ndim and found.shape == array.shape and found.strides == array.strides:
        return write_level(copy, target, (value,), {}, 0, recording)
    storage.store_before_write(found)
    assign(library, found, value._array)
    storage.bump("copy_")
    if recorded:
        info = None if target._meta is None else target._meta.view
        base, path = (target, None) if info is None else (info.base, info.path)
        base_edge = edge(base)
        node = node_of(copy, {}, {}, (base_edge, e_value), found, 0)
        if thread.remembers:
            registry.source_lines.remember_call(node)
        rebase(base, (path, view, named, 0), node, base_edge)
        if info is not None:
            info.version = None
    if process.busy and thread.debug:
        registry.provenance.note_write("copy_", target, (value,), recorded, whole=False)
    return target


def check_memory(name: str, array: Payload) -> None:
    if array.__class__ is np.ndarray and array.flags.carray:  # the most common case: dense and writable
        return
    try:
        flags = array.flags
    except AttributeError:
        raise RuntimeError(ESCAPED) from None
    if not getattr(flags, "writeable", True):  # CuPy's arrays are always writable
        raise RuntimeError(
            f"{name}: the tensor of shape {tuple(array.shape)} lies in read-only memory: NumPy holds it so, or it is a "
            "conjugate (conj(), mH), which is a copy here and a view in torch, or the values of a sparse tensor with a "
            "history. clone() it first, and write the clone. [nd-shared-memory]"
        )
    if (
        0 in array.strides
        and array.size > 1
        and any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
    ):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor "
            f"refers to a single memory location (shape {tuple(array.shape)}, made by expand). "
            "clone() the tensor before performing the operation. [nd-shared-memory]"
        )


def perform(op: Op, array: Payload, others: Sequence[Any], settings: dict[str, Any], storage: Storage) -> None:
    """Write op(array, *others) into `array`. If the result does not fit, raise before any change."""
    library = np if array.__class__ is np.ndarray else library_of(array)
    if op.write_kernel is not None and (library is np or not getattr(array, "is_meta", False)):
        storage.store_before_write(array)
        if library is np:
            op.write_kernel(library, array, *others, **settings)
        else:
            with check_at_once():
                op.write_kernel(library, array, *others, **settings)
        return
    try:
        # Integers take the other path: a quotient or root may not be an integer, which only the result shows.
        if library is np and not settings and array.ndim and array.dtype.kind in INEXACT:
            ufunc = op.ufunc
            if ufunc is not None and _fit_as_they_are(array, others):
                storage.store_before_write(array)
                ufunc(array, *others, out=array)
                return
        if library is not np and not settings and is_on_device(array):
            storage.store_before_write(array)
            if write_elementwise(op, array, tuple(others)):
                return
        result = op.forward_for(library)(array, *others, **settings)
    except (MemoryError, NotImplementedError, TypeError, ValueError) as error:
        result = after_failure(op, (array, *others), settings, error)
    check_fits(op.name, array, result)
    storage.store_before_write(array)
    if library is np:
        array[...] = result
    else:
        copy_to(array, result)


def _fit_as_they_are(array: Payload, others: Sequence[Any]) -> bool:
    """True if the result of a ufunc of these arrays has the shape and dtype of `array`."""
    dtype, shape = array.dtype, array.shape
    for o in others:
        kind = o.__class__
        if kind is float or kind is int:
            continue
        if kind is not np.ndarray or (o.dtype is not dtype and result_dtype(o, array) != dtype):
            return False
        if o.shape != shape and np.broadcast_shapes(o.shape, shape) != shape:
            return False
    return True


def check_fits(name: str, array: Payload, result: Payload) -> None:
    """Raise if `result` cannot be written into `array`."""
    have, want = tuple(result.shape), tuple(array.shape)
    if have != want and not (
        len(have) <= len(want) and all(h in (1, w) for h, w in zip(have[::-1], want[::-1], strict=False))
    ):
        raise RuntimeError(
            f"{name}_: output with shape {list(want)} doesn't match the broadcast shape {list(have)}. "
            f"Use {name}(), which makes a new tensor. [nd-write-fit]"
        )
    if not fits(result.dtype, array.dtype):
        raise RuntimeError(
            f"{name}_: result type {result.dtype} can't be cast to the desired output type {array.dtype}. "
            f"Use {name}(), which makes a new tensor, or convert the tensor with .to() first. [nd-write-fit]"
        )


def _old_value(target: Variable, self_edge: Node | Edge | None) -> Variable:
    """Return the value before the write, as a tensor with its history."""
    if has_dispatch(target.__class__):
        outside = scope()
        try:
            restore(outside.recording(False))
            return with_history(target.clone(), self_edge)
        finally:
            restore(outside)
            del outside
    return with_history(wrap(target.tensor_type, target._array.copy()), self_edge)


def inplace_node(
    op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any], edges: tuple[Any, ...], level: int
) -> RuleNode:
    """Return the node of a write that is about to happen, with its inputs saved."""
    by_name = {}
    if (plan := save_plan(op)).keeps_inputs:
        by_name, own = op.bind((target, *args)), op.args[0]
        if own in plan.needed(edges)[0]:
            by_name[own] = _old_value(target, own_edge(target, level))
    node = node_of(op, by_name, settings, edges, target._array, level)
    if op.kind in OVERWRITING:
        node.route = OVERWRITE
    if thread.remembers:
        registry.source_lines.remember_call(node)
    return node


def save_outputs(node: RuleNode, target: Variable) -> None:
    """Save the target, after the write, for the rules that name the output."""
    for name in node.plan.needed(node.next)[1]:
        if target.keeps_saved:
            kept_storage(target)
        save_output(node, name, target)


def set_history(target: Variable, node: Node | None) -> None:
    """Set the new history of the target, and of its base if it is a view, after a write that `node` describes."""
    meta = target._meta
    info = None if meta is None else meta.view
    if info is None:
        if meta is not None and meta.retains_grad and target._node is not None:
            move_retained(target, target._node, node)
        target._node = node
        if meta is not None:
            meta.output_nr = 0
        return
    rebase(info.base, info.path, node, edge(info.base))
    info.version = None  # the view's own history is replayed from the base on next use
