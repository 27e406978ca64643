"""The node of a compiled call: its backward is the compiled backward program.

It keeps what that program needs, under the same rules as every node: what is the caller's memory is checked for
writes before it is used, and on NumPy's face restored. Where gradients are themselves to be differentiated, or only
some of the results have one, the gradients are a compiled function of their own (see Note [Derivatives of a compiled
call]).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._tensor import Tensor
from ndgrad.autograd.node import MultiNode
from ndgrad.autograd.record import save_input
from ndgrad.autograd.saved import old_array, unpack_raw, unpack_tensor
from ndgrad.autograd.saved_errors import freed_error
from ndgrad.autograd.variable import wrap
from ndgrad.autograd.versions import kept_storage, storage_of

if TYPE_CHECKING:
    from ndgrad.compiler.specialise import Specialisation

_FREED: Any = object()


class CompiledFunctionBackward(MultiNode):
    """The backward of one call of a compiled function."""

    #: what the functions that unpack saved values ask of a node: none of these are its own outputs
    plan = SimpleNamespace(outs=())
    materialize_grads = False

    specialisation: Specialisation
    #: the arrays that forward made for backward, by their place among the kept values
    made: Any = _FREED
    #: whether these are the gradients themselves, for a gradient of 1 of the one result
    has_gradients = False

    #: of those that are results too: their storage, its version, and whether old contents are kept
    watched: Any = None

    def save(self, tensors: list[Any]) -> None:
        """Keep the inputs of the program."""
        for name, t in zip(self.specialisation.input_names, tensors, strict=True):
            save_input(self, name, t)

    def watch(self, tensors: list[Any], arrays: list[Any]) -> None:
        """Notice later writes to results that backward needs."""
        places = {id(a): k for k, a in enumerate(self.made)}
        for t, array in zip(tensors, arrays, strict=True):
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
        return unpack_raw(self, f"input{position}")

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        given = [grads] if self.outputs == 1 else grads
        self._check()
        if any(g is None for g in given):
            return tuple(None if t is None else t._array for t in self._again(given, False))
        spec = self.specialisation
        if self.has_gradients and spec.whole is not None:
            found = spec.whole.scaled(self.made, grads)
        else:
            found = self._found(given)
        if not keep:
            self.release()
        out: list[Any] = [None] * len(self.next)
        for position, array in zip(spec.gradients_of, found, strict=True):
            out[position] = array
        return tuple(out)

    def _check(self) -> None:
        if self.made is _FREED:
            refusal = self.specialisation.refusal
            raise freed_error(self) if refusal is None else RuntimeError(refusal)

    def _found(self, given: Any) -> Any:
        """The gradients by the backward program."""
        spec = self.specialisation
        if spec.whole is not None:
            spec.whole.backward_was_called(given[0])
        kept = [self._input(k) if is_input else self._kept(k) for is_input, k in spec.kept_from]
        return spec.run_backward([np.asarray(a) for a in kept] + [np.asarray(g) for g in given])

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._again([grads] if self.outputs == 1 else grads, True)

    def _again(self, grads: Any, recorded: bool) -> tuple[Any, ...]:
        """Gradients by the program of some results' gradients alone, or of gradients that are recorded."""
        self._check()
        spec = self.specialisation
        tensors = [unpack_tensor(self, f"input{k}", e) for k, e in enumerate(self.next)]
        given = [g if recorded else wrap(Tensor, g) for g in grads if g is not None]
        derivative = spec.derivative(tuple(g is not None for g in grads), tensors, given)
        return tuple(derivative.run([*tensors, *given]))

    def release(self) -> None:
        self.made = _FREED
        self.watched = None
