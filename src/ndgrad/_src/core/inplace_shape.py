"""In-place changes of a tensor's own shape: transpose_, squeeze_ and related functions.

No value changes: the tensor becomes the result of the view op, and keeps its identity. A view stays a view of the same
base, with one more step. A base stays a base, but earlier views of it refer to its old shape. Their own history is
correct until the memory is written. Then they can no longer replay their path from the base, and raise
(`ViewInfo.refresh`).

Graphs in which a leaf had its old shape end at another accumulator. Its gradients are converted by the same shape
changes (`to_present_shape`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.core.inplace import check_writable
from ndgrad._src.core.modes import restore, scope
from ndgrad._src.core.variable import meta_of
from ndgrad._src.core.versions import is_inference, storage_of
from ndgrad._src.core.view_path import extend

if TYPE_CHECKING:
    from ndgrad._src.core.variable import Variable
    from ndgrad._src.ops.table import Op

_classes: dict[tuple[type[Any], str], type[Any]] = {}


def change_shape(op: Op, t: Any, settings: dict[str, Any], node_name: str) -> Variable:
    """Replace `t` by op(t), a view of itself, and return it. Its node gets torch's name for the in-place form."""
    check_writable(t, op.name + "_")
    leaf = t._node is None and t._meta is not None and t._meta.requires_grad
    if leaf and t._meta.level:
        raise RuntimeError(
            f"{op.name}_: an argument of a function transform (shape {tuple(t.shape)}) would change its shape "
            f"in place, and its gradient with it. Use the out-of-place form, {op.name}(), or change a clone(). "
            "[nd-write-fit]"
        )
    outside = scope()
    try:
        # Recording stays on under no_grad: no value changes, so an existing history must continue.
        restore(outside.recording(not leaf))
        became = op(t, **settings)
    finally:
        restore(outside)
        del outside
    storage = storage_of(t)
    written = 0 if is_inference(t) else storage.version.values
    storage.bump(op.name + "_")
    if not is_inference(t):  # inference memory has no versions
        storage.version.values = written
    meta = meta_of(t)
    t._array = became._array
    if not leaf and became._node is not None:
        became._node.__class__ = _rename_class(type(became._node), node_name)
        t._node = became._node
        meta.output_nr = 0
    if became._meta is not None:
        meta.tangents = became._meta.tangents
    info = meta.view
    if info is None:
        meta.geometry += 1
    else:
        info.path, info.depth = extend(info, op, settings, 0)
        info.version = storage.version.number
    if leaf:
        meta.reshapes = (*meta.reshapes, (meta.accumulator, op, settings))
    meta.accumulator = None  # an existing accumulator expects a gradient of the old shape
    return t


def _rename_class(cls: type[Any], name: str) -> type[Any]:
    found = _classes.get((cls, name))
    if found is None:
        found = _classes[cls, name] = type(name, (cls,), {"__slots__": (), "__module__": cls.__module__})
    return found
