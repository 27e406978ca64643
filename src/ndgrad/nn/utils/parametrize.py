"""Parametrizations: a tensor of a module as a function of other tensors, computed whenever it is read.

`register_parametrization(module, "weight", f)` moves the tensor into `module.parametrizations.weight.original` and
gives the module its own class, in which `weight` is a property. Reading it computes f(original); writing to it sets the
original to `f.right_inverse(value)`. Optimizers keep their reference to the parameter.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ndgrad._src.core.grad_mode import enable_grad, no_grad
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn.modules.container import ModuleDict, ModuleList
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter

__all__ = [
    "cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations",
    "type_before_parametrizations", "transfer_parametrizations_and_params",
]  # fmt: skip


class _Cache(threading.local):
    """Contents of `cached()`, per thread: (id of the module, name) -> the module, which must live on, and the
    tensor.
    """

    depth: int = 0

    def __init__(self) -> None:
        self.computed: dict[tuple[int, str], tuple[Module, Tensor]] = {}


_cache = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Return a context in which each parametrized tensor is computed only once, at its first read.

    >>> import ndgrad
    >>> import ndgrad.nn.utils.parametrize as parametrize
    >>> layer = parametrize.register_parametrization(ndgrad.nn.Linear(2, 2), "weight", ndgrad.nn.Softplus())
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.computed.clear()


class ParametrizationList(ModuleList):
    """The functions that compute a tensor, in order, and their input: `original`, or `original0`, `original1`, ... if
    the first function takes several.

    Args:
        modules: functions, of which the first is applied first.
        original: tensor that becomes parametrized.
        unsafe: whether functions may change shape and dtype, without a check.

    >>> import ndgrad
    >>> import ndgrad.nn.utils.parametrize as parametrize
    >>> layer = parametrize.register_parametrization(ndgrad.nn.Linear(2, 2), "weight", ndgrad.nn.Identity())
    >>> layer.parametrizations.weight.original.shape
    ndgrad.Size([2, 2])
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError(
                "ParametrizationList requires one or more modules. Give the functions as a list. [nd-too-few]"
            )
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new: Any = original
            for module in reversed(modules):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    continue
                # without an inverse, the value itself is the first original
                with contextlib.suppress(NotImplementedError):
                    new = inverse(new)
        if not isinstance(new, Variable) and not isinstance(new, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__} [nd-parametrization]"
            )
        self.is_tensor = isinstance(new, Variable)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Variable):
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype} [nd-parametrization]"
                )
            if original.device != new.device:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the device.\n"
                    f"original.device: {original.device}\nright_inverse(original).device: "
                    f"{new.device} [nd-parametrization]"
                )
            _enter(self, "original", original)
        else:
            for place, value in enumerate(new):
                if not isinstance(value, Variable):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{place} of the sequence with type {type(value).__name__}. [nd-parametrization]"
                    )
                if isinstance(original, Parameter):
                    value = Parameter(value, original.requires_grad)
                _enter(self, f"original{place}", value)
        before = original.detach()
        if isinstance(new, Variable):
            original.data = new  # keeps the object that optimizers refer to
        try:
            if not unsafe:
                self._check(before)
        except BaseException:
            original.data = before
            raise

    def _check(self, before: Tensor) -> None:
        """Raise if the tensor does not have its former shape and dtype."""
        result = self()
        if not isinstance(result, Variable):
            raise ValueError(
                f"A parametrization must return a tensor. Got {type(result).__name__}. [nd-parametrization]"
            )
        for what in ("dtype", "shape"):
            if getattr(before, what) != getattr(result, what):
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized {what}: {getattr(before, what)}\n"
                    f"parametrized {what}: {getattr(result, what)} [nd-parametrization]"
                )

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals such that the tensor has a value, through the functions' own `right_inverse`.

        Args:
            value: new value of the tensor.
        """
        with no_grad():
            new: Any = value
            for module in reversed(self):
                inverse = getattr(module, "right_inverse", None)
                if inverse is None:
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse. Define it, or "
                        "change the original tensor instead. [nd-parametrization]"
                    )
                new = inverse(new)
            if self.is_tensor:
                if not isinstance(new, Variable):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(new).__name__} [nd-parametrization]"
                    )
                self._set("original", new)
                return
            if not isinstance(new, Sequence):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors. Got {type(new)}. [nd-parametrization]"
                )
            if len(new) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(new)}. [nd-parametrization]"
                )
            for place, one in enumerate(new):
                if not isinstance(one, Variable):
                    raise ValueError(
                        "`right_inverse` must return a sequence of tensors. "
                        f"Got element {place} of type {type(one)} [nd-parametrization]"
                    )
                self._set(f"original{place}", one)

    def _set(self, name: str, value: Tensor) -> None:
        original = getattr(self, name)
        if original.dtype != value.dtype:
            raise ValueError(
                f"The tensor `{name}` has dtype {original.dtype}, and `right_inverse` returned {value.dtype}. "
                "Assign a tensor of that dtype. [nd-parametrization]"
            )
        original.data = value.clone() if value is original else value

    def forward(self) -> Tensor:
        if self.is_tensor:
            value = self[0](self.original)
        else:
            value = self[0](*(getattr(self, f"original{place}") for place in range(self.ntensors)))
        for module in list(self)[1:]:
            value = module(value)
        return value


def _enter(owner: Module, name: str, value: Tensor) -> None:
    """Register a tensor as a parameter or buffer, according to its kind."""
    if isinstance(value, Parameter):
        owner.register_parameter(name, value)
    else:
        owner.register_buffer(name, value)


# ----- the class of a module with parametrizations --------------------------------------------------------------------


def _refuse_pickling(self: Module) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(): their class is made for them. "
        "Save state_dict() and load it into a module that was parametrized alike. [nd-pickle]"
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    known = memo.get(id(self))
    if known is not None:
        return known
    made = self.__new__(type(self))
    memo[id(self)] = made
    made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return made


def _give_own_class(module: Module) -> None:
    """Give this object its own class, because properties belong to classes."""
    cls = type(module)
    body: dict[str, Any] = {"__getstate__": _refuse_pickling, "__module__": __name__}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _add_property(module: Module, name: str) -> None:
    def get(self: Any) -> Any:
        if not _cache.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache.computed:
            _cache.computed[key] = (self, self.parametrizations[name]())
        return _cache.computed[key][1]

    def put(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(get, put))


# ----- public functions -----------------------------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a tensor of a module as a function of another one, whenever it is read.

    Several functions of one tensor are composed. Assigned values pass through `parametrization.right_inverse`, if there
    is one.

    Args:
        module: module with the tensor.
        tensor_name: name of the tensor in the module.
        parametrization: module that maps the original to the tensor.
        unsafe: whether it may change shape and dtype, without a check.

    Returns:
        The same module.

    >>> import ndgrad
    >>> from ndgrad.nn.utils.parametrize import register_parametrization
    >>> class Symmetric(ndgrad.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = register_parametrization(ndgrad.nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all()), list(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        functions: Any = _lists(module)[tensor_name]
        if unsafe:
            functions.unsafe = True
        else:
            _check_next(getattr(module, tensor_name), parametrization, tensor_name)
        functions.append(parametrization)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        functions = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        _lists(module)[tensor_name] = functions
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}' [nd-key]"
        )
    return module


def _check_next(before: Tensor, parametrization: Any, name: str) -> None:
    """Raise if another function changes the shape or dtype of the tensor, or its inverse does."""

    def compare(what: str, said: str, value: Any) -> None:
        if not isinstance(value, Variable):
            raise ValueError(f"{said} must return a tensor. Got {type(value).__name__}. [nd-parametrization]")
        for quality in ("dtype", "shape"):
            if getattr(value, quality) != getattr(before, quality):
                raise ValueError(
                    f"{what} may not change the {quality} of the tensor, unless the `unsafe` flag is enabled.\n"
                    f"module.{name}.{quality}: {getattr(before, quality)}\n"
                    f"{said}.{quality}: {getattr(value, quality)} [nd-parametrization]"
                )

    after = parametrization(before)
    compare("Registering a parametrization", f"parametrization(module.{name})", after)
    inverse = getattr(parametrization, "right_inverse", None)
    if inverse is not None:
        with contextlib.suppress(NotImplementedError):
            compare("parametrization.right_inverse", f"parametrization.right_inverse(module.{name})", inverse(after))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """True if a module, or one of its tensors, has parametrizations.

    Args:
        module: module to check.
        tensor_name: name of a tensor. The default is any tensor.

    >>> import ndgrad
    >>> ndgrad.nn.utils.parametrize.is_parametrized(ndgrad.nn.Linear(2, 2), "weight")
    False
    """
    found = module.__dict__["_modules"].get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def _lists(module: Module) -> ModuleDict:
    found = module.parametrizations
    assert isinstance(found, ModuleDict)
    return found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turn a parametrized tensor into an ordinary one.

    Args:
        module: module with the tensor.
        tensor_name: name of the tensor in the module.
        leave_parametrized: whether the tensor keeps its present value. Otherwise it gets that of the original.

    Returns:
        The same module.

    >>> import ndgrad
    >>> import ndgrad.nn.utils.parametrize as parametrize
    >>> layer = parametrize.register_parametrization(ndgrad.nn.Linear(2, 2), "weight", ndgrad.nn.Softplus())
    >>> parametrize.remove_parametrizations(layer, "weight")
    Linear(in_features=2, out_features=2, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name} [nd-key]")
    functions: Any = _lists(module)[tensor_name]
    if functions.is_tensor:
        tensor = functions.original
        if leave_parametrized:
            with no_grad():
                tensor.data = getattr(module, tensor_name).detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        learned = functions.original0.requires_grad
        tensor = Parameter(value.detach(), learned) if learned else value.detach()
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors. [nd-parametrization]"
        )
    delattr(type(module), tensor_name)
    del _lists(module)[tensor_name]
    _enter(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type_before_parametrizations(module)
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class of a module before parametrization.

    Args:
        module: module, parametrized or not.

    >>> import ndgrad
    >>> import ndgrad.nn.utils.parametrize as parametrize
    >>> layer = parametrize.register_parametrization(ndgrad.nn.Linear(2, 2), "weight", ndgrad.nn.Softplus())
    >>> type(layer).__name__, parametrize.type_before_parametrizations(layer).__name__
    ('ParametrizedLinear', 'Linear')
    """
    cls = type(module)
    own = cls.__module__ == __name__ and cls.__name__.startswith("Parametrized") and cls is not ParametrizationList
    return cls.__bases__[0] if own else cls


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Copy the parametrizations and originals of one module to another.

    Args:
        from_module: module with parametrizations.
        to_module: module that receives them.
        tensor_name: name of one tensor. The default is all.

    Returns:
        `to_module`.

    >>> import ndgrad
    >>> import ndgrad.nn.utils.parametrize as parametrize
    >>> layer = parametrize.register_parametrization(ndgrad.nn.Linear(2, 2), "weight", ndgrad.nn.Softplus())
    >>> other = parametrize.transfer_parametrizations_and_params(layer, ndgrad.nn.Linear(2, 2))
    >>> bool((other.weight == layer.weight).all())
    True
    """
    if not is_parametrized(from_module):
        return to_module
    lists = _lists(from_module)
    for name in list(lists) if tensor_name is None else [tensor_name]:
        functions: Any = lists[name]
        if not hasattr(to_module, name):
            with enable_grad():
                value = getattr(from_module, name)
            wanted = isinstance(functions.original if functions.is_tensor else functions.original0, Parameter)
            _enter(to_module, name, Parameter(value) if wanted else value)
        for function in functions:
            register_parametrization(to_module, name, function)
        given: Any = _lists(to_module)[name]
        for key in ["original"] if functions.is_tensor else [f"original{n}" for n in range(functions.ntensors)]:
            setattr(given, key, getattr(functions, key))
    return to_module
