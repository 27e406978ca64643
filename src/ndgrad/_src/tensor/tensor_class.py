"""`Tensor`: an array with autograd metadata, under torch's names.

This file holds the parts that belong to the object itself: metadata, memory, place in the graph, Python's
protocols. Operators, and functions that are also methods, come from `TensorMethods`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.addresses import contiguous_strides, pointer
from ndgrad._src.arrays.placement import device_of
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core import hooks
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.subclass import add_tensor_type, announce_class, default_dispatch, default_function, make_wrapper
from ndgrad._src.core.variable import Variable, find_recorded, meta_of, np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import REASSIGNED, InferenceStorage, Version, is_inference, storage_of, version_number
from ndgrad._src.core.view import replay
from ndgrad._src.engine.backward_api import backward
from ndgrad._src.foundations import devices, registry
from ndgrad._src.foundations.registry import register
from ndgrad._src.foundations.sizes import Size, size_of_shape
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import shape
from ndgrad._src.tensor.checks import (
    as_leaf,
    channels_last_order,
    check_grad,
    existing_dim,
    not_a_leaf,
    refuse_in_transform,
    set_requires_grad,
    vmap_error,
    warn_deprecated,
)
from ndgrad._src.tensor.methods import TensorMethods
from ndgrad._src.tensor.protocols import PythonProtocols
from ndgrad._src.tensor.public import UNASKED, answer, asks_itself, method
from ndgrad._src.tensor.storage import (
    TypedStorage,
    UntypedStorage,
    batch_dims,
    conjugate_view,
    memory_of,
    storage_offset,
)

if TYPE_CHECKING:
    from ndgrad._src.core.hooks import RemovableHandle
    from ndgrad._typing import Array, Device, Dtype, GradNode, MemoryFormat, Shape, TensorLike, Tensors


class Tensor(PythonProtocols, TensorMethods):
    """An n-dimensional array that remembers how it was computed.

    Create one with `ndgrad.tensor(data)` or another factory. The constructor behaves like torch's legacy one: sizes
    give uninitialised memory, and data is converted to the default dtype.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    >>> ndgrad.Tensor(2, 3).shape, ndgrad.Tensor([2, 3])
    (ndgrad.Size([2, 3]), tensor([2., 3.]))
    """

    __slots__ = ()
    __module__ = "ndgrad"  # path shown to users and written into pickles
    __array_priority__ = 1000.0

    #: True if the class implements ops below autograd itself (see ndgrad._src.core.subclass).
    own_dispatch = False
    #: True if functions and methods have NumPy's meaning, False if torch's.
    is_numpy_type = False
    #: True if saved values survive later writes (`Array`), False if such writes raise (`Tensor`).
    keeps_saved = False

    def __new__(cls, *args: Any, **options: Any) -> Self:
        from ndgrad._src.tensor.functions.data import construct  # imports this class

        return construct(cls, args, options, dtypes.get_default_dtype().numpy)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        announce_class(cls)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Default override: run the function with overrides disabled and convert results to this class."""
        return default_function(cls, func, types, args, kwargs or {})

    __ndgrad_function__ = __torch_function__

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Callable[..., Any],
        types: Collection[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Default dispatch: run the op on plain tensors over the same memory."""
        return default_dispatch(func, args, kwargs or {})

    __ndgrad_dispatch__ = __torch_dispatch__

    @staticmethod
    def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
        """Return a tensor of class `cls` over the memory of `data`.

        >>> import ndgrad
        >>> class Mine(ndgrad.Tensor): ...
        >>> type(ndgrad.Tensor._make_subclass(Mine, ndgrad.ones(2))).__name__
        'Mine'
        """
        outside = data.detach()
        made = wrap(cls, outside._array)
        made._storage = outside._storage
        if outside._meta is not None and (outside._meta.level or outside._meta.batch_level):
            meta = meta_of(made)
            meta.level, meta.batch_level = outside._meta.level, outside._meta.batch_level
        return as_leaf(made) if require_grad else made

    @staticmethod
    def _make_wrapper_subclass(
        cls: type[Tensor],
        size: Shape,
        strides: Sequence[int] | None = None,
        storage_offset: int | None = None,
        memory_format: MemoryFormat = None,
        dtype: Dtype = None,
        layout: devices.layout = devices.strided,
        device: Device = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
    ) -> Any:
        """Return a tensor of class `cls` with a shape but no memory. Its class computes in `__ndgrad_dispatch__`
        with the data that it holds."""
        return make_wrapper(cls, size, dtype, device, requires_grad, strides)

    @property
    def tensor_type(self) -> type[Tensor]:
        """The class whose methods and rules the tensor follows: `Tensor` for torch's, `Array` for NumPy's.

        >>> import ndgrad
        >>> ndgrad.nn.Parameter(ndgrad.ones(2)).tensor_type
        <class 'ndgrad.Tensor'>
        """
        found = TENSOR_TYPES.get(self.__class__)
        if found is None:
            found = next(TENSOR_TYPES[c] for c in self.__class__.__mro__ if c in TENSOR_TYPES)
        return found

    # ----- shape, dtype, device -----

    @property
    def shape(self) -> Size:
        """The length of each dimension, a tuple.

        >>> import ndgrad
        >>> ndgrad.zeros(2, 3).shape
        ndgrad.Size([2, 3])
        """
        meta = self._meta
        if meta is not None and meta.batch_level:
            return size_of_shape(self._array.shape[1:])
        return size_of_shape(self._array.shape)

    @overload
    def size(self, dim: None = None) -> Size: ...
    @overload
    def size(self, dim: int) -> int: ...
    @asks_itself("size")
    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the length of one dimension.

        Args:
            dim: dimension to ask for. None means all.

        >>> import ndgrad
        >>> x = ndgrad.zeros(2, 3)
        >>> x.size(), x.size(-1)
        (ndgrad.Size([2, 3]), 3)
        """
        if (process.overriding and process.busy) or self.__class__ not in TENSOR_TYPES:
            other = answer(Tensor.size, (self,) if dim is None else (self, dim), {})
            if other is not UNASKED:
                return other
        sizes = self.shape
        return sizes if dim is None else sizes[existing_dim(dim, len(sizes))]

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> import ndgrad
        >>> ndgrad.zeros(2, 3).ndim
        2
        """
        meta = self._meta
        ndim: int = self._array.ndim
        return ndim - 1 if meta is not None and meta.batch_level else ndim

    @method
    def dim(self) -> int:
        """The number of dimensions.

        >>> import ndgrad
        >>> ndgrad.tensor(1.0).dim()
        0
        """
        return self.ndim

    ndimension = dim

    @method
    def numel(self) -> int:
        """The number of elements.

        >>> import ndgrad
        >>> ndgrad.zeros(2, 3).numel()
        6
        """
        return math.prod(self.shape)

    nelement = numel

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).dtype
        ndgrad.int64
        """
        array = self._array
        if array.__class__ is np.ndarray:
            found = dtypes.BY_IDENTITY.get(id(array.dtype))
            if found is not None:
                return found
        return dtypes.as_dtype(np_dtype(self))

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element.

        >>> import ndgrad
        >>> ndgrad.zeros(3, dtype=ndgrad.float64).itemsize
        8
        """
        return np_dtype(self).itemsize

    @method
    def element_size(self) -> int:
        """The number of bytes of one element.

        >>> import ndgrad
        >>> ndgrad.zeros(3).element_size()
        4
        """
        return np_dtype(self).itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements.

        >>> import ndgrad
        >>> ndgrad.zeros(2, 3).nbytes
        24
        """
        return self.numel() * self.itemsize

    @property
    def device(self) -> devices.device:
        """The device that holds the elements.

        >>> import ndgrad
        >>> ndgrad.zeros(3).device
        device(type='cpu')
        """
        array = self._array
        while isinstance(array, Variable):
            array = array._array
        return device_of(array)

    @method
    def get_device(self) -> int:
        """The number of the GPU that holds the tensor, -1 on the CPU.

        >>> import ndgrad
        >>> ndgrad.zeros(3).get_device()
        -1
        """
        where = self.device
        return (where.index or 0) if where.type == "cuda" else -1

    @property
    def layout(self) -> devices.layout:
        """The storage layout: strided, or one of the sparse layouts for a sparse tensor.

        >>> import ndgrad
        >>> ndgrad.zeros(3).layout
        ndgrad.strided
        """
        return devices.strided

    @property
    def is_cuda(self) -> bool:
        """True if the tensor is on a GPU.

        >>> import ndgrad
        >>> ndgrad.zeros(3).is_cuda
        False
        """
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """True if the tensor is in the CPU's memory.

        >>> import ndgrad
        >>> ndgrad.zeros(3).is_cpu
        True
        """
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        """True if the tensor has a shape and a dtype but no memory.

        >>> import ndgrad
        >>> ndgrad.zeros(3, device="meta").is_meta
        True
        """
        return self.device.type == "meta"

    # Kinds of tensors that ndgrad lacks, or has as a separate class (ndgrad.sparse). torch programs query these flags.
    is_sparse = is_sparse_csr = is_quantized = is_nested = is_mkldnn = is_mps = is_xla = is_xpu = is_vulkan = False

    # ----- memory -----

    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    @overload
    def stride(self, dim: int) -> int: ...
    @method
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Return the number of elements between neighbours along one dimension, or along each.

        Args:
            dim: dimension to ask for. None means all.

        >>> import ndgrad
        >>> x = ndgrad.zeros(2, 3)
        >>> x.stride(), x.T.stride(0)
        ((3, 1), 1)
        """
        array = memory_of(self)
        steps = tuple(s // array.itemsize for s in array.strides[batch_dims(self) :])
        return steps if dim is None else steps[existing_dim(dim, len(steps))]

    @method
    def storage_offset(self) -> int:
        """Return the number of storage elements before the first element of the tensor.

        >>> import ndgrad
        >>> ndgrad.arange(10)[4:].storage_offset()
        4
        """
        return storage_offset(memory_of(self))

    @property
    def _cdata(self) -> int:
        """A number that identifies the tensor while it is alive."""
        return id(self)

    @method
    def data_ptr(self) -> int:
        """The address of the first element.

        >>> import ndgrad
        >>> x = ndgrad.zeros(3)
        >>> x.data_ptr() == x.view(3, 1).data_ptr()
        True
        """
        return pointer(memory_of(self))

    @method
    def is_contiguous(self, memory_format: devices.memory_format = devices.contiguous_format) -> bool:
        """True if the memory order of the elements is that of the format.

        Args:
            memory_format: memory layout to ask for.

        >>> import ndgrad
        >>> x = ndgrad.zeros(2, 3)
        >>> x.is_contiguous(), x.T.is_contiguous()
        (True, False)
        """
        array, meta = self._array, self._meta
        is_plain = array.__class__ is np.ndarray and (meta is None or not meta.batch_level)
        if is_plain and memory_format is devices.contiguous_format:
            return bool(array.flags.c_contiguous)
        sizes, steps = tuple(self.shape), self.stride()
        if memory_format is not devices.contiguous_format:
            if batch_dims(self):
                raise RuntimeError(
                    f"NYI: querying is_contiguous inside of vmap for memory_format {memory_format!r}, which counts "
                    "dimensions that the batch has shifted. Ask outside of vmap, or for contiguous_format. "
                    "[nd-vmap-refused]"
                )
            order = channels_last_order(memory_format, len(sizes))
            if order is None:
                return False
            sizes, steps = tuple(sizes[d] for d in order), tuple(steps[d] for d in order)
        expected = contiguous_strides(sizes)
        return 0 in sizes or all(n == 1 or have == want for n, have, want in zip(sizes, steps, expected, strict=True))

    @method
    def untyped_storage(self) -> UntypedStorage:
        """The memory under the tensor, as bytes.

        >>> import ndgrad
        >>> ndgrad.zeros(3).untyped_storage().nbytes()
        12
        """
        if batch_dims(self):
            raise vmap_error("the storage of a batched tensor holds the whole batch")
        return UntypedStorage(memory_of(self))

    @method
    def storage(self) -> TypedStorage:
        """The memory under the tensor, as elements of its dtype.

        >>> import ndgrad
        >>> len(ndgrad.zeros(2, 3)[0].storage())
        6
        """
        return TypedStorage(self.untyped_storage(), np_dtype(self))

    _typed_storage = storage

    # ----- the graph -----

    @property
    def requires_grad(self) -> bool:
        """True if operations on the tensor are recorded, so that backward reaches it.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> x.requires_grad, (x * 2).requires_grad, x.detach().requires_grad
        (True, True, False)
        """
        return requires_grad(self) or (bool(process.busy) and requires_grad(find_recorded(self)))

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(
                f"requires_grad must be a bool, but {value!r} was assigned. Assign True or False. [nd-type]"
            )
        if not self.is_leaf:
            raise not_a_leaf(self, value)
        set_requires_grad(self, value)

    @method
    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether operations on this tensor are recorded, in place; return the tensor.

        Args:
            requires_grad: whether autograd records operations on this tensor.

        >>> import ndgrad
        >>> ndgrad.ones(2).requires_grad_()
        tensor([1., 1.], requires_grad=True)
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(
                f"requires_grad_(): the argument must be a bool, but is {requires_grad!r}. Pass True or False. "
                "[nd-type]"
            )
        if self.is_leaf:
            set_requires_grad(self, requires_grad)
        elif not requires_grad:
            raise not_a_leaf(self, requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """True if backward ends here: the tensor was not computed from tensors that require grad.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> x.is_leaf, (x * 2).is_leaf
        (True, False)
        """
        return self.grad_fn is None

    @property
    def grad_fn(self) -> GradNode | Any:  # Any in place of None: callers that know of a node need no check
        """The node of the graph that computed the tensor; None for a leaf.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> x.exp().grad_fn.name()
        'ExpBackward0'
        """
        if self._meta is not None and self._meta.view is not None:
            self._meta.view.refresh(self)
        if self._node is None and process.busy:
            inside = find_recorded(self)
            return None if inside is self else inside.grad_fn
        return self._node

    @property
    def _grad_fn(self) -> GradNode | Any:
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError(
                "_grad_fn can be only set to None, which detaches the tensor; a node was assigned. Use detach_(). "
                "[nd-immutable]"
            )
        self.detach_()

    @property
    def output_nr(self) -> int:
        """The index of this tensor among the outputs of `grad_fn`.

        >>> import ndgrad
        >>> x = ndgrad.ones(4, requires_grad=True)
        >>> x.split(2)[1].output_nr
        1
        """
        return 0 if self.grad_fn is None or self._meta is None else self._meta.output_nr

    @property
    def grad(self) -> Self | Any:  # Any in place of None: callers that ran backward need no check
        """The gradient that backward has accumulated, or None.

        >>> import ndgrad
        >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
        >>> (x**2).sum().backward()
        >>> x.grad
        tensor([2., 4.])
        """
        if process.busy:
            inside = find_recorded(self)
            if inside is not self:
                return inside.grad
        meta = self._meta
        found = None if meta is None else meta.grad
        if found is not None or (self._node is None and (meta is None or meta.view is None)):
            return found
        if requires_grad(self) and not (meta is not None and (meta.requires_grad or meta.retains_grad)):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute "
                f"won't be populated during backward(): it was computed by {self._node}. Call retain_grad() on it "
                "before backward() if you want the gradient there, or ask for that of a leaf.",
                UserWarning,
                stacklevel=2,
            )
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if process.busy and find_recorded(self) is not self:
            refuse_in_transform("the setter of Tensor.grad")
        if value is not None:
            check_grad(self, value)
        meta_of(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        meta_of(self).grad = None

    _grad = grad

    @property
    def grad_dtype(self) -> dtypes.dtype | None:
        """The dtype of this leaf's gradient: by default its own dtype. None accepts gradients of any dtype.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, dtype=ndgrad.float16, requires_grad=True)
        >>> x.grad_dtype = ndgrad.float32
        >>> x.sum().backward()
        >>> x.grad.dtype
        ndgrad.float32
        """
        if not self.is_leaf:
            raise RuntimeError(
                f"grad_dtype can only be accessed on leaf tensors, but this one was computed by {self._node}. "
                "[nd-not-leaf]"
            )
        chosen = None if self._meta is None else self._meta.grad_dtype
        if chosen is None:
            return self.dtype
        return None if chosen == "any" else dtypes.as_dtype(chosen)

    @grad_dtype.setter
    def grad_dtype(self, value: dtypes.dtype | np.dtype[Any] | None) -> None:
        if not self.is_leaf:
            raise RuntimeError(
                f"grad_dtype can only be set on leaf tensors, but this one was computed by {self._node}. "
                "Set it on the leaves. [nd-not-leaf]"
            )
        if value is not None and not isinstance(value, (dtypes.dtype, np.dtype)):
            raise RuntimeError(f"grad_dtype must be an ndgrad.dtype or None, but got {type(value).__name__}. [nd-type]")
        meta = meta_of(self)
        if meta.grad is not None and value is not None and meta.grad.dtype != value:
            raise RuntimeError(
                f"Cannot set grad_dtype to {value} because there is already a gradient with dtype {meta.grad.dtype}. "
                "Clear the gradient (.grad = None) before changing grad_dtype. [nd-grad-mismatch]"
            )
        meta.grad_dtype = "any" if value is None else dtypes.as_numpy_dtype(value)
        meta.accumulator = None  # The next graph creates an accumulator with the new dtype.

    @property
    def retains_grad(self) -> bool:
        """True if backward will store the gradient of this result in `.grad`.

        >>> import ndgrad
        >>> y = ndgrad.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad
        True
        """
        return self._meta is not None and self._meta.retains_grad and self._node is not None

    @method
    def retain_grad(self) -> None:
        """Make backward store the gradient of this result in `.grad`.

        >>> import ndgrad
        >>> y = ndgrad.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.prod().backward()
        >>> y.grad
        tensor([2., 2.])
        """
        refuse_in_transform("Tensor.retain_grad()")
        hooks.retain_grad(self)

    @method
    def register_hook(self, hook: Callable[[Self], Tensor | None]) -> RemovableHandle:
        """Call `hook(grad)` whenever a gradient of this tensor is computed; it may return another gradient.

        Args:
            hook: function of the gradient. A tensor that it returns replaces the gradient.

        Returns:
            A handle, whose `remove()` unregisters the hook.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
        """
        return hooks.register_tensor_hook(self, hook)

    @method
    def register_post_accumulate_grad_hook(self, hook: Callable[[Self], None]) -> RemovableHandle:
        """Call `hook(tensor)` after a gradient has been accumulated into this leaf's `.grad`.

        Args:
            hook: function of the tensor. Its result is ignored.

        Returns:
            A handle, whose `remove()` unregisters the hook.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: print(x.grad))
        >>> x.sum().backward()
        tensor([1., 1.])
        """
        return hooks.register_post_accumulate_grad_hook(self, hook)

    @property
    def _backward_hooks(self) -> dict[int, Callable[..., Any]] | None:
        """The tensor's hooks by number; None if none was ever registered."""
        return hooks.tensor_hooks_of(self)

    @_backward_hooks.setter
    def _backward_hooks(self, value: dict[int, Callable[..., Any]] | None) -> None:
        hooks.set_tensor_hooks(self, value)

    @property
    def _post_accumulate_grad_hooks(self) -> dict[int, Callable[..., Any]] | None:
        """The hooks that run after `.grad` is accumulated, by number; None if none was ever registered."""
        return None if self._meta is None else self._meta.post_accumulate_hooks

    @method
    def backward(
        self,
        gradient: Tensor | None = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Tensor | Tensors | None = None,
    ) -> None:
        """Compute gradients of this tensor and accumulate them in the leaves.

        Args:
            gradient: weight of each element. It is needed for a tensor of more than one element.
            retain_graph: whether the graph is kept for another backward pass. The default is `create_graph`.
            create_graph: whether the backward pass is recorded, so that gradients can be differentiated again.
            inputs: tensors that receive gradients, instead of all leaves.

        >>> import ndgrad
        >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
        >>> (x**2).backward(ndgrad.tensor([1.0, 10.0]))
        >>> x.grad
        tensor([ 2., 40.])
        """
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def array(self) -> Array:
        """Return the same value as `ndgrad.numpy.Array`, a view without a copy.

        >>> import ndgrad
        >>> ndgrad.tensor([1.0, 2.0]).array().std(ddof=1)
        array(0.70710677, dtype=float32)
        """
        return registry.numpy_array.to_array(self)

    def tensor(self) -> Tensor:
        """Return the same value as `Tensor`: this very object unless it is an `Array`.

        >>> import ndgrad.numpy as np
        >>> np.array([1.0, 2.0]).tensor()
        tensor([1., 2.], dtype=ndgrad.float64)
        """
        return registry.numpy_array.to_tensor(self)

    @asks_itself("detach")
    def detach(self) -> Self:
        """Return a tensor with the same memory outside the graph.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> (x * x.detach()).sum().backward()
        >>> x.grad
        tensor([1., 1.])
        """
        if process.busy or self._array.__class__ is not np.ndarray or self.__class__ not in TENSOR_TYPES:
            other = answer(Tensor.detach, (self,), {})
            return shape.detach(self) if other is UNASKED else other
        outside: Any = wrap(self.tensor_type, self._array)
        outside._storage = self._storage or storage_of(self)
        return outside

    @method
    def detach_(self) -> Self:
        """Remove this tensor from its graph, in place.

        >>> import ndgrad
        >>> y = ndgrad.ones(2, requires_grad=True) * 2
        >>> y.detach_()
        tensor([2., 2.])
        """
        if thread.inference:
            return self  # No history is recorded in inference mode, as in torch.
        if self._is_view():
            raise RuntimeError(
                f"Can't detach views in-place: a tensor of shape {tuple(self.shape)} is a view, and its base would "
                "keep the history. Use detach() instead, or detach_() the base. [nd-view-write]"
            )
        outside, meta = self.detach(), self._meta
        self._array, self._node, self._storage = outside._array, None, outside._storage
        if meta is not None:
            meta.requires_grad, meta.output_nr, meta.retains_grad, meta.tangents = False, 0, False, None
            meta.level = meta.batch_level = 0
            if outside._meta is not None:
                meta.level, meta.batch_level = outside._meta.level, outside._meta.batch_level
        return self

    # ----- data, versions, views -----

    @property
    def data(self) -> Self:
        """The same memory as a tensor outside the graph; autograd does not see writes to it. Prefer `detach()`.

        >>> import ndgrad
        >>> x = ndgrad.ones(2, requires_grad=True)
        >>> x.data.mul_(3)
        tensor([3., 3.])
        """
        if batch_dims(self):
            raise RuntimeError(
                "accessing `data` under vmap transform is not allowed: it would miss the batch. Use detach(). "
                "[nd-in-transform]"
            )
        alias = self.detach()
        if not is_inference(self):
            alias._storage = None
        return alias

    @data.setter
    def data(self, new: Tensor) -> None:
        if batch_dims(self):
            raise RuntimeError(
                "mutating directly with `.data` under vmap transform is not allowed. Use copy_(), "
                "or the out-of-place op. [nd-transform-write]"
            )
        if not isinstance(new, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(new).__name__}. Wrap it with ndgrad.as_tensor(...). "
                "[nd-type]"
            )
        if self.requires_grad and not is_inexact(np_dtype(new)):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, "
                f"but is {new.dtype}. Convert it, or clear requires_grad first. [nd-grad-dtype]"
            )
        storage_of(new)
        storage, meta = storage_of(self), meta_of(self)
        if tuple(new.shape) != tuple(self.shape) or np_dtype(new) != np_dtype(self):
            meta.geometry += 1
            meta.accumulator = None  # An existing accumulator expects a gradient of the old shape and dtype.
        self._array = new._array
        # The version number stays, as in torch. Its new identity shows that values saved before are no longer here.
        if not is_inference(self):
            old = storage.version
            storage.version = old.next = Version(old.number, REASSIGNED)
        if is_inference(new) != is_inference(self):
            self._storage = InferenceStorage() if is_inference(new) else None

    @property
    def _version(self) -> int:
        """The number of in-place writes to the memory.

        >>> import ndgrad
        >>> ndgrad.ones(2).add_(1).mul_(2)._version
        2
        """
        if self.is_inference():
            raise RuntimeError(
                "Inference tensors do not track version counter. Make the tensor outside inference "
                "mode, or clone() it there. [nd-inference]"
            )
        return version_number(self)

    @method
    def is_inference(self) -> bool:
        """True if the tensor was made in inference mode.

        >>> import ndgrad
        >>> with ndgrad.inference_mode():
        ...     x = ndgrad.ones(2)
        >>> x.is_inference()
        True
        """
        return is_inference(self)

    def _is_view(self) -> bool:
        return self._meta is not None and self._meta.view is not None

    @property
    def _base(self) -> Self | None:
        """The base of this view; None if the tensor is no view."""
        return self._meta.view.base if self._meta is not None and self._meta.view is not None else None

    def _view_func(self, new_base: Tensor) -> Tensor | None:
        """Take this view of another base; None if it is no view or the base has another memory layout."""
        base = self._base
        if base is None or not (
            tuple(base.shape) == tuple(new_base.shape)
            and base.dtype is new_base.dtype
            and base.stride() == new_base.stride()
            and base.storage_offset() == new_base.storage_offset()
        ):
            return None
        return self._view_func_unsafe(new_base)

    def _view_func_unsafe(self, new_base: Tensor) -> Tensor | None:
        """As `_view_func`, for any base that supports the same sequence of views."""
        return (
            replay(new_base, self._meta.view.path) if self._meta is not None and self._meta.view is not None else None
        )

    def _rev_view_func_unsafe(self, new_view: Tensor) -> Tensor | None:
        """Return a base in which `new_view` replaces this view; None if the tensor is no view."""
        if self._meta is None or self._meta.view is None:
            return None
        base = self._meta.view.base.detach().clone()
        replay(base, self._meta.view.path).copy_(new_view)
        return base

    # ----- transposes, parts, names -----

    @property
    def T(self) -> Self:
        """The dimensions in reverse order, a view.

        >>> import ndgrad
        >>> ndgrad.zeros(2, 3).T.shape
        ndgrad.Size([3, 2])
        """
        n = self.ndim
        if n not in (1, 2):
            warn_deprecated("T", n, "x.mT transposes batches of matrices, x.permute() puts dimensions in any order")
        return shape.permute(self, dims=tuple(range(n))[::-1])

    @property
    def mT(self) -> Self:
        """The last two dimensions swapped, a view.

        >>> import ndgrad
        >>> ndgrad.zeros(5, 2, 3).mT.shape
        ndgrad.Size([5, 3, 2])
        """
        n = self.ndim
        if n == 0:
            warn_deprecated("mT", n, "it is the identity here")
            return self
        if n == 1:
            raise RuntimeError(
                "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor. "
                "Add a dimension first. [nd-matrix]"
            )
        return shape.permute(self, dims=(*range(n - 2), n - 1, n - 2))

    @property
    def H(self) -> Self:
        """The conjugate transpose of a matrix.

        >>> import ndgrad
        >>> ndgrad.tensor([[1 + 2j, 3]]).H
        tensor([[1.-2.j],
                [3.-0.j]])
        """
        n = self.ndim
        if n not in (0, 2):
            more = " For batches of matrices, use tensor.mH." if n > 2 else " Add a dimension first."
            raise RuntimeError(
                f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor.{more} [nd-matrix]"
            )
        if n == 0:
            warn_deprecated("H", n, "use x.conj()")
        return _conj(self.mT if n else self)

    @property
    def mH(self) -> Self:
        """The conjugate transposes of matrices.

        >>> import ndgrad
        >>> ndgrad.zeros(5, 2, 3, dtype=ndgrad.complex64).mH.shape
        ndgrad.Size([5, 3, 2])
        """
        n = self.ndim
        if n == 1:
            raise RuntimeError(
                "tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor. "
                "Add a dimension first. [nd-matrix]"
            )
        if n == 0:
            warn_deprecated("mH", n, "use x.conj()")
        return _conj(self.mT if n else self)

    @property
    def real(self) -> Self:
        """The real part, a view; for a real tensor, the tensor itself.

        >>> import ndgrad
        >>> ndgrad.tensor([1 + 2j, 3]).real
        tensor([1., 3.])
        """
        return complex_ops.real(self) if np_dtype(self).kind == "c" else self

    @real.setter
    def real(self, value: TensorLike) -> None:
        self.real.copy_(value)

    @property
    def imag(self) -> Self:
        """The imaginary part of a complex tensor, a view.

        >>> import ndgrad
        >>> ndgrad.tensor([1 + 2j, 3]).imag
        tensor([2., 0.])
        """
        if np_dtype(self).kind != "c":
            raise RuntimeError(
                f"imag is not implemented for tensors with non-complex dtypes, but this one is {self.dtype}. "
                "It would be zero. [nd-complex]"
            )
        return complex_ops.imag(self)

    @imag.setter
    def imag(self, value: TensorLike) -> None:
        self.imag.copy_(value)

    @property
    def names(self) -> tuple[str | None, ...]:
        """Names of the dimensions, each a string or None (docs/named.md).

        >>> import ndgrad
        >>> x = ndgrad.zeros(2, 3)
        >>> x.names = ("batch", None)
        >>> x.names
        ('batch', None)
        """
        chosen = None if self._meta is None else self._meta.names
        return (None,) * self.ndim if chosen is None else chosen

    @names.setter
    def names(self, value: Sequence[str | None] | None) -> None:
        from ndgrad._src.tensor.named.tensor import set_names  # loaded with the first name

        set_names(self, value)

    @property
    def volatile(self) -> bool:
        """Always False, with a warning: torch removed this attribute.

        >>> import ndgrad, warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     ndgrad.ones(2).volatile
        False
        """
        warnings.warn("volatile was removed (Variable.volatile is always False)", UserWarning, stacklevel=2)
        return False

    @volatile.setter
    def volatile(self, value: object) -> None:
        warnings.warn(
            "volatile was removed and now has no effect. Use `with ndgrad.no_grad():` instead.",
            UserWarning,
            stacklevel=2,
        )

    __hash__ = object.__hash__


def _conj(t: Any) -> Any:
    return conjugate_view(t) if np_dtype(t).kind == "c" else t


add_tensor_type(Tensor, Tensor)
register(Tensor=Tensor)
