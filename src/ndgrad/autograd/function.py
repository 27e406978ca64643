"""Custom functions: a forward and a backward of the user's own.

The context that forward and backward share is the backward node itself, so whatever the user puts on it lives and dies with the
graph. Forward runs under no_grad: what it computes is not recorded, only the function as a whole.

Note [Saved intermediates]
A tensor that forward computed, saved, and that is neither input nor output has no history that backward could differentiate. torch
treats it as a constant in a double backward, which is silently wrong if it depends on the inputs. Here reading it while a graph of the
backward is recorded raises; `ctx.save_constants(t)` says that a tensor is a constant indeed.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from ndgrad.autograd.inplace import check_writable, set_history
from ndgrad.autograd.modes import enter, leave, thread
from ndgrad.autograd.node import MultiNode, Node, next_sequence_number
from ndgrad.autograd.saved import FREED, SavedTensor, freed_error, lift, lower_saved, overwritten_error
from ndgrad.autograd.variable import Variable, edge, meta_of, np_dtype, requires_grad, wrap
from ndgrad.autograd.versions import kept_storage, storage_of
from ndgrad.autograd.view import CUSTOM
from ndgrad.ops.shape import alias


class FunctionCtx:
    """What forward can tell the node."""

    _to_save: tuple[Any, ...] = ()
    _constants: tuple[Any, ...] = ()
    _to_save_forward: tuple[Any, ...] = ()
    _dirty: tuple[Any, ...] = ()
    _non_differentiable: tuple[Any, ...] = ()
    materialize_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    clear_saved_tensors_on_access = False

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward; call it once, with inputs, outputs and what else is needed."""
        for t in tensors:
            if t is not None and not isinstance(t, Variable):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}. "
                    "Set anything else as an attribute: ctx.value = value."
                )
        self._to_save = tensors

    def save_constants(self, *tensors: Any) -> None:
        """Say of saved tensors, made in forward, that they do not depend on the inputs (see Note [Saved intermediates])."""
        self._constants = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for `jvp`."""
        for t in tensors:
            if t is not None and not isinstance(t, Variable):
                raise TypeError(f"save_for_forward can only save variables, but argument is of type {type(t).__name__}.")
        self._to_save_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs forward changed in place; they must be returned."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs that received no gradient."""
        self.materialize_grads = value


