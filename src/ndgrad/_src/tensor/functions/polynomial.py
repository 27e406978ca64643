"""Orthogonal polynomials under torch's names. Degrees are truncated to integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import get_default_dtype
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops import cast
from ndgrad._src.ops.polynomial import orthogonal_polynomial
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._typing import Payload, TensorLike

__all__ = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
]  # fmt: skip


def _polynomial(name: str, family: str, x: Payload, n: Any, out: Tensor | None, *, shifted: bool = False) -> Tensor:
    if not isinstance(x, Variable) and not isinstance(n, Variable):
        raise TypeError(
            f"{name}(): one of x and n must be a tensor, but they are {type(x).__name__} and {type(n).__name__}. "
            "[nd-type]"
        )
    for value in (x, n):
        if value.is_complex() if isinstance(value, Variable) else isinstance(value, complex):
            raise NotImplementedError(
                f"{name}() is not implemented for complex numbers. Apply it to a real tensor (.real, .abs()). "
                "[nd-complex]"
            )
    if not isinstance(x, Variable):
        x = wrap(n.tensor_type, np.asarray(x, get_default_dtype().numpy))
    if not is_inexact(np_dtype(x)) and not (isinstance(n, Variable) and is_inexact(np_dtype(n))):
        x = cast.cast(x, dtype=get_default_dtype().numpy)
    if shifted:
        x = 2 * x - 1
    return deliver(
        name, orthogonal_polynomial(x, n, family=family), out, *(v for v in (x, n) if isinstance(v, Variable))
    )


def chebyshev_polynomial_t(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the first kind: cos(n arccos x).

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.chebyshev_polynomial_t(ndgrad.tensor([0.5]), 2)
    tensor([-0.5000])
    """
    return _polynomial("chebyshev_polynomial_t", "chebyshev_t", x, n, out)


def chebyshev_polynomial_u(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the second kind: sin((n + 1) arccos x) / sin(arccos x).

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.chebyshev_polynomial_u(ndgrad.tensor([0.5]), 3)
    tensor([-1.])
    """
    return _polynomial("chebyshev_polynomial_u", "chebyshev_u", x, n, out)


def chebyshev_polynomial_v(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the third kind.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.chebyshev_polynomial_v(ndgrad.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _polynomial("chebyshev_polynomial_v", "chebyshev_v", x, n, out)


def chebyshev_polynomial_w(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the fourth kind.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.chebyshev_polynomial_w(ndgrad.tensor([0.5]), 2)
    tensor([1.])
    """
    return _polynomial("chebyshev_polynomial_w", "chebyshev_w", x, n, out)


def hermite_polynomial_h(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Hermite polynomials of physicists: the first one is 2x.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.hermite_polynomial_h(ndgrad.tensor([0.5]), 2)
    tensor([-1.])
    """
    return _polynomial("hermite_polynomial_h", "hermite_h", x, n, out)


def hermite_polynomial_he(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Hermite polynomials of probabilists: the first one is x.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.hermite_polynomial_he(ndgrad.tensor([0.5]), 2)
    tensor([-0.7500])
    """
    return _polynomial("hermite_polynomial_he", "hermite_he", x, n, out)


def laguerre_polynomial_l(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Laguerre polynomials.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.laguerre_polynomial_l(ndgrad.tensor([0.5]), 2)
    tensor([0.1250])
    """
    return _polynomial("laguerre_polynomial_l", "laguerre_l", x, n, out)


def legendre_polynomial_p(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Legendre polynomials.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.legendre_polynomial_p(ndgrad.tensor([0.5]), 2)
    tensor([-0.1250])
    """
    return _polynomial("legendre_polynomial_p", "legendre_p", x, n, out)


def shifted_chebyshev_polynomial_t(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the first kind of 2x - 1.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.shifted_chebyshev_polynomial_t(ndgrad.tensor([0.75]), 2)
    tensor([-0.5000])
    """
    return _polynomial("shifted_chebyshev_polynomial_t", "chebyshev_t", x, n, out, shifted=True)


def shifted_chebyshev_polynomial_u(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the second kind of 2x - 1.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.shifted_chebyshev_polynomial_u(ndgrad.tensor([0.75]), 3)
    tensor([-1.])
    """
    return _polynomial("shifted_chebyshev_polynomial_u", "chebyshev_u", x, n, out, shifted=True)


def shifted_chebyshev_polynomial_v(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the third kind of 2x - 1.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.shifted_chebyshev_polynomial_v(ndgrad.tensor([0.75]), 2)
    tensor([-1.])
    """
    return _polynomial("shifted_chebyshev_polynomial_v", "chebyshev_v", x, n, out, shifted=True)


def shifted_chebyshev_polynomial_w(x: TensorLike, n: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Chebyshev polynomials of the fourth kind of 2x - 1.

    Args:
        x: points, a tensor or a number.
        n: degrees, a tensor or a number, which broadcast with `x`. At least one of both is a tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.shifted_chebyshev_polynomial_w(ndgrad.tensor([0.75]), 2)
    tensor([1.])
    """
    return _polynomial("shifted_chebyshev_polynomial_w", "chebyshev_w", x, n, out, shifted=True)
