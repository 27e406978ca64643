"""The general lane: everything an op call can meet, in the order in which it is dealt with.

    foreign arguments    arrays and numbers become constants; classes that override functions take over
    tangents, levels     whatever was opened last, first: of a forward-mode dual the primal op, then its jvp rule; of a function
                         transform the batching rule, or the graph of an inner grad
    record               run forward, make the node, keep what rules name

Each stage strips what is its own and dispatches again, so the stages compose in any depth. The fast lane in
ndgrad.ops.generate is this lane's shortcut for plain tensors while no mode is active.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.arrays.library import is_raw_array, library_of
from ndgrad.autograd.modes import thread
from ndgrad.autograd.node import edge_node, next_sequence_number
from ndgrad.autograd.variable import Variable, edge, meta_of, new, wrap
from ndgrad.autograd.versions import InferenceStorage, kept_storage, storage_of
from ndgrad.autograd.view import make_view, tangents_of
from ndgrad.ops.errors import explain
from ndgrad.ops.generate import FACES, save_plan
from ndgrad.ops.table import RANDOM

_NUMBERS = (bool, int, float, complex)


def dispatch(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run `op` on whatever it was given."""
    face = face_of(op, args)
    if face is None:
        return _override_or_refuse(op, args, settings)
    state = thread
    if state.dual_levels or state.levels:
        # rules of transforms compute with tensors
        args = tuple(wrap(face, a) if is_raw_array(a) else a for a in args)
    level = None
    if state.levels:
        from ndgrad.func.levels import top_level

        if op.batch is RANDOM:
            from ndgrad.func.batching import random_level

            level = random_level(args)
        else:
            level = top_level(args)
    if state.dual_levels and any(_has_tangent(a) for a in args):
        from ndgrad.autograd.forward_ad import dual_op, innermost

        if level is None or innermost(args) > level.number:
            return dual_op(op, args, settings)
    if level is not None:
        from ndgrad.func.levels import level_op

        return level_op(level, op, args, settings)
    return record(op, args, settings, face)


