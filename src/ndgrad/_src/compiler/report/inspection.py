"""Inspection of a compiled function: its program as text and picture, its steps as a list with times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ndgrad._src.compiler.capture.number_slots import NumberSlots, SeenNumbers
from ndgrad._src.compiler.capture.random_draws import restore_states
from ndgrad._src.compiler.report.picture import CompiledGraph
from ndgrad._src.compiler.report.report import KernelList, measure
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.plan import CodeOptions, make_plan
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.compiler.runtime.tracing import copy_program, trace_function
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

    Args:
        f: function or module, compiled or not.
        args, kwargs: arguments of the call.

    >>> import ndgrad
    >>> found = ndgrad.compiler.graph(lambda x: (x * 2).sum(), ndgrad.ones(3))
    >>> print(found.forward)
    program <lambda>_forward(%0: float32[3])
      %1: float32[3] = mul(%0, 2)...# ...:1
      %2: float32[] = sum_all(%1, dtype=None)...# ...:1
      return %2
    <BLANKLINE>
    """
    made, flat = _find_specialisation(f, args, kwargs)
    # The trace was dropped, so the function is traced once more.
    slots = NumberSlots(SeenNumbers(), made.traced.environment, [])
    function = dataclasses.replace(made.traced, slots=slots, given_outcomes=made.trace.outcomes)
    options = CodeOptions(made.options.strict, made.options.threads)
    trace, traced = trace_function(function, function.arguments.tensors_of(flat), options.strict)
    joint = traced.joint
    outputs = [*joint.values, *[g for g in joint.gradients if g is not None]]
    before = copy_program(joint.program, outputs)
    plan = make_plan(trace, traced, options)
    return CompiledGraph(before, plan.program, plan.forward, plan.backward if plan.backward.outputs else None)


@set_module("ndgrad.compiler")
def kernel_list(f: Callable[..., Any], *args: Any, **kwargs: Any) -> KernelList:
    """Return the steps that a function runs for these arguments, each with its ops, bytes, floating-point operations,
    time, and the least time that this machine needs for them.

    The programs run a few times for that, and write nothing. The machine itself is measured in the first call, which
    takes a second. A function that would run eagerly raises the reason.

    Args:
        f: function or module, compiled or not.
        args, kwargs: arguments of the call.

    >>> import ndgrad
    >>> found = ndgrad.compiler.kernel_list(lambda x: (x * 2).sum(), ndgrad.ones(1000))
    >>> found[0].work.read
    4000
    """
    made, flat = _find_specialisation(f, args, kwargs)
    states = made.trace.tape.states()
    inputs = made.inputs_of(flat)
    restore_states(states)
    return measure(made, inputs)


def _find_specialisation(f: Any, args: Any, kwargs: Any) -> tuple[Specialisation, list[Any]]:
    """Return the specialisation of a function for arguments, and their leaves."""
    f = getattr(f, "compiled_forward", f)
    made = f if isinstance(f, CompiledFunction) else CompiledFunction(f)
    flat, spec = tree_flatten((args, kwargs))
    entry, flat = made.explain_entry(flat, spec, modes().grad_enabled)
    if entry.specialisation is None:
        assert entry.broken is not None
        raise entry.broken.again()
    return entry.specialisation, flat
