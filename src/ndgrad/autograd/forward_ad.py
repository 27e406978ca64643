"""Forward mode: tensors that carry a tangent.

A dual tensor keeps its tangents, one per open dual level, in its metadata. An op on duals strips the innermost level's
tangents, runs itself on what remains (which deals with the outer levels), and then its jvp rule, on tensors, so
tangents have tangents and graphs of their own and levels nest without confusing each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ndgrad.arrays.library import library_of
from ndgrad.autograd.dispatch import dispatch
from ndgrad.autograd.modes import enter, leave, next_level_number, thread
from ndgrad.autograd.saved import lift
from ndgrad.autograd.variable import Variable, meta_of, np_dtype
from ndgrad.autograd.view import tangents_of
from ndgrad.ops.table import NOT_DIFFERENTIABLE, Op, parameter_names
from ndgrad.ops.vocabulary import tensor_ops


def innermost(args: tuple[Any, ...]) -> int:
    """The number of the innermost dual level that has a tangent among the arguments."""
    return max(max(held) for a in args if isinstance(a, Variable) and (held := tangents_of(a)))


def tangent_of(a: Any, number: int) -> Any:
    held = tangents_of(a) if isinstance(a, Variable) else None
    return held.get(number) if held else None


def strip(a: Any, number: int) -> Any:
    """`a` without its tangent of the level."""
    if tangent_of(a, number) is None:
        return a
    bare = _same(a)
    rest = {n: t for n, t in a._meta.tangents.items() if n != number}
    if rest:
        meta_of(bare).tangents = rest
    return bare


def hand_down(wrapper: Any, payload: Any, convert: Any) -> Any:
    """The payload of a transform's tensor as it leaves the transform, with the tangents that the tensor itself had.

    The payload may have a tangent of the same level already (one operand was dual inside, another outside): they add up.
    """
    tangents = tangents_of(wrapper)
    if not tangents:
        return payload
    out = _same(payload)
    held = dict((payload._meta.tangents or {}) if payload._meta is not None else {})
    for number, t in tangents.items():
        part = strip(convert(t), number)
        held[number] = part if number not in held else held[number] + part
    meta_of(out).tangents = held
    return out


def _same(a: Any) -> Any:
    """Another tensor object over the same payload and history, without tangents."""
    from ndgrad.autograd.variable import new

    bare = new(a.face)
    bare._array = a._array
    bare._node = a._node
    bare._storage = a._storage
    bare._meta = None
    old = a._meta
    if old is None:
        return bare
    view = old.view
    if view is not None and view.base._meta is not None and view.base._meta.tangents:
        view.refresh(a)
        bare._node, view = a._node, None  # or it would find its tangents again
    if old.output_nr or old.view is not None or old.requires_grad or old.batch_level or old.level:
        meta = meta_of(bare)
        meta.output_nr, meta.view, meta.batch_level, meta.level = old.output_nr, view, old.batch_level, old.level
        meta.requires_grad, meta.accumulator = old.requires_grad, old.accumulator
    return bare


def dual_op(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run an op of which some argument has a tangent."""
    if op.view or op.shares_storage:
        return _dual_view(op, args, settings)
    number = innermost(args)
    tangents = tuple(tangent_of(a, number) for a in args)
    primals = tuple(strip(a, number) for a in args)
    out = dispatch(op, primals, settings) if any(isinstance(p, Variable) for p in primals) else op(*primals, **settings)
    if not thread.forward_grad_enabled or op.jvp is NOT_DIFFERENTIABLE:
        return out
    made = jvp(op, primals, tangents, settings, out)
    if op.outputs == 1:
        if any(made is t for t in tangents):
            made = tensor_ops.clone(made)  # a later write to the result must not reach the argument's tangent
        return with_tangent(out, in_layout_of(out, made), number)
    return tuple(with_tangent(o, t, number) for o, t in zip(out, made, strict=True))


