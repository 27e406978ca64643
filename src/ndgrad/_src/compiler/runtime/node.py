"""The node of a compiled call: its backward is the compiled backward program.

It keeps what that program needs, under the same rules as every node: what is the caller's memory is checked for
writes before it is used, and on NumPy's face restored. Where gradients are themselves to be differentiated, or only
some of the results have one, the gradients are a compiled function of their own (see Note [Derivatives of a compiled
call]).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.core.modes import modes
from ndgrad._src.core.node import MultiNode, make_node
from ndgrad._src.core.record import saved_input
from ndgrad._src.core.saved import input_array, input_tensor, old_array
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.variable import Variable, edge, np_dtype, requires_grad, shape_of, wrap
from ndgrad._src.core.versions import kept_storage, storage_of
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.runtime.specialization import Specialisation

_FREED: Any = object()

#: The gradients of real numbers that go without saying. Programs do not write to them.
_ONES: dict[Any, Any] = {((), dtype): np.ones((), dtype) for dtype in (np.dtype(np.float32), np.dtype(np.float64))}


def in_own_memory(gradient: Any) -> Any:
    """A gradient as the engine gives it. A program that runs on NumPy may give a view with gaps or repetitions."""
    return gradient if gradient.flags.forc else gradient.copy(order="K")


class CompiledFunctionBackward(MultiNode):
    """The backward of one call of a compiled function."""

    __slots__ = ("__dict__", "has_gradients", "inputs", "made", "specialisation", "watched")

    #: what the functions that unpack saved values ask of a node: none of these are its own outputs
    plan = SimpleNamespace(outs=())
    materialize_grads = False
    stands_alone = True
    #: a builtin that gives leaves the gradients that a node has ready, where there is native code
    #: (see ndgrad._src.compiler.native.leaf_gradients)
    hand_out: ClassVar[Callable[[Any], bool] | None] = None

    specialisation: Specialisation
    #: what is kept of the inputs of the program, each with the version of its memory
    inputs: list[tuple[Any, Any]]
    #: the arrays that forward made for backward, by their place among the kept values
    made: Any
    #: whether these are the gradients themselves, for a gradient of 1 of the one result
    has_gradients: bool
    #: of those that are results too: their storage, its version, and whether old contents are kept
    watched: Any

    @property
    def sent_edges(self) -> list[tuple[int, Any]] | None:
        order = self.specialisation.send_order
        return None if order is None else [(i, self.next[i]) for i in order]

    def watch(self, tensors: list[Any], arrays: Sequence[Any]) -> None:
        """Notice later writes to results that backward needs."""
        if not self.made:
            return
        places = {id(a): k for k, a in enumerate(self.made)}
        for t, array in zip(tensors, arrays):  # behind the results come other arrays
            k = places.get(id(array))
            if k is not None:
                storage = kept_storage(t) if t.keeps_saved else storage_of(t)
                if self.watched is None:
                    self.watched = {}
                self.watched[k] = storage, storage.version, t.keeps_saved

    def _kept(self, k: int) -> Any:
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
            return tuple(None if t is None else t._array for t in self._again(given, False))
        spec = self.specialisation
        if self.has_gradients and spec.whole is not None:
            found = spec.whole.scaled(self.made, grads)
        else:
            found = self._found(given)
        if not keep:
            self.release()
        return tuple(found) if spec.all_have_gradients else tuple(self._placed(found))

    def run_alone(self) -> bool:
        """The whole pass from a gradient of 1 that frees the graph, if there is a shorter way than the engine's and
        nothing unusual is in force. False: nothing has happened."""
        hand_out = CompiledFunctionBackward.hand_out
        if hand_out is None or not hand_out(self):
            return False
        self.specialisation.whole.backward_was_called()  # type: ignore[union-attr]  # which has made the gradients
        self.release()
        return True

    def gradients_of_one(self, keep: bool) -> list[Any] | None:
        """What `apply` gives for a gradient of 1, in a list that may be changed; None if the result is no real
        number."""
        made, spec = self.made, self.specialisation
        if not self.has_gradients or made is _FREED or spec.whole is None:
            one = _ONES.get((self.shape, self.dtype)) if self.outputs == 1 else None
            return None if one is None else list(self.apply(one, None, keep))
        spec.whole.backward_was_called()
        if not keep:
            self.release()
        return list(made) if spec.all_have_gradients else self._placed(made)

    def _placed(self, found: Sequence[Any]) -> list[Any]:
        """The gradients of all inputs, None for those that have none."""
        out: list[Any] = [None] * len(self.next)
        for position, array in zip(self.specialisation.gradients_of, found, strict=True):
            out[position] = array
        return out

    def _check(self) -> None:
        if self.made is _FREED:
            raise freed_error(self)

    def _found(self, given: Any) -> Any:
        """The gradients by the backward program."""
        spec = self.specialisation
        if spec.whole is not None:
            spec.whole.backward_was_called()
        kept = [self._input(k) if is_input else self._kept(k) for is_input, k in spec.kept_from]
        with np.errstate(all="ignore"):  # as the engine has it, which is not there if the node stands alone
            found = spec.run_backward([*kept, *given])
        return list(map(in_own_memory, found)) if spec.place is CPU else found

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._again([grads] if self.outputs == 1 else grads, True)

    def _again(self, grads: Any, recorded: bool) -> tuple[Any, ...]:
        """Gradients by the program of some results' gradients alone, or of gradients that are recorded."""
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
                f"{self.name()}: gradients of a compiled call (of {spec.name}) were asked for inside a transform, "
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
    """The node of a call with these inputs: `made` is what forward made for backward (None: the graph is used up),
    `outputs` the shapes and dtypes of the results that have a history."""
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
