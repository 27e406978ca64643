"""A tape of operations on numbers: one node of the graph for a whole stretch of scalar code.

Note [Number tapes]
Libraries of formulas compute with one number at a time. A tensor and a node per operation would cost twenty times the
operation. In lifted code, a number with a derivative is a `TapedNumber` instead: a Python float and its place on a
tape. An operation appends its operands and its partial derivatives to the tape.

Other code sees an Array: a taped number has no tensor slots, so the first access to one (`x._array`, by any function of
ndgrad) makes it an ordinary Array. Then the tape is closed, and a node stands for all that led to the number. Its rule
walks the tape backwards. Later operations start a new tape, whose inputs may be numbers of the old one. So nodes are
made in the order of their dependencies.

A tape belongs to one scope of modes: no mode, or one `grad` over plain arrays. Operations in any other scope, on
operands of other kinds, or at a singular point (a division by zero, the square root of zero) are those of Arrays.
With `create_graph`, the tape runs again on Arrays, which are recorded.
"""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad._src.core.captures import before_watches
from ndgrad._src.core.grad_mode import enable_grad
from ndgrad._src.core.modes import current, process
from ndgrad._src.core.node import RULE, Edge, MultiNode, Node, edge_node, make_node, next_sequence_number
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.variable import Variable, edge, meta_of, wrap
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.ops.index import element
from ndgrad._src.ops.shape import alias
from ndgrad._src.ops.table import VARIABLE
from ndgrad.numpy._array import Array

if TYPE_CHECKING:
    from ndgrad._src.core.modes import Scope

#: (function of Arrays, place of the first operand, its partial derivative, place of the second operand or -1, its
#: partial derivative, or the second operand itself if it is a constant). An input has no function and no operands; its
#: value stands in place of the second partial derivative.
Entry = tuple[Any, int, float, int, float]

FLOAT64 = np.dtype(np.float64)
#: Arrays of more elements are read by the op `element`: the gradient of a part of them needs no whole array.
_SMALL = 64


class Tape:
    """Operations on numbers, in the order in which they ran."""

    __slots__ = (
        "edges", "entries", "first", "imported", "inputs", "is_linear", "is_open", "level", "originals", "parts",
        "rest", "scope", "seq",
    )  # fmt: skip

    def __init__(self, scope: Scope, level: int) -> None:
        #: Scope in which the tape is open. Holding it longer would keep its modes alive.
        self.scope: Scope | None = scope
        self.level = level
        self.entries: list[Entry] = []
        self.is_open = True
        #: False if a second backward pass needs values
        self.is_linear = True
        #: edges of inputs, and their places
        self.edges: list[Any] = []
        self.inputs: list[int] = []
        #: id of the edge of an array -> the edge, shape, and (index, place) of each element that was read
        self.parts: dict[int, tuple[Any, tuple[int, ...], list[tuple[Any, int]]]] = {}
        #: identity of a number elsewhere -> its place here, and the number
        self.imported: dict[Any, tuple[int, Any]] = {}
        #: place of an argument of the program -> its tensor
        self.originals: dict[int, Any] = {}
        #: node of the first output, and node of all later outputs, held by the graph alone
        self.first: Any = None
        self.rest: Any = None

    def add_input(self, e: Any, value: float) -> int:
        """Add a number from outside; return its place."""
        place = len(self.entries)
        self.entries.append((None, -1, 0.0, -1, value))
        self.edges.append(e)
        self.inputs.append(place)
        return place

    def add_part(self, e: Any, shape: tuple[int, ...], index: Any, value: float) -> int:
        """Add an element of an array; return its place."""
        place = len(self.entries)
        self.entries.append((None, -1, 0.0, -1, value))
        known = self.parts.get(id(e))
        if known is None:
            known = self.parts[id(e)] = (e, shape, [])
        known[2].append((index, place))
        return place

    def close(self) -> None:
        """End the tape. Its nodes are as old as its end, also those that are made later."""
        if self.is_open:
            self.is_open = False
            self.scope = None
            self.seq = next_sequence_number()

    def output(self, place: int) -> Any:
        """Close the tape; return the edge of a number on it.

        The first output has a node of its own, for which the engine has a fast path. All later ones share another.
        """
        self.close()
        first = self.first and self.first()
        if first is None:
            first = self._make_node(NumberNode)
            first.place = place
            self.first = weakref.ref(first)
        if first.place == place:
            return first
        several = self.rest and self.rest()
        if several is None:
            several = self._make_node(NumbersNode)
            several.places, several.metadata_of_outputs = [], []
            self.rest = weakref.ref(several)
        if place not in several.places:
            several.places.append(place)
            several.metadata_of_outputs.append(((), FLOAT64))
        return Edge(several, several.places.index(place))

    def _make_node(self, cls: type[Any]) -> Any:
        edges = (*self.edges, *(part[0] for part in self.parts.values()))
        made = make_node(cls, edges, (), FLOAT64)
        made.tape, made.level, made.seq = self, self.level, self.seq
        return made

    # ----- derivatives -----

    def pull_back(self, grads: list[Any]) -> list[Any]:
        """Return the gradients of the inputs from those of the first places, which the call changes. None stands for a
        number without a gradient."""
        entries = self.entries
        for place in range(len(grads) - 1, -1, -1):
            g = grads[place]
            if g is None:
                continue
            _, i, di, j, dj = entries[place]
            if i >= 0:
                before = grads[i]
                grads[i] = g * di if before is None else before + g * di
                if j >= 0:
                    before = grads[j]
                    grads[j] = g * dj if before is None else before + g * dj
        n = len(grads)
        found = [grads[p] if p < n else None for p in self.inputs]
        for _, shape, elements in self.parts.values():
            total: Any = None
            for index, p in elements:
                g = grads[p] if p < n else None
                if g is not None:
                    total = _add_element(total, shape, index, g)
            found.append(total)
        return found

    def run_again(self, last: int) -> list[Any]:
        """Return the numbers up to a place as recorded Arrays. Each input has a node of its own."""
        tensors = dict(zip(self.inputs, self.edges, strict=True))
        parts = {p: (part, index) for part in self.parts.values() for index, p in part[2]}
        values: list[Any] = []
        for place, (function, i, _, j, second) in enumerate(self.entries[: last + 1]):
            if function is not None:
                values.append(function(values[i], values[j] if j >= 0 else second))
            elif place in tensors:
                values.append(alias(_tensor_at(tensors[place], np.array(second))))
            else:
                (e, shape, _), index = parts[place]
                values.append(_element_at(e, shape, index, np.float64(second)))
        return values


