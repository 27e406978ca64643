"""vmap: running an op on a whole batch by its batching rule.

A batched tensor's payload has the batch in front. Rules are described in the table's manual; nothing here loops over the
batch.
"""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.modes import thread
from ndgrad.autograd.variable import Variable, meta_of, wrap
from ndgrad.func.levels import Level, below, level_number, top_level
from ndgrad.ops.table import DATA_DEPENDENT, RANDOM, parameter_names
from ndgrad.ops.vocabulary import tensor_ops


def batch_tensor(level: Level, payload: Any) -> Any:
    """The batched tensor of `level` over a payload (a tensor) whose dimension 0 is the batch."""
    t = wrap(payload.face, payload)
    meta_of(t).batch_level = level.number
    return t


def batch_op(level: Level, op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run `op` on batched arguments."""
    batched = tuple(level_number(a) == level.number for a in args)
    payloads = tuple(a._array if b else a for a, b in zip(args, batched, strict=True))
    if op.batch is RANDOM:
        return _random_op(level, op, payloads, batched, settings)
    with below(level):
        out = apply_batch_rule(op, payloads, batched, settings, level.size or 0)
    if op.outputs == 1:
        return batch_tensor(level, out)
    return tuple(batch_tensor(level, o) for o in out)


def apply_batch_rule(op: Any, args: tuple[Any, ...], batched: tuple[bool, ...], settings: dict[str, Any], size: int) -> Any:
    rule = op.batch
    if rule == "elementwise":
        return op.eager(*_align(args, batched), **settings)
    if rule is DATA_DEPENDENT:
        raise RuntimeError(
            f"vmap: the shape of {op.name}'s result depends on values, so it can differ from one sample to the next. "
            "Use a form with a fixed shape (where, masked sums), or call it outside vmap."
        )
    if rule == "dims":
        moved = {k: _shift(v) if k in ("dim", "dims", "dim0", "dim1") else v for k, v in settings.items()}
        return op.eager(*_expand(args, batched, size), **moved)
    if rule == "leading":
        return op.eager(*_expand(args, batched, size), **settings)
    if isinstance(rule, str) or not callable(rule):
        raise RuntimeError(f"op {op.name!r} has no batching rule ({rule!r})")
    names = parameter_names(rule)
    if "batched" not in names:
        args = _expand(args, batched, size)
    env = {**settings, "ops": tensor_ops, "batched": batched, "size": size}
    env.update(op.bind(args))
    return rule(*[env[n] for n in names])


def _shift(dim: Any) -> Any:
    return tuple(d + 1 for d in dim) if isinstance(dim, tuple) else dim + 1


def _align(args: tuple[Any, ...], batched: tuple[bool, ...]) -> tuple[Any, ...]:
    """Insert dimensions of size one behind the batch, so that broadcasting lines up as it did for one sample."""
    rank = max(len(a.shape) - b for a, b in zip(args, batched, strict=True) if hasattr(a, "shape"))
    out = []
    for a, b in zip(args, batched, strict=True):
        if b and len(a.shape) - 1 < rank:
            a = tensor_ops.reshape(a, shape=(a.shape[0], *(1,) * (rank + 1 - len(a.shape)), *a.shape[1:]))
        out.append(a)
    return tuple(out)


def _expand(args: tuple[Any, ...], batched: tuple[bool, ...], size: int) -> tuple[Any, ...]:
    """Give every tensor argument a batch dimension; for an unbatched one it is a broadcast, which costs nothing."""
    return tuple(
        a if b or not isinstance(a, Variable) else tensor_ops.expand(a, shape=(size, *_shape(a)))
        for a, b in zip(args, batched, strict=True)
    )


def _shape(a: Any) -> tuple[int, ...]:
    return tuple(a.shape)


# ----- random ops ----------------------------------------------------------------------------------------------------


def random_level(args: tuple[Any, ...]) -> Level | None:
    """The level that deals with a random op next: the innermost vmap, batched arguments or not, unless theirs is inside it."""
    own = top_level(args)
    return next((level for level in reversed(thread.levels) if level is own or level.kind == "vmap"), None)


def _random_op(level: Level, op: Any, args: tuple[Any, ...], batched: tuple[bool, ...], settings: dict[str, Any]) -> Any:
    """Draw for a batch: once for all samples, or for each of them, as vmap's `randomness` says."""
    from ndgrad.ops.random import SHAPE_ONLY

    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation while in randomness error mode ({op.name}): it does not say whether samples "
            "share their "
            "numbers. Pass randomness='different' or randomness='same' to vmap, or draw outside of it."
        )
    if level.randomness == "same":
        if any(batched):
            if op.name not in SHAPE_ONLY:
                raise RuntimeError(
                    f"vmap: {op.name} with randomness='same' was given a batched tensor, whose samples have different "
                    "distributions. "
                    "Pass randomness='different', or draw outside of vmap."
                )
            args = (tensor_ops.getitem(args[0], index=(0,)), *args[1:])
        with below(level):
            return op.eager(*args, **settings)
    with below(level):
        every = _expand(args, batched, level.size or 0)
        return batch_tensor(level, op.eager(*_align(every, tuple(isinstance(a, Variable) for a in every)), **settings))
