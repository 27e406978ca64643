"""Copies and pickles of tensors.

A copy has no history. Only leaves can be deep-copied, as in torch, since a copied result would either drop its graph
or copy it too. Tensors copied together keep sharing memory (two views of one array stay views of one array).
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ndgrad._src.arrays.addresses import flat_bytes, owner_of, pointer
from ndgrad._src.core.detach_checks import TANGENT, at_stake, stake_of
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.subclass import attributes, copy_attributes, set_attributes
from ndgrad._src.core.variable import Variable, meta_of, wrap
from ndgrad._src.core.versions import InferenceStorage
from ndgrad._src.ops.cast import clone
from ndgrad._src.ops.shape import alias
from ndgrad._src.tensor.storage import memory_of

#: Key in the memo of a deep copy: copy tensors with their history (for ndgrad.lift, where an Array acts as NumPy's).
KEEPS_HISTORY = "ndgrad keeps history"


def deep_copy(t: Any, memo: Any) -> Any:
    """Implement `copy.deepcopy(t)`."""
    if id(t) in memo:
        return memo[id(t)]
    if KEEPS_HISTORY in memo and at_stake(t):
        memo[id(t)] = made = clone(t)
        return made
    if stake_of(t) == TANGENT:
        raise RuntimeError(
            f"deepcopy of a tensor (shape {tuple(t.shape)}) that {TANGENT} would drop it: a copy has no history. "
            "Use clone(), which keeps it, or detach() the tensor first. [nd-drops-gradient]"
        )
    if not t.is_leaf or isinstance(t._array, Variable):
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
            f"this one (shape {tuple(t.shape)}) was computed by {t._node}. Use clone() for a copy inside "
            "the graph, or detach() it first. [nd-not-leaf]"
        )
    made = wrap(t.__class__, _copy_array(memory_of(t), memo))
    if thread.inference:
        made._storage = InferenceStorage()
    memo[id(t)] = made
    if t._meta is not None:
        meta = meta_of(made)
        meta.requires_grad, meta.names, meta.grad_dtype = t._meta.requires_grad, t._meta.names, t._meta.grad_dtype
        if t._meta.grad is not None:
            meta.grad = copy.deepcopy(t._meta.grad, memo)
    set_attributes(made, copy.deepcopy(attributes(t), memo))
    return made


def _copy_array(array: Any, memo: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array.copy()
    owner = owner_of(array)
    key = id(owner)
    if key not in memo:
        memo[key] = owner.copy(order="K")
        memo.setdefault(id(memo), []).append(owner)  # The reference prevents the identity from being reused.
    if array is owner:
        return memo[key]
    offset = pointer(array) - pointer(owner) if array.size else 0
    return np.ndarray(array.shape, array.dtype, buffer=flat_bytes(memo[key]), offset=offset, strides=array.strides)


def shallow_copy(t: Any) -> Any:
    """Implement `copy.copy(t)`: for a leaf, another leaf over the same memory, as in torch; for a computed tensor,
    the same value in the graph."""
    if t.is_leaf and not isinstance(t._array, Variable) and stake_of(t) != TANGENT:
        make, parts = reduce_for_pickle(t)
        return make(*parts)
    made = alias(t)
    copy_attributes(t, made)
    return made


def reduce_for_pickle(t: Any) -> Any:
    """Return the parts from which pickle rebuilds a tensor. A pickled result is restored as a leaf, as in torch."""
    if stake_of(t) == TANGENT:
        raise RuntimeError(
            f"a tensor (shape {tuple(t.shape)}) that {TANGENT} cannot be pickled: "
            "the tangent would be lost. detach() it first. [nd-pickle]"
        )
    if isinstance(t._array, Variable):
        raise RuntimeError(
            "a tensor inside a function transform (grad, vmap) cannot be pickled or copied: "
            "it has no values of its own. Return it from the transformed function first. [nd-pickle]"
        )
    meta = t._meta
    state = attributes(t)
    names = None if meta is None else meta.names
    return rebuild, (t.__class__, memory_of(t), t.requires_grad, names, state)


def rebuild(tensor_type: type[Any], array: Any, requires_grad: bool, names: Any, state: dict[str, Any]) -> Any:
    """Rebuild a tensor from its pickle."""
    made = wrap(tensor_type, array)
    if requires_grad:
        meta_of(made).requires_grad = True
    if names is not None:
        process.named = True
        meta_of(made).names = names
    set_attributes(made, state)
    return made
