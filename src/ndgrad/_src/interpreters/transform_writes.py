"""In-place writes while transforms are open.

An in-place op runs out of place, through every level. Then the result is copied into the target in place, level by
level: tangents into the target's tangents, batched values into the batched payload. In a grad level the payload is
written and the level's graph gets a copy node. So views see writes at every level, as they do outside. Some ops write
a part of their target, and are linear in the written and the old values (index_put and its variants). They do not run
on the whole tensor: they write that part at every level (`write_part`).

A tensor from outside a level cannot take a value that belongs to it: the write would have to outlive the level. A
tensor made inside can, and is brought to the level first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.core.batched_parts import follow_pick, note_pick
from ndgrad._src.core.borrowed_memory import Lent
from ndgrad._src.core.detach_checks import refuse_loss_in_lent
from ndgrad._src.core.dispatch import dispatch, innermost_dual, open_elsewhere
from ndgrad._src.core.exact_zeros import mark_overwrite
from ndgrad._src.core.inplace import check_writable, inplace_node, set_history, write, write_level
from ndgrad._src.core.layout import Order, copy_in_order, order_of
from ndgrad._src.core.modes import modes, process, thread
from ndgrad._src.core.node import OVERWRITING
from ndgrad._src.core.open_levels import find_silenced, join_levels
from ndgrad._src.core.record import own_edge
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.core.variable import Variable, meta_of, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.core.view import replay, tangents_of
from ndgrad._src.interpreters.batching import apply_batch_rule
from ndgrad._src.interpreters.forward_ad import hidden_tangents, interpreters, strip, tangent_of, zero_tangent
from ndgrad._src.interpreters.levels import (
    GradLevel,
    Level,
    as_tensor_below,
    below,
    find_level,
    level_number,
    lower,
    top_level,
)
from ndgrad._src.ops.fill import copy
from ndgrad._src.ops.vocabulary import find, tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload


def write_in_transforms(op: Op, target: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    picked = follow_pick(target)
    # A part picked from the target must not follow it during the write, which proceeds level by level.
    args = tuple([tensor_ops.clone(a) if isinstance(a, Variable) and follow_pick(a) is not None else a for a in args])
    if picked is None:
        _write(op, target, args, settings)
        return target
    part = target if target._meta.view is None else target._meta.view.base
    part._meta.picked = None  # The part and the array differ during the write.
    try:
        _write(op, target, args, settings)
        picked.put(part)
    finally:
        part._meta.picked = picked
    picked.renew()
    note_pick(part, picked)
    return target


def _write_directly(op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any]) -> bool:
    """Fast path for the most common case: one grad transform is open, and payloads are bare arrays. Then the op runs
    in place as it does outside of transforms, and is recorded in the level's graph. Return False otherwise."""
    levels = thread.levels
    if len(levels) != 1 or len(process.open) != 1 or thread.dual_levels or levels[0].__class__ is not GradLevel:
        return False
    level = levels[0]
    if not level.pure or not level.grad_enabled_before or isinstance(target._array, Variable):
        return False
    number, concerned = level.number, False
    for a in args:
        if isinstance(a, Variable):
            own = level_number(a)
            if isinstance(a._array, Variable) or (own != number and (own or isinstance(lower(a), Variable))):
                return False
            concerned = concerned or own == number
    own = level_number(target)
    if own != number:
        if own or not concerned or isinstance(lower(target), Variable):
            return False
        if not was_made_inside(level, target):
            return False
    if _lies_in_lent_memory(target):
        refuse_loss_in_lent(op.name, target, args)
    if own != number:
        bring_to(level, target)
    write_level(op, target, args, settings, number, thread.grad_enabled)
    return True


def _write(op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any]) -> None:
    if _write_directly(op, target, args, settings):
        return
    everything = (target, *args)
    elsewhere = open_elsewhere(everything)
    if elsewhere:
        with join_levels(elsewhere):
            _write(op, target, args, settings)
        return
    tangents = bool(thread.dual_levels) and any(isinstance(a, Variable) and tangents_of(a) for a in everything)
    level = _level_of(target, everything) if thread.levels else None
    silent = find_silenced(modes(), level, innermost_dual(everything) if tangents else 0)
    if silent is None:
        _write_inside(op, target, args, settings, level, tangents)
        return
    with below(silent):
        _write(op, target, args, settings)


