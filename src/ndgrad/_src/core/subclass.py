"""Tensor subclasses: the hooks of a user's class, and the points at which they are called.

    none           a subclass that overrides nothing runs as its base tensor class, and results have the subclass
    function       `__ndgrad_function__` (torch's `__torch_function__` is accepted) is called instead of a public
                   function: above autograd, with the arguments as the user wrote them (see ndgrad.overrides)
    dispatch       `__ndgrad_dispatch__` (`__torch_dispatch__`) is called instead of an op's forward function: below
                   autograd, which records the op with the class's tensor as its result
    whole          `run_op` (only ndgrad's own classes) is called instead of the op, above autograd: values and graph
                   are those of other tensors, which the class holds (`ndgrad.distributed.tensor`)

A class with its own dispatch may be a wrapper: `Tensor._make_wrapper_subclass` makes a tensor with shape and dtype but
without memory, which holds its data in attributes. A backward pass with wrappers runs its rules on tensors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.dtypes import as_numpy_dtype, get_default_dtype
from ndgrad._src.arrays.meta import WrapperArray
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import Block, Modes, modes, process, restore, scope, thread
from ndgrad._src.core.node import Node, edge_node
from ndgrad._src.core.sparse_gradients import is_structured
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import Variable, meta_of, new
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Device, Dtype, Number, Shape

FUNCTION_NAMES = ("__ndgrad_function__", "__torch_function__")
DISPATCH_NAMES = ("__ndgrad_dispatch__", "__torch_dispatch__")

T = TypeVar("T", bound="Variable")


def disabled(
    func: Callable[..., Any],
    types: Collection[type],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Disable overrides, as the `__torch_function__` of a class: results are plain tensors."""
    with DisableFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _own(cls: type[Any], names: tuple[str, ...]) -> Callable[..., Any] | None:
    for base in cls.__mro__:
        if base in TENSOR_TYPES or base is Variable:
            break
        for name in names:
            if name in vars(base):
                return getattr(cls, name)
    return None


def override_of(cls: type[Any]) -> Callable[..., Any] | None:
    """Return the override of functions of a class (of tensors or any other), or None."""
    if issubclass(cls, Variable):
        found = _own(cls, FUNCTION_NAMES)
        return None if found is disabled else found
    found = getattr(cls, "__ndgrad_function__", None)
    if found is None and not any(_is_torchs(base) for base in cls.__mro__):
        found = getattr(cls, "__torch_function__", None)
    return found


def _is_torchs(thing: object) -> bool:
    """True if a class or function belongs to torch.

    torch's tensors handle torch's functions only, and ours handle ours only: otherwise each would pass the call on to
    the other forever.
    """
    for owner in (thing, getattr(thing, "__self__", None), getattr(thing, "__objclass__", None)):
        module = getattr(owner, "__module__", None)
        if isinstance(module, str) and module.partition(".")[0] == "torch":
            return True
    return False


#: Argument classes without overrides: numbers and similar, and all tensor classes in TENSOR_TYPES.
KNOWN: set[type[Any]] = {
    int, float, complex, bool, str, bytes, type(None), slice, type, FunctionType, np.ndarray, np.dtype, np.float64,
    np.float32, np.int64, np.bool_, dtypes.dtype, devices.device,
}  # fmt: skip


def add_tensor_type(cls: type[Any], tensor_type: type[Any]) -> None:
    """Register `tensor_type` as the class of results of ops on tensors of class `cls`. Neither overrides anything."""
    TENSOR_TYPES[cls] = tensor_type
    KNOWN.add(cls)


def remove_tensor_type(cls: type[Any]) -> None:
    del TENSOR_TYPES[cls]
    KNOWN.discard(cls)


def overriding_types(values: Iterable[Any]) -> tuple[type[Any], ...]:
    """Return the classes of arguments that override functions."""
    found: dict[type[Any], None] = {}
    for value in values:
        cls = value.__class__
        if cls in KNOWN:
            continue
        if cls is tuple or cls is list:
            found.update(dict.fromkeys(overriding_types(value)))
        elif override_of(cls) is not None:
            found[cls] = None
    return tuple(found)


