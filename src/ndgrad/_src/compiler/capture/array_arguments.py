"""NumPy's own arrays among the arguments of a compiled function: inputs of its programs, whatever they hold.

    step = ndgrad.compile(f)
    step(np.random.rand(1000, 100))          # an ndarray, another one at each call; so scipy calls functions

To guard their contents would be to compare all of them before each call, and to trace anew when they change. So the
function is given Arrays over the same memory, as `func.grad(f)` gives them to `f`, and what comes back is NumPy's again
where it is so without compiling. Which results that are, the first call of each kind shows: it runs eagerly. A function
that cannot be traced so, because it asks for their values, is traced for what they hold, if that is little.
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
    """Whether there are arrays of NumPy's among the leaves of arguments."""
    return any(leaf.__class__ is np.ndarray for leaf in flat)


def as_inputs(flat: Sequence[Any]) -> list[Any] | None:
    """The same leaves with Arrays over the memory of arrays; None where one of them holds no numbers. One array is one
    Array wherever it stands."""
    made: dict[int, Any] = {}
    for leaf in flat:
        if leaf.__class__ is np.ndarray and id(leaf) not in made:
            if leaf.dtype.kind not in "biufc" or not leaf.dtype.isnative:
                return None
            made[id(leaf)] = wrap_lent(_face(), leaf)
    return [made.get(id(leaf), leaf) for leaf in flat]


@functools.cache
def _face() -> Any:
    return registry.numpy_array.to_array(wrap(Tensor, np.zeros(()))).__class__


class Form:
    """What a function returns, but for the values: its structure, and what each leaf is."""

    def __init__(self, result: Any) -> None:
        leaves, self.spec = tree_flatten(result)
        self.kinds: list[tuple[Any, Hashable]] = [_kind(leaf) for leaf in leaves]

    def fits(self, made: Specialisation) -> bool:
        """Whether a program gives what can be made such a result."""
        if made.result_spec != self.spec:
            return False
        for (given, given_dtype), (cls, dtype) in zip(made.results.kinds(), self.kinds, strict=False):
            if given is None:
                continue
            is_plain = issubclass(cls, (np.ndarray, np.generic)) and issubclass(given, Variable)
            if given_dtype != dtype if is_plain else given is not cls:
                return False
        return True

    def delivered(self, result: Any) -> Any:
        """A result of a program as the function gives it."""
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
    """What such calls have in common: the classes of all leaves, and shapes and dtypes of arrays."""
    kinds = [
        (leaf.__class__, leaf.shape, leaf.dtype) if isinstance(leaf, np.ndarray) else leaf.__class__ for leaf in flat
    ]
    return spec, *kinds
