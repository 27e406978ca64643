"""The recorder: how a call becomes results and a node.

    face       the class of the results, from the arguments'
    forward    the op's function on the arrays
    wrap       a tensor around each result; a view knows its base, a result of inference mode its memory
    edges      where the gradients of the arguments go; without any, that is all
    node       made by `make_node`, with its edges, and with what the rules of the arguments that have one name: inputs
               with the version of their memory, outputs, settings, facts

This file does so for everything: any number of results, any level, hooks on saved tensors, classes with a dispatch of
their own. The functions that ndgrad._src.core.generate writes are the same steps in straight-line code, for plain
tensors while no mode is in force. Writes (_src.core.inplace), transforms (_src.interpreters.levels) and custom
functions make their nodes by the same functions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_raw_array, library_of
from ndgrad._src.arrays.placement import CPU, device_of, move_to
from ndgrad._src.arrays.precision import FLOAT32, INEXACT, half_of, round_to
from ndgrad._src.core.generate import FACES
from ndgrad._src.core.modes import Modes, birth, modes, process, thread
from ndgrad._src.core.node import RULE, Edge, make_node, sizes
from ndgrad._src.core.op_errors import after_failure
from ndgrad._src.core.promotion import in_default_dtype, makes_floats
from ndgrad._src.core.saved import hooks_for
from ndgrad._src.core.saved_hooks import pack, pack_input, pack_output
from ndgrad._src.core.stored_tensors import Packed, kept_in_level, kept_of_array, without_base
from ndgrad._src.core.subclass import is_view_of_wrapper, note_wrappers, unshared
from ndgrad._src.core.variable import ESCAPED, Variable, edge, meta_of, requires_grad, wrap
from ndgrad._src.core.versions import InferenceStorage, Storage, kept_storage, storage_of
from ndgrad._src.core.view import make_view
from ndgrad._src.foundations import registry
from ndgrad._src.ops.cast import to_device

_NUMBERS = (bool, int, float, complex)


def record(op: Any, args: tuple[Any, ...], settings: dict[str, Any], face: type[Any]) -> Any:
    """Run the op on level-0 arguments and record it."""
    library, arrays = _library_and_arrays(args)
    if library is not np:
        args = together(op, args)
        arrays = _library_and_arrays(args)[1]
    if (op.view or op.shares_storage) and isinstance(arrays[0], np.generic):
        storage_of(args[0])
        arrays[0] = args[0]._array
    if thread.observers or process.dispatching:
        from ndgrad._src.core.op_observers import observed_forward  # op_observers imports this module

        out = observed_forward(op, library, args, arrays, settings)
    else:
        out = run_forward(op, library, args, arrays, settings)
    if op.narrows and not face.on_numpy_face and not isinstance(out, Variable) and makes_floats(arrays, out):
        return in_default_dtype(op, args, settings)
    return finish(op, args, settings, face, out)


def _library_and_arrays(args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    arrays = [a._array if isinstance(a, Variable) else a for a in args]
    library = np
    for a in arrays:
        if not isinstance(a, _NUMBERS) and a is not None:
            if isinstance(a, Variable):
                raise RuntimeError(ESCAPED)
            library = library_of(a)
            if library is not np:
                break
    return library, arrays


#: Arguments that an op on a GPU takes from the CPU, as torch does.
_BROUGHT = frozenset(("index", "indices", "mask"))


def together(op: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of an op on one device: beside arrays on a GPU, numbers, indices and masks are brought there from
    the CPU, and other arrays refused. A copy goes to where its target is."""
    arrays = [a._array if isinstance(a, Variable) else a for a in args]
    if not any(isinstance(a, (np.ndarray, np.generic)) for a in arrays):  # the commonest case
        return args
    places = {i: device_of(a) for i, a in enumerate(arrays) if not isinstance(a, Variable) and is_raw_array(a)}
    if len(set(places.values())) < 2:
        return args
    where = places[0] if op.name == "copy" else next(place for place in places.values() if place is not CPU)
    out = list(args)
    for i, here in places.items():
        if here is where:
            continue
        name = op.args[min(i, len(op.args) - 1)]
        if op.name != "copy" and (here is not CPU or (arrays[i].ndim and name not in _BROUGHT)):
            raise RuntimeError(
                f"{op.name}(): expected all tensors to be on the same device, and {name!r} (shape "
                f"{tuple(arrays[i].shape)}) is on {here} while another argument is on {where}. "
                f"Move one of them: t.to({str(where)!r}). [nd-device]"
            )
        out[i] = on_device(args[i], where, here) if isinstance(args[i], Variable) else move_to(args[i], where)
    return tuple(out)


