"""Checkpointing: trade time for memory. Values saved for backward are dropped, and computed again when backward
needs them.

There are two kinds. The default (`use_reentrant=False`, ndgrad._src.checkpoint.frame) keeps an ordinary graph whose
saved values are placeholders, and so works with everything that works on graphs. The other (`use_reentrant=True`,
ndgrad._src.checkpoint.reentrant) is torch's older one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.checkpoint.frame import Contexts, GraphExecGroup, run_checkpointed
from ndgrad._src.checkpoint.reentrant import CheckpointFunction, check_backward_validity, detach_variable
from ndgrad._src.checkpoint.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _CachedTorchDispatchMode,
    _CachingTorchDispatchMode,
    create_selective_checkpoint_contexts,
)
from ndgrad._src.checkpoint.trace import CheckpointError
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.nn import Module

R = TypeVar("R")

__all__ = [
    "checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity",
    "detach_variable", "get_device_states", "set_device_states", "noop_context_fn", "set_checkpoint_early_stop",
    "DefaultDeviceType", "set_checkpoint_debug_enabled", "CheckpointPolicy", "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts", "SAC_IGNORED_OPS", "GraphExecGroup", "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
]  # fmt: skip


class _Overrides(threading.local):
    """Settings of the contexts below, which take precedence over the arguments of a call."""

    early_stop: bool | None = None
    debug: bool | None = None


_overrides = _Overrides()


@set_module("ndgrad.utils.checkpoint")
def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return the default contexts: nothing around the function, nothing around its recomputation.

    >>> from ndgrad.utils.checkpoint import noop_context_fn
    >>> len(noop_context_fn())
    2
    """
    return nullcontext(), nullcontext()


