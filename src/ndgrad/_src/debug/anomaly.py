"""Anomaly mode: the forward line behind a failing part of backward, and the origin of the first gradient
that is not a number.

While the mode is on, every node stores the user's stack at its creation and whether its result was finite, and
backward checks the gradients that each node returns. When a node fails, a warning shows the forward call that made it.
If that call was itself part of a backward (create_graph), it also shows the calls that led to it. The error names the
line. The engine checks once per pass whether the mode is on (`watch_run`), so other passes pay nothing.

Note [NaN and infinity]
torch raises for NaN alone, and so does this mode unless `check_inf` is set: an infinite gradient may be right. But
a NaN usually follows from an infinity two nodes earlier, so the first infinite gradient of the pass is
stored and reported with the NaN.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.grad_mode import Switch
from ndgrad._src.core.modes import ThreadState, thread
from ndgrad._src.core.node import edge_node
from ndgrad._src.core.saved import unpack_raw
from ndgrad._src.core.variable import AccumulateGrad
from ndgrad._src.debug.nonfinite import first_index, is_finite, raw_values
from ndgrad._src.debug.source_lines import Trace, format_stack, innermost, place_of, switch, trace_of
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import GraphTask, Payload

# ----- findings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """The first value of a gradient that is not finite."""

    node: Any
    output: int
    index: tuple[int, ...]
    value: Any
    shape: tuple[int, ...]
    count: int


def find(node: Node, outs: Payload, wrong: Callable[[Any], Any]) -> Finding | None:
    """Return the first gradient returned by a node in which some value is `wrong`."""
    for position, out in enumerate(outs):
        array = raw_values(out)
        if array is None:
            continue
        bad = wrong(array)
        if bad.any():
            index = first_index(bad)
            return Finding(node, position, index, array[index], array.shape, int(bad.sum()))
    return None


# ----- watched passes -------------------------------------------------------------------------------------------------


def watch_run(run_node: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the engine's `run_node` for a pass in anomaly mode: check returned gradients, and explain failures."""
    infinite: list[Finding] = []

    def run(task: GraphTask, node: Node, g: Payload) -> Any:
        keep, task.keep = task.keep, True  # The report shows saved values, so they are released only after the check.
        try:
            answer = run_node(task, node, g)
            outs = answer[0]
            if outs is not None and thread.check_nan:
                check(task, node, g, outs, infinite)
        except Exception as error:
            report(node, error)
            raise
        finally:
            task.keep = keep
        if outs is not None and not keep:
            node.release()
        return answer

    return run


def check(task: GraphTask, node: Node, g: Payload, outs: Payload, infinite: list[Finding]) -> None:
    """Raise if a gradient returned by a node is NaN, or infinite if that is checked."""
    if all(a is None or is_finite(a) for a in map(raw_values, outs)):
        return
    found = find(node, outs, np.isnan)
    if found is None:
        if infinite and not thread.check_inf:
            return
        bad = find(node, outs, np.isinf)
        if bad is None:
            return
        infinite.append(bad)
        if not thread.check_inf:
            return
        found = bad
    kind = "nan" if np.isnan(found.value) else "inf"
    lines = [
        (
            f"Function '{node.name()}' returned {kind} values in its {found.output}th output: "
            f"{found.count} of the {int(np.prod(found.shape))} values of the gradient "
            f"{describe_argument(node, found.output)} "
            f"(shape {found.shape}), the first at index {found.index}."
        ),
    ]
    there = values_at(node, g, found)
    if there:
        lines.append(f"  there:    {there}")
    place = place_of(node)
    lines.append(
        f"  called:   {place}" if place else "  called:   unknown, since the forward ran outside detect_anomaly()"
    )
    lines.append(f"  forward:  {forward_state(task)}")
    earlier = infinite[0] if infinite and infinite[0] is not found else None
    if earlier is not None:
        at = place_of(earlier.node)
        lines.append(
            (
                f"  before:   the first gradient of this pass that was not finite is {earlier.value}, "
                f"returned by {earlier.node.name()} at index {earlier.index} of the gradient "
                f"{describe_argument(earlier.node, earlier.output)}"
            )
            + (f" ({at})" if at else "")
        )
    if any(a is not None and np.isnan(a).any() for a in map(raw_values, g if isinstance(g, list) else [g])):
        lines.append(
            "It was already in the gradient that arrived: a hook, or the gradient given to backward(), put it in."
        )
        raise RuntimeError("\n".join(lines) + " [nd-anomaly]")
    if node.extra is not None and (node.extra.tensor_hooks or node.extra.pre_hooks):
        lines.append(
            "Hooks changed, or could have changed, the gradient that arrived before this op got it: look at them first."
        )
    lines.append(
        "Keep the argument of that call inside the domain where its derivative is finite (clamp it, "
        "add a small constant), and where one branch of where() is not differentiable, replace its argument there "
        "before the op instead of its result after it."
    )
    raise RuntimeError("\n".join(lines) + " [nd-anomaly]")


