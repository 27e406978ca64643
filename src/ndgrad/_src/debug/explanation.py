"""`explain(y, x)`: why the gradient of y with respect to x is None or zero.

There are two sources. The graph: is x in it, and if so, what does each node on the path pass on? And, if the graph
ends, debug mode's records of values without a graph (ndgrad._src.debug.provenance). Of all paths from x's value to
y's, the one that loses the gradient at the fewest points is shown, and the loss nearest to x is named with its
line.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.node import edge_node
from ndgrad._src.core.saved import lift
from ndgrad._src.core.traversal import nodes_towards
from ndgrad._src.core.variable import AccumulateGrad, Variable, edge, innermost_array, np_dtype, requires_grad
from ndgrad._src.debug.gradient_probe import Unreadable, flow
from ndgrad._src.debug.provenance import HARMLESS, REASONS, Origin, departures, origin_of
from ndgrad._src.debug.source_lines import Place, place_of
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Payload

_VERY = "Check that y is computed from this very tensor."
_RERUN = (
    "Run the computation inside ndgrad.autograd.debug() and ask again. Then the answer names the call that cut the "
    "graph."
)

_ADVICE = {
    "no_grad": "Take that call out of no_grad(), or put enable_grad() around it.",
    "inference": "Take that call out of inference_mode().",
    "detach": "Leave detach() (or .data) away if the gradient should pass.",
    "discrete": (
        "Use a smooth stand-in (softmax for argmax, sigmoid for a comparison), or a custom Function "
        "with a gradient you choose."
    ),
    "integer": "Keep a floating dtype up to here: a gradient needs a continuum of values.",
    "plain": (
        "Stay with tensors: stack() or cat() instead of tensor([...]) of numbers, ndgrad's functions instead "
        "of NumPy's on .numpy()."
    ),
    "argument": "Only the other arguments of that op can be differentiated.",
    "custom": "Do not name the result in mark_non_differentiable(), or compute it with recorded ops.",
    "requires_grad": "Call x.requires_grad_() before the computation, and compute y again.",
    "copy": "Differentiate with respect to the tensor that was used, or use x itself.",
}


@dataclass(frozen=True)
class Explanation:
    """The reason why a gradient is None or zero; `str()` of it is the whole answer.

    `kind` is one of
        connected       the gradient is neither
        zero            some op on the path passes on only zeros
        detach, no_grad, inference, custom
                        the value was taken out of the graph, computed without recording, or marked as not
                        differentiable
        integer, discrete, argument
                        a dtype, an op or an argument of an op without derivatives
        plain           the value went through plain numbers or arrays
        requires_grad   x did not require grad when it was used
        copy            a copy of x was used
        unused          y does not depend on x
        freed           the graph exists, but backward has freed its saved values
        unknown         the graph alone cannot tell
    """

    kind: str
    reason: str
    advice: str = ""
    op: str | None = None
    place: Place | None = None
    #: steps from x to y, each as "op (line)"
    path: tuple[str, ...] = ()
    #: The gradient of y.sum() with respect to x, if there is one.
    gradient: Any = None
    #: True if the reason was observed, False if it is only likely.
    certain: bool = True

    def __str__(self) -> str:
        head = {
            "connected": "The gradient is neither None nor zero",
            "zero": "The gradient is zero",
            "freed": "The graph was freed",
        }.get(
            self.kind, "The gradient is None" if self.certain else "The gradient is None, most likely because of this"
        )
        lines = [f"{head}: {self.reason}"]
        if self.place is not None:
            lines.append(f"  at {self.place}")
        if self.path:
            lines.append("  from x to y: " + " -> ".join(self.path))
        if self.advice:
            lines.append(self.advice)
        return "\n".join(lines)


@set_module("ndgrad")
def explain(y: Any, x: Any) -> Explanation:
    """Explain why the gradient of `y` with respect to `x` is None or zero, with the responsible line.

    Hooks are not run and no `.grad` is touched. Lines are known if the computation ran inside
    `ndgrad.autograd.debug()`.

    Args:
        y: result, a tensor of any shape.
        x: tensor whose gradient is None or zero.

    Returns:
        An object that prints as a report. Its `kind`, `op` and `reason` hold the parts.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> with ndgrad.autograd.debug():
    ...     y = (x.detach() * 2).sum()
    >>> why = ndgrad.autograd.explain(y, x)
    >>> why.kind, why.op
    ('detach', 'detach')
    >>> ndgrad.autograd.explain((x - 5).relu(), x).reason
    'relu (ReluBackward0) passes on zeros alone: its argument is nowhere positive'
    """
    if not isinstance(x, Variable):
        raise TypeError(
            f"explain(y, x): x must be a tensor, but is {type(x).__name__}. Pass the tensor whose gradient is missing. "
            "[nd-type]"
        )
    if not isinstance(y, Variable):
        return _not_a_tensor(y, x)
    target = edge(x) if requires_grad(x) else None
    start = edge(y) if requires_grad(y) else None
    if start is not None and target is not None:
        needed = _nodes_between(start, target)
        if needed:
            return _through_graph(y, x, start, target, needed)
    seen = y._meta is not None and y._meta.provenance is not None
    if seen:
        found = _through_origins(origin_of(y), x)
        if found is not None:
            return found
    return _from_graph_alone(y, x, start, seen)


# ----- x is in the graph of y -----------------------------------------------------------------------------------------


def _nodes_between(start: Any, target: Any) -> set[Any]:
    """Return the nodes on the paths from y's edge to x's; empty if there is no path."""
    return nodes_towards([edge_node(start)], {edge_node(target)})


def _through_graph(y: Any, x: Any, start: Any, target: Any, needed: set[Any]) -> Explanation:
    if isinstance(y._array, Variable) or edge_node(start).level:
        return Explanation(
            "connected",
            "x is in the graph of y, inside a function transform whose gradients cannot be looked at from here",
        )
    try:
        passed = flow(y, start, target, needed)
    except Unreadable as lost:
        kind = "freed" if lost.freed else "unknown"
        advice = "Pass retain_graph=True to the backward() before, or ask before it." if lost.freed else ""
        return Explanation(
            kind, f"x is in the graph of y, but what {lost.node.name()} saved cannot be used: {lost}", advice
        )
    remarks = _remarks(x, needed)
    gradient = passed.gradient
    if gradient is None:
        node = passed.silent
        what = f"x is in the graph of y, but {node.name()} returned None for its gradient"
        return Explanation(
            "custom", what, "Return a gradient from its backward." + remarks, passed.op_name(node), place_of(node)
        )
    shown = _as_tensor(gradient)
    if gradient.size and not np.any(gradient):
        node, why = passed.why_zero()
        if node is None:
            return Explanation("zero", why, remarks.strip(), gradient=shown)
        advice = "If that is not what you want, look at the values that reach this op." + remarks
        return Explanation("zero", why, advice, passed.op_name(node), place_of(node), gradient=shown)
    zeros = int(gradient.size - np.count_nonzero(gradient))
    some = f"; {zeros} of its {gradient.size} values are zero" if zeros else ""
    return Explanation(
        "connected", f"x is in the graph of y, and the gradient of y.sum() reaches it{some}.{remarks}", gradient=shown
    )


def _as_tensor(array: Payload) -> Any:
    return lift(np.asarray(array))


def _remarks(x: Any, needed: set[Any]) -> str:
    """Return further reasons why the user may not see a gradient that the graph delivers."""
    out = ""
    meta = x._meta
    if x._node is not None and not (meta is not None and meta.retains_grad):
        out += " x is no leaf, so backward() leaves nothing in its .grad unless x.retain_grad() is called first."
    hooked = [
        n for n in needed if n.extra is not None and (n.extra.tensor_hooks or n.extra.pre_hooks or n.extra.post_hooks)
    ]
    if hooked or (meta is not None and meta.hooks):
        names = ", ".join(sorted({n.name() for n in hooked})) or "x"
        out += f" There are hooks on the way ({names}), which were not run here and may change it."
    return out


# ----- records of debug mode ------------------------------------------------------------------------------------------


def _is_cut(origin: Origin, source: Origin, live: bool) -> str | None:
    """Return the reason why the gradient is lost between an argument and the result of a call; None if it is not."""
    if origin.why not in HARMLESS:
        return origin.why
    return "argument" if origin.why == "recorded" and not live and source.required_grad else None


def _best_path(start: Origin, x: Any) -> list[tuple[Origin, str | None]] | None:
    """Return the path from x to a value with the fewest losses: calls in order, each with its effect on the
    gradient."""
    best = {id(start): 0}
    came: dict[int, tuple[Origin, str | None] | None] = {id(start): None}
    queue = deque([start])
    while queue:
        origin = queue.popleft()
        if origin.ref is not None and origin.ref() is x:
            steps = []
            back = came[id(origin)]
            while back is not None:
                steps.append(back)
                back = came[id(back[0])]
            return steps
        for source, live in origin.inputs:
            cut = _is_cut(origin, source, live)
            cost = best[id(origin)] + (cut is not None)
            if id(source) not in best or cost < best[id(source)]:
                best[id(source)] = cost
                came[id(source)] = (origin, cut)
                (queue.append if cut is not None else queue.appendleft)(source)
    return None


def _through_origins(start: Origin, x: Any) -> Explanation | None:
    steps = _best_path(start, x)
    if steps is None:
        return _explain_departure(start, x)
    path = tuple(_step(origin) for origin, _ in steps)
    cuts = [(origin, cut) for origin, cut in steps if cut is not None]
    if cuts:
        if len(cuts) > 1 and cuts[0][1] == "detach" and cuts[1][1] == "plain":
            del cuts[0]  # x.detach().numpy(): the array matters, detach() only makes numpy() possible
        origin, kind = cuts[0]
        later = sorted({f"{o.op} ({c})" for o, c in cuts[1:]})
        more = f" Further along, {', '.join(later)} would lose it too." if later else ""
        assert kind is not None
        what = f"{origin.op} cuts it off: {REASONS[kind]}."
        if kind == "integer":
            what = f"{origin.op} gives {origin.dtype}, and integers and bools carry no gradient."
        return Explanation(kind, what + more, _ADVICE[kind], origin.op, origin.place, path)
    first = steps[0][0] if steps else None
    if not is_inexact(np_dtype(x)):
        return _integer_input(x, first, path)
    now = "does now, but" if requires_grad(x) else "does not, and"
    return Explanation(
        "requires_grad", f"x did not require grad when it was used (it {now} did not then).", _ADVICE["requires_grad"],
        None if first is None else first.op, None if first is None else first.place, path,
    )  # fmt: skip


def _integer_input(x: Any, first: Origin | None = None, path: tuple[str, ...] = ()) -> Explanation:
    return Explanation(
        "integer", f"x has dtype {np_dtype(x)}, and only floating and complex tensors have gradients.",
        "Make x a floating tensor: x = x.to(ndgrad.float64).requires_grad_().",
        None if first is None else first.op, None if first is None else first.place, path,
    )  # fmt: skip


def _step(origin: Origin) -> str:
    place = origin.place
    return origin.op if place is None else f"{origin.op} (line {place.line})"


def _explain_departure(start: Origin, x: Any) -> Explanation | None:
    """Find the last departure of a value that depends on x before plain values entered the computation of y."""
    arrived = _last_plain(start)
    for _, departed in reversed(departures):
        if departed.number < arrived and _best_path(departed, x) is not None:
            return Explanation(
                "plain",
                f"y cannot be followed back to x, and a value that depends on x was turned into plain numbers by "
                f"{departed.op}.",
                _ADVICE["plain"], departed.op, departed.place, certain=False,
            )  # fmt: skip
    return None


def _last_plain(start: Origin) -> int:
    """Return the time at which plain values last entered a computation; -1 if none did."""
    seen, stack, last = set(), [start], -1
    while stack:
        origin = stack.pop()
        if id(origin) not in seen:
            seen.add(id(origin))
            stack += [source for source, _ in origin.inputs]
            last = max(last, origin.number if origin.plain else -1)
    return last


def _not_a_tensor(y: Any, x: Any) -> Explanation:
    what = f"y is a {type(y).__name__}, not a tensor, and plain values have no graph."
    for left, departed in reversed(departures):
        same = left is y or (
            isinstance(left, weakref.ref) and isinstance(y, np.ndarray) and np.may_share_memory(left(), y)
        )
        if same and _best_path(departed, x) is not None:
            return Explanation(
                "plain",
                f"{what} It left the graph through {departed.op}.",
                _ADVICE["plain"],
                departed.op,
                departed.place,
            )
    return Explanation("plain", what, _ADVICE["plain"])


# ----- facts from the graph alone -------------------------------------------------------------------------------------


def _from_graph_alone(y: Any, x: Any, start: Any, seen: bool) -> Explanation:
    if not is_inexact(np_dtype(x)):
        return _integer_input(x)
    if not requires_grad(x):
        return Explanation("requires_grad", "x does not require grad.", _ADVICE["requires_grad"])
    if start is None:
        if not is_inexact(np_dtype(y)):
            advice = _ADVICE["integer"] + ("" if seen else f" {_RERUN}")
            return Explanation("integer", f"y has dtype {np_dtype(y)}, which carries no gradient.", advice)
        if _shares_memory(y, x):
            what = (
                "y is outside the graph and lies in the memory of x: it was made by detach(), .data, "
                "numpy() or under no_grad()."
            )
            return Explanation("detach", what, _ADVICE["detach"])
        if seen:
            return Explanation("unused", "y was not computed from x, as far as debug mode has seen.", _VERY)
        what = (
            "y has no graph: its value went through detach(), no_grad(), an op without a derivative or plain numbers, "
            "or no tensor that it was computed from requires grad."
        )
        return Explanation("unknown", what, _RERUN, certain=False)
    twin = _twin(start, x)
    if twin is not None:
        what = f"the graph of y ends at another tensor with the {twin} of x: y was computed from a copy of x."
        return Explanation("copy", what, _ADVICE["copy"], certain=twin == "memory")
    leaves = _leaves(start)
    shapes = ", ".join(sorted({str(tuple(t.shape)) for t in leaves})) or "none"
    if seen:
        return Explanation("unused", f"y was not computed from x; the leaves of its graph have shapes {shapes}.", _VERY)
    what = (
        f"x is not in the graph of y, whose leaves have shapes {shapes}: either y does not depend on x, "
        "or the value of x met detach(), no_grad(), an op without derivative or plain numbers on its way."
    )
    return Explanation("unknown", what, _RERUN, certain=False)


def _leaves(start: Node) -> list[Any]:
    seen, stack, out = set(), [edge_node(start)], []
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad):
            out.append(node.variable)
        stack += [edge_node(e) for e in node.next if e is not None]
    return out


def _twin(start: Node, x: Any) -> str | None:
    """Return the property that a leaf of the graph shares with x, if it is a copy of it."""
    for leaf in _leaves(start):
        if leaf is x or tuple(leaf.shape) != tuple(x.shape):
            continue
        if _shares_memory(leaf, x):
            return "memory"
        values = innermost_array(leaf)
        # Biases all start as zeros, so constant values prove nothing.
        if np.array_equal(values, innermost_array(x)) and x.numel() and (values != values.flat[0]).any():
            return "shape and values"
    return None


def _shares_memory(a: Payload, b: Payload) -> bool:
    first, second = innermost_array(a), innermost_array(b)
    return isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and np.may_share_memory(first, second)