@set_module("ndgrad.utils.checkpoint")
def checkpoint(
    function: Callable[..., R],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Contexts = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> R:
    """Call `function(*args, **kwargs)` without keeping its saved values; backward calls it again.

    Args:
        function: function to call.
        *args: arguments of the function.
        use_reentrant: whether the call is one node with a backward pass of its own. The default is False, with a
            recomputation of saved values.
        context_fn: function that returns two contexts, one for the call and one for its recomputation.
        determinism_check: `"default"` compares the values of the recomputation with those of the call by op, shape,
            dtype and device; `"none"` does not.
        debug: whether errors show every op of both runs.
        early_stop: whether the recomputation ends as soon as it has all values that backward needs.
        **kwargs: further arguments of the function, and `preserve_rng_state` (True): whether the recomputation draws
            the same random numbers, from the default generator and from generators among the arguments.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import checkpoint
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda x: (x * x).exp().sum(), x)
    >>> y.backward()
    >>> bool(ndgrad.allclose(x.grad, 2 * x * (x * x).exp()))
    True
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint(): determinism_check should be one of ['default', 'none'], but got {determinism_check!r}. "
            "'default' compares the values that both runs save, 'none' does not. [nd-option]"
        )
    if use_reentrant:
        if kwargs:
            raise ValueError(
                f"checkpoint(): Unexpected keyword arguments: {', '.join(kwargs)}. "
                "With use_reentrant=True a function takes positional arguments only; use use_reentrant=False. "
                "[nd-arguments]"
            )
        if context_fn is not noop_context_fn or debug:
            raise ValueError(
                "checkpoint(): passing `context_fn` or `debug` is only supported when use_reentrant=False. Use that. "
                "[nd-exclusive]"
            )
        if not thread.grad_enabled or any(isinstance(a, Variable) and a.requires_grad for a in args):
            return CheckpointFunction.apply(function, preserve, *args)
        # The reentrant kind would lose the gradients of captured tensors; the other kind keeps them.
    return run_checkpointed(
        function,
        args,
        kwargs,
        preserve_rng_state=preserve,
        context_fn=context_fn,
        check=determinism_check == "default",
        debug=debug if _overrides.debug is None else _overrides.debug,
        early_stop=early_stop if _overrides.early_stop is None else _overrides.early_stop,
    )


@set_module("ndgrad.utils.checkpoint")
def checkpoint_sequential(
    functions: Module | Iterable[Callable[[Any], Any]],
    segments: int,
    input: Tensor,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Tensor:
    """Call functions one after another, in `segments` groups, each checkpointed except the last.

    With about sqrt(n) segments of n functions, the memory for saved values grows as sqrt(n).

    Args:
        functions: functions of one argument, or an `nn.Sequential`.
        segments: number of groups.
        input: argument of the first function.
        use_reentrant: see `checkpoint`.
        **kwargs: `preserve_rng_state` only, see `checkpoint`.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import checkpoint_sequential
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> checkpoint_sequential([ndgrad.sin, ndgrad.cos, ndgrad.exp], 2, x).sum().backward()
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(
            f"checkpoint_sequential(): Unexpected keyword arguments: {', '.join(kwargs)}. "
            "It takes preserve_rng_state only. [nd-arguments]"
        )
    steps: Sequence[Callable[[Any], Any]] = (
        list(functions.children()) if hasattr(functions, "children") else list(functions)
    )
    if not 1 <= segments <= len(steps):
        raise ValueError(
            f"checkpoint_sequential(): {len(steps)} functions cannot be cut into {segments} segments. "
            f"Give 1 to {len(steps)}. [nd-range]"
        )

    def segment(start: int, stop: int) -> Callable[[Any], Any]:
        def run(value: object) -> Any:
            for step in steps[start:stop]:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    for number in range(segments - 1):
        part = segment(number * size, (number + 1) * size)
        input = checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return segment((segments - 1) * size, len(steps))(input)


@set_module("ndgrad.utils.checkpoint")
@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Context that sets whether checkpointed calls end their recomputation as soon as it has all values that backward
    needs.

    The setting of the forward counts, and overrides the call's `early_stop`.

    Args:
        enable: the setting.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    >>> with set_checkpoint_early_stop(False):
    ...     y = checkpoint(ndgrad.sin, ndgrad.zeros(1, requires_grad=True))
    """
    before, _overrides.early_stop = _overrides.early_stop, enable
    try:
        yield
    finally:
        _overrides.early_stop = before


@set_module("ndgrad.utils.checkpoint")
@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Context that sets whether checkpointed calls record every op for their errors; None leaves it to the calls.

    Args:
        enabled: the setting, or None.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import checkpoint, set_checkpoint_debug_enabled
    >>> with set_checkpoint_debug_enabled(True):
    ...     y = checkpoint(ndgrad.sin, ndgrad.zeros(1, requires_grad=True))
    """
    before, _overrides.debug = _overrides.debug, enabled
    try:
        yield
    finally:
        _overrides.debug = before


# ----- devices: random numbers are drawn on the CPU, so other devices have no state -----------------------------------


@set_module("ndgrad.utils.checkpoint")
def get_device_states(*args: Any) -> tuple[list[int], list[Any]]:
    """Return no states: random numbers are drawn on the CPU, so other devices have none.

    Args:
        *args: arguments of a checkpointed call.

    >>> from ndgrad.utils.checkpoint import get_device_states
    >>> get_device_states()
    ([], [])
    """
    return [], []


@set_module("ndgrad.utils.checkpoint")
def set_device_states(devices: Sequence[int], states: Sequence[Any], *, device_type: str | None = None) -> None:
    """Accept the result of `get_device_states`.

    Args:
        devices, states: results of `get_device_states`, which are empty.
        device_type: type of the devices, without effect because there are no states.

    >>> from ndgrad.utils.checkpoint import get_device_states, set_device_states
    >>> set_device_states(*get_device_states())
    """
    if devices or states:
        raise ValueError(
            "set_device_states(): devices have no random state of their own. Pass the result of get_device_states(). "
            "[nd-type]"
        )


@set_module("ndgrad.utils.checkpoint")
class DefaultDeviceType:
    """The device type that checkpointing assumes if the arguments do not show one.

    >>> from ndgrad.utils.checkpoint import DefaultDeviceType
    >>> DefaultDeviceType.get_device_type()
    'cuda'
    """

    _default = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set the type of device that `get_device_type` returns.

        Args:
            device: type of device, such as `"cuda"`.
        """
        DefaultDeviceType._default = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._default

_refuse_absent(__name__)
