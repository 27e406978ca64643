"""torch's `nn.parallel`: a module on several GPUs of one machine, or in several processes.

In ndgrad a module runs on one device, so `DataParallel` only wraps the module; `DistributedDataParallel` is in
`ndgrad.distributed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parallel.scatter_gather import gather, scatter

if TYPE_CHECKING:
    from ndgrad._typing import Device
    from ndgrad.distributed.data_parallel import DistributedDataParallel as DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "scatter"]


class DataParallel(Module):
    """A wrapper that calls `module`; the names in its state begin with `module.`.

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
        """Call the module."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """Call a module, on one device."""
    args = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*args, **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from ndgrad.distributed.data_parallel import DistributedDataParallel  # few programs use several processes

        return DistributedDataParallel
    raise AttributeError(name)


_refuse_absent(__name__)
