"""The general path: all cases of an op call, in the order in which they are handled.

    foreign arguments    arrays and numbers become constants; classes that override functions take over
    tangents, levels     the level opened last comes first: for a forward-mode dual the primal op, then its jvp rule;
                         for a function transform the batching rule, or the graph of an inner grad
    record               run forward, make the node, save the values that rules name

Each stage removes its own level from the arguments and dispatches again, so the stages compose to any depth. The fast
path in ndgrad._src.core.generate is a shortcut for plain tensors while no mode is active.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import get_default_dtype
from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.borrowed_memory import wrap_lent
from ndgrad._src.core.call_watchers import watched_op
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import Modes, modes, process, restore, scope, thread
from ndgrad._src.core.open_levels import find_silenced, join_levels
from ndgrad._src.core.plain_arrays import check_plain
from ndgrad._src.core.promotion import promote_arguments
from ndgrad._src.core.record import record
from ndgrad._src.core.subclass import ask_classes, overriding_types, subclass_op
from ndgrad._src.core.variable import ESCAPED, Variable, meta_of, own_level, wrap
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations import registry
from ndgrad._src.ops.table import RANDOM

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Level, Payload

_NUMBERS = (bool, int, float, complex)


def dispatch(
    op: Op, args: tuple[Any, ...], settings: dict[str, Any], watched: bool = False, settled: bool = False
) -> Any:
    """Run `op` on any arguments.

    `watched`: call watchers have already seen this call. `settled`: a level above has already promoted the dtypes.
    """
    state = modes()
    calm = len(process.busy) == state._tokens_below  # state.only_transforms(), inlined
    if not calm:
        if state.only_no_grad() and not process.dispatching:
            return op.unrecorded(*args, **settings)
        made = _dispatch_to_mode(state, op, args, settings, watched, settled)
        if made is not NotImplemented:
            return made
    if state.captures is not None:
        args = state.captures.see(args)
    elif calm and len(state.levels) == 1 and len(process.open) == 1:
        made = state.levels[0].run_alone(op, args, settings)
        if made is not NotImplemented:
            return made
    tensor_type = tensor_type_of(op, args)
    if tensor_type is None:
        return _override_or_refuse(op, args, settings)
    if op.promotes and not settled and not tensor_type.is_numpy_type:
        args = promote_arguments(op, args)
    return dispatch_as(state, tensor_type, op, args, settings, calm)


def _dispatch_to_mode(
    state: Modes, op: Op, args: tuple[Any, ...], settings: dict[str, Any], watched: bool, settled: bool
) -> Any:
    """Run `op` in a mode that takes the whole call, such as autocast or the tracer; NotImplemented if there is none."""
    if state.is_alone_with_autocast() and not (process.dispatching or process.open or settled):
        run = op.plain if state.grad_enabled else op.unrecorded
        return run(*args, **settings)
    if thread.watchers and not watched:
        return watched_op(op, args, settings, dispatch)
    if state.observers and len(process.busy) == 1 and not (process.open or process.dispatching or settled):
        tracer = state.tracer()
        if tracer is not None:
            return tracer.run(op, args, settings, state.grad_enabled)
    return NotImplemented


def dispatch_as(
    state: Modes, tensor_type: type[Any], op: Op, args: tuple[Any, ...], settings: dict[str, Any], plain: bool
) -> Any:
    """Run `op` on arguments without overrides, with results of class `tensor_type`, in the modes `state`.

    `plain`: only transforms are in force, and no argument is of a subclass.
    """
    levels = state.levels
    if not levels and not process.open:
        return record(op, args, settings, tensor_type)
    number, dual = _find_innermost(args)
    if number is None:  # rules of transforms compute with tensors
        args = tuple([wrap_lent(tensor_type, a) if is_raw_array(a) else a for a in args])
        return dispatch_as(state, tensor_type, op, args, settings, plain)
    level = levels[-1] if levels else None
    if level is None or number != level.number or op.batch is RANDOM:
        if (number and not _is_open_in(levels, number)) or (dual and dual not in state.dual_stack):
            with join_levels(open_elsewhere(args)):
                return dispatch_as(modes(), tensor_type, op, args, settings, False)
        if level is not None:
            level = level.find_level_in_charge(op, args, number)
            silent = find_silenced(state, level, dual)
            if silent is not None:
                return _run_under(silent, tensor_type, op, args, settings)
    if dual and (level is None or dual > level.number):
        return registry.forward_ad.dual_op(op, args, settings, dual, state, plain)
    if level is not None:
        return level.run(op, args, settings, tensor_type, state, plain)
    if not plain:
        return record(op, args, settings, tensor_type)
    out = op.plain(*args, **settings)
    return _mark_birth(op, out, levels[-1].number) if levels else out


def _mark_birth(op: Op, out: Payload, number: int) -> Any:
    """Mark the result(s) of an op with the number of the transform in which they were made."""
    for r in (out,) if op.outputs == 1 else out:
        meta_of(r).made_in = number
    return out


def _run_under(level: Level, tensor_type: type[Any], op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run `op` in the modes below an open level to which no argument belongs."""
    outside = scope()
    try:
        restore(outside.scope_below(level))
        out = dispatch_as(modes(), tensor_type, op, args, settings, False)
    finally:
        restore(outside)
        del outside
    return _mark_birth(op, out, modes().levels[-1].number)


