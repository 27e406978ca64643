"""Derivatives by finite differences, for comparison with gradients.

Elements are changed in memory and restored, so that a function that reads its input by another path (a closure, a view)
sees the change too. Complex numbers count as pairs of real ones with separate derivatives. The comparison applies the
conventions of forward and reverse mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.placement import CPU, move_to
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype
from ndgrad._src.core.versions import storage_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

Array = np.ndarray[Any, Any]


class Slopes(NamedTuple):
    """The derivatives of one output along the real parts of one input's elements, and along the imaginary parts.

    Each has shape (elements of the input, elements of the output) and is complex if the output is; `imaginary`
    is None for a real input.
    """

    real: Array
    imaginary: Array | None

    def of_output_part(self, imaginary: bool) -> Array:
        """Return the gradient of the real (or imaginary) part of the output, in the convention of reverse mode: d/dx +
        i d/dy.
        """
        part = np.imag if imaginary else np.real
        return np.asarray(part(self.real) if self.imaginary is None else part(self.real) + 1j * part(self.imaginary))


def host_array(t: Tensor) -> Array:
    """Return a copy of a tensor's values in NumPy's memory."""
    array = innermost_array(t) if isinstance(t, Variable) else t
    return np.array(move_to(array, CPU))


def values_of(outputs: Sequence[Any]) -> list[Array]:
    """Return the values of outputs, copied from memory that may be about to change. Integers are converted, since their
    differences would wrap around.
    """
    arrays = [host_array(o) for o in outputs]
    return [a if is_inexact(a.dtype) else a.astype(np.float64) for a in arrays]


def memory_of(t: Tensor, name: str) -> Array:
    """Return the array of a tensor, for writing."""
    storage_of(t)  # gives a scalar its own memory
    array = t._array
    if not getattr(array.flags, "writeable", True):
        raise RuntimeError(
            f"gradcheck: {name}, of shape {tuple(t.shape)}, lies in read-only memory, and finite differences move its "
            "elements in place. Pass a clone() of it. [nd-shared-memory]"
        )
    return array


@contextmanager
def _moved_element(array: Array, index: tuple[int, ...]) -> Iterator[Callable[[complex], None]]:
    """Return a context with a function that moves one element by a step; the element is restored afterwards."""
    before = array[index].copy()

    def move(step: complex) -> None:
        array[index] = before + step

    try:
        yield move
    finally:
        array[index] = before


def numerical_jacobian(
    call: Callable[[], list[Array]], t: Tensor, name: str, eps: float, step: Callable[[], None] = lambda: None
) -> list[Slopes]:
    """Return, per output of `call`, its slopes along every element of tensor `t`. `call` reads the memory of `t` and
    returns copies.
    """
    array = memory_of(t, name)
    is_complex = np_dtype(t).kind == "c"
    rows: list[list[list[Array]]] = []  # [real, imaginary][element][output]
    for direction in (1.0, 1j) if is_complex else (1.0,):
        found = []
        for index in np.ndindex(tuple(t.shape)):
            with _moved_element(array, index) as move:
                move(direction * eps)
                after = call()
                move(-direction * eps)
                before = call()
            found.append([((a - b) / (2 * eps)).ravel() for a, b in zip(after, before, strict=True)])
            step()
        rows.append(found)
    if not rows[0]:  # an empty input: only the shapes of the outputs are known
        empty = [np.zeros((0, o.size), o.dtype) for o in call()]
        return [Slopes(e, e if is_complex else None) for e in empty]
    count = len(rows[0][0])
    stacks = [[np.stack([row[o] for row in found]) for o in range(count)] for found in rows]
    return [Slopes(stacks[0][o], stacks[1][o] if is_complex else None) for o in range(count)]


def numerical_directional(
    call: Callable[[], list[Array]], t: Tensor, name: str, direction: Array, eps: float
) -> list[Array]:
    """Return the derivative of each output of `call` when tensor `t` moves along `direction`."""
    array = memory_of(t, name)
    before = array.copy()
    along = library_of(array).asarray(direction)
    try:
        array[...] = before + eps * along
        plus = call()
        array[...] = before - eps * along
        minus = call()
    finally:
        array[...] = before
    return [(p - m) / (2 * eps) for p, m in zip(plus, minus, strict=True)]


def number_of_elements(t: Tensor) -> int:
    return int(math.prod(t.shape)) * (2 if np_dtype(t).kind == "c" else 1)
