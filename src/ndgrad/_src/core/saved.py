"""Saved tensors: the values that a node keeps for its rules, and their recovery in backward.

Note [What is saved]
An input is saved as the tensor itself, together with the version of its memory: identity, Python attributes and graph
are kept for free (for views and similar, see stored_tensors). An output is saved as its bare array, because a reference
from the node to the tensor that holds the node would be a cycle. When a storage for the output is made, the node is
notified (`announce_storage`), so that later writes are detected. With saved-tensor hooks active, both are saved as a
`Packed` that went through the pack hook.

In backward, a value whose memory was written since raises for torch's tensor class, and is rebuilt for NumPy's (Note
[Versions as a chain]).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad._src.arrays import device_kernels
from ndgrad._src.arrays.precision import FLOAT32, HALF, computing_dtype, is_half, widen
from ndgrad._src.core.modes import SavedHooks, modes, process, thread
from ndgrad._src.core.node import Node, edge_number
from ndgrad._src.core.saved_errors import changed_error, freed_error, overwritten_error
from ndgrad._src.core.stored_tensors import FREED, Packed, has_history, is_of_level, original
from ndgrad._src.core.variable import AccumulateGrad, Variable, edge, innermost_array, meta_of, np_dtype, twin, wrap
from ndgrad._src.core.versions import ScalarStorage, Storage, Unrecorded, Version, storage_of
from ndgrad._src.core.view import replay, tangents_of
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.kernel_error import KernelError
from ndgrad._src.ops.table import VARIABLE, parameter_names
from ndgrad._src.ops.vocabulary import find, owning_tensor_ops, tensor_ops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.core.node import Edge
    from ndgrad._src.ops.table import Op
    from ndgrad._src.ops.vocabulary import RawOps
    from ndgrad._typing import Payload, SavePlan, Vocabulary


def hooks_for(level: int) -> tuple[SavedHooks, ...]:
    """Return the saved-tensor hooks in force for the graph of a transform's level (0: outside all transforms)."""
    hooks = modes().saved_hooks
    return tuple([h for h in hooks if h.level is None or level <= h.level]) if level else hooks


def run_unpack(node: Node, name: str, value: Packed) -> Any:
    """Return the tensor that the unpack hook makes from a packed value."""
    if thread.task is not None:
        thread.task.node = node  # user code is about to run, and may ask for the node
    made, storage = value.unpack(), value.storage
    if storage is not None and made._storage is storage and storage.version is not value.version:
        return wrap(made.tensor_type, _array_at(node, name, made, value.version))
    if (
        value.level is not None
        and not value.is_output
        and made is value.packed
        and value.level != registry.level_number(made)
    ):
        raise overwritten_error(node, name, tuple(made.shape), value.version, storage_of(made).version)
    return made


# ----- conversion to raw arrays, for an ordinary backward -------------------------------------------------------------


def unpack_raw(node: RuleNode, name: str, own_edge: Any = None) -> Payload:
    """Return the payload of a saved value, after all checks. The generated `apply` calls it if its fast path fails."""
    value = getattr(node, name)
    if value.__class__ is Packed and value.checksum.__class__ is bytes and name not in node.plan.outs:
        # Small lent memory without a further write: the checks of the general path in fewer calls.
        kept = value.packed
        storage = kept._storage if isinstance(kept, Variable) else None
        if storage is not None and storage.version is getattr(node, name + "_v"):
            array = kept._array
            if array.tobytes() != value.checksum:
                raise changed_error(node, name, array.shape)
            return array
    if value.__class__ is tuple:
        versions = getattr(node, name + "_v")
        return tuple(input_array(node, name, v, version) for v, version in zip(value, versions, strict=True))
    if value.__class__ is Packed and value.checksum is not None and name in node.plan.outs:
        return verify(node, name, value, _output_array(node, name, value.packed))
    if value.__class__ is Packed or (isinstance(value, Variable) and name not in node.plan.outs):
        return input_array(node, name, value, getattr(node, name + "_v"))
    return _output_array(node, name, value)


def _output_array(node: RuleNode, name: str, value: Payload) -> Payload:
    if hasattr(node, name + "_s"):
        storage, version = getattr(node, name + "_s"), getattr(node, name + "_v")
        if storage is not None and storage.version is not version:
            if storage.keeps and isinstance(value, np.generic):
                return value  # a NumPy scalar cannot be overwritten: the write went to the array that replaced it
            if version is not None and version.is_only_reassigned():
                return value  # the node keeps the old array, and nothing has written to it
            return old_array(node, name, value, storage, version, storage.keeps)
    return value


