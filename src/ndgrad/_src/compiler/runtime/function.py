"""`ndgrad.compile`: a function that is traced for each kind of arguments and then runs as a program."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ndgrad._src.arrays.dtypes import get_default_dtype
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.array_arguments import Form, as_inputs, have_arrays, kind_of_call
from ndgrad._src.compiler.capture.branch_conditions import MOST_IN_VAIN, MOST_WAYS, Mispredicted
from ndgrad._src.compiler.capture.environment import SMALL, Environment, facts
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.number_slots import VARIES, NumberSlots, SeenNumbers
from ndgrad._src.compiler.capture.trace_watch import Unreached
from ndgrad._src.compiler.lower.float_errors import runs_eagerly, shows_all
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.native.calls import MISS, NativeEntry
from ndgrad._src.compiler.runtime.native_call import (
    MOST_ROWS,
    NativeCall,
    can_be_native,
    has_fresh_numbers,
    native_call,
)
from ndgrad._src.compiler.runtime.recorded_call import RecordedCall
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.compiler.runtime.state_guards import compare_quickly
from ndgrad._src.core.modes import Modes, modes, process, restore, scope, thread, under_autocast
from ndgrad._src.core.variable import Variable, requires_grad
from ndgrad._src.foundations.devices import get_default_device
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten

#: How many specialisations a function keeps, and how many are made before it is left alone.
MOST = 8
THRASHING = 32
#: How many environments are tried for one trace: each may show further objects that the next one must reach.
MOST_ENVIRONMENTS = 32
#: The same for those that differ in the sizes of tensors alone, whose machine code is shared
#: (ndgrad._src.compiler.lower.templates).
MOST_SIZES = 64
THRASHING_SIZES = 256
#: How many calls are traced because one and the same place has changed: a place that the function itself changes, and others.
MOST_REPEATS = 4
MOST_OTHERS = 12

#: Where the kinds of the leaves of arguments begin in the key of a call.
KINDS = 5

_BY_VALUE = (int, bool, str, bytes, type(None), type(Ellipsis))


class Entry:
    """What became of one kind of arguments in one environment: a specialisation, or the reason why there is none."""

    __slots__ = ("broken", "comparisons", "environment", "key", "made", "native", "numbers", "once", "rows", "slots")

    def __init__(
        self,
        key: Any,
        environment: Environment | None,
        made: Specialisation | None,
        broken: GraphBreak | None,
        slots: NumberSlots | None = None,
    ) -> None:
        self.key = key
        #: the slots whose numbers are inputs, or were, until the trace ended with a break
        self.slots = slots
        self.environment = environment
        self.made = made
        self.broken = broken
        #: whether it has been called
        self.once = False
        #: the numbers of slots in the call before
        self.numbers: Sequence[Any] | None = None
        #: the row of the builtin that calls it, and how many have been made
        self.native: NativeCall | None = None
        self.rows = 0
        #: how often its environment has been made ready to be compared natively
        self.comparisons = 0

    def mismatch(self, flat: list[Any]) -> str | None:
        """Why it is of no use for a call with arguments of its kind."""
        if self.made is not None:
            return self.made.mismatch(flat)
        reason = None if self.environment is None else self.environment.check()
        return self.slots.mismatch(flat) if reason is None and self.slots else reason


class Last(NamedTuple):
    """A kind of call whose arguments are tensors, each another one: what they were like, and what runs."""

    facts: tuple[Any, ...]
    recording: bool
    defaults: tuple[Any, Any]
    entry: Entry
    made: Specialisation

    @staticmethod
    def of(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Last | None:
        """The kind of a call; None if it is no simple one."""
        if (
            kwargs
            or entry.made is None
            or not all(isinstance(a, Variable) for a in args)
            or len({*map(id, args)}) != len(args)
        ):
            return None
        defaults = get_default_dtype(), get_default_device()
        return Last(tuple([facts(a) for a in args]), modes().grad_enabled, defaults, entry, entry.made)

    def fits(self, args: tuple[Any, ...], recording: bool) -> bool:
        """Whether a call without keywords is of this kind."""
        if len(args) != len(self.facts) or recording is not self.recording:
            return False
        for a, known in zip(args, self.facts, strict=True):
            if a.__class__ is not known[0] or facts(a) != known:
                return False
        return (len(args) < 2 or len({*map(id, args)}) == len(args)) and self.defaults == (
            get_default_dtype(),
            get_default_device(),
        )


class CompiledFunction:
    """A function with its specialisations: one for each kind of arguments that it has met."""

    #: whether the code at work is not to be compiled
    disabled: ClassVar[ContextVar[bool]] = ContextVar("ndgrad_compile_disabled", default=False)

    def __init__(
        self,
        function: Callable[..., Any],
        fullgraph: bool = False,
        dynamic: bool | None = None,
        strict: bool = False,
        threads: int | None = None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.strict = strict
        self.threads = threads
        self.entries: list[Entry] = []
        #: how many traces were made, how many of them for other sizes alone, and why the last of them was needed
        self.traces = self.resized = 0
        self.last_reason: str | None = None
        self._last_break: str | None = None
        #: the environment of the last trace, if that is remembered nowhere else
        self._last_environment: Environment | None = None
        #: how many more programs were run in vain, because values decided otherwise, than to good purpose
        self._in_vain = 0
        #: the last kind of call, where that was a simple one
        self._last: Last | None = None
        #: the builtin that knows the kinds of calls which need no Python before they run (see
        #: ndgrad._src.compiler.runtime.native_call), if there is one
        self._rows: NativeEntry | None = None
        self._native: Callable[..., Any] = _no_row
        #: what environments begin with: the function, and what traces have found by computed names
        self._found: list[tuple[str, Any]] = [("the function", function)]
        self._found_names: set[str] = set()
        self._found_modules: set[str] = set()
        #: what has to be done before it is called
        self._refreshes: tuple[Callable[[], None], ...] = ()
        #: by kinds of calls with arrays of NumPy's: what they return, None where their contents count
        self._forms: dict[Any, Any] = {}
        #: what named transforms have made of it
        self._transformed: dict[Any, CompiledFunction] = {}
        #: how often calls were traced because something that the function reaches had changed, by what it is, and the
        #: reasons for which they no longer are
        self._reasons: Counter[str] = Counter()
        self._told: set[str] = set()
        #: the numbers that calls have found in slots
        self._numbers = SeenNumbers()
        self._lock = make_lock()

    def __environment__(self) -> list[Any]:
        """What another function that calls this one depends on."""
        return [self.function]

    def __transformed__(self, transform: Callable[[Any], Any], name: Any = None) -> CompiledFunction:
        """What a function transform makes of this function: a compiled function, too. It may run eagerly, as
        any function inside an eager transform does. What has a name is remembered by it: `grad(f)` may be
        written where it is called."""
        made = None if name is None else self._transformed.get(name)
        if made is None:
            made = CompiledFunction(transform(self.function), False, self.dynamic, self.strict, self.threads)
            if name is not None:
                if len(self._transformed) >= THRASHING:
                    self._transformed.clear()
                self._transformed[name] = made
        return made

    def __recorded__(self, primals: tuple[Any, ...]) -> RecordedCall | None:
        """A call whose result can be differentiated with respect to its arguments alone, by its programs (`func.vjp`);
        None if eager must do that: inside transforms and modes, where something else requires grad, or where the
        function leaves something behind."""
        state = modes()
        flat, spec = tree_flatten(primals)
        plain = all(
            isinstance(t, Variable)
            and type(t._array) is np.ndarray
            and t._array.dtype.kind in "fc"
            and not requires_grad(t)
            for t in flat
        )
        if state.entered or process.shared or self.disabled.get() or not state.grad_enabled or not flat or not plain:
            return None
        leaves = [t.detach().requires_grad_() for t in flat]
        args = tree_unflatten(leaves, spec)
        entry = self.entry_for(*tree_flatten((args, {})), True)
        made = entry.made
        if made is None or made.effects or made.writes:
            return None
        if any(requires_grad(which[0]) for kind, which in made.sources if kind == "environment"):
            return None
        return RecordedCall(leaves, spec, self(*args))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # A copy knows nothing of the calls before. As of functions, there is one object for a function by itself.

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        function = copy.deepcopy(self.function, memo)
        return self if function is self.function else self._for(function)

    def _for(self, function: Callable[..., Any]) -> CompiledFunction:
        """Another function compiled as this one is."""
        return compile_again(function, self.fullgraph, self.dynamic, self.strict, self.threads)

    def __reduce__(self) -> str | tuple[Any, ...]:
        qualified = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for name in qualified.split("."):
            found = getattr(found, name, None)
        if found is self:  # as a decorator leaves it
            return str(qualified)
        return compile_again, (self.function, self.fullgraph, self.dynamic, self.strict, self.threads)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.function, '__qualname__', self.function)!s}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for refresh in self._refreshes:
            refresh()
        found = self._native(*args, **kwargs)
        if found is not MISS:
            call = found[0]
            try:
                return call(found)
            except Mispredicted:
                found = MISS
            finally:
                if call.is_stale:
                    self._forget_row(call)
        state = modes()
        # who only watches, as the profiler does, sees a program run
        is_watched = not process.shared or process.shared == len(thread.watchers)
        if state.entered and is_watched and not self.disabled.get() and state.only_autocast():
            return self._under_autocast(args, kwargs, state)
        if state.entered or not is_watched or self.disabled.get() or runs_eagerly():
            return self.function(*args, **kwargs)
        known = self._last
        tried: list[Entry] = []
        if known is not None and not kwargs and known.fits(args, state.grad_enabled):
            with self._lock:
                mismatch = known.made.mismatch(args)
            if mismatch is None:
                try:
                    result = known.made(args)
                except Mispredicted:
                    self._was_in_vain(known.entry, tried)
                else:
                    self._add_row(known.entry, args, kwargs, state.grad_enabled)
                    return result
        flat, spec = tree_flatten((args, kwargs))
        if have_arrays(flat):
            found = self._with_arrays(flat, spec, state.grad_enabled, args, kwargs)
            if found is not MISS:
                return found
        entry, found = self._by_program(flat, spec, state.grad_enabled, tried)
        if entry.made is not None:
            self._last = Last.of(entry, args, kwargs)
            self._add_row(entry, args, kwargs, state.grad_enabled)
            return found
        if self.fullgraph and entry.broken is not None:
            raise entry.broken.again()
        return self.function(*args, **kwargs)

    def _under_autocast(self, args: tuple[Any, ...], kwargs: dict[str, Any], state: Modes) -> Any:
        """The result of a call under autocast. How autocast is set belongs to the kind of the call, and to what is
        traced; programs run without it."""
        flat, spec = tree_flatten((args, kwargs))
        if not have_arrays(flat):
            outside = scope()
            try:
                restore(outside.with_changes(autocast=None, entered=0))
                entry, found = self._by_program(flat, spec, state.grad_enabled, [], autocast=_setting(state))
            finally:
                restore(outside)
                del outside
            if entry.made is not None:
                return found
            if self.fullgraph and entry.broken is not None:
                raise entry.broken.again()
        return self.function(*args, **kwargs)

    def _by_program(
        self,
        flat: list[Any],
        spec: Any,
        recording: bool,
        tried: list[Entry],
        form: Form | None = None,
        autocast: Any = None,
    ) -> tuple[Entry, Any]:
        """The entry whose program fits a call, and its result; an entry without a program, if there is none. With
        a `form`, it must be able to give such results; `autocast` is its setting, None where there is none."""
        while True:
            entry = self.entry_for(flat, spec, recording, tried, autocast)
            if entry.made is None or (form is not None and not form.fits(entry.made)):
                return entry, MISS
            try:
                found = entry.made(flat)
            except Mispredicted:
                self._was_in_vain(entry, tried)
            else:
                self._in_vain = max(self._in_vain - 1, 0)
                return entry, found

    def _with_arrays(
        self, flat: list[Any], spec: Any, recording: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call with arrays of NumPy's as inputs of a program (see ndgrad._src.compiler.capture.array_arguments); `MISS` if that
        cannot be."""
        kind = kind_of_call(flat, spec)
        form = self._forms.get(kind, MISS)
        if form is MISS:
            result = self.function(*args, **kwargs)
            if len(self._forms) >= THRASHING_SIZES:
                self._forms.clear()
            self._forms[kind] = Form(result)
            return result
        given = None if form is None else as_inputs(flat)
        if given is None:
            return MISS
        entry, found = self._by_program(given, spec, recording, [], form)
        if found is MISS:
            if entry.broken is None or not entry.broken.depends_on_values:
                self._forms[kind] = None  # and what cannot be is of no use to other calls
                with self._lock:
                    self.entries = [e for e in self.entries if e is not entry]
            return MISS
        return form.delivered(found)

    def _was_in_vain(self, entry: Entry, tried: list[Entry]) -> None:
        """A program has run whose conditions on values do not hold in this call."""
        tried.append(entry)
        self._in_vain += 1
        if self._in_vain > MOST_IN_VAIN:
            self._last = None
            self._rows, self._native, self._refreshes = None, _no_row, ()

    def explained(self, flat: list[Any], spec: Any, recording: bool) -> tuple[Entry, list[Any]]:
        """The entry for arguments, arrays of NumPy's among them, and what it is given."""
        given = as_inputs(flat) if have_arrays(flat) else None
        if given is not None:
            entry = self.entry_for(given, spec, recording)
            if entry.made is not None:
                return entry, given
        state, outside = modes(), scope()
        if not state.only_autocast():
            return self.entry_for(flat, spec, recording), flat
        try:
            restore(outside.with_changes(autocast=None, entered=0))
            return self.entry_for(flat, spec, recording, autocast=_setting(state)), flat
        finally:
            restore(outside)
            del outside

    def entry_for(
        self, flat: list[Any], spec: Any, recording: bool, tried: Sequence[Entry] = (), autocast: Any = None
    ) -> Entry:
        """The entry for arguments and for the environment as it is now, made if need be; none of
        those that were tried. `autocast` is the setting under which the function is traced."""
        try:
            key = self._key(flat, spec, recording, autocast)
            hash(key)
        except (GraphBreak, TypeError) as error:
            return Entry(
                None,
                None,
                None,
                error if isinstance(error, GraphBreak) else GraphBreak(f"its arguments have no hash: {error}"),
            )
        if self._in_vain > MOST_IN_VAIN:
            reason = "which way it goes is decided by values, and changes from call to call; use where or cond"
            return Entry(None, None, None, GraphBreak(reason))
        with self._lock:
            reason = "values that decide otherwise" if tried else "arguments of another kind"
            # the newest first, and those that break last: they may do so because of their values
            newest = self.entries[::-1]
            other: Entry | None = None
            for entry in sorted(newest, key=lambda entry: entry.made is None):
                if entry.key == key and entry not in tried:
                    mismatch = entry.mismatch(flat)
                    if mismatch is None:
                        return entry
                    if other is None:  # the newest knows most of what varies
                        reason, other = mismatch, entry
            unfit = None if other is None else self._repeated(reason, other)
            if len(tried) >= MOST_WAYS:
                unfit = f"values decide what it does, otherwise than in {len(tried)} programs; use where or cond"
            elif unfit is None and self._thrashes():
                unfit = f"it was traced {self.traces} times, most recently because of {self.last_reason}"
            if unfit is not None:
                return Entry(None, None, None, GraphBreak(unfit))
            if self._numbers.learn_arguments(key, [e.key for e in self.entries], spec, KINDS):
                key = self._key(flat, spec, recording, autocast)
            return self._traced(key, flat, spec, reason, self._sizes(key), autocast)

    def _key(
        self, flat: list[Any], spec: Any, recording: bool, autocast: Any, slots: NumberSlots | None = None
    ) -> Any:
        """The kind of a call: what a specialisation depends on in its arguments and modes. Arguments whose numbers are
        inputs are those of `slots`, if they are known."""

        def varies(i: int, leaf: Any) -> bool:
            return self._numbers.varies(spec, i, leaf) if slots is None else slots.argument_varies(i)

        return (
            spec,
            recording,
            get_default_dtype(),
            get_default_device(),
            autocast,
            *[
                (leaf.__class__, VARIES) if varies(i, leaf) else kind_of(leaf, i, flat)
                for i, leaf in enumerate(flat)
            ],
        )

    def _repeated(self, reason: str, other: Entry) -> str | None:
        """Why a call is not traced for a reason for which calls were traced before; None if it is. A place that the
        function itself changes, or that has kept a trace from its end, is another one at each call."""
        count = self._reasons[reason]
        is_own = other.made is None or other.made.changes_place(reason)
        self._reasons[reason] += 1
        if count < (MOST_REPEATS if is_own else MOST_OTHERS):
            return None
        unfit = f"{reason} at each call that was traced ({count} of them)"
        if reason not in self._told:
            self._told.add(reason)
            _tell(
                f"{self!r} runs eagerly from now on, except for the kinds of calls that it knows: {unfit}. Pass what "
                "changes as a tensor, or do not use its value."
            )
        return unfit

    def _sizes(self, key: Any) -> Sizes | None:
        """The sizes of a new kind of call that vary between such calls, as far as that is known; None if sizes
        are never to be shared."""
        if self.dynamic is False:
            return None
        kind = sizeless(key)
        others = [shapes_of(e.key) for e in self.entries if e.made is not None and sizeless(e.key) == kind]
        own = shapes_of(key)
        self.resized += bool(others) and own not in others  # else something else has changed
        return frozenset([n for i, n in enumerate(own) if n > 1 and (self.dynamic or any(o[i] != n for o in others))])

    def _thrashes(self) -> bool:
        return self.traces - self.resized >= THRASHING or self.resized >= THRASHING_SIZES

    def _traced(
        self, key: Any, flat: list[Any], spec: Any, reason: str, sizes: Sizes | None, autocast: Any
    ) -> Entry:
        self.traces += 1
        self.last_reason = reason if self.entries else "the first call"
        if self._thrashes():
            _tell(
                f"{self!r} has been traced {self.traces} times, most recently because of this: {reason}. It runs "
                "eagerly from now on, except for the kinds of calls that it knows. Pass what changes as a tensor."
            )
        environment = slots = None
        recording = key[1]
        for known in [*[e.environment for e in self.entries], self._last_environment]:
            if known is not None:
                self._numbers.learn(known)
        self._last_environment = None
        try:
            function = self.function if autocast is None else _casting(self.function, autocast)
            for _ in range(MOST_ENVIRONMENTS):
                roots = [
                    *self._found,
                    *[(f"argument {i}", leaf) for i, leaf in enumerate(flat) if not isinstance(leaf, Variable)],
                ]
                environment = Environment(roots, self._found_names, self._found_modules)
                name = getattr(self.function, "__name__", "program")
                slots = self._numbers.slots(environment, flat, spec)
                try:
                    made = Specialisation(
                        function, flat, spec, name, environment, self.strict, self.threads, sizes, slots
                    )
                except Unreached as unreached:
                    if not self._learn(unreached):
                        raise
                else:
                    break
            else:
                raise GraphBreak("it finds functions and attributes by computed names, other ones each time")
            entry = Entry(self._key(flat, spec, recording, autocast, slots), environment, made, None, slots)
        except GraphBreak as broken:
            if slots is not None:
                key = self._key(flat, spec, recording, autocast, slots)
            entry = Entry(key, environment, None, broken.bare(), slots)
            if broken.is_passing:
                return entry
            if broken.depends_on_values and broken.reason != self._last_break:
                # other values may fare better; if they do not either, it is remembered
                self._last_break, self._last_environment = broken.reason, environment
                return entry
        self.entries.append(entry)
        if len(self.entries) > (MOST if self.dynamic is False else min(MOST + self.resized, MOST_SIZES)):
            self._remove_row(self.entries[0])
            del self.entries[0]
        return entry

    def _learn(self, unreached: Unreached) -> bool:
        """Let later environments reach what a trace has found; False if that is nothing new."""
        known = {id(value) for _, value in self._found}
        new = [(what, value) for what, value in unreached.roots if id(value) not in known]
        is_new = bool(new) or not (unreached.names <= self._found_names and unreached.modules <= self._found_modules)
        self._found += new
        self._found_names |= unreached.names
        self._found_modules |= unreached.modules
        return is_new

    # ----- calls that need no Python before they run ------------------------------------------------------------------

    def _add_row(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool) -> None:
        """Let further calls like this one, which has just run, find their way without Python; not at once, for
        it may be the only one."""
        made, known = entry.made, entry.native
        if made is None or not entry.once:
            entry.once = True
            return
        environment = made.environment
        if made.ran is None or (made.reports and shows_all()):
            return  # the function itself ran; Python looks at each call whose warnings are all shown
        # a row is for the numbers of one call, unless they can be written into it
        is_fresh = has_fresh_numbers(made)
        is_other = bool(made.slots) and made.last_numbers != entry.numbers and not is_fresh
        entry.numbers = made.last_numbers
        if entry.rows >= MOST_ROWS or made.needs_python or is_other:  # it is not for rows
            if environment.quick is None and entry.comparisons < MOST_ROWS and can_be_native():
                with self._lock:
                    entry.comparisons += 1
                    compare_quickly(environment)
        elif (
            known is None
            or known.snapshot.generation != environment.generation
            or known.has_other_filters()
            or (bool(made.slots) and known.numbers != made.last_numbers and not is_fresh)
        ):
            with self._lock:
                if entry.native is known and entry in self.entries:
                    self._replace_row(entry, native_call(made, args, kwargs, recording, self.disabled))

    def _replace_row(self, entry: Entry, call: NativeCall | None) -> None:
        self._remove_row(entry)
        if call is None:
            entry.rows = MOST_ROWS  # it will be no other the next time
            return
        entry.rows += 1
        if self._rows is None:
            self._rows = NativeEntry(None, getattr(self.function, "__name__", "compiled"))
        assert call.row is not None
        self._rows.add(call.row, first=True)
        entry.native, self._native = call, self._rows.call
        self._note_refreshes()

    def _forget_row(self, call: NativeCall) -> None:
        """A call of this kind is to run by another program."""
        with self._lock:
            for entry in self.entries:
                if entry.native is call:
                    self._remove_row(entry)
                    entry.rows -= 1

    def _remove_row(self, entry: Entry) -> None:
        if self._rows is not None and entry.native is not None and entry.native.row is not None:
            self._rows.remove(entry.native.row)
        entry.native = None
        self._note_refreshes()

    def _note_refreshes(self) -> None:
        calls = [entry.native for entry in self.entries if entry.native is not None]
        self._refreshes = tuple([call.refresh for call in calls if call.refreshes])

    # ----- seeing it --------------------------------------------------------------------------------------------------

    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """The program for these arguments, as text and picture; see `ndgrad.compiler.graph`."""
        from ndgrad._src.compiler.report import inspection as seeing  # few look

        return seeing.graph(self, *args, **kwargs)

    def kernels(self, *args: Any, **kwargs: Any) -> Any:
        """The steps that run for these arguments, measured; see `ndgrad.compiler.kernel_list`."""
        from ndgrad._src.compiler.report import inspection as seeing  # few look

        return seeing.kernel_list(self, *args, **kwargs)

    def reset(self) -> None:
        """Forget all specialisations."""
        with self._lock:
            self.entries.clear()
            self.traces = self.resized = self._in_vain = 0
            self._last = self._last_environment = None
            self._rows, self._native, self._refreshes = None, _no_row, ()
            self._transformed.clear()
            self._forms.clear()
            self._numbers.clear()
            self._reasons.clear()
            self._told.clear()


