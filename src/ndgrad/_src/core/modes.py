"""Which modes are in force, per context, and the one flag that the eager path looks at.

An eager op may spend a few nanoseconds on asking whether anything unusual is going on. So all unusual states (no_grad,
inference mode, function-transform levels, saved-tensor hooks, anomaly mode, ...) show in one process-wide set,
`process.busy`. While it is empty, nobody is in any mode and the generated fast lane runs. While it is not, ops take the
general lane, which reads the modes of its own context.

Note [Modes of a context]
A context variable points at the scope that is in force, and the scope has the modes: so each thread and each
asyncio task has its own, and a task starts with those that its creator was in. Neither is changed once others can
see it. To enter a mode is to point at another scope; to leave it is to point at the one before. `thread.levels`
reads a field of the modes in force.

A scope in which anything is unusual holds a token, which it shares with the scopes made inside it, and `process.busy`
has weak references to the tokens. Nothing is counted, so nothing can be counted wrong: when the last scope of a chain
dies, its token goes by itself, whether a block was left, a task ended, or an exception got in between.

Note [Sections]
Where the package itself changes modes around a call, it writes

    outside = scope()
    try:
        restore(outside.recording(False))
        ...
    finally:
        restore(outside)
        del outside

An exception that comes from elsewhere (Ctrl-C, PyThreadState_SetAsyncExc) is raised when a function is entered, after a
call, or at the end of a loop's body; `restore` is a function in C, and what it does is done before anybody looks. So
there is no point at which the modes could be left behind, and whatever code inside has left behind is undone. A `with`
statement is not as safe, since `__exit__` is a function that is entered. `del`, because a traceback that somebody keeps
would keep the scope, and with it the token.

Note [Blocks]
A block (`with no_grad():`) may be left in another order than it was entered, by generators that are suspended
inside one. Then its scope is unlinked from the chain, and the scopes of the blocks inside it, which are still open,
are made anew without it.
"""

from __future__ import annotations

import functools
import itertools
import os
import weakref
from _thread import get_ident
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._typing import Level

F = TypeVar("F", bound=Callable[..., Any])


class Stacks(NamedTuple):
    """The stacks of transforms and of dual levels inside one of them, and the thread that opened it."""

    levels: tuple[Level, ...]
    duals: tuple[int, ...]
    thread: int


_stacks = tuple.__new__  # every transform makes one, and the class's own constructor costs three times as much


class SavedHooks(NamedTuple):
    """A pair of hooks on saved tensors. With a level, they are for the graphs of that transform and of those around it,
    and not for those of transforms that are opened inside the hooks' block."""

    pack: Any
    unpack: Any
    level: int | None = None


class Process:
    """Process-wide state: `busy` is empty while no context is in any mode; `shared` counts the modes that belong to no
    context; `leaf_hooks` has a token for every hook on a leaf (and changed sequence number), for which the engine must
    know the moment a leaf is complete. Tokens need no lock: adding to a set is one step.
    """

    __slots__ = (
        "busy",
        "crossed",
        "dispatching",
        "leaf_hooks",
        "lock",
        "named",
        "open",
        "overriding",
        "reopened",
        "shared",
        "youngest",
    )

    def __init__(self) -> None:
        self.busy: set[object] = set()
        self.shared = 0
        #: whether a tensor class with a dispatch of its own has been defined
        self.dispatching = False
        #: whether a mode that sees every public call has been entered, anywhere: until then the doors of
        #: public functions look for none
        self.overriding = False
        #: whether a tensor in a graph has been moved to another device: one backward pass may meet
        #: arrays of several libraries
        self.crossed = False
        #: whether a tensor has been given names of dimensions
        self.named = False
        self.leaf_hooks: set[object] = set()
        #: the open transforms and dual levels of all threads, by number
        self.open: dict[int, Stacks] = {}
        #: the last of them
        self.youngest = 0
        #: how many reruns (of checkpointed functions) are inside each of those among them that had been closed
        self.reopened: dict[int, int] = {}
        self.lock = make_lock()


process = Process()


class _Token:
    """Alive as long as a record in which something is unusual."""

    __slots__ = ("__weakref__", "thread")

    thread: int


