"""torch's `xpu` namespace: Intel's GPUs, which are not used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

if TYPE_CHECKING:
    from ndgrad._typing import Device


def is_available() -> bool:
    """Return False.

    >>> import ndgrad
    >>> ndgrad.xpu.is_available(), ndgrad.xpu.device_count()
    (False, 0)
    """
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def is_initialized() -> bool:
    """Return False."""
    return False


def manual_seed(seed: int) -> None:
    """Do nothing: there is no device to seed.

    Args:
        seed: accepted as in torch; has no effect, because there is no such device.
    """


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no device to seed.

    Args:
        seed: accepted as in torch; has no effect, because there is no such device.
    """


def seed() -> None:
    """Do nothing: there is no device to seed."""


def seed_all() -> None:
    """Do nothing: there is no device to seed."""


def empty_cache() -> None:
    """Do nothing: no memory is held there."""


def memory_allocated(device: Device = None) -> int:
    """Return 0.

    Args:
        device: accepted as in torch; has no effect, because there is no such device.
    """
    return 0


def max_memory_allocated(device: Device = None) -> int:
    """Return 0.

    Args:
        device: accepted as in torch; has no effect, because there is no such device.
    """
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False.

    Args:
        including_emulation: accepted as in torch; has no effect, because there is no such device.
    """
    return False


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"{what}() needs a device of this kind, and none is used here. Ask is_available() first. [nd-gpu]"
    )


def current_device() -> int:
    """Raise an error: there is no such device."""
    _refuse("current_device")


def set_device(device: Device) -> None:
    """Raise an error: there is no such device.

    Args:
        device: accepted as in torch; has no effect, because there is no such device.
    """
    _refuse("set_device")


def synchronize(device: Device = None) -> None:
    """Raise an error: there is no such device.

    Args:
        device: accepted as in torch; has no effect, because there is no such device.
    """
    _refuse("synchronize")


_refuse_absent(__name__)
