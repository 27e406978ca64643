"""Custom functions inside transforms.

A `Function` with a separate `setup_context` takes part in every transform: forward mode through its `jvp`, grad levels by
running forward on the payloads and setting the context up with the level's tensors, vmap through its `vmap` method or, with
`generate_vmap_rule`, by batching forward and backward themselves.
"""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.forward_ad import innermost, strip, tangent_of, with_tangent
from ndgrad.autograd.function import Function, attach, run_function, separate_setup
from ndgrad.autograd.modes import enter, leave, thread
from ndgrad.autograd.node import next_sequence_number
from ndgrad.autograd.saved import lift
from ndgrad.autograd.variable import Variable, edge, wrap
from ndgrad.autograd.view import tangents_of
from ndgrad.func.batching import batch_tensor
from ndgrad.func.levels import Level, below, level_number, lower, top_level
from ndgrad.pytree import tree_flatten, tree_unflatten


def apply_in_transforms(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Function.apply` while transforms or dual levels are open."""
    level = top_level(args) if thread.levels else None
    if thread.dual_levels and any(isinstance(a, Variable) and tangents_of(a) for a in args):
        if level is None or innermost(args) > level.number:
            return _apply_dual(cls, args, kwargs)
    if level is None:
        return run_function(cls, args, kwargs)
    if not separate_setup(cls):
        raise RuntimeError(
            f"{cls.__name__}: in order to use an autograd.Function with function transforms (vmap, grad, jvp, jacrev, ...), it "
            "must override the "
            "setup_context staticmethod: split forward(ctx, ...) into forward(...) and setup_context(ctx, inputs, output)."
        )
    return _apply_batched(level, cls, args, kwargs) if level.kind == "vmap" else _apply_grad(level, cls, args, kwargs)


def _apply_dual(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = innermost(args)
    tangents = tuple(tangent_of(a, number) for a in args)
    primals = tuple(strip(a, number) for a in args)
    seen: dict[str, Any] = {}

    class _Watching(cls):  # type: ignore[misc, valid-type]
        """The function itself, keeping hold of its context for jvp."""

    if separate_setup(cls):

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            seen["ctx"] = ctx
            cls.setup_context(ctx, inputs, output)

        _Watching.setup_context = staticmethod(setup_context)
    else:

        def forward(ctx: Any, *given: Any, **named: Any) -> Any:
            seen["ctx"] = ctx
            return cls.forward(ctx, *given, **named)

        _Watching.forward = staticmethod(forward)
    _Watching._backward_cls.__name__ = cls._backward_cls.__name__
    out = _Watching.apply(*primals, **kwargs)
    if not thread.forward_grad_enabled:
        return out
    seen["ctx"]._in_jvp = True
    try:
        made = cls.jvp(seen["ctx"], *tangents)
    finally:
        seen["ctx"]._in_jvp = False
    if isinstance(out, tuple):
        pairs = zip(out, made if isinstance(made, tuple) else (made,), strict=True)
        return tuple(with_tangent(o, t, number) if isinstance(o, Variable) else o for o, t in pairs)
    return with_tangent(out, made[0] if isinstance(made, tuple) else made, number)


def _apply_grad(level: Level, cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    number = level.number
    payloads = tuple(
        (lift(a._array) if level_number(a) == number else a) if isinstance(a, Variable) else a for a in args
    )
    level.pure = False
    with below(level):
        result = cls.apply(*payloads, **kwargs)
    outputs, spec = tree_flatten(result)
    wrapped = [wrap(o.face, lower(o)) if isinstance(o, Variable) else o for o in outputs]
    node = cls._backward_cls()
    node.level = number
    node._is_tensor = tuple(isinstance(a, Variable) for a in args)
    edges = [edge(a) if isinstance(a, Variable) and level_number(a) == number else None for a in args]
    recording = thread.grad_enabled and any(e is not None for e in edges)
    node.needs_input_grad = tuple(e is not None and recording for e in edges)
    node.seq = next_sequence_number()
    node.extra = False
    node.next = tuple(e for e, t in zip(edges, node._is_tensor, strict=True) if t) if recording else ()
    was = thread.grad_enabled
    thread.grad_enabled = False
    enter()
    try:
        cls.setup_context(node, args, tree_unflatten(wrapped, spec))
    finally:
        leave()
        thread.grad_enabled = was
    made = attach(cls, node, args, tree_unflatten(wrapped, spec), recording)
    return made if recording else result


def _apply_batched(level: Level, cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    batched = tuple(level_number(a) == level.number for a in args)
    if cls.generate_vmap_rule:
        from ndgrad.func.transforms import vmap

        in_dims = tuple(0 if b else None for b in batched)
        payloads = tuple(a._array if b else a for a, b in zip(args, batched, strict=True))
        with below(level):
            result = _batched_function(cls, in_dims, level, vmap).apply(*payloads, **kwargs)
        return _rebatch(level, result, None)
    rule = getattr(cls, "vmap", None)
    if rule is None:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set "
            "generate_vmap_rule=True."
        )
    info = _VmapInfo(level.size or 0, level.randomness)
    payloads = tuple(a._array if b else a for a, b in zip(args, batched, strict=True))
    with below(level):
        result, out_dims = rule(info, tuple(0 if b else None for b in batched), *payloads)
    return _rebatch(level, result, out_dims)


class _VmapInfo:
    def __init__(self, batch_size: int, randomness: str) -> None:
        self.batch_size = batch_size
        self.randomness = randomness


def _rebatch(level: Level, result: Any, out_dims: Any) -> Any:
    from ndgrad.func.transforms import _to_front

    def one(t: Any, dim: Any) -> Any:
        if not isinstance(t, Variable) or dim is None:
            return t
        with below(level):
            return batch_tensor(level, _to_front(t, dim % len(t.shape)))

    if isinstance(result, tuple):
        dims = out_dims if isinstance(out_dims, tuple) else (0 if out_dims is None else out_dims,) * len(result)
        return tuple(one(t, d) for t, d in zip(result, dims, strict=True))
    return one(result, 0 if out_dims is None else out_dims[0] if isinstance(out_dims, tuple) else out_dims)


def _batched_function(cls: type[Function], in_dims: tuple[Any, ...], level: Level, vmap: Any) -> type[Function]:
    """A Function over whole batches, whose forward, backward and jvp are the batched ones of `cls`."""

    class Batched(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            return vmap(cls.forward, in_dims, randomness=level.randomness)(*args)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.save_for_backward(*(t for t in (*inputs, *tree_flatten(output)[0]) if isinstance(t, Variable)))
            ctx.inputs = tuple(None if isinstance(i, Variable) else i for i in inputs)
            ctx.tensors = tuple(isinstance(i, Variable) for i in inputs)
            ctx.several = isinstance(output, tuple)
            ctx.count = len(output) if isinstance(output, tuple) else 1

        @staticmethod
        def _parts(ctx: Any) -> tuple[list[Any], list[Any]]:
            saved = list(ctx.saved_tensors)
            inputs = [saved.pop(0) if t else i for i, t in zip(ctx.inputs, ctx.tensors, strict=True)]
            return inputs, saved

        @staticmethod
        def _single(inputs: Any, outputs: Any, ctx: Any) -> Any:
            """The context that one sample's setup_context makes."""
            one = cls._backward_cls()
            one._is_tensor = ctx.tensors
            one.needs_input_grad = ctx.needs_input_grad
            cls.setup_context(one, tuple(inputs), tuple(outputs) if ctx.several else outputs[0])
            one.__dict__["_saved_direct"] = one._to_save
            return _Direct(one)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            inputs, outputs = Batched._parts(ctx)
            n, m = len(inputs), len(outputs)

            probe: list[Any] = []

            def one(*everything: Any) -> Any:
                single = Batched._single(everything[:n], everything[n : n + m], ctx)
                made = cls.backward(single, *everything[n + m :])
                made = made if isinstance(made, tuple) else (made,)
                probe[:] = [g is not None for g in made]
                return tuple(g for g in made if g is not None)

            flat = vmap(one, (*in_dims, *(0,) * (m + len(grads))), randomness=level.randomness)(*inputs, *outputs, *grads)
            found = list(flat)
            full = [found.pop(0) if present else None for present in probe]
            return tuple(_sum_unbatched(g, d) for g, d in zip(full, in_dims, strict=True))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            raise NotImplementedError("jvp of a Function with generate_vmap_rule inside vmap: write its vmap staticmethod instead.")

    Batched.__name__ = cls.__name__
    Batched._backward_cls.__name__ = cls._backward_cls.__name__
    return Batched


def _sum_unbatched(g: Any, dim: Any) -> Any:
    """The gradient of an argument that all samples share is the sum over them."""
    return g if g is None or dim is not None else g.sum(0)


class _Direct:
    """A context whose saved tensors are at hand."""

    def __init__(self, node: Any) -> None:
        self.__dict__.update(node.__dict__)
        self._node = node
        self.saved_tensors = node.__dict__["_saved_direct"]
        self.needs_input_grad = node.needs_input_grad
