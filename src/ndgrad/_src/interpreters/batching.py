"""vmap: run an op on a whole batch by its batching rule.

The payload of a batched tensor has the batch in front. The manual of the op table describes the rules; no
code here loops over the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.modes import Modes, modes, restore, scope
from ndgrad._src.core.sparse_gradients import refuse_sparse
from ndgrad._src.core.variable import Variable, innermost_array, meta_of, wrap
from ndgrad._src.core.view import make_view
from ndgrad._src.interpreters.levels import Level, below, level_number
from ndgrad._src.ops.random import SHAPE_ONLY
from ndgrad._src.ops.shape import reshape
from ndgrad._src.ops.table import DATA_DEPENDENT, RANDOM, parameter_names
from ndgrad._src.ops.vocabulary import plain_ops, tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload, Vocabulary


def batch_tensor(level: Level, payload: Payload) -> Payload:
    """Return the batched tensor of `level` over a payload (a tensor) whose dimension 0 is the batch."""
    refuse_sparse(payload, "vmap")
    t = wrap(payload.tensor_type, payload)
    meta = meta_of(t)
    meta.batch_level = level.number
    levels = modes().levels
    meta.made_in = levels[-1].number if levels else level.number
    return t


def take_apart(t: object) -> tuple[Any, tuple[int, ...]]:
    """Return the array under a tensor, and the numbers of the vmap levels whose batches are its leading
    dimensions, outermost first."""
    if not isinstance(t, Variable):
        return t, ()
    if t._meta is not None and t._meta.view is not None and modes().levels:
        level_number(t)  # Update a view of memory that was written in a transform.
    array, levels = take_apart(t._array)
    if t._meta is not None and t._meta.batch_level:
        levels = (*levels, t._meta.batch_level)
    return array, levels


class BatchLevel(Level):
    """A level whose tensors are batches of samples."""

    __slots__ = ("randomness", "size")

    kind = "vmap"
    size: int

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size = size
        self.randomness = randomness  # "error", "different" or "same"

    def run(
        self,
        op: Op,
        args: tuple[Any, ...],
        settings: dict[str, Any],
        tensor_type: type[Any],
        state: Modes,
        plain: bool,
    ) -> Payload:
        """Run an op on whole batches."""
        number = self.number
        batched = tuple(
            [isinstance(a, Variable) and a._meta is not None and a._meta.batch_level == number for a in args]
        )
        payloads = tuple([a._array if b else a for a, b in zip(args, batched, strict=True)])
        if op.batch is RANDOM:
            return _random_op(self, op, payloads, batched, settings)
        ops: Any = tensor_ops
        if state.levels[0] is self and plain and _are_bare(payloads):
            if op.batch == "elementwise" and not op.view:
                return batch_tensor(self, op.plain(*_align(payloads, batched, reshape.plain), **settings))
            ops = plain_ops
        outside = scope()
        try:
            restore(outside.scope_below(self))
            out = apply_batch_rule(op, payloads, batched, settings, self.size, ops)
        finally:
            restore(outside)
            del outside
        if not op.view:
            return batch_tensor(self, out) if op.outputs == 1 else tuple([batch_tensor(self, o) for o in out])
        made = [
            _batch_view(self, op, args[0], settings, i, o) for i, o in enumerate((out,) if op.outputs == 1 else out)
        ]
        return made[0] if op.outputs == 1 else tuple(made)


def _batch_view(
    level: Level, op: Op, source: Variable, settings: dict[str, Any], number: int, payload: Payload
) -> Payload:
    """Return a result of a view op. If its payload is a view of the source's payload, it becomes a view of the source
    and follows it to another level."""
    t = batch_tensor(level, payload)
    if (
        payload._storage is not None
        and payload._storage is source._array._storage
        and level_number(source) == level.number
    ):
        make_view(t, source, op, settings, number, level.number)
    return t


def apply_batch_rule(
    op: Op, args: tuple[Any, ...], batched: tuple[bool, ...], settings: dict[str, Any], size: int, ops: Any
) -> Payload:
    """Run an op on whole batches with the ops of `ops`, which match the kind of the arguments."""
    rule, run = op.batch, getattr(ops, op.name)
    if rule == "elementwise":
        return run(*_align(args, batched, reshape), **settings)
    if rule is DATA_DEPENDENT:
        raise RuntimeError(
            "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
            f"{op.name}, whose result can have a different shape for each sample. "
            "Use a form with a fixed shape (where, masked sums), or call it outside vmap. [nd-vmap-value]"
        )
    if rule == "dims":
        moved = {k: _shift(v) if k in ("dim", "dims", "dim0", "dim1") else v for k, v in settings.items()}
        return run(*_expand(args, batched, size), **moved)
    if rule == "leading":
        return run(*_expand(args, batched, size), **settings)
    if isinstance(rule, str) or not callable(rule):
        raise RuntimeError(f"op {op.name!r} has no batching rule ({rule!r}) [nd-op-block]")
    if size:
        return _run_rule(op, rule, args, batched, settings, size, ops)
    try:
        return _run_rule(op, rule, args, batched, settings, size, ops)
    except (ArithmeticError, IndexError, RuntimeError, ValueError):
        # A rule that folds the batch into another dimension may fail for an empty batch. It then gets one sample of
        # zeros, which is removed from the result.
        padded = tuple(
            tensor_ops.cat(a, _zero_sample(a), dim=0) if b else a for a, b in zip(args, batched, strict=True)
        )
        out = _run_rule(op, rule, padded, batched, settings, 1, tensor_ops)
        cut = [tensor_ops.getitem(o, index=(slice(0, 0),)) for o in ((out,) if op.outputs == 1 else out)]
        return cut[0] if op.outputs == 1 else tuple(cut)


def _run_rule(
    op: Op,
    rule: Any,
    args: tuple[Any, ...],
    batched: tuple[bool, ...],
    settings: dict[str, Any],
    size: int,
    ops: Vocabulary,
) -> Payload:
    names = parameter_names(rule)
    if "batched" not in names:
        args = _expand(args, batched, size)
    env = {**settings, "ops": ops, "batched": batched, "size": size}
    env.update(op.bind(args))
    return rule(*[env[n] for n in names])


def _zero_sample(a: Payload) -> Payload:
    array = innermost_array(a)
    return wrap(a.tensor_type, library_of(array).zeros((1, *a.shape[1:]), array.dtype))


def _shift(dim: Any) -> Any:
    return tuple(d + 1 for d in dim) if isinstance(dim, tuple) else dim + 1


def _are_bare(args: tuple[Any, ...]) -> bool:
    """True if no argument carries a mode's data (tangents, batches, graphs)."""
    for a in args:
        meta = a._meta if isinstance(a, Variable) else None
        if meta is not None and (
            meta.tangents is not None
            or meta.batch_level
            or (meta.view is not None and meta.view.base._meta is not None)
        ):
            return False
    return True


