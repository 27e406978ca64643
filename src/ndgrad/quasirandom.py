"""`torch.quasirandom`: Sobol points, which fill a cube more evenly than random ones.

Point n is the exclusive or of the direction numbers at the bits of n's Gray code. SciPy has the direction numbers. A
scrambled sequence multiplies the bits of each direction number by a random unit lower triangular matrix over the
integers modulo 2, and adds a random shift to all points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.data import from_numpy
from ndgrad._src.tensor.functions.random import randint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Dtype, Tensor

__all__ = ["SobolEngine"]


class SobolEngine:
    """A source of Sobol points in the unit cube.

    Args:
        dimension: number of coordinates of a point.
        scramble: whether the points are scrambled, which makes their expectation uniform.
        seed: seed of the scrambling. The default takes random numbers of the default generator.

    >>> from ndgrad.quasirandom import SobolEngine
    >>> SobolEngine(2).draw(3)  # doctest: +SKIP
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}. [nd-option]"
            )
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.num_generated = 0
        self._directions = _read_directions(dimension, self.MAXBIT)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._scramble_directions()
        self._point = self._shift.copy()

    def _scramble_directions(self) -> None:
        bits = self.MAXBIT
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        weights = 1 << np.arange(bits, dtype=np.int64)
        self._shift = randint(2, (self.dimension, bits), generator=generator).numpy() @ weights
        matrices = np.tril(randint(2, (self.dimension, bits, bits), generator=generator).numpy(), -1)
        matrices[:, range(bits), range(bits)] = 1
        digits = self._directions[:, None, :] >> np.arange(bits)[::-1, None] & 1  # highest digit first
        self._directions = ((matrices @ digits) % 2 * weights[::-1, None]).sum(axis=1)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Dtype = None) -> Tensor:
        """Return the next points.

        Args:
            n: number of points.
            out: tensor that receives the result.
            dtype: floating-point dtype of the result. The default is the default dtype.

        Returns:
            A tensor of shape (n, dimension).
        """
        wanted = dtypes.get_default_dtype().numpy if dtype is None else dtypes.as_numpy_dtype(dtype)
        first = self.num_generated == 0
        points = self._advance(n - first if n else 0)
        if first and n:
            points = np.concatenate([self._shift[None], points])
        self.num_generated += n
        made = from_numpy(points.astype(wanted) * wanted.type(2.0**-self.MAXBIT))
        if out is None:
            return made
        return out.resize_(made.shape).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Dtype = None) -> Tensor:
        """Return the next 2**m points. The number of all points drawn must be a power of 2, which keeps them balanced.

        Args:
            m: logarithm of the number of points.
            out: tensor that receives the result.
            dtype: floating-point dtype of the result. The default is the default dtype.

        Returns:
            A tensor of shape (2**m, dimension).
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead. [nd-option]"
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Start again with the first point."""
        self._point = self._shift.copy()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Skip points.

        Args:
            n: number of points.
        """
        if n:
            self._advance(n - (self.num_generated == 0))
            self.num_generated += n
        return self

    def _advance(self, n: int) -> NDArray[Any]:
        """Return the points that follow the current one, and make the last of them current."""
        if not n:
            return np.empty((0, self.dimension), np.int64)
        start = max(self.num_generated - 1, 0)
        numbers = np.arange(start, start + n, dtype=np.int64)
        lowest = ~numbers & (numbers + 1)  # the lowest digit that is 0
        steps = self._directions[:, np.log2(lowest).astype(np.int64)].T
        points: NDArray[Any] = np.bitwise_xor.accumulate(np.concatenate([self._point[None], steps]))[1:]
        self._point = points[-1]
        return points

    def __repr__(self) -> str:
        told = [f"dimension={self.dimension}"]
        told += ["scramble=True"] * self.scramble
        told += [] if self.seed is None else [f"seed={self.seed}"]
        return f"{type(self).__name__}({', '.join(told)})"


def _read_directions(dimension: int, bits: int) -> NDArray[Any]:
    """Return the direction numbers of each dimension, as integers below 2**bits."""
    try:
        from scipy.stats import qmc  # an optional library
    except ImportError:
        raise ImportError(
            "SobolEngine takes its direction numbers from SciPy, which is not installed: pip install scipy. "
            "[nd-install]"
        ) from None
    sequence = qmc.Sobol(dimension, scramble=False, bits=bits)
    return np.asarray(sequence._sv, np.int64).reshape(dimension, bits)


_refuse_absent(__name__)
