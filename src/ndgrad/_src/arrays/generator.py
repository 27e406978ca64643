"""Random number generators with torch's interface over NumPy's PCG64.

The constraint that shaped this file: `import ndgrad` must not pay for `numpy.random` (15 ms, a fifth of NumPy's own
import), so a generator is only a seed until its first draw. From then on it uses one `numpy.random.Generator` for life.
Seeding and restoring change that object's state in place, so code that holds it sees the change.

Note: generators and fork
A forked child starts with its parent's state and so draws the same numbers. This is torch's behaviour too, and is left
unchanged: call `manual_seed` in the child, with a different seed. The default generator's locks are held across the
fork, so the child never finds them locked by a thread that no longer exists. This does not cover other generators from
which another thread draws during the fork.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.devices import DeviceLike, device
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    import numpy.typing as npt

    from ndgrad._typing import Tensor

__all__ = ["Generator", "default_generator", "initial_seed", "manual_seed", "seed"]

# The initial seed of an unseeded generator: torch's constant, so that initial_seed() agrees.
_UNSEEDED = 67280421310721

# Marker and version of the layout; seed; state and increment of PCG64, low word first; the unused half of a 64-bit
# draw, kept for the next 32-bit draw, and a flag for it.
_STATE = struct.Struct("<8sQQQQQIB3x")
_MARK = b"ndgPCG64"
_WORD = (1 << 64) - 1


class Generator:
    """A source of random numbers with its own state.

    Draw from `.numpy`, a NumPy generator, whose single draws are thread-safe. Hold `.lock` around several draws that
    belong together.

    >>> g = Generator().manual_seed(7)
    >>> state = g.get_state()
    >>> first = g.numpy.random()
    >>> g.set_state(state).numpy.random() == first
    True
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = ("__weakref__", "_seed", "device", "lock", "numpy")

    def __new__(cls, device: DeviceLike = "cpu") -> Self:
        made: Any = cls
        if cls is Generator and _is_gpu(device):
            from ndgrad._src.arrays.device_generator import DeviceGenerator as made  # a subclass of this class
        new: Self = object.__new__(made)
        return new

    if TYPE_CHECKING:  # `typing.get_type_hints` could not resolve these
        device: device
        lock: threading.RLock
        numpy: np.random.Generator
        _seed: int

    def __init__(self, device: DeviceLike = "cpu") -> None:
        self.device = _cpu(device)
        self.lock = make_lock()
        self._seed = _UNSEEDED

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Reached only while the slot is empty, that is, before the first draw.
            if name != "numpy":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with self.lock:
                try:
                    return object.__getattribute__(self, "numpy")  # another thread was first
                except AttributeError:
                    self.numpy = np.random.Generator(np.random.PCG64(self._seed))
                    return self.numpy

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a seed, any integer of 64 bits; negative ones count from 2**64.

        >>> import ndgrad
        >>> g = ndgrad.Generator().manual_seed(7)
        >>> ndgrad.equal(ndgrad.rand(3, generator=g), ndgrad.rand(3, generator=g.manual_seed(7)))
        True
        """
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(
                f"Generator.manual_seed() got the seed {seed!r}, of type {type(seed).__name__}. Pass an int. [nd-type]"
            )
        if not -(1 << 63) <= seed <= _WORD:
            raise ValueError(
                f"Generator.manual_seed() got {seed}, which does not fit in 64 bits. "
                "Pass an integer from -2**63 to 2**64 - 1. [nd-overflow]"
            )
        with self.lock:
            self._start(int(seed))
        return self

    def _start(self, seed: int) -> None:
        self._seed = seed & _WORD
        if self._has_drawn():
            self._restore(np.random.PCG64(self._seed).state)

    def seed(self) -> int:
        """Restart from a random seed of the operating system, and return it.

        >>> import ndgrad
        >>> g = ndgrad.Generator()
        >>> g.seed() == g.initial_seed()
        True
        """
        chosen = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """Return the seed from which this generator last started.

        >>> import ndgrad
        >>> ndgrad.Generator().manual_seed(7).initial_seed()
        7
        """
        return self._seed

    def get_state(self) -> Tensor:
        """Return the whole state, including the initial seed, as a tensor of bytes.

        >>> import ndgrad
        >>> ndgrad.Generator().get_state().dtype
        ndgrad.uint8
        """
        made: Tensor = registry.data.fresh(np.frombuffer(self._packed_state(), np.uint8).copy())
        return made

    def _packed_state(self) -> bytes:
        with self.lock:
            bits = self.numpy.bit_generator
            with bits.lock:
                state = bits.state
            position, increment = state["state"]["state"], state["state"]["inc"]
            words = position & _WORD, position >> 64, increment & _WORD, increment >> 64
            return _STATE.pack(_MARK, self._seed, *words, state["uinteger"], state["has_uint32"])

    def set_state(self, new_state: Tensor | npt.ArrayLike) -> Generator:
        """Continue from a state that `get_state` of this or another generator returned.

        >>> import ndgrad
        >>> g = ndgrad.Generator()
        >>> state = g.get_state()
        >>> ndgrad.equal(ndgrad.rand(3, generator=g), ndgrad.rand(3, generator=g.set_state(state)))
        True
        """
        state = np.asarray(new_state)
        if state.dtype != np.uint8:
            raise TypeError(
                f"Generator.set_state() got an array of {state.dtype}, where a state is an array of uint8. "
                "Pass the result of get_state(). [nd-type]"
            )
        return self._resume_from(self._check(state.tobytes()))

    def _check(self, packed: bytes) -> bytes:
        """Return the bytes of a state after checking them."""
        if len(packed) != _STATE.size or not packed.startswith(_MARK):
            raise RuntimeError(
                f"Generator.set_state() got {len(packed)} bytes that are not a state of this generator, "
                f"{_STATE.size} bytes with a mark in front. Pass the result of get_state(); the state of a "
                "torch generator will not do. [nd-values]"
            )
        return packed

    def _resume_from(self, packed: bytes) -> Generator:
        _, seed, low, high, inc_low, inc_high, uinteger, has_uint32 = _STATE.unpack(packed)
        with self.lock:
            self._seed = seed
            self._restore(
                {
                    "bit_generator": "PCG64",
                    "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
                    "has_uint32": has_uint32,
                    "uinteger": uinteger,
                }
            )
        return self

    def clone_state(self) -> Generator:
        """Return a new generator that continues from the current state of this one.

        >>> import ndgrad
        >>> g = ndgrad.Generator()
        >>> h = g.clone_state()
        >>> ndgrad.equal(ndgrad.rand(3, generator=g), ndgrad.rand(3, generator=h))
        True
        """
        return _from_state(str(self.device), self._packed_state())

    def _has_drawn(self) -> bool:
        try:
            object.__getattribute__(self, "numpy")
        except AttributeError:
            return False
        return True

    def _restore(self, state: Mapping[str, Any]) -> None:
        # NumPy's draws hold the bit generator's lock, but assigning its state does not. The lock is held here, so that
        # no thread draws from a half-written state.
        bits = self.numpy.bit_generator
        with bits.lock:
            bits.state = state

    def __repr__(self) -> str:
        return f"<ndgrad.Generator device='{self.device}' initial_seed={self._seed}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_state, (str(self.device), self._packed_state())


def _is_gpu(d: DeviceLike) -> bool:
    return d != "cpu" and device(d).type == "cuda"


def _cpu(d: DeviceLike) -> device:
    where = device(d)
    if where.type != "cpu":
        raise RuntimeError(
            f"Generator() cannot be made on {where!r}: generators draw on the CPU or on a GPU ('cuda'). "
            "Make it with device='cpu' and move the numbers after they are drawn. [nd-device]"
        )
    return where


def _from_state(where: str, state: bytes) -> Generator:
    return Generator(where)._resume_from(state)


# ----- the default generator --------------------------------------------------------------------------------

default_generator = Generator()
"""The generator of random functions that are called without one; seeded by the operating system."""
default_generator.seed()


def _hold_default() -> None:
    default_generator.lock.acquire()
    if default_generator._has_drawn():
        default_generator.numpy.bit_generator.lock.acquire()


def _release_default() -> None:
    if default_generator._has_drawn():
        default_generator.numpy.bit_generator.lock.release()
    default_generator.lock.release()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_hold_default, after_in_parent=_release_default, after_in_child=_release_default)


#: The default generators of GPUs by device number, made on demand. `_seed_of_devices` is the seed of those made later,
#: or None for a random one.
_of_devices: dict[int, Generator] = {}
_seed_of_devices: int | None = None


def default_on(number: int) -> Generator:
    """Return the default generator of a GPU."""
    found = _of_devices.get(number)
    if found is None:
        made = Generator(device("cuda", number))
        if _seed_of_devices is None:
            made.seed()
        else:
            made.manual_seed(_seed_of_devices)
        found = _of_devices.setdefault(number, made)  # another thread may have been first
    return found


def defaults_of_devices() -> list[Generator]:
    """Return the default generators of all GPUs, to save their states; an empty list before the first GPU array."""
    return [] if library.device_library is None else [default_on(number) for number in range(devices_or_none()[1])]


def seed_devices(seed: int) -> None:
    """Seed the default generators of all GPUs."""
    global _seed_of_devices
    _seed_of_devices = seed
    for generator in list(_of_devices.values()):
        generator.manual_seed(seed)


@set_module("ndgrad")
def manual_seed(seed: int) -> Generator:
    """Seed the default generators of the CPU and of all GPUs, and return the CPU's.

    >>> manual_seed(3).initial_seed()
    3
    """
    made = default_generator.manual_seed(int(seed))
    seed_devices(int(seed))
    return made


@set_module("ndgrad")
def seed() -> int:
    """Seed the default generators with a random number of the operating system, and return it.

    >>> import ndgrad
    >>> ndgrad.seed() == ndgrad.initial_seed()
    True
    """
    chosen = default_generator.seed()
    seed_devices(chosen)
    return chosen


@set_module("ndgrad")
def initial_seed() -> int:
    """Return the seed from which the default generator last started.

    >>> import ndgrad
    >>> generator = ndgrad.manual_seed(3)
    >>> ndgrad.initial_seed()
    3
    """
    return default_generator.initial_seed()
