"""Higher-order functions: apply a Python function along axes or to every element, and combine its results.

NumPy's `vectorize` and `frompyfunc` pass each element as a plain object and lose the graph. The `vectorize` here passes
0-d Arrays and stacks the results.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import join
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy.coercion import as_array, broadcast, constant, move_axis, one_axis, operands, with_dtype

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike
    from ndgrad.numpy._array import Array

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """Apply a function to every line along an axis; its results replace the lines.

    Args:
        func1d: function of a line, which returns an array of the same shape for every line.
        axis: axis along which the lines lie.
        arr: array of at least one dimension.
        *args: further arguments passed on to `func1d`.
        **kwargs: keyword arguments passed on to `func1d`.

    >>> import ndgrad.numpy as np
    >>> np.apply_along_axis(lambda v: v.sum(), 1, np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.])
    """
    t = as_array(arr)
    axis = one_axis(axis, t.ndim)
    lines = move_axis(t, axis, t.ndim - 1)
    lead = lines.shape[:-1]
    if 0 in lead:
        raise ValueError(
            f"Cannot apply_along_axis when any iteration dimensions are 0 (shape {t.shape}, axis {axis}) [nd-shape]"
        )
    results = [as_array(func1d(lines[place], *args, **kwargs)) for place in np.ndindex(*lead)]
    made = join.stack(*operands(*results), dim=0)
    made = shape_ops.reshape(made, shape=(*lead, *results[0].shape))
    # The dimensions of the result replace the axis.
    for k in range(results[0].ndim):
        made = move_axis(made, len(lead) + k, axis + k)
    return made


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Apply a reduction along one axis after the other, keeping dimensions.

    Args:
        func: function of an array and an axis.
        a: array to reduce.
        axes: axis, or axes in the order in which they are reduced.

    >>> import ndgrad.numpy as np
    >>> np.apply_over_axes(np.sum, np.ones((2, 3)), (0, 1))
    array([[6.]])
    """
    t = as_array(a)
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        axis = one_axis(axis, t.ndim)
        made = as_array(func(t, axis))
        if made.ndim != t.ndim:
            made = shape_ops.reshape(made, shape=(*made.shape[:axis], 1, *made.shape[axis:]))
            if made.ndim != t.ndim:
                raise ValueError("function is not returning an array of the correct shape [nd-shape]")
        t = made
    return t


class vectorize:
    """Turn a Python function of numbers into a differentiable function of arrays, by a Python loop over the elements.

    Args:
        pyfunc: function of numbers. Without one, the object is a decorator with these options.
        otypes: dtypes of the results. None takes those of the results of `pyfunc`; for arrays without elements they are
            required.
        doc: docstring of the new function. None takes that of `pyfunc`.
        excluded: positions and names of arguments that are passed on whole.
        cache: accepted as in NumPy. It has no effect, because the dtypes are read from the results and `pyfunc` runs
            once for each element.
        signature: sizes of the parts of the arguments that one call takes, such as `"(n),(n)->()"`. None means single
            elements.

    >>> import ndgrad.numpy as np
    >>> positive_part = np.vectorize(lambda x: x if x > 0 else 0.0 * x)
    >>> x = np.array([-1.0, 2.0]).requires_grad_()
    >>> positive_part(x).sum().backward()
    >>> x.grad
    array([0., 1.])
    """

    def __init__(
        self,
        pyfunc: Callable[..., Any] | None = None,
        otypes: str | Sequence[Any] | None = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
    ) -> None:
        self.pyfunc = pyfunc
        self.otypes = None if otypes is None else [np.dtype(o) for o in otypes]
        self.excluded = set(excluded or ())
        self.signature = signature
        if pyfunc is not None:
            functools.update_wrapper(self, pyfunc)
        if doc is not None:
            self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is None:  # used as a decorator with arguments
            return vectorize(args[0], self.otypes, None, self.excluded, False, self.signature)
        names = [i for i in range(len(args)) if i not in self.excluded] + [k for k in kwargs if k not in self.excluded]
        given = {n: as_array(args[n] if isinstance(n, int) else kwargs[n]) for n in names}
        cores = self._core_ranks(len(names))
        lead = np.broadcast_shapes(*(given[n].shape[: given[n].ndim - c] for n, c in zip(names, cores, strict=True)))
        wide = {
            n: broadcast(given[n], (*lead, *given[n].shape[given[n].ndim - c :]))
            for n, c in zip(names, cores, strict=True)
        }
        results = []
        for place in np.ndindex(*lead):
            values = {n: t[place] for n, t in wide.items()}
            made = self.pyfunc(
                *(values.get(i, a) for i, a in enumerate(args)), **{k: values.get(k, v) for k, v in kwargs.items()}
            )
            results.append(made if isinstance(made, tuple) else (made,))
        if not results:
            if self.otypes is None:
                raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set [nd-too-few]")
            empty = tuple(constant(np.empty(lead, o)) for o in self.otypes)
            return empty if len(empty) > 1 else empty[0]
        joined = tuple(self._stack_results(k, [r[k] for r in results], lead) for k in range(len(results[0])))
        return joined if len(joined) > 1 else joined[0]

    def _core_ranks(self, count: int) -> list[int]:
        """Return the number of dimensions of each argument that belong to one call."""
        if self.signature is None:
            return [0] * count
        return [
            len([n for n in group.split(",") if n.strip()])
            for group in re.findall(r"\(([^)]*)\)", self.signature.split("->")[0])
        ]

    def _stack_results(self, number: int, parts: list[Any], lead: tuple[int, ...]) -> Array:
        found = operands(*parts)
        made = join.stack(*found, dim=0)
        made = shape_ops.reshape(made, shape=(*lead, *found[0].shape))
        return with_dtype(made, np_dtype(made) if self.otypes is None else self.otypes[number])
