"""Captured tensors: proxies for tensors that a traced function did not make.

Note [Captured tensors]
A function reaches tensors as arguments, in closures, globals and modules. During a trace, each of them that is used has
a `CapturedTensor`: a traced array in place of its payload, and a node, metadata and a memory version of its own. The
tracing thread reads and sets the attributes of this proxy instead of those of the tensor. So code cannot read values of
the tensor (the traced array refuses). Writes, `.grad` and history of the trace do not reach the tensor itself, and
other threads see no change.

For this, the four slots of a tensor are properties of the class `Tensor` while any thread traces. At other times they
are the bare slots and cost nothing. Metadata that guards do not compare are replaced likewise (see
ndgrad._src.compiler.capture.tensor_metadata).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.tensor_metadata import list_replacements
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.borrowed_memory import Lent
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import modes
from ndgrad._src.core.node import Node, make_node
from ndgrad._src.core.variable import BareTensor, Meta, requires_grad
from ndgrad._src.core.versions import InferenceStorage
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.tensor.tensor_class import Tensor

_SLOTS = {name: BareTensor.__dict__[name] for name in ("_array", "_node", "_storage", "_meta")}
_array, _node, _storage, _meta = _SLOTS.values()
_get_array, _set_array = _array.__get__, _array.__set__


class CapturedTensorBackward(Node):
    """Stand-in for the history of a tensor that was computed outside of the trace. Gradients end here."""

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        raise GraphBreak("backward() inside the function goes on into a graph that was made outside")

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self.apply(grads, None)


class CapturedMeta(Meta):
    """Metadata of a captured tensor, which record whether its gradient was read or set."""

    __slots__ = ("asked", "stored_grad")

    def __init__(self, grad: Any) -> None:
        super().__init__()
        self.asked = False
        self.stored_grad = grad

    @property
    def grad(self) -> Any:
        self.asked = True
        return self.stored_grad

    @grad.setter
    def grad(self, value: Any) -> None:
        self.asked = True
        self.stored_grad = value


class CapturedTensor:
    """Proxy through which a trace sees a captured tensor."""

    __slots__ = (
        "_array", "_meta", "_node", "_storage", "before", "grad_before", "has_hooks", "is_result", "leaf_asked", "source",
    )  # fmt: skip

    def __init__(self, source: Any, payload: TracedArray) -> None:
        """Create the proxy. The tensor's own slots must be visible, not the properties of a trace."""
        self.source = source
        self._array = payload
        self._node: Any = None
        self._storage: Any = None
        meta = _meta.__get__(source)
        #: Gradient before the trace.
        self.grad_before = None if meta is None else meta.grad
        own = self._meta = CapturedMeta(self.grad_before)
        if meta is not None:
            own.grad_dtype, own.names, own.requires_grad = meta.grad_dtype, meta.names, meta.requires_grad
        #: True if it was computed outside of the trace and so has a history there.
        self.is_result = requires_grad(source) and not own.requires_grad
        if self.is_result:
            self._node = make_node(CapturedTensorBackward, (), payload.shape, payload.dtype)
        #: True if hooks see the gradient when it arrives.
        self.has_hooks = meta is not None and bool(meta.hooks or meta.post_accumulate_hooks or meta.retains_grad)
        #: True if the function reads `is_leaf`.
        self.leaf_asked = False
        #: State before the function ran.
        self.before = (self._node, *self._facts())

    def _facts(self) -> tuple[Any, ...]:
        meta = self._meta
        return (
            meta.requires_grad, meta.grad_dtype, meta.names, meta.hooks, meta.post_accumulate_hooks, meta.retains_grad,
            meta.geometry, meta.view,
        )  # fmt: skip

    def change(self) -> str | None:
        """Return a description of a change to the tensor that a program cannot make; None if there is none. A program
        can write its memory and give it a gradient.
        """
        node, *facts = self.before
        if self._node is not node:
            return "a tensor from outside is written and gets a history"
        if any(a is not b for a, b in zip(facts, self._facts(), strict=True)):
            return "a tensor from outside is changed (requires_grad, hooks, names or shape)"
        if self._meta.stored_grad is not self.grad_before and (self.has_hooks or self.is_result):
            return "backward() inside the function reaches a tensor from outside that has hooks or a history"
        return None


def _find_proxy(t: Any, payload: Any) -> CapturedTensor | None:
    """Return the proxy of a captured tensor in the trace of this thread. Return None for a tensor that the trace has
    made, and without a trace.
    """
    if payload.__class__ is TracedArray or isinstance(payload, BareTensor):
        return None
    tracer = find_tracer()
    return None if tracer is None else tracer.capture(t, payload)