def input_array(node: Node, name: str, value: Payload, version: Version | None) -> Payload:
    """Return the payload of a saved value at `version`; raise if it has been overwritten."""
    if value.__class__ is Packed:
        if value is FREED:
            raise freed_error(node)
        if value.checksum is not None:
            return verify(node, name, value, input_array(node, name, value.packed, version))
        return run_unpack(node, name, value)._array
    return _array_at(node, name, value, version) if isinstance(value, Variable) else value


def _array_at(node: Node, name: str, value: Payload, version: Version | None) -> Payload:
    """Return the payload that a tensor had at `version`."""
    storage = value._storage
    if storage is None or storage.version is version or (version is None and storage.version.writer is None):
        return value._array
    if version is None and storage.__class__ is ScalarStorage:
        return storage.scalar
    if version is not None and version.undo is not None and version.undo[0] is None:
        # In a transform, the write left the whole base unchanged (see ndgrad._src.interpreters.transform_writes).
        old = old_payload(value, version.undo[2])
        if tuple(old.shape) != tuple(value._array.shape):
            raise overwritten_error(node, name, value._array.shape, version, storage.version)
        return old
    return old_array(node, name, value._array, storage, version, value.keeps_saved)


def old_payload(value: Payload, base: Payload) -> Payload:
    """Return the old payload of a saved tensor of a transform, as a part of the old payload of its base."""
    old = _old_part(value, base)
    return old if isinstance(value._array, Variable) else innermost_array(old)


def _old_part(value: Payload, base: Payload) -> Payload:
    meta = value._meta
    path = None if meta is None else meta.path if meta.view is None else meta.view.path
    if path is None or not meta.batch_level:
        return replay(base, path)
    batch = wrap(value.tensor_type, base)  # the path applies to single samples
    meta_of(batch).batch_level = meta.batch_level
    return replay(batch, path)._array


def old_array(
    node: Node, name: str, array: NDArray[Any], storage: Storage, version: Version | None, keeps: bool
) -> NDArray[Any]:
    """Return the content of `array` at `version`; raise if it is gone."""
    if isinstance(array, Variable):
        if version is not None and version.undo is not None and version.undo[0] is None:
            return version.undo[2]
    elif (keeps or storage.keeps) and version is not None:
        try:
            return storage.restore(array, version)
        except Unrecorded:
            pass
    raise overwritten_error(node, name, array.shape, version, storage.version)


def verify(node: Node, name: str, value: Packed, array: Payload) -> Payload:
    """Return `array` if its checksum still matches; otherwise raise."""
    if value.measure(array, saved=value.packed) != value.checksum:
        raise changed_error(node, name, array.shape)
    return array


# ----- conversion to tensors, for create_graph and transforms ---------------------------------------------------------


def unpack_tensor(node: RuleNode, name: str, own_edge: Any = None) -> Any:
    """Return a saved value as a tensor with its history at the time of saving."""
    value = getattr(node, name)
    if value.__class__ is tuple:
        versions = getattr(node, name + "_v")
        return tuple(
            input_tensor(node, name, v, version, e)
            for v, version, e in zip(value, versions, own_edge or [None] * len(value), strict=True)
        )
    is_output = name in node.plan.outs  # saved as its payload, a tensor if a lower level needs it
    if _went_through_hooks(value) or (isinstance(value, (Variable, Packed)) and not is_output):
        return input_tensor(node, name, value, getattr(node, name + "_v"), own_edge)
    if is_output:
        payload = unpack_raw(node, name)
        if isinstance(payload, Variable) and not is_differentiable_output(node, name):
            return payload  # the level has no graph of it
        out = as_output(node, name, wrap(node.tensor_type(), payload))
        out._storage = getattr(node, name + "_s")
        return out
    return lift(value)


def input_tensor(
    node: Node, name: str, value: Payload, version: Version | None, own_edge: Node | Edge | None
) -> Variable:
    if value.__class__ is Packed and value.checksum is not None:
        array = input_array(node, name, value, version)
        value = value.packed
    elif value.__class__ is Packed and value is not FREED:
        found = run_unpack(node, name, value)
        if not value.is_output:
            return link_history(found, own_edge)
        return as_output(node, name, twin(found))
    else:
        array = input_array(node, name, value, version)
    if not isinstance(value, Variable):
        return lift(value)
    value = original(value)
    if array is value._array and (own_edge is None or edge(value) == own_edge):
        return value
    return with_history(twin(value) if array is value._array else wrap(value.tensor_type, array), own_edge)


def as_output(node: Node, name: str, out: Variable) -> Variable:
    """Give the new tensor `out` the history of the node's own output, and return it.

    The node does not hold its output, which would be a cycle.
    """
    if is_differentiable_output(node, name):
        out._node = node
        if node.outputs != 1:
            meta_of(out).output_nr = int(name[3:] or 0)
    return out


