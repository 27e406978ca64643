"""State dicts: saving and loading the parameters and buffers of a module by dotted name.

The walk is over the dictionaries of registered values, so exactly the registered values are saved. Loading writes into
the existing tensors, under no_grad, and collects all mismatches before it raises.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from ndgrad.nn.modules.module import Module

EXTRA = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """Missing and unexpected keys found by `load_state_dict`."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"


class _WithModule:
    """A pre-load hook that gets its module, without keeping it alive; a copy of the module gets its own."""

    def __init__(self, hook: Callable[..., Any], module: Stateful | None = None) -> None:
        self.hook = hook
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        if self.module is None:
            return self.hook(*args)
        module = self.module()
        if module is None:
            raise RuntimeError(
                "a hook on load_state_dict outlived its module. Register it on the module that is loaded. [nd-hook]"
            )
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "hook": self.hook,
            "with_module": self.module is not None,
            "module": None if self.module is None else self.module(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.hook = state["hook"]
        self.module = weakref.ref(state["module"]) if state["with_module"] else None


def _split_by_child(given: dict[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """Return the entries of a state dict below `prefix`, by the name of the child module."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in given.items():
        if key.startswith(prefix):
            name, dot, _ = key[len(prefix) :].partition(".")
            if dot:
                found.setdefault(name, {})[key] = value
    return found


class Stateful:
    """The part of `Module` that saves and loads."""

    #: Version of the module's saved form; a class that changes it reads older ones in `_load_from_state_dict`.
    _version: int = 1

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def _init_state_hooks(self) -> None:
        for name in (
            "_state_dict_hooks",
            "_state_dict_pre_hooks",
            "_load_state_dict_pre_hooks",
            "_load_state_dict_post_hooks",
        ):
            self.__dict__.setdefault(name, OrderedDict())

    # ----- out -----

    def get_extra_state(self) -> Any:
        """Return additional state for the state dict; a module that defines it defines `set_extra_state` too."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: define it in the subclass. "
            "[nd-define]"
        )

    def set_extra_state(self, state: Any) -> None:
        """Load the result of `get_extra_state`."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: define it in the subclass. "
            "[nd-define]"
        )

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Write this module's own values to `destination`."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            if tensor is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return parameters and persistent buffers by dotted name, detached unless `keep_vars`; they
        share the module's memory.

        >>> import ndgrad
        >>> list(ndgrad.nn.Linear(2, 1).state_dict())
        ['weight', 'bias']
        """
        if args:  # torch's deprecated positional form
            settings = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = settings.get("destination", destination)
            prefix, keep_vars = settings.get("prefix", prefix), settings.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            answer = hook(self, destination, prefix, local_metadata)
            if getattr(hook, "_from_public_api", False):
                if answer is not None:
                    raise RuntimeError(
                        "a state_dict post-hook must return None: change the dict it is given instead. [nd-hook]"
                    )
            elif answer is not None:
                destination = answer
        return destination

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before the module is saved."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after the module is saved; it may
        change the dict in place."""
        checked = functools.partial(hook)
        checked._from_public_api = True  # type: ignore[attr-defined]  # functions take attributes
        return RemovableHandle(self._state_dict_hooks, checked)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Same as `register_state_dict_post_hook`, for a hook that may return another dict."""
        return RemovableHandle(self._state_dict_hooks, hook)

    # ----- in -----

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        return RemovableHandle(self._load_state_dict_pre_hooks, _WithModule(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change the lists in place."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy the values of a state dict into the parameters and buffers.

        With `strict`, the names must match exactly. With `assign`, the given tensors replace the module's own.

        >>> import ndgrad
        >>> ndgrad.nn.Linear(2, 1).load_state_dict(ndgrad.nn.Linear(2, 1).state_dict())
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"Expected state_dict to be dict-like, got {type(state_dict)}. Pass what state_dict() "
                "or ndgrad.load() returned. [nd-state-dict]"
            )
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        copied = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            copied._metadata = metadata  # type: ignore[attr-defined]  # torch keeps it on the dict

        def load(module: Module, given: dict[str, Any], prefix: str) -> None:
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata = {**local_metadata, "assign_to_params_buffers": True}
            module._load_from_state_dict(given, prefix, local_metadata, True, missing, unexpected, errors)
            by_child = _split_by_child(given, prefix)
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    theirs = by_child.get(name, {})
                    if "." in name:  # a name that setattr() accepts and add_module() refuses
                        theirs = {k: v for k, v in given.items() if k.startswith(below)}
                    load(child, theirs, below)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in list(module._load_state_dict_post_hooks.values()):
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        "Hooks registered with register_load_state_dict_post_hook are not expected to return new "
                        "values, if incompatible_keys need to be modified, it should be done inplace. [nd-hook]"
                    )

        load(cast("Module", self), copied, "")
        if strict:
            for what, names in (("Unexpected", unexpected), ("Missing", missing)):
                if names:
                    listed = ", ".join(f'"{name}"' for name in names)
                    errors.insert(0, f"{what} key(s) in state_dict: {listed}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{} [nd-state-dict]".format(
                    type(self).__name__, "\n\t".join(errors).rstrip()
                )
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own values, and add mismatches to the three lists."""
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        own = {k: v for k, v in (*self._parameters.items(), *persistent.items()) if v is not None}
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, tensor in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = self._load_one(name, key, tensor, state_dict[key], assign)
            if problem is not None:
                error_msgs.append(problem)
        if type(self).set_extra_state is not Stateful.set_extra_state:
            if prefix + EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + EXTRA])
            elif strict:
                missing_keys.append(prefix + EXTRA)
        elif strict and prefix + EXTRA in state_dict:
            unexpected_keys.append(prefix + EXTRA)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != prefix + EXTRA:
                    first, _, rest = key[len(prefix) :].partition(".")
                    if first not in self._modules if rest else first not in own:
                        unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, tensor: Tensor, given: Any, assign: bool) -> str | None:
        """Load one tensor; return an error text, or None."""
        if is_raw_array(given):
            given = as_tensor(given)  # for weights from an npz file
        if not isinstance(given, Variable):
            return (
                f'While copying the parameter named "{key}", expected a Tensor or an array from the checkpoint '
                f"but received {type(given)}"
            )
        if is_lazy(tensor):
            if is_lazy(given):
                return None
            tensor.materialize(given.shape)
        elif is_lazy(given):
            return (
                f'While copying the parameter named "{key}": the checkpoint holds an uninitialized parameter, '
                "which has no values."
            )
        elif tensor.ndim == 0 and given.ndim == 1:
            given = given.select(0, 0)  # old checkpoints store 0-d tensors as vectors of one element
        if tuple(given.shape) != tuple(tensor.shape):
            return (
                f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                f"the shape in current model is {tensor.shape}."
            )
        try:
            with no_grad():
                if not assign:
                    tensor.copy_(given)
                elif isinstance(tensor, Parameter):
                    if not isinstance(given, Parameter):
                        given = Parameter(given, requires_grad=tensor.requires_grad)
                    else:
                        given.requires_grad_(tensor.requires_grad)
                    setattr(self, name, given)
                else:
                    setattr(self, name, given)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are {tensor.shape} '
                f"and whose dimensions in the checkpoint are {given.shape}, an exception occurred : {error.args}."
            )
        return None
