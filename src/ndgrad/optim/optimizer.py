"""Base class of optimizers: groups of parameters, their state, hooks, saving, and the loop of a step.

An optimizer is a rule for one parameter: `_start` makes its state, `_update` changes parameter and state in place. This
file handles the loop over groups, the grad mode, differentiable steps and complex parameters (whose real and imaginary
parts are updated like two real parameters).
"""

from __future__ import annotations

import copy
import functools
import math
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast, overload

from ndgrad._src.arrays import graph_recording
from ndgrad._src.arrays.dtypes import get_default_dtype
from ndgrad._src.arrays.retained_memory import retain_by_default
from ndgrad._src.core.grad_mode import enable_grad, no_grad
from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.core.sparse_gradients import is_sparse_data
from ndgrad._src.core.variable import Variable, innermost_array
from ndgrad._src.tensor.functions.creation import zeros_like
from ndgrad._src.tensor.functions.data import tensor
from ndgrad._src.tensor.functions.elementwise import where
from ndgrad.optim.fused import Plans, update_alike, update_together

__all__ = ["Optimizer"]

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

    #: Parameters of an optimizer: tensors, tensors with names, or groups of them with settings.
    Params: TypeAlias = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
    #: A setting that may be a tensor, with a gradient if the step is differentiable.
    Rate: TypeAlias = float | Tensor

Group = dict[str, Any]
State = dict[str, Any]
Step = TypeVar("Step", bound=Callable[..., Any])
Loss = TypeVar("Loss")

_STEP_HOOKS: dict[str, OrderedDict[int, Callable[..., Any]]] = {"pre": OrderedDict(), "post": OrderedDict()}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimizer.

    Args:
        hook: function that may return new (args, kwargs) of the step.

    Returns:
        A handle; its `remove()` removes the hook.

    >>> import ndgrad
    >>> from ndgrad.optim.optimizer import register_optimizer_step_pre_hook
    >>> with register_optimizer_step_pre_hook(lambda optimizer, args, kwargs: print("step")):
    ...     ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)]).step()
    step
    """
    return RemovableHandle(_STEP_HOOKS["pre"], hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimizer.

    Args:
        hook: function that is called; its result is ignored.

    Returns:
        A handle; its `remove()` removes the hook.

    >>> import ndgrad
    >>> from ndgrad.optim.optimizer import register_optimizer_step_post_hook
    >>> with register_optimizer_step_post_hook(lambda optimizer, args, kwargs: print("stepped")):
    ...     ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)]).step()
    stepped
    """
    return RemovableHandle(_STEP_HOOKS["post"], hook)


