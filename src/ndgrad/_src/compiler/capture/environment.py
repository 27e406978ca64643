"""Environment of a traced function: everything it reaches apart from its arguments, with guards for changes.

A traced function has read closures, globals, defaults, attributes and containers. The numbers it found are constants of
its program, branches have been taken, tensors are inputs. So everything that its code can reach is recorded before the
trace (ndgrad._src.compiler.capture.reachable_objects), compared after it (the differences are the function's side
effects), and compared again before each call of the program. Most comparisons are by identity, which costs some ten
nanoseconds per entry. `Environment.check` returns the reason for another trace.

The code of Python, NumPy, SciPy and ndgrad is assumed not to change. The names that a function looks up in their
modules are compared like others, because they can be replaced. A tensor may be replaced by another of the same kind (an
optimizer's state, a gradient). The new tensor is then the input of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

from ndgrad._src.compiler.capture.captured_state import (
    NUMBERS,
    CapturedSlots,
    fits,
    get_state,
    is_plain,
    is_same,
    is_same_state,
    refill,
    refill_list,
    restore_state,
    set_item,
)
from ndgrad._src.compiler.capture.graph_break import GraphBreak, Unreached
from ndgrad._src.compiler.capture.loop_source import LoopLog
from ndgrad._src.compiler.capture.opaque_names import describe_cache
from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects
from ndgrad._src.compiler.capture.tensor_facts import get_facts, has_facts
from ndgrad._src.compiler.capture.trace_reasons import Reason, describe_facts, describe_items, describe_value
from ndgrad._src.core.variable import Variable

#: Marks a slot without a placeholder. None would not do, because it may be a value of the function.
_NONE_INSTALLED = object()


class Environment:
    """Everything that functions and objects reach, as it was when the environment was created."""

    def __init__(
        self, roots: Iterable[tuple[str, Any]], names: Iterable[str] = (), modules: Iterable[str] = ()
    ) -> None:
        """Record the environment of `roots`. See `ReachableObjects` for `names` and `modules`."""
        self.reached = ReachableObjects(roots, names, modules)
        self.captured = self.reached.captured
        self.tensors = self.reached.tensors
        #: Python loops that traces have met.
        self.loops = LoopLog()
        #: Counts of caches before a trace.
        self._counts: list[Any] = []
        #: Number of times that compared slots got other objects: replaced tensors, equal values.
        self.generation = 0
        #: Placeholders installed during a trace, by the identity of the slots and the number of the slot.
        self._installed: dict[tuple[int, int], Any] = {}
        #: Identities of the slots in which tensors are replaced, and of the entries of these tensors.
        self.moving: set[int] = set()
        self.moving_tensors: set[int] = set()
        #: Native guard for everything that does not move (see ndgrad._src.compiler.runtime.state_guards), and the slots
        #: and tensors that it leaves to Python.
        self.quick: Callable[[], bool] | None = None
        self.slow: tuple[list[CapturedSlots], list[list[Any]]] = ([], [])

    def find_entry(self, t: Any) -> list[Any] | None:
        """Return the entry of a reached tensor: a list whose first item is the tensor currently in its slots."""
        return self.tensors.get(id(t))

    @property
    def reached_ids(self) -> Iterable[int]:
        """Identities of all reached objects."""
        return self.reached.seen.keys()

    # ----- during a trace ---------------------------------------------------------------------------------------------

    def install(self, placeholders: dict[tuple[int, int], tuple[CapturedSlots, Any]]) -> None:
        """Write placeholders for numbers into slots. A slot is given by the identity of its `CapturedSlots` and its number."""
        self._installed = {where: made for where, (_, made) in placeholders.items()}
        for slots in {id(slots): slots for slots, _ in placeholders.values()}.values():
            values = slots.read()
            for (whose, place), made in self._installed.items():
                if whose == id(slots):
                    values[place] = made
            assert slots.write is not None
            slots.write(values)

    def find_placeholder(self, slots: CapturedSlots, place: int) -> Any:
        """Return the placeholder installed in a slot, or an object that no slot holds."""
        return self._installed.get((id(slots), place), _NONE_INSTALLED)

    def watch(self, what: str, read: Callable[[], Any]) -> None:
        """Compare the result of `read` before each call, too."""
        self.captured.append(CapturedSlots(what, (), lambda: [read()], None))

    def note_caches(self) -> None:
        """Record the counts of all caches at the start of a trace."""
        self._counts = [cache.cache_info() for cache in self.reached.caches]

    def check_caches(self) -> None:
        """Raise if a trace has used a cache without a stand-in."""
        for cache, known in zip(self.reached.caches, self._counts, strict=True):
            if cache.cache_info() != known:
                raise GraphBreak(describe_cache(cache))

    def reach_cached(self, what: str, value: Any, read: Callable[[], Any]) -> None:
        """Compare a cached result before each call; `read` returns the current one. An object that has not been reached
        is reached by another environment.
        """
        if not (is_plain(value) or id(value) in self.reached.seen or id(value) in self.tensors):
            raise Unreached(f"{what} is an object that was not found by its name", [(what, value)])
        self.watch(what, read)

    def find_changes(self) -> list[tuple[CapturedSlots, int, Any]]:
        """Return the slots that have changed as (slots, number, current value). The number is -1 if the count of items
        has changed, and -2 for a generator of random numbers. An installed placeholder is no change.
        """
        found: list[tuple[CapturedSlots, int, Any]] = []
        for slots in self.captured:
            now, then = slots.read(), slots.then
            if len(now) != len(then):
                found.append((slots, -1, now))
            elif not all(map(is_, now, then)):
                for i, (a, b) in enumerate(zip(now, then, strict=True)):
                    if a is not b and a is not self._installed.get((id(slots), i), _NONE_INSTALLED) and not is_same(a, b):
                        found.append((slots, i, a))
            for (whose, place), made in self._installed.items():
                if whose == id(slots) and len(now) == len(then) and now[place] is not made and is_same(now[place], then[place]):
                    found.append((slots, place, now[place]))  # overwritten by a number equal to that of this call
        for source, state in self.reached.generators:
            if not is_same_state(get_state(source), state):
                found.append((CapturedSlots("", (), list, functools.partial(restore_state, source, state)), -2, source))
        return found

    def restore(self) -> None:
        """Restore every slot, even if others raise. Raise a graph break at the end for the slots that could not be
        restored.

        Restored containers let go of objects of the trace, whose finalizers may change slots again. So the slots are
        compared a second time.
        """
        self._installed = {}
        failed: list[str] = []
        unwritten: list[CapturedSlots] = []
        for _ in range(2):
            unwritten = [slots for slots in self.captured if not self._restore_slots(slots, failed)]
        for source, state in self.reached.generators:
            if not is_same_state(get_state(source), state):
                restore_state(source, state, [])
        for slots in unwritten:
            if not _are_equal(slots.read(), slots.then):
                failed.append(slots.what)
        if failed:
            raise GraphBreak(f"{failed[0]} has changed and cannot be put back")

    @staticmethod
    def _restore_slots(slots: CapturedSlots, failed: list[str]) -> bool:
        """Restore slots that have changed. False for a changed view of another object, such as a mapping proxy."""
        try:
            if _are_equal(slots.read(), slots.then):
                return True
            if slots.write is None:
                return False
            slots.write(slots.then)
        except Exception:
            failed.append(slots.what)
        return True

    # ----- other values for a while -----------------------------------------------------------------------------------

    @contextmanager
    def rewind(self, places: Iterable[CapturedSlots]) -> Iterator[None]:
        """Return a context in which slots hold their values from before the call: those of the last comparison."""
        before = [(slots, slots.read()) for slots in places if slots.write is not None and not slots.is_growing]
        try:
            for slots, _ in before:
                slots.write(slots.then)  # type: ignore[misc]  # not None, see above
            yield
        finally:
            for slots, values in before:
                slots.write(values)  # type: ignore[misc]

    @contextmanager
    def as_traced(self) -> Iterator[None]:
        """Context in which everything that can be restored is as it was when the function was traced."""
        now = [(slots, slots.read()) for slots in self.captured]
        changed = [
            (slots, values)
            for slots, values in now
            if slots.write is not None and not slots.is_growing and not _are_same(values, slots.then)
        ]
        try:
            for slots, _ in changed:
                assert slots.write is not None
                slots.write(slots.then)
            yield
        finally:
            for slots, values in changed:
                assert slots.write is not None
                slots.write(values)

    # ----- before a call ----------------------------------------------------------------------------------------------

    def check(self) -> str | None:
        """Return the reason why a trace made in this environment is no longer valid; None if it is valid. Replaced
        tensors of the same kind become the new inputs.
        """
        moved: dict[int, list[Any]] = {}
        places, tensors = self.slow if self.quick is not None and self.quick() else (self.captured, self.tensors.values())
        for slots in places:
            now, then = slots.read(), slots.then
            if (len(now) == len(then) and all(map(is_, now, then))) or slots.is_growing:
                continue
            reason = self._compare(slots, now, moved)
            if reason is not None:
                return reason
        for t, known, _, label in tensors:
            if id(t) not in moved and known is not None and get_facts(t) != known:
                cause = f"{label} is a tensor of another kind"
                return Reason(cause, describe_facts(label, get_facts(t), known) or cause)
        return self._accept_replacements(moved) if moved else None

    def _compare(self, slots: CapturedSlots, now: list[Any], moved: dict[int, list[Any]]) -> str | None:
        """Return the reason why changed slots need another trace; None if they do not. Record replaced tensors in
        `moved`.
        """
        then = slots.then
        if slots.form is not None and slots.form[0] == "keys":
            return f"{slots.what} are others" if self._has_other_keys(slots, now) else None
        if len(now) != len(then):
            return describe_items(slots, now)
        for i, (a, b) in enumerate(zip(now, then, strict=True)):
            if a is b:
                continue
            if slots.varying is not None and i in slots.varying and fits(a, slots.varying[i]):
                then[i] = a
            elif is_same(a, b):
                if b.__class__ is not tuple:  # items of a tuple may have been reached
                    then[i] = a  # the next comparison is by identity again
                    self.generation += 1
            elif not (isinstance(a, Variable) and isinstance(b, Variable)):
                if not self.adopt(slots, i, a):
                    return describe_value(slots.label(i), a, b)
            else:
                entry = moved.setdefault(id(b), [a, 0])
                if entry[0] is not a:
                    return f"{slots.label(i)} is another tensor"
                entry[1] += 1
        return None

    def _has_other_keys(self, slots: CapturedSlots, now: list[Any]) -> bool:
        """True if a class has gained or lost an attribute that some code names. Accept other attributes."""
        if self.reached.names.used & {*now}.symmetric_difference(slots.then):
            return True
        slots.then = now
        self.generation += 1
        return False

    def has_new_values(self) -> bool:
        """True if slots with numbers as inputs hold anything new that is not such a number."""
        for slots in self.captured:
            templates = slots.varying
            if templates is None:
                continue
            now, then = slots.read(), slots.then
            if len(now) != len(then):
                return True
            for i, (a, b) in enumerate(zip(now, then, strict=True)):
                if a is not b:
                    if i not in templates or not fits(a, templates[i]):
                        return True
                    then[i] = a
        return False

    def _accept_replacements(self, moved: dict[int, list[Any]]) -> str | None:
        """Accept tensors as replacements of others. Each must replace one tensor, in all slots of that tensor."""
        for before, (now, count) in moved.items():
            _, known, places, label = self.tensors[before]
            if count != places or (id(now) in self.tensors and id(now) not in moved):
                return f"{label} is another tensor"
            if known is None or not has_facts(now._array) or get_facts(now) != known:
                cause = f"{label} is a tensor of another kind"
                facts = get_facts(now) if known is not None and has_facts(now._array) else None
                return Reason(cause, (facts and describe_facts(label, facts, known)) or cause)
        if len({id(now) for now, _ in moved.values()}) != len(moved):
            return "two tensors have become one"
        entries = {before: self.tensors.pop(before) for before in moved}
        for before, (now, _) in moved.items():
            entries[before][0] = now
            self.tensors[id(now)] = entries[before]
        for slots in self.captured:
            if slots.is_growing:
                continue
            then, slots.then = slots.then, slots.read()
            for a, b in zip(then, slots.then, strict=True):
                if a is not b and isinstance(b, Variable):
                    self._note_move(slots, b)
        self.generation += 1
        return None

    def _note_move(self, slots: CapturedSlots, t: Any) -> None:
        """Record a slot in which tensors are replaced, and the entry of its tensor. Python compares these."""
        known = id(self.tensors[id(t)])
        if id(slots) not in self.moving or known not in self.moving_tensors:
            self.moving.add(id(slots))
            self.moving_tensors.add(known)
            self.quick = None  # the native guard knows the previous tensor

    def adopt(self, slots: CapturedSlots, place: int, new: Any) -> bool:
        """Accept a new list or dictionary of numbers in a slot as the successor of the old one; False if it is not.

        The old container must be reached through this slot only. The numbers must be equal to the old ones, or fit
        slots whose numbers are inputs.
        """
        old = slots.then[place]
        if type(new) not in (list, dict) or type(old) is not type(new) or id(new) in self.reached.seen:
            return False
        inside = self.reached.find_contents(old)
        if inside is None or inside.is_growing or self.reached.arrivals[id(old)] != 1:
            return False
        values = [*new.keys(), *new.values()] if type(new) is dict else list(new)
        if len(values) != len(inside.then):
            return False
        templates = inside.varying or {}
        for i, (a, b) in enumerate(zip(values, inside.then, strict=True)):
            if type(a) not in NUMBERS or not (a is b or is_same(a, b) or (i in templates and fits(a, templates[i]))):
                return False
        if type(new) is dict:
            inside.read, inside.write = (lambda: [*new.keys(), *new.values()]), functools.partial(refill, new)
            inside.form = "entries", new
        else:
            inside.read, inside.write = (lambda: list(new)), functools.partial(refill_list, new)
            inside.form = "items", new
        inside.then, slots.then[place] = values, new
        del self.reached.seen[id(old)]
        self.reached.seen[id(new)], self.reached.arrivals[id(new)] = new, 1
        self.generation += 1
        if not self.moving >= {id(slots), id(inside)}:
            self.moving |= {id(slots), id(inside)}
            self.quick = None
        return True

    # ----- after a call -----------------------------------------------------------------------------------------------

    def write_slot(self, slots: CapturedSlots, number: int, value: Any) -> None:
        """Write an object into a slot. The environment accepts a tensor of the same kind as a replacement, and likewise
        numbers that are inputs and containers of such numbers.
        """
        half = len(slots.then) // 2
        if slots.form is not None and slots.form[0] == "entries" and number >= half:
            set_item(slots.form[1], slots.then[number - half], value)
        else:
            values = slots.read()
            values[number] = value
            assert slots.write is not None
            slots.write(values)
        before = slots.then[number]
        if not isinstance(value, Variable):
            if slots.varying is not None and number in slots.varying and fits(value, slots.varying[number]):
                slots.then[number] = value
            else:
                self.adopt(slots, number, value)
            return
        known = self.tensors.get(id(before))
        if (
            known is not None
            and known[0] is before
            and known[2] == 1
            and id(value) not in self.tensors
            and get_facts(value) == known[1]
        ):
            del self.tensors[id(before)]
            known[0] = value
            self.tensors[id(value)] = known
            slots.then[number] = value
            self.generation += 1
            self._note_move(slots, value)


def _are_same(a: list[Any], b: list[Any]) -> bool:
    """True if two lists hold the same objects in the same order."""
    return len(a) == len(b) and all(map(is_, a, b))


def _are_equal(a: list[Any], b: list[Any]) -> bool:
    """True if two lists hold the same objects or equal numbers in the same order."""
    return len(a) == len(b) and all(x is y or is_same(x, y) for x, y in zip(a, b, strict=True))
