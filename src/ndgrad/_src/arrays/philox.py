"""Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): random numbers by position.

A number depends only on a seed, on the number of its draw, and on its position in that draw. It does not depend on
earlier draws, on the device, or on the number of threads. So two words describe a draw, and any part of it can be
computed at any time. This file uses the functions of an array library; _src.compiler.cuda.random_draws has kernels that
give the same bits.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy

    from ndgrad._typing import Library, Payload, Sizes

#: Multipliers and increments of the key.
MULTIPLIERS, STEPS, ROUNDS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85), 10
_WORD = 0xFFFFFFFF
#: Digits of a uniform number in formats narrower than single precision, because 1 - eps / 2 would round to 1.
DIGITS = {"float16": 11, "bfloat16": 8}


class Draw(NamedTuple):
    """One draw: the seed of a generator, and the number of earlier draws."""

    seed: int
    number: int


def blocks(np: Library, draw: Draw, first: Any) -> list[Any]:
    """Return the four 32-bit words, stored in 64 bits, of each block of a draw. `first` holds block numbers as
    uint64.
    """
    c = [first & _WORD, first >> 32, first * 0 + (draw.number & _WORD), first * 0 + (draw.number >> 32)]
    low, high = draw.seed & _WORD, draw.seed >> 32
    for _ in range(ROUNDS):
        p, q = c[0] * MULTIPLIERS[0], c[2] * MULTIPLIERS[1]
        c = [(q >> 32) ^ c[1] ^ low, q & _WORD, (p >> 32) ^ c[3] ^ high, p & _WORD]
        low, high = (low + STEPS[0]) & _WORD, (high + STEPS[1]) & _WORD
    return c


def words(np: Library, draw: Draw, count: int, each: int) -> Payload:
    """Return `count` rows of `each` words, four from each block in order."""
    per_block = 4 // each
    made = blocks(np, draw, np.arange(-(-count // per_block), dtype=np.uint64))
    return np.stack(made, axis=-1).reshape(-1, each)[:count]


# ----- numbers --------------------------------------------------------------------------------------------------------


def words_64(np: Library, draw: Draw, count: int) -> Payload:
    """Return words of 64 bits."""
    w = words(np, draw, count, 2)
    return w[:, 0] << 32 | w[:, 1]


def unit(np: Library, draw: Draw, count: int, dtype: numpy.dtype[Any]) -> Payload:
    """Return uniform numbers on [0, 1) with the dtype's number of digits; in double precision if it is no float."""
    digits = DIGITS.get(dtype.name)
    if digits is not None:
        return ((words(np, draw, count, 1)[:, 0] >> (32 - digits)).astype(np.float32) * 2.0**-digits).astype(dtype)
    if dtype.name == "float32":
        return (words(np, draw, count, 1)[:, 0] >> 8).astype(np.float32) * np.float32(2.0**-24)
    return (words_64(np, draw, count) >> 11).astype(np.float64) * 2.0**-53


def open_unit(np: Library, draw: Draw, count: int) -> Payload:
    """Return uniform numbers on (0, 1), in double precision, without either end."""
    return ((words_64(np, draw, count) >> 12).astype(np.float64) + 0.5) * 2.0**-52


def bernoulli(np: Library, draw: Draw, count: int, p: float) -> Payload:
    """Return True with probability p, by comparing 32-bit fractions with p."""
    return words(np, draw, count, 1)[:, 0].astype(np.float64) * 2.0**-32 < p


def normal(np: Library, draw: Draw, count: int, dtype: numpy.dtype[Any]) -> Payload:
    """Return standard normal numbers (Box and Muller): two for each pair of uniform numbers. Halves come from
    singles.
    """
    if dtype.name == "float64":
        w = words(np, draw, -(-count // 2), 4)
        left, right = w[:, 0] << 32 | w[:, 1], w[:, 2] << 32 | w[:, 3]
        u, v = ((left >> 12).astype(np.float64) + 0.5) * 2.0**-52, (right >> 11).astype(np.float64) * 2.0**-53
        radius, angle = np.sqrt(-2.0 * np.log(u)), v * 6.283185307179586
    else:
        w = words(np, draw, -(-count // 2), 2)
        single = np.float32
        u, v = w[:, 0].astype(single) * single(2.0**-32) + single(2.0**-33), w[:, 1].astype(single) * single(2.0**-32)
        radius, angle = np.sqrt(single(-2.0) * np.log(u)), v * single(6.2831855)
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return pairs.reshape(-1)[:count].astype(dtype, copy=False)


def size(shape: Sizes) -> int:
    """Return the number of elements."""
    return prod(shape)