class FunctionNode(MultiNode, FunctionCtx):
    """The node of a custom function, and the `ctx` that its methods share."""

    function: ClassVar[type[Function]]
    level = 0
    _on_payloads = False  # in the backward of a transform, which sees what was saved as the levels below do
    _in_jvp = False  # where saved_tensors are those that save_for_forward kept

    def name(self) -> str:
        return type(self).__name__

    # ----- saved tensors -----

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._in_jvp:
            return self._to_save_forward
        saved = self.__dict__.get("_saved", ())
        if saved is FREED:
            raise freed_error(self)
        values = tuple(self._unpack(s) for s in saved)
        if self.clear_saved_tensors_on_access:
            self.release()
        return values

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def saved_for_forward(self) -> tuple[Any, ...]:
        return self._to_save_forward

    def _keep(self, inputs: tuple[Any, ...], outputs: list[Any]) -> None:
        """Turn what forward asked to save into saved values: after the outputs have their history."""
        saved: list[_Saved | None] = []
        for t in self._to_save:
            if t is None:
                saved.append(None)
                continue
            number = next((i for i, o in enumerate(outputs) if o is t), None)
            if number is not None and t._node is self:
                storage = storage_of(t)
                saved.append(_Saved("output", None, t._array, storage, storage.version, number, t.__class__))
                continue
            kind = "input" if any(t is i for i in inputs) else "intermediate"
            if kind == "intermediate" and (any(t is c for c in self._constants) or np_dtype(t).kind not in "fc"):
                kind = "constant"
            value = t
            if thread.saved_hooks:
                from ndgrad.autograd.saved_hooks import pack

                value = pack(t, thread.saved_hooks)
            storage = kept_storage(t) if t.keeps_saved else storage_of(t)
            saved.append(_Saved(kind, value, None, storage, storage.version, 0, t.__class__))
        self.__dict__["_saved"] = tuple(saved)
        del self._to_save

    def _unpack(self, saved: Any) -> Any:
        if saved is None:
            return None
        if isinstance(saved.tensor, SavedTensor):
            return saved.tensor.unpack()
        if saved.storage.version is not saved.version:
            tensor_array = saved.array if saved.tensor is None else saved.tensor._array
            if saved.storage.keeps:
                old = saved.storage.restore(tensor_array, saved.version)
                return wrap(saved.cls, old)
            now = saved.storage.version
            raise overwritten_error(self, saved.kind, saved.version.number, now.number, tensor_array.shape, now.writer)
        if saved.kind == "intermediate" and thread.grad_enabled and any(self.needs_input_grad):
            raise RuntimeError(
                f"{self.name()}: backward read a saved tensor (shape {tuple(saved.tensor.shape)}) that forward computed and "
                "that is neither input nor "
                "output, while a graph of the backward is recorded. It has no history, so the second derivative would be wrong. "
                "Compute it in "
                "backward from saved inputs, return it as an output, or, if it does not depend on the inputs, name it in "
                "ctx.save_constants()."
            )
        if self._on_payloads:
            return lift(saved.array) if saved.kind == "output" else lower_saved(self, saved.tensor, saved.tensor._array)
        if saved.kind == "output":
            out = wrap(saved.cls, saved.array)
            out._node, out._storage = self, saved.storage
            meta_of(out).output_nr = saved.number
            return out
        return saved.tensor

    def release(self) -> None:
        if self.__dict__.get("_saved"):
            self.__dict__["_saved"] = FREED

    # ----- backward -----

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        from ndgrad.tensor import Tensor

        given = [grads] if self.outputs == 1 else grads
        was = thread.grad_enabled
        thread.grad_enabled = False
        enter()
        try:
            out = self._run(*(None if g is None else wrap(Tensor, g) for g in given))
        finally:
            leave()
            thread.grad_enabled = was
        if not keep:
            self.release()
        return tuple(None if t is None else t._array for t in out)

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return self._run(*([grads] if self.outputs == 1 else grads))

    def apply_payloads(self, grads: Any) -> tuple[Any, ...]:
        self._on_payloads = True
        try:
            return self.apply_tensors(grads)
        finally:
            self._on_payloads = False

    def _run(self, *grads: Any) -> tuple[Any, ...]:
        """The user's backward, and its answer checked: one gradient per tensor input."""
        function = self.function
        backward = function.backward if function.backward is not Function.backward else function.vjp
        out = backward(self, *grads)
        answer = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        count = len(self.needs_input_grad)
        if len(answer) < count or any(g is not None for g in answer[count:]):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {count}, got {len(answer)}): "
                "backward returns one gradient, or None, per argument of forward."
            )
        kept = []
        for position, (g, is_tensor) in enumerate(zip(answer, self._is_tensor, strict=False)):
            if g is not None and not isinstance(g, Variable):
                raise RuntimeError(
                    f"function {self.name()}: the gradient for argument {position} is {type(g).__name__}. Return a tensor or None."
                )
            if is_tensor:
                kept.append(g if self.needs_input_grad[position] else None)
            elif g is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {position + 1}, "
                    "but the corresponding forward input was not a Variable."
                )
        return tuple(kept)

    _is_tensor: tuple[bool, ...] = ()


class _Saved:
    __slots__ = ("array", "cls", "kind", "number", "storage", "tensor", "version")

    def __init__(self, kind: str, tensor: Any, array: Any, storage: Any, version: Any, number: int, cls: type[Any]) -> None:
        self.kind, self.tensor, self.array = kind, tensor, array
        self.storage, self.version, self.number, self.cls = storage, version, number, cls


