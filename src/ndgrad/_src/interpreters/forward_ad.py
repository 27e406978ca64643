"""Forward mode: tensors that carry a tangent.

A dual tensor keeps its tangents, one per open dual level, in its metadata. An op on duals strips the innermost level's
tangents and runs itself on the rest, which handles the outer levels. Then its jvp rule runs on tensors, so tangents
have tangents and graphs of their own, and levels nest without confusion.

Note [Saved tangents]
Values saved for backward have lost their tangents. A backward that runs while the level is open needs them;
otherwise its gradients would lose theirs (forward over reverse). They are kept with the level, by node and name of the
saved value, and restored when the value is unpacked. They cannot be kept on the node, since the tangent of an output
has a graph that leads back to it. They are released with the level.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import is_half, is_inexact
from ndgrad._src.core.dispatch import dispatch, innermost_dual
from ndgrad._src.core.grad_mode import FieldSwitch, Mode
from ndgrad._src.core.layout import is_view_of, lay_out_like
from ndgrad._src.core.modes import (
    Modes,
    modes,
    open_block,
    process,
    put_in_force,
    restore,
    scope,
    thread,
)
from ndgrad._src.core.open_levels import next_level_number, note_open
from ndgrad._src.core.record import fact
from ndgrad._src.core.saved import in_single, lift
from ndgrad._src.core.sparse_gradients import refuse_sparse
from ndgrad._src.core.stored_tensors import copy_tangent
from ndgrad._src.core.subclass import adopt, as_type_of
from ndgrad._src.core.variable import Variable, accumulator, meta_of, new, np_dtype, shape_of
from ndgrad._src.core.versions import LazyStorage, storage_of
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.registry import register
from ndgrad._src.interpreters.array_tangents import plain_dual, plain_linear_dual
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, Op, parameter_names
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Tensor


class Interpreter(Protocol):
    """Runs ops on tensors whose tangent of some level is no derivative.

    Data that moves with the elements of a tensor, through views, in-place writes and out of nested transforms, is
    carried as a tangent: the index sets of _src.transforms.sparsity, the Taylor coefficients of ndgrad.func.jet. Only
    ops treat it differently.
    """

    def run(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any: ...

    def run_function(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...

    def zero(self, base: Any) -> Any: ...


#: Interpreters of dual levels, by number.
interpreters: dict[int, Interpreter] = {}

_saved_by_level: dict[int, weakref.WeakKeyDictionary[Any, Any]] = {}


def tangent_of(a: Any, number: int) -> Any:
    held = tangents_of(a) if isinstance(a, Variable) else None
    return held.get(number) if held else None


def strip(a: Any, number: int) -> Any:
    """Return `a` without its tangent of the level."""
    if tangent_of(a, number) is None:
        return a
    bare = _copy_without_tangents(a)
    rest = {n: t for n, t in (tangents_of(a) or {}).items() if n != number}
    if rest:
        meta_of(bare).tangents = rest
    return bare


def hand_down(wrapper: Any, payload: Any, convert: Any) -> Any:
    """Return the payload of a transform's tensor outside the transform, with the tangents of the tensor itself.

    The payload may have a tangent of the same level already (one operand was dual inside, another one outside). The
    tangents are then added.
    """
    tangents = tangents_of(wrapper)
    if not tangents:
        return payload
    out = _copy_without_tangents(payload)
    held = dict((payload._meta.tangents or {}) if payload._meta is not None else {})
    for number, t in tangents.items():
        part = strip(convert(t), number)
        held[number] = part if number not in held else held[number] + part
    meta_of(out).tangents = held
    return out


def _copy_without_tangents(a: Any) -> Any:
    """Return another tensor object over the same payload and history, without tangents."""
    bare = new(a.__class__ if a.own_dispatch else a.tensor_type)
    bare._storage = storage_of(a)  # Both share the storage: the bare tensor may be saved and the other one written.
    bare._array = a._array
    bare._node = a._node
    bare._meta = None
    if a.own_dispatch:  # Its class computes with attributes.
        adopt(a, bare)
    old = a._meta
    if old is None:
        return bare
    view = old.view
    if view is not None and not old.batch_level:
        # Both tensors share the view. If the other one refreshed it first, this one would keep its old history.
        view.refresh(a)
        bare._node = a._node
    if view is not None and view.base._meta is not None and view.base._meta.tangents:
        meta_of(bare).path, view = view.path, None  # Otherwise it would find its tangents again.
    several = (
        a._node is not None and a._node.outputs != 1
    )  # An edge to such a node names the output, even the first one.
    if several or old.view is not None or old.requires_grad or old.batch_level or old.level:
        meta = meta_of(bare)
        meta.output_nr, meta.view, meta.batch_level, meta.level = old.output_nr, view, old.batch_level, old.level
        meta.requires_grad = old.requires_grad
        if old.requires_grad and a._node is None:
            # For a leaf: gradients of results of the bare tensor end at the leaf itself.
            meta.leaf_accumulator = accumulator(a)
            meta.accumulator = old.accumulator
    return bare


def _split(args: tuple[Any, ...], number: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the tangents of the arguments at a level (None for arguments without one), and the stripped arguments."""
    tangents, primals = [], []
    for a in args:
        tangent = None
        meta = a._meta if isinstance(a, Variable) else None
        if meta is not None:
            held = meta.tangents if meta.view is None else tangents_of(a)
            if held and number in held:
                tangent, a = held[number], _copy_without_tangents(a)
                if len(held) > 1:
                    meta_of(a).tangents = {n: t for n, t in held.items() if n != number}
        tangents.append(tangent)
        primals.append(a)
    return tuple(tangents), tuple(primals)


