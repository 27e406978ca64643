"""A user's function in the forms that a solver and a derivative rule need.

For the solver: a function of arrays, with the batch of all samples in front, that notes captured tensors. For the rule:
a function of one vector and of all parameters, given and captured, to which any transform can be applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.captures import Watch
from ndgrad._src.core.variable import Variable, np_dtype, requires_grad
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad.implicit.batched_arrays import Batch, take_apart
from ndgrad.implicit.packing import Layout, PyTree, tensor_type_of_tree
from ndgrad.implicit.rewrapping import as_captured, with_tensor_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Tensor

T = TypeVar("T")


class Lent:
    """A function lent to a solver. SciPy's functions and objects leave reference cycles, which would keep all objects
    of the function alive until garbage collection. So the function is withdrawn when the solver is done.
    """

    def __init__(self, function: Callable[..., Any], jacobian: Lent | None = None) -> None:
        self.function: Callable[..., Any] | None = function
        self.jacobian = jacobian

    def __call__(self, *args: Any) -> NDArray[Any]:
        assert self.function is not None
        result = self.function(*args)
        # Solvers write into arrays that they get, and ours may be views of constants. A sparse matrix is left
        # unchanged.
        return np.array(result, np.float64) if isinstance(result, (np.ndarray, np.generic)) else result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.function = None


class Arguments:
    """Extra arguments of a user's function: the tensors among them, and a way to replace these."""

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.leaves, self.spec = tree_flatten(args)
        self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Variable)]
        self.tensors = [as_captured(self.leaves[i]) for i in self.places]
        self.tensor_types = [t.tensor_type for t in self.tensors]

    def fill_in(self, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
        leaves = list(self.leaves)
        for i, tensor_type, t in zip(self.places, self.tensor_types, tensors, strict=True):
            leaves[i] = with_tensor_type(t, tensor_type)
        found: tuple[Any, ...] = tree_unflatten(leaves, self.spec)
        return found

    def plain(self, batch: Batch) -> tuple[Any, ...]:
        return self.fill_in([batch.plain(t) for t in self.tensors])


class Equations:
    """The unknowns `x` (a structure of tensors) and the arguments of a user's functions, for a solver."""

    def __init__(self, name: str, x0: PyTree, args: PyTree, tensor_type: type[Any] | None = None) -> None:
        self.name = name
        given = args if isinstance(args, tuple) else (args,)
        self.arguments = Arguments(given)
        self.layout = Layout(f"{name}: x0", x0, tensor_type or tensor_type_of_tree(x0, given))
        self.batch = Batch()
        self.watch = Watch(self.batch.plain)
        self._plain_arguments: tuple[Any, ...] = ()
        for t in (*self.layout.tensors, *self.arguments.tensors):
            self.batch.include(take_apart(t)[1])
        self._replace: Any = None

    # ----- for the solver -----

    def run(self, function: Callable[..., Any], vector: Tensor) -> PyTree:
        """Call `function(x, *args)` on plain values, and note captured tensors."""
        tree = self.layout.unpack(vector)
        with self.watch.run(own=tree_flatten(tree)[0]):
            return function(tree, *self._plain_arguments)

    def run_flat(self, function: Callable[..., Any], *vectors: Any) -> Tensor:
        """Same as `run`, for a function of flat vectors."""
        with self.watch.run():
            return function(*vectors, *self._plain_arguments)

    def numeric(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Turn a function of a plain vector tensor into one of arrays with the batch in front."""

        def call(x: NDArray[Any]) -> NDArray[Any]:
            x = np.asarray(x)
            if x.dtype != self.layout.dtype:
                x = x.astype(self.layout.dtype)  # solvers compute in float64
            result = function(self.batch.tensor(x, self.layout.tensor_type))
            return self.batch.full(result)

        return call

    def solve(self, solver: Callable[[Any], T]) -> T:
        """Run a solver from the first guess (an array, with the batches in front); the captured tensors are final
        then.
        """

        def run() -> T:
            self.watch.begin()
            self._plain_arguments = self.arguments.plain(self.batch)
            leaves = [self.batch.plain(t) for t in self.layout.tensors]
            return solver(np.array(self.batch.full(self.layout.pack(leaves))))

        result = self.batch.solve(run)
        self.watch.settle()
        self._replace = self.watch.replacing()
        return result

    # ----- for the rule -----

    def parameters(self) -> list[Any]:
        return [*self.arguments.tensors, *self.watch.captured()]

    def has_derivative(self) -> bool:
        """True if any parameter may receive a derivative."""
        self.watch.settle()
        return any(carries_derivative(t) for t in self.parameters())

    def apply(self, function: Callable[..., Any], vector: Tensor, parameters: Sequence[Tensor]) -> PyTree:
        """Call `function(x, *args)` with unknowns and parameters that may be any kind of tensors."""
        return self.apply_flat(function, (self.layout.unpack(vector),), parameters)

    def apply_flat(
        self, function: Callable[..., Any], unknowns: tuple[Any, ...], parameters: Sequence[Tensor]
    ) -> PyTree:
        """Same as `apply`, for a function of flat unknowns."""
        count = len(self.arguments.tensors)
        given, captured = parameters[:count], parameters[count:]
        tensor_types = [t.tensor_type for t in self.watch.captured()]
        captured = [with_tensor_type(t, tensor_type) for t, tensor_type in zip(captured, tensor_types, strict=True)]
        return self._replace(function, captured, *unknowns, *self.arguments.fill_in(given))


def carries_derivative(t: Tensor) -> bool:
    """True if a graph, a dual level or a transform needs a derivative of `t`."""
    if not isinstance(t, Variable) or not is_inexact(np_dtype(t)):
        return False
    while isinstance(t, Variable):
        if requires_grad(t) or tangents_of(t):
            return True
        t = t._array
    return False


__all__ = ["Arguments", "Equations", "Lent", "carries_derivative"]
