"""What a function reaches beside its arguments, and whether that is still as it was.

A traced function holds what it read from closures, globals, defaults, attributes and containers: numbers have become
constants of its program, branches have been taken, tensors are inputs. So everything that its code can reach is
looked at before it is traced (`Environment`), once more after that (what it has changed are its side effects), and
before each call of the program. Only identities are compared as a rule, which costs some ten nanoseconds an entry.

What is reached: of a Python function its cells, defaults and the globals that its code names, and so on through the
functions that it calls; of an object its attributes, and of its class what the code names; of a container its items;
of a module of the user's what the code names. Python's, NumPy's, SciPy's and ndgrad's own modules and classes are
taken to stay as they are. A tensor may be replaced by another of the same kind (an optimizer's state, a gradient):
the input of the program is then that one.
"""

from __future__ import annotations

import collections
import functools
import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

import numpy as np

from ndgrad.arrays.library import is_on_device
from ndgrad.autograd.variable import Variable, requires_grad
from ndgrad.autograd.versions import InferenceStorage
from ndgrad.compiler.foreign import check_pure, is_foreign
from ndgrad.compiler.graph_break import GraphBreak
from ndgrad.compiler.holding import (
    MISSING,
    NUMBERS,
    Contents,
    Held,
    assign,
    clear,
    content,
    fill,
    fits,
    put_back,
    refill,
    relist,
    reset,
    same,
    same_state,
    set_attributes,
    set_item,
    set_slots,
    slots_of,
    state_of,
)
from ndgrad.compiler.slot_effects import is_placeholder
from ndgrad.generator import Generator

#: How many objects a function may reach; how many bytes of an array are compared at each call as
#: they are, and without a copy.
MOST = 20_000
SMALL = 65_536
LARGE = 1 << 28

#: Whose objects stay as they are, or change only inside (functions that are written when they are first called).
_CLOSED = (
    "ndgrad.ops.",
    "ndgrad.autograd.",
    "ndgrad.arrays.",
    "ndgrad.api.",
    "ndgrad.devices",
    "ndgrad.dtypes",
    "ndgrad.numpy.",
    "ndgrad.lifting.",
)


def facts(t: Any) -> tuple[Any, ...]:
    """What a program depends on in a tensor."""
    array = t._array
    meta = t._meta
    names = None if meta is None else meta.names
    return (
        t.__class__,
        array.shape,
        array.dtype,
        array.strides,
        t._storage.__class__ is InferenceStorage,
        requires_grad(t),
        names if array.__class__ is np.ndarray or not is_on_device(array) else (names, array.device.id),
    )


def _has_facts(array: Any) -> bool:
    """Whether programs take a tensor over an array of this class."""
    return isinstance(array, (np.ndarray, np.generic)) or is_on_device(array)


def _is_public(f: Any) -> bool:
    """Whether a function is found under its name in its module, or in a class there."""
    found: Any = sys.modules.get(f.__module__)
    for name in f.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is f


