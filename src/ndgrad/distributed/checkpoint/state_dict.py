"""torch's `distributed.checkpoint.state_dict`: states of modules and optimizers by parameter name, for any wrapper
around the module and any placement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.creation import zeros_like
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.data_parallel import DistributedDataParallel
from ndgrad.distributed.optim.zero_redundancy import ZeroRedundancyOptimizer
from ndgrad.distributed.tensor.dtensor import DTensor, distribute_tensor

if TYPE_CHECKING:
    from ndgrad.nn.modules.module import Module

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass
class StateDictOptions:
    """Options for getting and setting states. `full_state_dict`: whole tensors on every rank instead of DTensors;
    `strict`: require all names; `ignore_frozen_params`: leave out parameters that require no grad.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True


def _bare(model: Any) -> Any:
    return model.module if isinstance(model, DistributedDataParallel) else model


def _whole(value: Any, options: StateDictOptions) -> Any:
    if isinstance(value, dict):
        return {k: _whole(v, options) for k, v in value.items()}
    if options.full_state_dict and isinstance(value, DTensor):
        return value.detach().full_tensor()
    return value


def _as_spread(value: Any, like: Any) -> Any:
    """Return a whole tensor as a DTensor that is placed like `like`."""
    if isinstance(like, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor) and value.ndim:
        return distribute_tensor(value.detach(), like.device_mesh, like.placements, src_data_rank=None)
    return value


def get_model_state_dict(
    model: Module, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return a module's state under names that do not depend on wrappers; the tensors are the module's own.

    >>> import ndgrad
    >>> from ndgrad.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(ndgrad.nn.Linear(2, 1)))
    ['weight', 'bias']
    """
    chosen = options or StateDictOptions()
    if submodules is not None:
        raise NotImplementedError(
            "get_model_state_dict(submodules=...) is not here: ask for the state of each. [nd-unsupported]"
        )
    bare = _bare(model)
    frozen = {n for n, p in bare.named_parameters() if not p.requires_grad} if chosen.ignore_frozen_params else set()
    return {name: _whole(value, chosen) for name, value in bare.state_dict().items() if name not in frozen}


def set_model_state_dict(
    model: Module, model_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> Any:
    """Load a module's state; whole tensors are spread like the module's parameters.

    >>> import ndgrad
    >>> from ndgrad.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    >>> set_model_state_dict(ndgrad.nn.Linear(2, 1), get_model_state_dict(ndgrad.nn.Linear(2, 1)))
    <All keys matched successfully>
    """
    chosen = options or StateDictOptions()
    bare = _bare(model)
    own = bare.state_dict()
    state = {name: _as_spread(value, own.get(name)) for name, value in model_state_dict.items()}
    return bare.load_state_dict(state, strict=chosen.strict)


def _as_list(optimizers: Any) -> list[Any]:
    return list(optimizers) if isinstance(optimizers, Iterable) else [optimizers]


def _with_state(optimizer: Any) -> None:
    """Make sure that an optimizer has state: take a step of size zero if it has made none."""
    inner = optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer
    if inner is None or inner.state:
        return
    params = [p for g in inner.param_groups for p in g["params"] if p.requires_grad]
    grads, rates = [p.grad for p in params], [g["lr"] for g in inner.param_groups]
    with no_grad():
        for p in params:
            p.grad = zeros_like(p)
        for g in inner.param_groups:
            g["lr"] = 0.0
    inner.step()
    for g, rate in zip(inner.param_groups, rates, strict=True):
        g["lr"] = rate
    for p, grad in zip(params, grads, strict=True):
        p.grad = grad


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return the state of one or several optimizers, by the names of the module's parameters. An optimizer that has
    made no step gets its initial state first, so that there is something to load into.

    >>> import ndgrad
    >>> from ndgrad.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> net = ndgrad.nn.Linear(2, 1)
    >>> state = get_optimizer_state_dict(net, ndgrad.optim.Adam(net.parameters()))
    >>> list(state["state"]), list(state["state"]["bias"])
    (['weight', 'bias'], ['step', 'exp_avg', 'exp_avg_sq'])
    """
    chosen = options or StateDictOptions()
    if submodules is not None:
        raise NotImplementedError(
            "get_optimizer_state_dict(submodules=...) is not here: make one optimizer for each. [nd-unsupported]"
        )
    names = {id(p): name for name, p in _bare(model).named_parameters()}
    found: dict[str, Any] = {"state": {}, "param_groups": []}
    for optimizer in _as_list(optimizers):
        _with_state(optimizer)
        if isinstance(optimizer, ZeroRedundancyOptimizer):
            optimizer.consolidate_state_dict(to=optimizer.group.rank())  # every rank keeps the whole state
        state = optimizer.state_dict()
        params = [p for g in optimizer.param_groups for p in g["params"]]
        for number, values in state["state"].items():
            found["state"][_name(names, params[number])] = _whole(dict(values), chosen)
        for group, own in zip(state["param_groups"], optimizer.param_groups, strict=True):
            found["param_groups"].append({**group, "params": [_name(names, p) for p in own["params"]]})
    return found


def _name(names: dict[int, str], p: Any) -> str:
    if id(p) not in names:
        raise ValueError(
            f"an optimizer has a parameter of shape {tuple(p.shape)} that the module has not. Make the optimizer from "
            "model.parameters(), after the module has been wrapped or sharded. [nd-optimizer]"
        )
    return names[id(p)]


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: StateDictOptions | None = None
) -> None:
    """Load the result of `get_optimizer_state_dict` into one or several optimizers; whole tensors are spread like the
    parameters.
    """
    names = {id(p): name for name, p in _bare(model).named_parameters()}
    groups = list(optim_state_dict["param_groups"])
    for optimizer in _as_list(optimizers):
        params = [p for g in optimizer.param_groups for p in g["params"]]
        numbers = {_name(names, p): i for i, p in enumerate(params)}
        mine, groups = groups[: len(optimizer.param_groups)], groups[len(optimizer.param_groups) :]
        state = {
            numbers[name]: {k: _as_spread(v, params[numbers[name]]) for k, v in values.items()}
            for name, values in optim_state_dict["state"].items()
            if name in numbers
        }
        numbered = [
            {**saved, "params": [numbers[_name(names, p)] for p in own["params"]]}
            for saved, own in zip(mine, optimizer.param_groups, strict=True)
        ]
        optimizer.load_state_dict({"state": state, "param_groups": numbered})


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the states of a module and of its optimizers."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: dict[str, Any],
    optim_state_dict: dict[str, Any],
    options: StateDictOptions | None = None,
) -> Any:
    """Load the states of a module and of its optimizers."""
    keys = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return keys


_refuse_absent(__name__)
