"""torch's `quasirandom`: Sobol points, which fill the unit cube more evenly than random ones.

Note [Sobol points]
Point number i of a dimension is the exclusive or of the direction numbers whose bits are set in the Gray code of i. Two
neighbours differ in one bit of the code, so each point follows from the previous one by one exclusive or, with
direction number c. The lowest zero bit of the previous point's number is bit c. The direction numbers of Joe and Kuo
(new-joe-kuo-6.21201) come with SciPy.

Scrambling multiplies the bits of the direction numbers by a random lower triangular matrix with ones on the diagonal,
and starts from a random point. A seed gives torch's points.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad._src.arrays.dtypes import get_default_dtype
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.data import as_tensor
from ndgrad._src.tensor.functions.random import randint

if TYPE_CHECKING:
    from ndgrad._typing import Dtype, Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """Generator of Sobol points in the unit cube.

    Args:
        dimension: number of coordinates of a point, from 1 to 21201.
        scramble: whether the points are scrambled at random, which keeps their even distribution.
        seed: seed of the scrambling. None takes the default generator.

    >>> import ndgrad
    >>> ndgrad.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT: ClassVar[int] = 30
    MAXDIM: ClassVar[int] = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"SobolEngine: Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], but "
                f"dimension is {dimension}. [nd-option]"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self._directions = _direction_numbers(dimension)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble()
        self._point = self._shift
        self.num_generated = 0

    @property
    def sobolstate(self) -> Tensor:
        """Direction numbers, one row per coordinate."""
        return as_tensor(self._directions)

    @property
    def shift(self) -> Tensor:
        """First point, as integers of 30 bits."""
        return as_tensor(self._shift)

    @property
    def quasi(self) -> Tensor:
        """Current point, as integers of 30 bits."""
        return as_tensor(self._point)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """Return the next points, one per row.

        Args:
            n: number of points.
            out: tensor that receives the points; it is resized.
            dtype: dtype of the points. The default is that of `get_default_dtype()`.
        """
        count = self.num_generated
        if n < 0 or count + n > 1 << self.MAXBIT:
            raise ValueError(
                f"SobolEngine.draw: {n} points were asked for after {count}; there are {1 << self.MAXBIT}. Call "
                "reset() to start again. [nd-option]"
            )
        points = self._next_points(n)
        made = as_tensor(points * 2.0**-self.MAXBIT).to(dtype or get_default_dtype())
        self.num_generated += n
        if out is None:
            return made
        out.resize_(made.shape).copy_(made)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Dtype | None = None) -> Tensor:
        """Return the next 2 ** m points; all points so far must then be a power of two.

        Args:
            m: logarithm of the number of points.
            out: tensor that receives the points; it is resized.
            dtype: dtype of the points. The default is that of `get_default_dtype()`.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "SobolEngine.draw_base2: The balance properties of Sobol' sequences require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use draw(). [nd-option]"
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Start again from the first point, and return the generator."""
        self._point = self._shift
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip points, and return the generator.

        Args:
            n: number of points to skip.
        """
        if n < 0 or self.num_generated + n > 1 << self.MAXBIT:
            raise ValueError(f"SobolEngine.fast_forward: cannot skip {n} points. [nd-option]")
        self.num_generated += n
        # The current point is the last one that was drawn.
        number = max(self.num_generated - 1, 0)
        code = number ^ (number >> 1)
        chosen = [bit for bit in range(self.MAXBIT) if code >> bit & 1]
        self._point = self._shift ^ np.bitwise_xor.reduce(self._directions[:, chosen], axis=1)
        return self

    def _next_points(self, n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the next points as integers, and move to the last of them."""
        numbers = np.arange(self.num_generated, self.num_generated + n)
        changed = self._directions[:, _lowest_zero_bits(numbers - 1)].T
        if n and self.num_generated == 0:
            changed[0] = self._point  # the first point has no predecessor
        elif n:
            changed[0] ^= self._point
        points = np.bitwise_xor.accumulate(changed, axis=0)
        if n:
            self._point = points[-1].copy()
        return points

    def _scramble(self) -> None:
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        shifts = randint(2, (self.dimension, bits), generator=generator).numpy()
        matrices = randint(2, (self.dimension, bits, bits), generator=generator).tril().numpy()
        self._shift = shifts @ (1 << np.arange(bits))
        matrices[:, np.arange(bits), np.arange(bits)] = 1
        places = np.arange(bits)[::-1]  # the highest bit comes first
        digits = (self._directions[..., None] >> places) & 1
        self._directions = ((digits @ matrices.transpose(0, 2, 1)) % 2) @ (1 << places)

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] if self.scramble else []
        parts += [f"seed={self.seed}"] if self.seed is not None else []
        return f"{type(self).__name__}({', '.join(parts)})"


def _lowest_zero_bits(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    lowest = ~numbers & (numbers + 1)  # a power of two; 0 for -1
    return np.log2(np.maximum(lowest, 1)).astype(np.int64)


@cache
def _tables() -> tuple[Any, Any]:
    """Return the primitive polynomials and initial numbers of all dimensions, from SciPy's file."""
    found = importlib.util.find_spec("scipy")
    file = Path(found.origin).parent / "stats" / "_sobol_direction_numbers.npz" if found and found.origin else None
    if file is None or not file.exists():
        raise ModuleNotFoundError(
            "SobolEngine reads its direction numbers from SciPy, which is not installed. Install it: pip install "
            "scipy. [nd-install]",
            name="scipy",
        )
    with np.load(file) as tables:
        return tables["poly"], tables["vinit"]


def _direction_numbers(dimension: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the direction numbers of the first coordinates, by the recurrence of their polynomials.

    A polynomial of degree s with the coefficients a gives m[j] = m[j-s] ^ (xor over k of 2**k a[k] m[j-k]); a[s] is 1.
    """
    bits = SobolEngine.MAXBIT
    polynomials, initial = _tables()
    made = np.ones((dimension, bits), np.int64)  # the first coordinate is van der Corput's sequence
    for row in range(1, dimension):
        polynomial = int(polynomials[row])
        degree = polynomial.bit_length() - 1
        numbers = [int(m) for m in initial[row, :degree]]
        for j in range(degree, bits):
            number = numbers[j - degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    number ^= numbers[j - k] << k
            numbers.append(number)
        made[row] = numbers[:bits]
    return made << np.arange(bits)[::-1]


_refuse_absent(__name__)