def _write_inside(
    op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any], level: Level | None, tangents: bool
) -> None:
    """Write inside a level, if the write belongs to one; `tangents` is True if a participant has a tangent."""
    everything = (target, *args)
    if not tangents and level is None:
        write_level(op, target, args, settings, 0, thread.grad_enabled)
        return
    if _lies_in_lent_memory(target):
        refuse_loss_in_lent(op.name, target, args)
    if (
        op.consumes
        and (level is None or level.kind != "functional")
        and not (tangents and _has_interpreter(everything))
    ):
        write_part(
            op, target, args, settings, level if not tangents or level is None else _innermost_level(everything, level)
        )
        return
    if op is copy:
        result = args[0]
        _check_broadcast(target, result)
    else:
        result = dispatch(op, _unalias_arguments(op, target, args, level), settings)
        if op.kind in OVERWRITING:
            mark_overwrite(op, result)
    if level is None or (tangents and innermost_dual((*everything, result)) > level.number):
        if level is not None and level_number(target) != level.number == level_number(result):
            bring_to(
                level, target
            )  # This must precede the split of tangents: those of older levels belong to the payload.
        _write_dual(target, result)
    else:
        _write_at(level, target, result, op is not copy)


def _level_of(target: Variable, everything: tuple[Any, ...]) -> Level | None:
    """Return the level that a write belongs to: the innermost one of the tensors, or a functionalize level in
    which the target was made."""
    own = top_level(everything)
    for level in reversed(thread.levels):
        if level is own:
            break
        if level.kind == "functional" and was_made_inside(level, target):
            return level
    return own


def _lies_in_lent_memory(t: Variable) -> bool:
    """True if a write to a tensor is visible to a plain ndarray."""
    if t._storage.__class__ is Lent or t._meta is None:
        return t._storage.__class__ is Lent
    meta = t._meta if t._meta.view is None else t._meta.view.base._meta
    return meta is not None and meta.lent is not None


def was_made_inside(level: Level, t: Variable) -> bool:
    """True if a tensor, or its base, was made while a level was open."""
    info = None if t._meta is None else t._meta.view
    meta = t._meta if info is None else info.base._meta
    return meta is not None and bool(meta.made_in >= level.number)


def _unalias_arguments(op: Op, target: Variable, args: tuple[Any, ...], level: Level | None) -> tuple[Any, ...]:
    """Return the arguments of the out-of-place op; values saved by its rules must not share the written memory."""
    if not op.differentiable or not save_plan(op).arrays:
        return (target, *args)
    if level is not None and level.kind == "functional" and thread.levels[-1] is level and not thread.dual_levels:
        return (target, *args)  # The saved value is the current one, which stays unchanged.
    before = tensor_ops.clone(target) if op.args[0] in save_plan(op).arrays else target
    storage = target._storage
    shares = [
        isinstance(a, Variable) and (a is target or (storage is not None and a._storage is storage)) for a in args
    ]
    return (before, *(tensor_ops.clone(a) if s else a for a, s in zip(args, shares, strict=True)))


def _check_broadcast(target: Variable, value: Payload) -> None:
    have, want = tuple(value.shape), tuple(target.shape)
    if len(have) > len(want) or not all(h in (1, w) for h, w in zip(have[::-1], want[::-1], strict=False)):
        raise RuntimeError(
            f"a value of shape {have} cannot be written into a tensor of shape {want}. Give one that broadcasts to it. "
            "[nd-write-fit]"
        )


# ----- tangents -------------------------------------------------------------------------------------------------------


def _write_dual(target: Variable, result: Payload) -> None:
    """Write the primal, then the tangents of every level that the target or the result has. Tangents of levels older
    than the target's own belong to its payload and go with the primal."""
    own = level_number(target)
    theirs = {n: t for n, t in (tangents_of(result) or {}).items() if n > own} if isinstance(result, Variable) else {}
    for number in theirs:
        if tangent_of(target, number) is None:
            _give_tangent(target, number)
    primal = result
    for number in theirs:
        primal = strip(primal, number)
    with hidden_tangents(target) as held:
        write(copy, target, (primal,), {})
    for number, tangent in sorted(held.items()):
        new = theirs.get(number)
        write(copy, tangent, (tensor_ops.zeros_like(tangent) if new is None else new,), {})


