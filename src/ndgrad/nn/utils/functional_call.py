"""Modules inside transforms: a module called as a function of its parameters.

A transform differentiates and batches arguments, but the parameters of a module are attributes. So for the duration of
one call the given tensors replace the module's own. The module is always restored afterwards.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.tensor.functions.join import stack
from ndgrad.nn.modules.batchnorm import _BatchNorm

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.nn.modules.container import ModuleList
    from ndgrad.nn.modules.module import Module

M = TypeVar("M", bound="Module")

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]

_ABSENT = object()

# While a module's tensors are swapped, another thread that calls it as a function has to wait, because it would see the
# wrong tensors.
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_lock = make_lock()


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in place of its parameters and buffers; others keep their values.

    Args:
        module: module to call.
        parameter_and_buffer_dicts: tensors by their names in `named_parameters()` and `named_buffers()`. Several dicts
            must not share names.
        args: positional arguments of the call, a tuple or a single one.
        kwargs: keyword arguments of the call.
        tie_weights: whether a tensor that the module has under several names is replaced under all of them.
        strict: whether all tensors must be given, and no others.

    Returns:
        The result of the call. If the module writes into a given tensor, or assigns another under its name, the dict
        holds the new value afterwards.

    >>> import ndgrad
    >>> from ndgrad.func import functional_call, grad
    >>> module = ndgrad.nn.Linear(2, 1, bias=False)
    >>> x = ndgrad.tensor([[1.0, 3.0]])
    >>> grad(lambda weights: functional_call(module, weights, x).sum())({"weight": ndgrad.zeros(1, 2)})
    {'weight': tensor([[1., 3.]])}
    """
    given = _merge_dicts(parameter_and_buffer_dicts)
    own = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    values = _add_tied_names(own, given) if tie_weights else dict(given)
    if strict:
        _check_names(module, own, values)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _lock_of(module), _swap_tensors(module, values, given):
        return module(*arguments, **(kwargs or {}))


def _merge_dicts(dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the dict itself if one was given (changes must be visible in it), else all of them as one."""
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence) or isinstance(dicts, str):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}. "
            "[nd-type]"
        )
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries. [nd-type]")
    names = [name for d in dicts for name in d]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous. "
            "Give each name once. [nd-exclusive]"
        )
    return {name: value for d in dicts for name, value in d.items()}


def _add_tied_names(own: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the given tensors, also under the other names of the tensors they replace."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in own.items():
        names_of.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for names in names_of.values():
        found = [name for name in names if name in given]
        if len(names) == 1 or not found:
            continue
        if any(given[name] is not given[found[0]] for name in found):
            raise ValueError(
                f"functional_call got multiple values for keys {found}, which are tied: "
                "they name one tensor of the module. Give one of them, or consider using tie_weights=False. "
                "[nd-exclusive]"
            )
        values.update(dict.fromkeys(names, given[found[0]]))
    return values


def _check_names(module: Module, own: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    problems = [
        f"{what} key(s): " + ", ".join(repr(name) for name in names) + "."
        for what, names in (
            ("Unexpected", [n for n in values if n not in own]),
            ("Missing", [n for n in own if n not in values]),
        )
        if names
    ]
    if problems:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems) + " [nd-state-dict]"
        )


def _lock_of(module: Module) -> threading.RLock:
    with _locks_lock:
        return _locks.setdefault(module, make_lock())


@contextmanager
def _swap_tensors(module: Module, values: dict[str, Tensor], given: dict[str, Tensor]) -> Iterator[None]:
    before: list[tuple[str, Any, str, Any]] = []  # dotted name, the owner's dict, name there, old value
    try:
        for name, value in values.items():
            home, own_name = _home(module, name, value)
            before.append((name, home, own_name, home.get(own_name, _ABSENT)))
            home[own_name] = value
        yield
    finally:
        for name, home, own_name, old in reversed(before):
            now = home.pop(own_name, _ABSENT) if old is _ABSENT else home.get(own_name, _ABSENT)
            if old is not _ABSENT:
                home[own_name] = old
            if name in given and now is not _ABSENT and now is not given[name]:
                given[name] = now


def _home(module: Module, name: str, value: object) -> tuple[dict[str, Any], str]:
    """Return the dictionary that holds the tensor of this dotted name, and its name there."""
    if name == "":
        raise KeyError('tensor name can\'t be empty string "". [nd-module]')
    if value is not None and not isinstance(value, Variable):
        raise TypeError(f"{value!r} is not an instance of Tensor, but was given as {name!r}. Give a tensor. [nd-type]")
    path, _, own_name = name.rpartition(".")
    owner = module.get_submodule(path)
    for home in (owner._parameters, owner._buffers):
        if own_name in home:
            return home, own_name
    old = getattr(owner, own_name, None)
    if old is not None and not isinstance(old, Variable):
        raise TypeError(
            f"attribute `{name}`: {old!r} is not an instance of Tensor, so no tensor can take its place. [nd-type]"
        )
    return owner.__dict__, own_name


# ----- several models as one ------------------------------------------------------------------------------------------


def stack_module_state(models: Sequence[Module] | ModuleList) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the stacked parameters and buffers of models of one class, over which `vmap` runs them all at once.

    Args:
        models: modules of one class, all in training mode or all in evaluation mode.

    Returns:
        A dict of the parameters and a dict of the buffers, each stacked along a new first dimension.

    >>> import ndgrad
    >>> from ndgrad.func import functional_call, stack_module_state
    >>> models = [ndgrad.nn.Linear(2, 3) for _ in range(5)]
    >>> params, buffers = stack_module_state(models)
    >>> x = ndgrad.ones(4, 2)
    >>> ndgrad.vmap(lambda p, b: functional_call(models[0], (p, b), x))(params, buffers).shape
    ndgrad.Size([5, 4, 3])
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0. [nd-too-few]")
    first = models[0]
    if not all(m.training == first.training for m in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode. "
            "Call train() or eval() on all. [nd-module]"
        )
    if not all(type(m) is type(first) for m in models):
        kinds = ", ".join(sorted({type(m).__name__ for m in models}))
        raise RuntimeError(
            f"stack_module_state: Expected all models to be of the same class, but they are {kinds}. [nd-module]"
        )
    params = {
        name: _stack_tensors(models, name, [m.get_parameter(name) for m in models])
        for name, _ in first.named_parameters()
    }
    buffers = {
        name: _stack_tensors(models, name, [m.get_buffer(name) for m in models]) for name, _ in first.named_buffers()
    }
    return params, buffers


def _stack_tensors(models: Sequence[Module] | ModuleList, name: str, tensors: list[Tensor]) -> Tensor:
    wanted = [t.requires_grad for t in tensors]
    if any(wanted) and not all(wanted):
        raise RuntimeError(
            f"Expected {name} from each model to have the same .requires_grad. Set it alike in all {len(models)}. "
            "[nd-module]"
        )
    with no_grad():
        made = stack(tensors)
    return made.requires_grad_(wanted[0])


# ----- batch norm -----------------------------------------------------------------------------------------------------


def replace_all_batch_norm_modules_(root: M) -> M:
    """Make all batch norms below `root` use only the statistics of the batch, in place.

    vmap cannot update running statistics: mapped over samples, a batch norm would write different values into one
    buffer.

    Args:
        root: module to change.

    Returns:
        `root` itself.

    >>> import ndgrad
    >>> norm = ndgrad.func.replace_all_batch_norm_modules_(ndgrad.nn.BatchNorm1d(3))
    >>> norm.track_running_stats, norm.running_mean
    (False, None)
    """
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(module, name, None)
            module.track_running_stats = False
    return root
