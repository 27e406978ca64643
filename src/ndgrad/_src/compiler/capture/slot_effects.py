"""Effects of a function on captured slots: objects that a call writes there after its program has run.

    self.count += 1                          a number in place of another
    total["loss"] += loss.item()             a number that Python computes after the program
    self.seen = {"loss": loss.detach()}      a new container, made in each call
    history.append(loss.item())              items appended to a list or deque

A trace really changes the slots, with placeholders and tensors without data. `EffectFinder` compares their contents
with the previous ones, and the environment is restored afterwards. In a call, `Effect.apply` writes the same objects
there, with the numbers and tensors of the call. New containers are lists, tuples and dictionaries, each in one slot.
All other new objects end the trace.

Note [Lists that only grow]
A list to which each call appends differs at each call, so no guard on its items holds twice. If the function only
appends, it does not depend on the items. A trace finds that out: a `GrowingList` replaces the list in all of its slots.
It takes new items and refuses everything else: its length, its items, its truth. If the function uses one of these, or
if the list is also reached in a way that cannot be replaced (as an item of a tuple), the list is guarded by value as
before.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from ndgrad._src.compiler.capture.cached_results import CacheStandIn
from ndgrad._src.compiler.capture.captured_state import MISSING, NUMBERS, CapturedSlots, extend, set_item
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder
from ndgrad._src.compiler.capture.patched_functions import PatchedFunction
from ndgrad._src.core.variable import Variable, meta_of
from ndgrad._src.foundations.pytree import LEAF, TreeSpec, tree_flatten, tree_unflatten

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.environment import Environment

#: Containers that a call makes anew.
_NEW = (list, tuple, dict)


class Effect:
    """A side effect to apply: a new value of a captured slot, or the gradient of an input (`slots` is None)."""

    def __init__(self, slots: CapturedSlots | None, number: int, spec: TreeSpec = LEAF, leaves: int = 1) -> None:
        self.slots = slots
        self.number = number
        self.spec = spec
        #: Number of leaves of its value.
        self.leaves = leaves

    def apply(self, inputs: Sequence[Any], leaves: Sequence[Any], environment: Environment) -> None:
        """Write the value of this call."""
        value = leaves[0] if self.spec is LEAF else tree_unflatten(leaves, self.spec)
        if self.slots is None:
            # The gradient has the right kind, because the traced gradient of such a tensor had.
            meta_of(inputs[self.number]).grad = value
        else:
            environment.write_slot(self.slots, self.number, value)


class NewEntry(Effect):
    """An entry that the function adds to a dictionary, or an attribute that it adds to an object."""

    def __init__(self, slots: CapturedSlots, key: Any, spec: TreeSpec, leaves: int) -> None:
        super().__init__(slots, -1, spec, leaves)
        self.key = key

    def apply(self, inputs: Sequence[Any], leaves: Sequence[Any], environment: Environment) -> None:
        assert self.slots is not None
        assert self.slots.form is not None
        set_item(self.slots.form[1], self.key, tree_unflatten(leaves, self.spec))


class Growth(Effect):
    """Items that the function appends to a list or deque."""

    def apply(self, inputs: Sequence[Any], leaves: Sequence[Any], environment: Environment) -> None:
        assert self.slots is not None
        assert self.slots.form is not None
        extend(self.slots.form[1], tree_unflatten(leaves, self.spec))


class EffectFinder:
    """Collects the effects of a traced function, with the leaves of their values."""

    def __init__(self, environment: Environment, returned: Any) -> None:
        self.environment = environment
        self.found: list[tuple[Effect, list[Any]]] = []
        #: New lists and dictionaries, by identity. Each may be in one slot only.
        self._new: dict[int, Any] = {}
        self._note_new(returned)

    def note(self, slots: CapturedSlots, number: int, now: Any) -> None:
        """Record a change of a slot, or of several slots if `number` is negative."""
        if number == -2:
            raise GraphBreak("the function draws from a generator of random numbers")
        if slots.write is None or slots.form is None:
            raise GraphBreak(f"the function changes {slots.what}")
        if number >= 0:
            if now is MISSING or (slots.form[0] == "entries" and number < len(slots.then) // 2):
                raise GraphBreak(f"the function changes {slots.label(number)}")
            self._add(slots.label(number), lambda spec, count: Effect(slots, number, spec, count), now)
        elif slots.form[0] == "items":
            self._grow(slots, now)
        elif slots.form[0] == "entries":
            self._enter(slots, now)
        else:
            raise GraphBreak(f"the function changes {slots.what}")

    def _grow(self, slots: CapturedSlots, now: list[Any]) -> None:
        count = len(slots.then)
        assert slots.form is not None
        if len(now) < count or not self._are_kept(slots, now, range(count)):
            raise GraphBreak(f"the function changes {slots.what}")
        self._add(slots.what, lambda spec, leaves: Growth(slots, -1, spec, leaves), now[count:])

    def _enter(self, slots: CapturedSlots, now: list[Any]) -> None:
        half, before = len(now) // 2, len(slots.then) // 2
        keys, values = now[:half], now[half:]
        if half < before or any(a is not b for a, b in zip(keys, slots.then[:before], strict=False)):
            raise GraphBreak(f"the function changes {slots.what}")
        for place in range(before):
            if not self._are_kept(slots, [*keys[:before], *values[:before]], [before + place]):
                self.note(slots, before + place, values[place])
        for key, value in zip(keys[before:], values[before:], strict=True):
            if not isinstance(key, NUMBERS) or type(key) is NumberPlaceholder:
                raise GraphBreak(f"the function adds an entry to {slots.what}")
            self._add(f"{slots.what}[{key!r}]", lambda spec, count, key=key: NewEntry(slots, key, spec, count), value)

    def _are_kept(self, slots: CapturedSlots, now: list[Any], places: Any) -> bool:
        return all(now[i] is slots.then[i] or now[i] is self.environment.find_placeholder(slots, i) for i in places)

    def add_growth(self, slots: CapturedSlots, items: list[Any]) -> None:
        """Record items that were appended to the stand-in of a list."""
        if items:
            self._add(slots.what, lambda spec, leaves: Growth(slots, -1, spec, leaves), items)

    def add_call(self, function: Any, arguments: tuple[Any, ...], kind: Any) -> None:
        """Record a call that is made after the program; `kind` is the class of such effects."""
        leaves, spec = tree_flatten(arguments)
        self.found.append((kind(function, spec, len(leaves)), leaves))

    def _add(self, label: str, make: Any, value: Any) -> None:
        leaves, spec = tree_flatten(value, self._is_leaf)
        if not isinstance(value, Variable):
            self._note_new(value)
        for leaf in leaves:
            if not isinstance(leaf, (Variable, *NUMBERS)) and id(leaf) not in self._reached_ids and not is_placeholder(leaf):
                raise GraphBreak(f"the function changes {label}")
        self.found.append((make(spec, len(leaves)), leaves))

    @property
    def _reached_ids(self) -> Any:
        return self.environment.reached_ids

    def _is_leaf(self, value: Any) -> bool:
        """True for objects that a call does not make anew: all except plain containers, and containers that existed
        before.
        """
        return type(value) not in _NEW or (type(value) is not tuple and id(value) in self._reached_ids)

    def _note_new(self, value: Any) -> None:
        """Record the new containers in a value. A container in two slots would become two containers in a call."""
        if self._is_leaf(value):
            return
        if type(value) is not tuple:
            if id(value) in self._new:
                raise GraphBreak("the function puts one new container into two places")
            self._new[id(value)] = value
        for item in value.values() if type(value) is dict else value:
            self._note_new(item)


# ----- lists that only grow -------------------------------------------------------------------------------------------


class Growing:
    """Stand-in for a list or deque during a trace, which only takes new items. For other threads it acts as the list.
    """

    #: The list, its slots, the set that records inspected lists, and the tracer of the function.
    original: Any
    slots: CapturedSlots
    needed: set[int]
    tracer: Any

    @property
    def is_own(self) -> bool:
        """True in the trace that the stand-in belongs to."""
        return current_tracer.get() is self.tracer

    def need(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Forward a method to the list for other threads; end the trace for its own."""
        if not self.is_own:
            return getattr(self.original, name)(*args, **kwargs)
        self.needed.add(id(self.slots))
        broken = GraphBreak(f"the function looks at {self.slots.what}, to which it appends")
        broken.is_cured = True
        raise broken

    @property  # type: ignore[misc]  # read by `isinstance`
    def __class__(self) -> type:
        return type(self.original)

    def append(self, item: Any) -> None:
        if self.is_own:
            type(self.original).append(self, item)
        else:
            self.original.append(item)

    def extend(self, items: Any) -> None:
        if not self.is_own:
            self.original.extend(items)
        elif items is self:
            self.need("extend", (), {})
        else:
            type(self.original).extend(self, items)

    def __iadd__(self, items: Any) -> Self:
        self.extend(items)
        return self

    def new_items(self) -> list[Any]:
        """Return the new items."""
        base: Any = type(self.original)
        return [base.__getitem__(self, i) for i in range(base.__len__(self))]


