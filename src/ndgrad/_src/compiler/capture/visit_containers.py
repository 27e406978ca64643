"""Objects that containers hold: lists, dictionaries, sets, arrays, context variables."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.capture.captured_state import (
    MISSING,
    CapturedSlots,
    Contents,
    is_plain,
    refill,
    refill_list,
    refill_set,
)
from ndgrad._src.compiler.capture.visit_objects import Visitor, visit_class
from ndgrad._src.core.variable import Variable

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects

#: Arrays of up to SMALL bytes are compared at each call with a copy of their bytes; arrays of more than LARGE bytes are
#: not compared at all.
SMALL = 65_536
LARGE = 1 << 28


def visit_dict(walk: ReachableObjects, what: str, d: Any, name: str | None) -> None:
    walk.capture_entries(what, d, name)
    if isinstance(d, collections.defaultdict):
        write = lambda saved: setattr(d, "default_factory", saved[0])
        slots = CapturedSlots(f"{what}.", ["default_factory"], lambda: [d.default_factory], write, ("factory", d))
        walk.capture(slots, name)


def visit_list(walk: ReachableObjects, what: str, items: Any, name: str | None) -> None:
    labels = [f"[{i}]" for i in range(len(items))]
    walk.capture(CapturedSlots(what, labels, lambda: list(items), functools.partial(refill_list, items), ("items", items)), name)


def visit_tuple(walk: ReachableObjects, what: str, items: Any, name: str | None) -> None:
    _reach_items(walk, what, items, name)  # the tuple is constant, but its items may change


def _reach_items(walk: ReachableObjects, what: str, items: Iterable[Any], name: str | None) -> None:
    for i, item in enumerate(items):
        if isinstance(item, Variable):
            walk.count_tensor(f"{what}[{i}]", item)
        elif not is_plain(item):
            walk.pending.append((f"{what}[{i}]", item, name))


def visit_set(walk: ReachableObjects, what: str, items: Any, name: str | None) -> None:
    write = functools.partial(refill_set, items) if isinstance(items, set) else None
    walk.capture(CapturedSlots(what, (), lambda: sorted(items, key=id), write, ("set", items)), name)


def visit_proxy(walk: ReachableObjects, what: str, proxy: Any, name: str | None) -> None:
    walk.capture(CapturedSlots(what, (), lambda: [*proxy.keys(), *proxy.values()], None), name)


def visit_bytes(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    def write(saved: list[Any]) -> None:
        value[:] = saved[0] if isinstance(value, bytearray) else array.array(value.typecode, saved[0])

    walk.capture(CapturedSlots(what, (), lambda: [value.tobytes() if isinstance(value, array.array) else bytes(value)], write), name)


def visit_context_variable(walk: ReachableObjects, what: str, variable: Any, name: str | None) -> None:
    def read_value() -> list[Any]:
        try:
            return [variable.get()]  # its own default counts, too
        except LookupError:
            return [MISSING]

    walk.capture(CapturedSlots(f"{what}, a context variable", (), read_value, None), name)


def visit_thread_local(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    visit_class(walk, type(value))

    def read_values() -> list[Any]:
        own = value.__dict__  # attributes of this thread
        return [*own.keys(), *own.values()]

    walk.capture(CapturedSlots(what, (), read_values, lambda saved: refill(value.__dict__, saved)), name)


def visit_array(walk: ReachableObjects, what: str, array: Any, name: str | None) -> None:
    if array.nbytes > LARGE or array.dtype.hasobject:
        reason = f"{what} is a NumPy array of {array.nbytes} bytes, too many to be compared before each call: make it a tensor"
        if array.dtype.hasobject:
            reason = f"{what} is a NumPy array of Python objects, which cannot be compared before each call"
        walk.opaque.note_object(what, array, name, reason)
        return
    if array.nbytes > SMALL:
        known = Contents(array)
        put = (lambda saved: saved[0].write(array)) if array.flags.writeable else None
        label = f" ({array.nbytes} bytes, compared before each call; those of a tensor are not)"
        walk.capture(CapturedSlots(what, [label], lambda: [known if known.are_in(array) else Contents(array)], put), name)
        return

    def write(saved: list[Any]) -> None:
        array[...] = np.frombuffer(saved[0][2], array.dtype).reshape(array.shape)

    write_back = write if array.flags.writeable else None
    walk.capture(
        CapturedSlots(what, (), lambda: [(array.shape, array.dtype.str, array.tobytes())], write_back, ("array", array)), name
    )


#: Visitors for classes and their subclasses.
CONTAINERS: dict[type, Visitor] = {
    np.ndarray: visit_array,
    list: visit_list,
    collections.deque: visit_list,
    dict: visit_dict,
    set: visit_set,
    frozenset: visit_set,
    tuple: visit_tuple,
    bytearray: visit_bytes,
    array.array: visit_bytes,
    threading.local: visit_thread_local,
    contextvars.ContextVar: visit_context_variable,
}
