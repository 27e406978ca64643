"""Predefined parametrizations: orthogonal matrices, weights of spectral norm one, and separate norms and directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.functions.creation import eye
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.tensor.functions.join import cat
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nn.functional.distance import normalize
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import is_lazy
from ndgrad.nn.utils import parametrize
from ndgrad.nn.utils.spectral_norm import iterate, matrix_of, usual_dim
from ndgrad.nn.utils.weight_norm import norm_except_dim, scale_slices

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _tensor_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if weight is None or not hasattr(weight, "requires_grad"):
        raise ValueError(
            f"Module '{module}' has no parameter or buffer with name '{name}'. Give the name of one of its tensors. "
            "[nd-key]"
        )
    if is_lazy(weight):
        raise RuntimeError(
            f"'{name}' of {type(module).__name__} has no shape yet. Run the module once before it is parametrized. "
            "[nd-lazy]"
        )
    return weight


# ----- orthogonal matrices --------------------------------------------------------------------------------------------


def _exponential(square: Tensor) -> Tensor:
    """Return exp(S) of the skew-symmetric S = L - L^H, where L is the lower triangle."""
    from ndgrad.linalg import matrix_exp  # linear algebra is loaded on use

    lower = square.tril()
    return matrix_exp(lower - lower.mH)


def _cayley(square: Tensor) -> Tensor:
    """Return (I - S/2)^-1 (I + S/2), which is I + (I - S/2)^-1 S."""
    from ndgrad.linalg import solve  # linear algebra is loaded on use

    lower = square.tril()
    skew = lower - lower.mH
    one = eye(skew.shape[-1], dtype=skew.dtype, device=skew.device)
    return one + solve(one - skew / 2, skew)


def _multiply_reflections(tall: Tensor) -> Tensor:
    """Return the first columns of a product of reflections, one for each column below the diagonal; the diagonal has
    signs.
    """
    from ndgrad.linalg import householder_product  # linear algebra is loaded on use

    vectors = tall.tril(-1)  # householder_product assumes a one above each of them
    reflected = householder_product(vectors, 2 / (1 + vectors.square().sum(-2)))
    return reflected * tall.diagonal(dim1=-2, dim2=-1).trunc().unsqueeze(-2)


#: Name -> map from square matrices to orthogonal ones, or (householder) from tall matrices to their columns.
_MAPS = {"matrix_exp": _exponential, "cayley": _cayley, "householder": _multiply_reflections}


class _Orthogonal(Module):
    """Map any matrix to one with orthonormal columns, or rows if it is wide, by one of `_MAPS`.

    With trivialization the result is multiplied by a `base`, so that any orthogonal matrix can be assigned: it becomes
    the base, and the original a matrix whose image is the identity.
    """

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        if orthogonal_map == "householder" and weight.is_complex():
            raise ValueError("The householder parametrization does not support complex tensors. [nd-complex]")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.is_wide = weight.shape[-2] < weight.shape[-1]
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, original: Tensor) -> Tensor:
        tall = original.mT if self.is_wide else original
        rows, columns = tall.shape[-2:]
        if self.orthogonal_map == "householder" or rows == columns:
            made = _MAPS[self.orthogonal_map](tall)
        else:
            beside = tall.new_zeros(*tall.shape[:-1], rows - columns)
            made = _MAPS[self.orthogonal_map](cat([tall, beside], -1))[..., :columns]
        base = getattr(self, "base", None)
        made = made if base is None else base @ made
        return made.mT if self.is_wide else made

    def right_inverse(self, value: Tensor) -> Tensor:
        if value.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {tuple(self.shape)}. "
                f"Got a tensor of shape {tuple(value.shape)}. [nd-shape]"
            )
        tall = value.mT if self.is_wide else value
        if hasattr(self, "base"):
            self.base = _complete_basis(tall)
            # With -1 on the diagonal and 0 below, S is zero, and the signs undo the reflections along the axes.
            diagonal = eye(*value.shape[-2:], dtype=value.dtype, device=value.device)
            return -diagonal.expand(value.shape).clone()
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False. [nd-parametrization]"
            )
        found = _reflectors(tall)
        return found.mT if self.is_wide else found


def _complete_basis(tall: Tensor) -> Tensor:
    """Return a square orthogonal matrix that begins with the columns of another, orthonormalised if necessary."""
    from ndgrad.linalg import qr  # linear algebra is loaded on use

    rows, columns = tall.shape[-2:]
    if rows == columns and _is_orthogonal(tall):
        return tall
    beside = tall.new_empty(*tall.shape[:-1], rows - columns).normal_()
    factor, upper = qr(cat([tall, beside], -1))
    return factor * upper.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _reflectors(Q: Tensor) -> Tensor:
    """Return Householder vectors whose product with signs is the orthogonal factor of a tall matrix: vectors below the
    diagonal, signs on it.
    """
    raw, scales = np.linalg.qr(Q.detach().cpu().numpy(), mode="raw")
    X = np.array(np.swapaxes(raw, -1, -2))
    signs = np.sign(np.diagonal(X, axis1=-2, axis2=-1))
    # LAPACK skips a vector (scale 0) along which forward reflects.
    signs = np.where(scales == 0, -signs, signs)
    places = np.arange(signs.shape[-1])
    X[..., places, places] = signs
    return as_tensor(X, dtype=Q.dtype, device=Q.device)


def _is_orthogonal(Q: Tensor) -> bool:
    """True if the columns are orthonormal, up to rounding."""
    k = Q.shape[-1]
    error = (Q.mH @ Q - eye(k, dtype=Q.dtype, device=Q.device)).abs()
    return bool((error <= 10.0 * Q.shape[-2] * np.finfo(error.detach().cpu().numpy().dtype).eps).all())


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight orthogonal: its columns orthonormal, or its rows if it is wide.

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        orthogonal_map: `"matrix_exp"`, `"cayley"` or `"householder"`. The default is the first for square and for
            complex weights, and the last for others.
        use_trivialization: whether any orthogonal matrix may be assigned to the weight. It adds a buffer `base`.

    Returns:
        The same module.

    >>> import ndgrad
    >>> layer = ndgrad.nn.utils.parametrizations.orthogonal(ndgrad.nn.Linear(3, 3))
    >>> bool((layer.weight @ layer.weight.mT - ndgrad.eye(3)).abs().max() < 1e-5)
    True
    """
    weight = _tensor_of(module, name)
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions. [nd-matrix]"
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map} [nd-option]'
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


