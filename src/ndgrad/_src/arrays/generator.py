"""Random number generators with torch's interface and torch's numbers: on the CPU a Mersenne twister.

The constraint that shaped this file: `import ndgrad` must not pay for `numpy.random` (15 ms, a fifth of NumPy's own
import), so a generator is only a seed until its first draw. From then on it has a twister (mersenne_twister).
`host_draws` makes numbers of its words.

Note: generators and fork
A forked child starts with its parent's state and so draws the same numbers. This is torch's behaviour too, and is left
unchanged: call `manual_seed` in the child, with a different seed. The default generator's lock is held across the
fork, so the child never finds it locked by a thread that no longer exists. This does not cover other generators from
which another thread draws during the fork.
"""

from __future__ import annotations

import os
import struct
import threading
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

    from ndgrad._src.arrays.mersenne_twister import Twister
    from ndgrad._typing import Tensor

__all__ = ["Generator", "default_generator", "initial_seed", "manual_seed", "seed"]

# The initial seed of an unseeded generator: torch's constant, so that initial_seed() agrees.
_UNSEEDED = 67280421310721

_WORD = (1 << 64) - 1

# torch's layout of a state: seed; number of words until the next block of 624, plus one; a flag; number of words drawn
# of this block; the block, in words of 64 bits (not in these formats); two unused numbers around a normal number kept
# for the next draw; a flag for it; the same in single precision.
_HEAD = struct.Struct("<QiiQ")
_TAIL = struct.Struct("<dddi4xfB3x")
_STATE_SIZE = _HEAD.size + 8 * 624 + _TAIL.size

# Layout of a state inside the package, which is shorter: seed; flags for the two normal numbers, and the numbers, the
# one in single precision first; then the twister's state.
_PACKED = struct.Struct("<QBB2xfd")


