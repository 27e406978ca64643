"""The random state of a checkpointed call, so that the recomputation draws the same numbers.

What a function draws from are the default generators, of the CPU and of the GPUs, and whatever generators it is given
as arguments. A generator of its own that it reaches through a closure is out of sight: pass it as an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad._src.arrays.generator import Generator, default_generator, defaults_of_devices

#: A generator that has not drawn yet is its seed: asking for more would load numpy.random.
State = int | bytes


def _state(generator: Generator) -> State:
    return generator._packed_state() if generator._has_drawn() else generator.initial_seed()


def _set_state(generator: Generator, state: State) -> None:
    if isinstance(state, int):
        generator.manual_seed(state)
    else:
        generator._resume_from(state)


class RandomState:
    """The states of the generators that a call can see, at the time this is made."""

    def __init__(self, arguments: Iterable[Any]) -> None:
        given = (a for a in arguments if isinstance(a, Generator))
        generators = dict.fromkeys([default_generator, *defaults_of_devices(), *given])
        self.states = [(g, _state(g)) for g in generators]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """A block in which the generators start from these states; afterwards they go on as if it had not been."""
        now = [(g, _state(g)) for g, _ in self.states]
        for generator, state in self.states:
            _set_state(generator, state)
        try:
            yield
        finally:
            for generator, state in now:
                _set_state(generator, state)
