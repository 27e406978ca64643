"""Locate values in memory: views of a program are ways to read memory, not work.

Memory that a program computes is contiguous. The result of a view op is therefore a *place*: a root (a value in memory,
or a register of the kernel that computes it), an offset and a stride per dimension, in elements. Reading it means
reading the root at other addresses. If strides cannot express a view (a reshape of a transposed array), the op copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Value


@dataclass(frozen=True, slots=True)
class Place:
    """Element (i, j, ...) is element offset + i strides[0] + j strides[1] + ... of the root."""

    root: Value
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True if it is all of the root, in its order."""
        return self.offset == 0 and self.size == self.root.size and is_contiguous(self.shape, self.strides)

    @property
    def size(self) -> int:
        n = 1
        for k in self.shape:
            n *= k
        return n

    def broadcast(self, shape: tuple[int, ...]) -> Place:
        """Return the place broadcast to a shape, with stride 0 along repeated dimensions."""
        missing = len(shape) - len(self.shape)
        strides = [0] * missing + [0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True)]
        return Place(self.root, self.offset, shape, tuple(strides))

    def permuted(self, order: Sequence[int]) -> Place:
        """Return the place with its dimensions in another order."""
        return Place(
            self.root, self.offset, tuple([self.shape[d] for d in order]), tuple([self.strides[d] for d in order])
        )

    def reshaped(self, shape: tuple[int, ...]) -> Place | None:
        """Return the same elements in another shape; None if strides cannot express it."""
        found = _viewed(self, np.float64, lambda a: reshaped_view(a, shape))
        return None if found is None else Place(self.root, *found)

    def apply_view(self, view: Callable[[Any], Any]) -> Place | None:
        """Apply a function that returns views; None if it would copy."""
        found = _viewed(self, self.root.dtype, view)
        return None if found is None else Place(self.root, *found)

    def viewed(self, instruction: Instruction, number: int) -> Place | None:
        """Return the place that a view op shows."""
        op, settings = instruction.op, instruction.settings
        if op.name in ("reshape", "unsafe_view"):
            return self.reshaped(settings["shape"])
        if op.name == "conj":  # it computes complex results
            return None if self.root.dtype.kind == "c" else self
        if op.name in ("detach", "alias"):
            return self
        if instruction.results[number].dtype != self.root.dtype:
            return None

        def show(a: Any) -> Any:
            try:
                shown = op.forward_for(np)(a, **settings)
            except RuntimeError:  # windows need memory without gaps
                return None
            return shown if op.outputs == 1 else shown[number]

        return self.apply_view(show)


def whole(value: Value) -> Place:
    """Return the place of a whole value in memory."""
    return Place(value, 0, value.shape, contiguous(value.shape))


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array in C order."""
    step, out = 1, []
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1:
            if s != expected:
                return False
            expected *= n
    return True


def _viewed(place: Place, dtype: Any, show: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]] | None:
    """Return offset, shape and strides of `show` applied to an array like the place; None if it would copy.

    The array has the strides of the place and the memory of one element, so `show` must not read it. Other arrays may
    have addresses in its range: only the chain of bases tells views from copies.
    """
    size = np.dtype(dtype).itemsize
    stand_in = np.lib.stride_tricks.as_strided(np.zeros(1, dtype), place.shape, tuple(s * size for s in place.strides))
    start = stand_in.__array_interface__["data"][0]
    if not stand_in.size:
        return None
    shown = show(stand_in)
    if shown is None or not is_view_of(shown, stand_in):
        return None
    moved = shown.__array_interface__["data"][0] - start
    return place.offset + moved // size, tuple(shown.shape), tuple(s // size for s in shown.strides)


def is_view_of(shown: Any, array: Any) -> bool:
    """True if `shown` is `array` or a view of it."""
    while shown is not None and shown is not array:
        shown = getattr(shown, "base", None)
    return shown is array


def reshaped_view(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of an array in another shape; None if that needs a copy."""
    if not _CAN_REFUSE:
        try:
            array.shape = shape  # raises if a copy would be needed
        except (AttributeError, ValueError):
            return None
        return array
    try:
        return np.reshape(array, shape, copy=False)
    except ValueError:
        return None


#: `reshape(copy=False)` needs NumPy 2.1. Older versions allow assigning `.shape` instead.
_CAN_REFUSE = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
