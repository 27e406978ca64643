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
from ndgrad._src.compiler.capture.array_arguments import Form, as_inputs, have_arrays, kind_of_call
from ndgrad._src.compiler.capture.branch_conditions import MOST_IN_VAIN, MOST_PATHS, Mispredicted
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.graph_break import GraphBreak, Unreached
from ndgrad._src.compiler.capture.number_slots import VARIES, NumberSlots, SeenNumbers
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.capture.trace_reasons import describe
from ndgrad._src.compiler.lower.float_errors import runs_eagerly, shows_all
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.native.calls import is_available
from ndgrad._src.compiler.runtime.call_kinds import (
    KINDS,
    closest_of,
    describe_change,
    describe_decision,
    kind_of,
    shapes_of,
    sizeless,
)
from ndgrad._src.compiler.runtime.native_call import (
    MOST_CALLS,
    NativeCall,
    has_fresh_numbers,
    native_call,
)
from ndgrad._src.compiler.runtime.plan import CodeOptions
from ndgrad._src.compiler.runtime.recorded_call import RecordedCall
from ndgrad._src.compiler.runtime.specialization import Specialisation, specialise
from ndgrad._src.compiler.runtime.state_guards import compare_quickly
from ndgrad._src.core.modes import Modes, modes, process, restore, scope, thread, under_autocast
from ndgrad._src.core.variable import Variable, requires_grad
from ndgrad._src.foundations.devices import get_default_device
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten

#: Largest number of specialisations of a function, and of traces before it runs eagerly.
MOST = 8
THRASHING = 32
#: Largest number of environments for one trace. Each may show further objects that the next one must reach.
MOST_ENVIRONMENTS = 32
#: The same limits for specialisations that differ only in tensor sizes and share machine code
#: (ndgrad._src.compiler.lower.templates).
MOST_SIZES = 64
THRASHING_SIZES = 256
#: Largest number of traces caused by changes of one slot: if the function itself changes it, and otherwise.
MOST_REPEATS = 4
MOST_OTHERS = 12

#: Result of a call that no program serves.
MISS: Any = object()


class Entry:
    """Result of compiling one kind of arguments in one environment: a specialisation, or the reason why there is none.
    """

    __slots__ = ("broken", "comparisons", "environment", "key", "native", "native_calls", "numbers", "once", "slots", "specialisation")

    def __init__(
        self,
        key: Any,
        environment: Environment | None,
        made: Specialisation | None,
        broken: GraphBreak | None,
        slots: NumberSlots | None = None,
    ) -> None:
        self.key = key
        #: Slots whose numbers are inputs, or were until the trace ended with a break.
        self.slots = slots
        self.environment = environment
        self.specialisation = made
        self.broken = broken
        #: True if it has been called.
        self.once = False
        #: Numbers of slots in the previous call.
        self.numbers: Sequence[Any] | None = None
        #: Its native form, and the number of native forms made so far.
        self.native: NativeCall | None = None
        self.native_calls = 0
        #: Number of times that a native comparison of its environment was prepared.
        self.comparisons = 0

    def mismatch(self, flat: list[Any]) -> str | None:
        """Return the reason why the entry does not serve a call with arguments of its kind; None if it does."""
        if self.specialisation is not None:
            return self.specialisation.mismatch(flat)
        reason = None if self.environment is None else self.environment.check()
        return self.slots.mismatch(flat) if reason is None and self.slots else reason