class _FunctionMeta(type):
    """Gives every Function its node class, named after it."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(name + "Backward", (FunctionNode,), {"function": cls, "__module__": cls.__module__})


class Function(FunctionCtx, metaclass=_FunctionMeta):
    """A function with a derivative of its own.

    >>> import ndgrad
    >>> class Square(ndgrad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = ndgrad.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    _backward_cls: ClassVar[type[FunctionNode]]
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so call "
            f"{type(self).__name__}.apply(...).",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static "
            f"forward method: {type(self).__name__}.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        return Function.backward(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the function as one node."""
        if thread.levels or thread.dual_levels:
            from ndgrad.func.custom import apply_in_transforms

            return apply_in_transforms(cls, args, kwargs)
        return run_function(cls, args, kwargs)


def separate_setup(cls: type[Function]) -> bool:
    return cls.setup_context is not Function.setup_context


def run_function(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`cls.apply` outside transforms."""
    node = cls._backward_cls()
    tensors = [a for a in args if isinstance(a, Variable)]
    recording = thread.grad_enabled and any(requires_grad(t) for t in tensors)
    node._is_tensor = tuple(isinstance(a, Variable) for a in args)
    node.needs_input_grad = tuple(recording and isinstance(a, Variable) and requires_grad(a) for a in args)
    node.seq = next_sequence_number()
    node.extra = False
    node.next = tuple(edge(t) for t in tensors) if recording else ()
    was, inside = thread.grad_enabled, thread.in_custom_forward
    thread.grad_enabled, thread.in_custom_forward = False, True
    enter()
    try:
        if separate_setup(cls):
            output = cls.forward(*args, **kwargs)
            cls.setup_context(node, args, output)
        else:
            output = cls.forward(node, *args, **kwargs)
    finally:
        leave()
        thread.grad_enabled, thread.in_custom_forward = was, inside
    return attach(cls, node, args, output, recording)


def attach(cls: type[Function], node: FunctionNode, args: tuple[Any, ...], output: Any, recording: bool) -> Any:
    """Give the outputs of forward their history, and keep what was saved."""
    several = isinstance(output, (tuple, list))
    outputs = list(output) if several else [output]
    inputs = tuple(a for a in args if isinstance(a, Variable))
    for d in node._dirty:
        if not any(d is i for i in inputs):
            raise RuntimeError(f"{node.name()}: a tensor marked dirty is not an input. Mark only inputs that forward changed in place.")
        if not any(d is o for o in outputs):
            raise RuntimeError(
                f"Some elements marked as dirty during the forward method of {cls.__name__} were not returned as output. The "
                "inputs that are "
                "modified inplace must all be outputs of the Function."
            )
    made = [_attach_one(node, number, o, inputs, recording) for number, o in enumerate(outputs)]
    tensors = [o for o in made if isinstance(o, Variable)]
    if not tensors:
        return output  # nothing to differentiate
    node.outputs = len(made)
    node.metadata_of_outputs = [(tuple(o.shape), np_dtype(o)) if isinstance(o, Variable) else None for o in made]
    node.shape, node.dtype = tuple(tensors[0].shape), np_dtype(tensors[0])
    if recording:
        _replace_saved(node, outputs, made)
        node._keep(inputs, made)
    for name in ("_dirty", "_non_differentiable", "_constants"):
        node.__dict__.pop(name, None)
    return tuple(made) if several else made[0]


def _replace_saved(node: FunctionNode, before: list[Any], after: list[Any]) -> None:
    """A saved output that was replaced by a view of itself is saved as the replacement."""
    swap = {id(b): a for b, a in zip(before, after, strict=True) if a is not b}
    node._to_save = tuple(swap.get(id(t), t) for t in node._to_save)


def _attach_one(node: FunctionNode, number: int, o: Any, inputs: tuple[Any, ...], recording: bool) -> Any:
    if not isinstance(o, Variable):
        return o
    is_input = any(o is i for i in inputs)
    is_dirty = any(o is d for d in node._dirty)
    discrete = np_dtype(o).kind not in "fc" or any(o is n for n in node._non_differentiable)
    if is_dirty:
        if recording:
            check_writable(o, node.name(), True)
        storage_of(o).bump(node.name())
        if recording and not discrete:
            _rewrite_history(node, number, o, inputs[0] is o)
        return o
    if is_input:
        was = thread.grad_enabled
        thread.grad_enabled = False
        try:
            o = alias(o)  # an input that is returned as it is becomes a view of itself
        finally:
            thread.grad_enabled = was
        o._meta.view.creation = CUSTOM
    if not recording or discrete:
        return o
    if o._meta is not None and o._meta.view is not None:
        o._meta.view.creation = CUSTOM
        o._meta.view.version = o._storage.version
    o._node = node
    meta_of(o).output_nr = number
    meta_of(o).requires_grad = False
    return o


def _rewrite_history(node: FunctionNode, number: int, o: Any, is_first: bool) -> None:
    info = None if o._meta is None else o._meta.view
    if info is None:
        o._node = node
        meta_of(o).output_nr = number
        return
    node.outputs = 1
    node.shape, node.dtype = tuple(o.shape), np_dtype(o)
    if not is_first:
        raise RuntimeError(
            f"{node.name()}: a view that a custom Function changes in place must be its first tensor argument. Pass it first, "
            "or clone() it."
        )
    set_history(o, node)


class InplaceFunction(Function):
    """A Function with an `inplace` flag, kept for old code."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward that cannot be differentiated: a double backward through it raises instead of being wrong."""

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recording = thread.grad_enabled
        was = thread.grad_enabled
        thread.grad_enabled = False
        try:
            outputs = function(ctx, *args)
        finally:
            thread.grad_enabled = was
        if not recording or not any(isinstance(a, Variable) and requires_grad(a) for a in args):
            return outputs
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        node = DelayedError()
        node.message = (
            "trying to differentiate twice a function that was marked with @once_differentiable. Write its backward with "
            "differentiable ops "
            "and drop the decorator."
        )
        node.seq = next_sequence_number()
        node.extra = False
        node.next = ()
        out = []
        for o in given:
            if isinstance(o, Variable):
                o = o.detach()
                o._node = node
                node.shape, node.dtype = tuple(o.shape), np_dtype(o)
            out.append(o)
        return tuple(out) if isinstance(outputs, tuple) else out[0]

    return wrapper


class DelayedError(Node):
    """A node that raises when backward reaches it."""

    __slots__ = ("message",)
    message: str

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        raise RuntimeError(self.message)

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        raise RuntimeError(self.message)


BackwardCFunction = FunctionNode
__all__ = ["BackwardCFunction", "DelayedError", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
