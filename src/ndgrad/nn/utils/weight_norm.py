"""Weight normalisation in its older form: two parameters and a hook that computes the weight before each forward.

New programs use `nn.utils.parametrizations.weight_norm`, which computes the same.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter, is_lazy

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

T_module = TypeVar("T_module", bound=Module)


def norm_except_dim(v: Tensor, pow: float = 2, dim: int = 0) -> Tensor:
    """Return the norms of the slices of a tensor along a dimension, which is kept; for dim -1, of the whole tensor.

    >>> import ndgrad
    >>> from ndgrad.nn.utils.weight_norm import norm_except_dim
    >>> norm_except_dim(ndgrad.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return v.norm(pow)
    if not 0 <= dim < v.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-1, {v.dim() - 1}], but got {dim}): a norm per place "
            "along it. [nd-dim]"
        )
    others = tuple(d for d in range(v.dim()) if d != dim)
    return v.norm(pow, others, keepdim=True) if others else v.abs()


def scale_slices(v: Tensor, g: Tensor, dim: int) -> Tensor:
    """Return a tensor whose slices have the directions of v's and the norms g."""
    return v * (g / norm_except_dim(v, 2, dim))


class WeightNorm:
    """The hook of `weight_norm`.

    Args:
        name: name of the weight in the module.
        dim: dimension of the slices. None is one norm for the whole weight.
    """

    name: str
    dim: int

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """Return the weight from its norms and directions.

        Args:
            module: module with the two parameters.
        """
        return scale_slices(getattr(module, self.name + "_v"), getattr(module, self.name + "_g"), self.dim)

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Register the hook in a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            dim: dimension of the slices. None is one norm for the whole weight.

        Returns:
            The hook.
        """
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of `torch.nn.utils.parametrizations.weight_norm`, "
            "which computes the same.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name} [nd-parametrization]"
                )
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying weight normalization [nd-lazy]"
            )
        del module._parameters[name]
        module.register_parameter(name + "_g", Parameter(norm_except_dim(weight.detach(), 2, made.dim)))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Module) -> None:
        """Merge the two parameters into one again.

        Args:
            module: module with the two parameters.
        """
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: T_module, name: str = "weight", dim: int | None = 0) -> T_module:
    """Learn the norms of a weight's slices along `dim` (`weight_g`) separately from their directions (`weight_v`).

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        dim: dimension of the slices. None is one norm for the whole weight.

    Returns:
        The same module.

    >>> import ndgrad
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # it is the older form
    ...     layer = ndgrad.nn.utils.weight_norm(ndgrad.nn.Linear(3, 2))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (ndgrad.Size([2, 1]), ndgrad.Size([2, 3]))
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: T_module, name: str = "weight") -> T_module:
    """Merge the two parameters of `weight_norm` into one again.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.

    Returns:
        The same module.

    >>> import ndgrad
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     layer = ndgrad.nn.utils.weight_norm(ndgrad.nn.Linear(3, 2))
    >>> list(ndgrad.nn.utils.remove_weight_norm(layer).state_dict())
    ['bias', 'weight']
    """
    remove_hook(module, WeightNorm, name, "weight_norm")
    return module


def remove_hook(module: Module, kind: type[Any], name: str, said: str) -> Any:
    """Remove the hook of such a reparametrisation from a module; the hook merges its parameters into one."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return hook
    raise ValueError(f"{said} of '{name}' not found in {module} [nd-key]")