def _with_hooks(step: Step) -> Step:
    """Wrap `step` with its hooks; a call by super().step() runs them only once."""

    @functools.wraps(step)
    def run_with_hooks(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        own = self.__dict__
        if self._stepping:
            return step(self, *args, **kwargs)
        args = (self, *args)
        for hook in (*_STEP_HOOKS["pre"].values(), *own.get("_step_pre_hooks", {}).values()):
            answer = hook(self, args, kwargs)
            if answer is not None:
                if not (isinstance(answer, tuple) and len(answer) == 2):
                    raise RuntimeError(
                        f"a hook before a step must return None or a pair (args, kwargs), and returned {answer!r}. "
                        "[nd-hook]"
                    )
                args, kwargs = answer
        self._stepping = True
        try:
            result = step(*args, **kwargs)
        finally:
            self._stepping = False
        for hook in (*own.get("_step_post_hooks", {}).values(), *_STEP_HOOKS["post"].values()):
            hook(self, args, kwargs)
        return result

    return cast(Step, run_with_hooks)


class Required:
    """Placeholder of a setting without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = Required()


def _parameters(params: Any) -> tuple[list[Any], list[str] | None]:
    """Return the parameters of a group, and their names if they are given as pairs."""
    if isinstance(params, Variable):
        return [params], None
    if isinstance(params, (set, frozenset)):
        raise TypeError(
            "the parameters of a group need an order that is the same in every run, and a set has none. Give a list. "
            "[nd-optimizer]"
        )
    given = list(params)
    if given and all(isinstance(p, tuple) for p in given):
        return [p for _, p in given], [name for name, _ in given]
    if any(isinstance(p, tuple) for p in given):
        raise ValueError(
            "some parameters of a group have names and some have not. Name all of them, or none. [nd-optimizer]"
        )
    return given, None


def _check_parameter(p: Any, may_be_computed: bool) -> None:
    """Raise if an optimizer cannot update a parameter."""
    if not isinstance(p, Variable):
        raise TypeError(
            f"an optimizer updates tensors, but one of the parameters is {type(p).__name__}. Pass model.parameters() "
            "or a list of tensors. [nd-optimizer]"
        )
    if not (may_be_computed or p.is_leaf or p.retains_grad):
        raise ValueError(
            f"can't optimize a non-leaf Tensor: one of shape {tuple(p.shape)} was computed by {p.grad_fn}. "
            "Optimize the leaves it was computed from, or detach() it. [nd-not-leaf]"
        )


class Optimizer:
    """Base class of all optimizers: a subclass defines `step`.

    Args:
        params: iterable of tensors, of pairs of name and tensor, or of dicts, one per group, with "params" and own
            settings.
        defaults: settings of groups that do not have their own.

    Raises:
        ValueError: if `params` is empty or a tensor is not a leaf.

    >>> import ndgrad
    >>> class Descent(ndgrad.optim.Optimizer):
    ...     def step(self):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.data.sub_(p.grad, alpha=group["lr"])
    >>> p = ndgrad.tensor([1.0], requires_grad=True)
    >>> (p * p).sum().backward()
    >>> Descent([p], {"lr": 0.25}).step()
    >>> p.detach()
    tensor([0.5000])
    """

    #: True while `step` runs, which may call that of a base class. On the class, for subclasses that do not call
    #: `__init__` of this one.
    _stepping = False

    #: True if real and imaginary parts of a complex parameter are updated like real parameters.
    _complex_as_real: ClassVar[bool] = True
    #: Entries of a parameter's state that are numbers, if `_update` is a formula that can run over all parameters at
    #: once (ndgrad.optim.fused).
    _numbers_in_state: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Variable):
            raise TypeError(
                "params is one tensor, and must be an iterable of tensors or dicts. Put it into a list. [nd-optimizer]"
            )
        retain_by_default()
        self.defaults = defaults
        self.state: defaultdict[Any, State] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._init_hooks()
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(
                "optimizer got an empty parameter list. "
                "Did the module register its parameters (nn.Parameter)? [nd-optimizer]"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]  # a class may wrap its own method

    def _init_hooks(self) -> None:
        for name in (
            "step_pre",
            "step_post",
            "state_dict_pre",
            "state_dict_post",
            "load_state_dict_pre",
            "load_state_dict_post",
        ):
            self.__dict__.setdefault(f"_{name}_hooks", OrderedDict())
        self._plans = Plans()

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._init_hooks()
        for group in self.param_groups:  # a flag that was unknown when a group was saved is off
            for name, value in self.defaults.items():
                if value is None or isinstance(value, bool):
                    group.setdefault(name, None if value is None else False)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            text += "".join(f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params")
        return text + ")"

    # ----- parameters -----

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with their own settings, for example layers that are unfrozen during training.

        Args:
            param_group: dict with "params" and settings. It becomes part of the optimizer and is completed with the
                defaults.

        >>> import ndgrad
        >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=0.1)
        >>> optimizer.add_param_group({"params": [ndgrad.ones(2, requires_grad=True)], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}. [nd-optimizer]")
        group = dict(param_group)
        given, names = _parameters(param_group["params"])
        if names is not None:
            group["param_names"] = names
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "some groups have names of parameters and some have not. Name all of them, or none. [nd-optimizer]"
            )
        for p in given:
            _check_parameter(p, may_be_computed=bool(self.defaults.get("differentiable")))
        group["params"] = given
        for name, default in self.defaults.items():
            if isinstance(default, Required) and name not in group:
                raise ValueError(f"a parameter group lacks {name}, which has no default. [nd-optimizer]")
            group.setdefault(name, default)
        if len({id(p) for p in given}) != len(given):
            warnings.warn("a parameter group has duplicate parameters: each will be updated twice.", stacklevel=3)
        known = {id(p) for p in tensors_of(self.param_groups)}
        if any(id(p) in known for p in given):
            raise ValueError("a parameter is in two groups. Each belongs to one. [nd-optimizer]")
        param_group.update(group)  # the group is the caller's own dict: later changes there count
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters: set them to None, or to zeros in place.

        Args:
            set_to_none: whether `grad` becomes None. False writes zeros into the present gradients.

        >>> import ndgrad
        >>> p = ndgrad.ones(1, requires_grad=True)
        >>> p.sum().backward()
        >>> ndgrad.optim.SGD([p]).zero_grad()
        >>> p.grad is None
        True
        """
        for p in tensors_of(self.param_groups):
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

    def _start(self, p: Tensor, group: Group) -> State:
        """Return the state of a parameter before its first update."""
        return {}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        """Change a parameter and its state in place."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step() nor _update(). [nd-define]")

    def _update_sparse(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        """Same as `_update` for a sparse gradient; the parameter is dense."""
        raise RuntimeError(
            f"{type(self).__name__} does not support sparse gradients, please consider SparseAdam instead (or SGD or "
            f"Adagrad). The gradient of a parameter of shape {tuple(p.shape)} has layout {grad.layout}; to_dense() "
            "makes a dense one of it. [nd-sparse-grad]"
        )

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have gradients.

        Args:
            closure: function that computes the loss and the gradients again and returns the loss. It is called before
                the update.

        Returns:
            The result of `closure`, or None without one.

        >>> import ndgrad
        >>> p = ndgrad.ones(1, requires_grad=True)
        >>> p.sum().backward()
        >>> ndgrad.optim.SGD([p], lr=0.25).step()
        >>> p.detach()
        tensor([0.7500])
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update_group(group)
        return loss

    def _update_group(self, group: Group) -> None:
        ordinary = bool(group.get("differentiable"))
        if not ordinary and update_together(self, group):
            return
        graph_recording.refuse(
            f"{type(self).__name__}.step()",
            "parameters, gradients and states must be as in a step before it. Run the step a few times first, "
            "outside of the block.",
        )
        found = []
        for p in group["params"]:
            grad = p.grad
            if grad is not None:
                state = self.state.get(p)
                if not state:
                    state = self._start(p.detach().values() if p.is_nested else p, group)
                found.append((p, grad, state))
        if not ordinary:
            found = update_alike(self, group, found)
        for p, grad, state in found:
            state, target = self.state.get(p) or state, p  # a parameter that occurs twice is updated twice
            if not ordinary:
                # Outside the graph nothing is recorded, and unlike under no_grad, ops take their fast path.
                target, grad = p.detach(), grad.detach()
            if group.get("maximize"):
                grad = -grad
            if getattr(grad._array, "is_jagged", False):
                target, grad = target.values(), grad.values()  # over the same memory
            before = dict(state) if not ordinary and is_traced(target) else {}
            if is_sparse_data(grad._array):
                self._update_sparse(target, grad, state, group)
            elif self._complex_as_real and p.is_complex():
                self._update_parts(target, grad, state, group)
            else:
                self._update(target, grad, state, group)
            for name, held in before.items():
                # Writing the memory of a tensor is faster in a program than replacing the tensor in Python.
                if state[name] is not held and _is_like(held, state[name]):
                    state[name] = held.copy_(state[name])
            if state:
                self.state[p] = state

    def _update_parts(self, p: Tensor, grad: Tensor, state: State, group: Group) -> None:
        from ndgrad import is_tensor, view_as_complex, view_as_real  # only complex parameters need it

        views = {k: view_as_real(v) for k, v in state.items() if is_tensor(v) and v.is_complex()}
        parts = {**state, **views}
        self._update(view_as_real(p), view_as_real(grad), parts, group)
        for name, value in parts.items():
            if name not in views:
                state[name] = value
            elif value is not views[name]:
                state[name] = view_as_complex(value)

    # ----- saving -----

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the settings, with parameters as numbers in the order of the groups.

        >>> import ndgrad
        >>> optimizer = ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=0.1)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]
        """
        self._run_hooks("state_dict_pre")
        numbers: dict[int, int] = {}
        for p in tensors_of(self.param_groups):
            numbers.setdefault(id(p), len(numbers))
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[id(p)] if isinstance(p, Variable) else p: s for p, s in self.state.items()}
        packed: dict[str, Any] = self._run_hooks("state_dict_post", {"state": state, "param_groups": groups})
        return packed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load the result of `state_dict()`; state tensors get their parameter's dtype and device.

        Args:
            state_dict: result of `state_dict()` of an optimizer with the same numbers of groups and parameters.

        Raises:
            ValueError: if the numbers of groups or parameters differ.

        >>> import ndgrad
        >>> first, second = (ndgrad.optim.SGD([ndgrad.ones(1, requires_grad=True)], lr=lr) for lr in (0.1, 0.2))
        >>> second.load_state_dict(first.state_dict())
        >>> second.param_groups[0]["lr"]
        0.1
        """
        state_dict = self._run_hooks("load_state_dict_pre", dict(state_dict))
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError(
                f"the state dict has {len(saved)} parameter groups, and this optimizer {len(self.param_groups)}. "
                "[nd-state-dict]"
            )
        params: dict[Any, Any] = {}
        groups = []
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    f"a group of the state dict has {len(theirs['params'])} parameters for {len(mine['params'])} here. "
                    "[nd-state-dict]"
                )
            params.update(zip(theirs["params"], mine["params"], strict=True))
            group = {k: mine["params"] if k == "params" else copy.deepcopy(v) for k, v in theirs.items()}
            if "param_names" in mine:
                group.setdefault("param_names", mine["param_names"])
            groups.append(group)
        state: defaultdict[Any, State] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in params:
                state[params[number]] = {k: _convert_state(params[number], k, v) for k, v in values.items()}
            else:
                state[number] = copy.copy(values)
        self.__setstate__({"state": state, "param_groups": groups})
        self._run_hooks("load_state_dict_post")

    # ----- hooks -----

    def _run_hooks(self, name: str, *given: Any) -> Any:
        """Call hooks with a value, if any; their results replace it."""
        for hook in list(self.__dict__[f"_{name}_hooks"].values()):
            answer = hook(self, *given)
            if given and answer is not None:
                given = (answer,)
        return given[0] if given else None

    def _hook(self, name: str, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        hooks = self.__dict__.setdefault(f"_{name}_hooks", OrderedDict())
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step.

        Args:
            hook: function that may return new (args, kwargs) of the step.

        Returns:
            A handle; its `remove()` removes the hook.
        """
        return self._hook("step_pre", hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step.

        Args:
            hook: function that is called; its result is ignored.

        Returns:
            A handle; its `remove()` removes the hook.
        """
        return self._hook("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict()`.

        Args:
            hook: function that is called; its result is ignored.
            prepend: whether the hook runs before the hooks that are already registered.
        """
        return self._hook("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after `state_dict()`.

        Args:
            hook: function that may return another dict, which replaces the first.
            prepend: whether the hook runs before the hooks that are already registered.
        """
        return self._hook("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before `load_state_dict()`.

        Args:
            hook: function that may return another dict, which is loaded instead.
            prepend: whether the hook runs before the hooks that are already registered.
        """
        return self._hook("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after `load_state_dict()`.

        Args:
            hook: function that is called; its result is ignored.
            prepend: whether the hook runs before the hooks that are already registered.
        """
        return self._hook("load_state_dict_post", hook, prepend)


# ----- functions for update rules -------------------------------------------------------------------------------------


def _convert_state(p: Tensor, name: str, value: Any) -> Any:
    """Return a loaded piece of state with the parameter's dtype and device; the step count keeps its own."""
    if isinstance(value, Variable):
        moved = value.to(p.device) if name == "step" or not p.is_floating_point() else value.to(p.device, p.dtype)
        return moved.clone() if moved is value else moved
    if isinstance(value, Mapping):
        return {k: _convert_state(p, name, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_convert_state(p, name, v) for v in value)
    return value


#: Settings that must not be negative, in any optimizer.
_NOT_NEGATIVE = ("lr", "lr_decay", "eps", "momentum", "momentum_decay", "weight_decay", "initial_accumulator_value")


def _is_nonnegative(value: Rate) -> bool:
    if not isinstance(value, Variable):
        return bool(value >= 0.0)
    array = innermost_array(value)  # a setting may belong to a transform, which has no truth values
    return getattr(array, "is_meta", False) or bool((array >= 0.0).all())


def check_settings(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Check the settings of an optimizer, and return them."""
    given = dict(settings)
    if "betas" in given:
        given |= {f"betas[{place}]": settings["betas"][place] for place in (0, 1)}
    for name, value in given.items():
        if name.startswith("betas[") and not 0.0 <= value < 1.0:
            raise ValueError(f"{kind}: Invalid {name} value: {value}. It must lie in [0, 1). [nd-range]")
        if isinstance(value, Variable) and value.numel() != 1:
            raise ValueError(f"{kind}: Tensor {name} must be 1-element, but has shape {tuple(value.shape)}. [nd-shape]")
        if name in _NOT_NEGATIVE and not _is_nonnegative(value):
            raise ValueError(f"{kind}: Invalid {name} value: {value}. It must be at least 0. [nd-range]")
    if settings.get("fused") and settings.get("differentiable"):
        raise RuntimeError(f"{kind}: `fused` does not support `differentiable`. [nd-exclusive]")
    if settings.get("fused") and settings.get("foreach"):
        raise RuntimeError(f"{kind}: `fused` and `foreach` cannot be `True` together. [nd-exclusive]")
    return settings


def scalar(value: float) -> Tensor:
    """Return a number for a parameter's state: a tensor, as in torch, so that saved states are alike."""
    return tensor(value, dtype=get_default_dtype())


def fresh(p: Tensor, *names: str) -> State:
    """Return the state before the first step: a step count of zero, and zeros like the parameter under some names."""
    return {"step": scalar(0.0), **{name: zeros_like(p) for name in names}}


def count_step(state: State) -> Any:
    """Increment the step count, and return it."""
    state["step"] = step = state["step"] + 1.0
    return number(step)


def number(t: Rate) -> Any:
    """Return a number of the state or of the settings as a float. In a traced step, which has no values, it is a tensor
    in double precision; rules use it only through `either`, `at_least` and `at_most`.
    """
    return t.detach().double() if isinstance(t, Variable) and is_traced(t) else as_float(t)


def as_float(value: Any) -> float:
    """Return a number as a float. In a traced step a placeholder may replace a number; it has operators but cannot be
    converted (ndgrad._src.compiler.capture.number_tape).
    """
    if value.__class__ is float:
        found: float = value
        return found
    return value * 1.0 if value.__class__ is int else float(value)


def is_traced(t: Tensor) -> bool:
    """True if a tensor belongs to a program that is being traced, and has no values."""
    return bool(getattr(innermost_array(t), "is_traced", False))


def _is_like(a: Any, b: Any) -> bool:
    """True if two values are tensors of one shape and dtype."""
    return isinstance(a, Variable) and isinstance(b, Variable) and a.shape == b.shape and a.dtype == b.dtype


def either(condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    """Return one of two values, by a condition on numbers."""
    if isinstance(condition, Variable):
        return where(condition, yes(), no())
    return yes() if condition else no()


def at_least(x: Any, bound: float) -> Any:
    """Return the larger of a number and a bound."""
    return x.clamp(min=bound) if isinstance(x, Variable) else max(x, bound)


def at_most(x: Any, bound: Any) -> Any:
    """Return the smaller of two numbers."""
    return either(x < bound, lambda: x, lambda: bound)


def as_state(x: Any, before: Tensor) -> Tensor:
    """Return a number in the form in which it replaces another in the state."""
    return x.to(before.dtype) if isinstance(x, Variable) else tensor(x, dtype=before.dtype)


def root(x: Any) -> Any:
    """Return the square root of a number, or of each element of a value in a rule."""
    return math.sqrt(x) if isinstance(x, (int, float)) else x.sqrt()


def move(p: Tensor, direction: Tensor, scale: Rate) -> None:
    """Add scale * direction to p in place; the scale may be a tensor that requires grad."""
    p.add_(direction * scale)


def running_mean(state: State, name: str, beta: Rate, value: Tensor) -> Tensor:
    """Return the exponential moving average of a value with decay beta, kept in the state under a name.

    It is a new tensor each time: a differentiable step must not change saved tensors, and a write costs more than an
    op.
    """
    mean: Tensor = state[name] * beta + value * (1 - beta)
    state[name] = mean
    return mean


def add_weight_decay(grad: Tensor, p: Tensor, weight_decay: Rate) -> Tensor:
    """Return the gradient plus that of weight_decay / 2 times the square of the parameter."""
    return grad if isinstance(weight_decay, (int, float)) and weight_decay == 0 else grad + p * weight_decay


def tensors_of(groups: Iterable[Group]) -> list[Tensor]:
    """Yield all parameters of groups."""
    return [p for group in groups for p in group["params"]]