def _align(args: tuple[Any, ...], batched: tuple[bool, ...], reshape: Any) -> tuple[Any, ...]:
    """Insert dimensions of size one after the batch, so that samples broadcast as they would alone."""
    shapes: list[Any] = [a.shape if hasattr(a, "shape") else () for a in args]
    if len(args) == 1 or (len(set(map(len, shapes))) == 1 and all(batched)):
        return args
    rank = max([len(shape) - b for shape, b in zip(shapes, batched, strict=True)])
    return tuple(
        reshape(a, shape=(shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:])) if b and len(shape) - 1 < rank else a
        for a, b, shape in zip(args, batched, shapes, strict=True)
    )


def _expand(args: tuple[Any, ...], batched: tuple[bool, ...], size: int) -> tuple[Any, ...]:
    """Give every tensor argument a batch dimension; an unbatched one is expanded, which costs nothing."""
    return tuple(
        a if b or not isinstance(a, Variable) else tensor_ops.expand(a, shape=(size, *_shape(a)))
        for a, b in zip(args, batched, strict=True)
    )


def _shape(a: Payload) -> tuple[int, ...]:
    return tuple(a.shape)


# ----- random ops ----------------------------------------------------------------------------------------------------


def _random_op(
    level: BatchLevel, op: Op, args: tuple[Any, ...], batched: tuple[bool, ...], settings: dict[str, Any]
) -> Payload:
    """Draw for a batch: once for all samples, or once per sample, according to vmap's `randomness`."""
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation while in randomness error mode ({op.name}): "
            "it does not say whether samples share their numbers. Pass randomness='different' or randomness='same' "
            "to vmap, or draw outside of it. [nd-vmap-random]"
        )
    if level.randomness == "same":
        if any(batched):
            if op.name not in SHAPE_ONLY:
                raise RuntimeError(
                    f"vmap: {op.name} with randomness='same' was given a batched tensor, "
                    "whose samples have different distributions. Pass randomness='different', or draw outside of vmap. "
                    "[nd-vmap-random]"
                )
            args = (tensor_ops.getitem(args[0], index=(0,)), *args[1:])
        with below(level):
            return op.eager(*args, **settings)
    with below(level):
        every = _expand(args, batched, level.size)
        drawn = op.eager(*_align(every, tuple(isinstance(a, Variable) for a in every), reshape), **settings)
    return batch_tensor(level, drawn)