def on_device(t: Any, where: Any, here: Any, non_blocking: bool = False) -> Any:
    """A tensor moved from `here` to another device."""
    if thread.grad_enabled and requires_grad(t):
        process.crossed = True
    return to_device(t, device=where, source=here, non_blocking=non_blocking)


def run_forward(op: Any, library: Any, args: tuple[Any, ...], arrays: list[Any], settings: dict[str, Any]) -> Any:
    try:
        out = op.forward_for(library)(*arrays, **settings)
    except (MemoryError, NotImplementedError, TypeError, ValueError) as error:
        return after_failure(op, args, settings, error)
    if op.rounds_numbers and out.dtype is FLOAT32:
        out = round_to(out, half_of(arrays, True))  # NumPy makes float32 of bfloat16 and a Python number
    return out


def finish(op: Any, args: tuple[Any, ...], settings: dict[str, Any], face: type[Any], out: Any, level: int = 0) -> Any:
    """Wrap the payload(s) `out` of an op and record the node if some argument requires grad."""
    several, state = op.outputs != 1, modes()
    results = [_result(face, payload, args, level) for payload in (out if several else (out,))]
    edges = _edges(op, args, level) if op.differentiable and state.grad_enabled else None
    node = None if edges is None else _recorded(op, args, settings, results, edges, level)
    for number, r in enumerate(results):
        if node is not None and number not in op.discrete_outputs and payload_dtype(r._array).kind in INEXACT:
            r._node = node
            if several:
                meta_of(r).output_nr = number
        _give_memory(r, op, args, settings, number, level, state)
        if process.open or state.levels:
            meta_of(r).made_in = birth()
    if node is not None:
        if process.dispatching:
            note_wrappers(node, (*args, *results))
        if node.plan.outs and (face.keeps_saved or state.copy_on_write):
            for r in results:
                kept_storage(r)
    if thread.debug:
        registry.provenance.note_results(op, args, results)
    return tuple(results) if several else results[0]


def _give_memory(
    r: Any, op: Any, args: tuple[Any, ...], settings: dict[str, Any], number: int, level: int, state: Modes
) -> None:
    """Let a result know whose memory it shares, or that it was made in inference mode."""
    if op.view and (shares_memory(r._array, args[0]._array) or is_view_of_wrapper(r, args[0])):
        make_view(r, args[0], op, settings, number, level)
    elif op.shares_storage:
        r._storage = storage_of(args[0])
    elif state.inference and not level:
        r._storage = InferenceStorage()
        if isinstance(r._array, np.generic):
            r._array = np.asarray(r._array)


def _result(face: type[Any], payload: Any, args: tuple[Any, ...], level: int) -> Any:
    """The tensor around a payload. Outside transforms, one that is a tensor itself is the answer of a dispatch mode,
    whose memory the result shares, or of a class with a dispatch of its own, whose tensor is the result."""
    if level or not isinstance(payload, Variable):
        return wrap(face, payload)
    if payload.__class__ not in FACES:
        return unshared(payload, args)
    storage = storage_of(payload)  # which makes an array of a NumPy scalar
    r = wrap(face, payload._array)
    r._storage = storage
    return r


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
    found = tuple([own_edge(args[i], level) for i in op.differentiable_positions(len(args))])
    for e in found:
        if e is not None:
            return found
    return None


def own_edge(a: Any, level: int) -> Any:
    """The edge of `a` in the graph of `level`, None if it has none there."""
    if not isinstance(a, Variable):
        return None
    found: Any = a._node if a._meta is None else edge(a)
    if found is None:
        return None
    number = (found.node if found.__class__ is Edge else found).level
    if number > level:
        raise RuntimeError(ESCAPED)
    return found if number == level else None


def node_of(
    op: Any, by_name: dict[str, Any], settings: dict[str, Any], edges: tuple[Any, ...], like: Any, level: int
) -> Any:
    """The node of a call whose (first) result is, or will be, like the payload `like`, with its inputs saved."""
    cls = op.level_node_class if level else op.node_class
    shape, dtype = (tuple(like.shape), payload_dtype(like)) if isinstance(like, Variable) else (like.shape, like.dtype)
    node = make_node(cls, edges, shape, dtype, level)
    if cls.reads and not level and op.outputs == 1 and _size(by_name[op.args[0]]) < sizes.small_read:
        node.route = RULE
    if cls.plan.keeps_inputs:
        save_inputs(node, by_name, settings)
    return node


