"""The gamma function and relatives that torch has outside torch.special: exactly ops of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.ops import bessel, gamma
from ndgrad._src.tensor.public import in_place, pointwise

if TYPE_CHECKING:
    from ndgrad._typing import Tensor, TensorLike

__all__ = [
    "lgamma", "digamma", "igamma", "igammac", "i0",
]  # fmt: skip


@pointwise(gamma.lgamma)
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the absolute value of the gamma function.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.lgamma(ndgrad.tensor([1.0, 5.0]))
    tensor([0.0000, 3.1781])
    """


@pointwise(gamma.digamma)
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of `lgamma`.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.digamma(ndgrad.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """


@pointwise(gamma.igamma)
def igamma(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function, from 0 to 1.

    Args:
        input: shape parameters, not negative.
        other: limits of the integral, not negative, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.igamma(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 2.0]))
    tensor([0.6321, 0.5940])
    """


@pointwise(gamma.igammac)
def igammac(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function: `1 - igamma`.

    Args:
        input: shape parameters, not negative.
        other: limits of the integral, not negative, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.igammac(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 2.0]))
    tensor([0.3679, 0.4060])
    """


@pointwise(bessel.i0)
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind of order 0.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.i0(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """


for _name in __all__:
    globals()[_name + "_"] = in_place(globals()[_name])

METHODS = (*__all__, *(name + "_" for name in __all__))
__all__ += ["i0_"]
