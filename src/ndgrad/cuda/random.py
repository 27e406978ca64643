"""Seeds and states of GPUs' random numbers. Each GPU has a generator of its own; where there is no GPU, these leave all
alone, as torch's do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, overload

from ndgrad._src.arrays.generator import Generator, default_on, seed_devices
from ndgrad._src.arrays.gpus import cupy_with_devices, device_number, devices_or_none

if TYPE_CHECKING:
    from ndgrad._typing import Device, Tensor

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


class DefaultGenerators(Sequence[Generator]):
    """What random functions draw from on each GPU when no generator is given, by the GPU's number."""

    def __len__(self) -> int:
        return devices_or_none()[1]

    @overload
    def __getitem__(self, number: int) -> Generator: ...

    @overload
    def __getitem__(self, number: slice) -> list[Generator]: ...

    def __getitem__(self, number: int | slice) -> Generator | list[Generator]:
        numbers = range(len(self))[number]
        return default_on(numbers) if isinstance(numbers, int) else [default_on(n) for n in numbers]


def manual_seed(seed: int) -> None:
    """Start the random numbers of the GPU in use from a seed.

    >>> import ndgrad
    >>> ndgrad.cuda.manual_seed(0)
    """
    seed = int(seed)
    if devices_or_none()[1]:
        default_on(device_number("cuda.manual_seed()", None)).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Start the random numbers of all GPUs from a seed.

    >>> import ndgrad
    >>> ndgrad.cuda.manual_seed_all(0)
    """
    seed = int(seed)
    if devices_or_none()[1]:
        seed_devices(seed)


def seed() -> None:
    """Start the random numbers of the GPU in use from a seed of the system's choosing."""
    if devices_or_none()[1]:
        default_on(device_number("cuda.seed()", None)).seed()


def seed_all() -> None:
    """Start the random numbers of all GPUs from one seed of the system's choosing."""
    generators = DefaultGenerators()
    if generators:
        seed_devices(generators[0].seed())


def initial_seed() -> int:
    """The seed that the random numbers of the GPU in use started from; an error where there is no GPU."""
    cupy_with_devices("cuda.initial_seed()")
    return default_on(device_number("cuda.initial_seed()", None)).initial_seed()


def get_rng_state(device: Device = "cuda") -> Tensor:
    """The state of a GPU's random numbers; an error where there is no GPU."""
    cupy_with_devices("cuda.get_rng_state()")
    return default_on(device_number("cuda.get_rng_state()", device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs."""
    return [generator.get_state() for generator in DefaultGenerators()]


def set_rng_state(new_state: Tensor, device: Device = "cuda") -> None:
    """Continue from a state that `get_rng_state` returned; nothing where there is no GPU."""
    if devices_or_none()[1]:
        default_on(device_number("cuda.set_rng_state()", device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Continue from the states that `get_rng_state_all` returned."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)