def _give_tangent(target: Variable, number: int) -> None:
    """Give the target a zero tangent; for a view, a view of a zero tangent of its base."""
    info = None if target._meta is None else target._meta.view
    base = target if info is None else info.base
    if tangent_of(base, number) is None:
        zero = zero_tangent(base, number)
        meta = meta_of(base)
        meta_of(zero).made_in = max(
            meta.made_in, level_number(base)
        )  # A result of a level carries its level in one place only.
        meta.tangents = {**(meta.tangents or {}), number: zero}
    if info is not None:
        meta = meta_of(target)
        meta.tangents = {**(meta.tangents or {}), number: replay(tangent_of(base, number), info.path)}


# ----- parts ----------------------------------------------------------------------------------------------------------


def _has_interpreter(everything: tuple[Any, ...]) -> bool:
    """True if some tangent belongs to an interpreter (the ids of a sparsity trace, Taylor coefficients), which alone
    knows the effect of a write."""
    return any(number in interpreters for a in everything if isinstance(a, Variable) for number in tangents_of(a) or ())


def _innermost_level(everything: tuple[Any, ...], level: Level) -> Level | None:
    """Return the level that handles a write first; None for a dual level."""
    return None if innermost_dual(everything) > level.number else level


def write_part(op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any], level: Level | None) -> Any:
    """Write a part at one level: that of the tangents (None), or a transform's."""
    storage = target._storage
    y = op.args.index("y") - 1
    value = args[y]
    if isinstance(value, Variable) and storage is not None and value._storage is storage:
        value = tensor_ops.clone(value)  # The value must not change during the write, which proceeds level by level.
    args = (*args[:y], value, *args[y + 1 :])
    if level is None:
        _write_part_dual(op, target, args, y, settings)
        return target
    if level_number(target) != level.number:
        bring_to(level, target)
    if isinstance(level, GradLevel):
        _write_part_grad(op, target, args, settings, level)
    else:
        _write_part_batched(op, target, args, settings, level)
    return target


def _write_part_dual(op: Op, target: Variable, args: tuple[Any, ...], y: int, settings: dict[str, Any]) -> None:
    """Write the part of the primal, then that of every tangent that the target or the value has."""
    own, value = level_number(target), args[y]
    theirs = {n: t for n, t in (tangents_of(value) or {}).items() if n > own} if isinstance(value, Variable) else {}
    for number in theirs:
        if tangent_of(target, number) is None:
            _give_tangent(target, number)
        value = strip(value, number)
    with hidden_tangents(target) as held:
        write(op, target, (*args[:y], value, *args[y + 1 :]), settings)
    for number, tangent in sorted(held.items()):
        new = theirs.get(number)
        if new is None:
            new = tensor_ops.zeros_like(value) if isinstance(value, Variable) else 0.0
        write(op, tangent, (*args[:y], new, *args[y + 1 :]), settings)


def _write_part_grad(
    op: Op, target: Variable, args: tuple[Any, ...], settings: dict[str, Any], level: GradLevel
) -> None:
    """Write the part of the payload, and record the op in the level's graph."""
    number = level.number
    payloads = tuple([a._array if level_number(a) == number else lower(a) for a in args])
    if not isinstance(target._array, Variable):
        if not any(isinstance(p, Variable) for p in payloads):
            write_level(op, target, args, settings, number, thread.grad_enabled)
            return
        _lift_payload(level, target)
    edges = tuple([own_edge((target, *args)[i], number) for i in op.differentiable_positions(1 + len(args))])
    recorded = thread.grad_enabled and any(e is not None for e in edges)
    check_writable(target, op.name + "_", recorded)
    node = inplace_node(op, target, args, settings, edges, number) if recorded else None
    lifted = tuple(
        [as_tensor_below(a, p, number) if isinstance(a, Variable) else p for a, p in zip(args, payloads, strict=True)]
    )
    _keep_payload(level, target)
    with below(level):
        write(op, target._array, lifted, settings)
    storage_of(target).bump(op.name + "_")
    if node is not None:
        set_history(target, node)


