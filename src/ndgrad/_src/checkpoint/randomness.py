"""The random state of a checkpointed call, so that the recomputation draws the same numbers.

A function draws from the default generators, of the CPU and of the GPUs, and from generators among its arguments. A
generator that it reaches through a closure is not seen: pass it as an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad._src.arrays.generator import Generator, default_generator, defaults_of_devices

#: A generator that has not drawn yet is represented by its seed; its state would load numpy.random.
State = int | bytes


def _state(generator: Generator) -> State:
    return generator._packed_state() if generator._has_drawn() else generator.initial_seed()


def _set_state(generator: Generator, state: State) -> None:
    if isinstance(state, int):
        generator.manual_seed(state)
    else:
        generator._resume_from(state)


class RandomState:
    """The states of all generators visible to a call, at the time of creation."""

    def __init__(self, arguments: Iterable[Any]) -> None:
        given = (a for a in arguments if isinstance(a, Generator))
        generators = dict.fromkeys([default_generator, *defaults_of_devices(), *given])
        self.states = [(g, _state(g)) for g in generators]

    @contextmanager
    def restore(self) -> Iterator[None]:
        """Context in which the generators start from these states; afterwards they continue as if it had not run."""
        now = [(g, _state(g)) for g, _ in self.states]
        for generator, state in self.states:
            _set_state(generator, state)
        try:
            yield
        finally:
            for generator, state in now:
                _set_state(generator, state)
