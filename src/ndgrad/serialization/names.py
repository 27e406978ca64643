"""Names of torch in the pickle of a file of tensors; torch itself is not needed."""

from __future__ import annotations

from typing import NoReturn

#: Name of the class for memory of a dtype. Newer dtypes have none, and their memory is bytes.
STORAGE_OF = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage", "complex128": "ComplexDoubleStorage", "complex64": "ComplexFloatStorage",
}  # fmt: skip
DTYPE_OF = {storage: name for name, storage in STORAGE_OF.items()}

#: Flag of an `Array`. torch ignores unknown flags, and reads a tensor.
IS_ARRAY = "ndgrad.Array"


class Name:
    """A name in another library, written into the pickle unchanged."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: object) -> NoReturn:
        raise TypeError(f"{self.module}.{self.name} is a name for a file, not a function [nd-type]")


TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
TENSOR_OF_DTYPE = Name("torch._utils", "_rebuild_tensor_v3")
META_TENSOR = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
PARAMETER = Name("torch._utils", "_rebuild_parameter")
PARAMETER_WITH_STATE = Name("torch._utils", "_rebuild_parameter_with_state")
FROM_TYPE, TENSOR_TYPE = Name("torch._tensor", "_rebuild_from_type_v2"), Name("torch", "Tensor")
NESTED = Name("torch.nested._internal.nested_tensor", "_rebuild_njt")
SPARSE, LAYOUT = Name("torch._utils", "_rebuild_sparse_tensor"), Name("torch.serialization", "_get_layout")
SIZE, DEVICE = Name("torch", "Size"), Name("torch", "device")
UNTYPED = Name("torch.storage", "UntypedStorage")
_TOP_LEVEL: dict[str, Name] = {}


def torch_name(name: str) -> Name:
    """Return a name of torch's top level; the same object for the same name, so that a pickle holds it once."""
    return _TOP_LEVEL.setdefault(name, Name("torch", name))
