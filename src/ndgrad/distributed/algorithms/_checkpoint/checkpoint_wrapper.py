"""torch's `checkpoint_wrapper`: modules around other modules, which recompute activations or move them to the host.

Names in states are those of the module inside, so a state fits the model with and without wrappers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any

from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.autograd.graph import save_on_cpu
from ndgrad.nn.modules.module import Module

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_NAME = "_checkpoint_wrapped_module"
_PREFIX = _NAME + "."


class CheckpointImpl(Enum):
    """The two kinds of `utils.checkpoint.checkpoint`."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module, ABC):
    """Base class of modules around a module. Attributes of the module inside are attributes of this one.

    Args:
        mod: module inside.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._remove_prefix)
        self.register_load_state_dict_pre_hook(self._add_prefix)

    @abstractmethod
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside.

        Args:
            *args, **kwargs: arguments of the module.
        """

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_NAME), name)

    def __getitem__(self, key: int) -> Any:
        inside: Any = self._checkpoint_wrapped_module
        return inside[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield names and parameters; names do not contain the wrapper.

        Args:
            *args, **kwargs: arguments of `Module.named_parameters`.
        """
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), p

    @staticmethod
    def _remove_prefix(module: Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
        start = prefix + _PREFIX
        for key in [k for k in state if k.startswith(start)]:
            state[prefix + key[len(start) :]] = state.pop(key)

    @staticmethod
    def _add_prefix(module: Module, state: dict[str, Any], prefix: str, *args: Any) -> None:
        for key in [k for k in state if k.startswith(prefix) and not k.startswith(prefix + _PREFIX)]:
            state[prefix + _PREFIX + key[len(prefix) :]] = state.pop(key)


class OffloadWrapper(ActivationWrapper):
    """Module whose saved activations are kept on the host between forward and backward."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside.

        Args:
            *args, **kwargs: arguments of the module.
        """
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Module whose activations are computed again in backward.

    Args:
        mod: module inside.
        checkpoint_impl: kind of checkpoint.
        checkpoint_fn: function that is called with the module and its arguments, instead of `utils.checkpoint`.
        checkpoint_fn_kwargs: further arguments of the function.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        settings = dict(checkpoint_fn_kwargs)
        if checkpoint_fn is None:
            settings["use_reentrant"] = checkpoint_impl is CheckpointImpl.REENTRANT
        function: Callable[..., Any] = checkpoint if checkpoint_fn is None else checkpoint_fn
        self.checkpoint_fn = partial(function, **settings)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module inside.

        Args:
            *args, **kwargs: arguments of the module.
        """
        inside = self._checkpoint_wrapped_module
        if self.checkpoint_impl is CheckpointImpl.REENTRANT and kwargs:  # this kind has positional arguments only
            names = tuple(kwargs)

            def call(*values: Any) -> Any:
                by_name = dict(zip(names, values[len(args) :], strict=True))
                return inside(*values[: len(args)], **by_name)

            return self.checkpoint_fn(call, *args, *kwargs.values())
        return self.checkpoint_fn(inside, *args, **kwargs)


def offload_wrapper(module: Module) -> OffloadWrapper:
    """Return a module whose saved activations are kept on the host between forward and backward.

    Args:
        module: module to wrap.
    """
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> CheckpointWrapper:
    """Return a module that computes its activations again in backward.

    Args:
        module: module to wrap.
        checkpoint_impl: kind of checkpoint.
        checkpoint_fn: function that is called with the module and its arguments, instead of `utils.checkpoint`.
        checkpoint_fn_kwargs: further arguments of the function.

    >>> from ndgrad.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    >>> net = checkpoint_wrapper(ndgrad.nn.Linear(2, 1))
    >>> list(net.state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[[Module, bool, int], bool] | None = None,
) -> None:
    """Wrap submodules of a model, in place. The model itself is not wrapped.

    Args:
        model: model whose submodules are wrapped.
        checkpoint_wrapper_fn: function that returns the wrapped module.
        check_fn: function that returns whether a submodule is wrapped.
        auto_wrap_policy: policy of `distributed.fsdp.wrap`, instead of `check_fn`.

    >>> from ndgrad.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
    >>> net = ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 2), ndgrad.nn.ReLU())
    >>> wrappers.apply_activation_checkpointing(net, check_fn=lambda m: isinstance(m, ndgrad.nn.Linear))
    >>> isinstance(net[0], wrappers.CheckpointWrapper), list(net.state_dict())
    (True, ['0.weight', '0.bias'])
    """

    def is_wrapped(module: Module) -> bool:
        if auto_wrap_policy is None:
            return check_fn(module)
        return auto_wrap_policy(module, False, sum(p.numel() for p in module.parameters()))

    done: dict[int, Module] = {}

    def visit(module: Module) -> None:
        for name, child in list(module.named_children()):
            if auto_wrap_policy is None or auto_wrap_policy(child, True, sum(p.numel() for p in child.parameters())):
                visit(child)
            if is_wrapped(child):
                if id(child) not in done:
                    done[id(child)] = checkpoint_wrapper_fn(child)
                setattr(module, name, done[id(child)])

    visit(model)


_refuse_absent(__name__)
