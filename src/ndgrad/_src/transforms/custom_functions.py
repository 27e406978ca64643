"""Custom functions inside transforms.

A `Function` with a separate `setup_context` takes part in every transform: forward mode through its `jvp`, grad levels
by running forward on the payloads and setting the context up with the level's tensors, vmap through its `vmap` method
or, with `generate_vmap_rule`, by batching forward, backward and jvp themselves.

Note [Contexts made again]
setup_context defines the content of a context as a function of inputs and outputs. Sometimes a context is needed whose
tensors belong to other levels than those of the recorded one (for jvp, for one sample of a batched backward). It is
then made again by running setup_context on the inputs and outputs of those levels. Everything that setup_context
computes becomes part of that computation: nothing is a constant by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, NamedTuple

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.dispatch import innermost_dual, open_elsewhere
from ndgrad._src.core.modes import modes, restore, scope, thread
from ndgrad._src.core.node import make_node
from ndgrad._src.core.open_levels import birth_level, find_silenced, join_levels
from ndgrad._src.core.variable import Variable, edge, meta_of, np_dtype, wrap
from ndgrad._src.custom_functions.function import (
    Context,
    Function,
    FunctionNode,
    attach,
    has_setup_context,
    run_function,
)
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.interpreters.batching import BatchLevel, batch_tensor
from ndgrad._src.interpreters.forward_ad import interpreters, keep_tangent, saved_tangents, set_tangent, tangent_of
from ndgrad._src.interpreters.levels import GradLevel, Level, as_tensor_below, below, level_number, lower, top_level
from ndgrad._src.interpreters.transform_writes import bring_to, was_made_inside
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.transforms.transforms import _to_front, vmap


def apply_in_transforms(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `Function.apply` while transforms or dual levels are open."""
    elsewhere = open_elsewhere(args)
    if elsewhere:
        with join_levels(elsewhere):
            return apply_in_transforms(cls, args, kwargs)
    result = _apply(cls, args, kwargs)
    for o in _as_tuple(result):
        if isinstance(o, Variable) and not any(o is a for a in args):
            meta_of(o).made_in = birth_level()
    return result


