"""Reductions over ranks: torch's `ReduceOp`, and MPI's operation for each dtype.

MPI knows the numeric types of C. Bools are reduced as bytes. If the MPI library has no half precision, it calls NumPy
functions defined here. An average is a sum that is divided after it has arrived.
"""

from __future__ import annotations

import enum
import functools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ndgrad._typing import Payload


class ReduceOp(enum.Enum):
    """Operation that reduces values of several ranks to one.

    >>> import ndgrad
    >>> ndgrad.distributed.ReduceOp.SUM
    <ReduceOp.SUM: 0>
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


_MPI_NAMES = {"SUM": "SUM", "AVG": "SUM", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX", "BAND": "BAND", "BOR": "BOR",
              "BXOR": "BXOR"}  # fmt: skip
#: Reductions of bools: True is 1, and a nonzero sum is True.
_OF_BOOLS = {"SUM": "BOR", "PRODUCT": "BAND", "MIN": "BAND", "MAX": "BOR", "BAND": "BAND", "BOR": "BOR", "BXOR": "BXOR"}
_OF_HALVES = {"SUM": np.add, "AVG": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}


_OF_FLOATS = frozenset((ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX))


def check_reducible(name: str, array: Payload, op: ReduceOp) -> None:
    """Refuse meaningless reductions: orders of complex numbers, averages of integers, bits of floats."""
    kind = array.dtype.kind
    if kind == "f" and op in _OF_FLOATS:
        return
    if kind == "c" and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(
            f"{name} does not support {op} on complex tensors (shape {tuple(array.shape)}). Reduce "
            "ndgrad.view_as_real(tensor), or use SUM or AVG. [nd-complex]"
        )
    if op is ReduceOp.AVG and kind in "iub":
        raise RuntimeError(
            f"{name}: the average of {array.dtype} is not {array.dtype} (shape {tuple(array.shape)}). "
            "Convert the tensor to floats, or use SUM. [nd-dtype]"
        )
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and kind not in "iub":
        raise ValueError(
            f"{name}: {op} is for integers and bools, and the tensor is of {array.dtype}. Use SUM or MAX. [nd-dtype]"
        )


def mpi_operation(mpi: Any, array: Payload, op: ReduceOp) -> tuple[Any, Any]:
    """Return a contiguous array as a message, and MPI's operation for it."""
    kind = array.dtype.kind
    if kind == "b":
        return (array.view(np.uint8), mpi.UINT8_T), getattr(mpi, _OF_BOOLS[op.name])
    if kind in "iuc" or array.dtype.char in "fd":
        return array, getattr(mpi, _MPI_NAMES[op.name])
    if array.dtype.char == "e" and mpi.FLOAT16_T != mpi.DATATYPE_NULL:
        return (array.view(np.uint16), mpi.FLOAT16_T), getattr(mpi, _MPI_NAMES[op.name])
    return as_integers(mpi, array), _make_half_op(array.dtype, op)


def as_integers(mpi: Any, array: Payload) -> tuple[Payload, Any]:
    """Return an array of one or two bytes per element as a message of integers."""
    if array.dtype.itemsize == 1:
        return array.view(np.uint8), mpi.UINT8_T
    return array.view(np.uint16), mpi.UINT16_T


@functools.cache
def _make_half_op(dtype: np.dtype[Any], op: ReduceOp) -> Any:
    from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

    ufunc = _OF_HALVES[op.name]

    def combine(received: Any, target: Any, datatype: Any) -> None:
        mine = np.frombuffer(target, dtype)
        # Two halves are added in single precision and rounded once.
        mine[...] = ufunc(np.frombuffer(received, dtype).astype(np.float32), mine.astype(np.float32)).astype(dtype)

    return MPI.Op.Create(combine, commute=True)