def find_tracer() -> Any:
    """Return the innermost tracer that sees the ops of this context, such as that of a loop body; None if there is
    none.
    """
    state = modes()
    tracer = state.tracer()  # nearly always
    if tracer is not None:
        return tracer
    for observer in reversed(state.observers):
        if getattr(observer, "is_tracer", False):
            return observer
    return None


def payload_of(t: Any) -> Any:
    """Return the payload that a tensor itself has, traced or not."""
    return _get_array(t)


def _property(name: str) -> property:
    slot = _SLOTS[name]
    read, write = slot.__get__, slot.__set__
    read_proxy = CapturedTensor.__dict__[name].__get__

    def get(t: Any) -> Any:
        payload = _get_array(t)
        kind = payload.__class__
        if kind is TracedArray or kind in TENSOR_TYPES:  # made by the trace or by a transform, the most frequent cases
            return read(t)
        tracer = modes().tracer()
        proxy = None if tracer is None else tracer.find_captured(id(t))
        if proxy is None:
            proxy = _find_proxy(t, payload)
        return read(t) if proxy is None else read_proxy(proxy)

    def set_(t: Any, value: Any) -> None:
        try:
            payload = _get_array(t)
        except AttributeError:  # a tensor under construction
            write(t, value)
            return
        if payload.__class__ is TracedArray and value.__class__ is not Lent:
            write(t, value)
            return
        proxy = _find_proxy(t, payload)
        if proxy is None:
            if value.__class__ is Lent and (tracer := find_tracer()) is not None:
                tracer.note_shared(payload)
                return
            write(t, value)
        else:
            setattr(proxy, name, value)

    return property(get, set_)


def _get_payload(t: Any) -> Any:
    payload = _get_array(t)
    if payload.__class__ is TracedArray:
        return payload
    proxy = _find_proxy(t, payload)
    return payload if proxy is None else proxy._array


def _set_payload(t: Any, value: Any) -> None:
    if value.__class__ is not TracedArray and (isinstance(value, (np.ndarray, np.generic)) or is_on_device(value)):
        tracer = find_tracer()
        if tracer is not None:
            value = tracer.capture_array(value)
    try:
        before = _get_array(t)
    except AttributeError:  # a tensor under construction
        _set_array(t, value)
        return
    proxy = _find_proxy(t, before)
    if proxy is None:
        _set_array(t, value)
    elif value is not proxy._array:
        raise GraphBreak("a tensor from outside is given another shape or other memory in place")


_PROPERTIES = {
    "_array": property(_get_payload, _set_payload),
    **{name: _property(name) for name in ("_node", "_storage", "_meta")},
}
_active_traces = 0
#: Replaced attributes during traces: class, name, and the attribute of the class itself or None.
_replaced: list[tuple[type, str, Any]] = []
_lock = make_lock()


def _install_properties() -> None:
    """Replace the slots of tensors by properties that consult the tracer."""
    slots: list[tuple[type, str, Any]] = [(Tensor, name, made) for name, made in _PROPERTIES.items()]
    for cls, name, made in (*slots, *list_replacements(find_tracer)):
        own = cls.__dict__.get(name)
        setattr(cls, name, made)
        _replaced.append((cls, name, own))


def _restore_slots() -> None:
    """Restore the slots of tensors."""
    while _replaced:
        cls, name, own = _replaced.pop()
        if own is None:
            delattr(cls, name)
        else:
            setattr(cls, name, own)


class use_proxies:
    """Context in which this thread sees captured tensors through its tracer, if it has one."""

    def __enter__(self) -> None:
        global _active_traces
        with _lock:
            _active_traces += 1
            if _active_traces == 1:
                try:
                    _install_properties()
                except BaseException:
                    _active_traces = 0
                    _restore_slots()
                    raise

    def __exit__(self, *exc: object) -> None:
        global _active_traces
        with _lock:
            _active_traces -= 1
            if _active_traces == 0:
                _restore_slots()


def _restore_after_fork() -> None:
    """Restore the slots in a forked child. It has only the thread that forked, so no other thread will do so."""
    global _active_traces
    if _active_traces and current_tracer.get() is None:
        _active_traces = 0
        _restore_slots()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore_after_fork)


def refuse_tensor(t: Any) -> str | None:
    """Return the reason why a tensor cannot be an input of a program; None if it can."""
    payload = _get_array(t)
    if t.__class__ not in TENSOR_TYPES:
        return f"a tensor of class {type(t).__name__} takes part, which may have rules of its own"
    if payload.__class__ is not np.ndarray and not isinstance(payload, np.generic) and not is_on_device(payload):
        return f"a tensor over {type(payload).__name__} takes part"
    meta = _meta.__get__(t)
    if meta is not None and (meta.level or meta.batch_level or meta.tangents):
        return "a tensor of a function transform takes part"
    if _storage.__get__(t).__class__ is InferenceStorage:
        return "a tensor that was made in inference mode takes part"
    return None
