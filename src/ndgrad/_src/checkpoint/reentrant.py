"""Reentrant checkpointing, torch's older kind: forward without a graph, and a backward inside backward.

It is one custom function. Its forward runs the user's function without recording; its backward runs it again with a
graph, and calls `backward` on that. So it needs an input that requires grad, does not support `autograd.grad`, and
cannot be differentiated twice; the other kind has none of these limits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from ndgrad._src.checkpoint.randomness import RandomState
from ndgrad._src.core.grad_mode import enable_grad
from ndgrad._src.core.modes import restore, scope, thread, under_autocast
from ndgrad._src.core.variable import Variable
from ndgrad._src.custom_functions.function import Function, delay_error
from ndgrad._src.engine.backward_api import backward as run_backward
from ndgrad._src.foundations import package_name
from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad.utils.checkpoint")
def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors of a tuple as new leaves with the same requires_grad; other values are returned unchanged.

    Args:
        inputs: tuple of tensors and other values.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import detach_variable
    >>> detach_variable((ndgrad.ones(1, requires_grad=True) * 2, "x"))
    (tensor([2.], requires_grad=True), 'x')
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "detach_variable(): Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}. Pass tuple(...). [nd-type]"
        )
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, Variable) else t for t in inputs)


@set_module("ndgrad.utils.checkpoint")
def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no input requires grad: the checkpointed part will then have no gradients.

    Args:
        inputs: arguments of a checkpointed call.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import check_backward_validity
    >>> check_backward_validity([ndgrad.ones(1, requires_grad=True)])
    """
    if not any(isinstance(t, Variable) and t.requires_grad for t in inputs):
        warnings.warn(
            (
                "None of the inputs have requires_grad=True. Gradients will be None. Call requires_grad_() "
                "on an input, or use use_reentrant=False, which needs none."
            ),
            UserWarning,
            stacklevel=3,
        )


@set_module("ndgrad.utils.checkpoint")
class CheckpointFunction(Function):
    """`apply(function, preserve_rng_state, *args)`: the checkpointed call as one node.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import CheckpointFunction
    >>> CheckpointFunction.apply(ndgrad.exp, True, ndgrad.zeros(1, requires_grad=True))
    tensor([1.], grad_fn=<CheckpointFunctionBackward>)
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Call the function without recording it.

        Args:
            ctx: context of the node.
            function: function to call.
            preserve: whether the recomputation draws the same random numbers.
            *args: arguments of the function.
        """
        check_backward_validity(args)
        ctx.run, ctx.autocast = function, thread.autocast
        ctx.random = RandomState(args) if preserve else None
        ctx.inputs = [None if isinstance(a, Variable) else a for a in args]
        ctx.tensor_positions = [i for i, a in enumerate(args) if isinstance(a, Variable)]
        ctx.save_for_backward(*(a for a in args if isinstance(a, Variable)))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Call the function again, and run its backward.

        Args:
            ctx: context of the node.
            *grads: gradients of the results.
        """
        if thread.task is None or thread.task.wanted is not None:
            raise RuntimeError(
                f"When use_reentrant=True, {package_name.package}.utils.checkpoint is incompatible with .grad() and "
                "with the `inputs` argument of backward(): it runs a backward of its own, which reaches all leaves. "
                "Use use_reentrant=False, or backward() without `inputs`. [nd-checkpoint]"
            )
        inputs = list(ctx.inputs)
        outside = scope()
        recording = outside.modes.grad_enabled
        try:
            restore(outside.recording(False))
            for position, t in zip(ctx.tensor_positions, ctx.saved_tensors, strict=True):
                inputs[position] = t
            leaves = detach_variable(tuple(inputs))
            random = nullcontext() if ctx.random is None else ctx.random.restore()
            with random, under_autocast(ctx.autocast), enable_grad():
                outputs = ctx.run(*leaves)
            outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
            pairs: list[Any] = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Variable) and o.requires_grad]
            if not pairs:
                raise RuntimeError(
                    "none of output has requires_grad=True, this checkpoint() is not necessary: "
                    "the function detached its results. Call it without checkpoint, or use use_reentrant=False. "
                    "[nd-checkpoint]"
                )
            run_backward([o for o, _ in pairs], [g for _, g in pairs])
            found = tuple(t.grad if isinstance(t, Variable) else None for t in leaves)
        finally:
            restore(outside)
            del outside
        if recording:
            found = delay_error(
                found,
                (
                    "a reentrant checkpoint cannot be differentiated twice: its backward leaves no graph. "
                    "Use use_reentrant=False."
                ),
                ctx,
            )
        return None, None, *found


CheckpointFunction._backward_cls.has_inner_pass = True
