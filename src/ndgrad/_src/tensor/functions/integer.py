"""Integer functions (common divisors and multiples) and floating-point exponents, under torch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, bitwise, rounding
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.functions.reduce import deliver, ndim_of
from ndgrad._src.tensor.public import in_place, pointwise

if TYPE_CHECKING:
    from ndgrad._typing import Tensor, TensorLike

__all__ = ["frexp", "gcd", "gcd_", "lcm", "lcm_"]
METHODS = ("frexp", "gcd", "gcd_", "lcm", "lcm_")


@pointwise(bitwise.gcd)
def gcd(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisors of integers.

    Args:
        input: integers.
        other: integers, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.gcd(ndgrad.tensor([12, 20]), ndgrad.tensor([8]))
    tensor([4, 4])
    """


@pointwise(bitwise.lcm)
def lcm(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The least common multiples of integers.

    Args:
        input: integers.
        other: integers, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.lcm(ndgrad.tensor([4, 6]), ndgrad.tensor([10]))
    tensor([20, 30])
    """


gcd_, lcm_ = in_place(gcd), in_place(lcm)


def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.frexp:
    """Decompose numbers as mantissa * 2 ** exponent, with mantissas in [0.5, 1).

    Between powers of two the exponent is constant, so the mantissa has the slope 2 ** -exponent.

    Args:
        input: floating-point tensor.
        out: tuple of tensors that receive the results.

    Returns:
        The mantissas, and the exponents as integers. Both are 0 for 0.

    >>> import ndgrad
    >>> ndgrad.frexp(ndgrad.tensor([6.0, -0.5])).mantissa
    tensor([ 0.7500, -0.5000])
    """
    ndim_of(input, "frexp")
    if not is_floating(np_dtype(input)):
        raise RuntimeError(
            f"frexp() only supports floating-point dtypes, but the input is {as_dtype(np_dtype(input))!r}. Convert it "
            "first. [nd-dtype]"
        )
    exponent = rounding.binary_exponent(input)
    return deliver("frexp", return_types.frexp(arithmetic.ldexp(input, -exponent), exponent), out, input)
