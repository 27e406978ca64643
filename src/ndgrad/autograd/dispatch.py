"""The general lane: everything an op call can meet, in the order in which it is dealt with.

    foreign arguments    arrays and numbers become constants; classes that override functions take over
    tangents, levels     whatever was opened last, first: of a forward-mode dual the primal op, then its jvp rule; of a function
                         transform the batching rule, or the graph of an inner grad
    record               run forward, make the node, keep what rules name

Each stage strips what is its own and dispatches again, so the stages compose in any depth. The fast lane in
ndgrad.ops.generate is this lane's shortcut for plain tensors while no mode is active.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ndgrad.arrays.library import is_raw_array, library_of
from ndgrad.arrays.placement import CPU, device_of, moved
from ndgrad.arrays.precision import FLOAT32, INEXACT, half_of, is_number, rounded
from ndgrad.autograd.lent import over
from ndgrad.autograd.modes import birth, joined, modes, process, thread
from ndgrad.autograd.node import edge_node, next_sequence_number
from ndgrad.autograd.saved import Packed, hooks_for, kept_in_level, kept_of_array, without_base
from ndgrad.autograd.subclass import ask_classes, note_wrappers, overriding_types, subclass_op, unshared
from ndgrad.autograd.variable import ESCAPED, Variable, edge, meta_of, requires_grad, wrap
from ndgrad.autograd.versions import InferenceStorage, kept_storage, storage_of
from ndgrad.autograd.view import follow_pick, make_view, tangents_of
from ndgrad.ops.errors import after_failure
from ndgrad.ops.generate import FACES
from ndgrad.ops.table import RANDOM

_NUMBERS = (bool, int, float, complex)


def dispatch(op: Any, args: tuple[Any, ...], settings: dict[str, Any], watched: bool = False) -> Any:
    """Run `op` on whatever it was given. `watched`: those who watch calls know of this one."""
    state = modes()
    if not state.only_transforms():
        if state.only_no_grad():
            face = face_of(op, args)
            return _override_or_refuse(op, args, settings) if face is None else run_unrecorded(op, args, settings, face)
        if thread.watchers and not watched:
            from ndgrad.autograd.watch import watched_op

            return watched_op(op, args, settings, dispatch)
    if state.captures is not None:
        args = state.captures.see(args)
    face = face_of(op, args)
    if face is None:
        return _override_or_refuse(op, args, settings)
    return dispatch_as(face, op, args, settings)


def dispatch_as(face: type[Any], op: Any, args: tuple[Any, ...], settings: dict[str, Any], plain: bool = True) -> Any:
    """Run `op` on arguments that nobody overrides, with results of class `face`. `plain`: none of them is of a subclass."""
    state, still_open = modes(), process.open
    levels = state.levels
    if not levels and not still_open:
        return record(op, args, settings, face)
    number = dual = 0
    for a in args:
        if a.__class__ not in FACES and not isinstance(a, Variable):
            if is_raw_array(a):
                # rules of transforms compute with tensors
                return dispatch_as(face, op, tuple([over(face, b) if is_raw_array(b) else b for b in args]), settings, plain)
            continue
        meta = a._meta
        if meta is None:
            node = a._node
            if node is not None and node.level > number:
                number = node.level
            continue
        if meta.view is None:
            if meta.picked is not None:
                follow_pick(a)
                meta = a._meta
            node, held = a._node, meta.tangents
            own = meta.batch_level or (meta.level if node is None else node.level)
        else:
            own = _level_number()(a)
            held = tangents_of(a)
        if own > number:
            number = own
        if held:
            for k in held:
                if k > dual and k in still_open:
                    dual = k
    level = levels[-1] if levels else None
    if level is None or number != level.number or op.batch is RANDOM:
        if (number and not _is_open_here(number)) or (dual and dual not in state.dual_stack):
            with joined(open_elsewhere(args)):
                return dispatch_as(face, op, args, settings, plain)
        if level is not None:
            level = level.in_charge_of(op, args, number)
    if dual and (level is None or dual > level.number):
        return _dual_op()(op, args, settings, dual)
    if level is not None:
        return level.run(op, args, settings, face)
    if not plain or not state.only_transforms():
        return record(op, args, settings, face)
    out = op.plain(*args, **settings)
    if levels:
        for r in (out,) if op.outputs == 1 else out:
            meta_of(r).born = levels[-1].number
    return out


@functools.cache
def _dual_op() -> Any:
    from ndgrad.autograd.forward_ad import dual_op  # which lies below this file

    return dual_op


@functools.cache
def _level_number() -> Any:
    from ndgrad.func.levels import level_number  # which lies below this file

    return level_number


def _is_open_here(number: int) -> bool:
    return any(level.number == number for level in thread.levels)


def open_elsewhere(args: Iterable[Any]) -> int:
    """The number of the innermost transform or dual level among tensors that is not open in this thread, though in another; 0 if
    there is none (see Note [Threads inside transforms])."""
    found = 0
    for a in args:
        if not isinstance(a, Variable) or (a._meta is None and a._node is None):
            continue
        number = _level_number()(a)
        if number > found and not _is_open_here(number):
            if number not in process.open:
                raise RuntimeError(ESCAPED)
            found = number
        for dual in tangents_of(a) or ():
            if dual > found and dual not in thread.dual_stack:
                found = dual
    return found


def dispatch_operator(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """As `dispatch`, for Python's operators: the other operand gets its chance when we do not know it."""
    for a in args:
        if a.__class__ in FACES or isinstance(a, Variable) or (op.elementwise and isinstance(a, _NUMBERS)):
            continue
        if is_raw_array(a):
            if isinstance(a, np.ndarray) and (a.__class__ is not np.ndarray or not is_number(a.dtype)):
                return _with_special_arrays(op, args, settings)
            continue
        if isinstance(a, (list, tuple)) and any(getattr(b, "keeps_saved", False) for b in args):
            from ndgrad.numpy.coercion import as_array  # on NumPy's face, which lies above this layer, a list is an array

            return dispatch_operator(op, tuple(as_array(b) if isinstance(b, (list, tuple)) else b for b in args), settings)
        if op.name == "matmul" and type(a).__module__.startswith("scipy.sparse"):
            from ndgrad.scipy.sparse.arrays import matmul_beside_tensors  # SciPy's matrices are constants, handled above this layer

            return matmul_beside_tensors(*args)
        return NotImplemented
    return dispatch(op, args, settings)


