"""Generators of a GPU's random numbers: Philox, which computes each number where it is needed (_src.arrays.philox).

A generator is a seed and the number of draws so far. So its state is two words, nothing is stored on the device, and a
CUDA graph that draws receives the next number before each replay. The same seed draws the same numbers on every GPU,
but different ones than the CPU's generator.
"""

from __future__ import annotations

import struct

import numpy as np

from ndgrad._src.arrays.generator import _UNSEEDED, _WORD, Generator
from ndgrad._src.arrays.philox import Draw
from ndgrad._src.foundations.devices import DeviceLike, device
from ndgrad._src.foundations.locks import make_lock

# Marker of the layout; seed; number of draws so far.
_STATE = struct.Struct("<8sQQ")
_MARK = b"ndgPhilx"


class DeviceGenerator(Generator):
    """The class of `Generator("cuda")`."""

    __slots__ = ("_draws",)

    def __init__(self, device: DeviceLike = "cuda") -> None:
        self.device = _add_number(device)
        self.lock = make_lock()
        self._seed = _UNSEEDED
        self._draws = 0

    def next(self) -> Draw:
        """Return the next draw."""
        with self.lock:
            draw = Draw(self._seed, self._draws)
            self._draws += 1
        return draw

    @property
    def numpy(self) -> np.random.Generator:
        """A NumPy generator for the next draw, for distributions that are drawn on the host."""
        draw = self.next()
        return np.random.Generator(np.random.Philox(key=draw.seed | draw.number << 64))

    def _packed_state(self) -> bytes:
        with self.lock:
            return _STATE.pack(_MARK, self._seed, self._draws)

    def _exported_state(self) -> bytes:
        return self._packed_state()

    def _import_state(self, packed: bytes) -> bytes:
        if len(packed) != _STATE.size or not packed.startswith(_MARK):
            raise RuntimeError(
                f"Generator.set_state() got {len(packed)} bytes that are not a state of a GPU's generator, "
                f"{_STATE.size} bytes with a mark in front. Pass the result of get_state(); the state of a "
                "torch generator, or of the CPU's, will not do. [nd-values]"
            )
        return packed

    def _resume_from(self, packed: bytes) -> Generator:
        _, seed, draws = _STATE.unpack(packed)
        with self.lock:
            self._seed, self._draws = seed, draws
        return self

    def _start(self, seed: int) -> None:
        self._seed, self._draws = seed & _WORD, 0

    def _has_drawn(self) -> bool:
        return True  # a state is never more than two words


def _add_number(d: DeviceLike) -> device:
    where = device(d)
    if where.index is not None:
        return where
    from ndgrad._src.arrays.gpus import current, devices_or_none  # may import CuPy

    return device("cuda", current("Generator()") if devices_or_none()[1] else 0)