class Generator:
    """A source of random numbers with its own state. A seed gives torch's numbers.

    >>> import ndgrad
    >>> g = ndgrad.Generator().manual_seed(7)
    >>> state = g.get_state()
    >>> first = ndgrad.rand(2, generator=g)
    >>> first
    tensor([0.5349, 0.1988])
    >>> ndgrad.equal(ndgrad.rand(2, generator=g.set_state(state)), first)
    True
    """

    __module__ = "ndgrad"  # public path, shown in messages and stored in pickles

    __slots__ = ("__weakref__", "_seed", "device", "float_normal", "lock", "normal", "twister")

    def __new__(cls, device: DeviceLike = "cpu") -> Self:
        made: Any = cls
        if cls is Generator and _is_gpu(device):
            from ndgrad._src.arrays.device_generator import DeviceGenerator as made  # a subclass of this class
        new: Self = object.__new__(made)
        return new

    if TYPE_CHECKING:  # `typing.get_type_hints` could not resolve these
        device: device
        #: Held around draws that belong together.
        lock: threading.RLock
        twister: Twister
        #: The second number of the last pair of normal numbers, if the next draw begins with it.
        normal: float | None
        #: The same in single precision; only other programs' states have it.
        float_normal: float | None
        _seed: int

    def __init__(self, device: DeviceLike = "cpu") -> None:
        self.device = _cpu(device)
        self.lock = make_lock()
        self._seed = _UNSEEDED
        self.normal = self.float_normal = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Reached only while the slot is empty, that is, before the first draw.
            if name != "twister":
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with self.lock:
                try:
                    return object.__getattribute__(self, "twister")  # another thread was first
                except AttributeError:
                    from ndgrad._src.arrays.mersenne_twister import take  # loads numpy.random

                    twister = take()
                    twister.seed(self._seed)
                    self.twister = twister
                    return twister

    def __del__(self) -> None:
        try:
            twister = object.__getattribute__(self, "twister")
        except AttributeError:  # it has not drawn
            return
        twister.give_back()

    def manual_seed(self, seed: int) -> Generator:
        """Restart from a seed, any integer of 64 bits; negative ones count from 2**64.

        Args:
            seed: integer of 64 bits.

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
        self.normal = self.float_normal = None
        if self._has_drawn():
            self.twister.seed(seed)

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
        """Return the whole state, including the initial seed, as a tensor of bytes, in torch's format.

        >>> import ndgrad
        >>> ndgrad.Generator().get_state().shape
        ndgrad.Size([5056])
        """
        made: Tensor = registry.data.fresh(np.frombuffer(self._exported_state(), np.uint8).copy())
        return made

    def _exported_state(self) -> bytes:
        """Return the state in the format of `get_state`."""
        seed, has_float, has_normal, float_normal, normal = _PACKED.unpack_from(packed := self._packed_state())
        words = np.frombuffer(packed, np.uint32, offset=_PACKED.size)
        drawn = int(words[-1])
        # A seed leaves a block that is used up, of which no word was drawn. Its first word is the seed.
        following = 0 if drawn == 624 and words[0] == seed & 0xFFFFFFFF else drawn
        head = _HEAD.pack(seed, 625 - drawn, 1, following)
        tail = _TAIL.pack(0.0, normal, 0.0, has_normal, float_normal, has_float)
        return head + words[:-1].astype("<u8").tobytes() + tail

    def _packed_state(self) -> bytes:
        """Return the state in the shorter format of the package."""
        with self.lock:
            normal, single = self.normal, self.float_normal
            flags = single is not None, normal is not None
            return _PACKED.pack(self._seed, *flags, single or 0.0, normal or 0.0) + self.twister.state()

    def set_state(self, new_state: Tensor | npt.ArrayLike) -> Generator:
        """Continue from a state that `get_state` of this or another generator returned. States of torch's CPU
        generators are the same.

        Args:
            new_state: result of `get_state`, a tensor of bytes.

        >>> import ndgrad
        >>> g = ndgrad.Generator()
        >>> state = g.get_state()
        >>> ndgrad.equal(ndgrad.rand(3, generator=g), ndgrad.rand(3, generator=g.set_state(state)))
        True
        """
        state = np.asarray(new_state)
        if state.dtype != np.uint8:
            raise TypeError(
                f"RNG state must be a torch.ByteTensor: Generator.set_state() got an array of {state.dtype}. "
                "Pass the result of get_state(), which has dtype uint8. [nd-type]"
            )
        return self._resume_from(self._import_state(state.tobytes()))

    def _import_state(self, state: bytes) -> bytes:
        """Check a state in the format of `get_state`, and return it in the shorter one."""
        if len(state) != _STATE_SIZE:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE_SIZE} but found the input RNG state size to be "
                f"{len(state)}. Pass the result of get_state() of a CPU generator. [nd-values]"
            )
        seed, left, seeded, following = _HEAD.unpack_from(state)
        _, normal, _, has_normal, float_normal, has_float = _TAIL.unpack_from(state, _STATE_SIZE - _TAIL.size)
        if seeded != 1 or not 0 < left <= 624 or following > 624:
            raise RuntimeError(
                "Invalid mt19937 state: its counters are out of range. Pass the result of get_state() of a CPU "
                "generator. [nd-values]"
            )
        words = np.empty(625, np.uint32)
        words[:-1] = np.frombuffer(state, "<u8", 624, _HEAD.size)
        words[-1] = 624 if left == 1 else following
        return _PACKED.pack(seed, has_float != 0, has_normal != 0, float_normal, normal) + words.tobytes()

    def _resume_from(self, packed: bytes) -> Generator:
        """Continue from a result of `_packed_state`."""
        seed, has_float, has_normal, float_normal, normal = _PACKED.unpack_from(packed)
        with self.lock:
            self._seed = seed
            self.normal = normal if has_normal else None
            self.float_normal = float_normal if has_float else None
            self.twister.set_state(packed[_PACKED.size :])
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
            object.__getattribute__(self, "twister")
        except AttributeError:
            return False
        return True

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


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(
        before=default_generator.lock.acquire,
        after_in_parent=default_generator.lock.release,
        after_in_child=default_generator.lock.release,
    )


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

    Args:
        seed: integer from which all later draws follow.

    Returns:
        The default generator of the CPU.

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
