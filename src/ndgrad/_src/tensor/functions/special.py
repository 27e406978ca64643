"""Special functions under torch's names: those of torch.special and the older ones (`lgamma`, `igamma`, `mvlgamma`).

Most are exactly ops of the table. This file adds the order of arguments, which differs between functions and methods
(`polygamma(n, x)` and `x.polygamma(n)`), and checks of integer arguments. Functions that ndgrad has anyway (`exp2`,
`sinc`, `softmax`, ...) are collected in ndgrad.special.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.inplace import write
from ndgrad._src.core.out_argument import write_out
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, bessel, bessel_order, exponential, gamma, probability, trigonometric
from ndgrad._src.tensor.arguments import as_integer

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Tensor, TensorLike

__all__ = ["mvlgamma", "polygamma"]
METHODS = ("mvlgamma", "mvlgamma_", "polygamma_")
RENAMED_METHODS = {"polygamma": "polygamma_method"}

def _run(op: Op, args: tuple[TensorLike, ...], out: Tensor | None, **settings: Any) -> Tensor:
    """Run an op on its array arguments, and write into `out` if that is given."""
    if out is None:
        return op.eager(*args, **settings)
    return write_out(op, args, {**op.settings, **settings}, out)


# ----- gamma ----------------------------------------------------------------------------------------------------------


def gammaln(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.gammaln(ndgrad.tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """
    return _run(gamma.lgamma, (input,), out)


