"""The node of a compiled call: its backward is the compiled backward program.

It keeps what that program needs, under the same rules as every node: what is the caller's memory is checked for writes before it is used,
and on NumPy's face restored. Where gradients are themselves to be differentiated, or only some of the results have one, the function is
run again eagerly from its inputs, and autograd does the rest; so derivatives of any order are right.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad.autograd.backward_api import grad
from ndgrad.autograd.modes import restore, scope
from ndgrad.autograd.node import MultiNode
from ndgrad.autograd.record import save_input
from ndgrad.autograd.saved import unpack_raw, unpack_tensor
from ndgrad.autograd.saved_errors import freed_error
from ndgrad.autograd.variable import wrap

if TYPE_CHECKING:
    from ndgrad.compiler.specialise import Specialisation

_FREED: Any = object()


class CompiledFunctionBackward(MultiNode):
    """The backward of one call of a compiled function."""

    #: what the functions that unpack saved values ask of a node: none of these are its own outputs
    plan = SimpleNamespace(outs=())
    materialize_grads = False

    specialisation: Specialisation
    #: the Python arguments of the call, with None in the place of tensors
    arguments: Any
    #: the arrays that forward made for backward, by their place among the kept values
    made: Any = _FREED
    #: whether these are the gradients themselves, for a gradient of 1 of the one result
    has_gradients = False

    def save(self, tensors: list[Any]) -> None:
        """Keep the inputs of the program."""
        for position, t in enumerate(tensors):
            save_input(self, f"input{position}", t)

    def _input(self, position: int) -> Any:
        return unpack_raw(self, f"input{position}")

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        given = [grads] if self.outputs == 1 else grads
        if any(g is None for g in given):
            return tuple(None if t is None else t._array for t in self._again(given, False))
        if self.made is _FREED:
            raise freed_error(self)
        spec = self.specialisation
        if self.has_gradients:
            found = spec.whole.scaled(self.made, grads)
        else:
            found = self._found(given)
        if not keep:
            self.release()
        out: list[Any] = [None] * len(self.next)
        for position, array in zip(spec.gradients_of, found, strict=True):
            out[position] = array
        return tuple(out)

    def _found(self, given: Any) -> Any:
        """The gradients by the backward program."""
        spec = self.specialisation
        if spec.whole is not None:
            spec.whole.backward_was_called(given[0])
        kept = [self._input(k) if is_input else self.made[k] for is_input, k in spec.kept_from]
        return spec.run_backward([np.asarray(a) for a in kept] + [np.asarray(g) for g in given])

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._again([grads] if self.outputs == 1 else grads, True)

    def _again(self, grads: Any, recorded: bool) -> tuple[Any, ...]:
        """Gradients by running the function eagerly from its inputs."""
        if self.made is _FREED:
            raise freed_error(self)
        spec = self.specialisation
        edges = self.next
        tensors = [unpack_tensor(self, f"input{k}", edges[k]) for k in range(spec.count)]
        outside = scope()
        try:
            restore(outside.recording(True))
            results = spec.again(self.arguments, tensors)
            pairs = [(r, g) for r, g in zip(results, grads, strict=True) if g is not None]
            if not recorded:
                pairs = [(r, wrap(r.face, g)) for r, g in pairs]
            wanted = [k for k, e in enumerate(edges) if e is not None]
            found = grad(
                [r for r, _ in pairs], [tensors[k] for k in wanted], [g for _, g in pairs], create_graph=recorded, allow_unused=True
            )
        finally:
            restore(outside)
            del outside
        out: list[Any] = [None] * len(edges)
        for k, g in zip(wanted, found, strict=True):
            out[k] = g
        return tuple(out)

    def release(self) -> None:
        self.made = _FREED