def _add_element(total: Any, shape: tuple[int, ...], index: Any, g: Any) -> Any:
    if isinstance(g, Variable):
        whole = np.zeros(shape)
        whole[index] = 1.0
        made = g * wrap(g.tensor_type, whole)
        return made if total is None else total + made
    if total is None:
        total = np.zeros(shape)
    total[index] += g
    return total


def _tensor_at(e: Any, value: Any) -> Any:
    """Return a number as an Array whose gradient goes along an edge."""
    made = wrap(Array, value)
    made._node = edge_node(e)
    if e.__class__ is Edge:
        meta_of(made).output_nr = e.input_nr
    return made


def _element_at(e: Any, shape: tuple[int, ...], index: Any, value: Any) -> Any:
    """Return an element of an array as an Array whose gradient goes to its place along an edge."""
    node: Any = make_node(element.node_class, (e,), (), FLOAT64)
    node.x_shape, node.index = shape, index
    made = wrap(Array, value)
    made._node = node
    return made


# ----- nodes ----------------------------------------------------------------------------------------------------------


class _OfTape(Node):
    """Base of the nodes of a tape."""

    __slots__ = ()
    tape: Any
    level: int

    def release(self) -> None:
        if self.tape is not None and not self.tape.is_linear:
            self.tape = None

    def name(self) -> str:
        return "LiftedNumbersBackward"

    def _tape(self) -> Tape:
        made: Tape | None = self.tape
        if made is None:
            raise freed_error(self)
        return made

    def _send(self, found: list[Any]) -> tuple[Any, ...]:
        return tuple([None if g is None else np.float64(g) if g.__class__ is float else g for g in found])

    def _gradients(self, pairs: list[tuple[int, Any]]) -> list[Any]:
        """Return the gradients of the inputs from (place, gradient) of outputs."""
        tape = self._tape()
        grads: list[Any] = [None] * (max(place for place, _ in pairs) + 1)
        for place, g in pairs:
            grads[place] = g if grads[place] is None else grads[place] + g
        return tape.pull_back(grads)

    def _recorded_gradients(self, pairs: list[tuple[int, Any]]) -> tuple[Any, ...]:
        """Same, on tensors, by the operations themselves: every partial derivative is recorded."""
        tape = self._tape()
        last = max(place for place, _ in pairs)
        with enable_grad():
            values = tape.run_again(last)
            outputs = [values[place] for place, _ in pairs]
            inputs = [values[p] if p <= last else None for p in tape.inputs]
            parts = [[(index, values[p]) for index, p in part[2] if p <= last] for part in tape.parts.values()]
            wanted = [v for v in inputs if v is not None] + [v for part in parts for _, v in part]
            found = iter(grad(outputs, wanted, [g for _, g in pairs], create_graph=True, allow_unused=True))
            made = [None if v is None else next(found) for v in inputs]
            for (_, shape, _), part in zip(tape.parts.values(), parts, strict=True):
                total: Any = None
                for index, _ in part:
                    g = next(found)
                    total = total if g is None else _add_element(total, shape, index, g)
                made.append(total)
        return tuple(made)