def describe_argument(node: Node, output: int) -> str:
    """Return the argument that a gradient belongs to."""
    op = getattr(node, "op", None)
    if op is None or op.variadic or output >= len(op.differentiable_args):
        return f"of argument {output}"
    return f"of {op.torch_name(op.differentiable_args[output])!r}"


def values_at(node: Node, g: Payload, found: Finding) -> str:
    """Describe the node's incoming gradient and saved values at the position of a bad gradient."""
    parts = []
    if not isinstance(g, list):
        parts.append(_value("gradient that arrived", raw_values(g), found))
    names = []
    for name, value in saved_values(node):
        names.append(name)
        parts.append(_value(name, value, found))
    e = node.next[found.output] if found.output < len(node.next) else None
    producer = None if e is None else edge_node(e)
    if isinstance(producer, AccumulateGrad):
        named = describe_argument(node, found.output).removeprefix("of ").strip("'")
        if named not in names:
            parts.append(_value(named, raw_values(producer.variable), found))
    return ", ".join(p for p in parts if p)


def saved_values(node: Any) -> list[tuple[str, Any]]:
    """Return the readable saved values of a node by torch's names, as arrays."""
    plan = getattr(node, "plan", None)
    if plan is None:
        return []
    out = []
    for name in plan.arrays + plan.outs:
        try:
            value = unpack_raw(node, name)
        except (AttributeError, RuntimeError):
            continue
        out.append(
            (
                node.op.torch_name(name),
                np.asarray(value) if isinstance(value, (bool, int, float, complex)) else raw_values(value),
            )
        )
    return out


def _value(name: str, array: Payload, found: Finding) -> str | None:
    if array is None:
        return None
    try:
        return f"{name} = {np.broadcast_to(array, found.shape)[found.index]}"
    except ValueError:  # Another shape has no corresponding position.
        return None


