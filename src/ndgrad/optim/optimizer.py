"""What all optimizers share: groups of parameters, their state, hooks, saving, and the loop of a step.

An optimizer is a rule for one parameter: `_start` makes its state, `_update` changes parameter and state in place. The loop over
groups, the grad mode, gradients that are to be followed upwards and complex parameters (whose real and imaginary parts are
updated like two real parameters) are dealt with here, once.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from ndgrad.api.data import tensor
from ndgrad.autograd.grad_mode import enable_grad, no_grad
from ndgrad.autograd.hooks import RemovableHandle
from ndgrad.autograd.variable import Variable
from ndgrad.dtypes import get_default_dtype

__all__ = ["Optimizer"]

Group = dict[str, Any]
State = dict[str, Any]

_STEP_HOOKS: dict[str, OrderedDict[int, Callable[..., Any]]] = {"pre": OrderedDict(), "post": OrderedDict()}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer."""
    return RemovableHandle(_STEP_HOOKS["pre"], hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer."""
    return RemovableHandle(_STEP_HOOKS["post"], hook)


class Required:
    """A setting that has no default."""

    def __repr__(self) -> str:
        return "<required parameter>"


class Optimizer:
    """The base of all optimizers.

    `params` is an iterable of tensors, of pairs of name and tensor, or of dicts, one per group, with "params" and settings of the
    group's own; what a group does not set comes from `defaults`.
    """

    #: Whether real and imaginary parts of a complex parameter are updated as if they were real parameters.
    _complex_as_real: ClassVar[bool] = True

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Variable):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                f"{params.type()}. Put it into a list."
            )
        self.defaults = defaults
        self.state: defaultdict[Any, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._init_hooks()
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list. Did the module register its parameters (nn.Parameter)?")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _init_hooks(self) -> None:
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
            self.__dict__.setdefault(f"_{name}_hooks", OrderedDict())

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_hooks()

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(f"    {key}: {_shown(group[key])}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # ----- parameters -----

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with settings of their own, for example layers that are to be learned from now on."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}.")
        params = param_group["params"]
        given: list[Any]
        if isinstance(params, Variable):
            given = [params]
        elif isinstance(params, (set, frozenset)):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
                "between runs. Please use a list instead."
            )
        else:
            given = list(params)
        group = dict(param_group)
        if given and all(isinstance(p, tuple) for p in given):
            group["param_names"] = [name for name, _ in given]
            given = [p for _, p in given]
        elif any(isinstance(p, tuple) for p in given):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing.")
        for p in given:
            if not isinstance(p, Variable):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}.")
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError(
                    f"can't optimize a non-leaf Tensor: one of shape {tuple(p.shape)} was computed by {p.grad_fn}. Optimize the leaves it "
                    "was computed from, or detach() it."
                )
        group["params"] = given
        for name, default in self.defaults.items():
            if isinstance(default, Required) and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}.")
            group.setdefault(name, default)
        if len({id(p) for p in given}) != len(given):
            warnings.warn("optimizer contains a parameter group with duplicate parameters: each will be updated twice.", stacklevel=3)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in known for p in given):
            raise ValueError("some parameters appear in more than one parameter group. Each belongs to one.")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters: None, or zeros in place."""
        for p in itertools.chain.from_iterable(group["params"] for group in self.param_groups):
            if p.grad is None:
                continue
            if set_to_none:
                p.grad = None
                continue
            if p.grad.grad_fn is not None:
                p.grad.detach_()
            else:
                p.grad.requires_grad_(False)
            with no_grad():
                p.grad.zero_()

    # ----- a step -----

    def _start(self, p: Any, group: Group) -> State:
        """The state of a parameter before its first update."""
        return {}

    def _update(self, p: Any, grad: Any, state: State, group: Group) -> None:
        """Change a parameter and its state in place."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step() nor _update().")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have gradients; `closure`, if given, is called first to compute the loss anew."""
        for hook in (*_STEP_HOOKS["pre"].values(), *self.__dict__["_step_pre_hooks"].values()):
            answer = hook(self, (closure,), {})
            if answer is not None:
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(f"a hook before a step must return None or a pair (args, kwargs), and returned {answer!r}.")
                (closure,) = answer[0]
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update_group(group)
        for hook in (*self.__dict__["_step_post_hooks"].values(), *_STEP_HOOKS["post"].values()):
            hook(self, (closure,), {})
        return loss

    def _update_group(self, group: Group) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state.get(p) or self._start(p, group)
            target, grad = p, p.grad
            if not group.get("differentiable"):
                # Outside the graph nothing is recorded, and unlike under no_grad, ops take their quick lane.
                target, grad = p.detach(), grad.detach()
            if group.get("maximize"):
                grad = -grad
            if self._complex_as_real and p.is_complex():
                self._update_parts(target, grad, state, group)
            else:
                self._update(target, grad, state, group)
            if state:
                self.state[p] = state

    def _update_parts(self, p: Any, grad: Any, state: State, group: Group) -> None:
        from ndgrad import view_as_complex, view_as_real

        views = {k: view_as_real(v) for k, v in state.items() if isinstance(v, Variable) and v.is_complex()}
        parts = {**state, **views}
        self._update(view_as_real(p), view_as_real(grad), parts, group)
        for name, value in parts.items():
            if name not in views:
                state[name] = value
            elif value is not views[name]:
                state[name] = view_as_complex(value)

    # ----- saving -----

    def state_dict(self) -> dict[str, Any]:
        """The state and the settings, with parameters as numbers in the order of the groups."""
        for hook in list(self.__dict__["_state_dict_pre_hooks"].values()):
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in group["params"]]})
        packed: dict[str, Any] = {
            "state": {numbers[id(p)] if isinstance(p, Variable) else p: s for p, s in self.state.items()},
            "param_groups": groups,
        }
        for hook in list(self.__dict__["_state_dict_post_hooks"].values()):
            answer = hook(self, packed)
            packed = packed if answer is None else answer
        return packed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over the state and the settings that `state_dict()` gave; state tensors get their parameter's dtype and device."""
        state_dict = dict(state_dict)
        for hook in list(self.__dict__["_load_state_dict_pre_hooks"].values()):
            answer = hook(self, state_dict)
            state_dict = state_dict if answer is None else answer
        saved = [dict(g) for g in state_dict["param_groups"]]
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, and this optimizer has "
                f"{len(self.param_groups)}."
            )
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"{len(theirs['params'])} parameters for {len(mine['params'])}."
                )
        params = {
            number: p
            for mine, theirs in zip(self.param_groups, saved, strict=True)
            for number, p in zip(theirs["params"], mine["params"], strict=True)
        }
        state: defaultdict[Any, State] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in params:
                state[params[number]] = {k: _fitted(params[number], k, v) for k, v in values.items()}
            else:
                state[number] = copy.copy(values)
        groups = []
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            theirs["params"] = mine["params"]
            if "param_names" in mine and "param_names" not in theirs:
                theirs["param_names"] = mine["param_names"]
            groups.append(copy_settings(theirs))
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in list(self.__dict__["_load_state_dict_post_hooks"].values()):
            hook(self)

    # ----- hooks -----

    def _hook(self, name: str, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        hooks = self.__dict__[f"_{name}_hooks"]
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step."""
        return self._hook("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return self._hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict()`."""
        return self._hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict()`; it may return another dict."""
        return self._hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict()`; it may return another dict."""
        return self._hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict()`."""
        return self._hook("load_state_dict_post", hook, prepend)


# ----- what rules are written with -------------------------------------------------------------------------------------


def _shown(value: Any) -> Any:
    return value.item() if isinstance(value, Variable) and value.numel() == 1 else value


def copy_settings(group: Group) -> Group:
    """A group's own copy of its settings, with the parameters shared."""
    return {k: v if k == "params" else copy.deepcopy(v) for k, v in group.items()}


def _fitted(p: Any, name: str, value: Any) -> Any:
    """A loaded piece of state with the parameter's dtype and device; the count of steps keeps its own."""
    if isinstance(value, Variable):
        moved = value.to(p.device) if name == "step" or not p.is_floating_point() else value.to(p.device, p.dtype)
        return moved.clone() if moved is value else moved
    if isinstance(value, Mapping):
        return {k: _fitted(p, name, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(p, name, v) for v in value)
    return value


def checked(kind: str, settings: dict[str, Any], **least: Any) -> dict[str, Any]:
    """Settings of which some must be at least so much, or lie in a half-open interval."""
    for name, bound in least.items():
        value = settings[name]
        if isinstance(value, Variable):
            if value.numel() != 1:
                raise ValueError(f"{kind}: Tensor {name} must be 1-element, and has shape {tuple(value.shape)}.")
            continue
        if isinstance(bound, tuple):
            low, high = bound
            for place, part in enumerate(value):
                if not low <= part < high:
                    raise ValueError(f"{kind}: Invalid {name} parameter at index {place}: {part}. It must lie in [{low}, {high}).")
        elif not value >= bound:
            raise ValueError(f"{kind}: Invalid {name} value: {value}. It must be at least {bound}.")
    if settings.get("fused") and settings.get("differentiable"):
        raise RuntimeError(f"{kind}: `fused` does not support `differentiable`.")
    if settings.get("fused") and settings.get("foreach"):
        raise RuntimeError(f"{kind}: `fused` and `foreach` cannot be `True` together.")
    return settings


def first_step() -> Any:
    """The count of steps in a parameter's state: a tensor, as in torch, so that saved states are alike."""
    return tensor(0.0, dtype=get_default_dtype())


def counted(state: State) -> float:
    """One more step; how many there are."""
    state["step"] = step = state["step"] + 1
    return float(step)


def move(p: Any, direction: Any, scale: Any) -> None:
    """p += scale * direction, where the scale may be a tensor that wants a gradient."""
    p.add_(direction * scale)


def running_mean(state: State, name: str, beta: Any, value: Any) -> Any:
    """The mean of a value over the steps, older ones forgotten by beta, kept in the state under a name.

    A new tensor each time: a differentiable step must leave what it has saved alone, and a write costs more than an op.
    """
    state[name] = mean = state[name] * beta + value * (1 - beta)
    return mean


def decayed(grad: Any, p: Any, weight_decay: Any) -> Any:
    """The gradient with that of weight_decay / 2 times the square of the parameter."""
    return grad if isinstance(weight_decay, (int, float)) and weight_decay == 0 else grad + p * weight_decay


def tensors_of(groups: Iterable[Group]) -> list[Any]:
    """All parameters of groups."""
    return [p for group in groups for p in group["params"]]