class GrowingList(Growing, list):  # type: ignore[type-arg]
    """A list that only grows."""


class GrowingDeque(Growing, collections.deque):  # type: ignore[type-arg]
    """A deque that only grows at its right end, and loses items at its left end if it is bounded."""


def _refuse_all_else() -> None:
    kept = {"__class__", "__new__", "__init__", "__getattribute__", "__setattr__", "__init_subclass__",
            "__subclasshook__", "__dir__", "__delattr__", "__doc__", "__class_getitem__", *Growing.__dict__}  # fmt: skip

    def make_refusal(name: str) -> Any:
        return lambda self, *args, **kwargs: self.need(name, args, kwargs)

    for cls, base in ((GrowingList, list), (GrowingDeque, collections.deque)):
        for name in {*dir(base), "__radd__", "__rmul__", "__bool__", "__copy__", "__deepcopy__", "__hash__"} - kept:
            setattr(cls, name, make_refusal(name))


_refuse_all_else()


def make_growing(slots: CapturedSlots, needed: set[int], tracer: Any) -> Any:
    """Return a stand-in for the list or deque whose items a `CapturedSlots` has; None for other classes."""
    assert slots.form is not None
    original = slots.form[1]
    made: Any
    if type(original) is list:
        made = GrowingList()
    elif type(original) is collections.deque:
        made = GrowingDeque()
    else:
        return None
    made.original, made.slots, made.needed, made.tracer = original, slots, needed, tracer
    return made


def is_placeholder(value: Any) -> bool:
    """True for stand-ins of other objects during a trace."""
    return type(value) in (NumberPlaceholder, GrowingList, GrowingDeque, PatchedFunction, CacheStandIn)


def original_of(value: Any) -> Any:
    """Return the list or function that a stand-in replaces; other objects unchanged."""
    return value.original if type(value) in (GrowingList, GrowingDeque, PatchedFunction, CacheStandIn) else value
