"""torch's `types`: names for annotations."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from ndgrad._src.arrays import dtypes
from ndgrad._src.foundations.devices import device as _device
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor.storage import UntypedStorage
from ndgrad._src.tensor.tensor_class import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = "_device | str | builtins.int | None"
FileLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
Storage = UntypedStorage

_TensorOrTensors: TypeAlias = "Tensor | Sequence[Tensor]"  # noqa: PYI047  (for who imports it)
_dtype, _size = dtypes.dtype, Size
_int, _float, _bool = builtins.int, builtins.float, builtins.bool
