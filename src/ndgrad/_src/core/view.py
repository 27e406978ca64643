"""Differentiable views, and the effect of an in-place write on the history of the written memory.

Note [Views and in-place writes]
A view remembers its base (a tensor that is not a view) and the path of view ops from the base to itself. Views and base
share one storage, hence one version. A write through a view gives the *base* a new history: a `CopySlices` node, which
records that this part of the base was replaced. All views of that base, the written one included, detect by the version
that their own history is outdated. They get a new history by replaying their path from the base on next use
(`refresh`). So only views that are used again pay for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.meta import WrapperArray
from ndgrad._src.core.hooks import move_retained
from ndgrad._src.core.layout import Order, copy_in_order, in_order, is_in_order, order_of
from ndgrad._src.core.modes import process, restore, scope, thread
from ndgrad._src.core.node import Node, extra_of, make_node
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.variable import edge, meta_of, np_dtype, requires_grad, shape_of
from ndgrad._src.core.versions import InferenceStorage, storage_of
from ndgrad._src.core.view_path import Path, extend, steps, take_raw
from ndgrad._src.ops.fill import copy, zeros_like
from ndgrad._src.ops.vocabulary import owning_raw_ops

if TYPE_CHECKING:
    from ndgrad._src.core.node import Edge
    from ndgrad._src.core.variable import Variable
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Library, Payload, Vocabulary

# Origin of a view, which decides whether it may be written in place.
DEFAULT, NO_GRAD, MULTI_OUTPUT, INFERENCE, CUSTOM = "default", "no_grad", "multi_output", "inference", "custom"
WRAPPED = "wrapped"

# torch's text for a write that cannot be recorded, and the reason; {n} and {op} name the output.
_REASONS = {
    NO_GRAD: "{a_view} was created in no_grad mode and {what}: the write could not be recorded in its base's history",
    MULTI_OUTPUT: (
        "Output {n} of {op} is a view and {what}. This view is the output of a function that returns multiple views. "
        "Such functions do not allow the output views to be modified inplace: it is torch's rule"
    ),
    INFERENCE: "{a_view} was created in inference mode and {what} in normal mode: the write could not be recorded",
    CUSTOM: (
        "Output {n} of {op} is a view and {what}. This view was created inside a custom Function (or because an input "
        "was returned as-is), whose backward does not know of the write"
    ),
    WRAPPED: (
        "Output {n} of {op} is a view and {what}. It is a reshape of a tensor whose class keeps its values elsewhere, "
        "and they may have been copied there"
    ),
}
_REMEDIES = {
    NO_GRAD: "Move both the view and the write inside the no_grad block, or both outside.",
    MULTI_OUTPUT: "Use the out-of-place op, index the tensor instead (x[i] gives a writable view), or clone() first.",
    INFERENCE: "Move both the view and the write inside the inference_mode block, or both outside, or clone() first.",
    CUSTOM: "clone() the result of the Function first.",
    WRAPPED: "Write to the tensor itself, by an index, or clone() the reshaped one first.",
}

class ViewInfo:
    """Base, path and version of a view."""

    __slots__ = ("base", "creation", "depth", "geometry", "kept", "path", "version")

    #: number of the base's transform level when the view was taken
    base_level = 0

    def __init__(
        self, base: Any, path: Path, creation: str, version: int, geometry: int = 0, depth: int = 1
    ) -> None:
        self.base = base
        self.path = path
        self.creation = creation
        # Number of the memory's version at which the view's node is valid (not the Version, which must not be held).
        self.version: int | None = version
        self.geometry = geometry  # geometry of the base when the path was taken
        self.depth = depth  # number of steps since the path's last milestone
        self.kept: Any = None  # tensor kept by the last graph that saved the view

    def is_stale(self, t: Any) -> bool:
        """True if the memory has been written since the view's history was valid."""
        return bool(self.version != t._storage.version.number)

    def refresh(self, t: Any) -> None:
        """Update the view's history from its base."""
        current = t._storage.version.number
        if self.version == current:
            return
        base_edge = edge(self.base)
        if base_edge is None and t._node is None:
            return  # still outdated: the base may later require grad
        if self.creation != DEFAULT:
            raise write_error(t, self.creation, after_the_fact=True)
        if base_edge is None:  # the base was detached in place and then written, so these values have no history
            t._node = None
            self.version = current
            return
        if self._only_moved(t):
            self.version = current
            return
        self.check_geometry(t)
        fresh = replay(self.base, self.path)
        meta, number = meta_of(t), 0 if fresh._meta is None else fresh._meta.output_nr
        if meta.retains_grad and t._node is not None:
            _move_retained(t, fresh._node, number)
        t._node = fresh._node
        meta.output_nr = number
        self.version = current

    def _only_moved(self, t: Any) -> bool:
        """True if only the base's shape has changed in place, without writes, since the view's history was valid."""
        return (
            self.version is not None
            and self.geometry != geometry_of(self.base)
            and t._storage.version.values <= self.version
        )

    def check_geometry(self, t: Variable) -> None:
        if self.geometry != geometry_of(self.base):
            raise RuntimeError(
                f"a view of shape {tuple(t.shape)} belongs to a tensor that has changed its own shape in place "
                f"since (to {tuple(self.base.shape)}), so the view's history cannot be found from it. "
                "Take it again, or use the out-of-place form of that change (transpose, squeeze). [nd-view-write]"
            )


