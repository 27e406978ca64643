"""Objects for the names in a file of tensors: tensors and parameters from their memory and attributes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ndgrad._src.arrays import dtypes
from ndgrad._src.core.variable import wrap
from ndgrad._src.foundations import devices
from ndgrad._src.tensor.functions.creation import empty_strided
from ndgrad._src.tensor.storage import UntypedStorage
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.serialization.names import DTYPE_OF
from ndgrad.serialization.plain_pickle import Callee, Forgotten
from ndgrad.serialization.storages import Memories, array_class, requiring

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype
    from ndgrad.nn.parameter import Parameter  # avoids an import cycle


#: Names of torch in files, with descriptions of features that ndgrad does not have.
NOT_HERE = {
    **{
        f"torch.{name}": f"tensors of torch.{name}"
        for name in "complex32 float4_e2m1fn_x2 quint8 qint8 qint32 quint4x2 quint2x4 "
        "ComplexHalfStorage QUInt8Storage QInt8Storage QInt32Storage".split()
    },
    "torch._utils._rebuild_qtensor": "quantized tensors",
    "torch._utils._rebuild_nested_tensor": "nested tensors of torch's older kind",
}

# Function that sets attributes of an object from a file: `set_attributes`, or the same without its checks.
Give: TypeAlias = Callable[[Any, Any], None]


def _rebuild_parameter(
    give: Give, data: object, requires_grad: object = True, hooks: object = None, state: object = None
) -> Parameter:
    from ndgrad.nn.parameter import Parameter  # avoids an import cycle

    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise pickle.UnpicklingError(
            f"a parameter in the file holds a {type(data).__name__}. The file is damaged. [nd-file-damaged]"
        )
    made = Parameter(requiring(data, requires_grad), requires_grad)
    if state is not None:
        give(made, state)
    return made


def _rebuild_as(kind: object, data: object, requires_grad: object, attributes: object) -> Tensor:
    """Return a tensor of another class over the memory of a plain one."""
    return _rebuild_class(give_all, kind, data, requires_grad, attributes)


def _rebuild_class(give: Give, kind: object, data: object, requires_grad: object, attributes: object) -> Tensor:
    if not (
        isinstance(kind, type) and issubclass(kind, Tensor) and isinstance(data, Tensor) and type(requires_grad) is bool
    ):
        raise pickle.UnpicklingError(
            f"a tensor in the file is a {type(data).__name__} of a class that is none. The file is damaged. "
            "[nd-file-damaged]"
        )
    made = wrap(kind, data._array)
    made._storage = data._storage
    give(requiring(made, requires_grad), attributes)
    return made


def _rebuild_from_type(give: Give, function: Any, kind: object, args: object, state: object) -> Tensor:
    call = function.call if type(function) is Callee else function if give is give_all else None
    if call is None or type(args) is not tuple:
        raise pickle.UnpicklingError(
            f"a tensor in the file is made by a {type(function).__name__}. The file is damaged. [nd-file-damaged]"
        )
    made: Tensor = call(*args)
    if not made.is_nested:  # the state of a nested tensor repeats its parts
        give(made, state)
    return made


def _rebuild_uninitialized(kind: Any, requires_grad: object, device: Device, dtype: Dtype) -> Tensor:
    from ndgrad.nn import parameter  # avoids an import cycle

    if not any(kind is known for known in (parameter.UninitializedParameter, parameter.UninitializedBuffer)):
        raise pickle.UnpicklingError(
            "a parameter without a shape in the file is of a class that is none. The file is damaged. [nd-file-damaged]"
        )
    return parameter._rebuild_uninitialized(kind, requires_grad is True, device, dtype)


def give_all(made: Any, attributes: Any) -> None:
    made.__dict__.update(attributes)


def _layout_named(name: object) -> devices.layout:
    found = getattr(devices, str(name).removeprefix("torch."), None)
    if not isinstance(found, devices.layout):
        raise RuntimeError(f"ndgrad.load: the file names the layout {name!r}, which there is not. [nd-file-kind]")
    return found


def _rebuild_meta(dtype: object, size: Any, stride: Any, requires_grad: object) -> Tensor:
    """Return a tensor without data."""
    dims = (*size, *stride) if type(size) is tuple and type(stride) is tuple else (None,)
    if not isinstance(dtype, dtypes.dtype) or not all(type(n) is int and n >= 0 for n in dims):
        raise pickle.UnpicklingError(
            "a tensor without data in the file has no size or no dtype. The file is damaged. [nd-file-damaged]"
        )
    made = empty_strided(size, stride, dtype=dtype, device="meta")
    return requiring(made, requires_grad is True)


def _rebuild_sparse(layout: Any, parts: Any) -> Tensor:
    from ndgrad._src.tensor.functions.sparse_parts import from_parts  # loaded only for sparse tensors

    return from_parts(layout, parts)


def _rebuild_nested(parts: Any) -> Tensor:
    from ndgrad.nested.files import from_parts  # loaded only for nested tensors

    made: Tensor = from_parts(parts)
    return made


def names_in(memories: Memories, give: Give) -> dict[str, Any]:
    """Return the objects for the names in a file of tensors, without containers."""
    # avoids an import cycle
    from ndgrad.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

    functions: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor": memories.tensor,
        "torch._utils._rebuild_tensor_v2": memories.tensor,
        "torch._utils._rebuild_tensor_v3": memories.tensor,
        "torch._utils._rebuild_parameter": partial(_rebuild_parameter, give),
        "torch._utils._rebuild_parameter_with_state": partial(_rebuild_parameter, give),
        "torch._tensor._rebuild_from_type_v2": partial(_rebuild_from_type, give),
        "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta,
        "torch.nested._internal.nested_tensor._rebuild_njt": _rebuild_nested,
        "torch._dynamo.decorators._DimRange": Forgotten,
        "torch.serialization._get_layout": _layout_named,
        "torch.device": devices.device,
        "ndgrad.nn.parameter._rebuild_uninitialized": _rebuild_uninitialized,
        "ndgrad.serialization._rebuild_as": partial(_rebuild_class, give),
    }
    return {
        **{f"torch.{storage}": dtype for storage, dtype in DTYPE_OF.items()},
        **{f"torch.{dtype}": value for dtype, value in dtypes._BY_NAME.items()},
        **{name: Callee(name, function) for name, function in functions.items()},
        "torch.storage.UntypedStorage": UntypedStorage,
        "torch.Tensor": Tensor,
        "torch._tensor.Tensor": Tensor,
        "torch.nested._internal.nested_tensor.NestedTensor": Tensor,
        "torch.nn.parameter.Parameter": Parameter,
        "ndgrad.Tensor": Tensor,
        "ndgrad.numpy.Array": array_class(),
        "ndgrad.nn.parameter.Parameter": Parameter,
        "ndgrad.nn.parameter.UninitializedBuffer": UninitializedBuffer,
        "ndgrad.nn.parameter.UninitializedParameter": UninitializedParameter,
    }
