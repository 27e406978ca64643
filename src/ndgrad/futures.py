"""torch's `futures`: values that will be available later, over those of Python."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from ndgrad._src.foundations.locks import make_lock

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """Value that will be set later.

    Args:
        devices: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> future = ndgrad.futures.Future()
    >>> doubled = future.then(lambda f: f.value() * 2)
    >>> future.set_result(ndgrad.ones(1))
    >>> doubled.wait()
    tensor([2.])
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._inner: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:  # torch's name  # prose: ok
        """True if it has a value or an error."""
        return self._inner.done()

    def wait(self) -> T:
        """Wait for the value, and return it or raise its error."""
        return self._inner.result()

    def value(self) -> T:
        """Return the value, which must be available."""
        if not self.done():
            raise RuntimeError("Future.value(): the future has no value yet. Use wait(). [nd-call-order]")
        return self._inner.result()

    def set_result(self, result: T) -> None:
        """Set the value, once.

        Args:
            result: value.
        """
        self._set(lambda: self._inner.set_result(result))

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which wait() raises.

        Args:
            result: error.
        """
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception. [nd-type]")
        self._set(lambda: self._inner.set_exception(result))

    def _set(self, put: Callable[[], None]) -> None:
        try:
            put()
        except concurrent.futures.InvalidStateError:
            raise RuntimeError(
                "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                "completed once. [nd-call-order]"
            ) from None

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return a future of the result of `callback` on this one when it is done.

        Args:
            callback: function of this future.
        """
        made: Future[S] = Future()

        def run(_: Any) -> None:
            try:
                made.set_result(callback(self))
            except Exception as error:
                made.set_exception(error)

        self._inner.add_done_callback(run)
        return made

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call a function with this future when it is done.

        Args:
            callback: function of this future.
        """
        self._inner.add_done_callback(lambda _: callback(self))


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future that is done when all of them are, with them as its value.

    Args:
        futures: futures to wait for.
    """
    made: Future[list[Future[Any]]] = Future()
    left, lock = len(futures), make_lock()

    def one_is_done(_: Any) -> None:
        nonlocal left
        with lock:
            left -= 1
            last = not left
        if last:
            made.set_result(futures)

    if not futures:
        made.set_result(futures)
    for future in futures:
        future.add_done_callback(one_is_done)
    return made


def wait_all(futures: list[Future[T]]) -> list[T]:
    """Return the values of all; raise the first error.

    Args:
        futures: futures to wait for.
    """
    return cast("list[T]", [f.wait() for f in collect_all(cast("list[Future[Any]]", futures)).wait()])
