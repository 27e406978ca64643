"""Origins of values, with or without a graph: the records of debug mode for `explain`.

The graph drops every value without a gradient, and a missing gradient raises questions about exactly these values. So
in debug mode every result also gets an `Origin`: the op, the user's line, the origins of its arguments, and the reason
why no gradient flows, if none does. Origins hold no arrays and no nodes. They hang on the tensors they describe and
die with them: a second, weightless graph.

A value that leaves as plain numbers (`item`, `tolist`, `numpy`) is followed as long as the very object comes back. The
last departures are recorded in addition, because computations with plain numbers cannot be followed.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, requires_grad
from ndgrad._src.debug.source_lines import Frames, Place, innermost, user_frames

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload

#: Reasons why no gradient flows through a call. The first three are no cuts: gradients flow,
#: or there was none to lose.
REASONS = {
    "recorded": "it was recorded in the graph",
    "constant": "none of its arguments required grad",
    "data": "it was made from data",
    "outside": "it was made before debug mode was on",
    "no_grad": "it ran where nothing is recorded (no_grad, or set_grad_enabled(False))",
    "inference": "it ran in inference mode, where nothing is recorded",
    "detach": "detach() takes the value out of the graph",
    "discrete": "it has no derivative",
    "integer": "its result has an integer or bool dtype, which carries no gradient",
    "plain": "it turns the value into plain numbers, which carry no gradient",
    "argument": "its derivative with respect to this argument is not defined",
    "custom": "the custom Function says that this result is not differentiable",
}
HARMLESS = frozenset(("recorded", "constant", "data", "outside"))

_next_number = itertools.count().__next__

#: A longer chain of calls is cut off, because a loop may run for days in debug mode.
_DEPTH_LIMIT = 5000


class Origin:
    """One call and its result, without their values."""

    __slots__ = ("depth", "dtype", "frames", "inputs", "number", "op", "plain", "ref", "required_grad", "shape", "why")

    def __init__(
        self, op: str, why: str, inputs: tuple[tuple[Origin, bool], ...] = (), frames: Frames | None = None
    ) -> None:
        self.op = op
        self.why = why
        self.frames = frames
        #: The arguments' origins, each with True if gradients flow to it.
        self.inputs = inputs
        self.depth: int = 1 + max((o.depth for o, _ in inputs), default=0)
        if self.depth > _DEPTH_LIMIT:
            self.inputs, self.depth = (), 1
        #: larger for later calls
        self.number = _next_number()
        #: True if plain values entered here that cannot be followed: a number that is no literal of
        #: the line, an array, data.
        self.plain = False
        self.ref: Any = None
        self.shape: tuple[int, ...] = ()
        self.dtype: Any = None
        self.required_grad = False

    @property
    def place(self) -> Place | None:
        return innermost(self.frames)

    def __repr__(self) -> str:
        return f"<origin {self.op} ({self.why}) at {self.place}>"

    def __del__(self, references: Any = sys.getrefcount) -> None:
        # Avoid freeing a long chain by nested calls. Globals are gone during interpreter shutdown.
        pending = list(self.inputs)
        self.inputs = ()
        while pending:
            origin, _ = pending.pop()
            if references(origin) <= 2:  # the variable here, and the argument
                pending += origin.inputs
                origin.inputs = ()


def origin_of(t: Variable) -> Origin:
    """Return the origin of a tensor; for a tensor made outside debug mode, a new one without arguments."""
    meta = meta_of(t)
    found: Origin | None = meta.provenance
    if found is None:
        found = set_origin(t, Origin("a tensor", "data" if t._node is None else "outside"))
    view = meta.view
    if view is not None and view.base._meta is not None:
        written = view.base._meta.provenance
        if written is not None and written.op.endswith("_") and written is not found:
            return Origin("a view", "recorded", ((found, True), (written, True)))
    return found


def set_origin(t: Variable, origin: Origin) -> Origin:
    origin.ref = weakref.ref(t)
    origin.shape, origin.dtype, origin.required_grad = tuple(t.shape), np_dtype(t), requires_grad(t)
    meta_of(t).provenance = origin
    return origin


# ----- calls ----------------------------------------------------------------------------------------------------------


def note_results(op: Op, args: tuple[Any, ...], results: Any) -> None:
    """Set the origins of the results of an op that has just run."""
    frames = user_frames()
    differentiable = frozenset(op.differentiable_positions(len(args))) if op.differentiable else frozenset()
    inputs = tuple(_inputs(args, differentiable))
    wanted = any(live for _, live in inputs)
    plain = _has_plain(args, frames)
    for number, r in enumerate(results):
        if r._node is not None:
            why = "recorded"
        elif op.name == "detach":
            why = "detach"
        elif thread.inference:
            why = "inference"
        elif not thread.grad_enabled:
            why = "no_grad"
        elif not is_inexact(np_dtype(r)):
            why = "integer" if op.differentiable and number not in op.discrete_outputs else "discrete"
        elif not op.differentiable:
            why = "discrete"
        else:
            why = "discrete" if wanted else "constant"
        set_origin(r, Origin(op.known_as, why, inputs, frames)).plain = plain


def _has_plain(args: tuple[Any, ...], frames: Frames) -> bool:
    """True if some argument is a plain value from elsewhere: neither a tensor nor a literal of the calling
    code."""
    for a in args:
        if a is not None and not isinstance(a, Variable):
            literals = getattr(frames[0], "co_consts", ()) if frames else ()
            if not any(c is a for c in literals):
                return True
    return False


def _inputs(args: tuple[Any, ...], differentiable: frozenset[int]) -> Iterator[tuple[Origin, bool]]:
    for position, a in enumerate(args):
        if isinstance(a, Variable):
            yield origin_of(a), position in differentiable and requires_grad(a)
        elif a is not None:
            left = _departure_of(a)
            if left is not None:
                yield left, False


def note_function(node: Node, args: tuple[Any, ...], results: list[Any]) -> None:
    """Set origins as `note_results` does, for a custom Function."""
    frames = user_frames()
    inputs = tuple(_inputs(args, frozenset(range(len(args)))))
    wanted = any(live for _, live in inputs)
    for r in results:
        if isinstance(r, Variable):
            off = "inference" if thread.inference else "no_grad" if not thread.grad_enabled else None
            why = "recorded" if r._node is not None else off or ("custom" if wanted else "constant")
            set_origin(r, Origin(node.name().removesuffix("Backward"), why, inputs, frames))


def note_write(op_name: str, target: Any, args: tuple[Any, ...], recorded: bool, whole: bool) -> None:
    """Record an in-place write of `args` into `target`; `whole` is True if nothing of the old value remains."""
    frames = user_frames()
    others = tuple(_inputs(args, frozenset(range(len(args)))))
    lost = any(live for _, live in others)
    why = (
        "recorded"
        if recorded
        else "inference"
        if thread.inference
        else "no_grad"
        if not thread.grad_enabled and lost
        else "constant"
    )
    meta = meta_of(target)
    written = [target] if meta.view is None else [target, meta.view.base]
    for t in written:
        old = () if whole and t is written[-1] else ((origin_of(t), True),)
        if why == "constant" and not others and old:
            continue
        set_origin(t, Origin(op_name, why, (*old, *others), frames))


def note_data(t: Variable, data: Any) -> None:
    """Record that a tensor was made from plain data, with the origins of that data if they are known."""
    inputs = []
    for value in data if isinstance(data, (list, tuple)) and len(data) <= 100 else (data,):
        if isinstance(value, Variable):
            inputs.append((Origin("tensor", "plain", ((origin_of(value), False),), user_frames()), False))
        else:
            left = _departure_of(value)
            if left is not None:
                inputs.append((left, False))
    set_origin(t, Origin("tensor", "data", tuple(inputs), user_frames())).plain = True


# ----- departures: values that leave as plain numbers -----------------------------------------------------------------

#: (departed value: a number or list itself, or a weak reference to an array's memory; its origin)
departures: deque[tuple[Any, Origin]] = deque(maxlen=256)


def note_departure(t: Variable, how: str, value: Payload) -> None:
    """Record that the values of a tensor left as a number, a list or an array."""
    origin = Origin(how, "plain", ((origin_of(t), requires_grad(t)),), user_frames())
    if isinstance(value, np.ndarray):
        departures.append((weakref.ref(_memory(value)), origin))
    elif not isinstance(value, (bool, int, list)) or (isinstance(value, list) and len(value) <= 100):
        departures.append((value, origin))
    else:
        departures.append((None, origin))  # nothing that could be recognised


def _memory(array: Payload) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _departure_of(value: Payload) -> Origin | None:
    """Return the departure of this very object."""
    if isinstance(value, np.ndarray):
        memory = _memory(value)
        return next((o for left, o in reversed(departures) if isinstance(left, weakref.ref) and left() is memory), None)
    return next((o for left, o in reversed(departures) if left is value), None) if value is not None else None


