"""`Array`: the tensor with NumPy's face.

Same graph, same engine, same storage: only what names mean is NumPy's. Results keep the face of their inputs, and are
Arrays when both kinds meet. Saved values survive later writes (see Note [Versions as a chain]), since ordinary NumPy
programs read earlier parts of a buffer and write later ones. Methods that are functions of NumPy too (sum, std, take,
...) are those functions: see `methods`.

Note [Scalars]
NumPy hands out single elements and whole sums as scalars, which nobody can change: after `tmp = a[i]; a[i] = a[j]`,
tmp is what a[i] was, and after `s = a[0]; s += 1`, a is what it was. Here they are 0-d Arrays, which carry the
graph, so these habits are built in: an index of ints alone copies its element, `+=` and its like on a 0-d Array
make a new one, and what gives it dimensions (`np.ravel(s)`, `s[None]`) copies it. NumPy's 0-d arrays, the few that
there are, are treated alike; `s[...] = value` and `out=s` write into their memory, and those that were made as
arrays index as arrays do.
"""

from __future__ import annotations

import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.detach_checks import at_stake, stake_of
from ndgrad._src.core.inplace import write
from ndgrad._src.core.layout import is_view_of
from ndgrad._src.core.sparse_gradients import is_structured
from ndgrad._src.core.subclass import add_face
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.debug.scipy_calls import advice
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.registry import register
from ndgrad._src.ops import cast as cast_ops
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.arguments import as_shape
from ndgrad._src.tensor.checks import NOT_AN_ARRAY, hand_out, is_called_by_scipy_sparse, vmap_error
from ndgrad._src.tensor.functions import convert, fill, shape
from ndgrad._src.tensor.functions import index as index_api
from ndgrad._src.tensor.storage import batch_dims, memory_of, sample_of
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.numpy._methods import ArrayMethods

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Device, Dtype, Index, Shape, TensorLike
    from ndgrad.numpy.flat import FlatElements  # which is made of this class

#: Whether a lifted function is running (`ndgrad.lift` says so): the code of its author wants numbers, and not to leave
#: a graph, so that `item()` and `tolist()` give 0-d Arrays where plain numbers would drop a derivative.
in_lifted_call: ContextVar[bool] = ContextVar("in_lifted_call", default=False)

_INTS = frozenset((int,))
#: Classes of an index's items that mean what they are, and by far the commonest.
_WRITTEN = frozenset((int, slice, type(None), type(Ellipsis)))


def _reversed(t: Array) -> Array:
    return shape_ops.permute(t, dims=tuple(range(t.ndim))[::-1])


def _zeros(t: Array) -> Array:
    """The imaginary part of real numbers, in C order unless they lie in Fortran's."""
    from ndgrad.numpy.coercion import arranged_like  # which is made of the class below

    return arranged_like(fill_ops.zeros_like(t), t, "A")