class Modes:
    """The modes that are in force in one place; the values that `__init__` gives are those of no mode."""

    __slots__ = (
        "_flipped", "_tokens_below", "_tracer", "autocast", "captures",
        "copy_on_write", "dual_levels", "dual_stack", "enforce_grad_layout", "entered", "forward_grad_enabled",
        "function_modes", "functions_disabled", "grad_asked", "grad_enabled", "in_custom_forward", "inference",
        "levels", "multithreading", "observers", "saved_hooks", "saved_hooks_disabled", "saving", "transforms",
        "view_replay",
    )  # fmt: skip

    def __init__(self) -> None:
        #: How many modes have been entered that the fast lane does not know of.
        self.entered: int = 0
        #: How many of them are transforms: if all are, nothing is unusual below them.
        self.transforms: int = 0
        self.grad_enabled: bool = True
        self.inference: bool = False
        #: What is_grad_enabled() answers in inference mode, where nothing is recorded whatever the answer.
        self.grad_asked: bool = True
        self.forward_grad_enabled: bool = True
        self.multithreading: bool = True
        self.view_replay: bool = False
        #: Whether a leaf's gradient is made to lie in memory as the leaf does.
        self.enforce_grad_layout: bool = True
        #: The number of open `forward_ad` dual levels.
        self.dual_levels: int = 0
        #: Their numbers, innermost last.
        self.dual_stack: tuple[int, ...] = ()
        #: The stack of function-transform levels, outermost first.
        self.levels: tuple[Level, ...] = ()
        #: The stack of saved-tensor hooks, innermost last.
        self.saved_hooks: tuple[SavedHooks, ...] = ()
        #: While a pack hook runs: the node that saves, and the name under which its rules know the value.
        self.saving: tuple[Any, str] | None = None
        #: Why saved-tensor hooks may not be used now, or None.
        self.saved_hooks_disabled: str | None = None
        #: Copy on write for saved tensors of torch's face too.
        self.copy_on_write: bool = False
        #: Observers that see every op below autograd, innermost last (profilers, recorders, dispatch modes).
        self.observers: tuple[Any, ...] = ()
        #: Modes that see every public call before anything else does.
        self.function_modes: tuple[Any, ...] = ()
        #: Blocks in which classes' own functions are not asked (see ndgrad._src.core.subclass).
        self.functions_disabled: int = 0
        #: What looks at the tensors that ops are given and may replace them: a function whose closure
        #: is being read or rewritten.
        self.captures: Any = None
        #: Which dtypes functions run in, where each function chooses (see ndgrad.amp); None where they do not.
        self.autocast: Any = None
        #: True while a custom function's forward runs.
        self.in_custom_forward: bool = False
        self._flipped: Modes | None = None
        #: What `tracer` has found; False while nobody has asked.
        self._tracer: Any = False
        #: How many tokens `process.busy` has while nothing but transforms is in force anywhere, and these only
        #: here; -1 if more is here.
        self._tokens_below: int = 0

    def copy(self) -> Modes:
        """The same modes, to be changed before they are put in force."""
        made = _new_modes(Modes)
        made.entered, made.transforms, made.grad_enabled = self.entered, self.transforms, self.grad_enabled
        made.inference, made.grad_asked, made.forward_grad_enabled = (
            self.inference,
            self.grad_asked,
            self.forward_grad_enabled,
        )
        made.multithreading, made.view_replay = self.multithreading, self.view_replay
        made.enforce_grad_layout, made.dual_levels, made.dual_stack = (
            self.enforce_grad_layout,
            self.dual_levels,
            self.dual_stack,
        )
        made.levels, made.saved_hooks, made.saving = self.levels, self.saved_hooks, self.saving
        made.saved_hooks_disabled, made.copy_on_write, made.observers = (
            self.saved_hooks_disabled,
            self.copy_on_write,
            self.observers,
        )
        made.function_modes, made.functions_disabled = self.function_modes, self.functions_disabled
        made.autocast, made.captures, made.in_custom_forward = self.autocast, self.captures, self.in_custom_forward
        made._flipped = None
        made._tracer = False
        return made

    def tracer(self) -> Any:
        """The innermost observer, if it traces and nothing else is in force here but whether ops are recorded; else
        None."""
        found = self._tracer
        if found is False:
            others = (
                self.levels, self.dual_stack, self.dual_levels, self.captures, self.saved_hooks, self.function_modes,
                self.functions_disabled, self.inference, self.copy_on_write, self.view_replay, self.autocast,
            )  # fmt: skip
            alone = self.observers and not any(others) and getattr(self.observers[-1], "is_tracer", False)
            found = self._tracer = self.observers[-1] if alone else None
        return found

    def only_autocast(self) -> bool:
        """True if autocast is in force here, and nothing else but whether ops are recorded."""
        return (
            self.autocast is not None
            and not any([
                self.levels, self.dual_stack, self.dual_levels, self.captures, self.saved_hooks, self.function_modes,
                self.functions_disabled, self.inference, self.copy_on_write, self.view_replay, self.observers,
                self.transforms, self.in_custom_forward, self.saved_hooks_disabled, self.saving,
            ])
            and self.forward_grad_enabled
            and self.multithreading
            and self.enforce_grad_layout
        )  # fmt: skip

    def flipped(self) -> Modes:
        """The same modes, but for whether they record."""
        made = self._flipped
        if made is None:
            made = self.copy()
            made.grad_enabled = not self.grad_enabled
            self._flipped = made
        return made

    def only_transforms(self) -> bool:
        """Whether no mode is in force but transforms, if any, and nobody else is in any."""
        return len(process.busy) == self._tokens_below

    def only_no_grad(self) -> bool:
        """Whether no mode is in force but no_grad, and nobody else is in any."""
        return not self.grad_enabled and not self.entered and len(process.busy) == 1


