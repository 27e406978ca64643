"""A function as a program of ops: one call as seen by the compiler's tracer, without removing or fusing ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.graph_break import GraphBreak, Unreached
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.runtime.tracing import tracing
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import TreeSpec, tree_flatten, tree_unflatten


@dataclass
class Traced:
    """A program, and the sources of its inputs: first the tensors among the arguments, then these tensors. The outputs
    are the tensors among the leaves of a result with the structure `result`.
    """

    program: Program
    arguments: int
    held: list[Any]
    result: TreeSpec
    #: Leaves of the result that are no tensors, by position.
    constants: dict[int, Any]
    #: Inputs that the call writes to, by position, with their values after it.
    written: dict[int, Value]


#: Limit on the number of traces of one call, each of which finds further functions.
_MOST_TRACES = 20


def trace_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    name: str,
    *,
    allow_constants: bool = False,
    allow_writes: bool = False,
) -> Traced:
    """Return the ops of a call. Tensors that are not arguments (parameters, buffers) are inputs too."""
    flat, spec = tree_flatten((tuple(args), kwargs))
    others = [(f"argument {i}", leaf) for i, leaf in enumerate(flat) if not isinstance(leaf, Variable)]
    roots, names, modules = [("the function", function), *others], frozenset[str](), frozenset[str]()
    for _ in range(_MOST_TRACES):
        try:
            found = _trace_once(function, flat, spec, name, Environment(roots, names, modules))
            break
        except Unreached as unreached:
            known = {id(value) for _, value in roots}
            new = [root for root in unreached.roots if id(root[1]) not in known]
            if not new and unreached.names <= names and unreached.modules <= modules:
                raise
            roots, names, modules = [*roots, *new], names | unreached.names, modules | unreached.modules
    else:
        raise GraphBreak("it finds functions and attributes by computed names, other ones each time")
    if found.constants and not allow_constants:
        raise GraphBreak(f"it returns a {type(next(iter(found.constants.values()))).__name__}, which is no tensor")
    if found.written and not allow_writes:
        raise GraphBreak("it writes to a tensor that it has not made")
    return found


def _trace_once(
    function: Callable[..., Any], flat: list[Any], spec: TreeSpec, name: str, environment: Environment
) -> Traced:
    arguments = [leaf for leaf in flat if isinstance(leaf, Variable)]
    tracer = Tracer(name, lambda t: None, environment.reached.generator_state)
    with tracing(tracer, environment), no_grad():
        with observing(tracer):
            for t in arguments:
                tracer.capture(t, payload_of(t))
            if len(tracer.inputs) != len(arguments):
                raise GraphBreak("a tensor stands twice among the arguments")
            given, options = tree_unflatten(flat, spec)
            leaves, result = tree_flatten(function(*given, **options))
        if tracer.conditions:
            raise GraphBreak("which ops run depends on the values of tensors")
        if tracer.drawn_tensors:
            raise GraphBreak("it draws random numbers; put modules into eval mode")
        constants = {i: leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, Variable)}
        tensors = [leaf for leaf in leaves if isinstance(leaf, Variable)]
        with observing(tracer):
            arrays = [payload_of(leaf) for leaf in tensors]
            # A returned argument is an input of the program, like any captured tensor.
            found = [
                a if getattr(a, "is_traced", False) else tracer.capture(t, a)._array
                for t, a in zip(tensors, arrays, strict=True)
            ]
            outputs = [tracer.value_of(payload) for payload in found]
            written = {i: tracer.value_of(o._array) for i, o in enumerate(tracer.inputs) if o._array.memory.written}
    tracer.program.outputs = outputs
    tracer.program.check()
    held = [o.source for o in tracer.inputs[len(arguments) :]]
    return Traced(tracer.program, len(arguments), held, result, constants, written)
