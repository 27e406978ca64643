"""Transforms: maps of numbers, of vectors and to matrices, with the logarithm of the determinant of their Jacobian.

The base class and composed transforms are in `composition`; this module has all of torch's names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import ndgrad
from ndgrad.distributions import constraints
from ndgrad.distributions.composition import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    identity_transform,
)
from ndgrad.distributions.composition import _InverseTransform as _InverseTransform  # torch's location
from ndgrad.distributions.utils import are_all, broadcast_all, tril_matrix_to_vec, vec_to_tril_matrix
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.constraints import Constraint
    from ndgrad.distributions.distribution import Distribution
    from ndgrad.distributions.utils import Parameter

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
    "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform", "identity_transform",
]  # fmt: skip


# ----- maps of numbers ------------------------------------------------------------------------------------------------


class ExpTransform(Transform):
    """Map x to exp(x).

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.ExpTransform()(ndgrad.tensor(0.0))
    tensor(1.)
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """Map positive numbers to a power of them, `x ** exponent`.

    Args:
        exponent: exponent, a number or a tensor that broadcasts.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.PowerTransform(2.0)(ndgrad.tensor(3.0))
    tensor(9.)
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Parameter, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _all_equal(self.exponent, other.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return ndgrad.broadcast_shapes(tuple(shape), self.exponent.shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return ndgrad.broadcast_shapes(tuple(shape), self.exponent.shape)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the logistic function, kept away from 0 and 1, where its inverse is infinite."""
    info = ndgrad.finfo(x.dtype)
    return ndgrad.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(Transform):
    """Map x to 1 / (1 + exp(-x)). The inverse is the logit.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.SigmoidTransform()(ndgrad.tensor(0.0))
    tensor(0.5000)
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigmoidTransform)

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        info = ndgrad.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Transform):
    """Map x to log(1 + exp(x)).

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.SoftplusTransform()(ndgrad.tensor(0.0))
    tensor(0.6931)
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftplusTransform)

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(Transform):
    """Map x to tanh(x). Use `cache_size=1` to invert samples: far from 0, the inverse loses their digits.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.TanhTransform()(ndgrad.tensor(0.0))
    tensor(0.)
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TanhTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ndgrad.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _log_sech_squared(x)


def _log_sech_squared(x: Tensor) -> Tensor:
    """Return log(1 - tanh(x)^2), without underflow."""
    return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """Map x to |x|. The inverse returns the positive solution.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.AbsTransform()(ndgrad.tensor(-1.0))
    tensor(1.)
    """

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """Map x to `loc + scale * x`.

    Args:
        loc: shift, a number or a tensor.
        scale: factor, a number or a tensor, not 0.
        event_dim: number of dimensions of a value: 0 for numbers, 1 for vectors and so on.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.AffineTransform(1.0, 2.0)(ndgrad.tensor(3.0))
    tensor(7.)
    """

    bijective = True

    def __init__(self, loc: Parameter, scale: Parameter, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, self.event_dim) if self.event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self.domain

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _all_equal(self.loc, other.loc) and _all_equal(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        scale = self.scale
        return scale.sign() if isinstance(scale, ndgrad.Tensor) else (scale > 0) - (scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale
        if isinstance(scale, ndgrad.Tensor):
            result = scale.abs().log()
        else:
            result = ndgrad.full_like(x, math.log(abs(scale)))
        shape = x.shape
        if self.event_dim:
            result = result.reshape((*result.shape[: result.ndim - self.event_dim], -1)).sum(-1)
            shape = shape[: len(shape) - self.event_dim]
        return result.expand(shape)

    def _shape(self, shape: Sequence[int]) -> Sequence[int]:
        sizes = [tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale)]
        return ndgrad.broadcast_shapes(tuple(shape), *sizes)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._shape(shape)


def _all_equal(a: Parameter, b: Parameter) -> bool:
    if a is b:
        return True
    same: Any = a == b
    return are_all(same) if isinstance(same, ndgrad.Tensor) else bool(same)


class CumulativeDistributionTransform(Transform):
    """Map x to distribution.cdf(x): the probability integral transform.

    Args:
        distribution: distribution with `cdf`, and with `icdf` for the inverse.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> from ndgrad.distributions import CumulativeDistributionTransform, Normal
    >>> CumulativeDistributionTransform(Normal(0.0, 1.0))(ndgrad.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)


