"""NumPy arrays among the arguments of a compiled function: inputs of its programs.

    step = ndgrad.compile(f)
    step(np.random.rand(1000, 100))          # a new ndarray at each call, as scipy calls functions

A guard on their contents would compare all elements before each call, and trace again after each change. So the
function gets Arrays over the same memory, as `func.grad(f)` gives them to `f`. Results become NumPy arrays again if
they are without compiling. The first call of each kind runs eagerly and shows which results these are. A function that
reads values of the arrays cannot be traced in this way. It is traced for their contents, if these are small.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.borrowed_memory import wrap_lent
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.pytree import TreeSpec, tree_flatten, tree_unflatten
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.runtime.specialization import Specialisation


def have_arrays(flat: Sequence[Any]) -> bool:
    """True if there are NumPy arrays among the leaves of arguments."""
    return any(leaf.__class__ is np.ndarray for leaf in flat)


def as_inputs(flat: Sequence[Any]) -> list[Any] | None:
    """Return the leaves with Arrays over the memory of NumPy arrays; None if one of these holds no numbers. One array
    becomes one Array at all of its positions.
    """
    made: dict[int, Any] = {}
    for leaf in flat:
        if leaf.__class__ is np.ndarray and id(leaf) not in made:
            if leaf.dtype.kind not in "biufc" or not leaf.dtype.isnative:
                return None
            made[id(leaf)] = wrap_lent(_numpy_tensor_type(), leaf)
    return [made.get(id(leaf), leaf) for leaf in flat]


@functools.cache
def _numpy_tensor_type() -> Any:
    return registry.numpy_array.to_array(wrap(Tensor, np.zeros(()))).__class__


class Form:
    """Structure and leaf kinds of a function's result, without the values."""

    def __init__(self, result: Any) -> None:
        leaves, self.spec = tree_flatten(result)
        self.kinds: list[tuple[Any, Hashable]] = [_kind(leaf) for leaf in leaves]

    def fits(self, made: Specialisation) -> bool:
        """True if results of a program can be converted to this form."""
        if made.trace.result_spec != self.spec:
            return False
        for (given, given_dtype), (cls, dtype) in zip(made.trace.results.kinds(), self.kinds, strict=False):
            if given is None:
                continue
            is_plain = issubclass(cls, (np.ndarray, np.generic)) and issubclass(given, Variable)
            if given_dtype != dtype if is_plain else given is not cls:
                return False
        return True

    def convert(self, result: Any) -> Any:
        """Return a result of a program in the form that the function returns."""
        leaves, spec = tree_flatten(result)
        return tree_unflatten([_plain(t, cls) for t, (cls, _) in zip(leaves, self.kinds, strict=True)], spec)


def _kind(leaf: Any) -> tuple[Any, Hashable]:
    return leaf.__class__, leaf.dtype if isinstance(leaf, (np.ndarray, np.generic)) else None


def _plain(leaf: Any, cls: Any) -> Any:
    if not isinstance(leaf, Variable) or not issubclass(cls, (np.ndarray, np.generic)):
        return leaf
    found = np.asarray(leaf._array)
    return found if cls is np.ndarray else found[()]


def kind_of_call(flat: Sequence[Any], spec: TreeSpec) -> Hashable:
    """Return the kind of such calls: the classes of all leaves, and shapes and dtypes of arrays."""
    kinds = [
        (leaf.__class__, leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else leaf.__class__ for leaf in flat
    ]
    return spec, *kinds
