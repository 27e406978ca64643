"""Inspection of a compiled function: its program as text and picture, its steps as a list with times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.compiler.capture.random_draws import restore_states
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.report.picture import CompiledGraph
from ndgrad._src.compiler.report.report import KernelList, measure
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.core.modes import modes
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.foundations.pytree import tree_flatten

__all__ = ["graph", "kernel_list"]


@set_module("ndgrad.compiler")
def graph(f: Callable[..., Any], *args: Any, **kwargs: Any) -> CompiledGraph:
    """Return the program of a function for these arguments: as traced, after the passes, forward and backward. Nothing
    runs.

    `print` shows the texts; `.svg`, `.dot` and `.save("graph.svg")` are pictures. Instructions that only gradients need
    have a colour of their own, and a loop is a box around its body. A function that would run eagerly raises the
    reason.

    >>> import ndgrad
    >>> found = ndgrad.compiler.graph(lambda x: (x * 2).sum(), ndgrad.ones(3))
    >>> print(found.forward)
    program <lambda>_forward(%0: float32[3])
      %1: float32[3] = mul(%0, 2)...# ...:1
      %2: float32[] = sum_all(%1, dtype=None)...# ...:1
      return %2
    <BLANKLINE>
    """
    made, flat, spec = _find_specialisation(f, args, kwargs)
    found = _KeptTrace(made, flat, spec)
    return CompiledGraph(found.traced, found.program, found.forward, found.backward if found.backward.outputs else None)


@set_module("ndgrad.compiler")
def kernel_list(f: Callable[..., Any], *args: Any, **kwargs: Any) -> KernelList:
    """Return the steps that a function runs for these arguments, each with its ops, bytes, floating-point operations,
    time, and the least time that this machine needs for them.

    The programs run a few times for that, and write nothing. The machine itself is measured in the first call, which
    takes a second. A function that would run eagerly raises the reason.

    >>> import ndgrad
    >>> found = ndgrad.compiler.kernel_list(lambda x: (x * 2).sum(), ndgrad.ones(1000))
    >>> found[0].work.read
    4000
    """
    made, flat, _ = _find_specialisation(f, args, kwargs)
    states = made.tape.states()
    inputs = made.inputs_of(flat)
    restore_states(states)
    return measure(made, inputs)


def _find_specialisation(f: Any, args: Any, kwargs: Any) -> tuple[Specialisation, list[Any], Any]:
    """Return the specialisation of a function for arguments, and their leaves."""
    f = getattr(f, "compiled_forward", f)
    made = f if isinstance(f, CompiledFunction) else CompiledFunction(f)
    flat, spec = tree_flatten((args, kwargs))
    entry, flat = made.explain_entry(flat, spec, modes().grad_enabled)
    if entry.specialisation is None:
        assert entry.broken is not None
        raise entry.broken.again()
    return entry.specialisation, flat, spec


class _KeptTrace(Specialisation):
    """A second trace of a specialisation that keeps the program before all passes."""

    traced: Program

    def __init__(self, found: Specialisation, flat: Sequence[Any], spec: Any) -> None:
        self.given_outcomes = found.outcomes
        super().__init__(found.function, flat, spec, found.name, found.environment, found.strict, found.threads)

    def _split(self, program: Program, values: list[Value], cotangents: list[Value], gradients: list[Value]) -> None:
        outputs = [*values, *gradients]
        self.traced = Program(
            list(program.inputs), outputs, list(program.instructions), dict(program.constants), program.name
        )
        super()._split(program, values, cotangents, gradients)
