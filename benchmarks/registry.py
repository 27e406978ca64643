"""The list of workloads, each a program in torch's dialect and, if possible, one in the functional dialect.

torch and ndgrad must run the same function, given only the module. jax and HIPS autograd differentiate
functions of arrays instead, so they share a second one. A few workloads also have their gradient written by hand in
NumPy, which shows how much of the time is a library's overhead. A program prepares its inputs and returns a step
without arguments. The results of the step (loss and gradients) are compared across libraries before timing.

    @workload("mlp", title="MLP 784-256-256-10, batch 64", goal=0.8)
    def mlp(torch: Any) -> Step: ...

    @mlp.functional
    def mlp_functional(dialect: Functional) -> Step: ...

    @mlp.by_hand
    def mlp_by_hand() -> Step: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.libraries import ByHand, Functional

Step = Callable[[], Sequence[Any]]
TorchProgram = Callable[[Any], Step]
FunctionalProgram = Callable[[Functional], Step]
ManualProgram = Callable[[], Step]


@dataclass
class Workload:
    """A named computation; `goal` and `compiled_goal` are the goals for ndgrad's ratio to torch eager."""

    name: str
    title: str
    torch_program: TorchProgram
    goal: float | None = None
    tolerance: float = 1e-9
    functional_program: FunctionalProgram | None = None
    manual_program: ManualProgram | None = None
    group: str = "program"
    compiled_goal: float | None = None
    #: Libraries that are left out, with the reason.
    skip: Mapping[str, str] = field(default_factory=dict)

    def functional(self, program: FunctionalProgram) -> FunctionalProgram:
        """Register the same computation for the libraries that differentiate functions of arrays."""
        self.functional_program = program
        return program

    def by_hand(self, program: ManualProgram) -> ManualProgram:
        """Register the gradient written by hand in NumPy."""
        self.manual_program = program
        return program

    def build(self, namespace: Any) -> Step:
        """Prepare inputs and return the step to be timed."""
        if isinstance(namespace, ByHand):
            if self.manual_program is None:
                raise NotImplementedError(f"the gradient of workload {self.name!r} is not written by hand")
            return self.manual_program()
        if not isinstance(namespace, Functional):
            return self.torch_program(namespace)
        if self.functional_program is None:
            raise NotImplementedError("there is no program in its dialect")
        return self.functional_program(namespace)


WORKLOADS: dict[str, Workload] = {}


def workload(
    name: str,
    *,
    title: str,
    goal: float | None = None,
    compiled_goal: float | None = None,
    tolerance: float = 1e-9,
    group: str = "program",
    skip: Mapping[str, str] | None = None,
) -> Callable[[TorchProgram], Workload]:
    """Register the decorated torch program; `tolerance` is the relative error allowed between libraries.

    Workloads of another `group` than "program" run only if that group is requested. `skip` gives the reason for
    leaving a library out.
    """

    def register(program: TorchProgram) -> Workload:
        if name in WORKLOADS:
            raise ValueError(f"two workloads are called {name!r}: rename one of them")
        WORKLOADS[name] = Workload(
            name, title, program, goal, tolerance, group=group, compiled_goal=compiled_goal, skip=skip or {}
        )
        return WORKLOADS[name]

    return register