def _with_special_arrays(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Subclasses of ndarray with rules of their own get their turn; of the rest, what has a plain meaning goes on, and masks,
    matrices, objects and records are refused."""
    for a in args:
        if isinstance(a, np.ndarray) and type(a).__array_ufunc__ is not np.ndarray.__array_ufunc__:
            return NotImplemented
    from ndgrad.numpy.coercion import checked  # NumPy's face lies above this layer

    return dispatch(op, tuple(checked(a) if isinstance(a, np.ndarray) else a for a in args), settings)


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
    if any(isinstance(a, Variable) and a.__class__ not in FACES for a in args):
        return subclass_op(op, args, settings)
    if not thread.functions_disabled:
        result = ask_classes(op, overriding_types(args), args, settings)
        if result is not NotImplemented:
            return result
    kinds = ", ".join(_kind(a) for a in args)
    raise TypeError(
        f"{op.name}() takes tensors, and got ({kinds}). Wrap arrays with ndgrad.as_tensor(...) "
        "(or use ndgrad.numpy, whose functions take arrays)."
    )


def _kind(a: Any) -> str:
    cls = type(a)
    return cls.__qualname__ if cls.__module__ == "builtins" or isinstance(a, Variable) else f"{cls.__module__}.{cls.__qualname__}"


def innermost_dual(args: tuple[Any, ...]) -> int:
    """The number of the innermost dual level that has a tangent among the arguments; 0 if none has."""
    number = 0
    for a in args:
        if isinstance(a, Variable) and a._meta is not None:
            held = tangents_of(a)
            if held:
                number = max(number, *held)
    return number


# ----- record -------------------------------------------------------------------------------------------------------


def record_any(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """As `record`, for a caller who does not know the face of the result."""
    face = face_of(op, args)
    return _override_or_refuse(op, args, settings) if face is None else record(op, args, settings, face)


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
        from ndgrad.autograd.observe import observed_forward

        out = observed_forward(op, library, args, arrays, settings)
    else:
        out = run_forward(op, library, args, arrays, settings)
    return finish(op, args, settings, face, out)


def run_unrecorded(op: Any, args: tuple[Any, ...], settings: dict[str, Any], face: type[Any]) -> Any:
    """As `record`, where the only mode in force is this thread's no_grad, which is by far the commonest."""
    if op.outputs != 1 or op.view or op.shares_storage or process.dispatching:
        return record(op, args, settings, face)
    library, arrays = _library_and_arrays(args)
    if library is not np:
        return record(op, args, settings, face)
    return wrap(face, run_forward(op, library, args, arrays, settings))


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
    """The arguments of an op on one device: beside arrays on a GPU, numbers, indices and masks are brought there from the CPU,
    and other arrays refused. A copy goes to where its target is."""
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
                f"{op.name}(): expected all tensors to be on the same device, and {name!r} (shape {tuple(arrays[i].shape)}) is on {here} "
                f"while another argument is on {where}. Move one of them: t.to({str(where)!r})."
            )
        out[i] = on_device(args[i], where, here) if isinstance(args[i], Variable) else moved(args[i], where)
    return tuple(out)


def on_device(t: Any, where: Any, here: Any) -> Any:
    """A tensor moved from `here` to another device."""
    from ndgrad.ops.cast import to_device

    if thread.grad_enabled and requires_grad(t):
        process.crossed = True
    return to_device(t, device=where, source=here)


def run_forward(op: Any, library: Any, args: tuple[Any, ...], arrays: list[Any], settings: dict[str, Any]) -> Any:
    try:
        out = op.forward_for(library)(*arrays, **settings)
    except (NotImplementedError, TypeError, ValueError) as error:
        return after_failure(op, args, settings, error)
    if op.rounds_numbers and out.dtype is FLOAT32:
        out = rounded(out, half_of(arrays, True))  # NumPy makes float32 of bfloat16 and a Python number
    return out


