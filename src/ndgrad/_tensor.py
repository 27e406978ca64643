"""`Tensor`: an array with autograd metadata, under torch's names.

Only what belongs to the object itself stands here: its metadata, its memory, its place in the graph, Python's protocols,
operators. The functions that are also methods come from ndgrad.api (see api.install).
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ndgrad import devices, dtypes
from ndgrad.arrays.library import is_raw_array
from ndgrad.arrays.placement import device_of
from ndgrad.arrays.precision import is_inexact, is_number
from ndgrad.autograd.calls import backward
from ndgrad.autograd.inplace import write
from ndgrad.autograd.modes import process
from ndgrad.autograd.subclass import announce_class, default_dispatch, default_function, make_wrapper
from ndgrad.autograd.variable import Variable, meta_of, np_dtype, recorded, requires_grad, wrap
from ndgrad.autograd.versions import Version, is_inference, storage_of, version_number
from ndgrad.autograd.view import replay
from ndgrad.checks import (
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
from ndgrad.ops import arithmetic, bitwise, comparison, product, shape
from ndgrad.ops import complex as complex_ops
from ndgrad.ops.generate import FACES, make_eager
from ndgrad.protocols import PythonProtocols
from ndgrad.sizes import Size, size_of_shape
from ndgrad.storage import TypedStorage, UntypedStorage, batch_dims, contiguous_strides, locked, memory_of, pointer, storage_offset


class Tensor(PythonProtocols):
    """An n-dimensional array that remembers how it was computed.

    Made by `ndgrad.tensor(data)` and the other factories. As a constructor it is torch's old one: sizes give uninitialised
    memory, data is converted to the default dtype.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    >>> ndgrad.Tensor(2, 3).shape, ndgrad.Tensor([2, 3])
    (ndgrad.Size([2, 3]), tensor([2., 3.]))
    """

    __slots__ = ()
    __module__ = "ndgrad"  # where users and pickles find it
    __array_priority__ = 1000.0

    #: Whether the class answers ops below autograd itself (see ndgrad.autograd.subclass).
    own_dispatch = False
    #: Whether saved values survive later writes (NumPy's face) or raise (torch's).
    keeps_saved = False

    def __new__(cls, *args: Any, **options: Any) -> Any:
        from ndgrad.api.data import construct

        return construct(cls, args, options, dtypes.get_default_dtype().numpy)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        announce_class(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """What a class's override falls back on: run the function without asking anybody, and give results this class."""
        return default_function(cls, func, types, args, kwargs or {})

    __ndgrad_function__ = __torch_function__

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """What a class's dispatch falls back on: the op on plain tensors over the same memory."""
        return default_dispatch(func, args, kwargs or {})

    __ndgrad_dispatch__ = __torch_dispatch__

    @staticmethod
    def _make_subclass(cls: type[Any], data: Tensor, require_grad: bool = False) -> Any:
        """A tensor of class `cls` over the memory of `data`."""
        outside = data.detach()
        made = wrap(cls, outside._array)
        made._storage = outside._storage
        if outside._meta is not None and (outside._meta.level or outside._meta.batch_level):
            meta = meta_of(made)
            meta.level, meta.batch_level = outside._meta.level, outside._meta.batch_level
        return as_leaf(made) if require_grad else made

    @staticmethod
    def _make_wrapper_subclass(
        cls: type[Any],
        size: Any,
        strides: Any = None,
        storage_offset: Any = None,
        memory_format: Any = None,
        dtype: Any = None,
        layout: Any = devices.strided,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
    ) -> Any:
        """A tensor of class `cls` that has a shape and no memory: its class computes, in `__ndgrad_dispatch__`, with what it keeps."""
        return make_wrapper(cls, size, dtype, device, requires_grad, strides)

    @property
    def face(self) -> type[Any]:
        found = FACES.get(self.__class__)
        if found is None:
            found = next(FACES[c] for c in self.__class__.__mro__ if c in FACES)
        return found

    # ----- shape, dtype, device -----

    @property
    def shape(self) -> Size:
        meta = self._meta
        if meta is not None and meta.batch_level:
            return size_of_shape(self._array.shape[1:])
        return size_of_shape(self._array.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dimension."""
        sizes = self.shape
        return sizes if dim is None else sizes[existing_dim(dim, len(sizes))]

    @property
    def ndim(self) -> int:
        meta = self._meta
        ndim: int = self._array.ndim
        return ndim - 1 if meta is not None and meta.batch_level else ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> int:
        return math.prod(self.shape)

    nelement = numel

    @property
    def dtype(self) -> Any:
        array = self._array
        if array.__class__ is np.ndarray:
            found = dtypes.BY_IDENTITY.get(id(array.dtype))
            if found is not None:
                return found
        return dtypes.as_dtype(np_dtype(self))

    @property
    def itemsize(self) -> int:
        return np_dtype(self).itemsize

    def element_size(self) -> int:
        return np_dtype(self).itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.itemsize

    @property
    def device(self) -> devices.device:
        array = self._array
        while isinstance(array, Variable):
            array = array._array
        return device_of(array)

    def get_device(self) -> int:
        """The number of the GPU that holds the tensor, -1 on the CPU."""
        where = self.device
        return (where.index or 0) if where.type == "cuda" else -1

    @property
    def layout(self) -> devices.layout:
        return devices.strided

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        return self.device.type == "cpu"

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    # What torch has and ndgrad has not: code that asks gets its answer.
    is_sparse = is_sparse_csr = is_quantized = is_nested = is_mkldnn = is_mps = is_xla = is_xpu = is_vulkan = False

    # ----- memory -----

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie between neighbours, along every dimension or one."""
        array = memory_of(self)
        steps = tuple(s // array.itemsize for s in array.strides[batch_dims(self) :])
        return steps if dim is None else steps[existing_dim(dim, len(steps))]

    def storage_offset(self) -> int:
        return storage_offset(memory_of(self))

    def data_ptr(self) -> int:
        """The address of the first element."""
        return pointer(memory_of(self))

    def is_contiguous(self, memory_format: devices.memory_format = devices.contiguous_format) -> bool:
        """Whether the elements lie in memory in the order that the format names."""
        sizes, steps = tuple(self.shape), self.stride()
        if memory_format is not devices.contiguous_format:
            if batch_dims(self):
                raise RuntimeError(
                    f"NYI: querying is_contiguous inside of vmap for memory_format {memory_format!r}, which counts "
                    "dimensions that the "
                    "batch has shifted. Ask outside of vmap, or for contiguous_format."
                )
            order = channels_last_order(memory_format, len(sizes))
            if order is None:
                return False
            sizes, steps = tuple(sizes[d] for d in order), tuple(steps[d] for d in order)
        expected = contiguous_strides(sizes)
        return 0 in sizes or all(n == 1 or have == want for n, have, want in zip(sizes, steps, expected, strict=True))

    def untyped_storage(self) -> UntypedStorage:
        """The memory under the tensor, as bytes."""
        if batch_dims(self):
            raise vmap_error("the storage of a batched tensor was asked for, and it holds the whole batch")
        return UntypedStorage(memory_of(self))

    def storage(self) -> TypedStorage:
        """The memory under the tensor, as elements of its dtype."""
        return TypedStorage(self.untyped_storage(), np_dtype(self))

    _typed_storage = storage

    # ----- the graph -----

    @property
    def requires_grad(self) -> bool:
        return requires_grad(self) or (bool(process.busy) and requires_grad(recorded(self)))

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, and {value!r} was assigned. Assign True or False.")
        if not self.is_leaf:
            raise not_a_leaf(self, value)
        set_requires_grad(self, value)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Let operations on this tensor be recorded (or not), in place; returns the tensor."""
        if not isinstance(requires_grad, bool):
            raise TypeError(f"requires_grad_(): the argument must be a bool, and is {requires_grad!r}. Pass True or False.")
        if self.is_leaf:
            set_requires_grad(self, requires_grad)
        elif not requires_grad:
            raise not_a_leaf(self, requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether backward ends here: the tensor was not computed from tensors that require grad."""
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Any:
        if self._meta is not None and self._meta.view is not None:
            self._meta.view.refresh(self)
        if self._node is None and process.busy:
            inside = recorded(self)
            return None if inside is self else inside.grad_fn
        return self._node

    @property
    def _grad_fn(self) -> Any:
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError(
                "_grad_fn can be only set to None, which detaches the tensor; a node was assigned. Use detach_()."
            )
        self.detach_()

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` the tensor is."""
        return 0 if self.grad_fn is None or self._meta is None else self._meta.output_nr

    @property
    def grad(self) -> Any:
        """The gradient that backward has accumulated, or None."""
        if process.busy:
            inside = recorded(self)
            if inside is not self:
                return inside.grad
        meta = self._meta
        found = None if meta is None else meta.grad
        if found is not None or (self._node is None and (meta is None or meta.view is None)):
            return found
        if requires_grad(self) and not (meta is not None and (meta.requires_grad or meta.retains_grad)):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
                "populated "
                f"during backward(): it was computed by {self._node}. Call retain_grad() on it before backward() if you want "
                "the "
                "gradient there, or ask for that of a leaf.",
                UserWarning,
                stacklevel=2,
            )
        return found

    @grad.setter
    def grad(self, value: Any) -> None:
        if process.busy and recorded(self) is not self:
            refuse_in_transform("the setter of Tensor.grad")
        if value is not None:
            check_grad(self, value)
        meta_of(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        meta_of(self).grad = None

    _grad = grad

    @property
    def grad_dtype(self) -> Any:
        """The dtype of this leaf's gradient: its own by default, another if set; None lets gradients keep theirs."""
        if not self.is_leaf:
            raise RuntimeError(f"grad_dtype can only be accessed on leaf tensors, and this one was computed by {self._node}.")
        chosen = None if self._meta is None else self._meta.grad_dtype
        if chosen is None:
            return self.dtype
        return None if chosen == "any" else dtypes.as_dtype(chosen)

    @grad_dtype.setter
    def grad_dtype(self, value: Any) -> None:
        if not self.is_leaf:
            raise RuntimeError(
                f"grad_dtype can only be set on leaf tensors, and this one was computed by {self._node}. Set it on the "
                "leaves."
            )
        if value is not None and not isinstance(value, (dtypes.dtype, np.dtype)):
            raise RuntimeError(f"grad_dtype must be an ndgrad.dtype or None, but got {type(value).__name__}.")
        meta = meta_of(self)
        if meta.grad is not None and value is not None and meta.grad.dtype != value:
            raise RuntimeError(
                f"Cannot set grad_dtype to {value} because there is already a gradient with dtype {meta.grad.dtype}. "
                "Clear the gradient (.grad = None) before changing grad_dtype."
            )
        meta.grad_dtype = "any" if value is None else dtypes.as_numpy_dtype(value)
        meta.accumulator = None  # the next graph makes one that knows

    @property
    def retains_grad(self) -> bool:
        return self._meta is not None and self._meta.retains_grad and self._node is not None

    def retain_grad(self) -> None:
        """Let backward leave the gradient of this result in `.grad`."""
        from ndgrad.autograd import hooks

        refuse_in_transform("Tensor.retain_grad()")
        hooks.retain_grad(self)

    def register_hook(self, hook: Any) -> Any:
        """Call `hook(grad)` whenever a gradient of this tensor is computed; it may return another gradient."""
        from ndgrad.autograd import hooks

        return hooks.register_tensor_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call `hook(tensor)` after a gradient has been accumulated into this leaf's `.grad`."""
        from ndgrad.autograd import hooks

        return hooks.register_post_accumulate_grad_hook(self, hook)

    @property
    def _backward_hooks(self) -> Any:
        """The tensor's hooks by number, None if it never had one."""
        from ndgrad.autograd import hooks

        return hooks.tensor_hooks_of(self)

    @_backward_hooks.setter
    def _backward_hooks(self, value: Any) -> None:
        from ndgrad.autograd import hooks

        hooks.set_tensor_hooks(self, value)

    def backward(self, gradient: Any = None, retain_graph: Any = None, create_graph: bool = False, inputs: Any = None) -> None:
        """Compute gradients of this tensor and accumulate them in the leaves (or only in `inputs`)."""
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def array(self) -> Any:
        """The same value with NumPy's face (`ndgrad.numpy.Array`): a view, no copy."""
        from ndgrad.numpy._array import to_array

        return to_array(self)

    def tensor(self) -> Any:
        """The same value with torch's face: this very tensor, unless it is an Array."""
        from ndgrad.numpy._array import to_tensor

        return to_tensor(self)

    def detach(self) -> Any:
        """The same values in the same memory, outside the graph."""
        if process.busy or self._array.__class__ is not np.ndarray or self.__class__ not in FACES:
            return shape.detach(self)
        outside = wrap(self.face, self._array)
        outside._storage = self._storage or storage_of(self)
        return outside

    def detach_(self) -> Any:
        """Take this tensor out of its graph, in place."""
        if self._is_view():
            raise RuntimeError(
                f"Can't detach views in-place: a tensor of shape {tuple(self.shape)} is a view, and its base would keep the "
                "history. "
                "Use detach() instead, or detach_() the base."
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
    def data(self) -> Any:
        """The same memory as a tensor outside the graph whose writes autograd does not see. Prefer `detach()`."""
        if batch_dims(self):
            raise RuntimeError("accessing `data` under vmap transform is not allowed: it would miss the batch. Use detach().")
        alias = self.detach()
        alias._storage = None
        return alias

    @data.setter
    def data(self, new: Any) -> None:
        if batch_dims(self):
            raise RuntimeError(
                "mutating directly with `.data` under vmap transform is not allowed. Use copy_(), or the out-of-place op."
            )
        if not isinstance(new, Tensor):
            raise TypeError(
                f"Variable data has to be a tensor, but got {type(new).__name__}. Wrap it with ndgrad.as_tensor(...)."
            )
        if self.requires_grad and not is_inexact(np_dtype(new)):
            raise RuntimeError(
                f"data set to a tensor that requires gradients must be floating point or complex dtype, and is {new.dtype}. "
                "Convert it, or clear requires_grad first."
            )
        storage_of(new)
        storage, meta = storage_of(self), meta_of(self)
        if tuple(new.shape) != tuple(self.shape) or np_dtype(new) != np_dtype(self):
            meta.geometry += 1
            meta.accumulator = None  # one made before expects a gradient of the old shape and dtype
        self._array = new._array
        # The number stays, as in torch; but what was saved before is not what lies here now, and the identity tells.
        if not is_inference(self):
            old = storage.version
            storage.version = old.next = Version(old.number, "an assignment to .data")

    @property
    def _version(self) -> int:
        """How often the memory has been written in place."""
        if self.is_inference():
            raise RuntimeError(
                "Inference tensors do not track version counter. Make the tensor outside inference mode, or clone() it there."
            )
        return version_number(self)

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return is_inference(self)

    def _is_view(self) -> bool:
        return self._meta is not None and self._meta.view is not None

    @property
    def _base(self) -> Any:
        """The tensor that this one is a view of, None if it is none."""
        return self._meta.view.base if self._meta is not None and self._meta.view is not None else None

    def _view_func(self, new_base: Any) -> Any:
        """What this view would be of another base; None if it is no view."""
        return replay(new_base, self._meta.view.path) if self._meta is not None and self._meta.view is not None else None

    _view_func_unsafe = _view_func

    def _rev_view_func_unsafe(self, new_view: Any) -> Any:
        """The base that has `new_view` in the place of this view; None if it is no view."""
        if self._meta is None or self._meta.view is None:
            return None
        base = self._meta.view.base.detach().clone()
        replay(base, self._meta.view.path).copy_(new_view)
        return base

    # ----- transposes, parts, names -----

    @property
    def T(self) -> Any:
        """The dimensions in reverse order."""
        n = self.ndim
        if n not in (1, 2):
            warn_deprecated("T", n, "x.mT transposes batches of matrices, x.permute() puts dimensions in any order")
        return shape.permute(self, dims=tuple(range(n))[::-1])

    @property
    def mT(self) -> Any:
        """The last two dimensions swapped."""
        n = self.ndim
        if n == 0:
            warn_deprecated("mT", n, "it is the identity here")
            return self
        if n == 1:
            raise RuntimeError(
                "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor. Add a dimension first."
            )
        return shape.permute(self, dims=(*range(n - 2), n - 1, n - 2))

    @property
    def H(self) -> Any:
        """The conjugate transpose of a matrix."""
        n = self.ndim
        if n not in (0, 2):
            more = " For batches of matrices, use tensor.mH." if n > 2 else " Add a dimension first."
            raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor.{more}")
        if n == 0:
            warn_deprecated("H", n, "use x.conj()")
        return _conj(self.mT if n else self)

    @property
    def mH(self) -> Any:
        """The conjugate transposes of matrices."""
        n = self.ndim
        if n == 1:
            raise RuntimeError(
                "tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor. Add a dimension first."
            )
        if n == 0:
            warn_deprecated("mH", n, "use x.conj()")
        return _conj(self.mT if n else self)

    @property
    def real(self) -> Any:
        """The real part, a view; of a real tensor, the tensor itself."""
        return complex_ops.real(self) if np_dtype(self).kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real.copy_(value)

    @property
    def imag(self) -> Any:
        """The imaginary part of a complex tensor, a view."""
        if np_dtype(self).kind != "c":
            raise RuntimeError(
                f"imag is not implemented for tensors with non-complex dtypes, and this one is {self.dtype}. It would be "
                "zero."
            )
        return complex_ops.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        self.imag.copy_(value)

    @property
    def names(self) -> tuple[str | None, ...]:
        """Names of the dimensions, kept and not interpreted."""
        chosen = None if self._meta is None else self._meta.names
        return (None,) * self.ndim if chosen is None else chosen

    @names.setter
    def names(self, value: Any) -> None:
        if value is None:
            meta_of(self).names = None
            return
        names = tuple(value)
        given = [n for n in names if n is not None]
        if len(names) != self.ndim or len(set(given)) != len(given):
            raise RuntimeError(
                f"names {names} do not name the {self.ndim} dimensions once each. Give one name, or None, per dimension."
            )
        meta_of(self).names = names

    @property
    def volatile(self) -> bool:
        warnings.warn("volatile was removed (Variable.volatile is always False)", UserWarning, stacklevel=2)
        return False

    @volatile.setter
    def volatile(self, value: Any) -> None:
        warnings.warn(
            "volatile was removed and now has no effect. Use `with ndgrad.no_grad():` instead.",
            UserWarning,
            stacklevel=2,
        )

    __hash__ = object.__hash__


def _conj(t: Tensor) -> Any:
    return locked(complex_ops.conj(t)) if np_dtype(t).kind == "c" else t


FACES[Tensor] = Tensor


# ----- operators -------------------------------------------------------------------------------------------------------


def _operator(name: str, op: Any, *, reflected: bool = False) -> None:
    """Install an operator that is generated when first used."""
    made: Any = None

    def first_use(self: Any, *args: Any) -> Any:
        nonlocal made
        if made is None:
            made = make_eager(op, operator=True, reflected=reflected)
        if vars(Tensor)[name] is first_use:  # else something that asks before it runs stands there (see ndgrad.overrides)
            setattr(Tensor, name, made)
        return made(self, *args)

    first_use.__name__ = name
    setattr(Tensor, name, first_use)


_BINARY = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "pow": arithmetic.pow,
    "and": bitwise.bitwise_and,
    "or": bitwise.bitwise_or,
    "xor": bitwise.bitwise_xor,
    "lshift": bitwise.bitwise_left_shift,
    "rshift": bitwise.bitwise_right_shift,
}
for _name, _op in {**_BINARY, "matmul": product.matmul}.items():
    _operator(f"__{_name}__", _op)
    # of `2 * x` and `2 + x` the graph is that of `x * 2` and `x + 2`, as in torch, and numbers second are the short way
    _operator(f"__r{_name}__", _op, reflected=_name not in ("add", "mul"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _operator(f"__{_name}__", getattr(comparison, _name))
_operator("__neg__", arithmetic.neg)
_operator("__abs__", complex_ops.abs)
_operator("__invert__", bitwise.bitwise_not)


def _in_place_operator(name: str, op: Any) -> None:
    """Install `x += y` and its like; an operand that is unknown falls through to `x = x + y`, which then says so."""

    def method(self: Any, other: Any) -> Any:
        if not (isinstance(other, (Variable, bool, int, float, complex)) or is_raw_array(other)):
            if not (self.keeps_saved and isinstance(other, (list, tuple))):
                return NotImplemented
            from ndgrad.numpy.coercion import as_array  # on NumPy's face a list is an array

            other = as_array(other)
        elif isinstance(other, np.ndarray) and (other.__class__ is not np.ndarray or not is_number(other.dtype)):
            from ndgrad.numpy.coercion import checked  # masks, matrices, objects and records are refused

            other = checked(other)
        return write(op, self, (other,), {})

    method.__name__ = method.__qualname__ = name
    setattr(Tensor, name, method)


for _name, _op in _BINARY.items():
    _in_place_operator(f"__i{_name}__", _op)


def _pos(self: Tensor) -> Any:
    return self.positive()


def _divmod(self: Tensor, other: Any) -> Any:
    return self // other, self % other


def _rdivmod(self: Tensor, other: Any) -> Any:
    return other // self, other % self


def _round(self: Tensor, ndigits: int | None = None) -> Any:
    return self.round(decimals=ndigits or 0)


# math.floor and math.ceil give Python ints through __float__, as in torch; math.trunc has no such way and needs its own.
for _name, _method in {"pos": _pos, "divmod": _divmod, "rdivmod": _rdivmod, "round": _round, "trunc": Tensor.__int__}.items():
    setattr(Tensor, f"__{_name}__", _method)