def _find_innermost(args: tuple[Any, ...]) -> tuple[int | None, int]:
    """Return the numbers of the innermost transform and of the innermost open dual level among the arguments.

    A number is 0 if there is no such level. The result is (None, 0) if an argument is an array without a tensor around
    it.
    """
    number = dual = 0
    for a in args:
        if a.__class__ not in TENSOR_TYPES and not isinstance(a, Variable):
            if is_raw_array(a):
                return None, 0
            continue
        meta = a._meta
        if meta is None:
            node = a._node
            if node is not None and node.level > number:
                number = node.level
            continue
        if meta.view is None and meta.picked is None:
            own, held = own_level(a), meta.tangents
        else:
            own = registry.level_number(a)
            held = tangents_of(a)
        if own > number:
            number = own
        if held:
            for k in held:
                if k > dual and k in process.open:
                    dual = k
    return number, dual


def _is_open_in(levels: tuple[Any, ...], number: int) -> bool:
    return number in [level.number for level in levels]


def open_elsewhere(args: Iterable[Any]) -> int:
    """Return the innermost transform or dual level among tensors that is open only in another thread.

    The result is its number, or 0 if there is none (see Note [Threads inside transforms]).
    """
    found, state = 0, modes()
    for a in args:
        if not isinstance(a, Variable) or (a._meta is None and a._node is None):
            continue
        number = registry.level_number(a)
        if number > found and not _is_open_in(state.levels, number):
            if number not in process.open:
                raise RuntimeError(ESCAPED)
            found = number
        for dual in tangents_of(a) or ():
            if dual > found and dual not in state.dual_stack:
                found = dual
    return found


def dispatch_operator(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Same as `dispatch`, for Python's operators: return NotImplemented for an unknown operand, which can respond."""
    for a in args:
        if a.__class__ in TENSOR_TYPES or isinstance(a, Variable) or (op.elementwise and isinstance(a, _NUMBERS)):
            continue
        if is_raw_array(a):
            if isinstance(a, np.ndarray) and (a.__class__ is not np.ndarray or not is_number(a.dtype)):
                return _dispatch_special_arrays(op, args, settings)
            continue
        if isinstance(a, (list, tuple)) and any(getattr(b, "is_numpy_type", False) for b in args):
            as_array = registry.numpy_arguments.as_array
            args = tuple(as_array(b) if isinstance(b, (list, tuple)) else b for b in args)
            return dispatch_operator(op, args, settings)
        if op.name == "matmul" and type(a).__module__.startswith("scipy.sparse"):
            return registry.scipy_sparse.matmul_with_tensors(*args)
        return NotImplemented
    return dispatch(op, args, settings)


def _dispatch_special_arrays(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Dispatch an operator with special ndarrays among its operands.

    Subclasses of ndarray with their own ufunc rules respond themselves. Arrays with a plain meaning are dispatched.
    Masked arrays, matrices, objects and records are refused.
    """
    for a in args:
        if isinstance(a, np.ndarray) and type(a).__array_ufunc__ is not np.ndarray.__array_ufunc__:
            return NotImplemented
    return dispatch(op, tuple(check_plain(a) if isinstance(a, np.ndarray) else a for a in args), settings)


def tensor_type_of(op: Op, args: tuple[Any, ...]) -> type[Any] | None:
    """Return the result's tensor class: NumPy's if any argument has it, None if an argument needs special treatment."""
    tensor_type: type[Any] | None = None
    for a in args:
        found = TENSOR_TYPES.get(a.__class__)
        if found is None:
            if a is None or isinstance(a, _NUMBERS) or is_raw_array(a):
                continue
            return None
        if tensor_type is None or (found is not tensor_type and found.is_numpy_type):
            tensor_type = found
    return tensor_type


def _override_or_refuse(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    for a in args:
        if isinstance(a, Variable) and a.run_op is not None:
            return a.run_op(op, args, settings)
    if tensor_type_of(op, args) is not None:  # numbers that became tensors when they were asked
        return dispatch(op, args, settings)
    if any(isinstance(a, Variable) and a.__class__ not in TENSOR_TYPES for a in args):
        return subclass_op(op, args, settings)
    if not thread.functions_disabled:
        result = ask_classes(op, overriding_types(args), args, settings)
        if result is not NotImplemented:
            return result
    if op.takes_numbers and all(isinstance(a, (bool, int, float, complex)) for a in args):
        return dispatch(op, (_wrap_number(args[0]), *args[1:]), settings)
    kinds = ", ".join(_kind(a) for a in args)
    raise TypeError(
        f"{op.name}() takes tensors, got ({kinds}). Wrap arrays with ndgrad.as_tensor(...) "
        "(or use ndgrad.numpy, whose functions take arrays). [nd-type]"
    )


def _wrap_number(number: complex) -> Any:
    """Return a number as a tensor, of torch's class and default dtype."""
    tensor_type = next(cls for cls in TENSOR_TYPES.values() if not cls.is_numpy_type)
    array = np.asarray(number)
    default = get_default_dtype().numpy
    if array.dtype.kind == "f":
        array = array.astype(default)
    elif array.dtype.kind == "c":
        array = array.astype(np.result_type(default, np.complex64))
    return wrap(tensor_type, array)


def _kind(a: object) -> str:
    cls = type(a)
    return (
        cls.__qualname__
        if cls.__module__ == "builtins" or isinstance(a, Variable)
        else f"{cls.__module__}.{cls.__qualname__}"
    )


def innermost_dual(args: tuple[Any, ...]) -> int:
    """Return the number of the innermost dual level with a tangent among the arguments; 0 if there is none."""
    number = 0
    for a in args:
        if isinstance(a, Variable) and a._meta is not None:
            held = tangents_of(a)
            if held:
                number = max(number, *held)
    return number


def record_any(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Same as `record`, for a caller that does not know the tensor class of the result."""
    tensor_type = tensor_type_of(op, args)
    if tensor_type is None:
        return _override_or_refuse(op, args, settings)
    if op.promotes and not tensor_type.is_numpy_type:
        args = promote_arguments(op, args)
    return record(op, args, settings, tensor_type)
