"""The node of a compiled call: its backward is the compiled backward program.

It saves values for that program under the rules of every node: memory of the caller is checked for writes before use,
and for NumPy's tensor class restored. If gradients are differentiated, or only some results have one, the gradients are
computed by a compiled function of their own (see Note [Derivatives of a compiled call]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.native.calls import make_fill
from ndgrad._src.compiler.runtime.guard_source import GuardSource
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.node import MultiNode, make_node
from ndgrad._src.core.record import saved_input
from ndgrad._src.core.references import LOCAL
from ndgrad._src.core.saved import input_array, input_tensor, old_array
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.variable import AccumulateGrad, Variable, edge, np_dtype, requires_grad, shape_of, wrap
from ndgrad._src.core.versions import kept_storage, storage_of
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.runtime.specialization import Specialisation

_FREED: Any = object()

#: Reference count of a gradient that only a tuple and a local variable hold; 0 if counts are not reliable.
_ALONE = LOCAL + 1 if LOCAL else 0

#: Default gradients of real numbers. Programs do not write to them.
_ONES: dict[Any, Any] = {((), dtype): np.ones((), dtype) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}


def gradient_giver(gradients: Sequence[tuple[int, Any]], leaves: Sequence[Any]) -> Callable[[Any, Any], Any]:
    """Return a function of the gradients of a call, a tuple, and of its graph edges. It sets the `.grad` of all leaves
    and returns True, or does nothing.

    `gradients` gives for each gradient the number of its edge, and a value of its shape and dtype. `leaves` are those of
    a first call. A gradient becomes `.grad` without a copy if a copy would be the same: see Note [Steal or copy]. It is
    fresh memory of the program, in C order. Only its reference count tells if it has been given away.
    """
    if not _ALONE or any(leaf.__class__ not in TENSOR_TYPES for leaf in leaves):
        return _give_nothing
    source, entries = GuardSource("made, ends"), []
    make, count, end_class = source.name(wrap), source.name(getrefcount), source.name(AccumulateGrad)
    for number, ((position, value), leaf) in enumerate(zip(gradients, leaves, strict=True)):
        end, g = source.let(f"ends[{position}]"), source.let(f"made[{number}]")
        source.require(f"{end}.__class__ is {end_class} and {count}({g}) == {_ALONE}")
        source.require(f"{end}.dtype is {source.name(value.dtype)} and {end}.shape == {source.name(value.shape)}")
        t = source.let(f"{end}.variable")
        source.require(f"{t}.__class__ is {source.name(leaf.__class__)} and {t}._node is None")
        meta = source.let(f"{t}._meta")
        source.require(f"{meta}.requires_grad and not {meta}.reshapes")
        if len(value.shape) > 1:
            source.require(f"{t}._array.flags.c_contiguous")
        entries.append(f"{meta}.__dict__, {make}({source.name(TENSOR_TYPES[leaf.__class__])}, {g})")
    return source.function(f"{source.name(make_fill('grad'))}({', '.join(entries)})", "found")


def _give_nothing(made: Any, ends: Any) -> None:
    return None


def in_own_memory(gradient: Any) -> Any:
    """Return a gradient in the form that the engine gives. A program on NumPy may return a view with gaps or
    repetitions.
    """
    return gradient if gradient.flags.forc else gradient.copy(order="K")


class CompiledFunctionBackward(MultiNode):
    """The backward of one call of a compiled function."""

    __slots__ = ("__dict__", "has_gradients", "inputs", "made", "specialisation", "watched")

    #: Required by functions that unpack saved values: none of these are outputs of the node.
    plan = SimpleNamespace(outs=())
    materialize_grads = False
    stands_alone = True

    specialisation: Specialisation
    #: Saved inputs of the program, each with the version of its memory.
    inputs: list[tuple[Any, Any]]
    #: Arrays that forward made for backward, by their position among the saved values.
    made: Any
    #: True if these are the gradients themselves, for a gradient of 1 of the single result.
    has_gradients: bool
    #: For saved arrays that are also results: the storage, its version, and whether old contents are kept.
    watched: Any

    @property
    def sent_edges(self) -> list[tuple[int, Any]] | None:
        order = self.specialisation.trace.send_order
        return None if order is None else [(i, self.next[i]) for i in order]

    def watch(self, tensors: list[Any], arrays: Sequence[Any]) -> None:
        """Detect later writes to results that backward needs."""
        if not self.made:
            return
        places = {id(a): k for k, a in enumerate(self.made)}
        for t, array in zip(tensors, arrays):  # other arrays follow the results
            k = places.get(id(array))
            if k is not None:
                storage = kept_storage(t) if t.keeps_saved else storage_of(t)
                if self.watched is None:
                    self.watched = {}
                self.watched[k] = storage, storage.version, t.keeps_saved

    def _get_saved(self, k: int) -> Any:
        array = self.made[k]
        if self.watched is not None and k in self.watched:
            storage, version, keeps = self.watched[k]
            if storage.version is not version:
                return old_array(self, "result", array, storage, version, keeps)
        return array

    def _input(self, position: int) -> Any:
        value, version = self.inputs[position]
        return input_array(self, f"input {position}", value, version)

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        self._check()
        if self.outputs == 1:
            given, is_missing = [grads], grads is None
        else:
            given, is_missing = grads, any(g is None for g in grads)
        if is_missing:
            return tuple(None if t is None else t._array for t in self._run_derivative(given, False))
        spec = self.specialisation
        if self.has_gradients and spec.plan.whole is not None:
            found = spec.plan.whole.scale(self.made, grads)
        else:
            found = self._run_backward(given)
        if not keep:
            self.release()
        return tuple(found) if spec.trace.all_have_gradients else tuple(self._place_gradients(found))

    def run_alone(self) -> bool:
        """Run the whole pass from a gradient of 1 that frees the graph, by a shorter path than the engine's. False if
        there is none, or if a mode is active; nothing has happened then.

        All leaves get their gradients at once, or none does (see `gradient_giver`).
        """
        made, spec = self.made, self.specialisation
        if made.__class__ is not tuple or not self.has_gradients or self.extra is not None:
            return False
        if process.busy or process.leaf_hooks or not spec.give_gradients(made, self.next):
            return False
        spec.plan.whole.backward_was_called()  # type: ignore[union-attr]  # set, because it made the gradients
        self.release()
        return True

    def gradients_of_one(self, keep: bool) -> list[Any] | None:
        """Return the result of `apply` for a gradient of 1, in a list that may be changed; None if the result is no
        real number.
        """
        made, spec = self.made, self.specialisation
        if not self.has_gradients or made is _FREED or spec.plan.whole is None:
            one = _ONES.get((self.shape, self.dtype)) if self.outputs == 1 else None
            return None if one is None else list(self.apply(one, None, keep))
        spec.plan.whole.backward_was_called()
        if not keep:
            self.release()
        return list(made) if spec.trace.all_have_gradients else self._place_gradients(made)

    def _place_gradients(self, found: Sequence[Any]) -> list[Any]:
        """Return the gradients of all inputs, None for those that have none."""
        out: list[Any] = [None] * len(self.next)
        for position, array in zip(self.specialisation.trace.gradients_of, found, strict=True):
            out[position] = array
        return out

    def _check(self) -> None:
        if self.made is _FREED:
            raise freed_error(self)

    def _run_backward(self, given: Any) -> Any:
        """Return the gradients computed by the backward program."""
        spec = self.specialisation
        if spec.plan.whole is not None:
            spec.plan.whole.backward_was_called()
        kept = [self._input(k) if is_input else self._get_saved(k) for is_input, k in spec.plan.kept_from]
        with np.errstate(all="ignore"):  # set by the engine, which does not run if the node stands alone
            found = spec.plan.run_backward([*kept, *given])
        return list(map(in_own_memory, found)) if spec.trace.place is CPU else found

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._run_derivative([grads] if self.outputs == 1 else grads, True)

    def _run_derivative(self, grads: Any, recorded: bool) -> tuple[Any, ...]:
        """Return gradients by a derivative program: for gradients of some results only, or for recorded gradients."""
        self._check()
        spec = self.specialisation
        saved = enumerate(zip(self.inputs, self.next, strict=True))
        tensors = [input_tensor(self, f"input {k}", value, version, e) for k, ((value, version), e) in saved]
        given = [g if recorded else wrap(Tensor, g) for g in grads if g is not None]
        present = tuple(g is not None for g in grads)
        if not recorded or not (
            modes().levels or modes().dual_levels or any(isinstance(t._array, Variable) for t in given)
        ):
            return tuple(spec.gradients_again(present, tensors, given))
        if modes().grad_enabled and any(requires_grad(t) for t in (*tensors, *given)):
            raise RuntimeError(
                f"{self.name()}: gradients of a compiled call (of {spec.traced.name}) were asked for inside a transform, "
                "and are to be differentiated in turn; the program does not know what was detached in it. "
                "Apply the transform to the compiled function itself (vmap(grad(f)), jacrev(f)), "
                "or use the function that was compiled. [nd-compile-again]"
            )
        like = [wrap(Tensor, np.zeros(shape_of(g), np_dtype(g))) for g in given]
        return tuple(spec.derivative(present, tensors, like).on_tensors([*tensors, *given]))

    def release(self) -> None:
        self.made = _FREED
        self.watched = None
        self.inputs = []


def node_of_call(
    specialisation: Specialisation,
    tensors: Sequence[Any],
    outputs: list[Any],
    made: Sequence[Any] | None,
    at_once: bool,
) -> CompiledFunctionBackward:
    """Return the node of a call with these inputs. `made` are the arrays that forward made for backward (None: the
    graph is freed), and `outputs` the shapes and dtypes of the results with a history.
    """
    shape, dtype = outputs[0]
    node = make_node(CompiledFunctionBackward, tuple([edge(t) for t in tensors]), shape, dtype)
    node.metadata_of_outputs = outputs
    if len(outputs) != 1:
        node.outputs = len(outputs)
    node.specialisation = specialisation
    node.has_gradients = at_once
    node.watched = None
    if made is None:
        node.made, node.inputs = _FREED, []
    else:
        node.made, node.inputs = made, [saved_input(t) for t in tensors]
    return node