def dual_op(op: Op, args: tuple[Any, ...], settings: dict[str, Any], number: int, state: Modes, plain: bool) -> Any:
    """Run an op with a tangent among its arguments; the innermost one is of level `number`. `state` holds the active
    modes; `plain` is True if only transforms are active."""
    if number in interpreters:
        return interpreters[number].run(op, args, settings)
    enabled, out = state.forward_grad_enabled, None
    levels = (
        state.levels
        if plain and not state.levels[1:] and (not state.levels or state.levels[0].kind == "vmap")
        else None
    )
    if (
        enabled
        and op.jvp == "linear"
        and len(args) == 1
        and op.outputs == 1
        and not op.shares_storage
        and levels is not None
    ):
        out = plain_linear_dual(op, args[0], settings, number, levels, state)
        if out is not None:
            return out
    if op.view or op.shares_storage:
        return dual_view(op, args, settings)
    if enabled and op.elementwise and levels is not None and (op.jvp == "elementwise" or isinstance(op.jvp, Mapping)):
        out, made = plain_dual(op, args, settings, number, levels)
        if made is not None:
            meta_of(out).tangents = {number: made}
            return out
    tangents, primals = _split(args, number)
    if out is None:
        out = dispatch(op, primals, settings, settled=True)
    if enabled and op.jvp is not NOT_DIFFERENTIABLE:
        _give_tangents(op, primals, tangents, settings, out, number)
    return out


def _give_tangents(
    op: Op, primals: tuple[Any, ...], tangents: tuple[Any, ...], settings: dict[str, Any], out: Any, number: int
) -> None:
    """Set the tangents of level `number` of an op's result(s) `out`, and of the values saved by its node."""
    made = jvp(op, primals, tangents, settings, out)
    if op.outputs == 1:
        if made is not None and any(made is t for t in tangents):
            made = tensor_ops.clone(made)  # A later write to the result must not reach the argument's tangent.
        made = lay_out_like(out, made)
    outs, parts = ((out,), (made,)) if op.outputs == 1 else (out, made)
    for o, t in zip(outs, parts, strict=True):
        dtype = np_dtype(o)
        if t is not None and is_inexact(dtype):
            if np_dtype(t) != dtype and (dtype.kind == "c" or np_dtype(t).kind != "c"):
                # A rule that computes with a Python number may change the precision. The sum of a complex number and a
                # real dual has a real tangent, into which a later write could not put a complex one.
                t = tensor_ops.cast(t, dtype=dtype)
            set_tangent(o, t, number)
    node = next((o._node for o in outs if o._node is not None), None)
    if node is not None:
        save_tangents(node, op, tangents, parts, number)