_new_modes = Modes.__new__


class Scope:
    """What a context variable points at: modes, and their token if anything in them is unusual. Only contexts, and
    sections and blocks as long as they last, hold a scope; who wants to know what is in force holds the modes."""

    __slots__ = ("_observed", "_token", "_under", "closed", "inside", "modes", "outside")

    def __init__(
        self,
        modes: Modes,
        token: _Token | None,
        inside: Callable[[Modes], Modes] | None = None,
        outside: Scope | None = None,
    ) -> None:
        self.modes = modes
        modes._tokens_below = (modes.entered != 0) if modes.grad_enabled and modes.entered == modes.transforms else -1
        if modes.grad_enabled and not modes.entered:
            token = None
        elif token is None:
            token = _Token()
            token.thread = get_ident()
            process.busy.add(weakref.ref(token, process.busy.discard))
        self._token = token
        #: Of a block: the modes inside it, from those around it.
        self.inside = inside
        #: The scope around that of a block; None at the bottom, and inside a section, which ends
        #: before anything around it.
        self.outside = outside
        #: Whether the block has been left while others inside it were open.
        self.closed = False
        self._under: dict[Level, Scope] | None = None
        self._observed: Scope | None = None

    def changed(self, **fields: Any) -> Scope:
        """These modes with some of them changed, for a section."""
        made = self.modes.copy()
        for name, value in fields.items():
            setattr(made, name, value)
        return Scope(made, self._token)

    def with_observers(self, observers: tuple[Any, ...]) -> Scope:
        """These modes with other observers, for a section. Every op that is observed asks, hence the cache."""
        made = self._observed
        if made is None or made.modes.observers != observers:
            made = self._observed = self.changed(observers=observers)
        return made

    def recording(self, value: bool) -> Scope:
        """These modes with recording on or off, for a section."""
        modes = self.modes
        return self if modes.grad_enabled is value else Scope(modes.flipped(), self._token)

    def under(self, level: Level) -> Scope:
        """These modes as they are for the levels under `level`, which is open. Every op of a transform
        asks, hence the cache."""
        enabled = level.enabled_below(self.modes.grad_enabled)
        cache = self._under
        if cache is None:
            cache = self._under = {}
        made = cache.get(level)
        if made is None or made.modes.grad_enabled is not enabled:
            modes = self.modes.copy()
            modes.levels, modes.grad_enabled = level.outside, enabled
            made = cache[level] = Scope(modes, self._token)
        return made

    def moved(self, outside: Scope) -> Scope:
        """The scope of an open block, with another one around it; the same object, since those who
        opened the block hold it."""
        assert self.inside is not None
        self.__init__(self.inside(outside.modes), outside._token, self.inside, outside)  # type: ignore[misc]
        return self


