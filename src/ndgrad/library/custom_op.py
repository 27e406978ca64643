"""Python functions as opaque ops: `custom_op`, and the functions that add rules to an op.

The function becomes a kernel. Its derivative, its batching rule, and its shapes for tensors without data are registered
separately. Transforms, the compiler and fx see one op.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.foundations.locks import make_lock
from ndgrad.library.overloads import (
    OpOverload,
    OpOverloadPacket,
    add_overload,
    find_overload,
    is_defined,
    refused_libraries,
    remove_overload,
)
from ndgrad.library.schema import infer_schema, parse_schema

__all__ = [
    "CustomOpDef", "custom_op", "get_ctx", "impl_abstract", "register_autocast", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap",
]  # fmt: skip

_Op: TypeAlias = "str | OpOverload | OpOverloadPacket | CustomOpDef"
_lock = make_lock()
_definitions: dict[str, CustomOpDef] = {}


def _as_device_types(device_types: str | Sequence[str] | None) -> list[str | None]:
    return [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)


class CustomOpDef:
    """An op made of a Python function by `custom_op`. Calling it runs the op.

    Args:
        namespace: name of the library.
        name: name of the op in the library.
        schema: types of the op, such as `"(Tensor x) -> Tensor"`.
        fn: function that runs if no kernel is registered or enabled.
        tags: tags of the op.

    >>> import ndgrad
    >>> @ndgrad.library.custom_op("doc::cube", mutates_args=())
    ... def cube(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return ndgrad.from_numpy(x.numpy() ** 3)
    >>> cube
    <CustomOpDef(doc::cube)>
    >>> cube(ndgrad.tensor([2.0])), ndgrad.ops.doc.cube(ndgrad.tensor([2.0]))
    (tensor([8.]), tensor([8.]))
    """

    def __init__(
        self, namespace: str, name: str, schema: str, fn: Callable[..., Any], tags: Sequence[Any] | None = None
    ) -> None:
        self._namespace, self._name = namespace, name
        self._qualname = f"{namespace}::{name}"
        self._schema = schema
        self._init_fn = fn
        self._backend_fns: dict[str | None, Callable[..., Any]] = {}
        self._disabled_kernel: set[str] = set()
        self._opoverload: OpOverload
        with _lock:
            old: CustomOpDef | None = _definitions.get(self._qualname)
            if old is not None:
                remove_overload(old._opoverload)
            self._opoverload = add_overload(namespace, parse_schema(name + schema), tags or ())
            _definitions[self._qualname] = self
        self._opoverload.is_opaque = True
        self._opoverload.choose_kernel = self._choose_kernel

    def _choose_kernel(self, kind: str) -> Callable[..., Any] | None:
        if kind in self._disabled_kernel:
            return self._init_fn
        return self._backend_fns.get(kind, self._backend_fns.get(None))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __reduce__(self) -> Any:
        return _find_definition, (self._qualname,)

    def __deepcopy__(self, memo: Any) -> CustomOpDef:
        return self

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register a function for some devices, or for all with None; a decorator without `fn`.

        Args:
            device_types: device type or types. None means all.
            fn: kernel of the op. None gives a decorator.

        >>> import ndgrad
        >>> @ndgrad.library.custom_op("doc::minus", mutates_args=(), device_types="cuda")
        ... def minus(x: ndgrad.Tensor) -> ndgrad.Tensor:
        ...     return -x
        >>> _ = minus.register_kernel("cpu", lambda x: -x)
        >>> minus(ndgrad.ones(1))
        tensor([-1.])
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in _as_device_types(device_types):
                self._backend_fns[kind] = function
            return function

        return register if fn is None else register(fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Use, or leave out, the kernel of a device inside a block. The function of `custom_op` runs instead.

        Args:
            device_type: device type of the kernel.
            enabled: whether the kernel is used.

        >>> import ndgrad
        >>> @ndgrad.library.custom_op("doc::plus", mutates_args=())
        ... def plus(x: ndgrad.Tensor) -> ndgrad.Tensor:
        ...     return x + 1
        >>> _ = plus.register_kernel("cpu", lambda x: x + 100)
        >>> with plus.set_kernel_enabled("cpu", False):
        ...     print(plus(ndgrad.zeros(1)))
        tensor([1.])
        >>> plus(ndgrad.zeros(1))
        tensor([100.])
        """
        before = device_type in self._disabled_kernel
        (self._disabled_kernel.discard if enabled else self._disabled_kernel.add)(device_type)
        try:
            yield
        finally:
            (self._disabled_kernel.add if before else self._disabled_kernel.discard)(device_type)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Register the function for tensors without data, which decides shapes and dtypes.

        Args:
            fn: function that returns empty tensors of the right shapes and dtypes.
        """
        return _register_fake(self._opoverload, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Register the derivative: see `ndgrad.library.register_autograd`.

        Args:
            backward: function `backward(ctx, *grads)` that returns a gradient for each positional argument.
            setup_context: function `setup_context(ctx, inputs, output)` that saves values for `backward`.
        """
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """Register the batching rule: see `ndgrad.library.register_vmap`.

        Args:
            func: rule `func(info, in_dims, *args, **kwargs)` that returns the output and its out_dims. None gives a
                decorator.
        """
        return register_vmap(self, func)

    def register_torch_dispatch(self, torch_dispatch_class: type, fn: Callable[..., Any] | None = None, /) -> Any:
        """Register the behaviour under a dispatch mode, or for a tensor subclass.

        Args:
            torch_dispatch_class: class of a dispatch mode, or a tensor subclass.
            fn: function that runs in place of the op. None gives a decorator.
        """
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Register the dtype of floating inputs under autocast.

        Args:
            device_type: `"cpu"` or `"cuda"`.
            cast_inputs: dtype of floating inputs.
        """
        register_autocast(self, device_type, cast_inputs)


def _find_definition(qualname: str) -> CustomOpDef:
    return _definitions[qualname]


def _parse_name(name: str, with_overload: bool = False) -> tuple[str, str]:
    """Return the namespace, and the name in it, which may end in `.overload` if `with_overload`."""
    namespace, separator, short = name.partition("::")
    parts = short.split(".", 1) if with_overload else [short]
    if not separator or not namespace.isidentifier() or not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"the name of an op has the form 'library::name', so that libraries do not collide, and this one is "
            f"{name!r}. [nd-op-block]"
        )
    if namespace in ("aten", "prim", "prims", "ndgrad"):
        raise ValueError(
            f"{namespace} is a reserved namespace. Please choose another name, such as that of your library. "
            "[nd-op-block]"
        )
    return namespace, short


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[Any] | None = None,
) -> Any:
    """Make an op of a function of tensors, under `ndgrad.ops.library.name`.

    `mutates_args` names the arguments that the function writes to; "unknown" means all of them.

    Args:
        name: name `"library::name"`.
        fn: function, which is the kernel. None gives a decorator.
        mutates_args: names of the arguments that the function writes to. `"unknown"` means all of them.
        device_types: device type or types of the kernel. None means all.
        schema: types of the op, such as `"(Tensor x) -> Tensor"`. None takes them from the annotations of the function.
        tags: tags of the op.

    >>> import numpy as np, ndgrad
    >>> @ndgrad.library.custom_op("doc::numpy_sin", mutates_args=())
    ... def numpy_sin(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return ndgrad.from_numpy(np.sin(x.numpy()))
    >>> @numpy_sin.register_fake
    ... def _(x):
    ...     return ndgrad.empty_like(x)
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.save_for_backward(inputs[0])
    >>> def backward(ctx, grad):
    ...     return grad * ctx.saved_tensors[0].cos()
    >>> numpy_sin.register_autograd(backward, setup_context=setup_context)
    >>> x = ndgrad.zeros(2, requires_grad=True)
    >>> numpy_sin(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """
    namespace, short = _parse_name(name)

    def define(function: Callable[..., Any]) -> CustomOpDef:
        if not callable(function):
            raise ValueError(f"custom_op(func): Expected `func` to be a function, got: {type(function)} [nd-type]")
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema.strip()
        parsed = parse_schema(short + text)
        if schema is not None and mutates_args != "unknown":
            names = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
            written = {a.name for a in parsed.arguments if a.is_write}
            if written != names:
                raise ValueError(
                    f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The "
                    f"schema suggests that the op mutates {written}, which is different from what was provided in "
                    "`mutates_args`. [nd-op-block]"
                )
        made = CustomOpDef(namespace, short, text, function, tags)
        made.register_kernel(device_types, function)
        return made

    return define if fn is None else define(fn)


# ----- rules of any op ------------------------------------------------------------------------------------------------


def as_overload(op: _Op) -> OpOverload:
    """Return the overload that a name, an op or a definition means."""
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverloadPacket):
        return op.default if "default" in op.overloads() else getattr(op, op.overloads()[0])
    if isinstance(op, str):
        return find_overload(op)
    if type(op) is OpOverload:
        return op
    raise ValueError(
        f"{op!r} is no op that rules can be registered for. Give a name 'library::op', an OpOverload, or the result of "
        "custom_op. [nd-type]"
    )


def register_kernel(
    op: _Op, device_types: str | Sequence[str] | None, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Register the function of an op for some devices, or for all with None; a decorator without `func`.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        device_types: device type or types. None means all.
        func: kernel of the op. None gives a decorator.
        lib: library that the registration ends with. None means that it stays.

    >>> import ndgrad
    >>> ndgrad.library.define("doc::neg2", "(Tensor x) -> Tensor")
    >>> @ndgrad.library.register_kernel("doc::neg2", "cpu")
    ... def _(x):
    ...     return -2 * x
    >>> ndgrad.ops.doc.neg2(ndgrad.ones(1))
    tensor([-2.])
    """
    if isinstance(op, str) and op in _definitions:
        op = _definitions[op]
    if isinstance(op, CustomOpDef):
        return op.register_kernel(device_types, func)
    overload = as_overload(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for kind in _as_device_types(device_types):
            set_kernel(overload, "CompositeExplicitAutograd" if kind is None else kind.upper(), function, lib)
        return function

    return register if func is None else register(func)


def set_kernel(overload: OpOverload, key: str, function: Callable[..., Any], lib: Any = None) -> None:
    """Set the function of a dispatch key; a library that is given restores the old one when it is destroyed."""
    if lib is not None:
        before = overload.kernels.get(key)
        lib._undo.append(
            lambda: overload.kernels.pop(key, None) if before is None else overload.kernels.update({key: before})
        )
    overload.kernels[key] = function


def _register_fake(overload: OpOverload, fn: Callable[..., Any], lib: Any = None) -> Callable[..., Any]:
    if lib is not None:
        before = overload.fake
        lib._undo.append(lambda: setattr(overload, "fake", before))
    overload.fake = fn
    return fn


def register_fake(
    op: _Op,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Register the function of an op for tensors without data; a decorator without `func`. It returns empty tensors of
    the right shapes and dtypes, which the compiler and the device "meta" use.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        func: function that returns empty tensors of the right shapes and dtypes. None gives a decorator.
        lib: library that the registration ends with. None means that it stays.
        allow_override: whether an earlier function may be replaced. Functions of `custom_op` always may.

    A library of compiled ops, which cannot be loaded, also has functions for ops that it would define. These are left
    aside, so that the rest of the library can be imported.

    >>> import ndgrad
    >>> @ndgrad.library.custom_op("doc::rows", mutates_args=())
    ... def rows(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return x.sum(1)
    >>> @ndgrad.library.register_fake("doc::rows")
    ... def _(x):
    ...     return x.new_empty(x.shape[0])
    >>> rows(ndgrad.ones(3, 2, device="meta")).shape
    ndgrad.Size([3])
    """
    if isinstance(op, str) and refused_libraries and not is_defined(op):
        return (lambda function: function) if func is None else func
    overload = as_overload(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if overload.fake is not None and not allow_override and not overload.is_opaque:
            raise RuntimeError(
                f"register_fake(...): the operator {overload.name()} already has an fake impl registered. Pass "
                "allow_override=True to replace it. [nd-op-block]"
            )
        return _register_fake(overload, function, lib)

    return register if func is None else register(func)


impl_abstract = register_fake


def register_autograd(
    op: _Op,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Register the derivative of an op.

    `setup_context(ctx, inputs, output)` saves what `backward(ctx, *grads)` needs; ops with keyword-only arguments also
    receive `keyword_only_inputs`. `backward` returns one gradient per positional argument: None for arguments that are
    not tensors, a list for a list of tensors.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        backward: function `backward(ctx, *grads)` that returns a gradient for each positional argument.
        setup_context: function `setup_context(ctx, inputs, output)` that saves values for `backward`.
        lib: library that the registration ends with. None means that it stays.

    >>> import ndgrad
    >>> @ndgrad.library.custom_op("doc::scale", mutates_args=())
    ... def scale(x: ndgrad.Tensor, by: float) -> ndgrad.Tensor:
    ...     return x * by
    >>> def setup_context(ctx, inputs, output):
    ...     ctx.by = inputs[1]
    >>> def backward(ctx, grad):
    ...     return grad * ctx.by, None
    >>> ndgrad.library.register_autograd("doc::scale", backward, setup_context=setup_context)
    >>> ndgrad.func.grad(lambda x: scale(x, 3.0))(ndgrad.tensor(1.0))
    tensor(3.)
    """
    overload = as_overload(op)
    if not overload._schema.is_functional:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op} with schema {overload._schema}. Please "
            "create a functional operator and register an autograd formula for that. [nd-op-block]"
        )
    if any(a.type.holds_tensors for a in overload._schema.arguments if a.kwarg_only):
        raise NotImplementedError(
            f"register_autograd with kwarg-only Tensor args. In the original definition of the op, please make your "
            f"tensors not kwarg-only. Got: {overload._schema} [nd-op-block]"
        )
    if lib is not None:
        before = {"backward": overload.backward, "setup_context": overload.setup_context}
        lib._undo.append(lambda: vars(overload).update(before))
    overload.backward, overload.setup_context = backward, setup_context


def register_vmap(op: _Op, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Any:
    """Register the batching rule of an op: `func(info, in_dims, *args, **kwargs)` returns the output and its out_dims.

    A decorator without `func`. Without a rule, vmap runs the op on one sample after another.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        func: rule `func(info, in_dims, *args, **kwargs)`. None gives a decorator.
        lib: library that the registration ends with. None means that it stays.

    >>> import ndgrad
    >>> @ndgrad.library.custom_op("doc::total", mutates_args=())
    ... def total(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return x.sum()
    >>> @ndgrad.library.register_vmap("doc::total")
    ... def _(info, in_dims, x):
    ...     return x.movedim(in_dims[0], 0).flatten(1).sum(1), 0
    >>> ndgrad.vmap(total)(ndgrad.ones(2, 3))
    tensor([3., 3.])
    """
    overload = as_overload(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if lib is not None:
            before = overload.vmap_rule
            lib._undo.append(lambda: setattr(overload, "vmap_rule", before))
        overload.vmap_rule = function
        return function

    return register if func is None else register(func)


def register_torch_dispatch(
    op: _Op, torch_dispatch_class: type, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Register the behaviour of an op under a dispatch mode, as `func(mode, func, types, args, kwargs)`.

    For a tensor subclass the form is `func(func, types, args, kwargs)`. A decorator without `func`.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        torch_dispatch_class: class of a dispatch mode, or a tensor subclass.
        func: function that runs in place of the op. None gives a decorator.
        lib: library that the registration ends with. None means that it stays.

    >>> import ndgrad
    >>> from ndgrad.utils._python_dispatch import DispatchMode
    >>> class Twice(DispatchMode):
    ...     def __ndgrad_dispatch__(self, func, types, args=(), kwargs=None):
    ...         return func(*args, **(kwargs or {}))
    >>> @ndgrad.library.custom_op("doc::same", mutates_args=())
    ... def same(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return x.clone()
    >>> @ndgrad.library.register_torch_dispatch("doc::same", Twice)
    ... def _(mode, func, types, args, kwargs):
    ...     return args[0] * 2
    >>> with Twice():
    ...     print(same(ndgrad.ones(1)))
    tensor([2.])
    """
    overload = as_overload(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if lib is not None:
            before = overload.dispatch_rules.get(torch_dispatch_class)
            rules = overload.dispatch_rules
            lib._undo.append(
                lambda: (
                    rules.pop(torch_dispatch_class, None)
                    if before is None
                    else rules.update({torch_dispatch_class: before})
                )
            )
        overload.dispatch_rules[torch_dispatch_class] = function
        return function

    return register if func is None else register(func)


def register_autocast(op: _Op, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Register the dtype to which floating inputs are cast under `ndgrad.autocast` of a device.

    Args:
        op: name `"library::name"`, op, or result of `custom_op`.
        device_type: `"cpu"` or `"cuda"`.
        cast_inputs: dtype of floating inputs.
        lib: library that the registration ends with. None means that it stays.

    >>> import ndgrad
    >>> @ndgrad.library.custom_op("doc::halved", mutates_args=())
    ... def halved(x: ndgrad.Tensor) -> ndgrad.Tensor:
    ...     return x / 2
    >>> ndgrad.library.register_autocast("doc::halved", "cpu", ndgrad.bfloat16)
    >>> with ndgrad.autocast("cpu", dtype=ndgrad.bfloat16):
    ...     print(halved(ndgrad.ones(1)).dtype)
    ndgrad.bfloat16
    """
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}. Give 'cpu' or 'cuda'. [nd-device]")
    overload = as_overload(op)
    if lib is not None:
        before = dict(overload.autocast)
        lib._undo.append(lambda: setattr(overload, "autocast", before))
    overload.autocast[device_type] = cast_inputs


class FakeImplCtx:
    """The context of a fake kernel, from `get_ctx`."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        """Refuse a size that depends on values: programs have fixed sizes. A compiled function then runs eagerly."""
        text = f"a size between {min} and {max or 'any number'} depends on the values of tensors"
        if current_tracer.get() is not None:
            raise GraphBreak(text)
        raise NotImplementedError(
            f"new_dynamic_size: {text}, and tensors without data have fixed sizes. Run the op on real tensors. "
            "[nd-unsupported]"
        )

    def create_unbacked_symint(self, *, min: int = 2, max: int | None = None) -> int:
        """Same as `new_dynamic_size`, torch's old name."""
        return self.new_dynamic_size(min=min, max=max)


def get_ctx() -> FakeImplCtx:
    """Return the context of the fake kernel that is running; for sizes that depend on values.

    >>> import ndgrad
    >>> type(ndgrad.library.get_ctx()).__name__
    'FakeImplCtx'
    """
    return FakeImplCtx()