class Array(ArrayMethods, Tensor):  # type: ignore[misc]  # NumPy's methods in place of torch's
    """An n-dimensional array with NumPy's methods that remembers how it was computed.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 2.0, 4.0]).requires_grad_()
    >>> x.std().backward()
    >>> x.grad
    array([-0.35634832, -0.08908708,  0.4454354 ])
    """

    __slots__ = ()
    __module__ = "ndgrad.numpy"
    on_numpy_face = keeps_saved = True

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
    def shape(self, value: object) -> None:
        raise AttributeError(
            "an Array's shape cannot be assigned: views of its memory may exist. Write x = x.reshape(...). "
            "[nd-immutable]"
        )

    @property
    def size(self) -> int:  # NumPy's property in place of torch's method
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes to step in each dimension."""
        return tuple(memory_of(self).strides[batch_dims(self) :])

    @property
    def flags(self) -> Any:
        """How the memory lies, and whether it may be written."""
        return sample_of(self).flags

    @property
    def T(self) -> Array:
        """All dimensions reversed."""
        return _reversed(self)

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
        """The elements one by one, in C order, to read and to write."""
        from ndgrad.numpy.flat import FlatElements  # which is made of this class

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
                return cast("Array", index_ops.element.eager(self, index=(index,)))
        elif kind is not slice:
            if kind is not tuple or not _WRITTEN.issuperset(map(type, index)):  # type: ignore[arg-type]  # a tuple
                index = index_api.replace_single_integers(index)
            ints = index if index.__class__ is tuple else (index,)
            if len(ints) == self.ndim and _INTS.issuperset(map(type, ints)):
                try:
                    return cast("Array", index_ops.element.eager(self, index=ints))
                except IndexError:
                    pass  # the next line says it better
            if not self.ndim and None in ints:
                self = cast_ops.clone(self)
        return cast("Array", index_api.getitem(self, index))

    # ----- shape ------------------------------------------------------------------------------------------------------

    def reshape(self, *sizes: Shape, order: str = "C", copy: bool | None = None) -> Array:
        """The elements in another shape: a view of the same memory where possible, else a copy.

        >>> import ndgrad.numpy as np
        >>> np.arange(4).reshape(2, -1)
        array([[0, 1],
               [2, 3]])
        """
        wanted = _inferred(as_shape(sizes), self)
        if order == "F" or (order == "A" and sample_of(self).flags.fnc):
            made = _reversed(reshaped(_reversed(self), wanted[::-1]))
        else:
            made = reshaped(self, wanted)
        if copy is False and made._base is None and made is not self and self.size and self.ndim:
            raise ValueError("Unable to avoid creating a copy while reshaping (copy=False). [nd-copy]")
        return made.copy() if copy else made

    def flatten(self, order: str = "C") -> Array:
        """A one-dimensional copy (torch's `flatten` may be a view).

        >>> import ndgrad.numpy as np
        >>> np.array([[1, 2], [3, 4]]).flatten("F")
        array([1, 3, 2, 4])
        """
        from ndgrad.numpy.shapes import ravel  # which is made of this class

        made = ravel(self, order)
        return cast_ops.clone(made) if is_view_of(made, self) else made

    def transpose(self, *axes: Any) -> Array:
        """A view with its axes permuted; reversed when none are given (torch's `transpose` swaps two).

        >>> import ndgrad.numpy as np
        >>> np.zeros((2, 3, 4)).transpose(1, 0, 2).shape
        (3, 2, 4)
        """
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = () if axes[0] is None else tuple(axes[0])
        if not axes:
            return _reversed(self)
        if len(axes) != self.ndim or len({a % self.ndim for a in axes}) != self.ndim:
            raise ValueError(
                f"axes {axes} don't match an array of {self.ndim} dimensions. Name each axis once. [nd-dim]"
            )
        dims = np.lib.array_utils.normalize_axis_tuple(axes, self.ndim)
        return shape_ops.permute(self, dims=dims)

    def view(self, dtype: Any = None, type: Any = None) -> Array:
        """The same memory read as another dtype (torch's `view` reshapes: here that is `reshape`).

        >>> import ndgrad.numpy as np
        >>> np.array([1.0]).view(np.int64)
        array([4607182418800017408])
        """
        if isinstance(dtype, (int, tuple, list)):
            raise TypeError(
                "Array.view() takes a dtype, as NumPy's does. To change the shape, call reshape(). [nd-arguments]"
            )
        if dtype is None or _is_array_class(dtype):
            return shape_ops.alias(self)
        return cast("Array", shape.view(self, np.dtype(dtype)))

    def resize(self, *sizes: Shape, refcheck: bool = True) -> None:
        """Raises: NumPy's `resize` changes memory that views may share. `ndgrad.numpy.resize` makes a new Array.

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
        """The values in another dtype; a cast to integers has no derivative.

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
            return self.copy(order) if copy else self._arranged(order)
        return cast_ops.cast(self, dtype=wanted)._arranged(order) if is_number(wanted) else as_no_numbers(self, wanted)

    def copy(self, order: str = "C") -> Array:
        """A copy, with its history, that lies in memory in C order, Fortran order ("F") or the array's own ("K").

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
        from ndgrad.numpy.coercion import order_like  # which is made of this class

        return cast_ops.clone_ordered(self, order=order_like(sample_of(self), order))

    def _arranged(self, order: str | None) -> Array:
        """The array itself if it lies in memory in an order ("K": in any), else a copy that does."""
        flags = sample_of(self).flags
        wanted = "F" if order == "F" or (order == "A" and flags.fnc) else "C"
        matters = order in ("C", "F") or (order == "A" and not flags.forc)
        return self.copy(wanted) if matters and not flags[f"{wanted}_CONTIGUOUS"] else self

    def __pos__(self) -> Array:
        return cast_ops.clone(self)

    def fill(self, value: TensorLike) -> None:
        """Set every element to one value, which keeps its history.

        >>> import ndgrad.numpy as np
        >>> x = np.empty(2)
        >>> x.fill(3.0)
        >>> x
        array([3., 3.])
        """
        fill.fill_(self, value)

    def item(self, *args: Any) -> Any:
        """One element as a Python number, the only one or the one at a place; raises where
        that would drop a derivative.

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
                raise _dropped(self, "item()")
            return (
                self.flat[0]
                if not args
                else self.flat[args[0]]
                if len(args) == 1 and not isinstance(args[0], tuple)
                else self[args]
            )
        return hand_out(self, "item", memory_of(self).item(*args))

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; raises where that would drop a derivative.

        >>> import ndgrad.numpy as np
        >>> np.array([[1.0, 2.0]]).tolist()
        [[1.0, 2.0]]
        """
        if _has_stake(self) and not batch_dims(self):
            if not in_lifted_call.get():
                raise _dropped(self, "tolist()")
            return [part.tolist() if part.ndim else part for part in self] if self.ndim else self
        return convert.tolist(self)

    def __hash__(self) -> int:
        """By identity; of a single integer or boolean, which has no derivative, by value, as of NumPy's scalars."""
        if np_dtype(self).kind in "iub" and not isinstance(self._array, Variable) and not self._array.shape:
            return hash(self._array.item())
        return object.__hash__(self)

    def to_device(self, device: Device, /, *, stream: Any = None) -> Array:
        """The array on another device, or itself if it is there already; gradients come back by the same way.

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
        """The memory as bytes; raises where that would drop a derivative.

        >>> import ndgrad.numpy as np
        >>> np.array([1, 2], np.uint8).tobytes()
        b'\\x01\\x02'
        """
        refuse_memory(self)
        return bytes(self.numpy().tobytes(order))

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the elements into a file, which `numpy.fromfile` reads; raises where that would drop a derivative.

        >>> import ndgrad.numpy as np
        >>> np.array([1.0, 2.0]).tofile("numbers.bin")
        >>> np.fromfile("numbers.bin")
        array([1., 2.])
        """
        refuse_memory(self)
        self.numpy().tofile(fid, sep, format)

    def __copy__(self) -> Array:
        """`copy.copy(x)`, NumPy's copy of an array: with its history."""
        return self.copy()

    def __imatmul__(self, other: ArrayLike) -> Self:
        """`x @= y` writes x, as NumPy's does; torch's makes another tensor."""
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
        return repr(np.asarray(self._array))

    def __str__(self) -> str:
        return str(np.asarray(self._array)) if not isinstance(self._array, Variable) else super().__str__()

    def __float__(self) -> float:
        return Tensor.__float__(_outside(self, "float()"))

    def __int__(self) -> int:
        return Tensor.__int__(_outside(self, "int()"))

    def __trunc__(self) -> int:
        return Tensor.__int__(_outside(self, "math.trunc()"))

    def __complex__(self) -> complex:
        return Tensor.__complex__(_outside(self, "complex()"))

    # ----- doors to the memory ----------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if is_called_by_scipy_sparse():
            return NOT_AN_ARRAY
        refuse_memory(self)
        return super().__array__(dtype, copy)

    # No __buffer__: NumPy would prefer it, and what it makes of a buffer does not know whose memory it
    # is (see storage.owner_of).

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if is_called_by_scipy_sparse():
            raise AttributeError("a product with a sparse matrix is the Array's to compute [nd-sparse]")
        refuse_memory(self)
        found: dict[str, Any] = self.numpy().__array_interface__
        return found


def reshaped(t: Array, shape: tuple[int, ...]) -> Array:
    """A tensor in another shape; a copy of a 0-d one that gets dimensions: see Note [Scalars]."""
    return shape_ops.reshape(t if t.ndim or not shape else cast_ops.clone(t), shape=shape)


def _inferred(sizes: tuple[int, ...], t: Array) -> tuple[int, ...]:
    """A shape with its -1 replaced, with NumPy's errors."""
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
    """Whether plain values in the Array's place would drop a derivative; quick for constants, of which
    most numbers are read."""
    return (t._node is not None or t._meta is not None or isinstance(t._array, Variable)) and stake_of(t) is not None


def _outside(t: Array, door: str) -> Array:
    """The Array for a conversion into a Python number, which forgets the graph: on this face that is an
    error, never a silent loss."""
    if _has_stake(t):
        raise _dropped(t, door)
    return t


def _dropped(t: Array, door: str) -> TypeError:
    """What every door to plain numbers says while a derivative would be lost there."""
    return TypeError(
        f"{door} of an Array of shape {tuple(t.shape)} that {stake_of(t)} would drop its derivative: "
        "the result is plain Python numbers. Keep the Array (write u[i] = t into an Array made by ndgrad.numpy, "
        "use ndgrad.numpy's functions instead of math's, print with "
        f'f"{{t:.3f}}"), or leave the graph on purpose: t.detach().{"tolist" if door == "tolist()" else "item"}(). '
        "[nd-drops-gradient]"
    )


def as_no_numbers(t: Array, dtype: np.dtype[Any]) -> Any:
    """The elements as objects, which keep their history, or as text or dates, which have none: a NumPy array."""
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
    """Bare memory forgets the graph too."""
    if _has_stake(t):
        raise RuntimeError(
            f"a call needs the bare memory of an Array that {stake_of(t)} (shape {tuple(t.shape)}), "
            "and a computation on it would drop the derivative. This is what numpy.array([t, ...]), numpy.asarray(t), "
            "numpy.vectorize and others do that cannot see tensors: use ndgrad.numpy (array, stack, vectorize, ...) "
            f"there. For the values alone: t.detach().numpy().{advice()} [nd-drops-gradient]"
        )


def _scalars_stay(name: str) -> None:
    """Let `s += 1` make a new Array where s is 0-d: Python then calls `s = s + 1`."""
    in_place = getattr(Tensor, name)

    def method(self: Array, other: ArrayLike) -> Any:
        return in_place(self, other) if self.ndim else NotImplemented

    method.__name__ = method.__qualname__ = name
    setattr(Array, name, method)


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    if hasattr(Tensor, f"__i{_name}__"):
        _scalars_stay(f"__i{_name}__")

add_face(Array, Array)


def to_array(t: Variable) -> Array:
    """The same value with NumPy's face: a view, no copy."""
    return _with_face(t, Array)


def to_tensor(t: Variable) -> Tensor:
    """The same value with torch's face: a view, no copy."""
    return _with_face(t, Tensor)


def _with_face(t: Any, face: type[Any]) -> Any:
    if t.__class__ is face:
        return t
    if is_structured(t._array):
        raise TypeError(
            f"NumPy's face has strided tensors only, and one of shape {tuple(t.shape)} has the layout {t.layout}. "
            "Convert it with to_dense() or to_padded_tensor(0.0) first, or use ndgrad.scipy.sparse. [nd-sparse]"
        )
    other = shape_ops.alias(t)
    other.__class__ = face
    return other


register(to_array=to_array, to_tensor=to_tensor)
