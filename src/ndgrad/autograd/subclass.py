"""Tensor subclasses: overriding what functions do, as torch's `__torch_function__` allows.

A subclass that defines `__ndgrad_function__` (torch's name is accepted too) is asked instead of the op; one that does not is run as
its face, and results come back as the subclass.
"""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.variable import Variable, new
from ndgrad.ops.generate import FACES


def override_of(cls: type[Any]) -> Any:
    """The class's own override of functions, or None."""
    for name in ("__ndgrad_function__", "__torch_function__"):
        for base in cls.__mro__:
            if base in FACES:
                break
            if name in vars(base):
                return getattr(cls, name)
    return None


def subclass_op(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run an op some of whose arguments belong to a subclass."""
    types = tuple(dict.fromkeys(type(a) for a in args if isinstance(a, Variable) and type(a) not in FACES))
    for cls in sorted(types, key=lambda c: -len(c.__mro__)):
        override = override_of(cls)
        if override is not None:
            result = override(op, types, args, settings)
            if result is not NotImplemented:
                return result
    outermost = max(types, key=lambda c: len(c.__mro__))
    plain = tuple(as_face(a) for a in args)
    out = op(*plain, **settings)
    if op.outputs != 1:
        return tuple(as_class(o, outermost) for o in out)
    return as_class(out, outermost)


def face_of_class(cls: type[Any]) -> type[Any]:
    return next(FACES[base] for base in cls.__mro__ if base in FACES)


def as_face(t: Any) -> Any:
    """A tensor of a subclass as one of its face: another object over the same memory and history."""
    if not isinstance(t, Variable) or type(t) in FACES:
        return t
    return as_class(t, face_of_class(type(t)))


def as_class(t: Any, cls: type[Any]) -> Any:
    """Another object, of class `cls`, over the same memory, history and metadata."""
    if not isinstance(t, Variable) or type(t) is cls:
        return t
    from ndgrad.autograd.versions import storage_of

    other = new(cls)
    other._array, other._node, other._meta = t._array, t._node, t._meta
    other._storage = storage_of(t)
    other._array = t._array
    return other
