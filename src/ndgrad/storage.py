"""`torch.storage`: the memory of tensors as an object."""

from __future__ import annotations

from ndgrad._src.tensor.storage import (
    TypedStorage as TypedStorage,
)
from ndgrad._src.tensor.storage import (
    UntypedStorage as UntypedStorage,
)
from ndgrad._src.tensor.storage import (
    is_storage as is_storage,
)

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]
