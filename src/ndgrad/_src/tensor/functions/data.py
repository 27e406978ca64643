"""Tensors from data: `tensor`, `as_tensor`, `from_numpy` and relatives.

Two questions decide the result: the dtype (Python floats take the default, arrays keep theirs) and the owner of the
memory. `tensor` always copies. The others share memory if possible, and then share the version counter too, so that
all of them see a write through any of them.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.placement import library_for, move_to
from ndgrad._src.arrays.precision import convert, is_float8, is_inexact, is_number
from ndgrad._src.core.borrowed_memory import Lent
from ndgrad._src.core.call_watchers import FACTORY, call_watched
from ndgrad._src.core.detach_checks import as_number, stake_of
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.open_levels import birth_level
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, wrap
from ndgrad._src.core.versions import InferenceStorage
from ndgrad._src.foundations import devices, registry
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor.arguments import warn_user
from ndgrad._src.tensor.checks import check_differentiable, describe_loss
from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage, batch_dims, memory_of, shared_storage
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Device, Dtype, Layout, Payload, TensorLike

__all__ = ["as_tensor", "asarray", "from_file", "from_numpy", "frombuffer", "scalar_tensor", "tensor"]
METHODS = ("new", "new_tensor")


def fresh(array: Payload, requires_grad: bool = False, tensor_type: type[Any] = Tensor) -> Any:
    """Return a new leaf over an unshared array, marked with the modes in which it was made."""
    if requires_grad:
        check_differentiable(array.dtype)
    t = wrap(tensor_type, array)
    if thread.inference:
        t._storage = InferenceStorage()
    if requires_grad or thread.levels or process.open:
        meta = meta_of(t)
        meta.requires_grad = requires_grad
        meta.made_in = birth_level()
        if requires_grad and thread.levels and thread.levels[-1].kind == "grad":
            meta.level = meta.made_in  # a leaf of the graph that is being recorded
    return t


def note_data_source(t: Tensor, data: object) -> Tensor:
    """In debug mode, record that a tensor was made from data; return the tensor."""
    if process.busy and thread.debug:
        registry.provenance.note_data(t, data)
    return t


def place(device: Device) -> devices.device:
    """Return the named device, or the default one."""
    return devices.get_default_device() if device is None else devices.device(device)


# ----- functions ------------------------------------------------------------------------------------------------------


def tensor(
    data: ArrayLike,
    *,
    dtype: Dtype = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Sequence[str | None] | None = None,
) -> Tensor:
    """Return a new tensor with a copy of `data`: a number, nested sequences, an array or another tensor.

    Args:
        data: number, nested sequences of numbers, array or tensor.
        dtype: dtype of the result. The default is that of an array, and for Python numbers bool, int64, or the default
            floating or complex dtype.
        device: device of the result. The default is the current default device.
        requires_grad: whether autograd records operations on the result.
        pin_memory: accepted as in torch; has no effect here.
        names: names of the dimensions.

    >>> import ndgrad
    >>> ndgrad.tensor([[1, 2], [3, 4]]).dtype, ndgrad.tensor([1, 2.5])
    (ndgrad.int64, tensor([1.0000, 2.5000]))
    """
    if isinstance(data, Tensor):
        warn_user(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than ndgrad.tensor(sourceTensor)."
        )
        made = _from_tensor(data, dtype, device, copy=True).requires_grad_(requires_grad)
    else:
        array = to_array(data, dtype, copy=True)
        if process.busy and thread.watchers:
            make = partial(fresh, move_to(array, place(device)), requires_grad)
            made = note_data_source(call_watched(FACTORY, "tensor", None, (), make), data)
        else:
            made = note_data_source(fresh(move_to(array, place(device)), requires_grad), data)
    if names is not None:
        made.names = names
    return made


def as_tensor(data: Any, dtype: Dtype = None, device: Device = None) -> Tensor:
    """Return `data` as a tensor, sharing memory if possible; a tensor that already fits is returned unchanged.

    Args:
        data: number, nested sequences of numbers, array or tensor.
        dtype: dtype of the result. The default is found as in `tensor`.
        device: device of the result. The default is that of a tensor, else the current default device.

    >>> import ndgrad, numpy
    >>> a = numpy.zeros(2)
    >>> ndgrad.as_tensor(a).add_(1.0)
    tensor([1., 1.], dtype=ndgrad.float64)
    >>> a
    array([1., 1.])
    """
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(device=device, dtype=dtype)
    if is_raw_array(data) and not isinstance(data, np.generic):
        where = place(device)
        return _share_memory(to_array(data, dtype, copy=False), where)
    return note_data_source(fresh(move_to(to_array(data, dtype, copy=False), place(device))), data)


def asarray(
    obj: Any, *, dtype: Dtype = None, device: Device = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """Return `obj` as a tensor. Tensors keep their graph, arrays and buffers their memory, unless `copy` is True.

    Args:
        obj: number, nested sequences of numbers, array, tensor or object with a buffer.
        dtype: dtype of the result. The default is found as in `tensor`; a buffer is read as the default dtype.
        device: device of the result. The default is that of a tensor, else the current default device.
        copy: True for a copy in any case, False for an error if a copy is needed, None for a copy if needed.
        requires_grad: whether autograd records operations on the result.

    >>> import ndgrad
    >>> ndgrad.asarray([1, 2], dtype=ndgrad.float64)
    tensor([1., 2.], dtype=ndgrad.float64)
    """
    if isinstance(obj, Tensor):
        converted = obj.to(device=device, dtype=dtype)
        changed = converted is not obj
        made = converted if changed or not copy else converted.clone()
    else:
        if (
            not is_raw_array(obj)
            and not isinstance(obj, (bool, int, float, complex, Sequence))
            and hasattr(obj, "__buffer__")
        ):
            obj = np.frombuffer(obj, dtypes.as_numpy_dtype(dtype or dtypes.get_default_dtype()))
        is_array = is_raw_array(obj) and not isinstance(obj, np.generic)
        shares = is_array and (dtype is None or obj.dtype == dtypes.as_numpy_dtype(dtype))
        changed = not shares
        made = as_tensor(obj, dtype, device)
        made = made if not shares or not copy else made.clone()
    if copy is False and changed:
        raise ValueError(
            f"asarray(): a {type(obj).__name__} cannot become a tensor of dtype {dtype} without a copy, and "
            "copy=False forbids one. Leave copy out. [nd-copy]"
        )
    return made.requires_grad_() if requires_grad else made


def from_numpy(ndarray: NDArray[Any]) -> Tensor:
    """Return a tensor over the memory of a NumPy array: writes to one are visible in the other.

    Args:
        ndarray: NumPy array of numbers or bools.

    >>> import ndgrad, numpy
    >>> a = numpy.zeros(2)
    >>> t = ndgrad.from_numpy(a).add_(1)
    >>> a
    array([1., 1.])
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(
            f"expected np.ndarray (got {type(ndarray).__name__}). Use as_tensor() for other data. [nd-type]"
        )
    dtypes.as_dtype(ndarray.dtype)
    return _share_memory(ndarray, devices.device("cpu"))


