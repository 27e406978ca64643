"""Special functions under torch's names, those of torch.special and the older ones beside it (`lgamma`, `igamma`, `mvlgamma`).

Most are ops of the table as they stand. Written out are the order of arguments, which differs between functions and methods
(`polygamma(n, x)` and `x.polygamma(n)`), and the checks of whole-number arguments. Functions that ndgrad itself has
(`exp2`, `sinc`, `softmax`, ...) are gathered in ndgrad.special.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from ndgrad.autograd.inplace import write, write_out
from ndgrad.autograd.variable import np_dtype
from ndgrad.ops import arithmetic, bessel, exponential, gamma, probability, trigonometric

__all__ = ["mvlgamma", "polygamma"]
METHODS = ("mvlgamma", "mvlgamma_", "polygamma_")
RENAMED_METHODS = {"polygamma": "polygamma_method"}

def _run(op: Any, args: tuple[Any, ...], out: Any, **settings: Any) -> Any:
    """An op on its array arguments, into `out` if that is given."""
    if out is None:
        return op.eager(*args, **settings)
    return write_out(op, args, {**op.settings, **settings}, out)


def _integer(function: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{function}(): argument {name!r} must be int, not {type(value).__name__} ({value!r}). Give a whole number."
        ) from None


# ----- gamma -----------------------------------------------------------------------------------------------------------


def gammaln(input: Any, *, out: Any = None) -> Any:
    """The logarithm of the absolute value of the gamma function.

    >>> import ndgrad
    >>> ndgrad.special.gammaln(ndgrad.tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """
    return _run(gamma.lgamma, (input,), out)


def digamma(input: Any, *, out: Any = None) -> Any:
    """The derivative of `gammaln`."""
    return _run(gamma.digamma, (input,), out)


psi = digamma


def _order(n: Any) -> int:
    order = _integer("polygamma", "n", n)
    if order < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, and n is {order}. Give 0 or more.")
    return order


def polygamma(n: int, input: Any, *, out: Any = None) -> Any:
    """The n-th derivative of `digamma`.

    >>> import ndgrad
    >>> ndgrad.special.polygamma(1, ndgrad.tensor([1.0]))
    tensor([1.6449])
    """
    return _run(gamma.polygamma, (input,), out, order=_order(n))


def polygamma_method(self: Any, n: int) -> Any:
    """The n-th derivative of `digamma`, of this tensor."""
    return gamma.polygamma(self, order=_order(n))


def polygamma_(self: Any, n: int) -> Any:
    """In-place polygamma."""
    return write(gamma.polygamma, self, (), {"order": _order(n)})


def _dimension(input: Any, p: Any) -> int:
    count = _integer("mvlgamma", "p", p)
    if count < 1:
        raise RuntimeError(
            f"mvlgamma: p has to be greater than or equal to 1, and is {count}. It is the dimension of the matrices that are "
            "integrated over."
        )
    if np_dtype(input).kind == "b":
        raise RuntimeError("mvlgamma: The input tensor may not be a boolean tensor. Convert it to a floating point dtype.")
    return count


def mvlgamma(input: Any, p: int, *, out: Any = None) -> Any:
    """The logarithm of the multivariate gamma function of dimension p.

    >>> import ndgrad
    >>> ndgrad.mvlgamma(ndgrad.tensor([2.0]), 1)
    tensor([0.])
    """
    return _run(gamma.mvlgamma, (input,), out, p=_dimension(input, p))


def mvlgamma_(self: Any, p: int) -> Any:
    """In-place mvlgamma."""
    return write(gamma.mvlgamma, self, (), {"p": _dimension(self, p)})


multigammaln = mvlgamma


def gammainc(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularised lower incomplete gamma function P(input, other), differentiable in both (torch's is in `other` alone).

    >>> import ndgrad
    >>> ndgrad.special.gammainc(ndgrad.tensor([1.0]), ndgrad.tensor([0.5]))
    tensor([0.3935])
    """
    return _run(gamma.igamma, (input, other), out)


def gammaincc(input: Any, other: Any, *, out: Any = None) -> Any:
    """The regularised upper incomplete gamma function Q = 1 - P, differentiable in both."""
    return _run(gamma.igammac, (input, other), out)


def betaln(input: Any, other: Any, *, out: Any = None) -> Any:
    """The logarithm of the absolute value of the beta function; not in torch, named as in scipy.special."""
    return _run(gamma.betaln, (input, other), out)


def zeta(input: Any, other: Any, *, out: Any = None) -> Any:
    """Hurwitz's zeta function: the sum over k >= 0 of (k + other)^-input, differentiable in `other`.

    >>> import ndgrad
    >>> ndgrad.special.zeta(2.0, ndgrad.tensor([1.0]))
    tensor([1.6449])
    """
    return _run(gamma.zeta, (input, other), out)


# ----- probability -----------------------------------------------------------------------------------------------------


def erfcx(input: Any, *, out: Any = None) -> Any:
    """exp(x^2) erfc(x): the complementary error function without its underflow."""
    return _run(probability.erfcx, (input,), out)


def ndtr(input: Any, *, out: Any = None) -> Any:
    """The probability that a standard normal variable is less than the input.

    >>> import ndgrad
    >>> ndgrad.special.ndtr(ndgrad.tensor([0.0, 1.96]))
    tensor([0.5000, 0.9750])
    """
    return _run(probability.ndtr, (input,), out)


def ndtri(input: Any, *, out: Any = None) -> Any:
    """The inverse of `ndtr`."""
    return _run(probability.ndtri, (input,), out)


def log_ndtr(input: Any, *, out: Any = None) -> Any:
    """The logarithm of `ndtr`, exact far in the tail."""
    return _run(probability.log_ndtr, (input,), out)


def entr(input: Any, *, out: Any = None) -> Any:
    """-x log(x), 0 at 0 and minus infinity below."""
    return _run(probability.entr, (input,), out)


def xlog1py(input: Any, other: Any, *, out: Any = None) -> Any:
    """input * log1p(other), and 0 where the input is 0."""
    return _run(exponential.xlog1py, (input, other), out)


# ----- Bessel functions ------------------------------------------------------------------------------------------------


def i0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind of order 0."""
    return _run(bessel.i0, (input,), out)


def i0e(input: Any, *, out: Any = None) -> Any:
    """exp(-|x|) i0(x)."""
    return _run(bessel.i0e, (input,), out)


def i1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the first kind of order 1."""
    return _run(bessel.i1, (input,), out)


def i1e(input: Any, *, out: Any = None) -> Any:
    """exp(-|x|) i1(x)."""
    return _run(bessel.i1e, (input,), out)


modified_bessel_i0, modified_bessel_i1 = i0, i1


def bessel_j0(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the first kind of order 0."""
    return _run(bessel.bessel_j0, (input,), out)


def bessel_j1(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the first kind of order 1."""
    return _run(bessel.bessel_j1, (input,), out)


def bessel_y0(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the second kind of order 0."""
    return _run(bessel.bessel_y0, (input,), out)


def bessel_y1(input: Any, *, out: Any = None) -> Any:
    """The Bessel function of the second kind of order 1."""
    return _run(bessel.bessel_y1, (input,), out)


def modified_bessel_k0(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the second kind of order 0."""
    return _run(bessel.modified_bessel_k0, (input,), out)


def modified_bessel_k1(input: Any, *, out: Any = None) -> Any:
    """The modified Bessel function of the second kind of order 1."""
    return _run(bessel.modified_bessel_k1, (input,), out)


def scaled_modified_bessel_k0(input: Any, *, out: Any = None) -> Any:
    """exp(x) modified_bessel_k0(x)."""
    return _run(bessel.scaled_modified_bessel_k0, (input,), out)


def scaled_modified_bessel_k1(input: Any, *, out: Any = None) -> Any:
    """exp(x) modified_bessel_k1(x)."""
    return _run(bessel.scaled_modified_bessel_k1, (input,), out)


def spherical_bessel_j0(input: Any, *, out: Any = None) -> Any:
    """sin(x) / x."""
    return _run(trigonometric.sinc, (arithmetic.mul(input, 1 / math.pi),), out)
