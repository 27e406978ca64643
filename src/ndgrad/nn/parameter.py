"""Parameters and buffers: tensors that a module registers when they are assigned to it.

`Parameter` is a class but not a tensor type: results computed from a parameter are plain tensors, so the class only
marks the leaf. A buffer is an ordinary tensor with a mark, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeGuard, cast

from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.subclass import DISPATCH_NAMES, FUNCTION_NAMES, add_tensor_type, as_class, remove_tensor_type
from ndgrad._src.core.variable import Variable, meta_of, wrap
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.creation import empty
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._typing import Device, Dtype, Shape

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _Marked(type):
    """Metaclass whose `isinstance` also accepts marked tensors of other classes (a subclass given to Parameter keeps
    its class).
    """

    _mark: str

    def __instancecheck__(cls, instance: object) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return (
            cls in (Parameter, Buffer)
            and isinstance(instance, Variable)
            and bool(instance.__dict__.get(cls._mark, False))
        )


def _check_data(kind: str, data: Tensor | None) -> Tensor:
    if data is None:
        return empty(0)
    if not isinstance(data, Variable):
        raise AttributeError(
            f"{kind}() takes a tensor, but got {type(data).__name__}, which has no attribute 'detach'. "
            "Wrap it with ndgrad.tensor(...). [nd-module]"
        )
    return data


class Parameter(Tensor, metaclass=_Marked):
    """A learned tensor: assigned to a module, it appears in `module.parameters()`.

    Args:
        data: values, which the parameter shares. The default is an empty tensor.
        requires_grad: whether autograd records operations on the parameter.

    >>> import ndgrad
    >>> weight = ndgrad.nn.Parameter(ndgrad.ones(2))
    >>> weight
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    >>> (weight * 2).__class__.__name__
    'Tensor'
    """

    __slots__ = ()
    _mark = "_is_param"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not any(name in vars(cls) for name in (*FUNCTION_NAMES, *DISPATCH_NAMES)):
            add_tensor_type(cls, Tensor)

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:
        data = _check_data(cls.__name__, data)
        if type(data) in TENSOR_TYPES:  # a tensor, an array or another parameter: all become torch-style parameters
            return Tensor._make_subclass(cls, data, requires_grad)
        made = cast("Self", data.detach())
        if type(made) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() "
                f"returns an instance of the same type, but it returned {type(made).__name__}. Fix its detach(). "
                "[nd-module]"
            )
        made.__dict__["_is_param"] = True
        return made.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a parameter with the same values; the gradient is not copied, as in torch."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + repr(as_class(self, Tensor))


add_tensor_type(Parameter, Tensor)


class Buffer(Tensor, metaclass=_Marked):
    """A tensor that belongs to a module but is not learned.

    The call returns a plain tensor with a mark.

    Args:
        data: values, which the buffer shares. The default is an empty tensor.
        persistent: whether the buffer is part of `state_dict()`.

    >>> import ndgrad
    >>> module = ndgrad.nn.Module()
    >>> module.count = ndgrad.nn.Buffer(ndgrad.zeros(2))
    >>> dict(module.state_dict())
    {'count': tensor([0., 0.])}
    """

    __slots__ = ()
    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:
        data = _check_data("Buffer", data)
        made = cast("Self", data.detach().requires_grad_(data.requires_grad))
        made.__dict__.update(persistent=persistent, _is_buffer=True)
        return made


# ----- parameters whose shape the first input decides -----------------------------------------------------------------


class UninitializedTensorMixin:
    """Placeholder in lazy modules until the first input: it knows dtype and device, and refuses everything else.

    A property hides the array, so that every read raises, on every path of every op.
    """

    __slots__ = ()
    _initialized_class: type[Tensor]

    @property
    def _array(self) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter. This happens with lazy modules (LazyLinear and the like) "
            "that have not seen an input yet. "
            "Call forward with a batch first, so that the parameters get their shapes. [nd-lazy]"
        )

    @_array.setter
    def _array(self, array: Any) -> None:
        _ARRAY.__set__(self, array)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This usually happens in load_state_dict() "
            "when an uninitialized parameter is loaded into an initialized one. Call forward once, "
            "so that the module learns its sizes. [nd-lazy]"
        )

    @property
    def dtype(self) -> Any:
        return self._placeholder().dtype

    @property
    def device(self) -> Any:
        return self._placeholder().device

    def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
        meta_of(self).requires_grad = requires_grad
        return self

    def _placeholder(self) -> Tensor:
        """Return a tensor without elements, of this dtype and on this device."""
        return wrap(Tensor, _ARRAY.__get__(self))

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Change dtype or device before there are values."""
        self._array = fn(self._placeholder())._array

    def materialize(self: Any, shape: Shape, device: Device = None, dtype: Dtype = None) -> None:
        """Allocate memory of this shape, in place: the parameter becomes an ordinary one.

        Args:
            shape: shape of the tensor.
            device: new device. The default is the present one.
            dtype: new dtype. The default is the present one.
        """
        made = empty(
            shape, device=self.device if device is None else device, dtype=self.dtype if dtype is None else dtype
        )
        # Both classes have the same slots, so the object can change its class and keep its identity.
        self.__class__ = self._initialized_class
        self._array, self._storage = made._array, made._storage
        if self._meta is not None:
            self._meta.accumulator = None

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = _rebuild_uninitialized(type(self), self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return _rebuild_uninitialized, (type(self), self.requires_grad, self.device, self.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


#: The slot that the property above hides.
_ARRAY: Any = Variable.__dict__["_array"]


def _rebuild_uninitialized(cls: type[Any], requires_grad: bool, device: Device, dtype: Dtype) -> Any:
    return cls(device=device, dtype=dtype).requires_grad_(requires_grad)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter that gets its shape from `materialize` or the first call of its lazy module.

    Args:
        requires_grad: whether autograd records operations on the parameter.
        device: device of the parameter.
        dtype: dtype of the parameter.

    >>> import ndgrad
    >>> weight = ndgrad.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    ndgrad.Size([2, 3])
    """

    __slots__ = ()
    _initialized_class = Parameter

    def __new__(cls, requires_grad: bool = True, device: Device = None, dtype: Dtype = None) -> Self:
        return Tensor._make_subclass(cls, empty(0, device=device, dtype=dtype)).requires_grad_(requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer that gets its shape from `materialize` or the first call of its lazy module.

    Args:
        requires_grad: whether autograd records operations on the buffer.
        device: device of the buffer.
        dtype: dtype of the buffer.
        persistent: whether the buffer is part of `state_dict()`.

    >>> import ndgrad
    >>> mean = ndgrad.nn.UninitializedBuffer()
    >>> mean.materialize((3,))
    >>> mean.shape
    ndgrad.Size([3])
    """

    __slots__ = ()
    _initialized_class = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Device = None, dtype: Dtype = None, persistent: bool = True
    ) -> Self:
        made = Tensor._make_subclass(cls, empty(0, device=device, dtype=dtype)).requires_grad_(requires_grad)
        made.__dict__.update(persistent=persistent, _is_buffer=True)
        return made


# Not a tensor type: the eager path must not treat it as a parameter with values.
remove_tensor_type(UninitializedParameter)


def as_lazy(parameter: Parameter) -> UninitializedParameter:
    """Return a parameter that is known to have no shape yet."""
    assert isinstance(parameter, UninitializedParameter)
    return parameter


def is_lazy(t: object) -> TypeGuard[UninitializedTensorMixin]:
    """True if a parameter or buffer has no shape yet.

    Args:
        t: parameter, buffer or any other object.

    >>> import ndgrad
    >>> ndgrad.nn.parameter.is_lazy(ndgrad.nn.LazyLinear(2).weight)
    True
    """
    return isinstance(t, UninitializedTensorMixin)


_refuse_absent(__name__)
