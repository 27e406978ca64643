"""Run several passes in turn, in an order that keeps constraints, until nothing changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.passes.infra.pass_base import PassResult

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]

Pass = Callable[[GraphModule], Any]
Constraint = Callable[[Pass, Pass], bool]


def pass_result_wrapper(fn: Pass) -> Pass:
    """Return a function of modules as a pass that returns a PassResult.

    Args:
        fn: function of a graph module.
    """
    if fn is None:
        return None

    @functools.wraps(fn)
    def run(gm: GraphModule) -> PassResult:
        result = fn(gm)
        if isinstance(result, PassResult):
            return result
        return PassResult(result if isinstance(result, GraphModule) else gm, True)

    return run


def this_before_that_pass_constraint(this: Pass, that: Pass) -> Constraint:
    """Return the constraint that one pass runs before another.

    Args:
        this: pass that runs first.
        that: pass that runs later.
    """
    return lambda a, b: a != that or b != this


class PassManager:
    """Sequence of passes over a module.

    Args:
        passes: passes in order.
        constraints: functions of two passes that return whether the first may run before the second.
        steps: number of repetitions. The default is 1.
        run_checks_after_each_pass: whether `check` runs after each pass.
        suppress_check_failures: accepted as in torch; has no effect, because errors of `check` are raised.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.infra.pass_manager import PassManager
    >>> def double(module):
    ...     for node in module.graph.find_nodes(op="call_method", target="add"):
    ...         node.target = "mul"
    ...     module.recompile()
    >>> PassManager([double])(ndgrad.fx.symbolic_trace(lambda x: x.add(2))).graph_module(ndgrad.tensor(5))
    tensor(10)
    """

    def __init__(
        self,
        passes: list[Pass] | None = None,
        constraints: list[Constraint] | None = None,
        steps: int | None = None,
        run_checks_after_each_pass: bool = False,
        suppress_check_failures: bool = False,
    ) -> None:
        self.passes = list(passes or [])
        self.constraints = list(constraints or [])
        self.steps = 1 if steps is None else steps
        self.run_checks_after_each_pass = run_checks_after_each_pass
        self.suppress_check_failures = suppress_check_failures
        self._validated = False

    def add_pass(self, _pass: Pass) -> None:
        """Add a pass at the end."""
        self.passes.append(_pass)
        self._validated = False

    def add_constraint(self, constraint: Constraint) -> None:
        """Add a constraint on the order of two passes.

        Args:
            constraint: function of two passes that returns whether the first may run before the second.
        """
        self.constraints.append(constraint)
        self._validated = False

    def validate_constraints(self) -> None:
        """Raise if the order of passes breaks a constraint."""
        for i, first in enumerate(self.passes):
            for second in self.passes[i + 1 :]:
                for constraint in self.constraints:
                    if not constraint(first, second):
                        raise RuntimeError(
                            f"pass schedule constraint violated. Expected {_name(second)} before {_name(first)}. "
                            "Call solve_constraints(). [nd-call-order]"
                        )
        self._validated = True

    def solve_constraints(self) -> None:
        """Sort the passes so that they keep all constraints."""
        left, order = list(self.passes), []
        while left:
            ready = next(
                (
                    p
                    for p in left
                    if all(constraint(p, other) for other in left if other is not p for constraint in self.constraints)
                ),
                None,
            )
            if ready is None:
                raise RuntimeError(
                    f"Circular dependency detected within the passes {', '.join(map(_name, left))}. [nd-call-order]"
                )
            order.append(ready)
            left.remove(ready)
        self.passes = order
        self._validated = True

    def check(self, module: GraphModule) -> None:
        """Check a module between passes. Override it.

        Args:
            module: module to check.
        """

    def __call__(self, module: GraphModule) -> PassResult:
        if not self._validated:
            self.solve_constraints()
        self.check(module)
        changed_ever = False
        for _ in range(self.steps):
            changed = False
            for run in self.passes:
                result = pass_result_wrapper(run)(module)
                module, changed = result.graph_module, changed or result.modified
                if self.run_checks_after_each_pass:
                    self.check(module)
            changed_ever = changed_ever or changed
            if not changed:
                break
        return PassResult(module, changed_ever)


def _name(run: Pass) -> str:
    return str(getattr(run, "__name__", type(run).__name__))
