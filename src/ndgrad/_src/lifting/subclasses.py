"""Subclasses of `numpy.ndarray` in lifted code.

The lifted form of `class Q(np.ndarray)` extends `SubclassedArray` instead of ndarray. Its instances are Arrays with
NumPy's rules for subclasses: views, slices, copies and results of ufuncs have the class, and `__array_finalize__` is
called with their source. Single elements and sums are plain 0-d Arrays, as they are NumPy's scalars there. Attributes
belong to the program: a name that tensors have and ndarrays do not (`name`, `grad`) is an ordinary attribute.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core.subclass import as_class
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy._array import Array, to_array
from ndgrad.numpy.coercion import as_array


class SubclassedArray(Array):
    """Base of the lifted forms of subclasses of ndarray."""

    __slots__ = ()
    follows_numpy_subclass = True

    def __new__(cls, shape: Any, dtype: Any = float, buffer: Any = None, *args: Any, **kwargs: Any) -> Any:
        return make_array(cls, shape, dtype, buffer, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __array_finalize__(self, obj: Any) -> None:
        pass

    @classmethod
    def finish_result(cls, result: Array, source: Any) -> Any:
        """Return the result of an op on instances: of this class, unless it is a single number."""
        return make_instance(cls, result, source) if result.ndim else result

    @classmethod
    def finish_view(cls, t: Array) -> Any:
        """Return `t.view(cls)`."""
        return make_instance(cls, shape_ops.alias(to_array(t)), t)

    def view(self, dtype: Any = None, type: Any = None) -> Any:  # type: ignore[override]  # NumPy's, as for Array
        if isinstance(dtype, builtins.type) and issubclass(dtype, (SubclassedArray, Array)):
            dtype, type = None, dtype
        if type is not None or hasattr(dtype, "finish_view"):
            return to_array(self).view(dtype, type)
        if dtype is None:
            return make_instance(self.__class__, to_array(self), self)
        return make_instance(self.__class__, to_array(self).view(dtype), self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        source = next((x for x in inputs if isinstance(x, SubclassedArray)), None)
        plain = [to_array(x) if isinstance(x, SubclassedArray) else x for x in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(to_array(x) if isinstance(x, SubclassedArray) else x for x in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        if out is not None:
            return out[0] if len(out) == 1 else out
        if source is None:  # super().__array_ufunc__ of values that the class took apart
            return result
        if isinstance(result, tuple):
            return tuple(source.__class__.finish_result(r, source) for r in result)
        return source.__class__.finish_result(result, source) if isinstance(result, Array) else result

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_programs(type(self), name):
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def __getattribute__(self, name: str) -> Any:
        if name[:1] != "_" and name in (own := object.__getattribute__(self, "__dict__")):
            return own[name]
        return object.__getattribute__(self, name)  # not that of a lifted class beside ndarray, which lifts arrays


def _reduce_by(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return a reduction: NumPy's `sum`, `prod`, `max` and `min` call the ufunc's `reduce`, which a class may override
    by `__array_ufunc__`."""
    name = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}[ufunc.__name__]
    of_arrays = getattr(Array, name)

    def method(self: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(self).__array_ufunc__ is SubclassedArray.__array_ufunc__ or args or set(kwargs) - {"keepdims"}:
            return of_arrays(self, axis, *args, **kwargs)
        return self.__array_ufunc__(ufunc, "reduce", self, axis=axis, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


for _reduction in (np.add, np.multiply, np.maximum, np.minimum):
    _method = _reduce_by(_reduction)
    setattr(SubclassedArray, _method.__name__, _method)


#: Methods of ndarray whose result has the class of the array, beside those that are ops.
_KEEPING = (
    "ravel flatten squeeze reshape transpose swapaxes take repeat cumsum cumprod clip round astype copy diagonal mean "
    "std var conj conjugate byteswap"
).split()


def keep_class(of_arrays: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function that returns an Array: its result has the class of the first argument, unless it is a single
    number."""

    @functools.wraps(of_arrays)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = of_arrays(*args, **kwargs)
        source = args[0] if args else None
        if made.__class__ is Array and isinstance(source, SubclassedArray) and (made.ndim or not source.ndim):
            return make_instance(source.__class__, made, source)
        return made

    return call


for _name in _KEEPING:
    if hasattr(Array, _name):
        setattr(SubclassedArray, _name, keep_class(getattr(Array, _name)))


def _is_programs(kind: type, name: str) -> bool:
    """True if an attribute belongs to the program, and neither its class nor ndarray handles it."""
    if hasattr(np.ndarray, name) or (name[:1] == "_" and hasattr(SubclassedArray, name)):
        return False
    for k in kind.__mro__:
        if k is SubclassedArray:
            return True
        if name in vars(k):
            return not hasattr(vars(k)[name], "__set__")
    return True


def make_array(cls: type[Any], shape: Any, dtype: Any = float, buffer: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return an instance of a lifted subclass as `numpy.ndarray.__new__` does."""
    made: Any
    if isinstance(buffer, Variable):
        made = shape_ops.alias(to_array(buffer)).reshape(shape)
    else:
        made = as_array(np.ndarray(shape, dtype, buffer, *args, **kwargs))
    return make_instance(cls, made, None)


def make_instance(cls: type[Any], t: Array, source: Any) -> Any:
    """Return an Array as an instance of a lifted subclass, finished by its `__array_finalize__`."""
    made = as_class(shape_ops.alias(t) if t.__class__ is Array and t is source else t, cls)
    if made is t:
        return t
    made.__array_finalize__(source)
    return made


def _through_ufunc(name: str, ufunc: np.ufunc, reflected: bool) -> Callable[[Any, Any], Any]:
    """Return an operator: NumPy's operators of arrays are calls of its ufuncs, which subclasses override."""

    def method(self: Any, other: Any) -> Any:
        theirs = getattr(type(other), "__array_ufunc__", True)
        if theirs is None:
            return NotImplemented
        return ufunc(other, self) if reflected else ufunc(self, other)

    method.__name__ = method.__qualname__ = name
    return method


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul,
}.items():  # fmt: skip
    setattr(SubclassedArray, f"__{_name}__", _through_ufunc(f"__{_name}__", _ufunc, False))
    setattr(SubclassedArray, f"__r{_name}__", _through_ufunc(f"__r{_name}__", _ufunc, True))
for _name, _ufunc in {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}.items():  # fmt: skip
    setattr(SubclassedArray, f"__{_name}__", _through_ufunc(f"__{_name}__", _ufunc, False))
SubclassedArray.__hash__ = Array.__hash__  # type: ignore[method-assign]  # a class with __eq__ would lose it


def _unary(name: str, ufunc: np.ufunc) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return ufunc(self)

    method.__name__ = method.__qualname__ = name
    return method


for _name, _ufunc in {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}.items():
    setattr(SubclassedArray, f"__{_name}__", _unary(f"__{_name}__", _ufunc))
