"""Metadata of captured tensors: reads by a traced function are guarded, or end the trace.

The guards of a program compare classes, shapes, dtypes, strides and requires_grad of its inputs. A function may read
more: whether a tensor is a leaf, how often its memory was written, attributes that the user has set on it. During a
trace, the properties and methods below are replaced on the classes of tensors, like the slots (see Note [Captured
tensors]).

    is_leaf, grad_fn of a leaf        guarded (`CapturedTensor.leaf_asked`)
    strides                           guarded; for results they are found (ndgrad._src.compiler.capture.memory_order)
    attributes of captured tensors    captured and compared by the environment
    attributes of arguments           end the trace, whether they exist or not
    everything else                   ends the trace

A tensor that the trace has made has metadata of its own, equal to those of eager code. If it shares memory with a
captured tensor, its version, base and place in memory are those of that tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.node import Node
from ndgrad._src.core.variable import BareTensor
from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.environment import Environment

#: Metadata of one tensor.
_OWN = (
    "output_nr", "_version", "_base", "_is_view", "retains_grad", "_backward_hooks", "_post_accumulate_grad_hooks",
    "_grad_fn", "grad_dtype", "storage_offset", "data_ptr", "storage", "untyped_storage", "_typed_storage", "is_set_to",
    "is_shared", "base", "__array_interface__", "__dir__", "__getstate__", "__reduce_ex__", "__sizeof__",
)  # fmt: skip
#: Metadata that belong to the memory of a tensor.
_OF_MEMORY = frozenset(
    "_version _base _is_view storage_offset data_ptr storage untyped_storage _typed_storage is_set_to is_shared base "
    "__array_interface__".split()
)
#: Metadata that depend on the memory order, which a trace may only have assumed.
_OF_ORDER = frozenset("stride strides is_contiguous dim_order flags".split())
#: Parts of the package whose reads are allowed, because they decide nothing that a user sees.
_INSIDE = ("ndgrad.amp.",)
_get_array = BareTensor.__dict__["_array"].__get__
_get_meta = BareTensor.__dict__["_meta"].__get__
_attributes = BareTensor.__dict__["__dict__"]


def list_replacements(find_tracer: Callable[[], Any]) -> list[tuple[type, str, Any]]:
    """Return the class attributes to replace during a trace: class, name, replacement."""
    (tensor,) = [cls for cls in TENSOR_TYPES if not any(base in TENSOR_TYPES for base in cls.__mro__[1:])]
    found: list[tuple[type, str, Any]] = []
    for name in (*_OWN, *_OF_ORDER, "is_leaf", "grad_fn"):
        for cls in TENSOR_TYPES:
            own = cls.__dict__.get(name)
            if own is None and cls is tensor:
                own = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
            if own is not None:
                found.append((cls, name, _make_property(name, own, find_tracer)))
    return [
        *found,
        (tensor, "__getattr__", _make_getattr(find_tracer)),
        (Node, "next_functions", _make_graph_property(find_tracer)),
    ]


def _make_property(name: str, own: Any, find_tracer: Callable[[], Any]) -> property:
    """Return a property in place of another attribute, which first checks the owner of the tensor."""

    def get(t: Any) -> Any:
        tracer = find_tracer()
        if tracer is not None and not sys._getframe(1).f_globals.get("__name__", "").startswith(_INSIDE):
            payload = _get_array(t)
            if name in _OF_ORDER:
                if payload.__class__ is TracedArray:
                    payload.settle()
                return own.__get__(t, t.__class__)
            if payload.__class__ is not TracedArray and not isinstance(payload, BareTensor):
                return _read_captured(name, tracer.capture(t, payload), t)
            if name in _OF_MEMORY and isinstance(payload, TracedArray) and payload.memory.source is not None:
                raise GraphBreak(f"the function reads {name!r} of a tensor that shares memory with one from outside")
        return own.__get__(t, t.__class__)

    def set_(t: Any, value: Any) -> None:
        own.__set__(t, value)

    return property(get, set_ if hasattr(own, "__set__") else None)


def _read_captured(name: str, captured: Any, t: Any) -> Any:
    """Return metadata of a captured tensor, as far as guards compare them."""
    if name in ("is_leaf", "grad_fn"):
        is_leaf = captured._node is None
        if captured._node is not captured.before[0] or captured._meta.requires_grad is not captured.before[1]:
            raise GraphBreak(f"the function reads {name!r} of a tensor from outside that it has changed")
        if captured._meta.requires_grad or not is_leaf:  # otherwise it is a leaf in any case
            meta = _get_meta(t)
            if meta is not None and meta.view is not None:
                raise GraphBreak(f"the function reads {name!r} of a view from outside")
            captured.leaf_asked = True
        if name == "is_leaf" or is_leaf:
            return is_leaf if name == "is_leaf" else None
    raise GraphBreak(f"the function reads {name!r} of a tensor from outside")


def _make_getattr(find_tracer: Callable[[], Any]) -> Callable[[Any, str], Any]:
    """Return the `__getattr__` of tensors, called for an attribute that a tensor does not have. The package's own code
    looks for attributes of its own classes, which users do not set.
    """

    def missing(t: Any, name: str) -> Any:
        hidden = _hidden.get(id(t))
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if asking == "ndgrad._src.compiler.capture.side_effects":  # getattr and hasattr of a trace
            asking = sys._getframe(2).f_globals.get("__name__", "")
        is_ours = asking.startswith("ndgrad.") or (name.startswith("__") and name.endswith("__"))
        if not is_ours and (tracer := find_tracer()) is not None:
            payload = _get_array(t)
            if payload.__class__ is not TracedArray and not isinstance(payload, BareTensor):
                tracer.note_attribute(t, name)
        elif hidden is not None and name in hidden.attributes:  # another thread, or code before the function
            return hidden.attributes[name]
        raise AttributeError(f"{t.__class__.__name__!r} object has no attribute {name!r}")

    return missing


def _make_graph_property(find_tracer: Callable[[], Any]) -> property:
    own = Node.__dict__["next_functions"]

    def get(node: Any) -> Any:
        if find_tracer() is not None:
            raise GraphBreak("the function walks through the graph of a result")
        return own.__get__(node)

    return property(get)


# ----- attributes that users set --------------------------------------------------------------------------------------


class _Hidden:
    """The hidden attributes of a captured tensor during traces: the tensor, its own `__dict__`, and the number of
    traces.
    """

    __slots__ = ("attributes", "count", "tensor")

    def __init__(self, tensor: Any, attributes: dict[str, Any]) -> None:
        self.tensor = tensor
        self.attributes = attributes
        self.count = 0


#: Hidden attributes, by the identities of tensors.
_hidden: dict[int, _Hidden] = {}
_lock = make_lock()


class WatchedAttributes(dict[str, Any]):
    """Stand-in for the `__dict__` of a captured tensor. Python finds and sets attributes in it without calling its
    methods, which serve functions that inspect the `__dict__` itself. Other threads see the tensor's own.
    """

    own: dict[str, Any]


def _make_method(name: str) -> Any:
    def method(self: WatchedAttributes, *args: Any, **kwargs: Any) -> Any:
        is_ours = sys._getframe(1).f_globals.get("__name__", "").startswith("ndgrad.")
        if current_tracer.get() is not None and (self.own or not is_ours):  # the package copies existing attributes
            raise GraphBreak("the function looks at the __dict__ of a tensor from outside")
        return getattr(self.own, name)(*args, **kwargs)

    return method


for _name in (
    "__contains__ __delitem__ __eq__ __ge__ __getitem__ __gt__ __ior__ __iter__ __le__ __len__ __lt__ __ne__ __or__ "
    "__repr__ __reversed__ __ror__ __setitem__ __reduce_ex__ clear copy get items keys pop popitem setdefault update "
    "values"
).split():
    setattr(WatchedAttributes, _name, _make_method(_name))


def attributes_of(t: Any) -> dict[str, Any]:
    """Return the `__dict__` that a tensor has outside of traces."""
    found = _hidden.get(id(t))
    own: dict[str, Any] = _attributes.__get__(t) if found is None else found.attributes
    return own


@contextmanager
def watch_attributes(arguments: Iterable[Any], environment: Environment) -> Iterator[None]:
    """Context in which a function is traced. User attributes of arguments are hidden, so that each lookup is seen.
    Attributes that the function sets on captured tensors end the trace and are removed.
    """
    given = {id(t): t for t in arguments if environment.find_entry(t) is None}
    if any(hasattr(t.__class__, name) for t in given.values() for name in attributes_of(t)):
        raise GraphBreak("an argument has an attribute that hides one of its class")
    for key, entry in environment.tensors.items():  # the environment compares existing attributes of captured tensors
        if not attributes_of(entry[0]):
            given[key] = entry[0]
    with _lock:
        for key, t in given.items():
            _hide(key, t)
    are_set = False
    try:
        yield
    finally:
        with _lock:
            for key in given:
                are_set = _show(key) or are_set
    if are_set:
        raise GraphBreak("the function sets an attribute of a tensor from outside")


def _hide(key: int, t: Any) -> None:
    found = _hidden.get(key)
    if found is None:
        found = _hidden[key] = _Hidden(t, _attributes.__get__(t))
        watched = WatchedAttributes()
        watched.own = found.attributes
        _attributes.__set__(t, watched)
    found.count += 1


def _show(key: int) -> bool:
    """Restore the attributes of a tensor when the last trace has ended; True if others were set in the meantime."""
    found = _hidden[key]
    is_set = dict.__len__(_attributes.__get__(found.tensor)) > 0
    found.count -= 1
    if not found.count:
        _attributes.__set__(found.tensor, found.attributes)
        del _hidden[key]
    return is_set