def dispatch_operator(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """As `dispatch`, for Python's operators: the other operand gets its chance when we do not know it."""
    for a in args:
        if not (a.__class__ in FACES or isinstance(a, (Variable, *_NUMBERS)) or is_raw_array(a)):
            return NotImplemented
    return dispatch(op, args, settings)


def face_of(op: Any, args: tuple[Any, ...]) -> type[Any] | None:
    """The face of the result: NumPy's if any argument has it. None when an argument needs special treatment."""
    face: type[Any] | None = None
    for a in args:
        found = FACES.get(a.__class__)
        if found is None:
            if a is None or isinstance(a, _NUMBERS) or is_raw_array(a):
                continue
            return None
        if face is None or (found is not face and found.keeps_saved):
            face = found
    return face


def _override_or_refuse(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    for a in args:
        if isinstance(a, Variable) and a.__class__ not in FACES:
            from ndgrad.autograd.subclass import subclass_op

            return subclass_op(op, args, settings)
    kinds = ", ".join(type(a).__name__ for a in args)
    raise TypeError(
        f"{op.name}() takes tensors, and got ({kinds}). Wrap arrays with ndgrad.as_tensor(...) "
        "(or use ndgrad.numpy, whose functions take arrays)."
    )


def _has_tangent(a: Any) -> bool:
    return isinstance(a, Variable) and bool(tangents_of(a))


# ----- record -------------------------------------------------------------------------------------------------------


def raw(a: Any) -> Any:
    return a._array if isinstance(a, Variable) else a


def record(op: Any, args: tuple[Any, ...], settings: dict[str, Any], face: type[Any]) -> Any:
    """Run the op on level-0 arguments and record it."""
    arrays = [raw(a) for a in args]
    library = np
    for a in arrays:
        if not isinstance(a, _NUMBERS) and a is not None:
            library = library_of(a)
            if library is not np:
                break
    if (op.view or op.shares_storage) and isinstance(arrays[0], np.generic):
        storage_of(args[0])
        arrays[0] = args[0]._array
    if thread.observers:
        from ndgrad.autograd.observe import observed_forward

        out = observed_forward(op, library, args, arrays, settings)
    else:
        try:
            out = op.forward_for(library)(*arrays, **settings)
        except (TypeError, ValueError) as error:
            raise explain(op, args, error) from None
    return finish(op, args, settings, face, out)


def finish(op: Any, args: tuple[Any, ...], settings: dict[str, Any], face: type[Any], out: Any, level: int = 0) -> Any:
    """Wrap the payload(s) `out` of an op and record the node if some argument requires grad."""
    several = op.outputs != 1
    payloads = list(out) if several else [out]
    edges = _edges(op, args, level)
    node = None
    if edges is not None:
        node = _make_node(op, args, settings, payloads, edges, level)
    results = []
    for number, payload in enumerate(payloads):
        r = new(face)
        r._array = payload
        r._storage = None
        r._meta = None
        r._node = None
        if node is not None and number not in op.discrete_outputs and payload_dtype(payload).kind in "fc":
            r._node = node
            if several:
                meta_of(r).output_nr = number
        if op.view and shares_memory(payload, args[0]._array):
            make_view(r, args[0], op, settings, number)
        elif op.shares_storage:
            r._storage = storage_of(args[0])
        elif thread.inference:
            r._storage = InferenceStorage()
            if isinstance(payload, np.generic):
                r._array = np.asarray(payload)
        if thread.levels:
            meta_of(r).born = thread.levels[-1].number
        results.append(r)
    if node is not None and face.keeps_saved and node.plan.outs:
        for r in results:
            kept_storage(r)
    return tuple(results) if several else results[0]


def payload_dtype(payload: Any) -> Any:
    while isinstance(payload, Variable):
        payload = payload._array
    return payload.dtype


def shares_memory(payload: Any, source: Any) -> bool:
    """Whether the result of a view op really is a view (NumPy's reshape copies when it must)."""
    while isinstance(payload, Variable):
        meta = payload._meta
        if meta is None or not (meta.view is not None or meta.batch_level):
            return False
        if meta.view is not None:
            return True
        payload = payload._array  # a batched tensor is a view if its payload is
    while isinstance(source, Variable):
        source = source._array
    owner = payload.base
    if owner is None:
        return payload is source
    return owner is source or owner is source.base or np.may_share_memory(payload, source)


def _edges(op: Any, args: tuple[Any, ...], level: int) -> tuple[Any, ...] | None:
    """The gradient edges of the differentiable arguments; None when nothing is to be recorded."""
    if not op.differentiable or not thread.grad_enabled:
        return None
    found = tuple(own_edge(args[i], level) for i in op.differentiable_positions(len(args)))
    return found if any(e is not None for e in found) else None


def own_edge(a: Any, level: int) -> Any:
    """The edge of `a` in the graph of `level`, None if it has none there."""
    if not isinstance(a, Variable):
        return None
    found = edge(a)
    if found is None:
        return None
    return found if edge_node(found).level == level else None


def _make_node(
    op: Any, args: tuple[Any, ...], settings: dict[str, Any], payloads: list[Any], edges: tuple[Any, ...], level: int
) -> Any:
    if level:
        node = op.level_node_class()
        node.level = level
    else:
        node = op.node_class()
    node.seq = next_sequence_number()
    node.next = edges
    node.extra = node.first_extra
    first = payloads[0]
    node.shape = tuple(first.shape)
    node.dtype = payload_dtype(first)
    if op.outputs != 1:
        node.metadata_of_outputs = [
            None if i in op.discrete_outputs else (tuple(p.shape), payload_dtype(p)) for i, p in enumerate(payloads)
        ]
    save(node, op, args, settings, payloads)
    if thread.anomaly:
        from ndgrad.autograd.anomaly import remember_forward

        remember_forward(node)
    return node


def save(node: Any, op: Any, args: tuple[Any, ...], settings: dict[str, Any], payloads: list[Any]) -> None:
    """Keep what the rules of the needed inputs name."""
    plan = save_plan(op)
    by_name = op.bind(args)
    needed = needed_args(op, node)
    hooks = thread.saved_hooks
    for name in plan.arrays:
        if plan.users[name] & needed:
            save_input(node, name, by_name[name], hooks)
    for name in plan.outs:
        if plan.users[name] & needed:
            setattr(node, name, payloads[int(name[3:] or 0)])
            setattr(node, name + "_s", None)
            setattr(node, name + "_v", None)
            if hooks:
                from ndgrad.autograd.saved_hooks import pack_output

                pack_output(node, name, hooks)
    for name in plan.settings:
        setattr(node, name, settings[name])
    for name in plan.facts:
        arg, kind = name.rsplit("_", 1)
        value = by_name[arg]
        setattr(node, name, tuple(fact(v, kind) for v in value) if isinstance(value, tuple) else fact(value, kind))


def needed_args(op: Any, node: Any) -> set[str]:
    """The names of the arguments that a gradient is wanted for (a collecting name counts as a whole)."""
    if op.variadic:
        return set(op.differentiable_args)
    return {a for a, e in zip(op.differentiable_args, node.next, strict=True) if e is not None}


def save_input(node: Any, name: str, value: Any, hooks: Any = ()) -> None:
    """Keep an argument (a tuple of tensors for an op with a variable number of them) with its version."""
    if hooks:
        from ndgrad.autograd.saved_hooks import pack

        value = tuple(pack(v, hooks) for v in value) if isinstance(value, tuple) else pack(value, hooks)
    setattr(node, name, value)
    setattr(node, name + "_v", tuple(_version(v) for v in value) if isinstance(value, tuple) else _version(value))


def _version(value: Any) -> Any:
    if not isinstance(value, Variable):
        return None
    storage = kept_storage(value) if value.keeps_saved or thread.copy_on_write else value._storage
    return None if storage is None else storage.version


def fact(value: Any, kind: str) -> Any:
    """What a rule wants to know of an argument whose values it does not need."""
    if isinstance(value, _NUMBERS):
        value = np.asarray(value)
    if kind == "shape":
        return tuple(value.shape)
    if kind == "ndim":
        return len(value.shape)
    return payload_dtype(value)