class Environment:
    """What functions and objects reach, as it was when this was made."""

    def __init__(self, roots: Iterable[tuple[str, Any]]) -> None:
        self.held: list[Held] = []
        #: the tensors that are reached, by identity: themselves, their facts, and in how many places they are held
        self.tensors: dict[int, list[Any]] = {}
        #: generators of random numbers
        self._sources: list[tuple[Any, Any]] = []
        #: functions that remember their results (functools.cache), and how often they had none
        self._caches: list[tuple[Any, int]] = []
        #: how often what is compared has become other objects: tensors that were replaced, equal values
        self.generation = 0
        #: placeholders that stand in places while a function is traced, by the identity of a `Held` and the place
        self._installed: dict[tuple[int, int], Any] = {}
        #: the places at which tensors are replaced, and what is known of these tensors, by identity
        self.moving: set[int] = set()
        self.moving_tensors: set[int] = set()
        #: what says that all the rest is surely as it was (see ndgrad.compiler.snapshot), and what it does not look at
        self.quick: Callable[[], bool] | None = None
        self.slow: tuple[list[Held], list[list[Any]]] = ([], [])
        self._seen: dict[int, Any] = {}
        #: on how many ways objects are reached, by identity
        self._arrivals: collections.Counter[int] = collections.Counter()
        self._names: set[str] = set()
        self._named: list[tuple[Any, set[str], str]] = []
        self._pending: list[tuple[str, Any]] = list(roots)
        self._pending += [("a hook on all modules or optimizers", hooks) for hooks in _global_hooks()]
        self._walk()
        del self._pending

    # ----- reaching ---------------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        while True:
            while self._pending:
                self._reach(*self._pending.pop())
                if len(self._seen) > MOST:
                    raise GraphBreak(f"the function reaches more than {MOST} objects")
            for holder, done, what in self._named:
                new = (self._names & holder.__dict__.keys()) - done
                done |= new
                if new:
                    self._hold_named(what, holder, holder.__dict__, sorted(new))
            if not self._pending:
                return

    def _hold(self, held: Held) -> None:
        self.held.append(held)
        for place, value in enumerate(held.then):
            if is_placeholder(value):
                broken = GraphBreak(f"{held.label(place)} is used by a function that another thread traces")
                broken.is_passing = True
                raise broken
            if isinstance(value, Variable):
                self._count(held.label(place), value)
            elif not isinstance(value, NUMBERS) and value is not MISSING:
                self._pending.append((held.label(place), value))

    def _count(self, label: str, t: Any) -> None:
        known = self.tensors.get(id(t))
        if known is None:
            self.tensors[id(t)] = [t, facts(t) if _has_facts(t._array) else None, 1, label]
            if t.__dict__:
                self._hold_dict(label, t.__dict__)
        else:
            known[2] += 1

    def _reach(self, what: str, value: Any) -> None:
        if isinstance(value, Variable):
            self._count(what, value)
            return
        self._arrivals[id(value)] += 1
        if isinstance(value, NUMBERS) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        reach = _REACH.get(value.__class__)
        if reach is not None:
            reach(self, what, value)
        elif isinstance(value, np.ndarray):
            self._array(what, value)
        elif isinstance(value, (list, collections.deque)):
            self._list(what, value)
        elif isinstance(value, dict):
            self._hold_dict(what, value)
        elif isinstance(value, (set, frozenset)):
            self._set(what, value)
        elif isinstance(value, tuple):
            for i, item in enumerate(value):  # it stays as it is; what it holds may change
                self._reach_item(f"{what}[{i}]", item)
        elif isinstance(value, types.ModuleType):
            if not is_foreign(value.__name__):
                self._named.append((value, set(), f"{value.__name__}."))
        elif isinstance(value, type):
            self._class(value)
        else:
            self._object(what, value)
            return
        # of a class of the user's
        if isinstance(value, (list, dict, set, collections.deque)) and hasattr(value, "__dict__"):
            self._class(type(value))
            self._hold_dict(what, value.__dict__)

    def _reach_item(self, what: str, value: Any) -> None:
        if isinstance(value, Variable):
            self._count(what, value)
        elif not isinstance(value, NUMBERS):
            self._pending.append((what, value))

    def _function(self, what: str, f: Any) -> None:
        home = f.__globals__.get("__name__") or f.__module__ or ""  # generated code has no name there
        if is_foreign(home) and _is_public(f):
            return  # a function or method of a library's
        label = f"{getattr(f, '__qualname__', what)}: "
        parts = ["__code__", "__defaults__", "__kwdefaults__"]
        self._hold(Held(label, parts, lambda: [f.__code__, f.__defaults__, f.__kwdefaults__], None, ("function", f)))
        if f.__closure__:
            self._cells(label, f.__code__.co_freevars, f.__closure__)
        if f.__dict__:
            self._hold_dict(label, f.__dict__)
        if not is_foreign(home):
            names = _names_of(f.__code__)
            self._names |= names
            space = f.__globals__
            check_pure(space, names, f.__qualname__)
            self._hold_named("global ", None, space, sorted(names))

    def _cells(self, what: str, labels: Iterable[str], cells: tuple[Any, ...]) -> None:
        self._hold(
            Held(what, labels, lambda: [content(c) for c in cells], functools.partial(fill, cells), ("cells", cells))
        )

    def _method(self, what: str, method: Any) -> None:
        self._pending += [(what, method.__self__), (what, method.__func__)]

    def _partial(self, what: str, value: Any) -> None:
        self._hold(
            Held(f"{what}.", ["func", "args", "keywords"], lambda: [value.func, value.args, value.keywords], None)
        )

    def _property(self, what: str, value: Any) -> None:
        self._pending += [(what, f) for f in (value.fget, value.fset) if f is not None]

    def _cache(self, what: str, value: Any) -> None:
        self._caches.append((value, value.cache_info().misses))
        self._pending.append((what, value.__wrapped__))

    def _wrapping(self, what: str, value: Any) -> None:
        self._pending.append((what, value.__func__ if hasattr(value, "__func__") else value.__wrapped__))

    def _hold_named(self, what: str, holder: Any, space: Any, names: list[str]) -> None:
        def read() -> list[Any]:
            return [space.get(n, MISSING) for n in names]

        write = (
            functools.partial(assign, space, names)
            if isinstance(space, dict)
            else functools.partial(set_attributes, holder, names)
        )
        self._hold(Held(what, names, read, write, ("names", (space, names))))

    def _hold_dict(self, what: str, d: Any) -> None:
        labels = [f"[{k!r}]" if isinstance(k, (str, int)) else "[...]" for k in d]
        self._hold(
            Held(
                what,
                [*[""] * len(labels), *labels],
                lambda: [*d.keys(), *d.values()],
                functools.partial(refill, d),
                ("entries", d),
            )
        )

    def _list(self, what: str, items: Any) -> None:
        labels = [f"[{i}]" for i in range(len(items))]
        self._hold(Held(what, labels, lambda: list(items), functools.partial(relist, items), ("items", items)))

    def _set(self, what: str, items: Any) -> None:
        write = functools.partial(reset, items) if isinstance(items, set) else None
        self._hold(Held(what, (), lambda: sorted(items, key=id), write, ("set", items)))

    def _array(self, what: str, array: Any) -> None:
        if array.nbytes > LARGE or array.dtype.hasobject:
            raise GraphBreak(
                f"{what} is a NumPy array of {array.nbytes} bytes, too many to be compared before each call: "
                "make it a tensor"
            )
        if array.nbytes > SMALL:
            known = Contents(array)
            put = (lambda saved: saved[0].write(array)) if array.flags.writeable else None
            label = f" ({array.nbytes} bytes, compared before each call; those of a tensor are not)"
            self._hold(Held(what, [label], lambda: [known if known.are_in(array) else Contents(array)], put))
            return

        def write(saved: list[Any]) -> None:
            array[...] = np.frombuffer(saved[0][2], array.dtype).reshape(array.shape)

        write_back = write if array.flags.writeable else None
        self._hold(
            Held(what, (), lambda: [(array.shape, array.dtype.str, array.tobytes())], write_back, ("array", array))
        )

    def _class(self, cls: type) -> None:
        if is_foreign(cls.__module__):
            return
        for c in cls.__mro__:
            if not is_foreign(c.__module__) and not any(holder is c for holder, _, _ in self._named):
                # what Python calls by itself, and of a class that is derived from one of ndgrad's or
                # another's, what that may call
                derived = any(is_foreign(b.__module__) and b is not object for b in c.__mro__)
                functions = (types.FunctionType, staticmethod, classmethod, property)
                self._names |= {
                    n for n, v in vars(c).items() if (derived or n.startswith("__")) and isinstance(v, functions)
                }
                self._named.append((c, set(), f"{c.__qualname__}."))

    def _object(self, what: str, value: Any) -> None:
        cls = type(value)
        if cls.__module__ == "ndgrad.numpy.random":  # which draw from NumPy's
            value = getattr(value, "_numpy", value)
        if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, Generator)):
            self._sources.append((value, state_of(value)))
        elif hasattr(cls, "__next__"):
            raise GraphBreak(f"{what} is an iterator, which the function would advance")
        elif cls.__module__.startswith(_CLOSED) or (
            is_foreign(cls.__module__)
            and cls.__module__.partition(".")[0] in sys.stdlib_module_names
            and cls is not types.SimpleNamespace
        ):
            pass
        else:
            self._class(cls)
            own = getattr(value, "__dict__", None)
            if hasattr(cls, "__environment__"):
                self._pending += [(what, v) for v in value.__environment__()]
            elif isinstance(own, dict):
                if value.__dict__ is own:
                    self._identity(what, value)
                self._hold_dict(f"{what}", own)
            slots = [n for c in cls.__mro__ for n in slots_of(c)]
            if slots and not is_foreign(cls.__module__):
                if not isinstance(own, dict):
                    self._hold(Held(f"{what}.", ["__class__"], lambda: [type(value)], None, ("class", value)))
                write = functools.partial(set_slots, value, slots)
                self._hold(
                    Held(
                        f"{what}.",
                        slots,
                        lambda: [getattr(value, n, MISSING) for n in slots],
                        write,
                        ("slots", (value, slots)),
                    )
                )

    def _identity(self, what: str, value: Any) -> None:
        """Of an object, that it stays of its class, and that it keeps the dictionary of its attributes."""
        self._seen[id(value.__dict__)] = value.__dict__
        self._hold(
            Held(f"{what}.", ["__class__", "__dict__"], lambda: [type(value), value.__dict__], None, ("object", value))
        )

    # ----- comparing --------------------------------------------------------------------------------------------------

    def install(self, placeholders: dict[tuple[int, int], tuple[Held, Any]]) -> None:
        """Put placeholders for numbers into places, which are given by the identity of a `Held` and the number of the place."""
        self._installed = {where: made for where, (_, made) in placeholders.items()}
        for held in {id(held): held for held, _ in placeholders.values()}.values():
            values = held.read()
            for (whose, place), made in self._installed.items():
                if whose == id(held):
                    values[place] = made
            assert held.write is not None
            held.write(values)

    def watch(self, what: str, read: Callable[[], Any]) -> None:
        """Compare something else before each call: what `read` gives."""
        self.held.append(Held(what, (), lambda: [read()], None))

    def placeholder(self, held: Held, place: int) -> Any:
        """The placeholder that stands in a place; None if there is none."""
        return self._installed.get((id(held), place))

    def places_of(self, value: Any) -> list[tuple[Held, int]] | None:
        """The places that hold an object; None if it is reached on other ways as well."""
        found = [(held, i) for held in self.held for i, v in enumerate(held.then) if v is value]
        return found if len(found) == self._arrivals[id(value)] else None

    def contents_of(self, container: Any) -> Held | None:
        """The places inside a list or dictionary."""
        for held in self.held:
            if held.form is not None and held.form[0] in ("items", "entries") and held.form[1] is container:
                return held
        return None

    def adopt(self, held: Held, place: int, new: Any) -> bool:
        """Take a list or dictionary of numbers for another one that was in its place, in no other place, and held the same
        or numbers that may be others; False if it is another."""
        old = held.then[place]
        if type(new) not in (list, dict) or type(old) is not type(new) or id(new) in self._seen:
            return False
        inside = self.contents_of(old)
        if inside is None or inside.is_growing or self._arrivals[id(old)] != 1:
            return False
        values = [*new.keys(), *new.values()] if type(new) is dict else list(new)
        if len(values) != len(inside.then):
            return False
        templates = inside.varying or {}
        for i, (a, b) in enumerate(zip(values, inside.then, strict=True)):
            if type(a) not in NUMBERS or not (a is b or same(a, b) or (i in templates and fits(a, templates[i]))):
                return False
        if type(new) is dict:
            inside.read, inside.write = (lambda: [*new.keys(), *new.values()]), functools.partial(refill, new)
            inside.form = "entries", new
        else:
            inside.read, inside.write = (lambda: list(new)), functools.partial(relist, new)
            inside.form = "items", new
        inside.then, held.then[place] = values, new
        del self._seen[id(old)]
        self._seen[id(new)], self._arrivals[id(new)] = new, 1
        self.generation += 1
        if not self.moving >= {id(held), id(inside)}:
            self.moving |= {id(held), id(inside)}
            self.quick = None
        return True

    def changes(self) -> list[tuple[Held, int, Any]]:
        """What is no longer what it was: (place, its number, what it holds now); a number of -1 if there
        are more or fewer things. A placeholder that was put there is no change."""
        found: list[tuple[Held, int, Any]] = []
        for held in self.held:
            now, then = held.read(), held.then
            if len(now) != len(then):
                found.append((held, -1, now))
            elif not all(map(is_, now, then)):
                for i, (a, b) in enumerate(zip(now, then, strict=True)):
                    if a is not b and a is not self._installed.get((id(held), i)) and not same(a, b):
                        found.append((held, i, a))
            for (whose, place), made in self._installed.items():
                if whose == id(held) and len(now) == len(then) and now[place] is not made and same(now[place], then[place]):
                    found.append((held, place, now[place]))  # by a number that happens to be the one of this call
        for function, misses in self._caches:
            if function.cache_info().misses != misses:  # what the trace has put there is none of the real thing
                found.append((Held("a cache", (), list, functools.partial(clear, function)), -1, function))
        for source, state in self._sources:
            if not same_state(state_of(source), state):
                found.append((Held("", (), list, functools.partial(put_back, source, state)), -2, source))
        return found

    def restore(self) -> None:
        """Put everything back as it was. Each place is put back, whatever the others raise; what could not be is told
        at the end."""
        self._installed = {}
        failed: list[str] = []
        for held in self.held:
            try:
                now, then = held.read(), held.then
                if len(now) == len(then) and all(a is b or same(a, b) for a, b in zip(now, then, strict=True)):
                    continue
                if held.write is None:
                    failed.append(held.what)
                else:
                    held.write(then)
            except Exception:
                failed.append(held.what)
        for function, misses in self._caches:
            if function.cache_info().misses != misses:
                function.cache_clear()
        for source, state in self._sources:
            if not same_state(state_of(source), state):
                put_back(source, state, [])
        if failed:
            raise GraphBreak(f"{failed[0]} has changed and cannot be put back")

    @contextmanager
    def rewound(self, places: Iterable[Held]) -> Iterator[None]:
        """A block in which places hold what they held when they were last compared, before a call has changed them."""
        before = [(held, held.read()) for held in places if held.write is not None and not held.is_growing]
        try:
            for held, _ in before:
                held.write(held.then)  # type: ignore[misc]  # which is not None
            yield
        finally:
            for held, values in before:
                held.write(values)  # type: ignore[misc]

    def check(self) -> str | None:
        """Why a trace that was made in this environment is no good any more; None if it is. Tensors that were
        replaced are taken over."""
        moved: dict[int, list[Any]] = {}
        places, tensors = self.slow if self.quick is not None and self.quick() else (self.held, self.tensors.values())
        for held in places:
            now, then = held.read(), held.then
            if (len(now) == len(then) and all(map(is_, now, then))) or held.is_growing:
                continue
            if len(now) != len(then):
                return f"{held.what} has other items"
            for i, (a, b) in enumerate(zip(now, then, strict=True)):
                if a is b:
                    continue
                if held.varying is not None and i in held.varying and fits(a, held.varying[i]):
                    then[i] = a
                    continue
                if same(a, b):
                    if b.__class__ is not tuple:  # whose items may have been reached
                        then[i] = a  # the next comparison is by identity again
                        self.generation += 1
                    continue
                if not (isinstance(a, Variable) and isinstance(b, Variable)):
                    if self.adopt(held, i, a):
                        continue
                    return f"{held.label(i)} has changed"
                entry = moved.setdefault(id(b), [a, 0])
                if entry[0] is not a:
                    return f"{held.label(i)} is another tensor"
                entry[1] += 1
        for t, known, _, label in tensors:
            if id(t) not in moved and known is not None and facts(t) != known:
                return f"{label}: a tensor has another shape, dtype, layout or requires_grad than before"
        return self._move(moved) if moved else None

    def check_numbers(self) -> bool:
        """True if a place whose numbers are inputs holds something else that is new."""
        for held in self.held:
            templates = held.varying
            if templates is None:
                continue
            now, then = held.read(), held.then
            if len(now) != len(then):
                return True
            for i, (a, b) in enumerate(zip(now, then, strict=True)):
                if a is not b:
                    if i not in templates or not fits(a, templates[i]):
                        return True
                    then[i] = a
        return False

    def _move(self, moved: dict[int, list[Any]]) -> str | None:
        """Take tensors for others that stand in their place: in all of their places, and each for one."""
        for before, (now, count) in moved.items():
            _, known, places, label = self.tensors[before]
            if count != places or (id(now) in self.tensors and id(now) not in moved):
                return f"{label} is another tensor"
            if known is None or not _has_facts(now._array) or facts(now) != known:
                return f"{label} is a tensor of another kind"
        if len({id(now) for now, _ in moved.values()}) != len(moved):
            return "two tensors have become one"
        entries = {before: self.tensors.pop(before) for before in moved}
        for before, (now, _) in moved.items():
            entries[before][0] = now
            self.tensors[id(now)] = entries[before]
        for held in self.held:
            if held.is_growing:
                continue
            then, held.then = held.then, held.read()
            for a, b in zip(then, held.then, strict=True):
                if a is not b and isinstance(b, Variable):
                    self._moves(held, b)
        self.generation += 1
        return None

    def put(self, held: Held, number: int, value: Any) -> None:
        """Put an object into one of the places. A tensor is taken for the one that was there, if it is of the same kind, and
        so are numbers that are inputs, and containers of these."""
        half = len(held.then) // 2
        if held.form is not None and held.form[0] == "entries" and number >= half:
            set_item(held.form[1], held.then[number - half], value)
        else:
            values = held.read()
            values[number] = value
            assert held.write is not None
            held.write(values)
        before = held.then[number]
        if not isinstance(value, Variable):
            if held.varying is not None and number in held.varying and fits(value, held.varying[number]):
                held.then[number] = value
            else:
                self.adopt(held, number, value)
            return
        known = self.tensors.get(id(before))
        if (
            known is not None
            and known[0] is before
            and known[2] == 1
            and id(value) not in self.tensors
            and facts(value) == known[1]
        ):
            del self.tensors[id(before)]
            known[0] = value
            self.tensors[id(value)] = known
            held.then[number] = value
            self.generation += 1
            self._moves(held, value)

    def _moves(self, held: Held, t: Any) -> None:
        """Note a place at which tensors are replaced, and one that has been put there: Python compares these."""
        known = id(self.tensors[id(t)])
        if id(held) not in self.moving or known not in self.moving_tensors:
            self.moving.add(id(held))
            self.moving_tensors.add(known)
            self.quick = None  # which knows what was there before

    @property
    def may_ask_for_types(self) -> bool:
        """Whether code of the user's may call `type`, by that name or another one that stands for it."""
        return "type" in self._names or id(type) in self._seen

    @property
    def reached(self) -> Iterable[int]:
        """The identities of all objects that are reached."""
        return self._seen.keys()

    def generator_state(self, generator: Generator) -> bytes | None:
        """The state of a generator when this was made; None for one that is not reached."""
        return next((state for source, state in self._sources if source is generator), None)

    def entry(self, t: Any) -> list[Any] | None:
        """What is known of a tensor, if it is reached: a list whose first item is the tensor that
        stands in its place now."""
        return self.tensors.get(id(t))