class _WritingOps:
    """Ops for batching rules that write: ops that write a part do so in place."""

    raw = False

    def __getattr__(self, name: str) -> Any:
        op = find(name)
        return (
            (lambda x, *others, **settings: write(op, x, others, {**op.settings, **settings}))
            if op.consumes
            else op.eager
        )


def _write_part_batched(op: Op, target: Any, args: tuple[Any, ...], settings: dict[str, Any], level: Level) -> None:
    """Write the part of the batched payload, by the op's batching rule."""
    assert level.size is not None
    _keep_payload(level, target)
    every = (target, *args)
    batched = tuple([isinstance(a, Variable) and level_number(a) == level.number for a in every])
    payloads = tuple([a._array if b else a for a, b in zip(every, batched, strict=True)])
    with below(level):
        out = apply_batch_rule(op, payloads, batched, settings, level.size, _WritingOps())
        if out._storage is not payloads[0]._storage:  # The rule had to copy.
            write(copy, payloads[0], (out,), {})
    storage_of(target).bump(op.name + "_")


# ----- levels ---------------------------------------------------------------------------------------------------------


def _write_at(level: Level, target: Variable, result: Payload, is_new: bool) -> None:
    if level_number(target) != level.number:
        bring_to(level, target)
    if level.kind == "functional":
        level.write(target, result, is_new)
        return
    if level.kind == "vmap":
        payload = result._array if level_number(result) == level.number else result
        if level_number(result) == level.number:
            missing = len(target.shape) - len(result.shape)
            if missing:
                payload = tensor_ops.reshape(payload, shape=(payload.shape[0], *(1,) * missing, *payload.shape[1:]))
        _write_payload(level, target, payload)
        storage_of(target).bump("copy_")
        return
    assert isinstance(level, GradLevel)
    _write_grad(level, target, result)


def _write_grad(level: GradLevel, target: Variable, result: Payload) -> None:
    """Write the payload and record a copy in the level's graph."""
    number = level.number
    payload = result._array if level_number(result) == number else lower(result)
    if not isinstance(target._array, Variable):
        if not isinstance(payload, Variable):
            write_level(copy, target, (result,), {}, number, thread.grad_enabled)
            return
        _lift_payload(level, target)
    edges = (own_edge(target, number), own_edge(result, number))
    check_writable(target, "copy_", True)
    _write_payload(level, target, payload)
    storage_of(target).bump("copy_")
    if thread.grad_enabled and any(e is not None for e in edges):
        set_history(target, inplace_node(copy, target, (result,), {}, edges, number))


def _write_payload(level: Level, target: Variable, payload: Payload) -> None:
    """Write a tensor of the levels below into the payload."""
    _keep_payload(level, target)
    with below(level):
        write(copy, target._array, (payload,), {})


def _keep_payload(level: Level, target: Variable) -> None:
    """Preserve the payload that is about to be written for later readers."""
    storage = storage_of(target)
    if storage.keeps and storage.is_held():
        info = None if target._meta is None else target._meta.view
        with below(level):
            storage.version.undo = (None, None, tensor_ops.clone((target if info is None else info.base)._array))


def _lift_payload(level: GradLevel, target: Variable) -> None:
    """Make the payload of a tensor (and of its base, if it is a view) a tensor, so that it can hold one."""
    level.pure = False
    info = None if target._meta is None else target._meta.view
    base = target if info is None else info.base
    if not isinstance(base._array, Variable):
        base._array = wrap(base.tensor_type, base._array)
        meta_of(base._array).made_in = 0 if base._meta is None else base._meta.made_in
    if info is not None:
        follow_payload(target)


def follow_payload(view: Any) -> None:
    """Make a view refer to its part of the base's payload, after that has become a tensor."""
    info = view._meta.view
    with below(find_level(level_number(info.base))):
        view._array = replay(info.base._array, info.path)


