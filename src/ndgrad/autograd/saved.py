"""Saved tensors: what a node keeps for its rules, and how it gets it back.

Note [What is saved]
An input is saved as the tensor itself, together with the version its memory had: identity, Python attributes and graph
come for free. An output is saved as its bare array, since the node must not hold the tensor that holds the node;
the node is told of the output's storage when one is made (`announce_storage`), so later writes are noticed. With
saved-tensor hooks active, either is a `SavedTensor` that went through the pack hook.

On the way back, a value whose memory was written since raises on torch's face and is rebuilt on NumPy's
(Note [Versions as a chain]).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad.autograd.node import Node, edge_number
from ndgrad.autograd.variable import Variable, edge, meta_of, wrap
from ndgrad.autograd.versions import Unrecorded, Version
from ndgrad.ops.table import VARIABLE

if TYPE_CHECKING:
    from ndgrad.ops.generate import SavePlan
    from ndgrad.ops.table import Op


class SavedTensor:
    """A saved value that is not simply the tensor: packed by hooks, or already freed."""

    __slots__ = ("is_output", "packed", "unpack_hook", "version")

    def __init__(self, packed: Any, unpack_hook: Any, version: Version | None = None, is_output: bool = False) -> None:
        self.packed = packed
        self.unpack_hook = unpack_hook
        self.version = version
        self.is_output = is_output

    def unpack(self) -> Any:
        value = self.unpack_hook(self.packed)
        if not isinstance(value, Variable):
            raise TypeError(
                f"the unpack hook of saved_tensors_hooks returned {type(value).__name__}, not a Tensor. "
                "Return the tensor that was packed, or one equal to it."
            )
        return value


FREED = SavedTensor(None, None)


def freed_error(node: Node) -> RuntimeError:
    return RuntimeError(
        f"{node.name()}: backward came through this part of the graph a second time, and the values it had saved were "
        "freed by the first. Pass retain_graph=True to the first backward() or grad() call, or run the forward again."
    )


def overwritten_error(node: Node, name: str, saved: int, now: int, shape: tuple[int, ...], writer: str | None) -> RuntimeError:
    by = f" by {writer}" if writer else ""
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {node.name()} "
        f"saved {name!r} (shape {tuple(shape)}) at version {saved}, and it was overwritten{by}: it is at version {now} now. "
        f"Use the out-of-place form of that write, or clone() the tensor before it is written."
    )


# ----- back to raw arrays, for an ordinary backward ------------------------------------------------------------------


def unpack_raw(node: Any, name: str, own_edge: Any = None) -> Any:
    """The payload of a saved value, after all checks; the generated `apply` calls this when the short way fails."""
    value = getattr(node, name)
    if value.__class__ is tuple:
        versions = getattr(node, name + "_v")
        return tuple(_input_array(node, name, v, version) for v, version in zip(value, versions, strict=True))
    if value.__class__ is SavedTensor or (isinstance(value, Variable) and name not in node.plan.outs):
        return _input_array(node, name, value, getattr(node, name + "_v"))
    if hasattr(node, name + "_s"):
        storage, version = getattr(node, name + "_s"), getattr(node, name + "_v")
        if storage is not None and storage.version is not version:
            if storage.keeps and isinstance(value, np.generic):
                return value  # a NumPy scalar cannot be overwritten: the write went to the array that took its place
            return _old_array(node, name, value, storage, version, storage.keeps)
    return value


def _input_array(node: Any, name: str, value: Any, version: Version | None) -> Any:
    from ndgrad.autograd.view import replay

    if value.__class__ is SavedTensor:
        if value is FREED:
            raise freed_error(node)
        return value.unpack()._array
    if not isinstance(value, Variable):
        return value
    storage = value._storage
    if storage is None or storage.version is version or (version is None and storage.version.writer is None):
        return value._array
    if isinstance(value._array, Variable) and version is not None and version.undo is not None and version.undo[0] is None:
        # in a transform the write left the whole base as it was (see ndgrad.func.writes)
        return replay(version.undo[2], None if value._meta is None or value._meta.view is None else value._meta.view.path)
    return _old_array(node, name, value._array, storage, version, value.keeps_saved)


def _old_array(node: Node, name: str, array: Any, storage: Any, version: Version | None, keeps: bool) -> Any:
    """What `array` held at `version`, or the error that says it is gone."""
    writer = version.next.writer if version is not None and version.next is not None else storage.version.writer
    if isinstance(array, Variable):
        if version is not None and version.undo is not None and version.undo[0] is None:
            return version.undo[2]
    elif (keeps or storage.keeps) and version is not None:
        try:
            return storage.restore(array, version)
        except Unrecorded as lost:
            writer = lost.writer
    saved = 0 if version is None else version.number
    raise overwritten_error(node, name, saved, storage.version.number, array.shape, writer)


# ----- back to tensors, for create_graph and transforms ---------------------------------------------------------------


def unpack_tensor(node: Any, name: str, own_edge: Any = None) -> Any:
    """A saved value as a tensor that knows its history at the time it was saved."""
    value = getattr(node, name)
    if value.__class__ is tuple:
        versions = getattr(node, name + "_v")
        return tuple(
            _input_tensor(node, name, v, version, e)
            for v, version, e in zip(value, versions, own_edge or [None] * len(value), strict=True)
        )
    if isinstance(value, (Variable, SavedTensor)):
        return _input_tensor(node, name, value, getattr(node, name + "_v"), own_edge)
    if hasattr(node, name + "_s"):
        out = wrap(node.face(), unpack_raw(node, name))
        out._node = node
        number = int(name[3:] or 0)
        if number:
            meta_of(out).output_nr = number
        out._storage = getattr(node, name + "_s")
        return out
    return lift(value)


def _input_tensor(node: Any, name: str, value: Any, version: Version | None, own_edge: Any) -> Any:
    if value.__class__ is SavedTensor and value is not FREED:
        return value.unpack()
    array = _input_array(node, name, value, version)
    if not isinstance(value, Variable):
        return lift(value)
    if array is value._array and (own_edge is None or edge(value) == own_edge):
        return value
    return with_history(wrap(value.face, array), own_edge)


def unpack_payload(node: Any, name: str, own_edge: Any = None) -> Any:
    """The payload of a value saved at a transform's level, as a tensor of the levels below."""
    payload, value = unpack_raw(node, name), getattr(node, name)
    if payload.__class__ is tuple:
        return tuple(lower_saved(node, v, p) for v, p in zip(value, payload, strict=True))
    return lower_saved(node, value, payload)


