"""no_grad, enable_grad, set_grad_enabled, inference_mode: context managers and decorators, per thread and asyncio task.

As decorators they also support generators and coroutines. The mode is in force while the body runs, but not in the
caller's code between items or awaits.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from ndgrad._src.core.modes import Block, Modes, Scope, modes, put_in_force, restore, scope, thread
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.core.variable import Variable
    from ndgrad._typing import Payload

F = TypeVar("F", bound=Callable[..., Any])


class Mode(Block):
    """A context manager that can be entered repeatedly (nested too) and used as a decorator."""

    def fresh(self) -> Mode:
        """Return a new mode of the same kind, for one call of a decorated function."""
        return type(self)()

    def clone(self) -> Mode:
        """Return a new mode of the same kind, under torch's name.

        >>> import ndgrad
        >>> ndgrad.inference_mode(False).clone().mode
        False
        """
        return self.fresh()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions: "
                f"{type(self).__name__} makes of {function.__name__} a function that calls the constructor in the "
                "mode. Decorate functions or methods, for this __init__.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return self._decorate_generator(function)
        if inspect.iscoroutinefunction(function):
            return self._decorate_coroutine(function)

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.fresh():
                return function(*args, **kwargs)

        return decorated  # type: ignore[return-value]  # a decorator returns its argument's type

    def _decorate_generator(self, function: F) -> F:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            return (yield from self._drive(function(*args, **kwargs)))

        return decorated  # type: ignore[return-value]  # likewise

    def _decorate_coroutine(self, function: F) -> F:
        @functools.wraps(function)
        async def decorated(*args: Any, **kwargs: Any) -> Any:
            return await _Awaitable(self._drive(function(*args, **kwargs).__await__()))

        return decorated  # type: ignore[return-value]  # likewise

    def _drive(self, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run a generator with the mode in force only while its own code runs."""
        try:
            with self.fresh():
                item = next(inner) if not hasattr(inner, "send") else inner.send(None)
            while True:
                try:
                    received = yield item
                except GeneratorExit:
                    with self.fresh():
                        inner.close()
                    raise
                except BaseException as error:
                    with self.fresh():
                        item = inner.throw(error)
                else:
                    with self.fresh():
                        item = inner.send(received)
        except StopIteration as stop:
            return stop.value


class Switch(Mode):
    """A mode that is set at once; as a context manager, until the block ends."""

    def __init__(self, value: Payload) -> None:
        super().__init__()
        self.value = value
        self.before = self.set_mode(value)

    def set_mode(self, value: Payload) -> Any:
        """Set the mode and return its previous value."""
        raise NotImplementedError

    def fresh(self) -> Mode:
        made = Block.__new__(type(self))
        Switch.__init__(made, self.value)
        return made

    def __call__(self, function: F) -> F:
        self.set_mode(self.before)
        return super().__call__(function)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.set_mode(self.before)


class _Awaitable:
    def __init__(self, generator: Generator[Any, Any, Any]) -> None:
        self.generator = generator

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.generator


def _record(modes: Modes, value: bool) -> None:
    """Change the grad mode. Inference mode never records: there, enable_grad() only changes is_grad_enabled()."""
    if modes.inference:
        modes.grad_asked = value
    else:
        modes.grad_enabled = value


class _GradMode(Mode):
    """Base of no_grad and enable_grad, which also decorate without parentheses."""

    value: bool

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # `@no_grad` returns the function
    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        made = super().__new__(cls)
        return made if function is None else made(function)

    def inside(self, modes: Modes) -> Modes:
        if modes.inference:
            return super().inside(modes)
        return modes if modes.grad_enabled is self.value else modes.flip_recording()

    def change(self, modes: Modes) -> None:
        _record(modes, self.value)


@set_module("ndgrad")
class no_grad(_GradMode):
    """A context manager or decorator that disables recording.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with ndgrad.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    value = False


@set_module("ndgrad")
class enable_grad(_GradMode):
    """A context manager or decorator that enables recording again inside no_grad.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with ndgrad.no_grad(), ndgrad.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    value = True


class ContextSwitch(Switch):
    """A switch for one mode of a context."""

    #: Scopes before and after the switch, while they can still be restored.
    _scopes: tuple[Scope, Scope] | None = None

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))

    def read_mode(self, modes: Modes) -> bool:
        raise NotImplementedError

    def assign(self, modes: Modes, value: bool) -> None:
        raise NotImplementedError

    def set_mode(self, value: bool) -> bool:
        before = scope()
        made = before.modes.copy()
        self.assign(made, value)
        put_in_force(made)
        self._scopes = before, scope()
        return self.read_mode(before.modes)

    def _undo(self) -> bool:
        """Restore the scope from before the switch. Return False if the modes have changed since."""
        scopes, self._scopes = self._scopes, None
        if scopes is None or scope() is not scopes[1]:
            return False
        restore(scopes[0])
        return True

    def __call__(self, function: F) -> F:
        if not self._undo():
            self.set_mode(self.before)
        return Mode.__call__(self, function)

    def change(self, modes: Modes) -> None:
        self.assign(modes, self.value)

    __enter__, __exit__ = Block.__enter__, Block.__exit__

    def begin(self) -> None:
        self._late = not self._undo()

    def end(self) -> None:
        if self._late:
            self.set_mode(self.before)
            self._scopes = None


