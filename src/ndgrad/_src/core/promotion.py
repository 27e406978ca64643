"""Dtypes in torch's namespace: promotion of an op's arguments, and the ops whose arguments must agree.

The op table computes as NumPy does: float32 with int64 is float64. torch's users expect float32, and Arrays keep
NumPy's rule. So before an op runs on torch's tensor class, its arguments are cast to the type of the result given by
`ndgrad.result_type`. The op `cast` is recorded, batched and traced as any other. Calls with a single type, by far the
most common, only pay for a comparison.

    elementwise ops, cat, ...     promoted: tensors with dimensions decide, then those without, then Python numbers
    matrix products, ...          must agree, as in torch, since the cost of a conversion would be hidden
    functions of integers         `sin` of int64 has the default dtype (`run_in_default_dtype`)
    comparisons of integers       not converted: NumPy compares integers with floats exactly
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.precision import INEXACT
from ndgrad._src.core.variable import Variable, innermost_array, shape_of
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.arrays.dtypes import dtype
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload

_BOOL = np.dtype(bool)


def promote_arguments(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of `op` for torch's tensor class, with all promoting arguments in one dtype."""
    if len(args) == 2 and isinstance(args[0], Variable) and isinstance(args[1], Variable):  # the most common case
        if innermost_array(args[0]).dtype is innermost_array(args[1]).dtype:
            return args
    first, mixed, with_float = None, False, False
    for i in op.promoted_positions(len(args)):
        a = args[i]
        if a.__class__ is float or a.__class__ is int:
            with_float = with_float or a.__class__ is float
        elif isinstance(a, Variable) or (is_raw_array(a) and not isinstance(a, np.generic)):
            dtype = innermost_array(a).dtype if isinstance(a, Variable) else a.dtype
            if first is None:
                first = dtype
            elif dtype is not first:
                mixed = True
        elif a is not None:
            mixed = True  # another kind of number
    mixed = mixed or (with_float and first is not None and first.kind not in INEXACT)
    return _convert_to_one_dtype(op, args) if mixed else args


def _convert_to_one_dtype(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    positions = [i for i in op.promoted_positions(len(args)) if args[i] is not None]
    ranks: list[Any] = [None, None, None]
    for i in positions:
        rank, found = _rank(args[i])
        ranks[rank] = found if ranks[rank] is None else dtypes.promote_types(ranks[rank], found)
    target = dtypes.combine_types(*ranks)
    assert target is not None
    if op.compares and target.numpy.kind != "c" and any(_rank(args[i])[1].numpy.kind not in INEXACT for i in positions):
        return args
    changed = list(args)
    for i in positions:
        changed[i] = _cast(args[i], target)
    return tuple(changed)


def _rank(a: Any) -> tuple[int, Any]:
    """Return the rank of an argument in promotion (0 tensor with dimensions, 1 without, 2 number), and its dtype."""
    if isinstance(a, Variable):
        return int(not shape_of(a)), dtypes.as_dtype(innermost_array(a).dtype)
    if isinstance(a, (bool, int, float, complex, np.generic)):
        return 2, dtypes.type_of_number(a)
    return int(not a.ndim), dtypes.as_dtype(a.dtype)


def _cast(a: Any, target: dtype) -> Any:
    if isinstance(a, Variable):
        return a if innermost_array(a).dtype == target.numpy else tensor_ops.cast(a, dtype=target.numpy)
    if isinstance(a, np.generic):
        return a.item()
    return a.astype(target.numpy) if is_raw_array(a) else a


def require_one_dtype(run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `run(op, args, settings)` for users' calls: dtypes must agree for torch's tensor class. Rules may mix."""

    def run_checked(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        tensors = [args[i] for i in op.promoted_positions(len(args)) if isinstance(args[i], Variable)]
        found = [dtypes.as_dtype(innermost_array(t).dtype) for t in tensors]
        if len(set(found)) > 1 and not any(t.tensor_type.is_numpy_type for t in tensors):
            which = " and ".join(dict.fromkeys(dtype.name for dtype in found))
            raise RuntimeError(
                f"{op.known_as}(): expected its arguments to have the same dtype, but got {which}. Convert one of "
                "them with t.to(dtype). (On NumPy's tensor class, dtypes are promoted.) [nd-dtype-mismatch]"
            )
        return run(op, args, settings)

    return run_checked


def run_in_default_dtype(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run `op` again with integers cast to torch's default dtype, because NumPy computed wider floats from them."""
    default = dtypes.get_default_dtype()
    return op(*[_cast(a, default) if isinstance(a, Variable) or is_raw_array(a) else a for a in args], **settings)


def makes_floats(arrays: Sequence[Payload], out: Payload) -> bool:
    """True if floats were computed from integers."""
    return out.dtype.kind in "fc" and not any(getattr(a, "dtype", _BOOL).kind in INEXACT for a in arrays)
