"""Registered contents of a module: parameters, buffers and submodules, by attribute assignment and by name.

The three are dictionaries of the instance, which `__getattr__` searches. These dictionaries hold everything that a
module consists of: walking, converting, saving and swapping all use them.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn.parameter import Buffer, Parameter, is_lazy

if TYPE_CHECKING:
    from ndgrad.nn.modules.module import Module

#: Hooks on registration, for all modules: kind ("parameter", "buffer", "module") -> hooks called
#: with (module, name, value).
_REGISTRATION_HOOKS: dict[str, OrderedDict[int, Callable[..., Any]]] = {
    "parameter": OrderedDict(),
    "buffer": OrderedDict(),
    "module": OrderedDict(),
}


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a module gets a parameter; a result other than None replaces it.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_parameter_registration_hook
    >>> with register_module_parameter_registration_hook(lambda module, name, parameter: print(name)):
    ...     _ = ndgrad.nn.PReLU()
    weight
    """
    return RemovableHandle(_REGISTRATION_HOOKS["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a module gets a buffer; a result other than None replaces it.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_buffer_registration_hook
    >>> with register_module_buffer_registration_hook(lambda module, name, buffer: print(name)):
    ...     _ = ndgrad.nn.NLLLoss()
    weight
    """
    return RemovableHandle(_REGISTRATION_HOOKS["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a module gets a submodule; a result other than None replaces it.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_module_registration_hook
    >>> with register_module_module_registration_hook(lambda module, name, submodule: print(name, submodule)):
    ...     _ = ndgrad.nn.Sequential(ndgrad.nn.ReLU())
    0 ReLU()
    """
    return RemovableHandle(_REGISTRATION_HOOKS["module"], hook)


def _after_hooks(kind: str, owner: Any, name: str, value: Any) -> Any:
    for hook in list(_REGISTRATION_HOOKS[kind].values()):
        answer = hook(owner, name, value)
        if answer is not None:
            value = answer
    return value


def type_text(value: Any) -> str:
    """Return the type of a value for error messages."""
    return str(value.type()) if isinstance(value, Variable) and not is_lazy(value) else type(value).__name__


class Registry:
    """The part of `Module` that holds registered values."""

    #: True if `Module.__init__` also calls the next class's (for modules with other base classes).
    call_super_init: ClassVar[bool] = False
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  # modules, or None
    _non_persistent_buffers_set: set[str]

    # ----- attributes -----

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "parameters", "_parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_text(value)}' as parameter '{name}' of {type(self).__name__} (nn.Parameter "
                    "or None expected). Wrap it: nn.Parameter(...), or delete the attribute first. [nd-module]"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Registry):
            self._forget(name, "module", "_modules")
            self._modules[name] = _after_hooks("module", self, name, value)
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{type_text(value)}' as child module '{name}' of {type(self).__name__} (nn.Module "
                    "or None expected). Delete the attribute first if it is to hold something else. [nd-module]"
                )
            self._modules[name] = _after_hooks("module", self, name, value)
        elif name in own.get("_buffers", ()) or isinstance(value, Buffer):
            if value is not None and not isinstance(value, Variable):
                raise TypeError(
                    f"cannot assign '{type_text(value)}' as buffer '{name}' of {type(self).__name__} (nn.Buffer, "
                    "Tensor or None expected). Wrap it with ndgrad.as_tensor(...), or delete the attribute first. "
                    "[nd-module]"
                )
            if isinstance(value, Buffer):
                persistent = bool(getattr(value, "persistent", True))
            else:
                persistent = name not in self._non_persistent_buffers_set
            self._forget(name, "buffer", "_buffers")
            self.register_buffer(name, value, persistent)
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, kind: str, home: str) -> None:
        """Remove a name from everywhere except `home`."""
        own = self.__dict__
        if home not in own:
            raise AttributeError(
                f"cannot assign {kind} before Module.__init__() call: {type(self).__name__} set {name!r} first. "
                "Begin its __init__ with super().__init__(). [nd-module]"
            )
        own.pop(name, None)
        for other in ("_parameters", "_buffers", "_modules"):
            if other != home:
                own[other].pop(name, None)
        if home != "_buffers":
            self._non_persistent_buffers_set.discard(name)

    # Any: attributes have arbitrary types, and code that reads `self.weight` should not have to cast.
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        parameters = own.get("_parameters")  # most often needed, by forward functions
        if parameters is not None and name in parameters:
            return parameters[name]
        for home in ("_buffers", "_modules"):
            found = own.get(home)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for home in (self._parameters, self._buffers, self._modules):
            if name in home:
                del home[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    # ----- registering by name -----

    def _check_name(self, kind: str, name: Any, home: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__} ({name!r}). [nd-module]")
        if "." in name:
            raise KeyError(
                f'{kind} name can\'t contain ".", got: {name}. Dots separate the names of nested modules. [nd-module]'
            )
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string "". [nd-module]')
        if hasattr(self, name) and name not in home:
            raise KeyError(
                f"attribute '{name}' already exists in {type(self).__name__}. Choose another name, or delete it first. "
                "[nd-module]"
            )

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None reserves the name.

        >>> import ndgrad
        >>> module = ndgrad.nn.Module()
        >>> module.register_parameter("weight", ndgrad.nn.Parameter(ndgrad.ones(2)))
        >>> len(list(module.parameters()))
        1
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                "cannot assign parameter before Module.__init__() call. Begin __init__ with super().__init__(). "
                "[nd-module]"
            )
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{type_text(param)}' object to parameter '{name}' (nn.Parameter or None required). "
                    "Wrap it: nn.Parameter(...). [nd-module]"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}': it was computed by {param.grad_fn}. "
                    "A parameter is a leaf; to express it through others, compute it in forward(). [nd-not-leaf]"
                )
            param = _after_hooks("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is moved and saved with the module but not learned; a buffer that is not persistent is not
        saved.

        >>> import ndgrad
        >>> module = ndgrad.nn.Module()
        >>> module.register_buffer("scale", ndgrad.ones(2))
        >>> module.scale
        tensor([1., 1.])
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError(
                "cannot assign buffer before Module.__init__() call. Begin __init__ with super().__init__(). "
                "[nd-module]"
            )
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Variable):
            raise TypeError(
                f"cannot assign '{type_text(tensor)}' object to buffer '{name}' (Tensor or None required). "
                "Wrap it with ndgrad.as_tensor(...). [nd-module]"
            )
        self._buffers[name] = _after_hooks("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name; None reserves the name.

        >>> import ndgrad
        >>> module = ndgrad.nn.Module()
        >>> module.add_module("act", ndgrad.nn.ReLU())
        >>> module.act
        ReLU()
        """
        if module is not None and not isinstance(module, Registry):
            raise TypeError(
                f"{type_text(module)} is not a Module subclass: it was given as submodule {name!r}. "
                "Pass an nn.Module or None. [nd-module]"
            )
        self._check_name("module", name, self._modules)
        self._modules[name] = _after_hooks("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        self.add_module(name, module)

    # ----- finding by dotted name -----

    def get_submodule(self, target: str) -> Module:
        """Return the submodule at a dotted path such as 'encoder.layers.0'; the module itself for ''.

        >>> import ndgrad
        >>> ndgrad.nn.Sequential(ndgrad.nn.Sequential(ndgrad.nn.ReLU())).get_submodule("0.0")
        ReLU()
        """
        found: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(found, part):
                raise AttributeError(
                    f"{found._get_name()} has no attribute `{part}` (looking for {target!r}). [nd-key]"
                )
            found = getattr(found, part)
            if not isinstance(found, Registry):
                raise AttributeError(f"`{part}` is not an nn.Module (looking for {target!r}). [nd-key]")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put another module at a dotted path; with `strict`, only in place of an existing one."""
        if target == "":
            raise ValueError(
                "Cannot set the submodule without a target name. Give the dotted path of the submodule to replace. "
                "[nd-module]"
            )
        if not isinstance(module, Registry):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}. Pass a module. [nd-module]")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(
                f"{parent._get_name()} has no attribute `{name}`, and strict=True wants an existing one. [nd-key]"
            )
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Registry):
            raise AttributeError(f"`{name}` is not an nn.Module (looking for {target!r}). [nd-key]")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path."""
        owner, name = self._owner_of(target)
        found = getattr(owner, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter. [nd-key]")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path."""
        owner, name = self._owner_of(target)
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer. [nd-key]")
        return cast("Tensor", owner._buffers[name])

    def _owner_of(self, target: str) -> tuple[Module, str]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError(f"{owner._get_name()} has no attribute `{name}`. [nd-key]")
        return owner, name

    # ----- walking -----

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it with their dotted names; a shared module once, unless `remove_duplicate`
        is False.

        >>> import ndgrad
        >>> [name for name, _ in ndgrad.nn.Sequential(ndgrad.nn.ReLU(), ndgrad.nn.Tanh()).named_modules()]
        ['', '0', '1']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, cast("Module", self)
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the direct submodules with their names; a shared one once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield the direct submodules."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, owner in owners:
            for name, value in get_members_fn(owner):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield path + ("." if path else "") + name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names.

        >>> import ndgrad
        >>> [name for name, _ in ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 1)).named_parameters()]
        ['0.weight', '0.bias']
        """
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters of this module and, if `recurse`, of all below it, as optimizers take them.

        >>> import ndgrad
        >>> [tuple(p.shape) for p in ndgrad.nn.Linear(3, 2).parameters()]
        [(2, 3), (2,)]
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names.

        >>> import ndgrad
        >>> [name for name, _ in ndgrad.nn.BatchNorm1d(2).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers of this module and, if `recurse`, of all below it."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _tensors(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield parameters, then buffers."""
        return itertools.chain(self.parameters(recurse), self.buffers(recurse))
