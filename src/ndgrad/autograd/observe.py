"""Seeing every op below autograd: what profilers, dispatch modes and the compiler's recorder are made of.

An observer is called instead of an op's forward function, with a function that runs it. While one is active, backward runs its
rules on tensors too, so that the ops of the backward pass are seen as well as those of the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from ndgrad.autograd.modes import enter, leave, thread


class Observer(Protocol):
    def __call__(self, op: Any, arrays: list[Any], settings: dict[str, Any], run: Callable[[], Any]) -> Any: ...


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Let `observer` see the ops of this thread for the duration of a block; the innermost observer sees them first."""
    stack = thread.observers
    enter()
    thread.observers = (*stack, observer)
    try:
        yield
    finally:
        thread.observers = stack
        leave()


def observed_forward(op: Any, library: Any, args: tuple[Any, ...], arrays: list[Any], settings: dict[str, Any]) -> Any:
    """Run an op's forward function under all observers."""
    stack = thread.observers

    def run_from(position: int) -> Any:
        if position < 0:
            return op.forward_for(library)(*arrays, **settings)
        outside = thread.observers
        thread.observers = stack[:position]
        try:
            return stack[position](op, arrays, settings, lambda: run_from(position - 1))
        finally:
            thread.observers = outside

    return run_from(len(stack) - 1)


# ----- recording ---------------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """One op of a recording. Arguments and results are numbers of values, or constants."""

    op: Any
    arguments: tuple[Any, ...]
    settings: dict[str, Any]
    results: tuple[int, ...]


class Value(NamedTuple):
    """A value of a recording, by number."""

    number: int


class Recording:
    """The ops that ran in a block, as a straight-line program that can be run again on other arrays.

    >>> import numpy as np, ndgrad
    >>> from ndgrad.autograd.observe import Recording, observing
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> recording = Recording([x._array])
    >>> with observing(recording):
    ...     (g,) = ndgrad.autograd.grad((x * x).sum(), x)
    >>> recording.run([np.array([3.0, 4.0])], [g._array])
    [array([6., 8.])]
    """

    def __init__(self, inputs: list[Any]) -> None:
        self.calls: list[Call] = []
        self._kept: list[Any] = list(inputs)  # alive, so that identities stay unique
        self._numbers = {id(a): i for i, a in enumerate(inputs)}

    def __call__(self, op: Any, arrays: list[Any], settings: dict[str, Any], run: Callable[[], Any]) -> Any:
        out = run()
        arguments = tuple(self._reference(a) for a in arrays)
        results = tuple(self._define(o) for o in (out if isinstance(out, (tuple, list)) else (out,)))
        self.calls.append(Call(op, arguments, settings, results))
        return out

    def _reference(self, array: Any) -> Any:
        number = self._numbers.get(id(array))
        return array if number is None else Value(number)

    def _define(self, array: Any) -> int:
        number = self._numbers[id(array)] = len(self._kept)
        self._kept.append(array)
        return number

    def run(self, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        """The values of recorded arrays (`outputs`) for other inputs."""
        from ndgrad.arrays.library import library_of

        values: dict[int, Any] = dict(enumerate(inputs))
        library = library_of(inputs[0])
        for call in self.calls:
            arguments = [values[a.number] if isinstance(a, Value) else a for a in call.arguments]
            out = call.op.forward_for(library)(*arguments, **call.settings)
            for number, value in zip(call.results, out if isinstance(out, (tuple, list)) else (out,), strict=True):
                values[number] = value
        return [values[self._numbers[id(o)]] for o in outputs]