@set_module("ndgrad")
class set_grad_enabled(ContextSwitch):
    """Switch recording on or off at once; as a context manager, until the block ends.

    Args:
        mode: whether operations are recorded.

    >>> import ndgrad
    >>> with ndgrad.set_grad_enabled(False):
    ...     ndgrad.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)

    def assign(self, modes: Modes, value: bool) -> None:
        """Switch recording in the given modes.

        Args:
            modes: modes of the current thread.
            value: whether operations are recorded.
        """
        _record(modes, value)

    def read_mode(self, modes: Modes) -> bool:
        """Return whether operations are recorded in the given modes.

        Args:
            modes: modes of the current thread.
        """
        return _is_recording(modes)


@set_module("ndgrad")
class inference_mode(Mode):
    """A context manager or decorator without recording and version tracking; its tensors never take part in autograd.

    Args:
        mode: whether inference mode is on. Given a function instead, the result is that function in inference mode.

    >>> import ndgrad
    >>> with ndgrad.inference_mode():
    ...     y = ndgrad.ones(2) * 2
    >>> y.is_inference()
    True
    """

    mode: bool

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]  # `@inference_mode` returns the function
    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        made = super().__new__(cls)
        made.mode = mode if isinstance(mode, bool) else True
        return made if isinstance(mode, bool) else made(mode)

    def fresh(self) -> Mode:
        return inference_mode(self.mode)

    def change(self, modes: Modes) -> None:
        """Switch the given modes to inference.

        Args:
            modes: modes of the current thread.
        """
        modes.entered += 1
        modes.inference = self.mode
        modes.grad_enabled = modes.grad_asked = modes.forward_grad_enabled = not self.mode


def _is_recording(modes: Modes) -> bool:
    return modes.grad_asked if modes.inference else modes.grad_enabled


@set_module("ndgrad")
def is_grad_enabled() -> bool:
    """True if this context records (outside inference mode).

    >>> import ndgrad
    >>> ndgrad.is_grad_enabled()
    True
    """
    return _is_recording(modes())


@set_module("ndgrad")
def is_inference_mode_enabled() -> bool:
    """True if this context is in `inference_mode`.

    >>> import ndgrad
    >>> ndgrad.is_inference_mode_enabled()
    False
    """
    return thread.inference


class FieldSwitch(ContextSwitch):
    """A switch for a field of the modes that the eager path ignores."""

    attribute: str

    def assign(self, modes: Modes, value: bool) -> None:
        setattr(modes, self.attribute, value)

    def read_mode(self, modes: Modes) -> bool:
        found: bool = getattr(modes, self.attribute)
        return found


@set_module("ndgrad.autograd")
class set_multithreading_enabled(FieldSwitch):
    """Allow or forbid several threads in backward, at once; as a context manager, until the block ends.

    A pass always runs its nodes, hooks and callbacks on the calling thread: see docs/engine.md for the measurements
    behind that. The setting exists for code that queries it.

    >>> import ndgrad
    >>> with ndgrad.autograd.set_multithreading_enabled(False):
    ...     ndgrad.autograd.is_multithreading_enabled()
    False
    """

    attribute = "multithreading"


@set_module("ndgrad.autograd")
def is_multithreading_enabled() -> bool:
    """Return the value set by `set_multithreading_enabled`; True by default.

    >>> import ndgrad
    >>> ndgrad.autograd.is_multithreading_enabled()
    True
    """
    return thread.multithreading


# ----- expert switches ------------------------------------------------------------------------------------------------


class _force_original_view_tracking(FieldSwitch):
    """Switch torch's view replay. History of overwritten views is always found by replay here, so it has no effect."""

    attribute = "view_replay"


@set_module("ndgrad.autograd")
def is_view_replay_enabled() -> bool:
    """Return the setting of torch's switch for view replay.

    >>> import ndgrad
    >>> ndgrad.autograd.is_view_replay_enabled()
    False
    """
    return thread.view_replay


@set_module("ndgrad.autograd")
class enforce_grad_layout_policy(FieldSwitch):
    """Switch whether a gradient is copied into its leaf's memory layout; otherwise `.grad` is what backward made.

    Args:
        enable: whether the layout of the leaf is enforced.

    >>> import ndgrad
    >>> x = ndgrad.ones(3, 2).t().requires_grad_()
    >>> with ndgrad.autograd.enforce_grad_layout_policy(False):
    ...     (x * ndgrad.ones(2, 3)).sum().backward()
    >>> x.grad.stride()
    (3, 1)
    """

    attribute = "enforce_grad_layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)


class _unsafe_preserve_version_counter(Mode):
    """A block that hides writes to one or several tensors: afterwards, their versions are the same as before.

    Values saved before the block are then taken to equal the current values. It is for memory that is moved away and
    back.
    """

    def __init__(self, tensors: Variable | Iterable[Variable]) -> None:
        super().__init__()
        self.tensors = tuple(tensors) if isinstance(tensors, (tuple, list)) else (tensors,)

    def fresh(self) -> Mode:
        return _unsafe_preserve_version_counter(self.tensors)

    def __enter__(self) -> None:
        self._stack.append([(storage, storage.version) for storage in map(storage_of, self.tensors)])

    def __exit__(self, *exc: object) -> None:
        for storage, version in self._stack.pop():
            version.next = version.undo = None
            storage.version = version
            storage.cursor = None


def _enter_inference_mode(mode: bool) -> inference_mode:
    """Enter inference mode without a block. Pass the result to `_exit_inference_mode`."""
    entered: inference_mode = inference_mode(mode)
    entered.__enter__()
    return entered


def _exit_inference_mode(mode: inference_mode) -> None:
    mode.__exit__(None, None, None)