def _size(t: Any) -> int:
    array = t._array if isinstance(t, Variable) else t
    return sizes.small_read if isinstance(array, Variable) else array.size


def _recorded(
    op: Any, args: tuple[Any, ...], settings: dict[str, Any], results: list[Any], edges: tuple[Any, ...], level: int
) -> Any:
    """The node of a call that has been made."""
    node = node_of(op, op.bind(args), settings, edges, results[0]._array, level)
    if op.outputs != 1:
        node.metadata_of_outputs = [
            None if i in op.discrete_outputs else (tuple(r._array.shape), payload_dtype(r._array))
            for i, r in enumerate(results)
        ]
    for name in node.plan.needed(edges)[1]:
        save_output(node, name, results[int(name[3:] or 0)])
    if thread.remembers:
        registry.source_lines.remember_call(node, results)
    return node


# ----- what a node keeps ----------------------------------------------------------------------------------------------


def save_inputs(node: Any, by_name: dict[str, Any], settings: dict[str, Any]) -> None:
    """Keep what the rules of the needed inputs name, except outputs."""
    plan = node.plan
    hooks = hooks_for(node.level)
    for name in plan.needed(node.next)[0]:
        save_input(node, name, by_name[name], hooks)
    for name in plan.settings:
        setattr(node, name, settings[name])
    for name in plan.facts:
        arg, kind = name.rsplit("_", 1)
        value = by_name[arg]
        setattr(node, name, tuple(fact(v, kind) for v in value) if isinstance(value, tuple) else fact(value, kind))


def save_output(node: Any, name: str, result: Any) -> None:
    """Keep a result: its array and the memory's version, since the node must not hold the tensor that will hold it."""
    hooks = hooks_for(node.level)
    if result.own_dispatch:  # whose array says nothing: another object of its class, then
        other = unshared(result, (result,))
        if hooks:
            made = pack(other, hooks, (node, name), node, int(name[3:] or 0))
        else:
            made = Packed(other, lambda t: t, is_output=True)
        setattr(node, name, made)
        setattr(node, name + "_s", None)
        setattr(node, name + "_v", None)
        return
    storage = storage_of(result) if hooks else result._storage  # the packed value and the result are one memory
    setattr(node, name, result._array)
    setattr(node, name + "_s", storage)
    setattr(node, name + "_v", storage and storage.version)
    if hooks:
        pack_output(node, name, hooks, storage)
    if thread.guard:
        registry.checksum.guard_saved(node, name)


def save_input(node: Any, name: str, value: Any, hooks: Any = ()) -> None:
    """Keep an argument (a tuple of tensors for an op with a variable number of them) with its version."""
    if hooks:
        saving = (node, name)
        value = (
            tuple(pack_input(v, hooks, saving) for v in value)
            if isinstance(value, tuple)
            else pack_input(value, hooks, saving)
        )
    elif not node.level:
        value = tuple([_kept(v) for v in value]) if isinstance(value, tuple) else _kept(value)
    else:
        level = node.level
        value = tuple([_kept(v, level) for v in value]) if isinstance(value, tuple) else _kept(value, level)
    setattr(node, name, value)
    setattr(node, name + "_v", tuple(_version(v) for v in value) if isinstance(value, tuple) else _version(value))
    if thread.guard:
        registry.checksum.guard_saved(node, name)


def saved_input(t: Any) -> tuple[Any, Any]:
    """What a node of no transform keeps of a tensor that it was given, and the version of its memory."""
    meta, storage = t._meta, t._storage
    if (
        not process.busy
        and not t.keeps_saved
        and (meta is None or meta.requires_grad)
        and (storage is None or storage.__class__ is Storage)
    ):
        return t, None if storage is None else storage.version
    kept = _kept(t)
    return kept, _version(kept)


def _kept(value: Any, level: int = 0) -> Any:
    if isinstance(value, Variable):
        if value.keeps_saved or thread.copy_on_write:
            kept_storage(value)  # before another tensor is made over the memory: both must see its writes
        return kept_in_level(value, level) if level else without_base(value)
    return kept_of_array(value)


def _version(value: Any) -> Any:
    if value.__class__ is Packed and value.checksum is not None:
        value = value.packed
    if not isinstance(value, Variable):
        return None
    storage = kept_storage(value) if value.keeps_saved or thread.copy_on_write else value._storage
    if storage is None and thread.remembers:
        # so that the chain of versions begins here, and the first write after the save is known
        storage = storage_of(value)
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