def is_differentiable_output(node: Any, name: str) -> bool:
    """True if a saved output takes gradients (indices do not)."""
    return int(name[3:] or 0) not in node.op.discrete_outputs


def unpack_payload(node: RuleNode, name: str, own_edge: Any = None) -> Payload:
    """Return the payload of a value saved at a transform's level, as a tensor of the levels below."""
    value = getattr(node, name)
    if value.__class__ is tuple:
        versions = getattr(node, name + "_v")
        return tuple(_input_payload(node, name, v, version) for v, version in zip(value, versions, strict=True))
    if name not in node.plan.outs or _went_through_hooks(value):
        return _input_payload(node, name, value, getattr(node, name + "_v", None))
    return lift(unpack_raw(node, name))  # an output is saved as a payload


def _input_payload(node: RuleNode, name: str, value: Payload, version: Version | None) -> Payload:
    if _went_through_hooks(value):
        return lower_unpacked(node, value, run_unpack(node, name, value))
    return lower_saved(node, _without_guard(value), input_array(node, name, value, version))


def _went_through_hooks(value: Payload) -> bool:
    return value.__class__ is Packed and value.checksum is None and value is not FREED


def lower_unpacked(node: Node, value: Packed, made: Variable) -> Variable:
    """Return the result of an unpack hook as the levels below the node's level see it."""
    if value.edge is not None or value.tangents:
        made = link_history(made, value.edge)
        if value.tangents and not tangents_of(made):
            made = with_history(twin(made), edge(made))
            meta_of(made).tangents = value.tangents
        return made
    bare = made._node is None and not (made._meta is not None and (made._meta.level or made._meta.batch_level))
    # Without history, a tensor over another tensor is either the packed output itself or a twin of it.
    low = made._array if bare and isinstance(made._array, Variable) else lower_saved(node, made, made._array)
    if value.below and not has_history(low):
        raise RuntimeError(
            f"{node.name()}: saved_tensors_hooks returned a tensor that has lost its history in an outer "
            "function transform, so second derivatives would be wrong: hooks run without recording. "
            "Pack the tensor itself, or leave hooks out of nested transforms. [nd-saved-hook]"
        )
    return low


def _without_guard(value: Payload) -> Payload:
    return value.packed if value.__class__ is Packed and value.checksum is not None else value


def lower_saved(node: Node, value: Payload, payload: Payload, tensor_type: type[Any] | None = None) -> Payload:
    """Return a saved value as the levels below the node's level see it.

    A value from those levels is returned unchanged: its array alone would lose its batch or its history.
    """
    if not isinstance(value, Variable) or is_of_level(value, node.level):
        return lift(payload, tensor_type)
    if payload is value or payload is value._array:
        return value
    old = wrap(type(value), payload)
    old._node, old._meta = value._node, value._meta
    return old


def lift(payload: Payload, tensor_type: type[Any] | None = None) -> Payload:
    """Return a payload as a tensor."""
    if isinstance(payload, Variable) or payload is None or payload.__class__ in (bool, int, float, complex):
        return payload
    from ndgrad._src.foundations.registry import Tensor  # the class lies above the core

    return wrap(tensor_type or Tensor, payload)


def with_history(t: Variable, own_edge: Node | Edge | None) -> Variable:
    """Give the new tensor `t` the gradient edge `own_edge`, and return it."""
    if own_edge is None:
        return t
    node = own_edge.node if not isinstance(own_edge, Node) else own_edge
    if isinstance(node, AccumulateGrad):
        # Reuse the accumulator: gradients of ops on `t` then end at the leaf that was saved.
        meta = meta_of(t)
        meta.requires_grad, meta.level, meta.accumulator = True, node.level, weakref.ref(node)
        return t
    if t._storage is None:
        t._storage = Storage()  # separate memory, not that of a result that the node may have saved
    t._node = node
    if node.outputs != 1:
        meta_of(t).output_nr = edge_number(own_edge)
    return t


def link_history(t: Variable, own_edge: Node | Edge | None) -> Variable:
    """Return the result of an unpack hook, with the history that the packed tensor had."""
    if own_edge is None or edge(t) == own_edge:
        return t
    return with_history(twin(t), own_edge)


def in_single(value: Payload, ops: Vocabulary) -> Payload:
    """Convert a value for a rule, or a fact about a value, from half precision to float32 (Note [Half precision])."""
    if isinstance(value, Variable):
        return ops.cast(value, dtype=FLOAT32) if is_half(np_dtype(value)) else value
    if isinstance(value, (tuple, list)):
        return type(value)([in_single(v, ops) for v in value])
    return computing_dtype(value) if isinstance(value, np.dtype) else widen(value)