def bring_to(level: Level, target: Any) -> None:
    """Turn a tensor of the levels below into one of this level, in place, if it was made inside it."""
    info = None if target._meta is None else target._meta.view
    base = target if info is None else info.base
    if not was_made_inside(level, target):
        what = {"vmap": "vmap", "grad": "a grad transform", "functional": "functionalize"}[level.kind]
        raise RuntimeError(
            f"{what}: an in-place write of a value that belongs to the transform into a tensor of shape "
            f"{tuple(target.shape)} from outside it. The write would have to outlive the transform. "
            "Make the tensor inside the function, or use the out-of-place op. [nd-transform-write]"
        )
    # Tangents of older levels go down with the value; those of younger levels stay.
    tangents = tangents_of(base) or {}
    # Tangents of functionalize may belong to it although their primal does not: a rule uses values made inside.
    older = {
        n: level.value(t) if level.kind == "functional" else t for n, t in tangents.items() if n < level.number
    } or None
    base._meta.tangents = older
    with below(level):
        if level.kind == "vmap":
            outside = copy_in_order(
                tensor_ops.expand(base, shape=(level.size, *base.shape)), _add_batch(order_of(base))
            )
        elif level.kind == "functional":
            outside = _put_outside(base)
            if outside._storage.__class__ is Lent:  # Tensors of this level are values, which NumPy must not change.
                base._meta.lent = None if outside._storage.known else outside._array
                outside._array, outside._storage = outside._array.copy(), None
        else:
            outside = wrap(base.tensor_type, base._array)
            outside._node, outside._storage = base._node, base._storage
            meta = meta_of(outside)
            meta.batch_level, meta.level, meta.made_in = base._meta.batch_level, base._meta.level, base._meta.made_in
            meta.output_nr, base._meta.output_nr = base._meta.output_nr, 0
            meta.lent = base._meta.lent
    base._meta.tangents = {n: t for n, t in tangents.items() if n > level.number} or None
    if level.kind == "vmap":
        base._array, base._storage, base._node = outside, None, None
        base._meta.batch_level = level.number
    else:
        meta_of(outside).tangents = older
        base._array = lower(outside)
        if base._array is outside:
            base._storage = (
                None  # A storage has the versions of one level's tensor; the versions so far are the payload's.
            )
        base._node = None
        base._meta.level, base._meta.batch_level = level.number, 0
    if info is not None:
        follow_base(target)


def _add_batch(order: Order) -> Order:
    """Return the memory order of a batch of tensors of that order, one after the other."""
    return None if order is None else (0, *(d + 1 for d in order))


def _put_outside(t: Any) -> Any:
    """Return a tensor that replaces `t` in its graph. A leaf's accumulator, hooks and gradient move with it:
    graphs made so far end there.

    `t` gets other memory, since the versions of the old memory no longer change.
    """
    outside, own = wrap(t.tensor_type, t._array), t._meta
    outside._node, outside._storage, t._storage = t._node, t._storage, None
    meta = meta_of(outside)
    meta.batch_level, meta.level, meta.made_in, meta.output_nr = own.batch_level, own.level, own.made_in, own.output_nr
    own.output_nr = 0
    if own.requires_grad:
        meta.requires_grad, meta.accumulator, own.requires_grad, own.accumulator = True, own.accumulator, False, None
        for name in ("grad", "grad_dtype", "hooks", "post_accumulate_hooks", "leaf_accumulator"):
            if name in own.__dict__:
                setattr(meta, name, own.__dict__.pop(name))
        node: Any = None if meta.accumulator is None else meta.accumulator()
        if node is not None:
            node.variable = outside
    return outside


def follow_base(view: Any) -> None:
    """Replace a view of a tensor that was brought to another level by the same view taken now."""
    info = view._meta.view
    fresh: Any = replay(info.base, info.path)
    view._array, view._storage, view._node = fresh._array, fresh._storage, fresh._node
    view._meta.batch_level = info.base._meta.batch_level
    view._meta.level = info.base._meta.level
    view._meta.view = fresh._meta.view
    level = level_number(info.base)
    # Older tangents have gone down with the base.
    younger = {n: t for n, t in (view._meta.tangents or {}).items() if n > level}
    view._meta.tangents = {**younger, **(fresh._meta.tangents or {})} or None
