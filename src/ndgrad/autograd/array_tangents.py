"""Elementwise ops on duals, straight on arrays.

A Jacobian pushes a whole basis through a function: the primals are plain tensors, the tangents batches, and nothing below them cares
for either. The rule of an elementwise op then means the same on bare arrays, the batch in front being one more dimension to broadcast
over, and needs none of the calls that a rule on tensors makes. Whatever is not as plain as that is left to the general way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ndgrad.autograd.modes import process, thread
from ndgrad.autograd.variable import Variable, meta_of, requires_grad, wrap
from ndgrad.ops.table import Op, parameter_names
from ndgrad.ops.vocabulary import raw_ops

_NUMBERS = (bool, int, float, complex)


def plain_dual(op: Op, primals: tuple[Any, ...], tangents: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Any, Any]:
    """The output of an elementwise op and its tangent. The second, or both, are None if they must be found in the general way."""
    levels = thread.levels
    if len(levels) > 1 or process.busy != thread.transforms or (levels and levels[0].kind != "vmap"):
        return None, None
    env: dict[str, Any] = {}
    for name, p in zip(op.args, primals, strict=True):
        env[name] = array = p if isinstance(p, _NUMBERS) else _plain_array(p)
        if array is None:
            return None, None
    out = op.plain(*primals, **settings)
    result = _plain_array(out)
    if levels:
        meta_of(out).born = levels[0].number
    if result is None or not (result.ndim < 2 or result.flags.c_contiguous):
        return out, None
    env.update(settings)
    env["ops"], env["out"] = raw_ops(np), result
    return out, _tangent(op, env, tangents, out, result, levels[0] if levels else None)


def _tangent(op: Op, env: dict[str, Any], tangents: tuple[Any, ...], out: Any, result: Any, level: Any) -> Any:
    """The sum of what the rules make of each tangent, None if some rule or tangent is not for arrays."""
    total, batched = None, False
    for name, t in zip(op.args, tangents, strict=True):
        rule = None if t is None else _rule(op, name)
        if rule is None:
            continue
        meta = t._meta
        if meta is not None and level is not None and meta.batch_level == level.number:
            batched, own = True, meta.tangents is None
            array = _plain_array(t._array) if own else None
        else:
            own = False
            array = _plain_array(t)
        if array is None:
            return None
        if own and array.ndim <= result.ndim:
            array = array.reshape(array.shape[0], *(1,) * (result.ndim + 1 - array.ndim), *array.shape[1:])
        env["t"] = array
        try:
            term = rule[0](*[env[n] for n in rule[1]])
        except KeyError:
            return None  # the rule wants to know something else
        if total is not None:
            total = total + term
        else:
            total = np.array(term) if term is array else term  # a later write to the result must not reach the argument's tangent
    if total is None or total.dtype.kind != result.dtype.kind:
        return None
    shape = (level.size, *result.shape) if batched else result.shape
    if total.shape != shape:
        total = np.array(np.broadcast_to(total, shape))
    if total.dtype != result.dtype or not total.flags.c_contiguous:
        total = np.array(total, dtype=result.dtype, order="C")
    made = wrap(out.face, total)
    if not batched:
        return made
    from ndgrad.func.batching import batch_tensor  # which lies below this layer

    return batch_tensor(level, made)


def _plain_array(t: Any) -> Any:
    """The array of a tensor that has nothing else to it, None for any other."""
    if not isinstance(t, Variable) or t._node is not None or not isinstance(t._array, (np.ndarray, np.generic)):
        return None
    meta = t._meta
    if meta is not None and (meta.batch_level or meta.level or meta.tangents is not None or requires_grad(t)):
        return None
    return t._array


def _rule(op: Op, name: str) -> Any:
    """A rule of forward mode and what it names, None if there is none for this argument."""
    if op.jvp == "elementwise":
        return op.rules.get(name)
    if not isinstance(op.jvp, Mapping):
        return None
    found = op.jvp.get(name)
    return None if found is None else (found, parameter_names(found))