class RuleNode(Node):
    """A node whose gradients are computed by the rules of an op."""

    __slots__ = ()
    op: ClassVar[Op]
    plan: ClassVar[SavePlan]

    def tensor_type(self) -> type[Any]:
        from ndgrad._src.foundations.registry import Tensor  # the class lies above the core

        return Tensor

    def announce_storage(self, out: Payload, storage: Storage) -> Storage:
        """Store the storage of an output that may be saved here: its memory is now shared or about to be written.

        Return the storage of the output. It may be known already, through a tensor made from the saved value.
        """
        number = 0 if out._meta is None else out._meta.output_nr
        name = "out" if self.outputs == 1 else f"out{number}"
        if name in self.plan.outs:
            known = getattr(self, name + "_s", None)
            if known is not None:
                return known
            setattr(self, name + "_s", storage)
            setattr(self, name + "_v", storage.version)
        return storage

    def edges_by_argument(self) -> dict[str, Any]:
        """Return the gradient edges of the arguments by name; a tuple of edges for a collecting argument."""
        op = self.op
        if not op.variadic:
            return dict(zip(op.differentiable_args, self.next, strict=True))
        # The edges of a differentiable collecting argument follow those of the fixed arguments.
        fixed = [a for a in op.differentiable_args if a != op.args[-1]]
        edges: dict[str, Any] = dict(zip(fixed, self.next, strict=False))
        if op.args[-1] in op.differentiable_args:
            edges[op.args[-1]] = self.next[len(fixed) :]
        return edges

    def environment(self, unpack: Callable[..., Payload], ops: Vocabulary | None) -> dict[str, Any]:
        """Return the saved values that the needed rules name, by the names that rules use."""
        plan = self.plan
        env: dict[str, Any] = {"ops": ops}
        arrays, outs = plan.needed(self.next)
        if arrays or outs:
            edges = self.edges_by_argument()
            for name in arrays + outs:
                env[name] = unpack(self, name, edges.get(name))
        for name in plan.settings + plan.facts:
            env[name] = getattr(self, name)
        return env

    def run_rules(self, env: dict[str, Any], grads: Any) -> tuple[Any, ...]:
        """Return the gradients of the inputs by the op's rules."""
        op = self.op
        if self.dtype.char in HALF:
            plan, ops = self.plan, env["ops"]
            env.update(
                (name, in_single(env[name], ops)) for name in plan.arrays + plan.outs + plan.facts if name in env
            )
            grads = in_single(grads, ops)
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
        # Rules run from last to first, because the first may change the gradient (see ndgrad._src.core.part_gradients).
        for (rule, names), e in zip(reversed(op.rules.values()), reversed(self.next), strict=True):
            if e is None:
                out.append(None)
                continue
            value = rule(*[env[n] for n in names])
            out.append(env["ops"].conj(value) if conjugate and value is not None else value)
        out.reverse()
        return tuple(out)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the op's call, for an op by which parts are looked up."""
        return {s: getattr(self, s) for s in self.op.settings}

    def adjoint_write(
        self, g: Payload, ops: RawOps | None, payloads: bool = False
    ) -> tuple[Op, tuple[Any, ...], dict[str, Any]]:
        """Return the in-place op that adds `g` to the gradient of the array that was read, with its arguments.

        With `ops` it runs on raw arrays, otherwise on tensors.
        """
        unpack = unpack_raw if ops is not None else unpack_payload if payloads else unpack_tensor
        env = self.environment(unpack, ops)
        env["g"] = g
        described = self.op.adjoint_write
        assert described is not None
        name, others, settings = described(*[env[n] for n in parameter_names(described)])
        return find(name), others, settings

    def apply(self, grads: Any, ops: Vocabulary, keep: bool = True) -> tuple[Any, ...]:
        try:
            outs = self.run_rules(self.environment(unpack_raw, ops), grads)
        except KernelError as error:  # nothing has been released
            device_kernels.warn_of(self.name(), error)
            with device_kernels.without_kernels():
                outs = self.run_rules(self.environment(unpack_raw, ops), grads)
        if not keep:
            self.release()
        return outs

    def apply_tensors(self, grads: Any, owned: bool = False) -> tuple[Any, ...]:
        env = self.environment(unpack_tensor, owning_tensor_ops if owned else tensor_ops)
        if process.open:
            env.update(
                (name, registry.forward_ad.restore_tangents(self, name, env[name]))
                for name in self.plan.arrays + self.plan.outs
                if name in env
            )
        return self.run_rules(env, grads)

    def apply_payloads(self, grads: Any, owned: bool = False) -> tuple[Any, ...]:
        return self.run_rules(self.environment(unpack_payload, owning_tensor_ops if owned else tensor_ops), grads)