def save_tangents(node: Any, op: Op, tangents: tuple[Any, ...], outs: tuple[Any, ...], number: int) -> None:
    """Store the tangents of values saved by a new node (see Note [Saved tangents])."""
    plan = node.plan
    by_name: dict[str, Any] = {
        n: t
        for n, t in op.bind(tangents).items()
        if n in plan.arrays and (any(p is not None for p in t) if isinstance(t, tuple) else t is not None)
    }
    by_name |= {n: outs[int(n[3:] or 0)] for n in plan.outs if outs[int(n[3:] or 0)] is not None}
    if by_name:
        saved_tangents(number)[node] = {n: keep_tangent(t) for n, t in by_name.items()}


def keep_tangent(t: Any) -> Any:
    """Return a tangent in the form in which it is saved. If later writes are allowed, they must not reach it."""
    if isinstance(t, tuple):
        return tuple([keep_tangent(part) for part in t])
    return copy_tangent(t) if t is not None and (t.keeps_saved or thread.copy_on_write) else t


def saved_tangents(number: int) -> weakref.WeakKeyDictionary[Any, Any]:
    """Return the tangents saved for an open level: node -> name (or position) of a saved value -> tangent."""
    return _saved_by_level.setdefault(number, weakref.WeakKeyDictionary())


def has_saved_tangents(node: Node) -> bool:
    """True if a value saved by a node had a tangent of an open level."""
    return any(node in by_node for by_node in tuple(_saved_by_level.values()))


def forget_closed() -> None:
    """Drop tangents saved for levels that were reopened for a while and are closed again."""
    for number in [n for n in _saved_by_level if n not in process.open]:
        _saved_by_level.pop(number, None)


def restore_tangents(node: Any, name: Any, value: Any) -> Any:
    """Return an unpacked saved value with the tangents that it had when it was saved."""
    for number in sorted(_saved_by_level):
        held = _saved_by_level.get(number, {}).get(node, {}).get(name)
        if held is None:
            continue
        if isinstance(value, tuple):
            value = tuple(
                v if t is None else set_tangent(_copy_without_tangents(v), t, number)
                for v, t in zip(value, held, strict=True)
            )
        elif isinstance(value, Variable):
            others = tangents_of(value)
            value = set_tangent(_copy_without_tangents(value), held, number)
            if others:
                value._meta.tangents |= others
    return value


