"""Forward-mode fast path for elementwise and linear ops on bare arrays.

A Jacobian pushes a whole basis through a function: the primals are plain tensors, the tangents batches, and no other
transform is involved. The rule of an elementwise op then means the same on bare arrays, where the batch in front is
one more dimension to broadcast over, and needs none of the calls of a rule on tensors. A linear op (most views among
them) goes directly to the level of its tangent. Every other case takes the general path. Forward mode is the only
active mode here, and `levels` is one vmap or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_half, is_inexact
from ndgrad._src.core.layout import is_view_of, lay_out_like
from ndgrad._src.core.modes import Modes
from ndgrad._src.core.variable import Meta, Variable, meta_of, requires_grad, wrap
from ndgrad._src.core.view import tangents_of
from ndgrad._src.ops.cast import clone
from ndgrad._src.ops.table import Op, parameter_names
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._src.interpreters.levels import Level
    from ndgrad._typing import Payload

_NUMBERS = (bool, int, float, complex)
_raw = raw_ops(np)


def plain_dual(
    op: Op, args: tuple[Any, ...], settings: dict[str, Any], number: int, levels: tuple[Any, ...]
) -> tuple[Any, Any]:
    """Return the output of an elementwise op whose arguments have tangents of level `number`, and its tangent. The
    second, or both, are None if the general path must compute them."""
    level = levels[0] if levels else None
    env: dict[str, Any] = {**settings, "ops": _raw}
    moving: list[tuple[str, Any, bool]] = []
    for name, a in zip(op.args, args, strict=True):
        if not isinstance(a, Variable):
            if not isinstance(a, _NUMBERS):
                return None, None
            env[name] = a
            continue
        array = env[name] = a._array
        if a._node is not None or not (array.__class__ is np.ndarray or isinstance(array, np.generic)):
            return None, None
        meta = a._meta
        if meta is None:
            continue
        if meta.batch_level or meta.level or requires_grad(a):
            return None, None
        held = meta.tangents if meta.view is None else tangents_of(a)
        if held:
            if len(held) > 1 or number not in held:
                return None, None
            tangent, batched = _tangent_array(held[number], level)
            if tangent is None:
                return None, None
            moving.append((name, tangent, batched))
    out = op.plain(*args, **settings)
    result = env["out"] = out._array
    if level is not None:
        meta_of(out).made_in = level.number
    if (
        not isinstance(result, (np.ndarray, np.generic))
        or is_half(result.dtype)
        or not (result.ndim < 2 or result.flags.c_contiguous)
    ):
        return out, None
    return out, _tangent(op, env, moving, out, result, level)


def plain_linear_dual(
    op: Op, a: Payload, settings: dict[str, Any], number: int, levels: tuple[Any, ...], state: Modes
) -> Payload:
    """Return the output of a linear op of one array with its tangent, or None if the argument carries anything else."""
    meta = a._meta
    if a._node is not None or isinstance(a._array, Variable) or meta.batch_level or meta.level or requires_grad(a):
        return None
    held = meta.tangents if meta.view is None else tangents_of(a)
    if held is None or len(held) > 1 or number not in held:
        return None
    tangent = held[number]
    level = levels[0] if levels else None
    array, batched = _tangent_array(tangent, level)
    if array is None:
        return None
    out = op.plain(a, **settings)
    if not is_inexact(out._array.dtype):
        return out
    made = (
        level.run(op, (tangent,), settings, a.tensor_type, state, True)
        if level is not None and batched
        else op.plain(tangent, **settings)
    )
    if not op.view:
        made = lay_out_like(out, made)
    elif is_view_of(made, tangent) and not is_view_of(out, a):
        made = clone(made)
    meta = meta_of(out)
    meta.tangents = {number: made}
    if level is not None:
        meta.made_in = meta_of(made).made_in = level.number  # A write inside the level may bring both to it.
    return out


def _tangent_array(t: Variable, level: Level | None) -> tuple[Any, bool]:
    """Return the array of a tangent (None unless it is plain), and True if its first dimension is the batch of
    `level`."""
    meta = t._meta
    if meta is not None and level is not None and meta.batch_level == level.number:
        return (_plain_array(t._array), True) if meta.tangents is None else (None, True)
    return _plain_array(t), False


def _tangent(
    op: Op, env: dict[str, Any], moving: list[tuple[str, Any, bool]], out: Any, result: Any, level: Any
) -> Payload:
    """Return the sum of the rules' results for each tangent; None if a rule or tangent does not work on arrays."""
    total, any_batched = None, False
    for name, array, batched in moving:
        rule = _rule(op, name)
        if rule is None:
            continue
        if batched:
            any_batched = True
            if array.ndim <= result.ndim:
                array = array.reshape(array.shape[0], *(1,) * (result.ndim + 1 - array.ndim), *array.shape[1:])
        env["t"] = array
        try:
            term = rule[0](*[env[n] for n in rule[1]])
        except KeyError:
            return None  # The rule needs a value that is not in `env`.
        if total is not None:
            total = total + term
        else:
            # A later write to the result must not reach the argument's tangent.
            total = np.array(term) if term is array else term
    if total is None or total.dtype.kind != result.dtype.kind:
        return None
    shape = (level.size, *result.shape) if any_batched else result.shape
    if total.shape != shape:
        total = np.array(np.broadcast_to(total, shape))
    if total.dtype != result.dtype or not total.flags.c_contiguous:
        total = np.array(total, dtype=result.dtype, order="C")
    made = wrap(out.tensor_type, total)
    if not any_batched:
        if level is not None:
            meta_of(made).made_in = level.number
        return made
    batch = wrap(out.tensor_type, made)
    meta = batch._meta = Meta()
    meta.batch_level = meta.made_in = level.number
    return batch


def _plain_array(t: object) -> Payload:
    """Return the array of a tensor that carries nothing else; None for other tensors."""
    if not isinstance(t, Variable) or t._node is not None or not isinstance(t._array, (np.ndarray, np.generic)):
        return None
    meta = t._meta
    if meta is not None and (meta.batch_level or meta.level or meta.tangents is not None or requires_grad(t)):
        return None
    return t._array


def _rule(op: Op, name: str) -> Any:
    """Return a forward-mode rule and the names of its parameters; None if there is none for this argument."""
    if op.jvp == "elementwise":
        return op.rules.get(name)
    if not isinstance(op.jvp, Mapping):
        return None
    found = op.jvp.get(name)
    return None if found is None else (found, parameter_names(found))
