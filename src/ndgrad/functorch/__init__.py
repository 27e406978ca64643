"""functorch's names, for programs older than `torch.func`. Each warns, and calls its replacement.

The transforms are those of `ndgrad.func`. `make_functional` turns a module into a function of a tuple of parameters, by
its replacement `func.functional_call`.
"""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ndgrad import func
from ndgrad.nn.modules.module import Module

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp",
    "vmap",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def _warn(name: str, instead: str, frames: int = 3) -> None:
    warnings.warn(
        f"We've integrated functorch into the library: `functorch.{name}` is deprecated. Use `{instead}` instead.",
        FutureWarning,
        stacklevel=frames,
    )


def _deprecate(function: F, instead: str) -> F:
    """Return a transform under its old name."""
    name = function.__name__

    @functools.wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        _warn(name, instead)
        return function(*args, **kwargs)

    warning.__module__ = __name__
    return warning  # type: ignore[return-value]  # the same signature


vmap = _deprecate(func.vmap, "ndgrad.vmap")
grad = _deprecate(func.grad, "ndgrad.func.grad")
grad_and_value = _deprecate(func.grad_and_value, "ndgrad.func.grad_and_value")
vjp = _deprecate(func.vjp, "ndgrad.func.vjp")
jvp = _deprecate(func.jvp, "ndgrad.func.jvp")
jacrev = _deprecate(func.jacrev, "ndgrad.func.jacrev")
jacfwd = _deprecate(func.jacfwd, "ndgrad.func.jacfwd")
hessian = _deprecate(func.hessian, "ndgrad.func.hessian")
functionalize = _deprecate(func.functionalize, "ndgrad.func.functionalize")


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters and buffers: `f(params, buffers, *args)`.

    Args:
        model: module, which is copied.
    """

    def __init__(self, model: Module) -> None:
        super().__init__()
        # A copy: the user's own module is not changed.
        self.stateless_model = copy.deepcopy(model)
        self.param_names = tuple(name for name, _ in model.named_parameters(remove_duplicate=False))
        self.buffer_names = tuple(name for name, _ in model.named_buffers(remove_duplicate=False))
        for t in (*self.stateless_model.parameters(), *self.stateless_model.buffers()):
            t.requires_grad_(False)

    def forward(self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Call the module with other parameters and buffers.

        Args:
            params: parameters, in the order of `param_names`.
            buffers: buffers, in the order of `buffer_names`.
            *args: arguments of the module.
            **kwargs: keyword arguments of the module.
        """
        given = {
            **_name_tensors("parameters", self.param_names, params),
            **_name_tensors("buffers", self.buffer_names, buffers),
        }
        return func.functional_call(self.stateless_model, given, args, kwargs, tie_weights=False)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters: `f(params, *args)`."""

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Call the module with other parameters.

        Args:
            params: parameters, in the order of `param_names`.
            *args: arguments of the module.
            **kwargs: keyword arguments of the module.
        """
        return super().forward(params, (), *args, **kwargs)


def _name_tensors(what: str, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    if len(names) != len(values):
        raise ValueError(
            f"a functional module was given {len(values)} {what} for the {len(names)} it has ({', '.join(names)}). "
            "Give one tensor for each, in that order. [nd-arguments]"
        )
    return dict(zip(names, values, strict=True))


def _parameters(model: Module, detached: bool) -> tuple[Any, ...]:
    own = [p for _, p in model.named_parameters(remove_duplicate=False)]
    made: dict[int, Any] = {}
    for p in own:  # a tensor under several names is one parameter under all of them
        if id(p) not in made:
            made[id(p)] = _copy(p, detached)
    return tuple(made[id(p)] for p in own)


def _copy(p: Any, detached: bool) -> Any:
    return p.detach().clone() if detached else copy.deepcopy(p)


def _buffers(model: Module) -> tuple[Any, ...]:
    return tuple(b.detach().clone() for _, b in model.named_buffers(remove_duplicate=False))


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """Return a function `f(params, buffers, *args)` equivalent to a module, its parameters and its buffers.

    Args:
        model: module, which is copied.
        disable_autograd_tracking: whether the parameters that are returned do not require grad.

    >>> import warnings, ndgrad
    >>> from ndgrad.functorch import make_functional_with_buffers
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     f, params, buffers = make_functional_with_buffers(ndgrad.nn.Linear(2, 1))
    >>> f(params, buffers, ndgrad.ones(3, 2)).shape
    ndgrad.Size([3, 1])
    """
    _warn("make_functional_with_buffers", "ndgrad.func.functional_call")
    return FunctionalModuleWithBuffers(model), _parameters(model, disable_autograd_tracking), _buffers(model)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Any, ...]]:
    """Return a function `f(params, *args)` equivalent to a module without buffers, and its parameters.

    Args:
        model: module without buffers, which is copied.
        disable_autograd_tracking: whether the parameters that are returned do not require grad.

    Raises:
        RuntimeError: if the module has buffers.

    >>> import warnings, ndgrad
    >>> from ndgrad.functorch import make_functional
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     f, params = make_functional(ndgrad.nn.Linear(2, 1))
    >>> f(params, ndgrad.ones(3, 2)).shape
    ndgrad.Size([3, 1])
    """
    _warn("make_functional", "ndgrad.func.functional_call")
    if list(model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers, which are no parameters and may change. "
            "Use make_functional_with_buffers(model) instead. [nd-module]"
        )
    return FunctionalModule(model), _parameters(model, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """Return a function `f(params, buffers, *args)` for `vmap`, and the stacked parameters and buffers of modules of
    one class.

    Args:
        models: modules of one class and in one mode, train or eval.

    Returns:
        The function, the stacked parameters and the stacked buffers.

    Raises:
        RuntimeError: if there is no module, or the modules differ.

    >>> import warnings, ndgrad
    >>> from ndgrad.functorch import combine_state_for_ensemble
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     f, params, buffers = combine_state_for_ensemble([ndgrad.nn.Linear(2, 1) for _ in range(4)])
    >>> ndgrad.vmap(f, in_dims=(0, 0, None))(params, buffers, ndgrad.ones(3, 2)).shape
    ndgrad.Size([4, 3, 1])
    """
    _warn("combine_state_for_ensemble", "ndgrad.func.stack_module_state")
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0. Give some. [nd-too-few]")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode. Call train() or "
            "eval() on each. [nd-module]"
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class, but they are "
            f"{', '.join(sorted({type(m).__name__ for m in models}))}. Combine each kind by itself. [nd-module]"
        )
    stacked = [
        tuple(_stack(each) for each in zip(*rows, strict=True))
        for rows in ([_parameters(m, True) for m in models], [_buffers(m) for m in models])
    ]
    for t, p in zip(stacked[0], _parameters(models[0], False), strict=True):
        t.requires_grad_(p.requires_grad)
    return FunctionalModuleWithBuffers(models[0]), stacked[0], stacked[1]


def _stack(tensors: tuple[Any, ...]) -> Any:
    from ndgrad._src.tensor.functions.join import stack  # rarely needed

    return stack(tensors)