def _dual_view(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A view of a dual: the view of the primal (of the very tensor, so that writes reach it), with views of its tangents."""
    with hidden_tangents(args[0]) as tangents:
        out = dispatch(op, args, settings)
    if not thread.forward_grad_enabled or not op.differentiable:
        return out
    for number, tangent in tangents.items():
        made = op(tangent, *args[1:], **settings)
        for o, t in [(out, made)] if op.outputs == 1 else zip(out, made, strict=True):
            with_tangent(o, t, number)
    return out


@contextmanager
def hidden_tangents(t: Any) -> Iterator[dict[int, Any]]:
    """`t` without its tangents (which are handed out) for the duration of a block; they come back afterwards."""
    tangents = dict(tangents_of(t) or {})
    info = None if t._meta is None else t._meta.view
    metas = [a._meta for a in ((t,) if info is None else (t, info.base)) if a._meta is not None]
    held = [meta.tangents for meta in metas]
    for meta in metas:
        meta.tangents = None
    try:
        yield tangents
    finally:
        for meta, before in zip(metas, held, strict=True):
            meta.tangents = before


def in_layout_of(primal: Any, tangent: Any) -> Any:
    """The tangent with the primal's order of dimensions in memory, so that views of one are views of the other."""
    a, b = primal._array, None if tangent is None else tangent._array
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.ndim < 2 or a.strides == b.strides:
        return tangent
    if a.shape != b.shape or a.flags.c_contiguous:
        return tangent
    order = tuple(sorted(range(a.ndim), key=lambda d: -abs(a.strides[d])))
    return tensor_ops.clone_ordered(tangent, order=order)


def with_tangent(out: Any, tangent: Any, number: int) -> Any:
    if tangent is None:
        return out
    if tuple(tangent.shape) != tuple(out.shape):
        tangent = tensor_ops.clone(tensor_ops.expand(tangent, shape=tuple(out.shape)))
    meta = meta_of(out)
    meta.tangents = {**(meta.tangents or {}), number: tangent}
    return out


def jvp(op: Op, primals: tuple[Any, ...], tangents: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """The tangent(s) of an op's output."""
    rule = op.jvp
    if rule == "linear":
        linear_in = op.differentiable_positions(len(primals))
        filled = tuple(
            t if t is not None else _zeros(p) if i in linear_in and isinstance(p, Variable) else p
            for i, (p, t) in enumerate(zip(primals, tangents, strict=True))
        )
        return op(*filled, **settings)
    if rule == "multilinear":
        terms = [
            op(*primals[:i], t, *primals[i + 1 :], **settings) for i, t in enumerate(tangents) if t is not None
        ]
    else:
        rules: Any = op.vjp if rule == "elementwise" else rule
        env: dict[str, Any] = {**settings, "ops": tensor_ops}
        env.update(op.bind(primals))
        for name, p in zip(op.args, primals, strict=False):
            if isinstance(p, Variable):
                env[f"{name}_shape"], env[f"{name}_ndim"], env[f"{name}_dtype"] = tuple(p.shape), len(p.shape), np_dtype(p)
        if op.outputs == 1:
            env["out"] = out
        else:
            env.update((f"out{i}", o) for i, o in enumerate(out))
        if not isinstance(rule, (str, Mapping)):
            assert callable(rule)
            env.update((f"{name}_t", t) for name, t in op.bind(tangents).items())
            env["ts"] = tangents
            return rule(*[env[n] for n in parameter_names(rule)])
        terms = []
        for name, t in zip(op.args, tangents, strict=False):
            if t is None or name not in rules:
                continue
            env["t"] = t
            r = rules[name]
            terms.append(r(*[env[n] for n in parameter_names(r)]))
    if not terms:
        return None if op.outputs == 1 else (None,) * len(out)
    total = terms[0]
    for term in terms[1:]:
        total = total + term if op.outputs == 1 else tuple(a + b for a, b in zip(total, term, strict=True))
    return total


def _zeros(p: Any) -> Any:
    """Zeros in the shape and dtype of `p`, whatever its values (0 * inf is no zero), without memory of their own."""
    bottom = p
    while isinstance(bottom, Variable):
        bottom = bottom._array
    zero = lift(library_of(bottom).zeros((), bottom.dtype))
    return tensor_ops.expand(zero, shape=tuple(p.shape))


# ----- torch's interface -------------------------------------------------------------------------------------------------


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart."""

    primal: Any
    tangent: Any


@contextmanager
def dual_level() -> Iterator[int]:
    """A context in which tensors can carry tangents."""
    level = enter_dual_level()
    try:
        yield level
    finally:
        exit_dual_level(level=level)


def enter_dual_level() -> int:
    number = next_level_number()
    enter()
    thread.dual_levels += 1
    thread.dual_stack = (*getattr(thread, "dual_stack", ()), number)
    return number


def exit_dual_level(*, level: int | None = None) -> None:
    stack = getattr(thread, "dual_stack", ())
    if not stack or (level is not None and stack[-1] != level):
        raise RuntimeError("exit_dual_level: the level is not the innermost open one. Leave dual levels in the reverse order of entering.")
    thread.dual_stack = stack[:-1]
    thread.dual_levels -= 1
    leave()


def current_level() -> int:
    stack = getattr(thread, "dual_stack", ())
    return stack[-1] if stack else -1


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    number = current_level() if level is None else level
    if number < 0:
        raise RuntimeError("make_dual needs an open dual level. Put it inside `with dual_level():`.")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            f"make_dual: the tangent has shape {tuple(tangent.shape)} and the primal {tuple(tensor.shape)}. They must agree."
        )
    dual = tensor_ops.alias(tensor)
    meta = meta_of(dual)
    meta.tangents = {**(meta.tangents or {}), number: in_layout_of(dual, tangent)}
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    number = current_level() if level is None else level
    if number < 0:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(strip(tensor, number), tangent_of(tensor, number))
