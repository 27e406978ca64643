"""In-place changes of a tensor's own shape: transpose_, squeeze_ and their kin.

No value changes: the tensor becomes what the view op would have returned, and keeps its identity. A view stays a view of the
same base, one step longer. A base stays a base; views that were taken of it before know it in its old shape, so they can
no longer replay their path from it, and say so when their history is asked for (`ViewInfo.refresh`).
"""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.inplace import check_writable
from ndgrad.autograd.modes import restore, scope
from ndgrad.autograd.variable import meta_of
from ndgrad.autograd.versions import storage_of

_classes: dict[tuple[type[Any], str], type[Any]] = {}


def change_shape(op: Any, t: Any, settings: dict[str, Any], node_name: str) -> Any:
    """`t` becomes op(t), a view of itself, and is returned; its node bears torch's name for the in-place form."""
    check_writable(t, op.name + "_")
    leaf = t._node is None and t._meta is not None and t._meta.requires_grad
    outside = scope()
    try:
        restore(outside.recording(not leaf))  # also under no_grad: no value changes, so a history that exists must go on
        became = op(t, **settings)
    finally:
        restore(outside)
        del outside
    storage = storage_of(t)
    storage.bump(op.name + "_")
    meta = meta_of(t)
    t._array = became._array
    if not leaf and became._node is not None:
        became._node.__class__ = _renamed(type(became._node), node_name)
        t._node = became._node
        meta.output_nr = 0
    if became._meta is not None:
        meta.tangents = became._meta.tangents
    info = meta.view
    if info is None:
        meta.geometry += 1
    else:
        info.path = (info.path, op, settings, 0)
        info.version = storage.version
    meta.accumulator = None  # one made before expects a gradient of the old shape
    return t


def _renamed(cls: type[Any], name: str) -> type[Any]:
    found = _classes.get((cls, name))
    if found is None:
        found = _classes[cls, name] = type(name, (cls,), {"__slots__": (), "__module__": cls.__module__})
    return found