def _apply(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    functional = _innermost_functional(args)
    level = top_level(args) if thread.levels else None
    number, dual = 0 if level is None else level.number, innermost_dual(args) if thread.dual_levels else 0
    silent = find_silenced(modes(), level if functional is None or functional.number < number else functional, dual)
    if silent is not None:
        with below(silent):
            return apply_in_transforms(cls, args, kwargs)
    if functional is not None and functional.number > max(number, dual):
        with below(functional):  # No argument belongs to this level, and results of forward must not either.
            return apply_in_transforms(cls, args, kwargs)
    if dual > number:
        return _apply_dual(cls, args, kwargs)
    if level is None:
        return run_function(cls, args, kwargs)
    if not has_setup_context(cls):
        raise RuntimeError(
            f"{cls.__name__}: in order to use an autograd.Function with function transforms (vmap, grad, jvp, jacrev, "
            "...), it must override the setup_context staticmethod: split forward(ctx, ...) into forward(...) "
            "and setup_context(ctx, inputs, output). [nd-function-transform]"
        )
    if isinstance(level, BatchLevel):
        return _apply_batched(level, cls, args, kwargs)
    return (
        _apply_grad(level, cls, args, kwargs) if isinstance(level, GradLevel) else level.run_function(cls, args, kwargs)
    )


def _innermost_functional(args: tuple[Any, ...]) -> Level | None:
    """Return the innermost level of functionalize. Arguments made inside it are brought to it, like those of
    an op."""
    level = next((level for level in reversed(thread.levels) if level.kind == "functional"), None)
    if level is not None:
        for a in args:
            if (
                isinstance(a, Variable)
                and a._meta is not None
                and level_number(a) < level.number
                and was_made_inside(level, a)
            ):
                bring_to(level, a)
    return level


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _fresh_context(
    cls: type[Function], inputs: tuple[Any, ...], output: Any, needs: tuple[bool, ...] = ()
) -> FunctionNode:
    """Return a context for the inputs and outputs of the current levels (see Note [Contexts made again])."""
    node = cls._backward_cls()
    node._is_tensor = tuple(isinstance(i, Variable) for i in inputs)
    node.needs_input_grad = needs or node._is_tensor
    cls.setup_context(Context(node), inputs, output)
    return node


# ----- forward mode ---------------------------------------------------------------------------------------------------


def _apply_dual(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = innermost_dual(args)
    if number in interpreters:
        return interpreters[number].run_function(cls, args, kwargs)
    tangents = tuple(tangent_of(a, number) for a in args)
    with _hide_tangents(args, number):
        out, made = push_function(cls, args, tangents, kwargs, number)
    for o, t in zip(_as_tuple(out), made, strict=True):
        if isinstance(o, Variable) and t is not None:
            set_tangent(o, t, number)
    return out


@contextmanager
def _hide_tangents(args: tuple[Any, ...], number: int) -> Iterator[None]:
    """Hide the tangents of one level on the arguments themselves, because the function may write to them."""
    metas: list[Any] = []
    for a in args:
        if isinstance(a, Variable) and a._meta is not None:
            metas += [a._meta] if a._meta.view is None else [a._meta, a._meta.view.base._meta]
    held = [(meta, meta.tangents) for meta in metas if meta is not None and meta.tangents and number in meta.tangents]
    for meta, tangents in held:
        meta.tangents = {n: t for n, t in tangents.items() if n != number} or None
    try:
        yield
    finally:
        for meta, tangents in reversed(held):
            meta.tangents = tangents


def push_function(
    cls: type[Function],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    kwargs: dict[str, Any],
    number: int | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Return the result of a custom function, and the tangents of its outputs by its own `jvp`.

    With the number of a dual level, the tangents of values saved for backward are kept for it.
    """
    if has_setup_context(cls):
        out = cls.apply(*primals, **kwargs)
        if not thread.forward_grad_enabled:
            return out, (None,) * len(_as_tuple(out))
        node = _fresh_context(cls, primals, out)
    else:
        out, node = _apply_watched(cls, primals, kwargs)
        if not thread.forward_grad_enabled:
            return out, (None,) * len(_as_tuple(out))
    if node.materialize_grads:
        tangents = tuple(
            tensor_ops.zeros_like(p) if t is None and isinstance(p, Variable) and is_inexact(np_dtype(p)) else t
            for p, t in zip(primals, tangents, strict=True)
        )
    versions = {
        id(t): t._version
        for p, t in zip(primals, tangents, strict=True)
        if isinstance(t, Variable) and any(p is o for o in _as_tuple(out))
    }
    node._at_hand = node._to_save_forward
    try:
        made = cls.jvp(Context(node), *tangents)
    finally:
        node._at_hand = None
    outs = _as_tuple(out)
    checked = _check_jvp(cls.__name__, node, primals, tangents, outs, _as_tuple(made), versions)
    if number is not None:
        _keep_tangents(node, primals, tangents, outs, checked, number)
    return out, checked


def _apply_watched(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, FunctionNode]:
    """Apply a function whose forward takes the context, and return the context too."""
    seen: dict[str, Any] = {}

    class Watched(cls):  # type: ignore[misc, valid-type]  # the base is known at run time only
        @staticmethod
        def forward(ctx: Any, *given: Any, **named: Any) -> Any:
            seen["node"] = ctx._node
            out = cls.forward(ctx, *given, **named)
            seen["marks"] = ctx._node._to_save, ctx._node._non_differentiable
            return out

    Watched.__name__ = cls.__name__
    Watched._backward_cls.__name__ = cls._backward_cls.__name__
    out = Watched.apply(*args, **kwargs)
    node = seen["node"]
    node._kept_marks = seen["marks"]
    return out, node


def _marks(node: FunctionNode) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the tensors that forward asked to save, and the outputs that it marked as not differentiable."""
    kept: tuple[tuple[Any, ...], tuple[Any, ...]] | None = node.__dict__.get("_kept_marks")
    return (node._to_save, node._non_differentiable) if kept is None else kept


def _check_jvp(
    name: str,
    node: FunctionNode,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    outs: tuple[Any, ...],
    made: tuple[Any, ...],
    versions: dict[int, int],
) -> tuple[Any, ...]:
    """Check the result of a jvp: one tangent per differentiable output, of its shape. It must be in place, or a
    view, if the output is. `versions` are the versions of changed inputs' tangents before jvp, by identity."""
    if len(made) != len(outs):
        raise RuntimeError(
            f"{name}: function's jvp returned an invalid number of forward gradients (expected {len(outs)} but got "
            f"{len(made)}). Return one per output of forward, None for those that are not differentiable. "
            "[nd-function-transform]"
        )
    discrete = _marks(node)[1]
    for number, (o, t) in enumerate(zip(outs, made, strict=True)):
        if not isinstance(o, Variable) or not is_inexact(np_dtype(o)) or any(o is d for d in discrete):
            if t is not None:
                raise RuntimeError(
                    f"{name}: jvp returned a tangent for output {number}, which is not a differentiable tensor. "
                    "You should return None at that position instead. [nd-function-transform]"
                )
            continue
        if not isinstance(t, Variable):
            raise RuntimeError(
                f"{name}: jvp returned {type(t).__name__} for output {number}. Return a tensor, zeros if necessary. "
                "[nd-function-transform]"
            )
        if tuple(t.shape) != tuple(o.shape):
            raise RuntimeError(
                f"{name}: Trying to set a forward gradient that has a different size than that of the original "
                f"Tensor: jvp returned a tangent of shape {tuple(t.shape)} for output {number} of shape "
                f"{tuple(o.shape)}. They must agree. [nd-grad-mismatch]"
            )
        for p, pt in zip(primals, tangents, strict=True):
            if o is p and (t is not pt or t._version == versions.get(id(t))):
                raise RuntimeError(
                    f"{name}: an inplace custom Function is not modifying the forward mode gradients inplace. If the "
                    "forward is modifying an input inplace, then the jvp function must modify the corresponding "
                    f"gradient inplace: write to the tangent for output {number} that jvp was given, and return it. "
                    "[nd-function-transform]"
                )
            if o is not p and isinstance(pt, Variable) and _is_view_of(o, p) and not _is_view_of(t, pt):
                raise RuntimeError(
                    f"{name}: A custom Function's forward is returning a view (or an input as-is) as output {number}, "
                    "but its jvp is not returning a view of the same base, the given tangent. Return the same view of "
                    "it (of the tangent itself: t.view_as(t)). [nd-function-transform]"
                )
    return made


def _is_view_of(t: Any, base: Any) -> bool:
    if not isinstance(base, Variable) or t is base or t._meta is None or t._meta.view is None:
        return False
    return t._storage is not None and t._storage is base._storage


def _keep_tangents(
    node: FunctionNode,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    outs: tuple[Any, ...],
    made: tuple[Any, ...],
    number: int,
) -> None:
    """Store the tangents of the saved values for a backward while the level is open (see Note [Saved tangents])."""
    recorded = next((o._node for o in outs if isinstance(o, Variable) and isinstance(o._node, FunctionNode)), None)
    if recorded is None:
        return
    by_position: dict[int, Any] = {}
    for position, t in enumerate(_marks(node)[0]):
        for known, tangent in (*zip(primals, tangents, strict=True), *zip(outs, made, strict=True)):
            if t is not None and known is t and tangent is not None:
                by_position[position] = keep_tangent(tangent)
    saved_tangents(number)[recorded] = by_position


# ----- grad levels ----------------------------------------------------------------------------------------------------


def _apply_grad(level: GradLevel, cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = level.number
    payloads = tuple(as_tensor_below(a, a._array, number) if level_number(a) == number else a for a in args)
    level.pure = False
    with below(level):
        result = cls.apply(*payloads, **kwargs)
    outputs, spec = tree_flatten(result)
    smooth = [isinstance(o, Variable) and is_inexact(np_dtype(o)) for o in outputs]
    wrapped = [_as_tensor_here(o, args, payloads) if s else o for o, s in zip(outputs, smooth, strict=True)]
    is_tensor = tuple(isinstance(a, Variable) for a in args)
    edges = [edge(a) if isinstance(a, Variable) and level_number(a) == number else None for a in args]
    recording = thread.grad_enabled and any(e is not None for e in edges)
    known = tuple(e for e, t in zip(edges, is_tensor, strict=True) if t) if recording else ()
    node = make_node(cls._backward_cls, known, level=number)
    node._is_tensor = is_tensor
    node.needs_input_grad = tuple(e is not None and recording for e in edges)
    outside = scope()
    try:
        level.paused = get_ident()
        restore(outside.recording(False))
        cls.setup_context(Context(node), args, tree_unflatten(wrapped, spec))
    finally:
        level.paused = None
        restore(outside)
        del outside
    made = attach(cls, node, args, tree_unflatten(wrapped, spec), recording)
    if not recording:
        return result
    given = {id(a) for a in args}
    kept = tree_flatten(made)[0]
    for i, (o, w) in enumerate(zip(outputs, wrapped, strict=True)):
        # A result without a derivative belongs to the levels below; a graphless wrapper here would belong to none.
        if w is not o and kept[i] is w and w._node is None and id(w) not in given:
            kept[i] = o
    return tree_unflatten(kept, spec)


def _as_tensor_here(o: Any, args: tuple[Any, ...], payloads: tuple[Any, ...]) -> Any:
    """Return an output of the levels below as a tensor of this level; an input changed in place is returned itself."""
    for a, p in zip(args, payloads, strict=True):
        if o is p:
            return a
    return wrap(o.tensor_type, lower(o))


# ----- vmap -----------------------------------------------------------------------------------------------------------


class VmapInfo(NamedTuple):
    """Information for the staticmethod `vmap(info, in_dims, *args)` of a `Function`."""

    batch_size: int
    randomness: str


def _apply_batched(level: BatchLevel, cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    batched = tuple(level_number(a) == level.number for a in args)
    in_dims = tuple(0 if b else None for b in batched)
    payloads = tuple(a._array if b else a for a, b in zip(args, batched, strict=True))
    rule: Any = getattr(cls, "vmap", None)
    if cls.generate_vmap_rule:
        if rule is not None:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and a vmap "
                "staticmethod. Keep one of them. [nd-function-transform]"
            )
        with below(level):
            result = _batched_function(cls, in_dims, level).apply(*payloads, **kwargs)
        return _rebatch(level, result, 0, args, payloads)
    if rule is None:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. "
            "Please override and implement the vmap staticmethod or set generate_vmap_rule=True. "
            "[nd-function-transform]"
        )
    with below(level):
        answer = rule(VmapInfo(level.size, level.randomness), in_dims, *payloads)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise RuntimeError(
            f"{cls.__name__}: Expected the vmap staticmethod to have two returns, an output and out_dims, but it "
            f"returned {type(answer).__name__}. [nd-function-transform]"
        )
    result, out_dims = answer
    if isinstance(out_dims, (tuple, list)) and not (isinstance(result, (tuple, list)) and len(result) == len(out_dims)):
        raise RuntimeError(
            f"{cls.__name__}: the vmap staticmethod returned out_dims={out_dims} for an output of another structure. "
            "Give one int or None per output, or one for all. [nd-function-transform]"
        )
    return _rebatch(level, result, out_dims)


def _rebatch(
    level: Level, result: Any, out_dims: Any, args: tuple[Any, ...] = (), payloads: tuple[Any, ...] = ()
) -> Any:
    """Return results of the levels below as batched tensors; an input changed in place is returned itself."""

    def one(t: Any, dim: Any) -> Any:
        if not isinstance(t, Variable) or dim is None:
            return t
        for a, p in zip(args, payloads, strict=True):
            if t is p and a is not p:
                return a
        with below(level):
            payload = _to_front(t, dim % len(t.shape))
        return batch_tensor(level, payload)

    if isinstance(result, (tuple, list)):
        dims = out_dims if isinstance(out_dims, (tuple, list)) else (out_dims,) * len(result)
        return tuple(one(t, d) for t, d in zip(result, dims, strict=True))
    return one(result, out_dims)


def _batched_function(cls: type[Function], in_dims: tuple[Any, ...], level: BatchLevel) -> type[Function]:
    """Return a Function over whole batches, whose forward, backward and jvp are the batched ones of `cls`."""
    facts: dict[str, Any] = {}

    def run_vmap(f: Callable[..., Any], dims: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        return vmap(f, dims, randomness=level.randomness)(*args)

    class Batched(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            def one(*sample: Any) -> Any:
                out = cls.forward(*sample)
                node = _fresh_context(cls, sample, out)
                facts["several"] = isinstance(out, (tuple, list))
                facts["materialize"] = node.materialize_grads
                facts["discrete"] = [any(o is d for d in node._non_differentiable) for o in _as_tuple(out)]
                facts["dirty"] = [any(i is d for d in node._dirty) for i in sample]
                return out

            return run_vmap(one, in_dims, args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            outputs = _as_tuple(output)
            tensors = tuple(t for t in (*inputs, *outputs) if isinstance(t, Variable))
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            ctx.set_materialize_grads(facts["materialize"])
            ctx.mark_non_differentiable(*(o for o, d in zip(outputs, facts["discrete"], strict=True) if d))
            written = [i for i, d in zip(inputs, facts["dirty"], strict=True) if d]
            ctx.mark_dirty(*(i for i in written if any(o is i for o in outputs)))
            ctx.inputs = tuple(None if isinstance(i, Variable) else i for i in inputs)
            ctx.tensors = tuple(isinstance(i, Variable) for i in inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            method = cls.backward if cls.backward is not Function.backward else cls.vjp
            found = _run_on_samples(cls, facts, run_vmap, in_dims, ctx, method, grads, (0,) * len(grads), "_to_save")
            return tuple(
                g if g is None or d is not None else g.sum(0) for g, d in zip(found, (*in_dims, *(0,) * len(found)))
            )

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            found = _run_on_samples(cls, facts, run_vmap, in_dims, ctx, cls.jvp, tangents, in_dims, "_to_save_forward")
            return found if facts["several"] else found[0]

    Batched.__name__ = cls.__name__
    Batched._backward_cls.__name__ = cls._backward_cls.__name__
    return Batched


def _run_on_samples(
    cls: type[Function],
    facts: dict[str, Any],
    run_vmap: Callable[..., Any],
    in_dims: tuple[Any, ...],
    ctx: Any,
    method: Callable[..., Any],
    given: tuple[Any, ...],
    dims: tuple[Any, ...],
    which: str,
) -> tuple[Any, ...]:
    """Run a method of `cls` on every sample, with its own context; None among its arguments or results stays
    None."""
    saved = iter(ctx.saved_tensors)
    inputs = [next(saved) if t else i for i, t in zip(ctx.inputs, ctx.tensors, strict=True)]
    outputs = list(saved)
    present = [k for k, g in enumerate(given) if g is not None]
    answered: list[bool] = []

    def one(*everything: Any) -> Any:
        sample, rest = everything[: len(inputs)], everything[len(inputs) :]
        outs, parts = rest[: len(outputs)], rest[len(outputs) :]
        node = _fresh_context(cls, sample, outs if facts["several"] else outs[0], ctx.needs_input_grad)
        node._at_hand = getattr(node, which)
        full: list[Any] = [None] * len(given)
        for k, part in zip(present, parts, strict=True):
            full[k] = part
        answer = _as_tuple(method(Context(node), *full))
        answered[:] = [a is not None for a in answer]
        return tuple(a for a in answer if a is not None)

    parts = tuple(given[k] for k in present)
    found = iter(
        run_vmap(one, (*in_dims, *(0,) * len(outputs), *(dims[k] for k in present)), (*inputs, *outputs, *parts))
    )
    return tuple(next(found) if a else None for a in answered)
