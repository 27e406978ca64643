"""A function as a program of ops: one call as seen by the compiler's tracer, without removing or fusing ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.runtime.tracing import tracing
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import TreeSpec, tree_flatten, tree_unflatten


@dataclass
class Traced:
    """A program, and the sources of its inputs: first the tensors among the arguments, then these tensors. The outputs
    are the leaves of a result with the structure `result`.
    """

    program: Program
    arguments: int
    held: list[Any]
    result: TreeSpec


def trace_call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], name: str) -> Traced:
    """Return the ops of a call. Tensors that are not arguments (parameters, buffers) are inputs too."""
    flat, spec = tree_flatten((tuple(args), kwargs))
    arguments = [leaf for leaf in flat if isinstance(leaf, Variable)]
    others = [(f"argument {i}", leaf) for i, leaf in enumerate(flat) if not isinstance(leaf, Variable)]
    environment = Environment([("the function", function), *others])
    tracer = Tracer(name, lambda t: None, environment.reached.generator_state)
    with tracing(tracer, environment), no_grad():
        with observing(tracer):
            for t in arguments:
                tracer.capture(t, payload_of(t))
            if len(tracer.inputs) != len(arguments):
                raise GraphBreak("a tensor stands twice among the arguments")
            given, options = tree_unflatten(flat, spec)
            leaves, result = tree_flatten(function(*given, **options))
        wrong = next((leaf for leaf in leaves if not isinstance(leaf, Variable)), None)
        if wrong is not None:
            raise GraphBreak(f"it returns a {type(wrong).__name__}, which is no tensor")
        if tracer.conditions:
            raise GraphBreak("which ops run depends on the values of tensors")
        if tracer.drawn_tensors:
            raise GraphBreak("it draws random numbers; put modules into eval mode")
        with observing(tracer):
            arrays = [payload_of(leaf) for leaf in leaves]
            # A returned argument is an input of the program, like any captured tensor.
            found = [
                a if getattr(a, "is_traced", False) else tracer.capture(t, a)._array
                for t, a in zip(leaves, arrays, strict=True)
            ]
            outputs = [tracer.value_of(payload) for payload in found]
    tracer.program.outputs = outputs
    tracer.program.check()
    return Traced(tracer.program, len(arguments), [o.source for o in tracer.inputs[len(arguments) :]], result)
