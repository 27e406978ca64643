"""Python's protocols: len, iteration, truth, numbers, arrays, text, copies.

Each conversion from a tensor to a plain value checks that nothing is lost: the graph, the
batch of a vmap, elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np

from ndgrad._src.arrays.precision import FLOATING
from ndgrad._src.core.variable import BareTensor, Variable, np_dtype, wrap
from ndgrad._src.foundations import registry
from ndgrad._src.tensor.checks import NOT_AN_ARRAY, is_called_by_scipy_sparse, only_element, real_scalar, scalar
from ndgrad._src.tensor.public import method
from ndgrad._src.tensor.storage import batch_dims, memory_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from ndgrad._typing import Payload


class PythonProtocols(BareTensor):
    """The special methods of `Tensor` that are not operators.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0])
    >>> len(x), 2.0 in x, [float(element) for element in x]
    (2, True, [1.0, 2.0])
    """

    __slots__ = ()

    # `self` is Any in methods that use attributes added by `Tensor`.

    @method
    def __len__(self: Any) -> int:
        sizes = self.shape
        if not sizes:
            raise TypeError(
                "len() of a 0-d tensor, which has no dimensions. It holds one element: use item(). [nd-one-value]"
            )
        return int(sizes[0])

    def __iter__(self) -> Iterator[Self]:
        """Iterate over the slices along the first dimension; they are writable views."""
        t: Any = self
        if not t.shape:
            raise TypeError(
                "iteration over a 0-d tensor, which has no dimensions. It holds one element: use item(). [nd-one-value]"
            )
        return (t[i] for i in range(len(t)))

    def __reversed__(self) -> Self:
        t: Any = self
        return t.flip(0) if t.ndim else t

    @method
    def __contains__(self: Any, element: object) -> bool:
        if not isinstance(element, (Variable, bool, int, float, complex, np.generic)):
            raise RuntimeError(
                f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}. "
                "Compare with == and any() instead. [nd-type]"
            )
        return bool((self == element).any())

    @method
    def __bool__(self: Any) -> bool:
        array = self._array
        if array.__class__ is np.bool_:
            return bool(array)
        count = self.numel()
        if count != 1:
            how_many = "more than one value" if count else "no values"
            raise RuntimeError(
                f"Boolean value of Tensor with {how_many} is ambiguous (shape {tuple(self.shape)}). "
                "Use any(), all() or numel(). [nd-one-value]"
            )
        if getattr(memory_of(self), "is_traced", False) and not batch_dims(self):
            return bool(memory_of(self))  # The trace records the answer.
        return bool(only_element(self, "data-dependent control flow (if, while, and, or, not)"))

    @method
    def __float__(self) -> float:
        array = self._array
        if (
            array.__class__ is np.ndarray
            and array.size == 1
            and self._node is None
            and self._meta is None
            and array.dtype.kind in FLOATING
        ):
            return float(array.item())
        return float(real_scalar(self))

    @method
    def __int__(self) -> int:
        return int(real_scalar(self))

    @method
    def __complex__(self) -> complex:
        return complex(scalar(self))

    def __index__(self: Any) -> int:
        if np_dtype(self).kind not in "iub" or self.numel() != 1:
            raise TypeError(
                "only integer tensors of a single element can be converted to an index, but this one has dtype "
                f"{self.dtype} and shape {tuple(self.shape)}. Convert it with .long() or take one element. "
                "[nd-one-value]"
            )
        return int(only_element(self, "an index or a size"))

    @method
    def __array__(self: Any, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the memory as a NumPy array; raise if that would drop the graph."""
        if is_called_by_scipy_sparse():
            return NOT_AN_ARRAY
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"a tensor of {array.dtype} cannot become an array of {dtype} without a copy, "
                    "and copy=False forbids one. [nd-copy]"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run a NumPy ufunc on tensors: see ndgrad.numpy.ufuncs, whose function replaces this one on the
        first call."""
        PythonProtocols.__array_ufunc__ = array_ufunc = registry.numpy_ufuncs.array_ufunc  # type: ignore[method-assign]
        return array_ufunc(self, ufunc, method, *inputs, **kwargs)

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run a NumPy function on tensors: see ndgrad.numpy.dispatch."""
        # The first call replaces this method by the real function.
        PythonProtocols.__array_function__ = array_function = registry.numpy_functions.array_function  # type: ignore[method-assign]
        return array_function(self, function, types, args, kwargs)

    def __array_wrap__(
        self, array: Payload, context: tuple[Any, ...] | None = None, return_scalar: bool = False
    ) -> Self:
        """Wrap the result of a NumPy function that does not dispatch: a constant of the argument's tensor class."""
        t: Any = self
        return wrap(t.tensor_type, array)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """Return the array API standard's functions for this tensor: the module ndgrad.array_api."""
        return registry.array_api.namespace(api_version)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        from ndgrad._src.tensor.functions.dlpack import dlpack_device  # imports Tensor

        return dlpack_device(self)

    def __dlpack__(
        self: Any,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return the memory for another library's from_dlpack(); raise if that would drop the graph."""
        from ndgrad._src.tensor.functions.dlpack import to_capsule  # imports Tensor

        return to_capsule(self, stream, max_version, dl_device, copy)

    def __format__(self: Any, spec: str) -> str:
        if self.ndim == 0 and not self.is_meta and not batch_dims(self):
            return format(only_element(self, "format()"), spec)  # Text has no derivative to lose.
        return object.__format__(self, spec)

    @method
    def __repr__(self: Any) -> str:
        from ndgrad._src.tensor.text import tensor_text  # keeps the import of ndgrad fast

        return tensor_text(self)

    def _repr_html_(self: Any) -> str:
        from ndgrad._src.tensor.heat_map import tensor_html  # only notebooks need it

        return tensor_html(self)

    def __dir__(self) -> list[str]:
        return sorted(set(object.__dir__(self)) - {"volatile"})

    def __copy__(self) -> Self:
        """Implement `copy.copy(t)`: the same values, in the graph."""
        from ndgrad._src.tensor.copies import shallow_copy  # keeps the import of ndgrad fast

        return shallow_copy(self)

    @method
    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        from ndgrad._src.tensor.copies import deep_copy  # keeps the import of ndgrad fast

        return deep_copy(self, memo)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        from ndgrad._src.tensor.copies import reduce_for_pickle  # keeps the import of ndgrad fast

        return reduce_for_pickle(self)
