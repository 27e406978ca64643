"""`Array`: the tensor class with NumPy's interface.

Graph, engine and storage are those of tensors; only the meaning of names is NumPy's. Results have the class of their
inputs, and are Arrays if both classes are mixed. Saved values survive later writes (see Note [Versions as a chain]),
since ordinary NumPy programs read earlier parts of a buffer and write later ones. Methods that are also NumPy functions
(sum, std, take, ...) are those functions: see `methods`.

Note [Scalars] NumPy returns single elements and whole sums as immutable scalars: after `tmp = a[i]; a[i] = a[j]`, tmp
has the old value of a[i], and after `s = a[0]; s += 1`, a is unchanged. Here they are 0-d Arrays, which carry the
graph, with the same behaviour: an index of ints alone copies its element, `+=` and similar operators on a 0-d Array
create a new one, and operations that add dimensions (`np.ravel(s)`, `s[None]`) copy it. NumPy's rare 0-d arrays are
treated alike; `s[...] = value` and `out=s` write into their memory, and those created as arrays index like arrays.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.detach_checks import at_stake, stake_of
from ndgrad._src.core.inplace import write
from ndgrad._src.core.inplace_shape import change_shape
from ndgrad._src.core.layout import is_view_of
from ndgrad._src.core.sparse_gradients import is_structured
from ndgrad._src.core.subclass import add_tensor_type, as_tensor_type
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.debug.scipy_calls import advice, lift_line
from ndgrad._src.foundations import devices
from ndgrad._src.ops import cast as cast_ops
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.ops.window import geometry_of
from ndgrad._src.tensor.arguments import as_shape
from ndgrad._src.tensor.checks import NOT_AN_ARRAY, hand_out, is_called_by_scipy_sparse, vmap_error
from ndgrad._src.tensor.functions import convert, fill, shape
from ndgrad._src.tensor.functions import index as index_api
from ndgrad._src.tensor.storage import batch_dims, memory_of, sample_of
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.numpy import _callers
from ndgrad.numpy._methods import ArrayMethods

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Device, Dtype, Index, Shape, TensorLike
    from ndgrad.numpy.flat import FlatElements  # avoids an import cycle

#: True inside a function lifted by `ndgrad.lift`. Such code expects numbers and must not leave the graph, so `item()`
#: and `tolist()` return 0-d Arrays if plain numbers would drop a derivative.
in_lifted_call: ContextVar[bool] = ContextVar("in_lifted_call", default=False)

#: Functions (array, indices) -> element as a number of lifted code, or None; set by the layer above.
readers: list[Any] = []
_INTS = frozenset((int,))
#: Classes of index items that need no conversion; by far the most common.
_WRITTEN = frozenset((int, slice, type(None), type(Ellipsis)))


def _reverse_axes(t: Array) -> Array:
    return shape_ops.permute(t, dims=tuple(range(t.ndim))[::-1])


def _zeros(t: Array) -> Array:
    """Return the imaginary part of real numbers, in C order unless the memory is in Fortran order."""
    from ndgrad.numpy.coercion import arrange_like  # avoids an import cycle

    return arrange_like(fill_ops.zeros_like(t), t, "A")


class Array(ArrayMethods, Tensor):  # type: ignore[misc]  # NumPy's methods in place of torch's
    """An n-dimensional array with NumPy's methods that records its computation.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 2.0, 4.0]).requires_grad_()
    >>> x.std().backward()
    >>> x.grad
    array([-0.35634832, -0.08908708,  0.4454354 ])
    """

    __slots__ = ()
    __module__ = "ndgrad.numpy"
    is_numpy_type = keeps_saved = True

    # ----- attributes -------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's own dtype."""
        return np_dtype(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each axis."""
        meta = self._meta
        shape = self._array.shape
        return tuple(shape[1:] if meta is not None and meta.batch_level else shape)

    @shape.setter
    def shape(self, value: Shape) -> None:
        wanted = _infer_shape(as_shape((value,)), self)
        if not shape_ops.can_view(self.shape, geometry_of(self).strides, wanted):
            raise AttributeError(
                f"Incompatible shape for in-place modification: an Array of shape {self.shape} and strides "
                f"{self.strides} cannot have shape {wanted} without a copy. Write x = x.reshape(...). [nd-immutable]"
            )
        change_shape(shape_ops.reshape, self, {"shape": wanted}, "ViewBackward0")

    @property
    def size(self) -> int:  # NumPy's property in place of torch's method
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """The number of bytes to step in each dimension."""
        return tuple(memory_of(self).strides[batch_dims(self) :])

    @property
    def flags(self) -> Any:
        """The memory layout, and whether the memory may be written."""
        return sample_of(self).flags

    @property
    def T(self) -> Array:
        """All dimensions reversed."""
        return _reverse_axes(self)

    @property
    def imag(self) -> Array:
        """The imaginary part: a view, and zeros for real numbers."""
        return complex_ops.imag(self) if np_dtype(self).kind == "c" else _zeros(self)

    @imag.setter
    def imag(self, value: ArrayLike) -> None:
        if np_dtype(self).kind != "c":
            raise TypeError(
                f"cannot set the imaginary part of an Array of {np_dtype(self)}. "
                "Make it complex with .astype(complex). [nd-complex]"
            )
        write(fill_ops.copy, self.imag, (value,), {})

    @property
    def flat(self) -> FlatElements:
        """The elements in C order as a flat iterator, to read and to write."""
        from ndgrad.numpy.flat import FlatElements  # avoids an import cycle

        return FlatElements(self)

    @flat.setter
    def flat(self, value: ArrayLike) -> None:
        self.flat[...] = value

    @property
    def base(self) -> Array | None:
        """The Array whose memory this one is a view of, or None."""
        return self._base

    # ----- elements and scalars: see Note [Scalars] -------------------------------------------------------------------

    def __getitem__(self, index: Index) -> Array:
        kind = index.__class__
        if kind is int:
            shape = self.shape
            if len(shape) == 1 and -shape[0] <= index < shape[0]:  # type: ignore[operator]  # an int
                if readers and (self._node is not None or self._meta is not None):
                    made = readers[0](self, (index,))
                    if made is not None:
                        return made
                return index_ops.element.eager(self, index=(index,))
        elif kind is not slice:
            if kind is not tuple or not _WRITTEN.issuperset(map(type, index)):  # type: ignore[arg-type]  # a tuple
                index = index_api.replace_single_integers(index)
            ints = index if index.__class__ is tuple else (index,)
            if len(ints) == self.ndim and _INTS.issuperset(map(type, ints)):
                try:
                    if readers and ints and (self._node is not None or self._meta is not None):
                        made = readers[0](self, ints)
                        if made is not None:
                            return made
                    return index_ops.element.eager(self, index=ints)
                except IndexError:
                    pass  # the next line raises a better error
            if not self.ndim and None in ints:
                self = cast_ops.clone(self)
        return index_api.getitem(self, index)  # type: ignore[return-value]  # an Array for an Array

    # ----- shape ------------------------------------------------------------------------------------------------------

    def reshape(self, *sizes: Shape, order: str = "C", copy: bool | None = None) -> Array:
        """Return the elements in another shape: a view of the same memory if possible, else a copy.

        Args:
            *sizes: size of each axis, as ints or as one tuple. One of them may be -1, which stands for the rest.
            order: order in which elements are read and written: `"C"`, `"F"` or `"A"` (`"F"` if the array is in Fortran
                order, else `"C"`).
            copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

        >>> import ndgrad.numpy as np
        >>> np.arange(4).reshape(2, -1)
        array([[0, 1],
               [2, 3]])
        """
        wanted = _infer_shape(as_shape(sizes), self)
        if order == "F" or (order == "A" and sample_of(self).flags.fnc):
            made = _reverse_axes(reshape_as_numpy(_reverse_axes(self), wanted[::-1]))
        else:
            made = reshape_as_numpy(self, wanted)
        if copy is False and made._base is None and made is not self and self.size and self.ndim:
            raise ValueError("Unable to avoid creating a copy while reshaping (copy=False). [nd-copy]")
        return made.copy() if copy else made

    def flatten(self, order: str = "C") -> Array:
        """Return a one-dimensional copy (torch's `flatten` may be a view).

        Args:
            order: order of the elements: `"C"`, `"F"`, `"A"` (`"F"` if the array is in Fortran order, else `"C"`) or
                `"K"` (as in memory).

        >>> import ndgrad.numpy as np
        >>> np.array([[1, 2], [3, 4]]).flatten("F")
        array([1, 3, 2, 4])
        """
        from ndgrad.numpy.shapes import ravel  # avoids an import cycle

        made = ravel(self, order)
        return cast_ops.clone(made) if is_view_of(made, self) else made

    def transpose(self, *axes: Any) -> Array:
        """Return a view with permuted axes; reversed if none are given (torch's `transpose` swaps two).

        Args:
            *axes: axes in their new order, as ints or as one tuple.

        >>> import ndgrad.numpy as np
        >>> np.zeros((2, 3, 4)).transpose(1, 0, 2).shape
        (3, 2, 4)
        """
        if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)):
            axes = () if axes[0] is None else tuple(map(operator.index, axes[0]))
        if not axes:
            return _reverse_axes(self)
        if len(axes) != self.ndim or len({a % self.ndim for a in axes}) != self.ndim:
            raise ValueError(
                f"axes {axes} don't match an array of {self.ndim} dimensions. Name each axis once. [nd-dim]"
            )
        dims = np.lib.array_utils.normalize_axis_tuple(axes, self.ndim)
        return shape_ops.permute(self, dims=dims)

    def view(self, dtype: Any = None, type: Any = None) -> Array:
        """Return the same memory as another dtype (torch's `view` reshapes: use `reshape`).

        Args:
            dtype: dtype as which the memory is read. None or a class of arrays gives a view with the same dtype.
            type: class of arrays. The result is an Array for every class.

        Raises:
            TypeError: if `dtype` is a shape, or `type` is no class of arrays.

        >>> import ndgrad.numpy as np
        >>> np.array([1.0]).view(np.int64)
        array([4607182418800017408])
        """
        if isinstance(dtype, (int, tuple, list)):
            raise TypeError(
                "Array.view() takes a dtype, as NumPy's does. To change the shape, call reshape(). [nd-arguments]"
            )
        kind = dtype if isinstance(dtype, builtins.type) else type
        finish = getattr(kind, "finish_view", None)
        if finish is not None:  # a class of lifted code
            return cast("Array", finish(self))
        if type is not None and not _is_array_class(type):
            raise TypeError(
                f"Array.view(): type is {type!r}, which is no class of arrays. Leave it out. [nd-arguments]"
            )
        if dtype is None or _is_array_class(dtype):
            return shape_ops.alias(self)
        return cast("Array", shape.view(self, np.dtype(dtype)))

    def resize(self, *sizes: Shape, refcheck: bool = True) -> None:
        """Raise an error: NumPy's `resize` changes memory that views may share. `ndgrad.numpy.resize` returns a new
        Array.

        Args:
            *sizes: accepted for the error message.
            refcheck: accepted for the error message.

        Raises:
            ValueError: always.

        >>> import ndgrad.numpy as np
        >>> np.resize(np.array([1, 2]), 3)
        array([1, 2, 1])
        """
        raise ValueError(
            "resize() of an Array in place is not supported: other Arrays may view its memory. "
            "Use reshape(), or ndgrad.numpy.resize(). [nd-unsupported]"
        )

    # ----- elements ---------------------------------------------------------------------------------------------------

    def astype(
        self, dtype: Dtype, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Array:
        """Return the values in another dtype; a cast to integers has no derivative.

        Args:
            dtype: dtype of the result.
            order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order)
                or `"K"` (that of the array).
            casting: rule that the conversion must satisfy: `"no"`, `"equiv"`, `"safe"`, `"same_kind"` or `"unsafe"`.
            subok: accepted as in NumPy. It has no effect, because results are always Arrays.
            copy: whether the result is a copy even if dtype and order are already right.

        Raises:
            TypeError: if `casting` does not allow the conversion.

        >>> import ndgrad.numpy as np
        >>> np.array([1.5, -1.5]).astype(int)
        array([ 1, -1])
        """
        wanted = np.dtype(dtype)
        if not np.can_cast(np_dtype(self), wanted, casting):  # type: ignore[arg-type]  # the stubs want a literal
            raise TypeError(
                f"Cannot cast array data from {np_dtype(self)!r} to {wanted!r} according to the rule {casting!r} "
                "[nd-cast]"
            )
        if np_dtype(self) == wanted:
            return self.copy(order) if copy else self._in_memory_order(order)
        return (
            cast_ops.cast(self, dtype=wanted)._in_memory_order(order)
            if is_number(wanted)
            else as_no_numbers(self, wanted)
        )

    def copy(self, order: str = "C") -> Array:
        """Return a copy, with its history.

        Args:
            order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order)
                or `"K"` (that of the array).

        >>> import ndgrad.numpy as np
        >>> x = np.zeros(2)
        >>> x.copy().fill(1.0)
        >>> x
        array([0., 0.])
        """
        n = self.ndim
        if n < 2 or (order == "K" and 0 not in memory_of(self).strides):
            return cast_ops.clone(self)
        if order == "C":
            return cast_ops.clone_ordered(self, order=tuple(range(n)))
        from ndgrad.numpy.coercion import order_like  # avoids an import cycle

        return cast_ops.clone_ordered(self, order=order_like(sample_of(self), order))

    def _in_memory_order(self, order: str | None) -> Array:
        """Return the array itself if its memory has an order ("K": any), else a copy in that order."""
        flags = sample_of(self).flags
        wanted = "F" if order == "F" or (order == "A" and flags.fnc) else "C"
        matters = order in ("C", "F") or (order == "A" and not flags.forc)
        return self.copy(wanted) if matters and not flags[f"{wanted}_CONTIGUOUS"] else self

    def __pos__(self) -> Array:
        return cast_ops.clone(self)

    def fill(self, value: TensorLike) -> None:
        """Set every element to one value, which keeps its history.

        Args:
            value: number, or array of one element.

        >>> import ndgrad.numpy as np
        >>> x = np.empty(2)
        >>> x.fill(3.0)
        >>> x
        array([3., 3.])
        """
        fill.fill_(self, value)

    def item(self, *args: Any) -> Any:
        """Return one element as a Python number, the only one or the one at an index; raise if that would drop a
        derivative.

        Args:
            *args: index of the element: one int for the flattened array, or one int for each axis. It may be left out
                for an array of one element.

        >>> import ndgrad.numpy as np
        >>> np.array([[1.0, 2.0]]).item(1)
        2.0
        >>> x = np.array(3.0).requires_grad_()
        >>> (x * x).detach().item()
        9.0
        """
        if batch_dims(self):
            raise vmap_error("item() of a batched Array has no one value")
        if _has_stake(self):
            if not in_lifted_call.get():
                raise _number_error(self, "item()")
            return (
                self.flat[0]
                if not args
                else self.flat[args[0]]
                if len(args) == 1 and not isinstance(args[0], tuple)
                else self[args]
            )
        return hand_out(self, "item", memory_of(self).item(*args))

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers; raise if that would drop a derivative.

        >>> import ndgrad.numpy as np
        >>> np.array([[1.0, 2.0]]).tolist()
        [[1.0, 2.0]]
        """
        if _has_stake(self) and not batch_dims(self):
            if not in_lifted_call.get():
                raise _number_error(self, "tolist()")
            return [part.tolist() if part.ndim else part for part in self] if self.ndim else self
        return convert.tolist(self)

    def __hash__(self) -> int:
        """Hash by identity; hash a single integer or boolean, which has no derivative, by value like NumPy's
        scalars.
        """
        if np_dtype(self).kind in "iub" and not isinstance(self._array, Variable) and not self._array.shape:
            return hash(self._array.item())
        return object.__hash__(self)

    def to_device(self, device: Device, /, *, stream: Any = None) -> Array:
        """Return the array on another device, or itself if it is there already; gradients are moved back.

        Args:
            device: device of the result. None returns the array itself.
            stream: accepted only as None, because CuPy's own context selects the stream.

        Raises:
            ValueError: if `stream` is given.

        >>> import ndgrad.numpy as np
        >>> np.zeros(2).to_device("cpu")
        array([0., 0.])
        """
        if stream is not None:
            raise ValueError(
                f"to_device(): stream={stream!r} was given, and streams are chosen by CuPy's own context. "
                "Leave it out. [nd-arguments]"
            )
        return self.to(devices.device(device)) if device is not None else self

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the memory as bytes; raise if that would drop a derivative.

        Args:
            order: order of the elements: `"C"`, `"F"` or `"A"` (`"F"` if the array is in Fortran order, else `"C"`).

        >>> import ndgrad.numpy as np
        >>> np.array([1, 2], np.uint8).tobytes()
        b'\\x01\\x02'
        """
        refuse_memory(self)
        return bytes(self.numpy().tobytes(order))

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the elements to a file, for `numpy.fromfile`; raise if that would drop a derivative.

        Args:
            fid: path of the file, or an open file.
            sep: text between the elements. The empty string writes binary data.
            format: format of one element in a text file, as for the operator `%`.

        >>> import ndgrad.numpy as np
        >>> np.array([1.0, 2.0]).tofile("numbers.bin")
        >>> np.fromfile("numbers.bin")
        array([1., 2.])
        """
        refuse_memory(self)
        self.numpy().tofile(fid, sep, format)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Set flags of the memory, as NumPy does.

        Args:
            write: whether the memory may be written. None leaves the flag unchanged.
            align: whether the memory is aligned. None leaves the flag unchanged.
            uic: NumPy's flag WRITEBACKIFCOPY, which can only be cleared. None leaves it unchanged.

        >>> import ndgrad.numpy as np
        >>> x = np.zeros(2)
        >>> x.setflags(write=False)
        >>> x.flags.writeable
        False
        """
        sample_of(self).setflags(write=write, align=align, uic=uic)

    def __copy__(self) -> Array:
        """Return a copy with its history, for `copy.copy(x)`, as NumPy does."""
        return self.copy()

    def __imatmul__(self, other: ArrayLike) -> Self:
        """Write the result of `x @= y` into x, as NumPy does; torch returns another tensor."""
        if self.ndim and np.ndim(other) < 2:
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and the second "
                "at least two dimensions. [nd-write-fit]"
            )
        np.matmul(self, other, out=self)  # type: ignore[call-overload]  # the stubs know no Array
        return self

    # ----- text and numbers -------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if isinstance(self._array, Variable):
            return super().__repr__()
        text = repr(np.asarray(self._array))
        if not self.requires_grad:
            return text
        suffix, last = "requires_grad=True)", text.rpartition("\n")[2]
        is_short = len(last) + len(suffix) + 1 <= np.get_printoptions()["linewidth"]
        return text[:-1] + (", " if is_short else ",\n      ") + suffix

    def __str__(self) -> str:
        return str(np.asarray(self._array)) if not isinstance(self._array, Variable) else super().__str__()

    def __float__(self) -> float:
        return Tensor.__float__(_refuse_number(self, "float()") if _has_stake(self) else self)

    def __int__(self) -> int:
        return Tensor.__int__(_refuse_number(self, "int()") if _has_stake(self) else self)

    def __trunc__(self) -> int:
        return Tensor.__int__(_refuse_number(self, "math.trunc()") if _has_stake(self) else self)

    def __complex__(self) -> complex:
        return Tensor.__complex__(_refuse_number(self, "complex()") if _has_stake(self) else self)

    # ----- access to the memory ---------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if is_called_by_scipy_sparse():
            return NOT_AN_ARRAY
        if _has_stake(self) and in_lifted_call.get():  # NumPy itself asks for __array_interface__ first
            return cast("NDArray[Any]", self if dtype is None else self.astype(dtype, copy=bool(copy)))
        refuse_memory(self)
        return super().__array__(dtype, copy)

    # No __buffer__: NumPy would prefer it, and an array made from a buffer does not know the owner of its memory (see
    # storage.owner_of).

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if is_called_by_scipy_sparse():
            raise AttributeError("a product with a sparse matrix is the Array's to compute [nd-sparse]")
        refuse_memory(self)
        found: dict[str, Any] = self.numpy().__array_interface__
        return found


def reshape_as_numpy(t: Array, shape: tuple[int, ...]) -> Array:
    """Return a tensor in another shape; copy a 0-d one that gets dimensions: see Note [Scalars]."""
    return shape_ops.reshape(t if t.ndim or not shape else cast_ops.clone(t), shape=shape)


def _infer_shape(sizes: tuple[int, ...], t: Array) -> tuple[int, ...]:
    """Return a shape with its -1 replaced, with NumPy's errors."""
    count, known = t.size, math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) > 1:
        raise ValueError("can only specify one unknown dimension [nd-reshape]")
    if -1 in sizes and known and count % known == 0:
        return tuple(count // known if n == -1 else n for n in sizes)
    if -1 in sizes or known != count or any(n < 0 for n in sizes):
        raise ValueError(
            f"cannot reshape array of size {count} into shape {sizes} (its shape is {t.shape}) [nd-reshape]"
        )
    return sizes


def _is_array_class(dtype: object) -> bool:
    return isinstance(dtype, type) and issubclass(dtype, (np.ndarray, Variable))


def _has_stake(t: Array) -> bool:
    """True if plain values instead of the Array would drop a derivative. This is fast for constants, the most common
    case.
    """
    return (t._node is not None or t._meta is not None or isinstance(t._array, Variable)) and stake_of(t) is not None


def _refuse_number(t: Array, call: str) -> Array:
    """Return a constant for a conversion into text; raise for other conversions, which would drop a derivative.

    Only methods that Python calls for a conversion call this, if a derivative is at stake.
    """
    caller = sys._getframe(2)
    if _callers.is_formatting(caller):
        return t.detach()
    stored = _store_error(t)
    error = stored if _callers.is_storing(caller) else _number_error(t, call)
    _callers.replace_next_error(caller, stored)
    raise error


def _number_error(t: Array, call: str) -> TypeError:
    """Return the error of a conversion to plain numbers that would lose a derivative."""
    method = "tolist" if call == "tolist()" else "item"
    return TypeError(
        f"{call} of an Array of shape {tuple(t.shape)} that {stake_of(t)} would drop its derivative. To print, log or "
        f"keep the number, write t.detach().{method}(). To compute with it, keep the Array and use ndgrad.numpy's "
        f"functions instead of math's.{lift_line()} [nd-drops-gradient]"
    )


def _store_error(t: Array) -> TypeError:
    """Return the error of a write of an Array into a NumPy array."""
    return TypeError(
        f"a NumPy array cannot hold an Array of shape {tuple(t.shape)} that {stake_of(t)}: its derivative would be "
        "lost. Make the array with ndgrad.numpy.zeros instead of numpy.zeros (any function of ndgrad.numpy that makes "
        f"arrays will do), or write t.detach() to store the value alone.{lift_line()} [nd-drops-gradient]"
    )


def as_no_numbers(t: Array, dtype: np.dtype[Any]) -> Any:
    """Return a NumPy array of the elements as objects, which keep their history, or as text or dates, which have
    none.
    """
    if dtype.kind == "O" and at_stake(t):
        made = np.empty(tuple(t.shape), object)
        for place in np.ndindex(*t.shape):
            made[place] = t[place]
        return made
    if (lost := stake_of(t)) is not None:
        raise TypeError(
            f"an Array of shape {tuple(t.shape)} that {lost} cannot become {dtype}, which has no derivative. "
            "Use t.detach() for its values. [nd-drops-gradient]"
        )
    return t.numpy().astype(dtype)


def refuse_memory(t: Array) -> None:
    """Raise: plain memory drops the graph too."""
    if _has_stake(t):
        raise RuntimeError(
            f"a call needs the bare memory of an Array that {stake_of(t)} (shape {tuple(t.shape)}), "
            "so the derivative would be lost. Write ndgrad.numpy (zeros, array, asarray, stack, vectorize, ...) "
            f"instead of numpy there, or t.detach().numpy() for the values alone.{advice()}{lift_line()} "
            "[nd-drops-gradient]"
        )


def _scalars_stay(name: str) -> None:
    """Make `s += 1` create a new Array if s is 0-d: Python then calls `s = s + 1`."""
    in_place = getattr(Tensor, name)

    def method(self: Array, other: ArrayLike) -> Any:
        return in_place(self, other) if self.ndim else NotImplemented

    method.__name__ = method.__qualname__ = name
    setattr(Array, name, method)


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    if hasattr(Tensor, f"__i{_name}__"):
        _scalars_stay(f"__i{_name}__")

add_tensor_type(Array, Array)


def to_array(t: Variable) -> Array:
    """Return the same value as an Array: a view, no copy."""
    return _as_tensor_class(t, Array)


def to_tensor(t: Variable) -> Tensor:
    """Return the same value as a Tensor: a view, no copy."""
    return _as_tensor_class(t, Tensor)


def _as_tensor_class(t: Any, tensor_class: type[Any]) -> Any:
    if t.__class__ is tensor_class:
        return t
    if is_structured(t._array):
        raise TypeError(
            f"an Array is strided, but a tensor of shape {tuple(t.shape)} has the layout {t.layout}. "
            "Convert it with to_dense() or to_padded_tensor(0.0) first, or use ndgrad.scipy.sparse. [nd-sparse]"
        )
    if t.__class__ is tensor_class:  # a number that became an Array when its memory was read
        return t
    return as_tensor_type(t, tensor_class)