def ask_classes(
    func: Callable[..., Any], types: tuple[type[Any], ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the first result of the classes that override functions; NotImplemented if none handles the call."""
    for cls in order_by_rank(types):
        override = override_of(cls)
        if override is not None:
            result = override(func, types, args, kwargs)
            if result is not NotImplemented:
                return result
    return NotImplemented


def ask(func: Callable[..., Any], types: tuple[type[Any], ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of modes and classes for a call of a public function.

    The innermost mode is called first, then the argument classes.
    """
    stack = thread.function_modes
    if stack:
        outside = scope()
        try:
            restore(outside.with_changes(function_modes=stack[:-1]))
            result = stack[-1].__ndgrad_function__(func, types, args, kwargs)
        finally:
            restore(outside)
            del outside
        if result is not NotImplemented:
            return result
    result = ask_classes(func, types, args, kwargs)
    if result is not NotImplemented:
        return result
    asked = [type(m).__name__ for m in stack[-1:]] + [c.__name__ for c in types]
    name = f"{func.__module__}.{func.__qualname__}" if hasattr(func, "__qualname__") else repr(func)
    raise TypeError(
        f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented: "
        f"{', '.join(asked)}. Handle the function in one of them, or pass it on with super().__torch_function__(func, "
        "types, args, kwargs). [nd-dispatch]"
    )


def keeps_class(cls: type[Any]) -> bool:
    """True if results of ops on the class have that class."""
    return _own(cls, FUNCTION_NAMES) is not disabled


def dispatch_of(cls: type[Any]) -> Any:
    """Return the class's own handler of ops below autograd, or None."""
    return None if cls in TENSOR_TYPES else _own(cls, DISPATCH_NAMES)


def has_dispatch(cls: type[Any]) -> bool:
    return dispatch_of(cls) is not None


def dispatch_types(args: tuple[Any, ...]) -> tuple[type[Any], ...]:
    """Return the classes of arguments that have their own dispatch."""
    return tuple(dict.fromkeys(type(a) for a in _flat(args) if isinstance(a, Variable) and has_dispatch(type(a))))


def _flat(args: Iterable[Any]) -> Iterator[Any]:
    for a in args:
        if isinstance(a, (tuple, list)):
            yield from _flat(a)
        else:
            yield a


def order_by_rank(types: tuple[type[Any], ...]) -> list[type[Any]]:
    """Return classes in call order: subclasses before their bases, otherwise from left to right."""
    order: list[type[Any]] = []
    for cls in types:
        at = next((i for i, other in enumerate(order) if issubclass(cls, other)), len(order))
        order.insert(at, cls)
    return order


# ----- functions ------------------------------------------------------------------------------------------------------


def announce_class(cls: type[Any]) -> None:
    """Register a new tensor class: if it has its own dispatch, ops call it from now on."""
    if has_dispatch(cls):
        from ndgrad._src.core import op_observers  # noqa: F401  # registers the functions that run ops of such a class

        cls.own_dispatch = process.dispatching = True


def default_function(
    cls: type[Any],
    func: Callable[..., Any],
    types: Collection[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """`Tensor.__torch_function__`."""
    if not all(issubclass(cls, t) for t in types) or _is_torchs(func):
        return NotImplemented
    with DisableFunctionSubclass():
        result = func(*args, **kwargs)
    return with_class(result, cls)


def with_class(result: Any, cls: type[Any]) -> Any:
    """Return a result with its plain tensors converted to a class."""
    if isinstance(result, Variable):
        return as_class(result, cls) if type(result) in TENSOR_TYPES else result
    if type(result) in (tuple, list):
        return type(result)(with_class(r, cls) for r in result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*(with_class(r, cls) for r in result))
    return result


class DisableFunctionSubclass(Block):
    """A block that disables the classes' overrides of functions; results are plain tensors."""

    def change(self, modes: Modes) -> None:
        """Switch the dispatch to subclasses off in the given modes.

        Args:
            modes: modes of the current thread.
        """
        modes.entered += 1
        modes.functions_disabled += 1


def subclass_op(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Run an op with arguments of a subclass."""
    types = tuple(dict.fromkeys(type(a) for a in args if isinstance(a, Variable) and type(a) not in TENSOR_TYPES))
    # A layout is not an override: even with overrides off, the class of a sparse or nested tensor runs its ops.
    if not thread.functions_disabled or any(isinstance(a, Variable) and is_structured(a._array) for a in args):
        result = ask_classes(op, types, args, settings)
        if result is not NotImplemented:
            return result
    outermost = order_by_rank(types)[0]
    if (
        not all(issubclass(outermost, t) for t in types)
        and not thread.functions_disabled
        and not any(map(has_dispatch, types))
    ):
        names = " and ".join(t.__name__ for t in types)
        raise TypeError(
            f"{op.name}: {names} are classes of tensors of which none is a subclass of the others, so the class of the "
            "result is not known. "
            "Define __ndgrad_function__ in one of them, or convert with as_subclass(Tensor) first. [nd-dispatch]"
        )
    tensor_type = max(
        (tensor_type_of_class(type(a)) for a in args if isinstance(a, Variable)), key=lambda f: f.is_numpy_type
    )
    from ndgrad._src.core.dispatch import dispatch_as  # dispatch imports this module

    out = dispatch_as(modes(), tensor_type, op, args, settings, plain=False)
    if thread.functions_disabled or any(map(has_dispatch, types)):
        return out
    if not keeps_class(outermost):
        return out
    finish = getattr(outermost, "finish_result", None)
    if finish is not None:
        source = next(a for a in args if type(a) is outermost)
        return tuple(finish(o, source) for o in out) if op.outputs != 1 else finish(out, source)
    if op.outputs != 1:
        return tuple(as_class(o, outermost) for o in out)
    return as_class(out, outermost)


def tensor_type_of_class(cls: type[Any]) -> type[Any]:
    return next(TENSOR_TYPES[base] for base in cls.__mro__ if base in TENSOR_TYPES)



def as_class(t: Variable, cls: type[T]) -> T:
    """Return another object, of class `cls`, over the same memory, history and metadata."""
    if not isinstance(t, Variable) or type(t) is cls or has_dispatch(type(t)):
        return t  # type: ignore[return-value]  # of the class, or a wrapper, which keeps its own

    other = new(cls)
    other._storage = storage_of(t)
    other._array, other._node, other._meta = t._array, t._node, t._meta
    return other


# ----- dispatch below autograd ----------------------------------------------------------------------------------------


def present_call(
    op: Any, args: tuple[Any, ...], settings: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return an op and its arguments as a dispatch receives them; ops of `ndgrad.library` have a form of their own."""
    present = getattr(op, "present_call", None)
    return (op, args, dict(settings)) if present is None else present(args, settings)


def registered_rule(func: Any, cls: type[Any]) -> Callable[..., Any] | None:
    """Return the function that an op of `ndgrad.library` has for a dispatch mode or tensor subclass, or None."""
    rules = getattr(func, "dispatch_rules", None)
    return None if not rules else rules.get(cls)


def run_dispatch(op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return an op's result computed by the classes of its arguments, without recording."""
    types = dispatch_types(args)
    outside = scope()
    try:
        restore(outside.recording(False))
        func, args, settings = present_call(op, args, settings)
        for cls in order_by_rank(types):
            answer = (registered_rule(func, cls) or dispatch_of(cls))(func, types, args, dict(settings))
            if answer is not NotImplemented:
                return answer
    finally:
        restore(outside)
        del outside
    names = ", ".join(c.__name__ for c in types)
    raise TypeError(
        f"{op.name}: the dispatch of {names} answered NotImplemented, but there is no other handler. "
        "Handle the op there: unwrap the arguments, call func(*args, **kwargs), and wrap the result. [nd-dispatch]"
    )


class _Scalar:
    """Op that asks tensor classes for the only element of a tensor, under torch's name for `item`."""

    name = __name__ = "_local_scalar_dense"
    outputs = 1

    def __call__(self, t: Variable) -> Number:
        return t.item()

    def __repr__(self) -> str:
        return f"<op {self.name}>"


local_scalar = _Scalar()


def scalar_of(t: Variable) -> Number:
    """Return the only element of a tensor whose class has its own dispatch, by that dispatch."""
    if t.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {t.numel()} elements cannot be converted to Scalar (shape {tuple(t.shape)}). Index or "
            "reduce it first. [nd-one-value]"
        )
    return run_dispatch(local_scalar, (t,), {})


def default_dispatch(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Tensor.__torch_dispatch__`."""

    def plain(a: Any) -> Any:
        if isinstance(a, (tuple, list)):
            return type(a)(map(plain, a))
        if not isinstance(a, Variable) or not has_dispatch(type(a)):
            return a
        if is_wrapper(a):
            raise NotImplementedError(
                f"{func.name}: {type(a).__name__} has no memory of its own (_make_wrapper_subclass), "
                "so the op cannot run on it as on a plain tensor. "
                "Unwrap it in __ndgrad_dispatch__ before calling func. [nd-dispatch]"
            )
        bare = new(tensor_type_of_class(type(a)))
        bare._array, bare._node, bare._storage, bare._meta = a._array, None, a._storage, None
        return bare

    return func(*map(plain, args), **kwargs)


def own_slots(cls: type[Any]) -> Iterable[str]:
    """Yield the names of the slots that a tensor class adds to those of its base tensor class."""
    for base in cls.__mro__:
        if base in TENSOR_TYPES or base is Variable:
            break
        found = vars(base).get("__slots__", ())
        for name in (found,) if isinstance(found, str) else found:
            if name not in ("__dict__", "__weakref__"):
                yield f"_{base.__name__.lstrip('_')}{name}" if name[:2] == "__" != name[-2:] else name


def attributes(t: Variable) -> dict[str, Any]:
    """Return the attributes of a tensor beyond those of every tensor: its dictionary, and the slots of its class."""
    found = dict(t.__dict__)
    for name in own_slots(type(t)):
        if hasattr(t, name):
            found[name] = getattr(t, name)
    return found


def set_attributes(t: Variable, given: dict[str, Any]) -> None:
    slots = () if type(t) in TENSOR_TYPES else tuple(own_slots(type(t)))
    for name, value in given.items():
        if name in slots:
            object.__setattr__(t, name, value)
        else:
            t.__dict__[name] = value


def copy_attributes(source: Variable, target: Variable) -> None:
    """Copy the attributes of a tensor to another; its class may keep them in slots."""
    if type(source) in TENSOR_TYPES:
        target.__dict__.update(source.__dict__)
    else:
        set_attributes(target, attributes(source))


def unshare(t: Variable, args: tuple[Any, ...]) -> Variable:
    """Return the result of a dispatch as an object that may get a history: a new one if it is one of the arguments."""
    if not any(t is a for a in args):
        return t
    other = new(type(t))
    other._array, other._node, other._storage, other._meta = t._array, None, t._storage, None
    adopt(t, other)
    return other


def adopt(t: Variable, other: Variable) -> None:
    """Complete a new tensor over the payload of `t` for its class: copy the attributes, which may hold the data."""
    copy_attributes(t, other)
    if is_wrapper(t):
        count_wrapper(other)


def _wrapper_array() -> type[Any]:
    return WrapperArray


# ----- making subclasses ----------------------------------------------------------------------------------------------

#: Living tensors without memory, by identity.
alive: dict[int, weakref.ref[Any]] = {}
#: Nodes whose rules must run on tensors: ops with wrappers, and ops that make sparse gradients.
_noted: dict[int, weakref.ref[Node]] = {}


def is_wrapper(t: object) -> bool:
    """True if a value is a tensor without memory of its own."""
    return isinstance(t, Variable) and isinstance(t._array, _wrapper_array())


def is_view_of_wrapper(t: Variable, source: Variable) -> bool:
    """True if a view op returned a tensor without memory for another one.

    Their inner tensors are views of each other, so a write to one is seen in both, and must be in the history of both.
    """
    return bool(alive) and t is not source and is_wrapper(t) and is_wrapper(source)


def count_wrapper(t: Variable) -> None:
    key = id(t)
    alive[key] = weakref.ref(t, lambda _: alive.pop(key, None))


def note_wrappers(node: Node | None, values: Iterable[Any]) -> None:
    """Remember that a node's rules must run on tensors, if an argument or result of the op is a wrapper."""
    if alive and any(is_wrapper(v) for v in _flat(values)):
        assert node is not None
        note_tensor_rules(node)


def note_tensor_rules(node: Node) -> None:
    """Remember that a node's rules must run on tensors: its gradients are not arrays."""
    key = id(node)
    _noted[key] = weakref.ref(node, lambda _: _noted.pop(key, None))


def needs_tensors(roots: Iterable[Any], grads: Iterable[Any]) -> bool:
    """True if a backward pass from these edges meets a tensor without memory, or gradients that are not arrays."""
    if not alive and not _noted:  # the usual case, without a graph traversal
        return False
    reached = iterate_nodes(dict.fromkeys(edge_node(e) for e in roots))
    return any(map(is_wrapper, grads)) or any(
        id(node) in _noted or is_wrapper(getattr(node, "variable", None)) for node in reached
    )


def make_wrapper(
    cls: type[Any],
    size: Shape,
    dtype: Dtype,
    device: Device,
    requires_grad: bool,
    strides: Sequence[int] | None,
) -> Variable:
    """Return a tensor of class `cls` with a shape and a dtype, and without memory."""
    if not has_dispatch(cls):
        raise TypeError(
            f"{cls.__name__} must define __torch_dispatch__ (or __ndgrad_dispatch__): _make_wrapper_subclass makes "
            "tensors without memory, which cannot compute without it. Define it, or use _make_subclass, "
            "whose tensors have memory. [nd-dispatch]"
        )
    shape = (size,) if isinstance(size, int) else tuple(int(n) for n in size)
    made = new(cls)
    made._array = WrapperArray(
        shape,
        as_numpy_dtype(get_default_dtype() if dtype is None else dtype),
        as_device("cpu") if device is None else as_device(device),
        None if strides is None else tuple(int(s) for s in strides),
    )
    made._node = made._storage = made._meta = None
    if requires_grad:
        meta_of(made).requires_grad = True
    count_wrapper(made)
    return made


# ----- tensors of another class ---------------------------------------------------------------------------------------


def as_tensor_type(t: Variable, tensor_type: type[Variable]) -> Any:
    """Return a recorded view of a whole tensor, of another class.

    A tensor of an open transform wraps the tensor of the transform around it, and leaves the transform as that one. So
    each of them takes the class.
    """
    view = inner = tensor_ops.alias(t)
    while isinstance(inner, Variable) and inner is not t:
        inner.__class__ = tensor_type
        inner, t = inner._array, t._array
    return view


def as_type_of(derivative: Any, like: Any) -> Any:
    """Return the derivative of a tensor as a tensor of its class.

    The gradient of a Tensor is a Tensor, although rules that compute with NumPy's Arrays give an Array. Derivatives of
    other classes, such as sparse ones, stay as they are.
    """
    wanted = TENSOR_TYPES.get(like.__class__) or like.tensor_type
    if wanted not in TENSOR_TYPES or TENSOR_TYPES.get(derivative.__class__, wanted) is wanted:
        return derivative
    return as_tensor_type(derivative, wanted)
