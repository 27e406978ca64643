"""Values of a spread tensor for argument checks: are all of them probabilities, what is the largest class.

Functions branch on such answers, so all ranks must get the same. A question about all elements is answered by a
reduction over the ranks that hold pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad.distributed import transport
from ndgrad.distributed.reductions import ReduceOp
from ndgrad.distributed.traffic import uncounted


class CheckedValues:
    """This rank's piece of some values, and the groups of ranks that have the others."""

    __array_ufunc__ = None  # NumPy leaves comparisons to this class

    def __init__(self, local: Any, groups: Sequence[Any], size: int) -> None:
        self._local, self._groups, self.size = np.asarray(local), tuple(groups), size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._local.dtype

    @property
    def itemsize(self) -> int:
        return self._local.dtype.itemsize

    def _wrap(self, local: Any) -> CheckedValues:
        return CheckedValues(local, self._groups, self.size)

    def _combine(self, compute: Callable[[Any, Any], Any], other: Any) -> CheckedValues:
        return self._wrap(compute(self._local, other._local if isinstance(other, CheckedValues) else other))

    def view(self, dtype: Any) -> CheckedValues:
        return self._wrap(np.ascontiguousarray(self._local).view(dtype))

    def __lt__(self, other: Any) -> CheckedValues:
        return self._combine(np.less, other)

    def __le__(self, other: Any) -> CheckedValues:
        return self._combine(np.less_equal, other)

    def __gt__(self, other: Any) -> CheckedValues:
        return self._combine(np.greater, other)

    def __ge__(self, other: Any) -> CheckedValues:
        return self._combine(np.greater_equal, other)

    def __eq__(self, other: object) -> CheckedValues:  # type: ignore[override]  # as arrays do
        return self._combine(np.equal, other)

    def __ne__(self, other: object) -> CheckedValues:  # type: ignore[override]
        return self._combine(np.not_equal, other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: Any) -> CheckedValues:
        return self._combine(np.logical_and, other)

    def __or__(self, other: Any) -> CheckedValues:
        return self._combine(np.logical_or, other)

    def __invert__(self) -> CheckedValues:
        return self._wrap(~self._local)

    def isfinite(self) -> CheckedValues:
        return self._wrap(np.isfinite(self._local))

    # ----- answers, which are the same on all ranks -----

    def _reduce(self, mine: Any, op: ReduceOp, dtype: Any) -> Any:
        found = np.array([mine], dtype)
        with uncounted():
            for group in self._groups:
                transport.all_reduce(group, found, op).wait()
        return found[0]

    def any(self) -> bool:
        return bool(self._reduce(bool(self._local.any()), ReduceOp.MAX, np.uint8))

    def all(self) -> bool:
        return bool(self._reduce(bool(self._local.all()), ReduceOp.MIN, np.uint8))

    def _extreme(self, op: ReduceOp) -> Any:
        kind = self._local.dtype.kind
        info: Any = (
            np.iinfo(self._local.dtype) if kind in "iu" else np.finfo(self._local.dtype) if kind == "f" else None
        )
        none = False if info is None else info.min if op is ReduceOp.MAX else info.max
        mine = none if not self._local.size else self._local.max() if op is ReduceOp.MAX else self._local.min()
        return self._reduce(mine, op, np.uint8 if info is None else self._local.dtype)

    def max(self) -> Any:
        return self._extreme(ReduceOp.MAX)

    def min(self) -> Any:
        return self._extreme(ReduceOp.MIN)

    def __getitem__(self, chosen: Any) -> Any:
        """Return the values selected by a mask, or for a number one of the values: the largest, the same on all
        ranks.
        """
        if isinstance(chosen, CheckedValues):
            return self._wrap(self._local[chosen._local])
        return self.max()

    def reshape(self, *shape: Any) -> CheckedValues:
        return self._wrap(self._local.reshape(-1))
