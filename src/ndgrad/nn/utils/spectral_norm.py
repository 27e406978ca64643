"""Spectral normalisation in its older form: a hook that divides the weight by its largest singular value.

New programs use `nn.utils.parametrizations.spectral_norm`, which computes the same. This file has the functions that
both share: a weight as a matrix, and power iterations for its leading singular vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.functions.creation import empty
from ndgrad.nn.functional.distance import normalize
from ndgrad.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter, is_lazy
from ndgrad.nn.utils.weight_norm import remove_hook

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

T_module = TypeVar("T_module", bound=Module)


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """Return a weight as a matrix whose rows correspond to the dimension `dim`."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def iterate(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> tuple[Tensor, Tensor]:
    """Return left and right singular vectors after some power iterations."""
    for _ in range(times):
        v = normalize(matrix.mT.mv(u), dim=0, eps=eps)
        u = normalize(matrix.mv(v), dim=0, eps=eps)
    return u, v


def usual_dim(module: Module, dim: int | None) -> int:
    """Return the dimension of the weight along which the outputs of a module lie."""
    if dim is not None:
        return dim
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class SpectralNorm:
    """The hook of `spectral_norm`.

    Args:
        name: name of the weight in the module.
        n_power_iterations: number of power iterations in each forward pass in training.
        dim: dimension of the outputs.
        eps: smallest norm by which vectors are divided.
    """

    #: Version of the state dict: since version 1, `weight_v` in addition to `weight_u`.
    _version: int = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations} "
                "[nd-range]"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return a weight as a matrix with one row per output.

        Args:
            weight: weight of any shape.
        """
        return matrix_of(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the weight divided by the estimate of its largest singular value.

        Args:
            module: module with the weight.
            do_power_iteration: whether the estimate is improved first.
        """
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = matrix_of(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                better_u, better_v = iterate(matrix, u, v, self.n_power_iterations, self.eps)
                u.copy_(better_u)
                v.copy_(better_v)
                # The graph keeps these: the next forward overwrites the buffers.
                u, v = u.clone(), v.clone()
        return weight / u.dot(matrix.mv(v))

    def remove(self, module: Module) -> None:
        """Turn the weight back into an ordinary parameter.

        Args:
            module: module with the weight.
        """
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Register the hook in a module.

        Args:
            module: module with the tensor.
            name: name of the tensor in the module.
            n_power_iterations: number of power iterations in each forward pass in training.
            dim: dimension of the outputs.
            eps: smallest norm by which vectors are divided.

        Returns:
            The hook.
        """
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two spectral_norm hooks on the same parameter {name} [nd-parametrization]"
                )
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None [nd-parametrization]")
        if is_lazy(weight):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. Make sure to run the dummy "
                "forward before applying spectral normalization [nd-lazy]"
            )
        with no_grad():
            rows, columns = matrix_of(weight, dim).shape
            u, v = (
                normalize(empty(n, dtype=weight.dtype, device=weight.device).normal_(0, 1), dim=0, eps=eps)
                for n in (rows, columns)
            )
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # Not a parameter: it is computed before each forward.
        setattr(module, name, weight.detach())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(_Saving(made))
        module._register_load_state_dict_pre_hook(_Loading(made))
        return made


class _Loading:
    """Pre-load hook: add `weight_v` to a state saved without it (version 0)."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.fn = hook

    def __call__(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str], *rest: Any
    ) -> None:
        fn = self.fn
        version = local_metadata.get("spectral_norm", {}).get(fn.name + ".version")
        key = prefix + fn.name
        if (version is not None and version >= 1) or key + "_v" in state_dict:
            return
        if not all(key + suffix in state_dict for suffix in ("_orig", "", "_u")):
            return  # strict loading reports the missing names
        from ndgrad.linalg import pinv  # linear algebra is loaded on use

        with no_grad():
            weight, u = state_dict[key + "_orig"], state_dict[key + "_u"]
            matrix = matrix_of(weight, fn.dim)
            sigma = (weight / state_dict.pop(key)).mean()
            # The shortest v with W v along u, scaled so that u . W v is the divisor of the weight.
            direction = pinv(matrix).mv(u)
            state_dict[key + "_v"] = direction * (sigma / u.dot(matrix.mv(direction)))


class _Saving:
    """Post-save hook: store the version of the hook's state."""

    def __init__(self, hook: SpectralNorm) -> None:
        self.fn = hook

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key} [nd-parametrization]")
        versions[key] = self.fn._version


SpectralNormLoadStateDictPreHook = _Loading
SpectralNormStateDictHook = _Saving


def spectral_norm(
    module: T_module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> T_module:
    """Divide a weight by an estimate of its largest singular value, which each forward in training improves.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        n_power_iterations: number of power iterations in each forward pass in training.
        eps: smallest norm by which vectors are divided.
        dim: dimension of the outputs. The default is 1 for transposed convolutions and 0 for other modules.

    Returns:
        The same module.

    >>> import ndgrad
    >>> layer = ndgrad.nn.utils.spectral_norm(ndgrad.nn.Linear(3, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    SpectralNorm.apply(module, name, n_power_iterations, usual_dim(module, dim), eps)
    return module


def remove_spectral_norm(module: T_module, name: str = "weight") -> T_module:
    """Turn a weight under `spectral_norm` back into an ordinary parameter.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.

    Returns:
        The same module.

    >>> import ndgrad
    >>> layer = ndgrad.nn.utils.spectral_norm(ndgrad.nn.Linear(3, 2))
    >>> list(ndgrad.nn.utils.remove_spectral_norm(layer).state_dict())
    ['bias', 'weight']
    """
    hook = remove_hook(module, SpectralNorm, name, "spectral_norm")
    for hooks, kind in ((module._state_dict_hooks, _Saving), (module._load_state_dict_pre_hooks, _Loading)):
        for key, other in list(hooks.items()):
            other = getattr(other, "hook", other)
            if isinstance(other, kind) and other.fn is hook:
                del hooks[key]
    return module
