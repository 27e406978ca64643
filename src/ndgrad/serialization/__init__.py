"""torch's namespace `serialization`: `ndgrad.save`, `ndgrad.load` and their options.

The format is torch's: a zip archive with a pickle, in which tensors name their memory, and one record of raw bytes per
memory. So each library reads the other's files, and tensors that share memory still share it. The pickle needs the
names of only a few functions, so by default a file is loaded without running code from it.
"""

from __future__ import annotations

import os
import pickle
from tempfile import mkdtemp
from typing import IO, Any, TypeAlias

from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage
from ndgrad.serialization.locations import (
    MapLocation,
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
    validate_hpu_device,
)
from ndgrad.serialization.options import (
    MAP_PRIVATE,
    MAP_SHARED,
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from ndgrad.serialization.reading import load
from ndgrad.serialization.rebuilding import _rebuild_as as _rebuild_as  # the name in files
from ndgrad.serialization.rebuilding import _rebuild_parameter as _rebuild_parameter
from ndgrad.serialization.trusted_names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    get_unsafe_globals_in_checkpoint,
    safe_globals,
)
from ndgrad.serialization.writing import save

__all__ = [
    "DEFAULT_PROTOCOL", "LoadEndianness", "MAP_PRIVATE", "MAP_SHARED", "SourceChangeWarning", "add_safe_globals",
    "check_module_version_greater_or_equal", "clear_safe_globals", "default_restore_location", "get_crc32_options",
    "get_default_load_endianness", "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint",
    "load", "location_tag", "mkdtemp", "register_package", "safe_globals", "save", "set_crc32_options",
    "set_default_load_endianness", "set_default_mmap_options", "skip_data", "validate_cuda_device",
    "validate_hpu_device",
]  # fmt: skip

DEFAULT_PROTOCOL = 2
FileLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
MAP_LOCATION = MapLocation
STORAGE: TypeAlias = "UntypedStorage | TypedStorage"
UnpicklingError = pickle.UnpicklingError


class SourceChangeWarning(Warning):
    """torch's warning about a module whose code has changed since its file was written; never issued here."""


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """True if a module's `__version__` is at least this one.

    Args:
        module: module with a `__version__`.
        req_version_tuple: least version, as a tuple.
        error_if_malformed: whether a version that cannot be compared raises RuntimeError. It counts as new enough
            otherwise, with a warning.

    >>> import numpy
    >>> ndgrad.serialization.check_module_version_greater_or_equal(numpy, (1, 0))
    True
    """
    parts = module.__version__.split(".")
    try:
        found = tuple(type(want)(part) for want, part in zip(req_version_tuple, parts))
    except (TypeError, ValueError) as error:
        message = f"the version {module.__version__!r} of {module.__name__} is not made like {req_version_tuple}."
        if error_if_malformed:
            raise RuntimeError(f"{message} Give parts of the kinds that it has. [nd-type]") from error
        import warnings  # only needed here

        warnings.warn(f"{message} It counts as new enough.", stacklevel=2)
        return True
    return found >= req_version_tuple
