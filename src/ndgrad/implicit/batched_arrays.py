"""Arrays of tensors, with all transforms removed except vmap's batches.

A solver works on arrays. Outside vmap these are the plain values. Inside, one array holds the whole batch, with the
dimensions of all relevant vmap levels in front (outermost first), and the solver steps all samples together.

Note [Levels of a solve]
While a solver runs, the user's function is called in vmap levels of the solve, one for each relevant outer level. So
values created by the function are younger than the solve, and older values were captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ndgrad._src.core.variable import wrap
from ndgrad._src.interpreters import batching
from ndgrad._src.interpreters.batching import BatchLevel, batch_tensor
from ndgrad._src.interpreters.levels import find_level

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor

T = TypeVar("T")


def take_apart(t: Tensor) -> tuple[Any, tuple[int, ...]]:
    """Return the array of a tensor and the numbers of the vmap levels whose batches are its leading dimensions,
    outermost first.
    """
    array, levels = batching.take_apart(t)
    if not isinstance(array, (np.ndarray, np.generic)):
        raise TypeError(
            "SciPy's solvers compute in main memory, and a tensor that they are to work with lies in a "
            f"{type(array).__module__} array. "
            "Move it there with .cpu(); gradients flow through the move. [nd-host]"
        )
    return array, levels


def put_together(array: NDArray[Any], levels: Sequence[int], tensor_type: type[Any]) -> Tensor:
    """Return the tensor over an array with the batches of these vmap levels in front."""
    t = wrap(tensor_type, array)
    if levels:
        for number in levels:
            t = batch_tensor(find_level(number), t)
    return t


class _Grown(BaseException):
    """Raised when a solve meets a batch that it does not run over yet. Not an Exception, so that no solver swallows
    it.
    """


class Batch:
    """The vmap levels over which a solve runs. A new level restarts the solve with that level added."""

    def __init__(self) -> None:
        self.levels: tuple[int, ...] = ()
        #: Outer level -> level of the solve, while it runs.
        self._inside: dict[int, int] = {}
        self._outside: dict[int, int] = {}
        self._open = False

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(_level(number).size or 0 for number in self.levels)

    def include(self, levels: Sequence[int]) -> None:
        wanted = tuple(sorted({*self.levels, *levels}))
        if wanted != self.levels:
            self.levels = wanted
            if self._open:
                raise _Grown

    def solve(self, run: Callable[[], T]) -> T:
        """Run a solver in the levels of Note [Levels of a solve]."""
        while True:
            try:
                with self._opened():
                    return run()
            except _Grown:
                continue

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with ExitStack() as stack:
            for number in self.levels:
                outer = _level(number)
                inner = stack.enter_context(BatchLevel(outer.size, outer.randomness)).number
                self._inside[number], self._outside[inner] = inner, number
            self._open = True
            try:
                yield
            finally:
                self._open = False
                self._inside, self._outside = {}, {}

    def array(self, t: Tensor) -> NDArray[Any]:
        """Return the values of a tensor with the dimensions of all levels in front; missing ones have size 1."""
        array, numbers = take_apart(t)
        levels = tuple(self._outside.get(n, n) for n in numbers)
        self.include(levels)
        shape = np.shape(array)
        sizes = iter(shape)
        lead = tuple(next(sizes) if number in levels else 1 for number in self.levels)
        return np.asarray(array).reshape((*lead, *shape[len(levels) :]))

    def full(self, t: Tensor) -> NDArray[Any]:
        """Same as `array`, with every batch expanded."""
        array = self.array(t)
        return np.broadcast_to(array, (*self.sizes, *array.shape[len(self.levels) :]))

    def tensor(self, array: NDArray[Any], tensor_type: type[Any]) -> Tensor:
        """Return the tensor over an array that has all batches in front."""
        return put_together(array, [self._inside.get(n, n) for n in self.levels], tensor_type)

    def plain(self, t: Tensor) -> Tensor:
        """Return a tensor's values without graphs and tangents, still batched if it was."""
        array, numbers = take_apart(t)
        self.include([self._outside.get(n, n) for n in numbers])
        return put_together(array, [self._inside.get(n, n) for n in numbers], t.tensor_type)


def _level(number: int) -> BatchLevel:
    level = find_level(number)
    assert isinstance(level, BatchLevel)
    return level


__all__ = ["Batch", "put_together", "take_apart"]
