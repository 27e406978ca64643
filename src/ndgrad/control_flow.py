"""torch's `cond` and `while_loop`, which take their operands as one tuple: those of `ndgrad.func` with other
signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.control_flow import loops

__all__ = ["cond", "while_loop"]


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Return `true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`; see `ndgrad.func.cond`.

    Args:
        pred: bool, or tensor with one element.
        true_fn, false_fn: functions of the operands that return the same structure, shapes and dtypes.
        operands: arguments of both functions.

    >>> import ndgrad
    >>> ndgrad.cond(ndgrad.tensor(True), lambda x: x + 1, lambda x: x - 1, (ndgrad.tensor(1.0),))
    tensor(2.)
    """
    return loops.cond(pred, true_fn, false_fn, *operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Run `values = body_fn(*values)` while `cond_fn(*values)` holds; see `ndgrad.func.while_loop`.

    Args:
        cond_fn: function of the values that returns a bool, or a tensor with one element.
        body_fn: function of the values that returns the next values, with the same shapes and dtypes.
        carried_inputs: first values.

    Returns:
        The values for which `cond_fn` is false.

    >>> import ndgrad
    >>> ndgrad.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (ndgrad.tensor(0), ndgrad.tensor(1.0)))
    (tensor(3), tensor(8.))
    """
    return loops.while_loop(lambda v: cond_fn(*v), lambda v: tuple(body_fn(*v)), tuple(carried_inputs))