def _global_hooks() -> list[Any]:
    """What is called beside every module and every step of an optimizer."""
    modules, optimizers = sys.modules.get("ndgrad.nn.modules.hooks"), sys.modules.get("ndgrad.optim.optimizer")
    return [*([modules.of_all] if modules else []), *([optimizers._STEP_HOOKS] if optimizers else [])]


@functools.cache
def _names_of(code: types.CodeType) -> frozenset[str]:
    """The names that code, and the code inside it, may look up in globals, modules and objects."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names_of(constant)
    return frozenset(names)


def _nothing(environment: Environment, what: str, value: Any) -> None:
    """Of what stays as it is, nothing is looked at."""


_REACH: dict[type, Callable[[Environment, str, Any], None]] = {
    types.FunctionType: Environment._function,
    types.MethodType: Environment._method,
    functools.partial: Environment._partial,
    functools._lru_cache_wrapper: Environment._cache,
    property: Environment._property,
    functools.cached_property: _nothing,
    staticmethod: Environment._wrapping,
    classmethod: Environment._wrapping,
    types.BuiltinFunctionType: _nothing,
    types.CodeType: _nothing,
    types.MappingProxyType: _nothing,
    types.CellType: lambda environment, what, cell: environment._cells(what, ("",), (cell,)),
    slice: _nothing,
    np.ufunc: _nothing,
}
