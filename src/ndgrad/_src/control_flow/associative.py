"""associative_scan: all prefixes of an associative operation in a logarithmic number of steps.

Pairs of neighbours are combined first, which leaves half as many elements. Their prefixes are the prefixes of even
length; those of odd length need one more element each:

    elements           a     b     c     d     e
    pairs              ab          cd                      recursion:  ab, abcd
    prefixes           a     ab    abc   abcd  abcde       = a, ab, (ab)c, abcd, (abcd)e

So about 2 n combinations take 2 log2(n) calls of the function, each on whole arrays; a scan would need n calls one
after another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ndgrad._src.control_flow.carry import Leaves
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.vocabulary import tensor_ops

Elements = TypeVar("Elements")


@set_module("ndgrad.func")
def associative_scan(
    fn: Callable[[Elements, Elements], Elements], elems: Elements, reverse: bool = False, axis: int = 0
) -> Elements:
    """Return all prefixes of `elems` along an axis under an associative function: a, fn(a, b), fn(fn(a, b), c), ...

    Args:
        fn: associative function of two structures like `elems`. Their tensors hold any number of elements along the
            axis, which it combines one by one.
        elems: tensors of equal size along the axis, in any nested structure.
        reverse: whether the prefixes start at the last element.
        axis: axis of the elements.

    Returns:
        A structure like `elems`.

    >>> import ndgrad
    >>> ndgrad.func.associative_scan(ndgrad.mul, ndgrad.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 1.,  2.,  6., 24.])
    """
    given = Leaves("associative_scan", "elems", elems)
    sizes = []
    for k, t in enumerate(given.tensors):
        if not -len(t.shape) <= axis < len(t.shape):
            raise ValueError(
                f"associative_scan: axis is {axis}, but {given.path(k)} has {len(t.shape)} dimensions (shape "
                f"{tuple(t.shape)}). Choose one of these. [nd-carry]"
            )
        sizes.append(int(t.shape[axis]))
    if not sizes:
        raise ValueError("associative_scan: elems holds no tensor. Give at least one. [nd-carry]")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"associative_scan: the tensors of elems have {sizes} elements along axis {axis}. They must agree. "
            "[nd-carry]"
        )
    return given.fill(_Prefixes(fn, given, axis, reverse)())


class _Prefixes:
    def __init__(self, fn: Callable[[Any, Any], Any], given: Leaves, axis: int, reverse: bool) -> None:
        self.fn = fn
        self.given = given
        self.reverse = reverse
        self.axes = [axis % len(t.shape) for t in given.tensors]

    def __call__(self) -> list[Any]:
        if not self.reverse:
            return self._compute(self.given.tensors)
        turned = slice(None, None, -1)
        return self._part(self._compute(self._part(self.given.tensors, turned)), turned)

    def _compute(self, elements: list[Any]) -> list[Any]:
        n = elements[0].shape[self.axes[0]]
        if n < 2:
            return elements
        even = self._compute(
            self._combine(self._part(elements, slice(0, n - 1, 2)), self._part(elements, slice(1, None, 2)))
        )
        odd = self._part(elements, slice(0, 1))
        if n > 2:
            before = self._part(even, slice(0, (n - 1) // 2))
            odd = self._join(odd, self._combine(before, self._part(elements, slice(2, None, 2))))
        pairs = [self._interleave(a, b, axis) for a, b, axis in zip(odd, even, self.axes, strict=True)]
        return self._join(pairs, self._part(odd, slice(n // 2, None))) if n % 2 else pairs

    def _combine(self, a: list[Any], b: list[Any]) -> list[Any]:
        like = Leaves("associative_scan", "elems", self.given.fill(a))
        return like.check_like(
            self.fn(self.given.fill(a), self.given.fill(b)),
            "of as many elements",
            "The function combines elements one by one and returns as many.",
        )

    def _part(self, tensors: list[Any], cut: slice) -> list[Any]:
        return [
            tensor_ops.getitem(t, index=(*(slice(None),) * axis, cut))
            if cut.step != -1
            else tensor_ops.flip(t, dims=(axis,))
            for t, axis in zip(tensors, self.axes, strict=True)
        ]

    def _join(self, a: list[Any], b: list[Any]) -> list[Any]:
        return [tensor_ops.cat(x, y, dim=axis) for x, y, axis in zip(a, b, self.axes, strict=True)]

    @staticmethod
    def _interleave(a: Any, b: Any, axis: int) -> Any:
        """Take elements of `a` and `b` by turns, as long as both last."""
        shape = tuple(b.shape)
        if tuple(a.shape) != shape:
            a = tensor_ops.getitem(a, index=(*(slice(None),) * axis, slice(0, shape[axis])))
        both = tensor_ops.stack(a, b, dim=axis + 1)
        return tensor_ops.reshape(both, shape=(*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]))
