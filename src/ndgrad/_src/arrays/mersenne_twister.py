"""The words of torch's CPU generator: the Mersenne twister MT19937 of NumPy, seeded and stored as torch does.

Note [Memory of the twister]
Reading or setting the `state` of NumPy's bit generator converts 624 words one by one, which takes 30 us, and making a
bit generator takes longer. So states are copied in one piece through the address that the bit generator publishes. The
first twister compares its memory with `state`; if they differ, `state` is used. Twisters of deleted generators are used
again.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

#: Number of words of the twister's state.
SIZE = 624


class Twister:
    """A stream of 32-bit words."""

    __slots__ = ("_bits", "_memory", "words")

    def __init__(self) -> None:
        self._bits = np.random.MT19937(0)
        #: words(n) returns the next n words, as uint64. It is atomic: NumPy holds a lock of the bit generator.
        self.words = self._bits.random_raw
        self._memory: Any = _map_memory(self._bits)

    def seed(self, seed: int) -> None:
        """Start from a seed. Only its lower 32 bits count, as in torch."""
        self._bits._legacy_seeding(seed & 0xFFFFFFFF)  # as RandomState.seed

    def state(self) -> bytes:
        """Return the words of the state and the number of words of it that were drawn, of 32 bits each."""
        if self._memory is not None:
            with self._bits.lock:
                return self._memory.tobytes()
        state = self._bits.state["state"]
        return state["key"].tobytes() + np.int32(state["pos"]).tobytes()

    def set_state(self, state: bytes) -> None:
        """Continue from a result of `state`."""
        words = np.frombuffer(state, np.uint32)
        with self._bits.lock:
            if self._memory is not None:
                self._memory[...] = words
            else:
                self._bits.state = {"bit_generator": "MT19937", "state": {"key": words[:SIZE], "pos": int(words[SIZE])}}

    def give_back(self) -> None:
        """Keep this twister, whose generator is deleted, for another one."""
        if _unused is not None and len(_unused) < 32:  # it is None while the interpreter shuts down
            _unused.append(self)


def _map_memory(bits: Any) -> Any:
    """Return the state in the memory of a bit generator as an array; None if its layout is not the known one."""
    global _has_known_layout
    if _has_known_layout is False:
        return None
    words: Any = (ctypes.c_uint32 * (SIZE + 1)).from_address(bits.ctypes.state_address)
    memory: Any = np.frombuffer(words, np.uint32)
    if _has_known_layout is None:
        bits.random_raw(3)
        state = bits.state["state"]
        _has_known_layout = bool((memory[:SIZE] == state["key"]).all() and memory[SIZE] == state["pos"])
    return memory if _has_known_layout else None


_has_known_layout: bool | None = None

_unused: list[Twister] = []


def take() -> Twister:
    """Return a twister in any state."""
    try:
        return _unused.pop()
    except IndexError:
        return Twister()