def frombuffer(
    buffer: Any, *, dtype: dtypes.DTypeLike, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """Return a one-dimensional tensor over the memory of an object with a buffer.

    Args:
        buffer: object with a buffer, such as bytes or an array.
        dtype: dtype of the elements in the buffer.
        count: number of elements. -1 means all.
        offset: number of bytes to skip at the start.
        requires_grad: whether autograd records operations on the result.

    >>> import ndgrad
    >>> ndgrad.frombuffer(bytearray([1, 2, 3]), dtype=ndgrad.uint8, offset=1)
    tensor([2, 3], dtype=ndgrad.uint8)
    """
    wanted = dtypes.as_numpy_dtype(dtype)
    try:
        array = np.frombuffer(buffer, wanted, count, offset)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"frombuffer(): a {type(buffer).__name__} cannot be read as {count} elements of {wanted} from byte "
            f"{offset}: {error}. Choose dtype, count and offset so that they fit. [nd-data]"
        ) from error
    made = _share_memory(array, devices.device("cpu"))
    return made.requires_grad_() if requires_grad else made


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Dtype = None,
    layout: Layout = None,
    device: Device = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a vector over the memory-mapped bytes of a file.

    Args:
        filename: path of the file.
        shared: whether writes to the tensor change the file, which is then made or enlarged as needed.
        size: number of elements.
        dtype: dtype of the elements. None means the default dtype.
        layout: None or `ndgrad.strided`.
        device: None or the CPU.
        pin_memory: must be False.

    >>> import ndgrad, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers")
    ...     _ = ndgrad.from_file(path, shared=True, size=3).fill_(2.0)
    ...     ndgrad.from_file(path, size=2)
    tensor([2., 2.])
    """
    elsewhere = device is not None and devices.device(device).type != "cpu"
    if layout not in (None, devices.strided) or pin_memory or elsewhere:
        raise RuntimeError(
            f"from_file: layout={layout}, device={device}, pin_memory={pin_memory}. A file is mapped to strided memory "
            "of the CPU, which is not pinned. Move the result with to(). [nd-option]"
        )
    wanted = dtypes.get_default_dtype().numpy if dtype is None else dtypes.as_numpy_dtype(dtype)
    count = operator.index(size)
    if count < 0:
        raise RuntimeError(f"from_file: size is {count}, but it is a number of elements. [nd-option]")
    if not count:
        return from_numpy(np.empty(0, wanted))
    if shared:
        with open(filename, "ab") as file:
            if file.tell() < count * wanted.itemsize:
                file.truncate(count * wanted.itemsize)
    elif os.path.getsize(filename) < count * wanted.itemsize:
        raise RuntimeError(
            f"from_file: {filename!r} has {os.path.getsize(filename)} bytes, fewer than {count} elements of {wanted}. "
            "Give a smaller size, or shared=True. [nd-data]"
        )
    mapped = np.memmap(filename, wanted, "r+" if shared else "c", shape=(count,))
    return from_numpy(mapped.view(np.ndarray))


def scalar_tensor(
    s: TensorLike, *, dtype: Dtype = None, device: Device = None, requires_grad: bool = False, layout: Layout = None
) -> Tensor:
    """Return a 0-d tensor of the default dtype, whatever the type of the number.

    Args:
        s: number, or tensor of one element.
        dtype: dtype of the result. None means the default dtype.
        device: device of the result.
        requires_grad: whether autograd records operations on the result.
        layout: None or `ndgrad.strided`.

    >>> import ndgrad
    >>> ndgrad.scalar_tensor(2)
    tensor(2.)
    """
    if layout not in (None, devices.strided):
        raise RuntimeError(
            f"scalar_tensor(): layout is {layout!r}, and a tensor of one number is strided. Leave it out. [nd-option]"
        )
    s = as_number("scalar_tensor", "s", s)
    return tensor(s, dtype=dtype or dtypes.get_default_dtype(), device=device, requires_grad=requires_grad)


def new_tensor(
    self: Tensor, data: ArrayLike, *, dtype: Dtype = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """Return a copy of `data` with this tensor's dtype and device, unless others are given.

    Args:
        self: tensor whose dtype and device are taken.
        data: number, nested sequences of numbers, array or tensor.
        dtype: dtype of the result. The default is that of this tensor.
        device: device of the result. The default is that of this tensor.
        requires_grad: whether autograd records operations on the result.

    >>> import ndgrad
    >>> ndgrad.zeros(2).new_tensor([1, 2])
    tensor([1., 2.])
    """
    where = self.device if device is None else device
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=where, requires_grad=requires_grad)


def new(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """As the constructor `Tensor`, with this tensor's dtype. Prefer new_tensor and new_empty.

    Args:
        self: tensor whose dtype and device are taken.
        *args: sizes, for uninitialised memory; or data, a tensor or a storage.
        **options: `device`, or the sizes as `size=`.

    >>> import ndgrad
    >>> ndgrad.tensor([1]).new([2.0, 3.0])
    tensor([2, 3])
    """
    return construct(self.tensor_type, args, {"device": self.device, **options}, np_dtype(self))


# ----- to an array ----------------------------------------------------------------------------------------------------


def to_array(data: Any, dtype: Dtype, *, copy: bool) -> Payload:
    """Convert `data` to an array."""
    wanted = None if dtype is None else dtypes.as_numpy_dtype(dtype)
    if is_raw_array(data):
        array = data if wanted is None else data.astype(wanted, copy=False)
        dtypes.as_dtype(array.dtype)
        if isinstance(array, np.generic):  # A tensor from data owns memory, and a scalar has none to share.
            return np.array(array)
        return array.copy() if copy and array is data else array
    if isinstance(data, (UntypedStorage, TypedStorage)):
        data = data.tolist()
    if not (types := _leaf_types(data)) <= _PYTHON_NUMBERS:
        if wanted is None:
            wanted = _promoted_dtype(data)
        if any(issubclass(leaf, Variable) for leaf in types):
            data = _replace_tensors(data)
    try:
        if wanted is not None and is_float8(wanted):
            array = convert(np.array(data, np.float64), wanted)
        else:
            array = np.array(data, wanted)
    except OverflowError as error:
        raise RuntimeError(
            f"Overflow: a Python int in the data does not fit into {wanted}: {error}. Pass a wider dtype=. "
            "[nd-overflow]"
        ) from error
    except TypeError as error:
        raise TypeError(
            f"data of type {type(data).__name__} cannot become a tensor of {wanted}: {error}. Pass numbers or arrays. "
            "[nd-data]"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"the data does not form an array: {error}. Give sequences of equal length at each depth. [nd-data]"
        ) from error
    if wanted is not None:
        return array
    if not is_number(array.dtype):
        raise _explain_no_numbers(array)
    if types <= {bool, int} and array.size and array.dtype.kind not in "bi":
        raise ValueError(
            f"Overflow: {data!r:.60} holds a Python int that does not fit into int64. "
            "Pass dtype=uint64 or a floating one. [nd-overflow]"
        )
    # Python's numbers: NumPy's platform integer may be narrower than int64, and its floats are double.
    if is_inexact(array.dtype):
        return array.astype(_default_for(array.dtype), copy=False)
    return array if array.dtype.kind == "b" else array.astype(np.int64, copy=False)


def _default_for(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return (dtypes.get_default_complex_dtype() if dtype.kind == "c" else dtypes.get_default_dtype()).numpy


def _explain_no_numbers(array: NDArray[Any]) -> Exception:
    """Return the error for data that NumPy turned into an array of objects or text."""
    if array.dtype.kind in "US":
        return TypeError(
            f"invalid data type 'str': text such as {str(array.flat[0])!r:.40} is no number. Convert it first. "
            "[nd-data]"
        )
    for element in array.flat:
        if not isinstance(element, (bool, int, float, complex, np.generic)):
            return RuntimeError(
                f"Could not infer dtype of {type(element).__name__} in the data. Pass numbers, "
                "sequences of them, or arrays. [nd-data]"
            )
    return ValueError(
        "Overflow: a Python int in the data does not fit into int64. Pass a floating dtype=. [nd-overflow]"
    )


_PYTHON_NUMBERS = {bool, int, float, complex}


def _leaf_types(data: Any) -> set[type]:
    """Return the types of the elements of nested sequences."""
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        return {type(data)}
    level: Any = data
    while (types := set(map(type, level))) and types <= {list, tuple}:
        level = list(chain.from_iterable(level))
    if any(issubclass(t, Sequence) and t is not str for t in types):
        return set().union(*map(_leaf_types, level))
    return types


def _promoted_dtype(data: Any) -> np.dtype[Any] | None:
    """Return the dtype of nested data with tensors, arrays or NumPy scalars: all elements count equally, as in torch.
    Python floats have the default dtype. None if an element is no number; NumPy then raises the error."""
    found: set[np.dtype[Any]] = set()
    _collect_dtypes(data, found)
    if not found or any(not is_number(dtype) for dtype in found):
        return None
    promoted, *rest = (dtypes.as_dtype(dtype) for dtype in found)
    for dtype in rest:
        promoted = dtypes.promote_types(promoted, dtype)
    return promoted.numpy


_OBJECT = np.dtype(object)


def _collect_dtypes(data: Any, found: set[np.dtype[Any]]) -> None:
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        for element in data:
            _collect_dtypes(element, found)
    elif isinstance(data, Variable):
        found.add(np_dtype(data))
    elif is_raw_array(data):
        found.add(data.dtype)
    elif data.__class__ in _PYTHON_NUMBERS:
        found.add(_NUMBER_DTYPES.get(data.__class__) or _default_for(np.dtype(data.__class__)))
    else:
        found.add(np.asarray(data).dtype if hasattr(data, "__array__") else _OBJECT)


_NUMBER_DTYPES: dict[type, np.dtype[Any]] = {bool: np.dtype(np.bool_), int: np.dtype(np.int64)}


def _replace_tensors(data: Any) -> Any:
    """Replace tensors in nested sequences by their values: numbers for single elements, as in torch, arrays
    otherwise."""
    if isinstance(data, Variable):
        return _values(data)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [_replace_tensors(d) for d in data]
    return data


def _values(t: Variable) -> Payload:
    if batch_dims(t):
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor: a list with a batched tensor "
            "cannot become one tensor. Use stack() or cat(), which keep the batch. [nd-vmap-value]"
        )
    if (lost := stake_of(t)) is not None:
        warn_user(
            f"Converting a tensor {describe_loss(lost)} to a scalar may lead to unexpected behavior: "
            "the new tensor is outside the graph. Use stack() or cat(), which record, or detach() first."
        )
    array = memory_of(t)
    return array.reshape(())[()] if array.size == 1 else array


def _share_memory(array: Payload, where: devices.device) -> Tensor:
    """Return a tensor over memory that others may share."""
    there = move_to(array, where)
    if there is not array or not isinstance(array, np.ndarray):
        return fresh(there)
    t = fresh(array.view(np.ndarray))
    t._storage = shared_storage(array, Lent)
    return note_data_source(t, array)


def _from_tensor(t: Tensor, dtype: Dtype, device: Device, *, copy: bool) -> Tensor:
    return t.detach().to(device=device, dtype=dtype, copy=copy)


# ----- torch's old constructors ---------------------------------------------------------------------------------------


def construct(
    tensor_type: type[Any], args: tuple[Any, ...], options: dict[str, Any], dtype: np.dtype[Any], typed: bool = False
) -> Any:
    """Implement `Tensor(2, 3)`, `Tensor([1, 2])`, `Tensor(tensor)`: sizes give uninitialised memory, data is
    converted to `dtype`."""
    where = place(options.pop("device", None))
    if "size" in options:
        args = (*args, *options.pop("size"))
    if options:
        raise TypeError(
            f"{tensor_type.__name__}() got unexpected keyword arguments {sorted(options)}. "
            "Use ndgrad.tensor(data, dtype=...). [nd-arguments]"
        )
    if len(args) == 1 and isinstance(args[0], Size):
        args = tuple(args[0])
        if not args:  # the size of a number, unlike a call without arguments
            return fresh(library_for(where).empty((), dtype), tensor_type=tensor_type)
    if len(args) == 1 and isinstance(args[0], Variable):
        source: Any = args[0]
        if typed and np_dtype(source) != dtype:
            raise TypeError(
                f"{tensor_type.__name__}() was given a tensor of {np_dtype(source)}, but makes tensors of {dtype}. "
                "Convert it with .to(), or use ndgrad.tensor(data). [nd-dtype]"
            )
        alias = source.detach()
        made = fresh(alias._array, tensor_type=tensor_type)
        made._storage = alias._storage
        return made
    if len(args) == 1 and isinstance(args[0], (UntypedStorage, TypedStorage)):
        elements = args[0]._bytes.view(dtype) if isinstance(args[0], UntypedStorage) else args[0]._elements
        made = fresh(elements, tensor_type=tensor_type)
        made._storage = shared_storage(elements)
        return made
    if len(args) == 1 and (isinstance(args[0], (np.ndarray, Sequence)) or hasattr(args[0], "__array__")):
        return fresh(move_to(to_array(args[0], dtype, copy=True), where), tensor_type=tensor_type)
    sizes = tuple(args)
    if any(not hasattr(n, "__index__") for n in sizes):
        raise TypeError(
            f"{tensor_type.__name__}() takes sizes as ints or one sequence of data, but got {sizes}. "
            "Use ndgrad.tensor(data). [nd-type]"
        )
    shape = tuple(int(n) for n in sizes) if sizes else (0,)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension in {list(shape)}. Sizes are non-negative. [nd-range]"
        )
    return fresh(library_for(where).empty(shape, dtype), tensor_type=tensor_type)