# ----- maps of vectors ------------------------------------------------------------------------------------------------


class SoftmaxTransform(Transform):
    """Map vectors to probabilities, exp(x) / sum(exp(x)) along the last dimension. The inverse is log(y).

    The map is not bijective: the same shift of all elements changes nothing.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.SoftmaxTransform()(ndgrad.tensor([0.0, 0.0]))
    tensor([0.5000, 0.5000])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def _call(self, x: Tensor) -> Tensor:
        return F.softmax(x, dim=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _with_dimensions(shape, 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _with_dimensions(shape, 1)


def _with_dimensions(shape: Sequence[int], least: int) -> Sequence[int]:
    if len(shape) < least:
        raise ValueError(
            f"Too few dimensions on input: the shape is {tuple(shape)}, and a value has {least}. [nd-ndim]"
        )
    return shape


class StickBreakingTransform(Transform):
    """Map n - 1 real numbers to n probabilities: the sigmoid of each is the share broken off the rest of a stick. An
    offset makes 0 give equal parts.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.StickBreakingTransform()(ndgrad.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    def _centre(self, x: Tensor) -> Tensor:
        """Return x - log(n - 1, n - 2, ..., 1), the numbers of remaining parts."""
        follow = ndgrad.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device)
        return x - follow.log()

    def _call(self, x: Tensor) -> Tensor:
        broken = _clipped_sigmoid(self._centre(x))
        left = (1 - broken).cumprod(-1)
        return F.pad(broken, [0, 1], value=1.0) * F.pad(left, [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        follow = ndgrad.arange(parts.shape[-1], 0, -1, dtype=y.dtype, device=y.device)
        left = (1 - parts.cumsum(-1)).clamp(min=ndgrad.finfo(y.dtype).tiny)
        return parts.log() - left.log() + follow.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx|. The Jacobian is triangular, with y_i (1 - sigmoid) on its diagonal.

        Args:
            x: vectors of the domain.
            y: their images.
        """
        x = self._centre(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        shape = _with_dimensions(shape, 1)
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        shape = _with_dimensions(shape, 1)
        return (*shape[:-1], shape[-1] - 1)


# ----- maps to matrices -----------------------------------------------------------------------------------------------


class CorrCholeskyTransform(Transform):
    """Map n (n - 1) / 2 real numbers to the Cholesky factor of a correlation matrix of n rows.

    The hyperbolic tangents of the numbers are partial correlations r below the diagonal: each takes its share of the
    remaining norm of its row, y_ij = r_ij sqrt(1 - sum over k < j of y_ik^2).

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.CorrCholeskyTransform()(ndgrad.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = ndgrad.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)
        whole = r + ndgrad.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return whole * F.pad(left[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1.0)
        r = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (r.log1p() - (-r).log1p()) / 2  # artanh

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx|. dy_ij/dr_ij is the root of the remaining norm for j > 0, and dr/dx is 1 - r^2.

        Args:
            x: vectors of the domain.
            y: their images.
        """
        left = 1 - (y * y).cumsum(-1)
        rows = 0.5 * tril_matrix_to_vec(left, diag=-2).log().sum(-1)
        return rows + _log_sech_squared(x).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        shape = _with_dimensions(shape, 1)
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(
                f"Input is not a flattened lower-diagonal number: {shape[-1]} is not n (n - 1) / 2 for any n. "
                "[nd-shape]"
            )
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        shape = _with_dimensions(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: its shape is {tuple(shape)}. [nd-matrix]")
        n = shape[-1]
        return (*shape[:-2], n * (n - 1) // 2)


class LowerCholeskyTransform(Transform):
    """The lower triangle of a matrix, with the exponential of its diagonal.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.LowerCholeskyTransform()(ndgrad.ones(2, 2))
    tensor([[2.7183, 0.0000],
            [1.0000, 2.7183]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Map a matrix to a positive definite one, whose Cholesky factor comes from LowerCholeskyTransform.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.PositiveDefiniteTransform()(ndgrad.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(ndgrad.linalg.cholesky(y))
