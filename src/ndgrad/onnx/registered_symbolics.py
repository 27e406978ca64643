"""Translations that libraries register for torch's older exporter.

Such a function builds nodes in a graph of that exporter, which does not exist here. Libraries register them when they
are imported. The functions are kept, and an export that meets such an op says that its translation cannot be used.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: Functions by the name of the op, `namespace::name`, and the opset version.
registered: dict[str, dict[int, Callable[..., Any]]] = {}


class TensorProtoDataType(IntEnum):
    """Numbers of dtypes in ONNX files."""

    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = range(10)
    FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16 = range(10, 17)


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Register a translation for torch's older exporter.

    Args:
        symbolic_name: name of the op, `namespace::name`.
        symbolic_fn: function that builds nodes. `onnx.export` does not call it.
        opset_version: opset of the nodes.
    """
    if "::" not in symbolic_name:
        raise ValueError(
            f"register_custom_op_symbolic: the name {symbolic_name!r} is not of the form namespace::name. [nd-onnx]"
        )
    registered.setdefault(symbolic_name, {})[opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Remove a translation.

    Args:
        symbolic_name: name of the op, `namespace::name`.
        opset_version: opset of the nodes.
    """
    registered.get(symbolic_name, {}).pop(opset_version, None)


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """Return a decorator that leaves a translation as it is.

    Args:
        arg_descriptors: kinds of its arguments.
    """
    del arg_descriptors
    return lambda function: function