def forward_state(task: GraphTask) -> str:
    """Describe whether the forward was finite, as far as it was watched."""
    first: tuple[float, Any] | None = None
    watched = unwatched = False
    seen, stack = set(), list(task.roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack += [edge_node(e) for e in node.next if e is not None]
        if isinstance(node, AccumulateGrad):
            values = raw_values(node.variable)
            if values is not None and values.size and not is_finite(values):
                index = first_index(~np.isfinite(values))
                return f"a leaf of shape {values.shape} holds {values[index]} at index {index}"
            continue
        trace = trace_of(node)
        watched, unwatched = watched or trace is not None, unwatched or trace is None
        if trace is not None and trace.nonfinite is not None and (first is None or node.seq < first[0]):
            first = (node.seq, node)
    if first is not None:
        trace = trace_of(first[1])
        assert trace is not None
        assert trace.nonfinite is not None
        _, index, value = trace.nonfinite
        return f"not finite: the result of {trace.name} is {value} at index {index} ({innermost(trace.frames)})"
    if unwatched:
        return "unknown" + (" in part" if watched else "") + ", since it ran outside detect_anomaly()"
    return "finite everywhere"


# ----- failures -------------------------------------------------------------------------------------------------------


def _warn(text: str) -> None:
    """Warn about a pass that is failing. A warning that a filter turns into an error must not replace the failure."""
    try:
        warnings.warn(text, UserWarning, stacklevel=3)
    except UserWarning as raised:
        print(f"{type(raised).__name__}: {raised}", file=sys.stderr)


def report(node: Node, error: BaseException) -> None:
    """Show the forward calls behind a failed node: in full as warnings, as torch does, and by their lines on the
    error itself."""
    trace = trace_of(node)
    if trace is None or not trace.frames:
        _warn(
            f"Error detected in {node.name()}. No forward pass information is available. "
            "Run the forward inside detect_anomaly() as well to see its traceback."
        )
        return
    _warn(f"Error detected in {node.name()}. Traceback of the forward call that made it:\n{format_stack(trace.frames)}")
    error.add_note(f"in {node.name()}, made by the forward call at {innermost(trace.frames)}")
    for parent in parents(trace):
        _warn(
            f"That call was part of the backward of {parent.name}. Traceback of the forward call that made that one:\n"
            f"{format_stack(parent.frames)}"
        )
        error.add_note(
            f"which was made by the backward of {parent.name}, made by the forward call at {innermost(parent.frames)}"
        )


def parents(trace: Trace) -> list[Trace]:
    """Return the traces of the nodes whose backward led to a call, nearest first."""
    out = []
    while trace.parent is not None:
        trace = trace.parent
        out.append(trace)
    return out


# ----- the mode -------------------------------------------------------------------------------------------------------


_State = tuple[bool, bool, bool]  # flags: mode is on, check NaN, check infinities


def _set_mode(state: _State) -> _State:
    """Set the mode and return the previous one."""
    mode, check_nan, check_inf = state
    before = switch("anomaly", mode), ThreadState.check_nan, ThreadState.check_inf
    ThreadState.check_nan, ThreadState.check_inf = check_nan, check_inf
    return before


@set_module("ndgrad.autograd")
class detect_anomaly:
    """A context in which backward explains failures with the lines of the forward, and raises on the first NaN.

    `check_nan=False` keeps the lines but ignores NaN; `check_inf=True` raises on infinite gradients too.

    Args:
        check_nan: whether NaN in a gradient raises.
        check_inf: whether an infinite gradient raises.

    >>> import ndgrad
    >>> x = ndgrad.tensor([0.0, 1.0], requires_grad=True)
    >>> with ndgrad.autograd.detect_anomaly():
    ...     (x.sqrt() * 0).sum().backward()
    Traceback (most recent call last):
        ...
    RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output: 1 of the 2 values of the gradient...
    """

    def __init__(self, check_nan: bool = True, *, check_inf: bool = False) -> None:
        self.check_nan = check_nan
        self.check_inf = check_inf
        self._stack: list[_State] = []
        warnings.warn(
            (
                "Anomaly Detection has been enabled: every op remembers its traceback and every gradient is checked, "
                "which takes time. Use it to debug."
            ),
            UserWarning,
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._stack.append(_set_mode((True, self.check_nan, self.check_inf)))

    def __exit__(self, *exc: object) -> None:
        _set_mode(self._stack.pop())


@set_module("ndgrad.autograd")
class set_detect_anomaly(Switch):
    """Switch anomaly mode on or off, at once; as a context, until the block ends.

    Args:
        mode: whether anomaly mode is on.
        check_nan: whether NaN in a gradient raises.
        check_inf: whether an infinite gradient raises.
    """

    def __init__(self, mode: bool, check_nan: bool = True, *, check_inf: bool = False) -> None:
        super().__init__((bool(mode), check_nan, check_inf))

    def set_mode(self, value: _State) -> _State:
        """Set the mode, and return the one before.

        Args:
            value: state of the mode: whether it is on, and its two checks.
        """
        return _set_mode(value)


@set_module("ndgrad")
def is_anomaly_enabled() -> bool:
    """True if anomaly mode is on.

    >>> import ndgrad
    >>> with ndgrad.autograd.detect_anomaly(check_nan=False):
    ...     ndgrad.is_anomaly_enabled(), ndgrad.is_anomaly_check_nan_enabled()
    (True, False)
    """
    return thread.anomaly


@set_module("ndgrad")
def is_anomaly_check_nan_enabled() -> bool:
    """True if anomaly mode, when it is on, raises on NaN.

    >>> import ndgrad
    >>> ndgrad.is_anomaly_check_nan_enabled()
    True
    """
    return thread.check_nan