NONE = Scope(Modes(), None)
_variable: ContextVar[Scope] = ContextVar("ndgrad_modes", default=NONE)
_current = _variable.get
#: Put a scope in force, in C (see Note [Sections]).
restore = _variable.set
_task: ContextVar[Any] = ContextVar("ndgrad_task", default=None)
#: Where it is noted which transforms of other threads this one has worked in (see noting_joins).
_joins: ContextVar[list[Any] | None] = ContextVar("ndgrad_joins", default=None)
#: The backward pass that is running, if any, and how to say so. It is no mode: the fast lane need not know.
running, set_running = _task.get, _task.set


def scope() -> Scope:
    """The scope in force."""
    found = _current()
    return found if not found.closed else _settled()


def modes() -> Modes:
    """The modes in force."""
    found = _current()
    return found.modes if not found.closed else _settled().modes


def _settled() -> Scope:
    """The innermost scope whose block is open."""
    found: Any = _current()
    while found.closed:
        found = found.outside
    restore(found)
    return found  # the scope of no mode is never closed


def put(modes: Modes) -> None:
    """Put changed modes in force, until the block or section around ends."""
    before = scope()
    outside = before if before.inside is not None or before is NONE else before.outside
    restore(Scope(modes, before._token, None, outside))


def section(function: F) -> F:
    """Decorates a function whose changes of modes, and those of whatever it calls, end with it
    (see Note [Sections])."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        outside, youngest = scope(), process.youngest
        try:
            return function(*args, **kwargs)
        finally:
            restore(outside)
            del outside
            if process.open and process.youngest != youngest:
                _forget_since(youngest)

    return run  # type: ignore[return-value]  # a decorator gives back what it was given


def _forget_since(youngest: int) -> None:
    """Forget the transforms and dual levels that this thread has opened since, if an interrupt
    kept somebody from it."""
    here = get_ident()
    for number, stacks in process.open.copy().items():
        if number > youngest and stacks.thread == here and number not in process.reopened:
            process.open.pop(number, None)


# ----- blocks ---------------------------------------------------------------------------------------------------------


class Block:
    """A context manager that changes modes, and can be entered again and again (nested too)."""

    _stack: list[Any]
    #: Whether `with block as name` names the block; otherwise None.
    names_itself = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._stack = []  # not in __init__, which subclasses of users' own may leave out
        return made

    def change(self, modes: Modes) -> None:
        """Change modes into what they are inside the block."""
        raise NotImplementedError

    def inside(self, modes: Modes) -> Modes:
        """The modes inside the block, from those around it."""
        made = modes.copy()
        self.change(made)
        return made

    #: What is to be done before the block is entered, where it may be refused, and after it has been left. Subclasses
    #: define these and leave `__enter__` alone: one that called this one could be interrupted after it, when nobody
    #: is left to leave the block.
    begin: ClassVar[Callable[[Any], None] | None] = None
    end: ClassVar[Callable[[Any], None] | None] = None

    def __enter__(self) -> Any:
        if self.begin is not None:
            self.begin()
        before, block = scope(), None
        try:
            block = open_block(self.inside, before)
            self._stack.append(block)
        except BaseException:
            restore(before)
            self._stack[:] = [entered for entered in self._stack if entered is not block]
            if self.end is not None:
                self.end()
            raise
        return self if self.names_itself else None

    def __exit__(self, *exc: object) -> None:
        block = self._stack[-1]
        block.closed = True  # no call, so nothing comes between: the mode is not in force from here on
        try:
            self._stack.pop()
            close_block(block)
        finally:
            if self.end is not None:
                self.end()


def open_block(inside: Callable[[Modes], Modes], outside: Scope) -> Scope:
    """Enter a block whose modes are made from those of `outside`, which is in force; the scope
    goes into `close_block`."""
    made = Scope(inside(outside.modes), outside._token, inside, outside)
    restore(made)
    return made


def close_block(block: Scope) -> None:
    """Leave a block, whose scope has been marked as closed (see Note [Blocks])."""
    below = block.outside
    assert below is not None
    found = _current()
    if found is block:
        restore(below)
        block.closed = False  # a task that was started inside the block is still in its modes
        return
    opened = []
    while found is not block:
        if found.inside is not None and not found.closed:
            opened.append(found)
        if found.outside is None:
            return  # of another context, or outside of a section: who comes back to it will find it closed
        found = found.outside
    while opened:
        below = opened.pop().moved(below)
    restore(below)


class under_autocast(Block):
    """A block in which autocast is what it was elsewhere, for running something again."""

    def __init__(self, state: Any) -> None:
        self.state = None if state is None else state._replace(casts={})  # casts are kept as long as a block is open

    def change(self, modes: Modes) -> None:
        modes.entered += 1
        modes.autocast = self.state


# ----- the door to the record in force --------------------------------------------------------------------------------

if TYPE_CHECKING:
    _Fields = Modes
else:
    _Fields = object


class ThreadState(_Fields):
    """`thread.levels` is the field of the record in force, and setting it puts a changed record in force.

    The attributes below are the process's modes for debugging (see Note [What is remembered when]);
    they are set on this class.
    """

    anomaly: bool = False
    check_nan: bool = True
    check_inf: bool = False
    debug: bool = False
    guard: bool = False
    #: Whether nodes remember the user's lines: any of debug, guard and anomaly.
    remembers: bool = False
    #: What sees every call from outside (see ndgrad._src.engine.call_watchers).
    watchers: tuple[Any, ...] = ()

    #: The backward pass that is running, if any.
    task: Any = property(lambda self: running())


def _field(name: str) -> property:
    def write(self: ThreadState, value: Any) -> None:
        made = modes().copy()
        setattr(made, name, value)
        put(made)

    names = {"current": _current, "settled": _settled}
    return property(
        eval(
            compile(
                f"lambda self: (found if not (found := current()).closed else settled()).modes.{name}",
                "<ndgrad generated mode>",
                "eval",
            ),
            names,
        ),
        write,
    )


for _name in [name for name in Modes.__slots__ if not name.startswith("_")]:
    setattr(ThreadState, _name, _field(_name))
thread = ThreadState()


#: Numbers of transform levels and dual levels together: of two open ones, the inner has the larger.
next_level_number = itertools.count(1).__next__


def birth() -> int:
    """What `Meta.made_in` is of a tensor that is made now: the innermost transform of this thread; in one
    that has opened none, the youngest of all, since it may be at work for the thread that did (see Note
    [Threads inside transforms])."""
    levels = modes().levels
    return levels[-1].number if levels else process.youngest


def note_open(number: int, state: Modes) -> None:
    """Let all threads know of a transform or dual level that this one has just pushed, with the modes
    that are then in force."""
    process.open[number] = _stacks(Stacks, (state.levels, state.dual_stack, get_ident()))
    if number > process.youngest:
        process.youngest = number


def silenced(state: Modes, level: Level | None, dual: int = 0) -> Level | None:
    """The outermost grad transform inside a level and a dual level that was opened under no_grad, None if there is
    none. It records for itself; what concerns none of its tensors is computed as it would be around it."""
    if state.grad_enabled:
        number = dual if level is None or dual > level.number else level.number
        for inner in state.levels:
            if inner.number > number and inner.kind == "grad" and not inner.grad_enabled_before:
                return inner
    return None


class joined:
    """This thread inside a transform that another one has opened.

    Note [Threads inside transforms]
    A transform belongs to the thread that opened it, and its tensors may go anywhere: a pool maps a function over them.
    An op that meets a tensor of a level that is open elsewhere runs inside that level, as it would there. Levels this
    thread has opened itself are inside of it if they are younger, as they would be in one thread. Modes (no_grad,
    hooks) stay this thread's own.
    """

    __slots__ = ("number", "outside")

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        levels, duals = self._stacks()
        self.outside = scope()
        state = self.outside.modes
        both = tuple(sorted({*duals, *state.dual_stack}))
        stack = tuple(sorted({*levels, *state.levels}, key=lambda level: level.number))
        if (noted := _joins.get()) is not None:
            noted.append((levels, duals))
        restore(self.outside.changed(levels=stack, dual_stack=both, dual_levels=len(both)))

    def __exit__(self, *exc: object) -> None:
        restore(self.outside)
        del self.outside  # see Note [Sections]

    def _stacks(self) -> tuple[tuple[Level, ...], tuple[int, ...]]:
        """Those of the thread that opened it, as they are now: what is made inside the
        innermost may take its values."""
        still_open = process.open.copy()
        if self.number in still_open:
            owner = still_open[self.number].thread
            for levels, duals, opener in reversed(still_open.values()):
                if opener == owner and (self.number in duals or any(level.number == self.number for level in levels)):
                    return levels, duals
        raise RuntimeError(
            "a function transform of another thread ended while this one worked inside it. Wait for threads before. "
            "[nd-escaped]"
        )


class noting_joins:
    """The transforms and dual levels that this thread is in while a block runs: its own, and those of other threads
    inside which its ops had to run."""

    __slots__ = ("before", "found")

    def __enter__(self) -> Self:
        state = modes()
        self.before: list[Any] | None = _joins.get()
        self.found: list[Any] = [(state.levels, state.dual_stack)]
        _joins.set(self.found)
        return self

    def __exit__(self, *exc: object) -> None:
        _joins.set(self.before)
        if self.before is not None:
            self.before += self.found[1:]

    @property
    def stacks(self) -> tuple[tuple[Level, ...], tuple[int, ...]]:
        """What was noted so far, outermost first."""
        levels = {level for levels, _ in self.found for level in levels}
        duals = {number for _, duals in self.found for number in duals}
        return tuple(sorted(levels, key=lambda level: level.number)), tuple(sorted(duals))


class reopened:
    """The transforms and dual levels that were open when something ran, for running it again when
    they may have been closed."""

    __slots__ = ("outside", "stacks")

    def __init__(self, levels: tuple[Level, ...], duals: tuple[int, ...]) -> None:
        self.stacks = levels, duals

    def __enter__(self) -> None:
        levels, duals = self.stacks
        self.outside = scope()
        with process.lock:
            for number in (*(level.number for level in levels), *duals):
                if number not in process.open or number in process.reopened:
                    process.reopened[number] = process.reopened.get(number, 0) + 1
                    process.open[number] = Stacks(levels, duals, get_ident())
        entered = self.outside.modes.entered + 1
        restore(self.outside.changed(entered=entered, levels=levels, dual_stack=duals, dual_levels=len(duals)))

    def __exit__(self, *exc: object) -> None:
        levels, duals = self.stacks
        restore(self.outside)
        del self.outside  # see Note [Sections]
        with process.lock:
            for number in (*(level.number for level in levels), *duals):
                count = process.reopened.get(number, 0)
                if count > 1:
                    process.reopened[number] = count - 1
                elif count:
                    del process.reopened[number], process.open[number]


def switch_grad(value: bool) -> bool:
    """Let this context record or not until the block around ends, and say what it did before."""
    was = modes().grad_enabled
    if was is not value:
        thread.grad_enabled = value
    return was


# ----- modes of the process -------------------------------------------------------------------------------------------


def enter_process() -> None:
    """Count one more unusual mode of the process; pair with `leave_process`."""
    with process.lock:
        process.shared += 1
        process.busy.add("process")


def leave_process() -> None:
    with process.lock:
        process.shared -= 1
        if not process.shared:
            process.busy.discard("process")


def _after_fork() -> None:
    """A child has only the thread that forked: nobody is left to leave the other threads' modes."""
    here = get_ident()
    process.open = {number: stacks for number, stacks in process.open.items() if stacks.thread == here}
    for entry in list(process.busy):
        if isinstance(entry, weakref.ref) and ((token := entry()) is None or token.thread != here):
            process.busy.discard(entry)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
