"""torch's `nn.parallel`: a module on several GPUs of one machine, or in several processes.

In ndgrad a module runs on one device, so `DataParallel` only wraps the module; `DistributedDataParallel` is in
`ndgrad.distributed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions import join as functions
from ndgrad.nn.modules.module import Module

if TYPE_CHECKING:
    from ndgrad._typing import Device
    from ndgrad.distributed.data_parallel import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "scatter", "scatter_kwargs"]


class DataParallel(Module):
    """A wrapper that calls `module`; the names in its state begin with `module.`.

    Args:
        module: module to call.
        device_ids: at most one device, on which nothing depends.
        output_device, dim: accepted as in torch; have no effect here, because a module runs on one device.

    Raises:
        RuntimeError: if there are several devices.

    >>> import ndgrad
    >>> net = ndgrad.nn.DataParallel(ndgrad.nn.Linear(2, 1))
    >>> sorted(net.state_dict())
    ['module.bias', 'module.weight']
    """

    module: Module

    def __init__(
        self, module: Module, device_ids: Sequence[Device] | None = None, output_device: Device = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = list(device_ids or ())
        if len(self.device_ids) > 1:
            raise RuntimeError(
                f"DataParallel(device_ids={self.device_ids}): a module runs on one device here. Leave device_ids out. "
                "[nd-unsupported]"
            )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module.

        Args:
            *inputs, **kwargs: arguments of the module.
        """
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """Call a module, on one device.

    Args:
        module: module to call.
        inputs: one argument, or a tuple of arguments.
        device_ids, output_device, dim: accepted as in torch; have no effect here, because a module runs on one device.
        module_kwargs: keyword arguments.
    """
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*args, **(module_kwargs or {}))


# ----- parts of a batch on several devices ----------------------------------------------------------------------------


def is_namedtuple(obj: Any) -> bool:
    """True if an object is a named tuple."""
    return isinstance(obj, tuple) and hasattr(obj, "_fields")


def _map_columns(kind: Any, columns: list[Any]) -> list[Any]:
    """Return the containers, of the class of `kind`, that hold the first, second, ... item of all columns."""
    rows = list(zip(*columns, strict=True))
    if is_namedtuple(kind):
        return [type(kind)(*row) for row in rows]
    return rows if isinstance(kind, tuple) else [type(kind)(row) for row in rows]


def scatter(inputs: Any, target_gpus: Sequence[Device], dim: int = 0) -> Any:
    """Cut tensors into one part per device along `dim`, in containers too. Other objects are repeated.

    Args:
        inputs: tensor, or a tuple, list or dict with tensors.
        target_gpus: devices of the parts.
        dim: dimension that is cut.

    Returns:
        A sequence with one part per device. A short batch has fewer parts.

    >>> import ndgrad
    >>> from ndgrad.nn.parallel import scatter
    >>> scatter({"x": ndgrad.arange(4), "n": 2}, ["cpu", "cpu"])
    [{'x': tensor([0, 1]), 'n': 2}, {'x': tensor([2, 3]), 'n': 2}]
    """
    if isinstance(inputs, Variable):
        parts = inputs.chunk(len(target_gpus), dim)
        return tuple(part.to(device) for part, device in zip(parts, target_gpus))  # a short batch has fewer parts
    if isinstance(inputs, (tuple, list)) and inputs:
        columns = _same_length([scatter(item, target_gpus, dim) for item in inputs])
        return _map_columns(inputs, columns)
    if isinstance(inputs, dict) and inputs:
        columns = _same_length([scatter(item, target_gpus, dim) for item in inputs.values()])
        return [type(inputs)(zip(inputs, row, strict=True)) for row in zip(*columns, strict=True)]
    return [inputs for _ in target_gpus]


def _same_length(columns: list[Any]) -> list[Any]:
    """Cut columns to the length of the shortest: the number of parts of the shortest batch."""
    shortest = min(len(column) for column in columns)
    return [column[:shortest] for column in columns]


def scatter_kwargs(
    inputs: tuple[Any, ...], kwargs: dict[str, Any] | None, target_gpus: Sequence[Device], dim: int = 0
) -> tuple[Any, Any]:
    """Return the positional and keyword arguments of each device, as tuples of equal length.

    Args:
        inputs: positional arguments.
        kwargs: keyword arguments.
        target_gpus: devices of the parts.
        dim: dimension that is cut.
    """
    args = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    length = max(len(args), len(named))
    args.extend(() for _ in range(length - len(args)))
    named.extend({} for _ in range(length - len(named)))
    return tuple(args), tuple(named)


def gather(outputs: Any, target_device: Device, dim: int = 0) -> Any:
    """Join the results of several devices along `dim`, in containers too. Numbers become vectors.

    Args:
        outputs: one result per device.
        target_device: device of the joined tensors.
        dim: dimension along which tensors are joined.

    >>> import ndgrad
    >>> from ndgrad.nn.parallel import gather
    >>> gather([{"y": ndgrad.zeros(1)}, {"y": ndgrad.ones(1)}], "cpu")
    {'y': tensor([0., 1.])}
    """
    first = outputs[0]
    if isinstance(first, Variable):
        parts = [part.to(target_device) for part in outputs]
        return functions.cat([part.reshape(1) if part.ndim == 0 else part for part in parts], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError("gather: All dicts must have the same number of keys. [nd-shape]")
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    joined = [gather(parts, target_device, dim) for parts in zip(*outputs, strict=True)]
    return type(first)(*joined) if is_namedtuple(first) else type(first)(joined)


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from ndgrad.distributed.data_parallel import DistributedDataParallel  # few programs use several processes

        return DistributedDataParallel
    raise AttributeError(name)


_refuse_absent(__name__)
