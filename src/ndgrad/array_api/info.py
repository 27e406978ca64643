"""What the namespace says of itself: `__array_namespace_info__()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.foundations import devices
from ndgrad.array_api.data_types import KINDS

if TYPE_CHECKING:
    from ndgrad._typing import Device


def _graphics_cards() -> int:
    """How many GPUs there are that CuPy can use."""
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, no driver, no card: each has its own error, and all mean none
        return 0


class Info:
    """What `ndgrad.array_api` says of itself by the standard's inspection functions.

    >>> import ndgrad.array_api as xp
    >>> xp.__array_namespace_info__().capabilities()["boolean indexing"]
    True
    """

    def capabilities(self) -> dict[str, bool | int]:
        """What the namespace can do.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().capabilities()["max dimensions"]
        64
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> devices.device:
        """The device of arrays for which none is named.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().default_device()
        device(type='cpu')
        """
        return devices.get_default_device()

    def devices(self) -> list[devices.device]:
        """The CPU and the GPUs. The device "meta", whose arrays have no values, may be named too but is not listed.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().devices()[0]
        device(type='cpu')
        """
        return [devices.device("cpu"), *(devices.device("cuda", k) for k in range(_graphics_cards()))]

    def default_dtypes(self, *, device: Device = None) -> dict[str, np.dtype[Any]]:
        """The data types of numbers for which none is named, the same on every device.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().default_dtypes()["integral"]
        dtype('int64')
        """
        return {
            "real floating": np.dtype("float64"),
            "complex floating": np.dtype("complex128"),
            "integral": np.dtype("int64"),
            "indexing": np.dtype("int64"),
        }

    def dtypes(self, *, device: Device = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """Name -> data type, of all kinds or of those named.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().dtypes(kind="bool")
        {'bool': dtype('bool')}
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if k not in KINDS:
                raise ValueError(
                    f"dtypes(): {k!r} is no kind of data type. Choose from {', '.join(map(repr, KINDS))}. [nd-option]"
                )
        return {name: np.dtype(name) for k in kinds for name in KINDS[k]}


def __array_namespace_info__() -> Info:
    """Capabilities, devices and data types.

    >>> import ndgrad.array_api as xp
    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """
    return Info()
