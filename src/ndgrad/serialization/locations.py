"""Destination of memory from a file: `map_location`, and devices of other packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgrad._src.foundations import devices
from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage
from ndgrad.serialization.plain_pickle import UsersError

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = [
    "default_restore_location", "location_tag", "register_package", "validate_cuda_device", "validate_hpu_device",
]  # fmt: skip

#: Destination of loaded tensors: a device, a dict from device to device, or a function of storage and device.
MapLocation: TypeAlias = "Device | dict[str, Device] | Callable[[UntypedStorage, str], object]"

# Priority, tagger and deserializer of each package; ours are the last.
_packages: list[tuple[int, Callable[[Any], str | None], Callable[[Any, str], Any]]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Register another kind of memory for `save` and `load`. `tagger(storage)` returns the name under which a storage
    is saved, or None. `deserializer(storage, name)` returns the storage to use, or None. Smaller priorities come first.

    Args:
        priority: order among packages. Smaller numbers come first.
        tagger: function that returns the name under which a storage is saved, or None.
        deserializer: function of a storage and a name that returns the storage to use, or None.

    >>> ndgrad.serialization.register_package(50, lambda storage: None, lambda storage, name: None)
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def location_tag(storage: UntypedStorage | TypedStorage) -> str:
    """Return the name of a storage's location, for saving.

    Args:
        storage: storage of a tensor.

    >>> ndgrad.serialization.location_tag(ndgrad.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _packages:
        found = tagger(storage)
        if found:
            return found
    return str(storage.device)


def default_restore_location(storage: UntypedStorage, location: str) -> Any:
    """Return a storage from a file, if `map_location` does not contain its location.

    Args:
        storage: storage on the CPU.
        location: name of a location, such as `"cuda:0"`.

    >>> storage = ndgrad.ones(2).untyped_storage()
    >>> ndgrad.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    return _restore(storage, location)[0]


def _restore(storage: UntypedStorage, location: str) -> tuple[UntypedStorage, Device]:
    """Return the storage to use, and the device of tensors over it; None if they stay on the CPU."""
    for _, _, deserializer in _packages:
        found = deserializer(storage, location)
        if found is not None:
            return found, None
    if location == "cpu":
        return storage, None
    if location == "meta":
        return storage, location
    if location.partition(":")[0] == "cuda":
        validate_cuda_device(location)
        return storage, location
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with {location[:100]}). Pass "
        "map_location='cpu', or teach the place to ndgrad.serialization.register_package. [nd-load-place]"
    )


def validate_cuda_device(location: str) -> int:
    """Return the number of the GPU with this name; raise if there is no such GPU.

    Args:
        location: name of a location, such as `"cuda:0"`.

    >>> ndgrad.serialization.validate_cuda_device("cuda:0")
    Traceback (most recent call last):
    ...
    RuntimeError: Attempting to deserialize object on a CUDA device but ndgrad.cuda.is_available() is False. ...
    """
    from ndgrad import cuda  # avoids an import cycle

    if not cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but ndgrad.cuda.is_available() is False. If there is no "
            "GPU here, pass map_location='cpu'. [nd-load-place]"
        )
    index = devices.device(location).index or 0
    if index >= cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but ndgrad.cuda.device_count() is "
            f"{cuda.device_count()}. Pass map_location with a device that is there. [nd-load-place]"
        )
    return index


def validate_hpu_device(location: str) -> int:
    """Raise an error: ndgrad has no such devices.

    Args:
        location: name of a location, such as `"cuda:0"`.

    >>> ndgrad.serialization.validate_hpu_device("hpu:0")
    Traceback (most recent call last):
    ...
    RuntimeError: The HPU device module is not registered. Pass map_location='cpu'. [nd-load-place]
    """
    raise RuntimeError("The HPU device module is not registered. Pass map_location='cpu'. [nd-load-place]")


def place_storage(map_location: MapLocation, storage: UntypedStorage, where: str) -> tuple[UntypedStorage, Device]:
    """Return a storage saved from `where`, placed as the user wants. Its errors are not errors of the file."""
    try:
        if callable(map_location) and not isinstance(map_location, devices.device):
            answer = map_location(storage, where)
            if answer is None:
                return _restore(storage, where)
            if isinstance(answer, TypedStorage):
                answer = answer.untyped()
            if not isinstance(answer, UntypedStorage):
                raise TypeError(
                    f"map_location returned a {type(answer).__name__} for the storage of {storage.nbytes()} bytes that "
                    f"was saved from {where!r}. Return a storage, or None for the place it was saved from. "
                    "[nd-load-place]"
                )
            return answer, None
        if isinstance(map_location, dict):
            return _restore(storage, str(map_location.get(where, where)))
        return _restore(storage, where if map_location is None else str(map_location))
    except Exception as error:
        raise UsersError(error) from error
