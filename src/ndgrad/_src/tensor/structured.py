"""`StructuredTensor`: the base class of tensors that are made of an array of values and a constant structure.

Sparse and nested tensors are such tensors. Their classes handle public functions and ops by tables of handlers
(`handler_table`). A handler computes on the values, which are an ordinary tensor. Only the conversions between values
and structured tensors have derivative rules of their own: they are custom functions, which `run_conversion` runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias, TypeVar

import numpy as np

from ndgrad._src.core.modes import thread
from ndgrad._src.core.subclass import note_tensor_rules
from ndgrad._src.core.variable import Variable, innermost_array, meta_of, np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.custom_functions.function import Function, run_function
from ndgrad._src.foundations import devices
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=Tensor)

#: Handlers by the name of a public function, or of an op.
Handlers: TypeAlias = dict[str, Callable[..., Any]]


def handler_table() -> tuple[Handlers, Callable[..., Callable[[F], F]]]:
    """Return an empty table of handlers, and a decorator that registers a handler under names."""
    table: Handlers = {}

    def handles(*names: str) -> Callable[[F], F]:
        def add_to(function: F) -> F:
            table.update(dict.fromkeys(names, function))
            return function

        return add_to

    return table, handles


class StructuredTensor(Tensor):
    """A tensor whose payload has a structure and `values`. Subclasses say how functions are handled."""

    __slots__ = ()

    @staticmethod
    def _refuse(name: str, args: Iterable[object], options: dict[str, Any]) -> NoReturn:
        """Raise an error: a function is not defined for this class."""
        raise NotImplementedError

    def _map_values(self, function: Callable[[Tensor], Tensor]) -> Any:
        """Return a tensor of the same structure over a function of the values."""
        raise NotImplementedError

    def _pickled(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        """Return a function and its arguments that make the tensor again."""
        raise NotImplementedError

    @property
    def device(self) -> devices.device:
        """The device of the values: the CPU."""
        return devices.device("cpu")

    @property  # type: ignore[misc]  # a part of a structured tensor is not written
    def real(self) -> Self:
        """The real part; for a real tensor, the tensor itself."""
        return self._map_values(lambda v: v.real) if np_dtype(self).kind == "c" else self

    @property  # type: ignore[misc]  # likewise
    def imag(self) -> Self:
        """The imaginary part of a complex tensor."""
        return self._map_values(lambda v: v.imag)

    def array(self) -> NoReturn:
        """Raise an error: Arrays have no structure."""
        self._refuse("array", (self,), {})

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> NoReturn:
        self._refuse(f"numpy.{ufunc.__name__}", (self,), {})

    def __array_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> NoReturn:
        self._refuse(f"numpy.{function.__name__}", (self,), {})

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        if carries(self):
            self._refuse("pickling inside a transform", (self,), {})
        return self._pickled()


def tensors_among(values: Iterable[object]) -> Iterator[Tensor]:
    """Yield the tensors among arguments, also those in lists and tuples."""
    for value in values:
        if isinstance(value, Variable):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_among(value)


def recording(*values: object) -> bool:
    """True if results computed from these will be recorded."""
    return thread.grad_enabled and any(isinstance(t, Variable) and requires_grad(t) for t in values)


def carries(x: Tensor) -> bool:
    """True if the values of a structured tensor are a tensor, inside a transform."""
    return isinstance(innermost_array(x).values, Variable)


def constant(array: NDArray[Any]) -> Tensor:
    """Return indices as a tensor."""
    made: Tensor = wrap(Tensor, array)
    return made


def mark_as_leaf(made: T, leaf: bool) -> T:
    """Return a tensor read from a pickle, which requires grad if the pickled one did."""
    if leaf:
        meta_of(made).requires_grad = True
    return made


# ----- writes ---------------------------------------------------------------------------------------------------------


def check_leaf_write(name: str, target: Tensor) -> None:
    """Raise an error if a write would change a leaf that requires grad."""
    if target._node is None and requires_grad(target) and thread.grad_enabled:
        raise RuntimeError(
            f"{name}(): a leaf Variable that requires grad is being used in an in-place operation. "
            "Write in a no_grad() block, or use the function without the underscore. [nd-leaf-write]"
        )


def take_value(target: Tensor, result: Tensor) -> None:
    """Give a tensor the payload and the history of another. The memory is new to the target: its old memory may belong
    to the values from which the target was built, with their history.
    """
    target._array, target._storage = innermost_array(result), storage_of(result)
    target._node = result._node
    if target._meta is not None or result._meta is not None:
        meta_of(target).output_nr = 0 if result._meta is None else result._meta.output_nr


# ----- conversions ----------------------------------------------------------------------------------------------------


def run_conversion(function: type[Function], *args: Any) -> Any:
    """Run a conversion outside of all levels; a backward pass through it runs its rules on tensors."""
    if not recording(*args):
        return function.forward(_Unrecorded(), *args)
    made = run_function(function, args, {})
    if made._node is not None:
        note_tensor_rules(made._node)
    return made


class _Unrecorded:
    """The context of a call that is not recorded."""


def share_values(made: Tensor, x: Tensor) -> Tensor:
    """Return the values of a structured tensor as its memory. Recorded values cannot be written: the structured tensor
    would keep the history of its old values.
    """
    made._storage = storage_of(x)
    if made._node is not None and isinstance(made._array, np.ndarray):
        made._array = made._array.view()
        made._array.flags.writeable = False
    return made
