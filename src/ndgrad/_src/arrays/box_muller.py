"""Normal numbers from uniform ones, in torch's blocks of 16: eight radii, then eight angles.

In single precision torch computes the logarithm, sine and cosine by the polynomials of the Cephes library, with fused
multiply-adds. `_single` makes the same steps, so its results have the same bits. A fused multiply-add is a product and
a sum in double precision, rounded to single precision at the end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.arrays.multiply_add import multiply_add

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Blocks per step, so that the temporary arrays stay in the cache.
_BLOCKS = 512
_F, _D, _I = np.float32, np.float64, np.int32


def _singles(*numbers: float) -> list[float]:
    return [float(_F(x)) for x in numbers]


# The polynomials of Cephes, highest power first: the logarithm of 1 + x, cosine and sine between -pi/4 and pi/4.
_LOG = _singles(
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip
_COS = _singles(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_SIN = _singles(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
#: The last coefficients of the three polynomials, which are evaluated together.
_ENDS = [np.array(pair).reshape(3, 1) for pair in zip(_LOG[-2:], _COS[-2:], _SIN[-2:], strict=True)]
#: log 2 and -pi/4 in parts, so that their products with small integers are exact.
_LOG_2 = _F(0.693359375), _F(-2.12194440e-4)
_QUARTER = _singles(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
_ROOT = _F(0.707106781186547524)


def from_uniform(u: Payload, mean: float, std: float) -> Payload:
    """Return normal numbers from a vector of uniform ones, whose length is a multiple of 16."""
    blocks = u.reshape(-1, 2, 8)
    made = np.empty(blocks.shape, u.dtype)
    pairs = _single if u.dtype == _F else _double
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), _BLOCKS):
            part = blocks[start : start + _BLOCKS]
            pairs(part[:, 0], part[:, 1], made[start : start + _BLOCKS])
    flat = made.reshape(-1)
    return flat + u.dtype.type(0) if mean == 0 and std == 1 else multiply_add(flat, std, mean)  # -0 becomes 0


def _double(u: Payload, v: Payload, out: Payload) -> None:
    radius = np.sqrt(-2 * np.log(1 - u))
    angle = 2 * math.pi * v
    np.multiply(radius, np.cos(angle), out=out[:, 0])
    np.multiply(radius, np.sin(angle), out=out[:, 1])


def _single(u: Payload, v: Payload, out: Payload) -> None:
    shape = u.shape
    exact = np.empty((3, *shape))  # products and sums in double precision
    x = np.empty((3, *shape), _F)  # arguments: of the logarithm, z, z
    # 1 - u = 2^e (1 + x) with 1 + x between sqrt(1/2) and sqrt(2).
    first = np.subtract(_F(1), u, out=x[0])
    bits = first.view(_I)
    e = (bits >> 23) - 126
    bits &= 0x7FFFFF
    bits |= 0x3F000000
    small = first < _ROOT
    e -= small
    np.add(first, first, out=first, where=small)
    first -= _F(1)
    e = e.astype(_F)
    # The angle 2 pi v = j pi/4 + a with an even j and a between -pi/4 and pi/4.
    a = np.multiply(v, _F(2 * math.pi))
    j = (a * _F(4 / math.pi)).astype(_I)
    j += 1
    j &= -2
    for part in _QUARTER:
        np.multiply(j, part, out=exact[0])
        np.add(exact[0], a, out=a, casting="same_kind")
    squares = np.empty((3, *shape), _F)  # factors of the last step: x^2, z, a
    np.multiply(first, first, out=squares[0])
    np.multiply(a, a, out=squares[1])
    squares[2] = a
    x[1:] = squares[1]
    # The polynomials, by Horner's scheme.
    wide = x.astype(_D)
    y = np.empty((3, *shape), _F)
    y[0] = _LOG[0]
    y[1] = _COS[0]
    y[2] = _SIN[0]
    log, sums = y[0], exact[0]
    for c in _LOG[1:-2]:
        np.multiply(log, wide[0], out=sums)
        np.add(sums, c, out=log, casting="same_kind")
    for ends in _ENDS:
        np.multiply(y, wide, out=exact)
        np.add(exact, ends[..., None], out=y, casting="same_kind")
    y *= x
    terms = np.empty((3, *shape), _F)
    np.multiply(e, _LOG_2[1], out=terms[0])
    np.multiply(squares[1], _F(-0.5), out=terms[1])
    terms[2] = a
    np.multiply(y, squares, out=exact, dtype=_D)
    np.add(exact, terms, out=y, casting="same_kind")
    _, cos, sin = y
    cos += _F(1)
    np.multiply(squares[0], _F(-0.5), out=squares[0])  # exact
    log += squares[0]
    log += first
    np.multiply(e, _LOG_2[0], out=sums, dtype=_D)
    np.add(sums, log, out=log, casting="same_kind")
    log *= _F(-2)
    radius = np.sqrt(log, out=log)
    # j gives the quadrant: it exchanges sine and cosine, and changes their signs.
    odd = (j & 2) != 0
    np.multiply(np.where(odd, sin, cos), radius, out=out[:, 0])
    np.multiply(np.where(odd, cos, sin), radius, out=out[:, 1])
    both = out.view(_I)
    both[:, 1] ^= (j & 4) << 29
    j += 2
    both[:, 0] ^= (j & 4) << 29
