"""Hooks, under torch's module name: the handle of a registered hook, and warnings for hooks of saved tensors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., Any])


def unserializable_hook(f: F) -> F:
    """Decorate a hook to suppress the warning of `warn_if_has_hooks`.

    Args:
        f: hook.

    >>> from ndgrad.utils.hooks import unserializable_hook
    >>> unserializable_hook(lambda g: None).__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]  # torch's mark
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn about hooks of a tensor that would be lost by saving it.

    Args:
        tensor: tensor to check.

    >>> import ndgrad
    >>> ndgrad.utils.hooks.warn_if_has_hooks(ndgrad.ones(2, requires_grad=True))
    """
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the "
                "function with @ndgrad.utils.hooks.unserializable_hook to suppress this warning.",
                stacklevel=2,
            )


_refuse_absent(__name__)