class ViewInLevel(ViewInfo):
    """View information of a transform's tensor. It must follow its base if a write moves the base to another level."""

    __slots__ = ("base_level",)


def _move_retained(t: Variable, node: Node | None, number: int) -> None:
    move_retained(t, t._node, node, number)


def geometry_of(t: Variable) -> int:
    """Return the number of in-place changes of a tensor's own shape."""
    meta = t._meta
    return 0 if meta is None else int(meta.geometry)


def replay(base: Variable, path: Path | None) -> Variable:
    """Return the view at the end of `path` from tensor `base`, recorded in any grad mode."""
    outside = scope()
    try:
        restore(outside.recording(True))
        for _, op, settings, number in steps(path):
            base = op.eager(base, **settings)
            if op.outputs != 1:
                base = base[number]
        return base
    finally:
        restore(outside)
        del outside


def replay_raw(array: Payload, path: Path | None, library: Library) -> Payload:
    """Return the part of a raw array at the end of `path`."""
    return take_raw(array, steps(path), library)


def tangents_of(t: Variable) -> dict[int, Any] | None:
    """Return the tangents of a tensor by open dual level. A view older than its base's tangent gets its part here."""
    meta = t._meta
    if meta is None:
        return None
    info = meta.view
    held: dict[int, Any] | None = meta.tangents
    if info is None:
        return held and _open(held)
    held = held and _open(held)
    base = info.base._meta
    theirs = None if base is None else base.tangents and _open(base.tangents)
    if theirs and (held is None or not theirs.keys() <= held.keys()) and _keeps_tangents(info.path):
        missing = {n: replay(tangent, info.path) for n, tangent in theirs.items() if held is None or n not in held}
        held = {**(held or {}), **missing}
        meta.tangents = {**(meta.tangents or {}), **missing}
    return held


def _keeps_tangents(path: Path | None) -> bool:
    """True if tangents follow along a path. They do not for detached tensors, which are views inside functionalize."""
    return not any(op.shares_storage for _, op, _, _ in steps(path))


def _open(tangents: dict[int, Any]) -> dict[int, Any] | None:
    """Return the tangents of open levels only."""
    still = process.open
    for number in tangents:
        if number not in still:
            return {n: t for n, t in tangents.items() if n in still} or None
    return tangents


def make_view(out: Variable, source: Any, op: Op, settings: dict[str, Any], number: int = 0, level: int = 0) -> None:
    """Mark `out`, whose array is a view of `source`'s memory, as a differentiable view (of a transform's `level`)."""
    storage = storage_of(source)
    if storage.__class__ is InferenceStorage:
        out._storage = storage  # without versions there are no views
        return
    info = None if source._meta is None else source._meta.view
    if info is None:
        base, creation, geometry = source, DEFAULT, geometry_of(source)
        path, depth = (None, op, settings, number), 1
    else:
        base, creation, geometry = info.base, info.creation, info.geometry
        path, depth = extend(info, op, settings, number)
    if not thread.grad_enabled:
        creation = INFERENCE if thread.inference else NO_GRAD
    elif op.outputs != 1:
        creation = MULTI_OUTPUT
    elif op.name == "reshape" and isinstance(out._array, WrapperArray):
        creation = WRAPPED
    out._storage = storage
    if creation is INFERENCE and requires_grad(source):
        meta_of(out).requires_grad = True  # a leaf of its own as in torch, because no edge leads to its base
    if not level:
        meta_of(out).view = ViewInfo(base, path, creation, storage.version.number, geometry, depth)
        return
    meta_of(out).view = in_level = ViewInLevel(base, path, creation, storage.version.number, geometry, depth)
    in_level.base_level = level


