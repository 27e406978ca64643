"""no_grad, enable_grad, set_grad_enabled, inference_mode: contexts and decorators, for each thread by itself.

As decorators they also serve generators, whose body runs in the mode while the caller's code between items does not, and
coroutines, likewise between awaits.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from ndgrad.autograd.modes import enter, leave, thread

F = TypeVar("F", bound=Callable[..., Any])


class Mode:
    """A context manager that can be entered again and again (nested too) and used as a decorator."""

    def __init__(self) -> None:
        self._stack: list[Any] = []

    def fresh(self) -> Mode:
        """Another of the same kind, for one call of a decorated function."""
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            raise TypeError(f"{type(self).__name__} decorates functions, and got the class {function.__name__}. Decorate its methods.")
        if inspect.isgeneratorfunction(function):
            return self._decorate_generator(function)  # type: ignore[no-any-return]
        if inspect.iscoroutinefunction(function):
            return self._decorate_coroutine(function)  # type: ignore[no-any-return]

        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self.fresh():
                return function(*args, **kwargs)

        return decorated  # type: ignore[return-value]

    def _decorate_generator(self, function: Any) -> Any:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            return (yield from self._drive(function(*args, **kwargs)))

        return decorated

    def _decorate_coroutine(self, function: Any) -> Any:
        @functools.wraps(function)
        async def decorated(*args: Any, **kwargs: Any) -> Any:
            return await _Awaitable(self._drive(function(*args, **kwargs).__await__()))

        return decorated

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


class _Awaitable:
    def __init__(self, generator: Generator[Any, Any, Any]) -> None:
        self.generator = generator

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.generator


def _set_grad_enabled(value: bool) -> None:
    """Change this thread's grad mode, keeping the count of threads that are not in the default mode.

    In inference mode nothing is ever recorded: enable_grad() there shows in is_grad_enabled() alone.
    """
    if thread.inference:
        thread.grad_asked = value
        return
    if thread.grad_enabled is not value:
        thread.grad_enabled = value
        if value:
            leave()
        else:
            enter()


class _GradMode(Mode):
    value: bool

    def __enter__(self) -> None:
        self._stack.append(is_grad_enabled())
        _set_grad_enabled(self.value)

    def __exit__(self, *exc: object) -> None:
        _set_grad_enabled(self._stack.pop())


class no_grad(_GradMode):
    """A context in which nothing is recorded.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with ndgrad.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    value = False

    def __new__(cls, function: Any = None) -> Any:
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__()


class enable_grad(_GradMode):
    """A context in which ops are recorded again inside no_grad."""

    value = True

    def __new__(cls, function: Any = None) -> Any:
        made = super().__new__(cls)
        if function is None:
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__()


class set_grad_enabled(_GradMode):
    """Switch recording on or off, at once; as a context, until the block ends."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.value = bool(mode)
        self.before = is_grad_enabled()
        _set_grad_enabled(self.value)

    def fresh(self) -> Mode:
        return set_grad_enabled(self.value)

    def __call__(self, function: F) -> F:
        _set_grad_enabled(self.before)
        return super().__call__(function)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _set_grad_enabled(self.before)


class inference_mode(Mode):
    """A context without recording and without version tracking; its tensors can never take part in autograd."""

    def __new__(cls, mode: Any = True) -> Any:
        made = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__()  # type: ignore[misc]
        return made(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode

    def fresh(self) -> Mode:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._stack.append((thread.inference, is_grad_enabled(), thread.forward_grad_enabled))
        enter()
        _set_inference(self.mode, not self.mode)
        thread.forward_grad_enabled = not self.mode

    def __exit__(self, *exc: object) -> None:
        inference, grad_enabled, forward = self._stack.pop()
        _set_inference(inference, grad_enabled)
        thread.forward_grad_enabled = forward
        leave()


def _set_inference(inference: bool, grad_enabled: bool) -> None:
    thread.inference = False
    _set_grad_enabled(grad_enabled and not inference)
    thread.inference, thread.grad_asked = inference, grad_enabled


def is_grad_enabled() -> bool:
    """Whether this thread records (outside inference mode)."""
    return thread.grad_asked if thread.inference else thread.grad_enabled


def is_inference_mode_enabled() -> bool:
    return thread.inference
