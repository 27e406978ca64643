"""Pickling of tensors for another process, by `ndgrad.utils.data.transport`.

Shared memory that was never received is removed when the first process of the family ends: its files begin with a
prefix, which children inherit through the environment.
"""

from __future__ import annotations

import atexit
import os
from multiprocessing.reduction import ForkingPickler
from typing import Any

from ndgrad._src.core.variable import requires_grad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn.parameter import Buffer, Parameter
from ndgrad.utils.data import transport

__all__ = ["init_reductions", "reduce_tensor"]

_VARIABLE = "NDGRAD_SHARED_PREFIX"


def _prefix() -> str | None:
    """Return the prefix for names of shared memory of this family of processes; None if the system has none."""
    if not transport.has_shared_memory():
        return None
    found = os.environ.get(_VARIABLE)
    if found is None:
        found = os.environ[_VARIABLE] = f"ndgrad-{os.getpid()}-"
        atexit.register(_sweep, os.getpid(), found)
    return found


def _sweep(owner: int, prefix: str) -> None:
    if os.getpid() == owner:
        transport.sweep(prefix)


def reduce_tensor(tensor: Any) -> tuple[Any, ...]:
    """Return the pickled form of a tensor for another process.

    Args:
        tensor: leaf, or tensor that does not require grad.
    """
    if tensor._node is not None and requires_grad(tensor):
        raise RuntimeError(
            f"Cowardly refusing to serialize non-leaf tensor which requires_grad: one of shape {tuple(tensor.shape)} "
            "was to go to another process, and graphs do not leave a process. Send tensor.detach(). [nd-pickle]"
        )
    return _receive, (transport.pack(tensor, _prefix()),)


def _receive(message: tuple[Any, ...]) -> Any:
    return transport.unpack(message)


def _reduce_parameter(parameter: Any) -> tuple[Any, ...]:
    data = transport.pack(parameter.detach().as_subclass(Tensor), _prefix())
    return _parameter, (type(parameter), data, requires_grad(parameter))


def _parameter(cls: Any, message: tuple[Any, ...], wants: bool) -> Any:
    data = transport.unpack(message)
    return cls(data, wants) if cls is Parameter else cls(data)


def init_reductions() -> None:
    """Register the pickling of tensors for Python's queues, pipes and processes."""
    _prefix()  # before any fork, or each child would be the first of a family
    ForkingPickler.register(Tensor, reduce_tensor)
    ForkingPickler.register(Parameter, _reduce_parameter)
    ForkingPickler.register(Buffer, _reduce_parameter)