#: All compiled functions.
compiled_functions: weakref.WeakSet[CompiledFunction] = weakref.WeakSet()


def compile_again(
    function: Callable[..., Any], fullgraph: bool, dynamic: bool | None, strict: bool, threads: int | None
) -> CompiledFunction:
    """A compiled function with these options, for pickles and copies."""
    made = CompiledFunction(function, fullgraph, dynamic, strict, threads)
    compiled_functions.add(made)
    return made


def _tell(message: str) -> None:
    """Warn of a slow function. The warning is never an error: a compiled function raises what the function raises."""
    with contextlib.suppress(UserWarning):
        warnings.warn(message, stacklevel=6)


def _setting(state: Modes) -> Any:
    """How autocast is set, without the casts that an open block keeps."""
    return state.autocast._replace(casts=None)


def _casting(function: Callable[..., Any], autocast: Any) -> Callable[..., Any]:
    """A function that runs under a setting of autocast, wherever it is called."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with under_autocast(autocast):
            return function(*args, **kwargs)

    return run


def _no_row(*args: Any, **kwargs: Any) -> Any:
    return MISS


def sizeless(key: Any) -> Any:
    """The kind of a call but for the sizes of its tensors."""
    return tuple([(part[0], len(part[1]), part[2], *part[4:]) if _is_of_tensor(part) else part for part in key])


def shapes_of(key: Any) -> list[int]:
    """The sizes of the tensors of a kind of call."""
    return [n for part in key if _is_of_tensor(part) for n in part[1]]


def _is_of_tensor(part: Any) -> bool:
    return part.__class__ is tuple and isinstance(part[0], type) and issubclass(part[0], Variable)


def kind_of(leaf: Any, position: int, flat: list[Any]) -> Any:
    """What a specialisation depends on in one argument."""
    if isinstance(leaf, Variable):
        if not isinstance(leaf._array, (np.ndarray, np.generic)) and not is_on_device(leaf._array):
            raise GraphBreak(f"an argument is a tensor over {type(leaf._array).__name__}")
        first = next(i for i, other in enumerate(flat) if other is leaf)
        return *facts(leaf), first - position
    cls = leaf.__class__
    if cls in _BY_VALUE:
        return cls, leaf
    if cls is float:
        return cls, leaf.hex()
    if cls is complex:
        return cls, leaf.real.hex(), leaf.imag.hex()
    if isinstance(leaf, np.generic):
        return cls, leaf.dtype, leaf.tobytes()
    if isinstance(leaf, slice):
        return cls, *[kind_of(part, position, flat) for part in (leaf.start, leaf.stop, leaf.step)]
    if isinstance(leaf, np.ndarray):
        if leaf.nbytes > SMALL or leaf.dtype.hasobject:
            raise GraphBreak(
                f"an argument is a NumPy array of {leaf.nbytes} bytes, whose values may be different at "
                "each call: pass a tensor"
            )
        return cls, leaf.shape, leaf.dtype, leaf.strides, leaf.tobytes()
    return cls, id(leaf)  # the environment keeps it alive, and knows what it holds