def finish(op: Any, args: tuple[Any, ...], settings: dict[str, Any], face: type[Any], out: Any, level: int = 0) -> Any:
    """Wrap the payload(s) `out` of an op and record the node if some argument requires grad."""
    several = op.outputs != 1
    results = [_result(face, payload, args, level) for payload in (out if several else (out,))]
    edges = _edges(op, args, level)
    node = None if edges is None else _make_node(op, args, settings, results, edges, level)
    for number, r in enumerate(results):
        if node is not None and number not in op.discrete_outputs and payload_dtype(r._array).kind in INEXACT:
            r._node = node
            if several:
                meta_of(r).output_nr = number
        if op.view and shares_memory(r._array, args[0]._array):
            make_view(r, args[0], op, settings, number, level)
        elif op.shares_storage:
            r._storage = storage_of(args[0])
        elif thread.inference and not level:
            r._storage = InferenceStorage()
            if isinstance(r._array, np.generic):
                r._array = np.asarray(r._array)
        if process.open or thread.levels:
            meta_of(r).born = birth()
    if node is not None and process.dispatching:
        note_wrappers(node, (*args, *results))
    if node is not None and node.plan.outs and (face.keeps_saved or thread.copy_on_write):
        for r in results:
            kept_storage(r)
    if thread.debug:
        from ndgrad.autograd.provenance import note_results

        note_results(op, args, results)
    return tuple(results) if several else results[0]


def _result(face: type[Any], payload: Any, args: tuple[Any, ...], level: int) -> Any:
    """The tensor around a payload. Outside transforms, one that is a tensor itself is the answer of a dispatch mode, whose memory the
    result shares, or of a class with a dispatch of its own, whose tensor is the result."""
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
    if not op.differentiable or not thread.grad_enabled:
        return None
    found = tuple([own_edge(args[i], level) for i in op.differentiable_positions(len(args))])
    for e in found:
        if e is not None:
            return found
    return None


def own_edge(a: Any, level: int) -> Any:
    """The edge of `a` in the graph of `level`, None if it has none there."""
    if not isinstance(a, Variable):
        return None
    found = edge(a)
    if found is None:
        return None
    number = edge_node(found).level
    if number > level:
        raise RuntimeError(ESCAPED)
    return found if number == level else None


def _make_node(op: Any, args: tuple[Any, ...], settings: dict[str, Any], results: list[Any], edges: tuple[Any, ...], level: int) -> Any:
    if level:
        node = op.level_node_class()
        node.level = level
    else:
        node = op.node_class()
    node.seq = next_sequence_number()
    node.next = edges
    node.extra = node.first_extra
    first = results[0]._array
    node.shape = tuple(first.shape)
    node.dtype = payload_dtype(first)
    if op.outputs != 1:
        node.metadata_of_outputs = [
            None if i in op.discrete_outputs else (tuple(r._array.shape), payload_dtype(r._array)) for i, r in enumerate(results)
        ]
    save_inputs(node, op.bind(args), settings)
    for name in node.plan.needed(edges)[1]:
        save_output(node, name, results[int(name[3:] or 0)])
    if thread.remembers:
        from ndgrad.autograd.lines import remember_call

        remember_call(node, results)
    return node


# ----- what a node keeps ------------------------------------------------------------------------------------------------


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
    if result.own_dispatch:  # whose array says nothing: another object of its class, then
        setattr(node, name, Packed(unshared(result, (result,)), lambda t: t, is_output=True))
        setattr(node, name + "_s", None)
        setattr(node, name + "_v", None)
        return
    hooks = hooks_for(node.level)
    storage = storage_of(result) if hooks else result._storage  # the packed value and the result are one memory
    setattr(node, name, result._array)
    setattr(node, name + "_s", storage)
    setattr(node, name + "_v", storage and storage.version)
    if hooks:
        from ndgrad.autograd.saved_hooks import pack_output

        pack_output(node, name, hooks, storage)
    if thread.guard:
        from ndgrad.autograd.checksum import guard_saved

        guard_saved(node, name)


def save_input(node: Any, name: str, value: Any, hooks: Any = ()) -> None:
    """Keep an argument (a tuple of tensors for an op with a variable number of them) with its version."""
    if hooks:
        from ndgrad.autograd.saved_hooks import pack_input

        saving = (node, name)
        value = tuple(pack_input(v, hooks, saving) for v in value) if isinstance(value, tuple) else pack_input(value, hooks, saving)
    elif not node.level:
        value = tuple([_kept(v) for v in value]) if isinstance(value, tuple) else _kept(value)
    else:
        level = node.level
        value = tuple([_kept(v, level) for v in value]) if isinstance(value, tuple) else _kept(value, level)
    setattr(node, name, value)
    setattr(node, name + "_v", tuple(_version(v) for v in value) if isinstance(value, tuple) else _version(value))
    if thread.guard:
        from ndgrad.autograd.checksum import guard_saved

        guard_saved(node, name)


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
        storage = storage_of(value)  # so that the chain of versions begins here, and the first write after the save is known
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
