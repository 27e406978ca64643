"""Slots whose number changes between calls: they are inputs of a program instead of guarded values.

A *slot* is a captured place that holds a Python float or int: an attribute, an item of a list or a dictionary, a
closure variable, a global, an argument of the call, or an item of a tuple in such a place. `SeenNumbers` remembers, for
one compiled function, the slots that have held two numbers. The next trace puts placeholders there (Note [Numbers of a
call] in ndgrad._src.compiler.capture.number_tape), and its guards check only the class of the number. `NumberSlots` are
these slots of one trace.

A slot whose number is needed by value (a size, a key, a text) is guarded by value from then on.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

from ndgrad._src.compiler.capture.cached_results import CacheStandIn
from ndgrad._src.compiler.capture.captured_state import MISSING, CapturedSlots, Varying, is_same
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder
from ndgrad._src.compiler.capture.number_tape import NumberTape, slot_expression
from ndgrad._src.compiler.capture.patched_functions import PATCHED
from ndgrad._src.compiler.capture.slot_effects import Effect, Growth, NewEntry, make_growing

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.environment import Environment

#: Marks a varying argument in the kind of a call.
VARIES = "varies"
Key = tuple[Any, ...]
Path = tuple[int, ...]


def numbers_in(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Return the Python floats and ints in a number or a nested tuple, each with its path."""
    if type(value) in (float, int):
        return [(path, value)]
    if type(value) is tuple:
        return [found for i, item in enumerate(value) for found in numbers_in(item, (*path, i))]
    return []


def _replace_at(value: Any, path: Path, item: Any) -> Any:
    """Return a value with another item at the end of a path."""
    if not path:
        return item
    first, *rest = path
    return (*value[:first], _replace_at(value[first], tuple(rest), item), *value[first + 1 :])


def place_key(slots: CapturedSlots, index: int) -> Key | None:
    """Return a key of a slot that is the same in every environment; None if the slot takes no placeholders."""
    if slots.form is None or slots.write is None:
        return None
    kind, whose = slots.form
    match kind:
        case "entries":
            half = len(slots.then) // 2
            return None if index < half else (kind, slots.what, _name(slots.then[index - half]))
        case "items":
            return kind, slots.what, index
        case "cells":
            return kind, id(whose[index])
        case "names":
            space, names = whose
            return kind, slots.what, id(space) if type(space) is dict else None, names[index]
        case "slots":
            return kind, slots.what, whose[1][index]
    return None


def _name(key: Any) -> Any:
    return key if type(key) in (str, int) else id(key)


