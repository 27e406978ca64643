"""`torch._C._functions`: classes of nodes by name (`AddBackward0`), and nodes created explicitly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.variable import AccumulateGrad
from ndgrad._src.core.view import CopySlices
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.foundations.missing_names import refusal
from ndgrad._src.ops.vocabulary import find

__all__ = ["AccumulateGrad", "CopySlices", "DelayedError", "UndefinedGrad"]

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """Return the class of nodes of an op: `AddBackward0`."""
        words = re.sub(r"(?<!^)(?=[A-Z])", "_", re.sub(r"Backward\d+$", "", name)).lower()
        try:
            op = find(words)
        except (AttributeError, LookupError):
            op = None
        if op is None or op.backward_name != name:
            raise refusal(__name__, name)
        return op.node_class



class DelayedError:
    """A function that returns its tensors with a history that raises when a gradient passes through it.

    >>> import ndgrad
    >>> once = ndgrad._C._functions.DelayedError("no second derivative", 1)
    >>> once(ndgrad.ones(1, requires_grad=True)).requires_grad
    True
    """

    def __init__(self, msg: str, num_inputs: int) -> None:
        self.msg, self.num_inputs = msg, num_inputs

    def __call__(self, *tensors: Any) -> Any:
        if len(tensors) != self.num_inputs:
            raise RuntimeError(f"DelayedError expects {self.num_inputs} inputs, but got {len(tensors)} [nd-function]")
        marked = tuple(_Delayed.apply(t, self.msg) for t in tensors)
        return marked[0] if len(marked) == 1 else marked


class _Delayed(Function):
    @staticmethod
    def forward(ctx: Any, t: Any, msg: str) -> Any:
        ctx.msg = msg
        return t.view_as(t)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(ctx.msg)


class _Undefined(Function):
    @staticmethod
    def forward(ctx: Any, t: Any) -> Any:
        return t.view_as(t)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None


class UndefinedGrad:
    """A function that returns its tensors with a history that blocks gradients.

    >>> import ndgrad
    >>> x = ndgrad.ones(1, requires_grad=True)
    >>> ndgrad._C._functions.UndefinedGrad()(x).backward()
    >>> x.grad is None
    True
    """

    def __call__(self, *tensors: Any) -> Any:
        made = tuple(_Undefined.apply(t) for t in tensors)
        return made[0] if len(made) == 1 else made