def lower_saved(node: Any, value: Any, payload: Any) -> Any:
    """A saved value as the levels below the node's see it. One that comes from there is seen as it is: its array alone
    would lose its batch or its history."""
    if not isinstance(value, Variable) or _is_of_level(value, node.level):
        return lift(payload)
    if payload is value or payload is value._array:
        return value
    old = wrap(type(value), payload)
    old._node, old._meta = value._node, value._meta
    return old


def _is_of_level(t: Any, level: int) -> bool:
    """Whether a saved tensor belongs to a level, which may have been closed since, so that no history can be made any more."""
    meta = t._meta
    if meta is not None and meta.batch_level:
        return bool(meta.batch_level == level)
    if t._node is not None:
        return bool(t._node.level == level)
    if meta is None or meta.level:
        return meta is not None and bool(meta.level == level)
    return meta.view is not None and _is_of_level(meta.view.base, level)


def lift(payload: Any) -> Any:
    """A payload as a tensor."""
    if isinstance(payload, Variable) or payload is None or type(payload) in (bool, int, float, complex):
        return payload
    from ndgrad.tensor import Tensor

    return wrap(Tensor, payload)


def with_history(t: Any, own_edge: Any) -> Any:
    """Give the fresh tensor `t` the gradient edge `own_edge`."""
    from ndgrad.autograd.variable import AccumulateGrad

    if own_edge is None:
        return t
    node = own_edge.node if not isinstance(own_edge, Node) else own_edge
    if isinstance(node, AccumulateGrad):
        from ndgrad.ops.shape import alias

        linked = alias(node.variable)
        linked._array = t._array
        linked._storage = None
        return linked
    t._node = node
    number = edge_number(own_edge)
    if number:
        meta_of(t).output_nr = number
    return t


class RuleNode(Node):
    """A node whose gradients are computed by the rules of an op."""

    __slots__ = ()
    op: ClassVar[Op]
    plan: ClassVar[SavePlan]

    def face(self) -> type[Any]:
        from ndgrad.tensor import Tensor

        return Tensor

    def announce_storage(self, out: Any, storage: Any) -> None:
        """The memory of an output that may be saved here is now shared or about to be written."""
        number = 0 if out._meta is None else out._meta.output_nr
        name = "out" if self.outputs == 1 else f"out{number}"
        if name in self.plan.outs:
            setattr(self, name + "_s", storage)
            setattr(self, name + "_v", storage.version)

    def environment(self, unpack: Any, ops: Any) -> dict[str, Any]:
        """The saved values by the names rules use, only those that some needed rule names."""
        op, plan = self.op, self.plan
        if op.variadic:
            # the collecting name, if gradients flow to it, has the edges behind those of the fixed arguments
            needed = set(op.differentiable_args)
            fixed = [a for a in op.differentiable_args if a != op.args[-1]]
            edges: dict[str, Any] = dict(zip(fixed, self.next, strict=False))
            if op.args[-1] in needed:
                edges[op.args[-1]] = self.next[len(fixed) :]
        else:
            needed = {a for a, e in zip(op.differentiable_args, self.next, strict=True) if e is not None}
            edges = dict(zip(op.differentiable_args, self.next, strict=True))
        env: dict[str, Any] = {"ops": ops}
        for name in plan.arrays + plan.outs:
            if plan.users[name] & needed:
                env[name] = unpack(self, name, edges.get(name))
        for name in plan.settings + plan.facts:
            env[name] = getattr(self, name)
        return env

    def run_rules(self, env: dict[str, Any], grads: Any) -> tuple[Any, ...]:
        op = self.op
        conjugate = op.jvp == "elementwise" and self.dtype.kind == "c"
        if op.outputs == 1:
            env["g"] = env["t"] = env["ops"].conj(grads) if conjugate else grads
        elif op.outputs == VARIABLE:
            env["gs"] = tuple(grads)
        else:
            env.update((f"g{i}", g) for i, g in enumerate(grads))
        if op.joint_rule is not None:
            rule, names = op.joint_rule
            env["needs"] = tuple(e is not None for e in self.next)
            return tuple(rule(*[env[n] for n in names]))
        out: list[Any] = []
        for (rule, names), e in zip(op.rules.values(), self.next, strict=True):
            if e is None:
                out.append(None)
                continue
            value = rule(*[env[n] for n in names])
            out.append(env["ops"].conj(value) if conjugate and value is not None else value)
        return tuple(out)

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        outs = self.run_rules(self.environment(unpack_raw, ops), grads)
        if not keep:
            self.release()
        return outs

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        from ndgrad.ops.vocabulary import tensor_ops

        return self.run_rules(self.environment(unpack_tensor, tensor_ops), grads)

    def apply_payloads(self, grads: Any) -> tuple[Any, ...]:
        from ndgrad.ops.vocabulary import tensor_ops

        return self.run_rules(self.environment(unpack_payload, tensor_ops), grads)
