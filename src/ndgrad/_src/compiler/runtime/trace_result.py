"""Facts that a trace has found about a function: the origins of its inputs, its results, effects and guards.

`TraceResult` is kept as long as the compiled function uses it. `TracedProgram` holds the ops of the trace. The plan is
made from them (ndgrad._src.compiler.runtime.plan), and then they are dropped.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ndgrad._src.compiler.capture.loop_gradients import Joint
from ndgrad._src.compiler.capture.random_draws import Tape
from ndgrad._src.compiler.capture.slot_effects import Effect
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.runtime.results import Results
from ndgrad._src.compiler.runtime.traced_function import Source
from ndgrad._src.foundations.devices import device
from ndgrad._src.foundations.pytree import TreeSpec


@dataclass(frozen=True)
class InputMetadata:
    """Metadata of the inputs that a program depends on."""

    #: Inputs whose gradient the function reads or sets, and whether they have one.
    gradients_asked: list[tuple[int, bool]]
    #: Inputs whose `is_leaf` the function reads, and its value.
    leaves_asked: list[tuple[int, bool]]
    #: Required facts about the inputs that are gradients; None for other inputs.
    gradient_facts: list[tuple[Any, ...] | None]

    def mismatch(self, inputs: Sequence[Any]) -> str | None:
        """Return the reason why the gradients or histories of these inputs need another trace; None if they do not."""
        for number, is_leaf in self.leaves_asked:
            if (inputs[number]._node is None) is not is_leaf:
                return "a tensor is, or is no longer, a leaf"
        for number, has_one in self.gradients_asked:
            g = None if inputs[number]._meta is None else inputs[number]._meta.grad
            if (g is not None) is not has_one:
                return "a tensor has, or has no longer, a gradient"
        for t, known in zip(inputs, self.gradient_facts, strict=True):
            if known is not None and get_facts(t) != known:
                return "a gradient is of another kind"
        return None


@dataclass(frozen=True)
class TraceResult:
    """Facts about a traced function that its calls need."""

    #: Origin of each input of the program.
    sources: list[Source]
    metadata: InputMetadata
    #: Random draws of the function.
    tape: Tape
    #: True if gradients were recorded during the trace.
    grad_enabled: bool
    #: Origins of the leaves of the result, and their structure.
    results: Results
    result_spec: TreeSpec
    effects: list[Effect]
    #: Inputs that the function writes; for each the number of writes by eager code, and the op of the last one.
    writes: list[int]
    writers: list[tuple[int, str | None]]
    #: Shapes and dtypes of the results with a history.
    outputs: list[Any]
    #: Inputs that get a gradient, and the order in which the engine passes gradients on.
    gradients_of: list[int]
    send_order: list[int] | None
    #: True if a backward pass inside the function has freed the graph of the results.
    is_freed: bool
    #: Outcomes of branch conditions for which the program is valid; and conditions that the function itself tested, by
    #: source line.
    outcomes: list[bool]
    decided: list[tuple[str | None, bool]]
    #: Exceptions to raise if a device finds that a check fails.
    later: list[Callable[[int], Exception]]
    #: Number of unread values that are computed because eager code reports errors in them.
    unread: int
    #: True if Python's part after the program may fail.
    may_fail_late: bool
    #: Device of the program.
    place: device

    @functools.cached_property
    def is_plain(self) -> bool:
        """True if a call only makes and returns new tensors."""
        return self.results.is_made and not (self.writes or self.outcomes or self.effects or self.unread)

    @functools.cached_property
    def all_have_gradients(self) -> bool:
        """True if every input gets a gradient."""
        return self.gradients_of == [*range(len(self.sources))]

    @functools.cached_property
    def needs_python(self) -> bool:
        """True if a call draws numbers or replaces objects, so that it cannot start in native code."""
        return any(effect.slots is not None for effect in self.effects) or any(kind == "draw" for kind, _ in self.sources)

    @functools.cached_property
    def has_graph(self) -> bool:
        """True if the results of a call have a history that backward can use."""
        return bool(self.outputs) and not self.is_freed

    def gather_inputs(self, arguments: Sequence[Any], draws: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return the tensors that are the program's inputs, for these arguments, random numbers and numbers of slots."""
        found: list[Any] = []
        for kind, which in self.sources:
            if kind == "argument":
                found.append(arguments[which])
            elif kind == "environment":
                found.append(which[0])
            elif kind == "grad":
                found.append(found[which].grad)
            elif kind == "number":
                found.append(numbers[which])
            else:
                found.append(draws[which])
        return found


@dataclass(frozen=True)
class TracedProgram:
    """The ops of a trace."""

    #: Results, written inputs, conditions and checks, and the gradients of inputs.
    joint: Joint
    #: The trace without gradients, None if no floating-point errors are reported; and the elements that its reporting
    #: ops read and return, by op.
    trace: Program | None
    reporting: Counter[str]