class NumberNode(_OfTape):
    """Node of the first number that leaves a tape."""

    __slots__ = ("level", "place", "tape")
    first_route: ClassVar[int] = RULE
    has_inner_pass: ClassVar[bool] = False
    place: int

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        tape = self._tape()
        received: list[Any] = [None] * (self.place + 1)
        received[-1] = float(grads)
        found = tape.pull_back(received)
        if not keep:
            self.release()
        return self._send(found)

    def apply_payloads(self, grads: Any) -> tuple[Any, ...]:
        return tuple(self._gradients([(self.place, grads)]))

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._recorded_gradients([(self.place, grads)])


class NumbersNode(_OfTape, MultiNode):
    """Node of all other numbers that leave a tape."""

    __slots__ = ("level", "places", "tape")
    outputs = VARIABLE
    materialize_grads = False
    places: list[int]

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        found = self._gradients([(p, float(g)) for p, g in zip(self.places, grads, strict=True) if g is not None])
        if not keep:
            self.release()
        return self._send(found)

    def apply_payloads(self, grads: Any) -> tuple[Any, ...]:
        return tuple(self._gradients([(p, g) for p, g in zip(self.places, grads, strict=True) if g is not None]))

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._recorded_gradients([(p, g) for p, g in zip(self.places, grads, strict=True) if g is not None])


# ----- the open tape --------------------------------------------------------------------------------------------------

_newest: ContextVar[Tape | None] = ContextVar("ndgrad_number_tape", default=None)


def open_tape() -> Tape | None:
    """Return the tape for new operations in this scope; None if numbers cannot be taped here."""
    tape, scope = _newest.get(), current()
    if tape is not None and tape.is_open and tape.scope is scope:
        return tape
    level = _level_of(scope)
    if level is None:
        return None
    if tape is not None:
        tape.close()
    tape = Tape(scope, level)
    _newest.set(tape)
    return tape


def _level_of(scope: Scope) -> int | None:
    """Return the transform level of a scope in which numbers can be taped, 0 outside of transforms, else None."""
    if scope.closed:
        return None
    if not process.busy:
        return 0
    modes = scope.modes
    if len(process.busy) != modes._tokens_below or len(modes.levels) != 1 or len(process.open) != 1:
        return None
    level: Any = modes.levels[0]
    alone = level.kind == "grad" and level.pure and level.grad_enabled_before and not modes.dual_stack
    return level.number if alone and modes.captures is None else None


def place_of(t: Any, tape: Tape) -> tuple[int, float] | None:
    """Return the place of a 0-d Array of float64 with a derivative, added as an input, and its value; None if it
    cannot be taped."""
    array = t._array
    if array.__class__ is not np.float64 and (array.__class__ is not np.ndarray or array.ndim):
        return None
    e = _edge_on(t, tape)
    if e is None or array.dtype is not FLOAT64:
        return None
    value = float(array)
    return tape.add_input(e, value), value


def _edge_on(t: Any, tape: Tape) -> Any:
    """Return the gradient edge of a tensor of the tape's level; None if it has none there."""
    meta = t._meta
    if meta is not None and (meta.batch_level or meta.tangents or meta.picked is not None):
        return None
    if meta is not None and meta.view is not None and tape.level:
        return None  # views of a transform follow their base
    e = edge(t)
    return e if e is not None and edge_node(e).level == tape.level else None


def part_of(t: Any, index: Any, tape: Tape) -> tuple[int, float] | None:
    """Return the place of an element of a small array with a derivative, and its value; None if it cannot be taped."""
    array = t._array
    if array.__class__ is not np.ndarray or array.dtype is not FLOAT64 or array.size > _SMALL:
        return None
    e = _edge_on(t, tape)
    if e is None:
        return None
    value = float(array[index])
    return tape.add_part(e, array.shape, index, value), value


def close_tape() -> None:
    """Close the open tape, so that its numbers are older than all nodes that follow."""
    tape = _newest.get()
    if tape is not None:
        tape.close()
        _newest.set(None)  # it refers to the graph


before_watches.append(close_tape)