def dual_view(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a view of a dual: the view of the very primal tensor, so that writes reach it, with views of its
    tangents."""
    with hidden_tangents(args[0]) as tangents:
        out = dispatch(op, args, settings)
    if not thread.forward_grad_enabled or not op.differentiable:
        return out
    for number, tangent in tangents.items():
        made = op(tangent, *args[1:], **settings)
        for o, t in [(out, made)] if op.outputs == 1 else zip(out, made, strict=True):
            set_tangent(o, t if is_view_of(o, args[0]) or not is_view_of(t, tangent) else tensor_ops.clone(t), number)
    return out


def zero_tangent(base: Any, number: int) -> Any:
    """Return the initial tangent of a tensor without one of this level, before a part of it gets one."""
    interpreter = interpreters.get(number)
    return tensor_ops.zeros_like(base) if interpreter is None else interpreter.zero(base)


class hidden_tangents:
    """Context that removes and returns the tangents of `t`, and restores them at its end.

    It is a class, since every view of a dual passes through it and a generator would double the cost.
    """

    __slots__ = ("held", "t")

    def __init__(self, t: Any) -> None:
        self.t = t

    def __enter__(self) -> dict[int, Any]:
        t = self.t
        tangents = dict(tangents_of(t) or {})
        info = None if t._meta is None else t._meta.view
        self.held = [
            (a._meta, a._meta.tangents) for a in ((t,) if info is None else (t, info.base)) if a._meta is not None
        ]
        for meta, _ in self.held:
            meta.tangents = None
        return tangents

    def __exit__(self, *exc: object) -> None:
        for meta, tangents in self.held:
            meta.tangents = tangents


def set_tangent(out: Any, tangent: Any, number: int) -> Any:
    if tangent is None:
        return out
    if shape_of(tangent) != shape_of(out):
        tangent = tensor_ops.clone(tensor_ops.expand(tangent, shape=tuple(out.shape)))
    meta = meta_of(out)
    meta.tangents = {**(meta.tangents or {}), number: tangent}
    return out


class Environment(dict[str, Any]):
    """Values available to a rule, by name. Facts about arguments (x_shape, x_ndim, x_dtype) are computed on
    demand."""

    def __missing__(self, key: str) -> Any:
        name, kind = key.rsplit("_", 1)
        return fact(self[name], kind)


def jvp(op: Op, primals: tuple[Any, ...], tangents: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
    """Return the tangent(s) of an op's output."""
    if op.jvp == "linear":
        linear_in = op.differentiable_positions(len(primals))
        filled = tuple(
            t if t is not None else _zeros(p) if i in linear_in and isinstance(p, Variable) else p
            for i, (p, t) in enumerate(zip(primals, tangents, strict=True))
        )
        return op(*filled, **settings)
    if op.jvp == "multilinear":
        terms = [op(*primals[:i], t, *primals[i + 1 :], **settings) for i, t in enumerate(tangents) if t is not None]
    else:
        env = _environment(op, primals, settings, out)
        if is_half(np_dtype(out if op.outputs == 1 else out[0])):
            env.update(
                (name, in_single(value, tensor_ops))
                for name, value in env.items()
                if name not in settings and name != "ops"
            )
            tangents = in_single(tangents, tensor_ops)
        if not isinstance(op.jvp, (str, Mapping)):
            return _joint_tangent(op, env, tangents)
        terms = _rule_terms(op, env, tangents)
    if not terms:
        return None if op.outputs == 1 else (None,) * len(out)
    total = terms[0]
    for term in terms[1:]:
        total = total + term if op.outputs == 1 else tuple(a + b for a, b in zip(total, term, strict=True))
    return total


def _environment(op: Op, primals: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Environment:
    """Return the values available to the rules of a call, except tangents."""
    env = Environment(settings)
    env.update(op.bind(primals))
    env["ops"] = tensor_ops
    if op.outputs == 1:
        env["out"] = out
    else:
        env.update((f"out{i}", o) for i, o in enumerate(out))
    return env


def _joint_tangent(op: Op, env: Environment, tangents: tuple[Any, ...]) -> Any:
    """Return the tangent(s) by one rule for all arguments."""
    rule = op.jvp
    assert callable(rule)
    env.update((f"{name}_t", t) for name, t in op.bind(tangents).items())
    env["ts"] = tangents
    return rule(*[env[n] for n in parameter_names(rule)])


def _rule_terms(op: Op, env: Environment, tangents: tuple[Any, ...]) -> list[Any]:
    """Return the result of each argument's rule, for arguments with a tangent."""
    if op.jvp == "elementwise":
        rules = op.rules
    else:
        assert isinstance(op.jvp, Mapping)
        rules = {name: (rule, parameter_names(rule)) for name, rule in op.jvp.items()}
    terms = []
    for name, t in zip(op.args, tangents, strict=False):
        if t is not None and name in rules:
            rule, names = rules[name]
            env["t"] = t
            terms.append(rule(*[env[n] for n in names]))
    return terms


def _zeros(p: Any) -> Any:
    """Return zeros with the shape and dtype of `p`, without memory; 0 * p would be wrong for infinite values."""
    bottom = p
    while isinstance(bottom, Variable):
        bottom = bottom._array
    zero = lift(library_of(bottom).zeros((), bottom.dtype))
    return tensor_ops.expand(zero, shape=tuple(p.shape))


# ----- torch's interface ----------------------------------------------------------------------------------------------


@set_module("ndgrad.autograd.forward_ad")
class UnpackedDualTensor(NamedTuple):
    """A dual tensor split into primal and tangent; the tangent is None if there is none.

    Args:
        primal: value.
        tangent: tangent, or None.

    >>> import ndgrad
    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> forward_ad.unpack_dual(ndgrad.ones(1))
    UnpackedDualTensor(primal=tensor([1.]), tangent=None)
    """

    primal: Tensor
    tangent: Tensor | None


@set_module("ndgrad.autograd.forward_ad")
class dual_level(Mode):
    """A context in which tensors can carry tangents; its value is the number of the level. Also a decorator.

    Levels nest, unlike torch's.

    >>> import ndgrad
    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 0.0])
    >>> with forward_ad.dual_level():
    ...     y = forward_ad.make_dual(x, v) ** 3
    ...     forward_ad.unpack_dual(y).tangent
    tensor([3., 0.])
    """

    def __enter__(self) -> int:
        number, before = next_level_number(), scope()
        try:
            self._stack.append(block := open_block(lambda modes: self._open_modes(modes, number), before))
            note_open(number, block.modes)
        except BaseException:
            restore(before)
            process.open.pop(number, None)
            raise
        return number

    def _open_modes(self, modes: Modes, number: int) -> Modes:
        made = modes.copy()
        _open(made, number)
        return made

    def __exit__(self, *exc: object) -> None:
        number = self._stack[-1].modes.dual_stack[-1]
        self._stack[-1].closed = True
        process.open.pop(number, None)
        _saved_by_level.pop(number, None)
        super().__exit__(*exc)


class transform_level(dual_level):
    """The level of a transform, in which forward mode is always enabled."""

    def _open_modes(self, modes: Modes, number: int) -> Modes:
        made = super()._open_modes(modes, number)
        made.forward_grad_enabled = True
        return made


def _open(modes: Modes, number: int) -> None:
    modes.entered += 1
    modes.transforms += 1
    modes.dual_levels += 1
    modes.dual_stack = (*modes.dual_stack, number)


@set_module("ndgrad.autograd.forward_ad")
def enter_dual_level() -> int:
    """Open a level and return its number; `dual_level()` is the safer form.

    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    """
    number, made = next_level_number(), modes().copy()
    _open(made, number)
    put_in_force(made)
    note_open(number, made)
    return number


@set_module("ndgrad.autograd.forward_ad")
def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost level; the tangents of its tensors are dropped.

    Args:
        level: number of the level, which must be the innermost one. None means that one.

    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> _ = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level()
    """
    stack = thread.dual_stack
    if not stack:
        raise RuntimeError(
            "exit_dual_level: dual level must be a positive number: no level is open. Call enter_dual_level() first, "
            "or use `with dual_level():`. [nd-dual-level]"
        )
    if level is not None and stack[-1] != level:
        raise RuntimeError(
            "exit_dual_level: Trying to exit a forward AD level that was not the last one that was created: "
            f"level {level} is not {stack[-1]}. Leave dual levels in the reverse order of entering. [nd-dual-level]"
        )
    process.open.pop(stack[-1], None)
    made = modes().copy()
    made.entered, made.transforms, made.dual_levels = made.entered - 1, made.transforms - 1, made.dual_levels - 1
    made.dual_stack = stack[:-1]
    put_in_force(made)
    _saved_by_level.pop(stack[-1], None)


@set_module("ndgrad.autograd.forward_ad")
def current_level() -> int:
    """Return the number of the innermost open level of this thread; -1 if there is none.

    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level() as level:
    ...     forward_ad.current_level() == level
    True
    """
    stack = thread.dual_stack
    return stack[-1] if stack else -1


@set_module("ndgrad.autograd.forward_ad")
def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` with the tangent `tangent`, whose memory is used directly if the layouts agree.

    Args:
        tensor: value.
        tangent: tangent of the same shape.
        level: number of an open level. None means the innermost one.

    Raises:
        RuntimeError: if no level is open, or the shapes differ.

    >>> import ndgrad
    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(ndgrad.tensor(3.0), ndgrad.tensor(1.0))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    """
    for name, t in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(t, Variable):
            raise TypeError(
                f"make_dual: the {name} is {type(t).__name__}. Wrap it with ndgrad.as_tensor(...). [nd-type]"
            )
    number = _open_number("make_dual", level)
    if number is None:
        raise RuntimeError(
            "make_dual: trying to create a dual tensor for forward AD but no level exists. "
            "Put it inside `with dual_level():`. [nd-dual-level]"
        )
    for t in (tensor, tangent):
        refuse_sparse(t, "make_dual, jvp, jacfwd")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor: make_dual "
            "was "
            f"given a tangent of shape {tuple(tangent.shape)} for a primal of shape {tuple(tensor.shape)}. They must "
            "agree. [nd-grad-mismatch]"
        )
    if number not in interpreters:
        for name, t in (("primal", tensor), ("tangent", tangent)):
            if not is_inexact(np_dtype(t)):
                raise ValueError(
                    f"Expected {name} to be floating point or complex (make_dual), but got {np_dtype(t)}. "
                    "Convert it to a floating dtype first. [nd-grad-dtype]"
                )
        if tangent_of(tensor, number) is not None:
            raise RuntimeError(
                "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level is not "
                "supported (make_dual). Take its primal with unpack_dual "
                "first, or add the tangents. [nd-dual-level]"
            )
        if tangent_of(tangent, number) is not None:
            raise RuntimeError(
                "Setting a forward grad that itself has a forward gradient at the same level is not supported "
                "(make_dual). Take the tangent's primal with unpack_dual first, or open another level. [nd-dual-level]"
            )
    dual = tensor_ops.alias(tensor)
    meta = meta_of(dual)
    meta.tangents = {**(meta.tangents or {}), number: _lazy_like(dual, lay_out_like(dual, tangent))}
    return dual


def _lazy_like(primal: Any, tangent: Any) -> Any:
    """Return a tangent that is lazy (`is_conj`, `is_neg`) like its primal: torch copies it into such memory."""
    is_lazy = primal._storage.__class__ is LazyStorage
    if (tangent._storage.__class__ is LazyStorage) == is_lazy:
        return tangent
    made = tensor_ops.clone(tangent)
    if is_lazy and not isinstance(made._array, Variable):
        made._storage = LazyStorage("conj" if np_dtype(primal).kind == "c" else "neg")
    return made


@set_module("ndgrad.autograd.forward_ad")
def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the primal of a tensor and its tangent, which may be None.

    Args:
        tensor: dual tensor, or any other.
        level: number of an open level. None means the innermost one.

    >>> import ndgrad
    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     y = forward_ad.make_dual(ndgrad.tensor(0.0), ndgrad.tensor(2.0)).sin()
    ...     forward_ad.unpack_dual(y)
    UnpackedDualTensor(primal=tensor(0.), tangent=tensor(2.))
    """
    if not isinstance(tensor, Variable):
        raise TypeError(f"unpack_dual: expected a tensor, but got {type(tensor).__name__}. [nd-type]")
    number = _open_number("unpack_dual", level) or innermost_dual((tensor,))  # possibly a level of another thread
    if not number:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = strip(tensor, number), tangent_of(tensor, number) if thread.forward_grad_enabled else None
    return UnpackedDualTensor(primal, None if tangent is None else as_type_of(tangent, primal))


def _open_number(name: str, level: int | None) -> int | None:
    """Return the number of the requested level; None if none is open."""
    stack = thread.dual_stack
    if level is None:
        return stack[-1] if stack else None
    if level in stack:
        return level
    if not stack and name == "unpack_dual":
        return None
    raise RuntimeError(
        f"{name}: invalid level {level}: it was not created, or is closed already. Open are {list(stack)}. "
        "[nd-dual-level]"
    )


class _set_fwd_grad_enabled(FieldSwitch):
    """Switch forward mode on or off, at once; as a context, until the block ends. Results computed without it have
    no tangent.

    >>> import ndgrad
    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level(), forward_ad.set_fwd_grad_enabled(False):
    ...     x = forward_ad.make_dual(ndgrad.ones(1), ndgrad.ones(1))
    ...     print(forward_ad.unpack_dual(x * x).tangent)
    None
    """

    attribute = "forward_grad_enabled"


set_fwd_grad_enabled = _set_fwd_grad_enabled


def _is_fwd_grad_enabled() -> bool:
    """True if ops compute tangents in this context.

    >>> import ndgrad.autograd.forward_ad as forward_ad
    >>> forward_ad.is_fwd_grad_enabled()
    True
    """
    return thread.forward_grad_enabled


is_fwd_grad_enabled = _is_fwd_grad_enabled


register(interpreters=interpreters)