def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of `gammaln`.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.digamma(ndgrad.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """
    return _run(gamma.digamma, (input,), out)


psi = digamma


def _check_order(n: int) -> int:
    order = as_integer("polygamma", "n", n)
    if order < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, but n is {order}. Give 0 or more. [nd-range]")
    return order


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of `digamma`.

    Args:
        n: order of the derivative, at least 0.
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.polygamma(1, ndgrad.tensor([1.0]))
    tensor([1.6449])
    """
    return _run(gamma.polygamma, (input,), out, order=_check_order(n))


def polygamma_method(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of `digamma`, of this tensor.

    Args:
        self: real tensor.
        n: order of the derivative, at least 0.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return gamma.polygamma(self, order=_check_order(n))


def polygamma_(self: Tensor, n: int) -> Tensor:
    """In-place version of `polygamma`.

    Args:
        self: tensor to change.
        n: order of the derivative, at least 0.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0]).polygamma_(1)
    tensor([1.6449])
    """
    return write(gamma.polygamma, self, (), {"order": _check_order(n)})


def _check_dimension(input: Tensor, p: int) -> int:
    count = as_integer("mvlgamma", "p", p)
    if count < 1:
        raise RuntimeError(
            f"mvlgamma: p has to be greater than or equal to 1, but is {count}. It is the dimension of the matrices "
            "that are integrated over. [nd-range]"
        )
    if np_dtype(input).kind == "b":
        raise RuntimeError(
            "mvlgamma: The input tensor may not be a boolean tensor. Convert it to a floating point dtype. [nd-dtype]"
        )
    return count


def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p.

    Args:
        input: real tensor, with elements above (p - 1) / 2.
        p: dimension, at least 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.mvlgamma(ndgrad.tensor([2.0]), 1)
    tensor([0.])
    """
    return _run(gamma.mvlgamma, (input,), out, p=_check_dimension(input, p))


def mvlgamma_(self: Tensor, p: int) -> Tensor:
    """In-place version of `mvlgamma`.

    Args:
        self: tensor to change, with elements above (p - 1) / 2.
        p: dimension, at least 1.

    >>> import ndgrad
    >>> ndgrad.tensor([2.0]).mvlgamma_(1)
    tensor([0.])
    """
    return write(gamma.mvlgamma, self, (), {"p": _check_dimension(self, p)})


multigammaln = mvlgamma


def gammainc(input: TensorLike, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other), differentiable in both arguments.

    Args:
        input: shape parameters, not negative.
        other: limits of the integral, not negative, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.gammainc(ndgrad.tensor([1.0]), ndgrad.tensor([0.5]))
    tensor([0.3935])
    """
    return _run(gamma.igamma, (input, other), out)


def gammaincc(input: TensorLike, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function Q = 1 - P, differentiable in both.

    Args:
        input: shape parameters, not negative.
        other: limits of the integral, not negative, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.gammaincc(ndgrad.tensor([1.0]), ndgrad.tensor([0.5]))
    tensor([0.6065])
    """
    return _run(gamma.igammac, (input, other), out)


def betaln(input: TensorLike, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the absolute value of the beta function; not in torch, named as in scipy.special.

    Args:
        input: first arguments of the beta function.
        other: second arguments, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.betaln(ndgrad.tensor([1.0]), ndgrad.tensor([2.0]))
    tensor([-0.6931])
    """
    return _run(gamma.betaln, (input, other), out)


def zeta(input: TensorLike, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Hurwitz's zeta function: the sum over k >= 0 of (k + other)^-input, differentiable in `other`.

    Args:
        input: exponents, above 1.
        other: shifts of the sum, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.zeta(2.0, ndgrad.tensor([1.0]))
    tensor([1.6449])
    """
    return _run(gamma.zeta, (input, other), out)


# ----- probability ----------------------------------------------------------------------------------------------------


def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the scaled complementary error function exp(x^2) erfc(x), which does not underflow.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.erfcx(ndgrad.tensor([0.0, 100.0]))
    tensor([1.0000, 0.0056])
    """
    return _run(probability.erfcx, (input,), out)


def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The probability that a standard normal variable is less than the input.

    Args:
        input: limits of the probability.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.ndtr(ndgrad.tensor([0.0, 1.96]))
    tensor([0.5000, 0.9750])
    """
    return _run(probability.ndtr, (input,), out)


def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `ndtr`.

    Args:
        input: probabilities between 0 and 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.ndtri(ndgrad.tensor([0.5, 0.975]))
    tensor([0.0000, 1.9600])
    """
    return _run(probability.ndtri, (input,), out)


def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of `ndtr`, exact even far in the tail.

    Args:
        input: limits of the probability.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.log_ndtr(ndgrad.tensor([-10.0]))
    tensor([-53.2313])
    """
    return _run(probability.log_ndtr, (input,), out)


def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the entropy -x log(x) of each element: 0 at 0 and minus infinity below.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.entr(ndgrad.tensor([0.0, 0.5, -1.0]))
    tensor([0.0000, 0.3466,   -inf])
    """
    return _run(probability.entr, (input,), out)


def xlog1py(input: TensorLike, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Return `input * log1p(other)`, and 0 for each zero of `input`.

    Args:
        input: factors.
        other: arguments of the logarithm, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.xlog1py(ndgrad.tensor([0.0, 2.0]), ndgrad.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """
    return _run(exponential.xlog1py, (input, other), out)


# ----- Bessel functions -----------------------------------------------------------------------------------------------


def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.i0(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return _run(bessel.i0, (input,), out)


def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the scaled Bessel function exp(-|x|) i0(x), which does not overflow.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.i0e(ndgrad.tensor([1.0, 1000.0]))
    tensor([0.4658, 0.0126])
    """
    return _run(bessel.i0e, (input,), out)


def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 1.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.i1(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return _run(bessel.i1, (input,), out)


def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the scaled Bessel function exp(-|x|) i1(x), which does not overflow.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.i1e(ndgrad.tensor([1.0, 1000.0]))
    tensor([0.2079, 0.0126])
    """
    return _run(bessel.i1e, (input,), out)


modified_bessel_i0, modified_bessel_i1 = i0, i1


def airy_ai(x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Airy's function Ai, a solution of y'' = x y.

    Args:
        x: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.airy_ai(ndgrad.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """
    return _run(bessel_order.airy_ai, (x,), out)


def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 0.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.bessel_j0(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 0.7652])
    """
    return _run(bessel.bessel_j0, (input,), out)


def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the first kind of order 1.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.bessel_j1(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.4401])
    """
    return _run(bessel.bessel_j1, (input,), out)


def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 0.

    Args:
        input: real tensor, with positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.bessel_y0(ndgrad.tensor([1.0]))
    tensor([0.0883])
    """
    return _run(bessel.bessel_y0, (input,), out)


def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Bessel function of the second kind of order 1.

    Args:
        input: real tensor, with positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.bessel_y1(ndgrad.tensor([1.0]))
    tensor([-0.7812])
    """
    return _run(bessel.bessel_y1, (input,), out)


def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 0.

    Args:
        input: real tensor, with positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.modified_bessel_k0(ndgrad.tensor([1.0]))
    tensor([0.4210])
    """
    return _run(bessel.modified_bessel_k0, (input,), out)


def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the second kind of order 1.

    Args:
        input: real tensor, with positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.modified_bessel_k1(ndgrad.tensor([1.0]))
    tensor([0.6019])
    """
    return _run(bessel.modified_bessel_k1, (input,), out)


def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the scaled Bessel function exp(x) modified_bessel_k0(x), which does not underflow.

    Args:
        input: real tensor, with positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.scaled_modified_bessel_k0(ndgrad.tensor([1.0]))
    tensor([1.1445])
    """
    return _run(bessel.scaled_modified_bessel_k0, (input,), out)


def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the scaled Bessel function exp(x) modified_bessel_k1(x), which does not underflow.

    Args:
        input: real tensor, with positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.scaled_modified_bessel_k1(ndgrad.tensor([1.0]))
    tensor([1.6362])
    """
    return _run(bessel.scaled_modified_bessel_k1, (input,), out)


def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the spherical Bessel function of the first kind of order 0: sin(x) / x, and 1 at 0.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.special.spherical_bessel_j0(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """
    return _run(trigonometric.sinc, (arithmetic.mul(input, 1 / math.pi),), out)
