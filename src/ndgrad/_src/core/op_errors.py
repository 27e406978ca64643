"""Errors of an op whose arguments the array library refuses.

NumPy's own texts name ufuncs and casting rules. The errors here name the op, the shapes, the dtypes and a remedy. They
are made only after a failure, so they cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.device_memory import is_of_device, out_of_memory
from ndgrad._src.arrays.meta import MetaArray, run_on_stand_ins
from ndgrad._src.arrays.precision import has_half, run_in_single
from ndgrad._src.core.variable import ESCAPED, Variable, np_dtype
from ndgrad._src.ops.errors import DomainError, DtypeError, ShapeError

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload


def after_failure(op: Op, args: tuple[Any, ...], settings: dict[str, Any], error: Exception) -> Payload:
    """Return the result if the op failed only because meta arrays have no values; otherwise explain and raise."""
    arrays = [a._array if isinstance(a, Variable) else a for a in args]
    if isinstance(error, MemoryError):
        raise out_of_memory(f"{op.name}()", arrays, error) if is_of_device(error) else error
    if any(isinstance(a, MetaArray) for a in arrays) and not op.needs_values:
        return run_on_stand_ins(op.forward_for(np), arrays, settings)
    if op.halves and not (op.view or op.shares_storage) and has_half(arrays):  # NumPy has no loop for half precision
        try:
            return run_in_single(op.forward_for(np), arrays, settings, op.elementwise)
        except (NotImplementedError, TypeError, ValueError) as other:
            error = other
    raise explain(op, args, error) from None


def raise_for_node(node: Node, error: MemoryError) -> None:
    """Raise the error for a node that ran out of memory while computing its gradients."""
    if not is_of_device(error):
        raise error
    raise out_of_memory(f"{node.name()} in backward", (node,) if node.outputs == 1 else (), error) from error


def explain(op: Op, args: tuple[Any, ...], error: Exception) -> Exception:
    """Return the error to raise in place of the array library's `error`; `error` itself if nothing better is known."""
    if any(isinstance(a, Variable) and isinstance(a._array, Variable) for a in args):
        return RuntimeError(ESCAPED)
    shapes = [tuple(a.shape) for a in args if hasattr(a, "shape")]
    if isinstance(error, ValueError) and op.elementwise:
        mismatch = _mismatch(shapes)
        if mismatch is not None:
            return ShapeError(
                f"{op.name}(): {mismatch}: the shapes {' and '.join(map(str, shapes))} cannot be broadcast together. "
                "Reshape or expand one of the tensors. [nd-broadcast]"
            )
        if "negative integer powers" in str(error):
            return DomainError(
                f"{op.name}(): Integers to negative integer powers are not allowed. Convert the base to a float dtype. "
                "[nd-dtype]"
            )
    if isinstance(error, np.exceptions.DTypePromotionError) or (
        isinstance(error, TypeError) and _is_about_dtypes(error)
    ):
        if op.refuses_bool is not None and all(_dtype(a) in ("bool", "int") for a in args):
            return DtypeError(f"{op.name}(): {op.refuses_bool} [nd-dtype]")
        dtypes = ", ".join(map(_dtype, args))
        return DtypeError(
            f'{op.name}(): "{op.name}" is not implemented for {dtypes}. '
            "Convert with .to() to a dtype it is defined for. [nd-dtype]"
        )
    return error


def _mismatch(shapes: list[tuple[int, ...]]) -> str | None:
    """Return a text on the first mismatch between two shapes, in torch's words; None if all fit."""
    for i, a in enumerate(shapes):
        for b in shapes[i + 1 :]:
            for position, (m, n) in enumerate(zip(a[::-1], b[::-1], strict=False), start=1):
                if m != n and 1 not in (m, n):
                    dimension = max(len(a), len(b)) - position
                    return (
                        f"The size of tensor a ({m}) must match the size of tensor b ({n}) "
                        f"at non-singleton dimension {dimension}"
                    )
    return None


def _is_about_dtypes(error: TypeError) -> bool:
    text = str(error)
    return "not supported for the input types" in text or "boolean" in text or "did not contain a loop" in text


def _dtype(value: object) -> str:
    if isinstance(value, Variable):
        return str(np_dtype(value))
    return str(value.dtype) if hasattr(value, "dtype") else type(value).__name__