class Last(NamedTuple):
    """Fast path for calls whose arguments are distinct tensors: their facts, the modes, and the entry to run."""

    facts: tuple[Any, ...]
    recording: bool
    defaults: tuple[Any, Any]
    entry: Entry
    specialisation: Specialisation

    @staticmethod
    def from_call(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Last | None:
        """Return the kind of a call; None if it is not a simple one."""
        if (
            kwargs
            or entry.specialisation is None
            or not all(isinstance(a, Variable) for a in args)
            or len({*map(id, args)}) != len(args)
        ):
            return None
        defaults = get_default_dtype(), get_default_device()
        return Last(tuple([get_facts(a) for a in args]), modes().grad_enabled, defaults, entry, entry.specialisation)

    def fits(self, args: tuple[Any, ...], recording: bool) -> bool:
        """True if a call without keywords is of this kind."""
        if len(args) != len(self.facts) or recording is not self.recording:
            return False
        for a, known in zip(args, self.facts, strict=True):
            if a.__class__ is not known[0] or get_facts(a) != known:
                return False
        return (len(args) < 2 or len({*map(id, args)}) == len(args)) and self.defaults == (
            get_default_dtype(),
            get_default_device(),
        )


class CompiledFunction:
    """A function with its specialisations, one for each kind of arguments."""

    #: True if compilation is disabled in the current context.
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
        #: Number of traces, number of traces caused by sizes alone, and the reason for the last trace.
        self.traces = self.resized = 0
        self.last_reason: str | None = None
        self._last_break: str | None = None
        #: Environment of the last trace if no entry keeps it.
        self._last_environment: Environment | None = None
        #: Number of program runs discarded because of branch conditions, less the number of successful runs.
        self._in_vain = 0
        #: Kind of the last call, if it was a simple one.
        self._last: Last | None = None
        #: Native forms of known kinds of calls, newest first (see ndgrad._src.compiler.runtime.native_call).
        self._calls: tuple[NativeCall, ...] = ()
        #: Roots of environments: the function, and objects that traces found by computed names.
        self._found: list[tuple[str, Any]] = [("the function", function)]
        self._found_names: set[str] = set()
        self._found_modules: set[str] = set()
        #: Functions to run before each native call.
        self._refreshes: tuple[Callable[[], None], ...] = ()
        #: Result forms by kind of call with NumPy arrays; None if the contents of the arrays matter.
        self._forms: dict[Any, Any] = {}
        #: Transformed versions of the function, by the name of the transform.
        self._transformed: dict[Any, CompiledFunction] = {}
        #: Number of traces by the changed object that caused them, and the reasons for which calls are no longer
        #: traced.
        self._reasons: Counter[str] = Counter()
        self._told: set[str] = set()
        #: Numbers that calls have found in slots.
        self._numbers = SeenNumbers()
        self._lock = make_lock()

    def __environment__(self) -> list[Any]:
        """Return the objects that a caller of this function depends on."""
        return [self.function]

    def __transformed__(self, transform: Callable[[Any], Any], name: Any = None) -> CompiledFunction:
        """Return the transform of this function as another compiled function. It may run eagerly, like any function
        inside an eager transform. A result with a `name` is cached, so that `grad(f)` may be written at each call.
        """
        made = None if name is None else self._transformed.get(name)
        if made is None:
            made = CompiledFunction(transform(self.function), False, self.dynamic, self.strict, self.threads)
            if name is not None:
                if len(self._transformed) >= THRASHING:
                    self._transformed.clear()
                self._transformed[name] = made
        return made

    def __recorded__(self, primals: tuple[Any, ...]) -> RecordedCall | None:
        """Return a call whose result can be differentiated by its programs with respect to its arguments alone
        (`func.vjp`).

        Return None if eager code must do that: inside transforms and modes, if another tensor requires grad, or if the
        function has side effects.
        """
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
        made = entry.specialisation
        if made is None or made.trace.effects or made.trace.writes:
            return None
        if any(requires_grad(which[0]) for kind, which in made.trace.sources if kind == "environment"):
            return None
        return RecordedCall(leaves, spec, self(*args))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    # A copy has no calls to remember. A function without state is copied as itself, like a Python function.

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        function = copy.deepcopy(self.function, memo)
        return self if function is self.function else self._compile_other(function)

    def _compile_other(self, function: Callable[..., Any]) -> CompiledFunction:
        """Compile another function with the options of this one."""
        return compile_again(function, self.fullgraph, self.dynamic, self.strict, self.threads)

    def __reduce__(self) -> str | tuple[Any, ...]:
        qualified = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for name in qualified.split("."):
            found = getattr(found, name, None)
        if found is self:  # name bound by a decorator
            return str(qualified)
        return compile_again, (self.function, self.fullgraph, self.dynamic, self.strict, self.threads)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.function, '__qualname__', self.function)!s}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for refresh in self._refreshes:
            refresh()
        for call in self._calls:
            made = call.attempt(args, kwargs)
            if made is not None:
                inputs, fresh = made
                try:
                    return call.finish(inputs, fresh)
                except Mispredicted:
                    break
                finally:
                    if call.is_stale:
                        self._forget_native_call(call)
        return self._call_in_python(args, kwargs)

    def _call_in_python(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call that no native call serves. This path defines the meaning of a call."""
        state = modes()
        # Observers that only watch, such as the profiler, see a program run.
        is_watched = not process.shared or process.shared == len(thread.watchers)
        if state.entered and is_watched and not self.disabled.get() and state.only_autocast():
            return self._call_under_autocast(args, kwargs, state)
        if state.entered or not is_watched or self.disabled.get() or runs_eagerly():
            return self.function(*args, **kwargs)
        tried: list[Entry] = []
        found = self._call_like_last(args, kwargs, state.grad_enabled, tried)
        if found is not MISS:
            return found
        flat, spec = tree_flatten((args, kwargs))
        if have_arrays(flat):
            found = self._call_with_arrays(flat, spec, state.grad_enabled, args, kwargs)
            if found is not MISS:
                return found
        entry, found = self._run_program(flat, spec, state.grad_enabled, tried)
        if entry.specialisation is not None:
            self._last = Last.from_call(entry, args, kwargs)
            self._add_native_call(entry, args, kwargs, state.grad_enabled)
            return found
        self._require_whole(entry)
        return self.function(*args, **kwargs)

    def _require_whole(self, entry: Entry) -> None:
        """Raise under `fullgraph` if a call has no program. A passing break does not raise: the eager call that follows
        fills the cache that the trace has found empty, and the next call has a program.
        """
        if self.fullgraph and entry.broken is not None and not entry.broken.is_passing:
            raise entry.broken.again()

    def _call_like_last(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool, tried: list[Entry]
    ) -> Any:
        """Return the result of a call of the same kind as the last one; MISS if it is of another kind."""
        known = self._last
        if known is None or kwargs or not known.fits(args, recording):
            return MISS
        with self._lock:
            mismatch = known.specialisation.mismatch(args)
        if mismatch is not None:
            return MISS
        try:
            result = known.specialisation(args)
        except Mispredicted:
            self._note_discarded_run(known.entry, tried)
            return MISS
        self._add_native_call(known.entry, args, kwargs, recording)
        return result

    def _call_under_autocast(self, args: tuple[Any, ...], kwargs: dict[str, Any], state: Modes) -> Any:
        """Return the result of a call under autocast. The autocast settings are part of the kind of the call and of the
        trace. Programs run without autocast.
        """
        flat, spec = tree_flatten((args, kwargs))
        if not have_arrays(flat):
            outer = scope()
            try:
                restore(outer.with_changes(autocast=None, entered=0))
                entry, found = self._run_program(flat, spec, state.grad_enabled, [], autocast=_setting(state))
            finally:
                restore(outer)
                del outer
            if entry.specialisation is not None:
                return found
            self._require_whole(entry)
        return self.function(*args, **kwargs)

    def _run_program(
        self,
        flat: list[Any],
        spec: Any,
        recording: bool,
        tried: list[Entry],
        form: Form | None = None,
        autocast: Any = None,
    ) -> tuple[Entry, Any]:
        """Return the entry whose program fits a call, and its result; or an entry without a program. With a `form`, the
        program must be able to give such results. `autocast` is the active setting, or None.
        """
        while True:
            entry = self.entry_for(flat, spec, recording, tried, autocast)
            if entry.specialisation is None or (form is not None and not form.fits(entry.specialisation)):
                return entry, MISS
            try:
                found = entry.specialisation(flat)
            except Mispredicted:
                self._note_discarded_run(entry, tried)
            else:
                self._in_vain = max(self._in_vain - 1, 0)
                return entry, found

    def _call_with_arrays(
        self, flat: list[Any], spec: Any, recording: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a call with NumPy arrays as inputs of a program (see
        ndgrad._src.compiler.capture.array_arguments); `MISS` if there is no such program.
        """
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
        entry, found = self._run_program(given, spec, recording, [], form)
        if found is MISS:
            if entry.broken is None or not entry.broken.depends_on_values:
                self._forms[kind] = None  # The entry is of no use to other calls either.
                with self._lock:
                    self.entries = [e for e in self.entries if e is not entry]
            return MISS
        return form.convert(found)

    def _note_discarded_run(self, entry: Entry, tried: list[Entry]) -> None:
        """Note that a program has run whose branch conditions do not hold in this call."""
        tried.append(entry)
        self._in_vain += 1
        if self._in_vain > MOST_IN_VAIN:
            self._last = None
            self._calls, self._refreshes = (), ()

    def explain_entry(self, flat: list[Any], spec: Any, recording: bool) -> tuple[Entry, list[Any]]:
        """Return the entry for arguments, which may include NumPy arrays, and the leaves that it takes."""
        given = as_inputs(flat) if have_arrays(flat) else None
        if given is not None:
            entry = self.entry_for(given, spec, recording)
            if entry.specialisation is not None:
                return entry, given
        state, outer = modes(), scope()
        if not state.only_autocast():
            return self.entry_for(flat, spec, recording), flat
        try:
            restore(outer.with_changes(autocast=None, entered=0))
            return self.entry_for(flat, spec, recording, autocast=_setting(state)), flat
        finally:
            restore(outer)
            del outer

    def entry_for(
        self, flat: list[Any], spec: Any, recording: bool, tried: Sequence[Entry] = (), autocast: Any = None
    ) -> Entry:
        """Return the entry for arguments in the current environment, except those in `tried`; trace a new one if
        needed. `autocast` is the setting under which the function is traced.
        """
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
            reason = describe_decision(tried)
            if not tried and self.entries:
                reason = describe_change(key, closest_of(key, [e.key for e in self.entries]))
            # Newest entries come first. Entries with a break come last, because values may have caused the break.
            newest = self.entries[::-1]
            other: Entry | None = None
            for entry in sorted(newest, key=lambda entry: entry.specialisation is None):
                if entry.key == key and entry not in tried:
                    mismatch = entry.mismatch(flat)
                    if mismatch is None:
                        return entry
                    if other is None:  # the newest entry knows most about varying objects
                        reason, other = mismatch, entry
            unfit = None if other is None else self._refuse_repeat(reason, other)
            if len(tried) >= MOST_PATHS:
                unfit = f"values decide what it does, otherwise than in {len(tried)} programs; use where or cond"
            elif unfit is None and self._thrashes():
                unfit = f"it was traced {self.traces} times, most recently because of {self.last_reason}"
            if unfit is not None:
                return Entry(None, None, None, GraphBreak(unfit))
            if self._numbers.learn_arguments(key, [e.key for e in self.entries], spec, KINDS):
                key = self._key(flat, spec, recording, autocast)
            return self._trace_entry(key, flat, spec, reason, self._sizes(key), autocast)

    def _key(
        self, flat: list[Any], spec: Any, recording: bool, autocast: Any, slots: NumberSlots | None = None
    ) -> Any:
        """Return the kind of a call: the arguments and modes that a specialisation depends on. `slots`, if given,
        decides which arguments are numbers that are inputs.
        """

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

    def _refuse_repeat(self, reason: str, other: Entry) -> str | None:
        """Return the reason why a call is not traced again for a repeated reason; None if it is traced. A slot that the
        function changes, or that ended a trace, probably differs at each call.
        """
        count = self._reasons[reason]
        is_own = other.specialisation is None or other.specialisation.changes_place(reason)
        if count < (MOST_REPEATS if is_own else MOST_OTHERS):
            self._reasons[reason] += 1
            return None
        unfit = f"{reason} at each call that was traced ({count} of them)"
        if reason not in self._told:
            self._told.add(reason)
            _warn(
                f"{self!r} runs eagerly from now on, except for the kinds of calls that it knows: {unfit}. Pass what "
                "changes as a tensor, or do not use its value."
            )
        return unfit

    def _sizes(self, key: Any) -> Sizes | None:
        """Return the sizes of a new kind of call that vary between such calls, as far as known; None if sizes are never
        shared.
        """
        if self.dynamic is False:
            return None
        kind = sizeless(key)
        others = [shapes_of(e.key) for e in self.entries if e.specialisation is not None and sizeless(e.key) == kind]
        own = shapes_of(key)
        self.resized += bool(others) and own not in others  # otherwise the trace has another cause
        return frozenset([n for i, n in enumerate(own) if n > 1 and (self.dynamic or any(o[i] != n for o in others))])

    def _thrashes(self) -> bool:
        return self.traces - self.resized >= THRASHING or self.resized >= THRASHING_SIZES

    def _trace_entry(
        self, key: Any, flat: list[Any], spec: Any, reason: str, sizes: Sizes | None, autocast: Any
    ) -> Entry:
        self.traces += 1
        self.last_reason = describe(reason) if self.entries else "the first call"
        if self._thrashes():
            _warn(
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
            function = self.function if autocast is None else _add_autocast(self.function, autocast)
            for _ in range(MOST_ENVIRONMENTS):
                roots = [
                    *self._found,
                    *[(f"argument {i}", leaf) for i, leaf in enumerate(flat) if not isinstance(leaf, Variable)],
                ]
                environment = self._capture_environment(roots)
                name = getattr(self.function, "__name__", "program")
                slots = self._numbers.slots(environment, flat, spec)
                try:
                    options = CodeOptions(self.strict, self.threads, sizes)
                    made = specialise(function, flat, spec, name, environment, slots, options)
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
                # Other values may be traceable. The break is stored if the next ones are not.
                self._last_break, self._last_environment = broken.reason, environment
                return entry
        self.entries.append(entry)
        if len(self.entries) > (MOST if self.dynamic is False else min(MOST + self.resized, MOST_SIZES)):
            self._remove_native_call(self.entries[0])
            del self.entries[0]
        return entry

    def _capture_environment(self, roots: list[tuple[str, Any]]) -> Environment:
        """Return the environment of a trace. Reading an attribute runs code of its class, which may raise anything: then
        the function runs eagerly."""
        try:
            return Environment(roots, self._found_names, self._found_modules)
        except GraphBreak:
            raise
        except Exception as error:
            raise GraphBreak(
                f"an object that the function reaches cannot be inspected ({type(error).__name__}: {error})"
            ) from None

    def _learn(self, unreached: Unreached) -> bool:
        """Add objects found by a trace to the roots of later environments; False if all are known."""
        known = {id(value) for _, value in self._found}
        new = [(what, value) for what, value in unreached.roots if id(value) not in known]
        is_new = bool(new) or not (unreached.names <= self._found_names and unreached.modules <= self._found_modules)
        self._found += new
        self._found_names |= unreached.names
        self._found_modules |= unreached.modules
        return is_new

    # ----- native calls -----------------------------------------------------------------------------------------------

    def _add_native_call(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], recording: bool) -> None:
        """Let further calls like this one run with little Python. The first call of an entry makes no native
        call, because it may be the only one.
        """
        made, known = entry.specialisation, entry.native
        if made is None or not entry.once:
            entry.once = True
            return
        environment = made.traced.environment
        if made.ran is None or (made.reports and shows_all()):
            return  # the function itself ran, or Python must check all warnings of each call
        # A native call is for the numbers of one call, unless numbers can be written into its inputs.
        is_fresh = has_fresh_numbers(made)
        is_other = bool(made.traced.slots) and made.last_numbers != entry.numbers and not is_fresh
        entry.numbers = made.last_numbers
        if entry.native_calls >= MOST_CALLS or made.trace.needs_python or is_other:  # they do not suit this entry
            if environment.quick is None and entry.comparisons < MOST_CALLS and is_available():
                with self._lock:
                    entry.comparisons += 1
                    compare_quickly(environment)
        elif (
            known is None
            or known.snapshot.generation != environment.generation
            or known.has_other_filters()
            or (bool(made.traced.slots) and known.numbers != made.last_numbers and not is_fresh)
        ):
            with self._lock:
                if entry.native is known and entry in self.entries:
                    self._replace_native_call(entry, native_call(made, args, kwargs, recording, self.disabled))

    def _replace_native_call(self, entry: Entry, call: NativeCall | None) -> None:
        self._remove_native_call(entry)
        if call is None:
            entry.native_calls = MOST_CALLS  # a second attempt would fail, too
            return
        entry.native_calls += 1
        entry.native = call
        self._calls = (call, *self._calls)
        self._note_refreshes()

    def _forget_native_call(self, call: NativeCall) -> None:
        """Remove a native call, so that another program runs."""
        with self._lock:
            for entry in self.entries:
                if entry.native is call:
                    self._remove_native_call(entry)
                    entry.native_calls -= 1

    def _remove_native_call(self, entry: Entry) -> None:
        self._calls = tuple([call for call in self._calls if call is not entry.native])
        entry.native = None
        self._note_refreshes()

    def _note_refreshes(self) -> None:
        calls = [entry.native for entry in self.entries if entry.native is not None]
        self._refreshes = tuple([call.refresh for call in calls if call.refreshes])

    # ----- inspection -------------------------------------------------------------------------------------------------

    def graph(self, *args: Any, **kwargs: Any) -> Any:
        """Return the program for these arguments, as text and picture; see `ndgrad.compiler.graph`."""
        from ndgrad._src.compiler.report import inspection  # rarely needed

        return inspection.graph(self, *args, **kwargs)

    def kernels(self, *args: Any, **kwargs: Any) -> Any:
        """Return the steps that run for these arguments, measured; see `ndgrad.compiler.kernel_list`."""
        from ndgrad._src.compiler.report import inspection  # rarely needed

        return inspection.kernel_list(self, *args, **kwargs)

    def reset(self) -> None:
        """Drop all specialisations."""
        with self._lock:
            self.entries.clear()
            self.traces = self.resized = self._in_vain = 0
            self._last = self._last_environment = None
            self._calls, self._refreshes = (), ()
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
    """Return a compiled function with these options, for pickles and copies."""
    made = CompiledFunction(function, fullgraph, dynamic, strict, threads)
    compiled_functions.add(made)
    return made


def _warn(message: str) -> None:
    """Warn of a slow function. The warning is never an error: a compiled function raises only exceptions of the
    function.
    """
    with contextlib.suppress(UserWarning):
        warnings.warn(message, stacklevel=7)


def _setting(state: Modes) -> Any:
    """Return the autocast settings without the casts that an open block caches."""
    return state.autocast._replace(casts=None)


def _add_autocast(function: Callable[..., Any], autocast: Any) -> Callable[..., Any]:
    """Return a function that always runs under a setting of autocast."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with under_autocast(autocast):
            return function(*args, **kwargs)

    return run