# ----- norms apart from directions ------------------------------------------------------------------------------------


class _WeightNorm(Module):
    """Map norms and directions to a weight."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scale_slices(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the norms of a weight's slices along `dim` separately from their directions (Salimans and Kingma, 2016).

    Args:
        module: module with the tensor.
        name: name of the tensor in the module.
        dim: dimension of the slices. None is one norm for the whole weight.

    Returns:
        The same module.

    >>> import ndgrad
    >>> layer = ndgrad.nn.utils.parametrizations.weight_norm(ndgrad.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape
    ndgrad.Size([2, 1])
    """
    _tensor_of(module, name)
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Convert a state dict of the older form."""
        old = [f"{prefix}{name}{suffix}" for suffix in ("_g", "_v")]
        if all(key in state_dict for key in old):
            for place, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{place}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


# ----- largest singular values ----------------------------------------------------------------------------------------


class _SpectralNorm(Module):
    """Divide a weight by an estimate of its largest singular value."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        dims = weight.dim()
        if not -dims <= dim < dims:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{dims}, {dims - 1}] but got {dim}) [nd-dim]"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations} "
                "[nd-range]"
            )
        self.dim = dim if dim >= 0 else dim + dims
        self.eps = eps
        if dims > 1:  # a vector is divided by its length
            self.n_power_iterations = n_power_iterations
            with no_grad():
                matrix = matrix_of(weight, self.dim)
                u, v = (normalize(matrix.new_empty(n).normal_(0, 1), dim=0, eps=eps) for n in matrix.shape)
                v, u = iterate(matrix.mT, v, u, 15, eps)  # the left vector comes first in an iteration
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            with no_grad():
                v, u = iterate(matrix.mT, self._v, self._u, self.n_power_iterations, self.eps)
                self._u.copy_(u)
                self._v.copy_(v)
        # The graph keeps copies: the next forward overwrites the buffers.
        u, v = self._u.clone(), self._v.clone()
        return weight / u.dot(matrix.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
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
    >>> layer = ndgrad.nn.utils.parametrizations.spectral_norm(ndgrad.nn.Linear(3, 2), n_power_iterations=30)
    >>> bool((ndgrad.linalg.matrix_norm(layer.weight, 2) - 1).abs() < 1e-4)
    True
    """
    weight = _tensor_of(module, name)
    made = _SpectralNorm(weight, n_power_iterations, usual_dim(module, dim), eps)
    return parametrize.register_parametrization(module, name, made)