def _memory_key(slots: CapturedSlots, index: int) -> Any:
    """Return a key that is equal for two descriptions of the same slot: the identity of the owner, and a name."""
    assert slots.form is not None
    kind, whose = slots.form
    match kind:
        case "entries":
            return id(whose), _name(slots.then[index - len(slots.then) // 2])
        case "cells":
            return id(whose[index]), None
        case "names":
            return id(whose[0]), whose[1][index]
        case "slots":
            return id(whose[0]), whose[1][index]
    return id(whose), index


def _make_reader(slots: CapturedSlots, index: int) -> Callable[[], Any]:
    """Return a function that reads one slot."""
    assert slots.form is not None
    kind, whose = slots.form
    match kind:
        case "entries":
            key = slots.then[index - len(slots.then) // 2]
            return lambda: slots.form[1][key]  # type: ignore[index]  # the dictionary may be replaced
        case "items":
            return lambda: slots.form[1][index]  # type: ignore[index]
        case "cells":
            cell = whose[index]
            return lambda: cell.cell_contents
        case "names":
            space, name = whose[0], whose[1][index]
            return lambda: space[name]
    value, name = whose[0], whose[1][index]
    return lambda: getattr(value, name)


def _is_number(leaf: Any) -> bool:
    return type(leaf) is NumberPlaceholder


class SeenNumbers:
    """Knowledge of a compiled function about the numbers in its slots."""

    def __init__(self) -> None:
        #: Slots that have held two numbers.
        self.places: set[Key] = set()
        #: Lists and deques to which items were appended.
        self.growing: set[str] = set()
        #: Slots that are needed by value: the key of a slot, and the path inside it.
        self.by_value: set[tuple[Any, Any]] = set()
        #: Arguments that were two numbers: the structure of the arguments, and the number of the leaf.
        self.arguments: set[tuple[Any, int]] = set()

    def clear(self) -> None:
        """Forget everything."""
        self.places.clear()
        self.growing.clear()
        self.by_value.clear()
        self.arguments.clear()

    def learn(self, environment: Environment) -> None:
        """Record the slots of an environment that now hold other numbers."""
        for slots in environment.captured:
            if not slots.is_growing:
                self._learn(environment, slots, slots.read())

    def _learn(self, environment: Environment, slots: CapturedSlots, now: list[Any]) -> None:
        then = slots.then
        kind = "" if slots.form is None else slots.form[0]
        if kind == "items" and len(now) > len(then) and all(map(is_, now, then)):
            self.growing.add(slots.what)
        if isinstance(slots.form[1] if slots.form else None, collections.deque) and [*map(id, now)] != [*map(id, then)]:
            self.growing.add(slots.what)
        if kind == "entries" and len(now) != len(then):
            now = _match_keys(now, then)
        if len(now) < len(then):
            return
        for index, (a, b) in enumerate(zip(now, then, strict=False)):
            if a is b:
                continue
            if _is_other_number(a, b) or (b is None and type(a) in (float, int)):
                key = place_key(slots, index)
                if key is not None:
                    self.places.add(key)
            elif type(a) in (list, dict) and type(a) is type(b) and (inside := environment.reached.find_contents(b)) is not None:
                self._learn(environment, inside, list(a) if type(a) is list else [*a.keys(), *a.values()])

    def learn_effects(self, effects: Sequence[tuple[Effect, Sequence[Any]]]) -> None:
        """Record the slots into which a function writes new numbers in each call."""
        for effect, leaves in effects:
            if effect.slots is None or not any(map(_is_number, leaves)):
                continue
            if isinstance(effect, Growth):
                self.growing.add(effect.slots.what)
            elif isinstance(effect, NewEntry):
                self.places.add(("entries", effect.slots.what, _name(effect.key)))
            elif (key := place_key(effect.slots, effect.number)) is not None:
                self.places.add(key)

    def learn_arguments(self, key: Any, others: Sequence[Any], spec: Any, first: int) -> bool:
        """Record arguments that were other numbers in calls with other keys; True if there are new ones. The kinds of
        the leaves start at index `first` of a key.
        """
        before = len(self.arguments)
        for other in others:
            if other is None or len(other) != len(key) or other[:first] != key[:first]:
                continue
            pairs = list(zip(key[first:], other[first:], strict=True))
            if all(a == b or _are_numbers(a, b) for a, b in pairs):
                for leaf, (a, b) in enumerate(pairs):
                    if a != b and (("argument", spec, leaf), ()) not in self.by_value:
                        self.arguments.add((spec, leaf))
        return len(self.arguments) != before

    def varies(self, spec: Any, leaf: int, value: Any) -> bool:
        """True if an argument is an input of programs."""
        return (
            bool(self.arguments)
            and type(value) in (float, int)
            and (spec, leaf) in self.arguments
            and (("argument", spec, leaf), ()) not in self.by_value
        )

    def slots(self, environment: Environment, flat: Sequence[Any], spec: Any) -> NumberSlots:
        """Return the number slots for a trace in an environment, with these arguments."""
        found: list[Slot] = []
        for slots in environment.captured if self.places else ():
            for index, value in enumerate(slots.then):
                if type(value) in (float, int, tuple) and (key := place_key(slots, index)) in self.places:
                    for path, number in numbers_in(value):
                        if (key, path) not in self.by_value:
                            found.append(Slot((key, path), slots, index, path, type(number), slots.label(index)))
        for leaf, value in enumerate(flat):
            if self.varies(spec, leaf, value):
                found.append(Slot((("argument", spec, leaf), ()), None, leaf, (), type(value), f"argument {leaf}"))
        lists = [slots for slots in environment.captured if slots.what in self.growing and ("growing", slots.what) not in self.by_value]
        return NumberSlots(self, environment, found, [slots for slots in lists if _may_grow(environment, slots)])


def _may_grow(environment: Environment, slots: CapturedSlots) -> bool:
    """True if a stand-in can replace a list in all slots that hold it."""
    if slots.form is None or slots.form[0] != "items" or type(slots.form[1]) not in (list, collections.deque):
        return False
    places = environment.reached.find_slots(slots.form[1])
    return bool(places) and all(place_key(*place) is not None for place in places or ())


def _match_keys(now: list[Any], then: list[Any]) -> list[Any]:
    """Return the current entries of a dictionary in the order of its previous keys."""
    half = len(now) // 2
    values = {id(k): v for k, v in zip(now[:half], now[half:], strict=True)}
    keys = then[: len(then) // 2]
    return [*keys, *[values.get(id(k), MISSING) for k in keys]]


def _is_other_number(a: Any, b: Any) -> bool:
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and any(map(_is_other_number, a, b))
    return type(a) is type(b) and type(a) in (float, int) and not is_same(a, b)


def _are_numbers(a: Any, b: Any) -> bool:
    """True if two parts of keys stand for Python numbers of one class."""
    return a.__class__ is tuple and b.__class__ is tuple and a[0] is b[0] and a[0] in (float, int)


class Slot(NamedTuple):
    """Place of a number that is an input: a path in a captured slot, or a leaf of the arguments (`slots` is None)."""

    key: tuple[Key, Path]
    slots: CapturedSlots | None
    place: int
    path: Path
    kind: type
    label: str


class NumberSlots:
    """The slots that are inputs of one trace."""

    def __init__(
        self, seen: SeenNumbers, environment: Environment, slots: list[Slot], growing: Sequence[CapturedSlots] = ()
    ) -> None:
        self._seen = seen
        #: Lists that only grow, and their stand-ins during a trace.
        self.growing = list(growing)
        self.stand_ins: list[Any] = []
        #: Identities of the slots of growing lists that the function inspects.
        self.looked_at: set[int] = set()
        self.environment = environment
        self.slots = slots
        #: Function that checks the conditions on the numbers and returns the inputs of the program; None before the end
        #: of a trace.
        self.early: Callable[[Sequence[Any]], list[Any] | None] | None = None
        #: Outcomes of the conditions, by expression.
        self.outcomes: dict[int, bool] = {}
        #: Expressions of the trace, and the expressions whose numbers the program takes.
        self.expressions: dict[Any, int] = {}
        self.inputs: list[int] = []
        #: Placeholders among the arguments, by the number of the leaf.
        self.arguments: dict[int, NumberPlaceholder] = {}
        #: Numbers of another call among the arguments, while the function runs for that call.
        self.given: dict[int, Any] = {}
        reached = environment.reached_ids
        #: Python functions that accept placeholders (see ndgrad._src.compiler.capture.patched_functions).
        self.functions = [
            made for made in PATCHED.values() if id(made.original) not in reached or self._can_replace(made.original)
        ]
        self._bind()

    def _can_replace(self, value: Any) -> bool:
        """True if a stand-in can replace an object in all slots that hold it."""
        places = self.environment.reached.find_slots(value)
        return bool(places) and all(place_key(*place) is not None for place in places or ())

    def __bool__(self) -> bool:
        return bool(self.slots or self.growing)

    def _bind(self) -> None:
        """Mark the captured slots that may hold other numbers."""
        for slots in self.environment.captured:
            slots.varying, slots.is_growing = None, slots in self.growing
        for slot in self.slots:
            if slot.slots is not None:
                templates = slot.slots.varying = slot.slots.varying or {}
                before = templates.get(slot.place, slot.slots.then[slot.place])
                templates[slot.place] = _replace_at(before, slot.path, Varying(slot.kind))
        self._readers = [None if s.slots is None else _make_reader(s.slots, s.place) for s in self.slots]

    def install(self, tracer: Any, tape: NumberTape, flat: Sequence[Any]) -> None:
        """Write placeholders into the slots. `Environment.restore` removes them."""
        self.early = None
        self.arguments = {}
        installed: dict[tuple[int, int], tuple[CapturedSlots, Any]] = {}
        #: Several functions may capture the same global.
        numbers: dict[Any, NumberPlaceholder] = {}
        for number, slot in enumerate(self.slots):
            if slot.slots is None:
                known = flat[slot.place]
                self.arguments[slot.place] = NumberPlaceholder(tracer, tape, tape.add_slot(number, known), slot.kind)
                continue
            where = id(slot.slots), slot.place
            _, before = installed.get(where, (None, slot.slots.then[slot.place]))
            known = _get_at(slot.slots.then[slot.place], slot.path)
            memory = _memory_key(slot.slots, slot.place), slot.path
            if memory not in numbers:
                numbers[memory] = NumberPlaceholder(tracer, tape, tape.add_slot(number, known), slot.kind)
            installed[where] = slot.slots, _replace_at(before, slot.path, numbers[memory])
        self.stand_ins = []
        for slots in self.growing:
            made = make_growing(slots, self.looked_at, tracer)
            slots.then = slots.read()
            self.stand_ins.append(made)
            for holder, place in self.environment.reached.find_slots(made.original) or ():
                installed[id(holder), place] = holder, made
        for made in self.functions:
            for holder, place in self.environment.reached.find_slots(made.original) or ():
                installed[id(holder), place] = holder, made
        for cache in self.environment.reached.caches:
            if self._can_replace(cache):
                stand_in = CacheStandIn(cache, tracer, self.environment)
                for holder, place in self.environment.reached.find_slots(cache) or ():
                    installed[id(holder), place] = holder, stand_in
            else:
                self.environment.reached.opaque.refuse_cache(cache)
        self.environment.install(installed)

    def end(self, tape: NumberTape) -> None:
        """Store the conditions and inputs of a finished trace, whether it broke or not."""
        if tape.has_failed:  # other numbers may succeed
            self.drop_all()
        self.early = tape.make_early_function()
        self.outcomes = tape.outcomes()
        self.expressions, self.inputs = tape.expressions, list(tape.inputs)

    def release(self) -> None:
        """Drop the placeholders of a trace, which refer to all of it."""
        self.arguments, self.stand_ins = {}, []

    def drop(self, numbers: Any) -> None:
        """Guard some slots by value, in this trace."""
        dropped = {*numbers}
        self.slots = [slot for number, slot in enumerate(self.slots) if number not in dropped]
        self._bind()

    def drop_all(self) -> None:
        """Guard all slots by value, in this trace."""
        self.growing = []
        self.drop(range(len(self.slots)))

    def need(self, numbers: Any) -> None:
        """Guard some slots by value in all traces of the function, and likewise the lists that it inspects."""
        self._seen.by_value |= {self.slots[number].key for number in numbers}
        self._seen.by_value |= {("growing", slots.what) for slots in self.growing if id(slots) in self.looked_at}
        self.growing = [slots for slots in self.growing if id(slots) not in self.looked_at]
        self.drop(numbers)

    def note_effects(self, effects: Sequence[tuple[Effect, Sequence[Any]]]) -> None:
        """Record the effects of the traced function."""
        self._seen.learn_effects(effects)

    @contextmanager
    def set_numbers(self, numbers: Sequence[Any]) -> Iterator[bool]:
        """Context in which slots hold the numbers of an earlier call. `numbers` are those that its program took. Yield
        False, and change nothing, if they do not determine all slots. Arguments are put into `given`.
        """
        known = dict(zip(self.inputs, numbers, strict=True))
        expressions = [slot_expression(self.expressions, i) for i in range(len(self.slots))]
        found = [None if expression is None else known.get(expression) for expression in expressions]
        memories = [None if s.slots is None else (_memory_key(s.slots, s.place), s.path) for s in self.slots]
        of_memory = {memory: number for memory, number in zip(memories, found, strict=True) if number is not None}
        found = [of_memory.get(m) if number is None else number for m, number in zip(memories, found, strict=True)]
        if any(number is None for number in found):
            yield False
            return
        places: dict[tuple[int, int], tuple[CapturedSlots, Any]] = {}
        for slot, number in zip(self.slots, found, strict=True):
            if slot.slots is None:
                self.given[slot.place] = number
            else:
                where = id(slot.slots), slot.place
                _, before = places.get(where, (None, slot.slots.then[slot.place]))
                places[where] = slot.slots, _replace_at(before, slot.path, number)
        with self.environment.rewind({id(slots): slots for slots, _ in places.values()}.values()):
            self.environment.install(places)
            try:
                yield True
            finally:
                self.environment.install({})
                self.given = {}

    def argument_varies(self, leaf: int) -> bool:
        """True if an argument is a slot."""
        return any(slot.slots is None and slot.place == leaf for slot in self.slots)

    def numbers(self, flat: Sequence[Any]) -> list[Any] | None:
        """Return the numbers that the program takes in a call; None if a condition on them has another outcome."""
        if self.early is None:
            return None
        try:
            found = [
                flat[slot.place] if read is None else _get_at(read(), slot.path)
                for slot, read in zip(self.slots, self._readers, strict=True)
            ]
            return self.early(found)
        except Exception:
            return None  # the function itself will raise

    def previous_numbers(self, flat: Sequence[Any]) -> list[Any] | None:
        """Return the same for the slot values of the last comparison."""
        found = [
            flat[slot.place] if slot.slots is None else _get_at(slot.slots.then[slot.place], slot.path) for slot in self.slots
        ]
        try:
            return [] if self.early is None else self.early(found)
        except Exception:
            return None

    def mismatch(self, flat: Sequence[Any]) -> str | None:
        """Return the reason why a call needs another trace; None if it does not. The classes of the numbers are already
        checked.
        """
        if self.slots and self.numbers(flat) is None:
            return f"a condition on numbers: {', '.join(dict.fromkeys(slot.label for slot in self.slots))}"
        return None


def _get_at(value: Any, path: Path) -> Any:
    for i in path:
        value = value[i]
    return value
