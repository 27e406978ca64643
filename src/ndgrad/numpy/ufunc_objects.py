"""The ufuncs of ndgrad.numpy: objects like NumPy's, with `reduce`, `outer` and the rest, that make Arrays of whatever they are given.

A call on Python or NumPy numbers alone has nothing to differentiate, and gives what NumPy gives: a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.autograd.variable import Variable
from ndgrad.numpy import ufunc_methods
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import NotNumbers
from ndgrad.numpy.ufuncs import READY, call, straight, ufuncs

_NUMBERS = (bool, int, float, complex, np.generic)


class UniversalFunction:
    """One ufunc. `ndgrad.numpy.add` is `numpy.add` with Arrays as results."""

    __slots__ = ("__dict__", "_quick", "nin", "ufunc")

    def __init__(self, ufunc: Any) -> None:
        self.ufunc = ufunc
        self.nin = ufunc.nin
        self._quick: Any = None
        self.__name__ = self.__qualname__ = ufunc.__name__
        self.__doc__ = f"numpy.{ufunc.__name__}, with Arrays as results."

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs:
            quick = self._quick
            if (
                quick is not None
                and inputs[0].__class__ is Array
                and (len(inputs) == 1 or (len(inputs) == 2 == self.nin and inputs[1].__class__ in READY))  # `out` comes by position too
            ):
                return quick(*inputs)
            if all(isinstance(x, _NUMBERS) for x in inputs):
                return self.ufunc(*inputs)
            if quick is None and len(inputs) == self.ufunc.nin:
                self._quick = straight(self.ufunc)
        try:
            return call(self.ufunc, *inputs, **kwargs)
        except NotNumbers:
            if any(isinstance(x, Variable) for x in (*inputs, *kwargs.values())):
                raise
            return self.ufunc(*inputs, **kwargs)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False, **options: Any) -> Any:
        return ufunc_methods.reduce_along(self.ufunc, array, axis, dtype, out, keepdims, **options)

    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        return ufunc_methods.accumulate(self.ufunc, array, axis, dtype, out)

    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        return ufunc_methods.reduceat(self.ufunc, array, indices, axis, dtype, out)

    def outer(self, A: Any, B: Any, /, **options: Any) -> Any:
        return ufunc_methods.outer(self.ufunc, A, B, **options)

    def at(self, a: Any, indices: Any, *values: Any) -> None:
        ufunc_methods.at(self.ufunc, a, indices, *values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.ufunc, name)  # nout, identity, types, signature, ...

    def __repr__(self) -> str:
        return f"<ndgrad.numpy ufunc {self.__name__!r}>"

    def __reduce__(self) -> Any:
        return _find, (self.__name__,)


def _find(name: str) -> UniversalFunction:
    return FUNCTIONS[name]


#: Name -> ufunc, under each name that NumPy gives it; names of one ufunc share one object, as in NumPy.
_BY_UFUNC = {f: UniversalFunction(f) for f in ufuncs().values()}
FUNCTIONS: dict[str, UniversalFunction] = {name: _BY_UFUNC[f] for name, f in vars(np).items() if isinstance(f, np.ufunc)}