def write_error(t: Any, creation: str, after_the_fact: bool = False) -> RuntimeError:
    if after_the_fact:
        what = "its base or another view of its base has been modified inplace"
    else:
        what = "is being modified inplace"
    _, op, _, number = t._meta.view.path
    if creation == CUSTOM and t._node is not None:
        name, number = t._node.name().removesuffix("Backward"), t._meta.output_nr
    else:
        name = op.name.title().replace("_", "")
    if creation == NO_GRAD and not after_the_fact:
        what += " with grad mode enabled"
    a_view = "A view" if t._meta.view.depth == 1 else "One of the steps of a view of a view"
    reason = _REASONS[creation].format(n=number, op=name, what=what, a_view=a_view)
    return RuntimeError(f"{reason} (shape {tuple(t.shape)}). {_REMEDIES[creation]} [nd-view-write]")


# ----- the base's new history ----------------------------------------------------------------------------------------


class CopySlices(Node):
    """History of a base with a replaced part: `inner` is the node of the write as seen by the view."""

    __slots__ = ("inner", "level", "order", "path")
    consumes = True
    level: int
    inner: Node | None  # None after release
    order: Order  # base layout on which replaying the path yields a view, not a copy
    path: Path | None

    def apply(self, grads: Payload, ops: Vocabulary, keep: bool = True) -> tuple[Any, ...]:
        """Change an owned gradient only in the replaced part, so that n writes into one buffer cost O(n)."""
        grads = in_order(ops.np, grads if ops.owns else grads.copy(), self.order)
        part = replay_raw(grads, self.path, ops.np)
        through = self._inner().apply(part.copy(), owning_raw_ops(ops.np), keep)
        part[...] = 0 if through[0] is None else through[0]
        if not keep:
            self.inner = None
        return (grads if self.next[0] is not None else None, *through[1:])

    def apply_tensors(self, grads: Variable, owned: bool = False) -> tuple[Any, ...]:
        return self._on_tensors(grads, owned, self._inner().apply_tensors)

    def apply_payloads(self, grads: Variable, owned: bool = False) -> tuple[Any, ...]:
        return self._on_tensors(grads, owned, self._inner().apply_payloads)

    def _on_tensors(
        self, grads: Variable, owned: bool, run_inner: Callable[..., tuple[Variable | None, ...]]
    ) -> tuple[Any, ...]:
        whole = grads if owned and is_in_order(grads, self.order) else copy_in_order(grads, self.order)
        part = replay(whole, self.path)
        through = run_inner(part.clone())
        from ndgrad._src.core.inplace import write  # inplace imports this module

        write(copy, part, (zeros_like(part) if through[0] is None else through[0],), {})
        return (whole if self.next[0] is not None else None, *through[1:])

    def _inner(self) -> Node:
        if self.inner is None:
            raise freed_error(self)
        return self.inner

    def release(self) -> None:
        self.inner = None


def rebase(base: Variable, path: Path, inner: Any, base_edge: Node | Edge | None) -> None:
    """Give `base` the history of a write through the view at `path`; `inner` describes the write."""
    node = make_node(CopySlices, (base_edge, *inner.next[1:]), shape_of(base), np_dtype(base))
    node.inner = inner
    node.level = inner.level
    node.order = order_of(base)
    node.path = path
    if inner.extra is not None:
        extra_of(node).forward_trace = inner.extra.forward_trace
    if base._meta is not None and base._meta.retains_grad and base._node is not None:
        _move_retained(base, node, 0)
    base._node = node
    if base._meta is not None:
        base._meta.output_nr = 0
