"""torch's `distributed.fsdp.wrap`: policies that decide which submodules are divided as units of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.nn.modules.module import Module

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "lambda_auto_wrap_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]  # fmt: skip

#: A policy: (module, recurse, nonwrapped_numel) -> whether to look inside it, or to divide it as a unit.
Policy = Callable[..., bool]


def always_wrap_policy(module: Module, recurse: bool, nonwrapped_numel: int) -> bool:
    """Divide every submodule as a unit of its own.

    Args:
        module: submodule in question.
        recurse: True for the question whether to look into the module, False for the question whether it is a unit.
        nonwrapped_numel: number of elements of its parameters that belong to no unit yet.

    >>> from ndgrad.distributed.fsdp.wrap import always_wrap_policy
    >>> always_wrap_policy(ndgrad.nn.ReLU(), recurse=False, nonwrapped_numel=0)
    True
    """
    return recurse or (isinstance(module, Module) and nonwrapped_numel >= 0)


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Divide the submodules for which `lambda_fn` is true.

    Args:
        module: submodule in question.
        recurse: True for the question whether to look into the module, False for the question whether it is a unit.
        nonwrapped_numel: number of elements of its parameters that belong to no unit yet.
        lambda_fn: function that returns whether a module is a unit.
    """
    return recurse or (nonwrapped_numel >= 0 and bool(lambda_fn(module)))


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type[Module]]
) -> bool:
    """Divide the submodules of the classes `transformer_layer_cls`.

    Args:
        module: submodule in question.
        recurse: True for the question whether to look into the module, False for the question whether it is a unit.
        nonwrapped_numel: number of elements of its parameters that belong to no unit yet.
        transformer_layer_cls: classes of units.
    """
    return recurse or (nonwrapped_numel >= 0 and isinstance(module, tuple(transformer_layer_cls)))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Divide submodules whose parameters outside of smaller units are at least `min_num_params`. Modules of
    `force_leaf_modules`, by default attention, are not looked into. Modules of `exclude_wrap_modules`, by default lists
    and dicts of modules, are no units.

    Args:
        module: submodule in question.
        recurse: True for the question whether to look into the module, False for the question whether it is a unit.
        nonwrapped_numel: number of elements of its parameters that belong to no unit yet.
        min_num_params: smallest number of elements of a unit.
        force_leaf_modules: classes that are not looked into. The default is attention.
        exclude_wrap_modules: classes that are no units. The default is lists and dicts of modules.

    >>> from ndgrad.distributed.fsdp.wrap import size_based_auto_wrap_policy
    >>> size_based_auto_wrap_policy(ndgrad.nn.Linear(4, 4), False, 20, min_num_params=10)
    True
    """
    from ndgrad.nn.modules.attention import MultiheadAttention  # avoids an import cycle
    from ndgrad.nn.modules.container import ModuleDict, ModuleList

    leaves = (MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    excluded = (ModuleList, ModuleDict) if exclude_wrap_modules is None else tuple(exclude_wrap_modules)
    is_large = nonwrapped_numel >= min_num_params
    return is_large and not isinstance(module, leaves if recurse else excluded)


class ModuleWrapPolicy:
    """Divide the submodules of given classes.

    Args:
        module_classes: classes of units.

    >>> from ndgrad.distributed.fsdp.wrap import ModuleWrapPolicy
    >>> ModuleWrapPolicy({ndgrad.nn.Linear})(ndgrad.nn.Linear(1, 1), recurse=False, nonwrapped_numel=2)
    True
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self.module_classes = tuple(module_classes)

    def __call__(self, module: Module, recurse: bool = False, nonwrapped_numel: int = 0) -> bool:
        return recurse or (nonwrapped_numel >= 0 and isinstance(module, self.module_classes))


class CustomPolicy:
    """Divide the submodules for which a function is true. It may return a dict of settings for the unit, too.

    Args:
        lambda_fn: function of a module that returns a bool, or a dict of settings.

    >>> from ndgrad.distributed.fsdp.wrap import CustomPolicy
    >>> CustomPolicy(lambda module: isinstance(module, ndgrad.nn.Linear)).settings_of(ndgrad.nn.ReLU()) is None
    True
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._function = lambda_fn

    def settings_of(self, module: Module) -> dict[str, Any] | None:
        """Return the settings of a unit, or None if the module is none.

        Args:
            module: submodule in question.
        """
        found = self._function(module)
        if not isinstance(found, (bool, dict)):
            raise ValueError(f"CustomPolicy: the function returned {found!r}: give a bool or a dict. [nd-type]")
        return found if isinstance(found, dict) else {} if found else None


_refuse_absent(__name__)
