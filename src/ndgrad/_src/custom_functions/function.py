"""Custom functions: a forward and a backward written by the user.

The context that forward and backward share is kept on the backward node, so everything stored on it lives and dies
with the graph. Forward runs under no_grad: only the function as a whole is recorded.

Note [Saved intermediates]
A tensor that forward computed and saved, and that is neither input nor output, has no history that backward could
differentiate. torch treats it as a constant in a double backward, which is silently wrong if it depends on the
inputs. Here, reading it while a graph of the backward is recorded raises; `ctx.save_constants(t)` declares that a
tensor really is a constant.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.call_watchers import FUNCTION, call_watched
from ndgrad._src.core.inplace import check_writable, set_history
from ndgrad._src.core.modes import process, restore, scope, thread
from ndgrad._src.core.node import MultiNode, Node, can_sum_to, edge_node, edge_number, make_node
from ndgrad._src.core.saved import (
    hooks_for,
    input_array,
    lift,
    link_history,
    lower_saved,
    lower_unpacked,
    run_unpack,
    verify,
)
from ndgrad._src.core.saved_errors import freed_error
from ndgrad._src.core.saved_hooks import pack
from ndgrad._src.core.sparse_gradients import wrap_gradient
from ndgrad._src.core.stored_tensors import FREED, Packed, keep_in_level, original, without_base
from ndgrad._src.core.subclass import note_wrappers
from ndgrad._src.core.variable import Variable, edge, meta_of, np_dtype, requires_grad, twin, wrap
from ndgrad._src.core.versions import kept_storage, storage_of
from ndgrad._src.core.view import CUSTOM, DEFAULT, NO_GRAD
from ndgrad._src.custom_functions.function_arguments import place_keywords
from ndgrad._src.custom_functions.function_context import Context, FunctionCtx
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.shape import alias
from ndgrad._src.ops.vocabulary import RawOps

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Tensor

F = TypeVar("F", bound=Callable[..., Any])


class FunctionNode(MultiNode, FunctionCtx):
    """The node of a custom function; its methods receive it as `ctx` (see Context)."""

    function: ClassVar[type[Function]]
    runs_undefined = True
    level = 0
    _on_payloads = False  # True in the backward of a transform, in which saved values are payloads of the levels below.
    _at_hand: tuple[Any, ...] | None = None  # saved_tensors in jvp, and in contexts that are made again
    _numpy_tensor_type: type[Any] | None = None  # class of the outputs and of their gradients

    def name(self) -> str:
        return type(self).__name__

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that forward set on `ctx`, so that `grad_fn` shows it unless the node has its own of
        that name."""
        notes = self.__dict__.get("_notes", ())
        if name in notes:
            return notes[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    # ----- saved tensors -----

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        if self._at_hand is not None:
            return self._at_hand
        saved = self.__dict__.get("_saved", ())
        if saved is FREED:
            if self.__dict__.get("_accessed"):
                raise RuntimeError(
                    f"{self.name()}: saved_tensors can only be accessed once, since the Function has "
                    "clear_saved_tensors_on_access=True. Read them once into variables, or leave that switch off. "
                    "[nd-function]"
                )
            raise freed_error(self)
        values = tuple(self._unpack(s) for s in saved)
        if process.open:
            values = self._restore_tangents(saved, values)
        if self.function is not None and self.function.clear_saved_tensors_on_access and thread.task is not None:
            self.__dict__["_accessed"] = True
            self.release()
        return values

    def maybe_clear_saved_tensors(self) -> None:
        """In backward: drop the saved values, unless the graph is kept. Values that backward has read stay alive in
        its variables."""
        if thread.task is not None and not thread.task.keep:
            self.release()

    @property
    def requires_grad(self) -> bool:
        """True if backward will pass through this node."""
        return any(self.needs_input_grad)

    @property
    def _forward_cls(self) -> type[Function]:
        return self.function

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        from ndgrad._src.core.saved_access import function_slots  # rarely needed

        saved = self.__dict__.get("_saved", ())
        if saved is FREED:
            raise freed_error(self)
        return function_slots(self, len(saved))

    def _restore_tangents(self, saved: tuple[_Saved | None, ...], values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return saved values with the tangents that they had in forward, for a backward inside a dual level."""
        # Loaded with the first dual level.
        from ndgrad._src.interpreters.forward_ad import has_saved_tangents, restore_tangents

        if has_saved_tangents(self) and any(s is not None and s.kind == "intermediate" for s in saved):
            raise RuntimeError(
                f"{self.name()}: backward, inside a dual level, read a saved tensor that forward computed and "
                "that is neither input nor output. It has no tangent, so forward over reverse would be wrong. "
                "Compute it in backward from saved inputs, return it as an output, or, if it does not depend on "
                "the inputs, name it in ctx.save_constants(). [nd-function]"
            )
        return tuple(restore_tangents(self, position, v) for position, v in enumerate(values))

    @property
    def saved_variables(self) -> tuple[Tensor, ...]:
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def saved_for_forward(self) -> tuple[Tensor | None, ...]:
        return self._to_save_forward

    def _keep(self, inputs: tuple[Any, ...], outputs: list[Any]) -> None:
        """Turn the tensors that forward asked to save into saved values, after the outputs have their history."""
        saved: list[_Saved | None] = []
        hooks = hooks_for(self.level)
        value: Any
        # Removed first: if a pack hook raises, as at the end of a recomputation, the node must not hold its outputs.
        for t in self.__dict__.pop("_to_save", ()):
            if t is None:
                saved.append(None)
                continue
            number, watched = next((i for i, o in enumerate(outputs) if o is t), None), None
            storage = kept_storage(t) if t.keeps_saved or thread.copy_on_write else storage_of(t)
            if number is not None and t._node is self:
                # The node must not hold the tensor that holds it.
                value = twin(t)
                value._storage = storage
                kept = _Saved("output", value, storage, None, number)
            else:
                value = keep_in_level(t, self.level) if self.level else without_base(t)
                if value.__class__ is Packed:
                    watched, value = value, value.packed
                if any(t is i for i in inputs):
                    kept = _Saved("input", value, storage, edge(t), 0)
                else:
                    constant = any(t is c for c in self._constants) or not is_inexact(np_dtype(t))
                    kept = _Saved("constant" if constant else "intermediate", value, storage, None, 0)
            if hooks:
                output = self if kept.kind == "output" else None
                kept.tensor = pack(kept.tensor, hooks, (self, kept.kind), output, kept.number)
            elif thread.guard:
                kept.tensor = registry.checksum.guard_value(kept.tensor)
            elif watched is not None:
                kept.tensor = watched
            saved.append(kept)
        self.__dict__["_saved"] = tuple(saved)

    def _unpack(self, saved: _Saved | None) -> Any:
        if saved is None:
            return None
        if saved.kind == "intermediate" and thread.grad_enabled and any(self.needs_input_grad):
            raise RuntimeError(
                f"{self.name()}: backward read a saved tensor (shape {saved.shape}) that forward computed "
                "and that is neither input nor output, while a graph of the backward is recorded. "
                "It has no history, so the second derivative would be wrong. Compute it in backward from saved inputs, "
                "return it as an output, or, if it does not depend on the inputs, name it in ctx.save_constants(). "
                "[nd-function]"
            )
        value: Any = saved.tensor
        guard: Packed | None = None
        if isinstance(value, Packed) and value.checksum is not None:
            value, guard = value.packed, value
        if isinstance(value, Packed):
            value = run_unpack(self, saved.kind, value)
            if self._on_payloads:
                return lower_unpacked(self, saved.tensor, value)
        else:
            array = input_array(self, saved.kind, value, saved.version)
            if guard is not None:
                verify(self, saved.kind, guard, array)
            if self._on_payloads:
                tensor_type = value.tensor_type  # User code sees the class of the saved tensor.
                return (
                    lift(array, tensor_type) if saved.kind == "output" else lower_saved(self, value, array, tensor_type)
                )
            value = original(value) if array is value._array else wrap(saved.cls, array)
        if saved.kind == "output":
            out = twin(value)
            out._node, out._storage = self, value._storage
            meta_of(out).output_nr = saved.number
            return out
        return link_history(value, saved.edge)

    def release(self) -> None:
        if self.__dict__.get("_saved"):
            self.__dict__["_saved"] = FREED

    # ----- backward -----

    def apply(self, grads: Payload, ops: Any = None, *rest: Any) -> Any:
        """Run the backward: the engine passes (grads, ops, keep), and `grad_fn.apply(*grads)` is torch's way to run
        it by hand.

        Args:
            grads: gradient of the output, or a list for several outputs. By hand, the first gradient.
            ops: vocabulary of the rules for raw arrays. By hand, the second gradient.
            *rest: whether saved values are kept. By hand, further gradients.
        """
        if not isinstance(ops, RawOps):
            by_hand = (grads,) if self.outputs == 1 else (grads, ops, *rest)
            if self.function.boxed_grads_call:
                return self._user_backward()(Context(self), list(by_hand))
            return self._user_backward()(Context(self), *by_hand)
        keep = rest[0] if rest else True
        given = [grads] if self.outputs == 1 else grads
        outside = scope()
        try:
            restore(outside.recording(False))
            out = self._run(
                [None if g is None else wrap_gradient(self._numpy_tensor_type or registry.Tensor, g) for g in given]
            )
        finally:
            restore(outside)
            del outside
        if not keep:
            self.release()
        return tuple(None if t is None else t._array for t in out)

    def apply_tensors(self, grads: Payload) -> tuple[Any, ...]:
        """Run the backward on tensors, so that it is itself recorded.

        Args:
            grads: gradient of the output, or a list for several outputs.
        """
        return self._run([grads] if self.outputs == 1 else list(grads))

    def apply_payloads(self, grads: Payload) -> tuple[Any, ...]:
        """Run the backward for a graph of a transform, on the tensors of the levels below.

        Args:
            grads: gradient of the output, or a list for several outputs.
        """
        self._on_payloads = True
        try:
            return self.apply_tensors(grads)
        finally:
            self._on_payloads = False

    def _run(self, grads: list[Any]) -> tuple[Any, ...]:
        """Run the user's backward and check its result: one gradient per tensor input.

        A backward that takes its gradients boxed gets this very list, and may empty it to free them.
        """
        backward = self._user_backward()
        out = backward(Context(self), grads) if self.function.boxed_grads_call else backward(Context(self), *grads)
        answer = out if isinstance(out, tuple) else (out,)
        count = len(self.needs_input_grad)
        if len(answer) < count or any(g is not None for g in answer[count:]):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {count}, "
                f"got {len(answer)}): backward returns one gradient, or None, per argument of forward. [nd-function]"
            )
        kept: list[Any] = []
        for position, (g, is_tensor) in enumerate(zip(answer, self._is_tensor, strict=False)):
            if g is not None and not isinstance(g, Variable):
                raise RuntimeError(
                    f"expected Variable or None (got {type(g).__name__}) from function {self.name()}, for argument "
                    f"{position}. Return a tensor or None. [nd-function]"
                )
            if is_tensor:
                e = self.next[len(kept)] if self.needs_input_grad[position] else None
                if g is not None and e is not None:
                    self._check_gradient(position, g, e)
                kept.append(None if e is None else g)
            elif g is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {position + 1}, "
                    "but the corresponding forward input was not a Variable. [nd-function]"
                )
        return tuple(kept)

    def _user_backward(self) -> Callable[..., Any]:
        function = self.function
        if function.backward is not Function.backward and function.vjp is not Function.vjp:
            raise RuntimeError(
                f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: {function.__name__} has "
                "both, which are two names for one thing. Implement one of them. [nd-function]"
            )
        return function.vjp if function.backward is Function.backward else function.backward

    def _check_gradient(self, position: int, g: Payload, e: Any) -> None:
        """Raise if a gradient does not fit its input, or is complex for a real input: a mistake of the user's backward.
        For rules, the engine takes the real part."""
        shape, dtype = edge_node(e).output_metadata(edge_number(e))
        if tuple(g.shape) != shape and not can_sum_to(tuple(g.shape), shape):
            raise RuntimeError(
                f"Function {self.name()} returned an invalid gradient at index {position} - got {list(g.shape)} but "
                f"expected shape compatible with {list(shape)}. Return a gradient of the argument's shape. "
                "[nd-function]"
            )
        if dtype is not None and np_dtype(g).kind == "c" and dtype.kind != "c":
            raise RuntimeError(
                f"function {self.name()} returned a complex gradient ({np_dtype(g)}) for argument {position}, "
                f"which is real ({dtype}). Return its real part: g.real. [nd-function]"
            )

    _is_tensor: tuple[bool, ...] = ()


class _Saved:
    """One tensor that forward saved: its kind, its version, and the edge for its gradient."""

    __slots__ = ("cls", "edge", "kind", "number", "shape", "storage", "tensor", "version")

    def __init__(self, kind: str, tensor: Any, storage: Any, own_edge: Any, number: int) -> None:
        self.kind, self.tensor, self.storage, self.version = kind, tensor, storage, storage.version
        self.cls, self.shape, self.edge, self.number = tensor.__class__, tuple(tensor.shape), own_edge, number


@set_module("ndgrad.autograd.function")
class FunctionMeta(type):
    """Creates the node class of every Function, named after it.

    Args:
        name: name of the class.
        bases: base classes.
        namespace: attributes of the class.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        cls._backward_cls = type(name + "Backward", (FunctionNode,), {"function": cls, "__module__": cls.__module__})


@set_module("ndgrad.autograd")
class Function(FunctionCtx, metaclass=FunctionMeta):
    """A function with a user-defined derivative.

    Args:
        *args, **kwargs: accepted with a warning. Functions are used through `apply`, not through instances.

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

    if TYPE_CHECKING:  # `typing.get_type_hints` of a user's class could not resolve it
        _backward_cls: ClassVar[type[FunctionNode]]
    generate_vmap_rule = False
    #: Drop saved tensors as soon as backward has read them, even if the graph is kept: they can be read once.
    clear_saved_tensors_on_access = False
    #: Pass the gradients to backward as one list, from which it may drop those that it no longer needs.
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so call "
            f"{type(self).__name__}.apply(...).",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            f"Please use new-style autograd function with static forward method: {type(self).__name__}.apply(...). "
            "[nd-function]"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result, by `forward(ctx, *args)` or, with a `setup_context`, by `forward(*args)`. To be
        overridden.

        Args:
            *args: `ctx` and the arguments, or the arguments alone if `setup_context` is defined.
            **kwargs: keyword arguments.
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function. [nd-function]")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save the values that backward needs, if forward takes no ctx. To be overridden.

        Args:
            ctx: context, in which values for backward are saved.
            inputs: arguments of forward.
            output: result of forward.
        """
        raise NotImplementedError("setup_context is not implemented. [nd-function]")

    # **options tells type checkers that an override may have parameters of its own. The context is Any, so that an
    # override may annotate it.
    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **options: Any) -> Any:
        """Return one gradient (or None) per argument of forward, given those of the outputs. To be overridden.

        Args:
            ctx: context with the saved values.
            *grad_outputs: gradient of each output of forward.
            **options: none. An override may have parameters of its own.
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use "
            "it with backward mode AD. [nd-function]"
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any, **options: Any) -> Any:
        """Another name for `backward`; override one of them.

        Args:
            ctx: context with the saved values.
            *grad_outputs: gradient of each output of forward.
            **options: none. An override may have parameters of its own.
        """
        return Function.backward(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **options: Any) -> Any:
        """Return the tangents of the outputs, given those of the arguments (or None), for forward mode. To be
        overridden.

        Args:
            ctx: context with the saved values.
            *grad_inputs: tangent of each argument of forward, or None.
            **options: none. An override may have parameters of its own.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD. "
            "[nd-function]"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward and record the function as one node.

        Args:
            *args: arguments of forward, without `ctx`.
            **kwargs: keyword arguments of forward.

        Returns:
            The result of forward, with this function in its graph.
        """
        if thread.captures is not None:
            args = thread.captures.see(args)
        if kwargs or has_setup_context(cls):
            args, kwargs = place_keywords(cls.__name__, cls.forward, has_setup_context(cls), args, kwargs)
        run = run_function
        if thread.levels or process.open:
            run = registry.custom_functions.apply_in_transforms
        if thread.watchers:
            return call_watched(FUNCTION, cls.__name__, cls, args, lambda: run(cls, args, kwargs))
        return run(cls, args, kwargs)


def has_setup_context(cls: type[Function]) -> bool:
    return cls.setup_context is not Function.setup_context


def _is_setup_context_defined(function: Any) -> bool:
    return function is not Function.setup_context


def run_function(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `cls.apply` outside transforms."""
    tensors = [a for a in args if isinstance(a, Variable)]
    if thread.grad_enabled:
        for t in tensors:
            if t.graph_twin is not None and t.requires_grad:  # its graph is elsewhere, and this node would be lost
                raise NotImplementedError(
                    f"{cls.__name__}.apply: an argument is a {type(t).__name__} that requires grad. Apply the function "
                    "to local tensors: distributed.tensor.experimental.local_map(f, out_placements=...), or to_local() "
                    "and DTensor.from_local. [nd-dtensor]"
                )
    recording = thread.grad_enabled and any(requires_grad(t) for t in tensors)
    node = make_node(cls._backward_cls, tuple(edge(t) for t in tensors) if recording else ())
    node._is_tensor = tuple(isinstance(a, Variable) for a in args)
    node.needs_input_grad = tuple(recording and isinstance(a, Variable) and requires_grad(a) for a in args)
    outside = scope()
    try:
        restore(outside.with_changes(grad_enabled=False, in_custom_forward=True))
        if has_setup_context(cls):
            output = cls.forward(*args, **kwargs)
            cls.setup_context(Context(node), args, output)
        else:
            output = cls.forward(Context(node), *args, **kwargs)
    finally:
        restore(outside)
        del outside
    return attach(cls, node, args, output, recording)


def attach(cls: type[Function], node: FunctionNode, args: tuple[Any, ...], output: Any, recording: bool) -> Any:
    """Give the outputs of forward their history, and store the saved values."""
    several = isinstance(output, (tuple, list))
    outputs = list(output) if several else [output]
    inputs = tuple(a for a in args if isinstance(a, Variable))
    for d in node._dirty:
        _check_dirty(d, cls, node, inputs, outputs, recording)
    made = [_attach_one(node, number, o, inputs, recording) for number, o in enumerate(outputs)]
    tensors = [o for o in made if isinstance(o, Variable)]
    if not tensors:
        return output  # nothing to differentiate
    node.outputs = len(made)
    node.metadata_of_outputs = [
        (tuple(o.shape), np_dtype(o))
        if isinstance(o, Variable) and (node._materialize_non_diff_grads or o._node is node)
        else None
        for o in made
    ]
    node.shape, node.dtype = tuple(tensors[0].shape), np_dtype(tensors[0])
    node._numpy_tensor_type = tensors[0].tensor_type
    if recording:
        _replace_saved(node, outputs, made)
        node._keep(inputs, made)
        if process.dispatching:
            note_wrappers(node, (*inputs, *made))
        if thread.remembers:
            registry.source_lines.remember_call(node, made)
    if thread.debug:
        registry.provenance.note_function(node, args, made)
    for name in ("_dirty", "_non_differentiable", "_constants"):
        node.__dict__.pop(name, None)
    if isinstance(output, list):
        return made
    return tuple(made) if several else made[0]


def _check_dirty(
    d: Variable, cls: type[Function], node: FunctionNode, inputs: tuple[Any, ...], outputs: list[Any], recording: bool
) -> None:
    """Raise, or warn, if forward cannot have changed a tensor in place that it marked as dirty."""
    is_view = d._meta is not None and d._meta.view is not None
    if not any(d is i for i in inputs):
        if is_view:
            raise RuntimeError(
                f"ctx.mark_dirty() received a tensor that was not an input. It is a view (in {node.name()}), whose "
                "base would not learn of the write. Mark only inputs that forward changed in place. [nd-function]"
            )
        warnings.warn(
            f"ctx.mark_dirty() received a tensor that was not an input (in {node.name()}). Mark only inputs that "
            "forward changed in place.",
            UserWarning,
            stacklevel=3,
        )
    elif not any(d is o for o in outputs):
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. The inputs that are "
            f"modified inplace must all be outputs of the Function ({cls.__name__}). [nd-function]"
        )
    elif recording and is_view and len(outputs) > 1:
        # The write belongs to the base's history, where the node stands for one output only.
        raise RuntimeError(
            "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
            f"return more than one Tensor: {cls.__name__} changes a view of shape {tuple(d.shape)} and returns "
            f"{len(outputs)} outputs. Pass a clone() of the view. [nd-view-write]"
        )


def _replace_saved(node: FunctionNode, before: list[Any], after: list[Any]) -> None:
    """Save the replacement of a saved output that was replaced by a view of itself."""
    swap = {id(b): a for b, a in zip(before, after, strict=True) if a is not b}
    node._to_save = tuple(swap.get(id(t), t) for t in node._to_save)


def _attach_one(node: FunctionNode, number: int, o: Any, inputs: tuple[Any, ...], recording: bool) -> Any:
    if not isinstance(o, Variable):
        return o
    is_input = any(o is i for i in inputs)
    is_dirty = is_input and any(o is d for d in node._dirty)
    discrete = not is_inexact(np_dtype(o)) or any(o is n for n in node._non_differentiable)
    if is_dirty:
        if recording:
            check_writable(o, node.name(), True)
        storage_of(o).bump(node.name())
        if recording and not discrete:
            _rewrite_history(node, number, o, inputs[0] is o)
        return o
    if is_input:
        outside = scope()
        try:
            restore(outside.recording(False))
            o = alias(o)  # An input that is returned unchanged becomes a view of itself.
        finally:
            restore(outside)
            del outside
        if o._meta is not None:  # A sparse tensor has no views.
            o._meta.view.creation = CUSTOM
    if not recording or discrete:
        view = None if o._meta is None else o._meta.view
        if view is not None and view.creation == NO_GRAD and thread.grad_enabled:
            view.creation = CUSTOM  # the reason is this function, not a block of the user's
        return o
    if o._meta is not None and o._meta.view is not None:
        o._meta.view.creation = DEFAULT if node._is_pure_view else CUSTOM
        o._meta.view.version = o._storage.version.number
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
            f"{node.name()}: a view that a custom Function changes in place must be its first tensor argument. "
            "Pass it first, or clone() it. [nd-view-write]"
        )
    set_history(o, node)


@set_module("ndgrad.autograd.function")
class InplaceFunction(Function):
    """A Function with an `inplace` flag, for old programs.

    Args:
        inplace: value of the attribute `inplace`, which the function reads itself.

    >>> import ndgrad
    >>> issubclass(ndgrad.autograd.function.InplaceFunction, ndgrad.autograd.Function)
    True
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


@set_module("ndgrad.autograd.function")
def once_differentiable(function: F) -> F:
    """Decorate a backward that cannot be differentiated: a double backward through it raises instead of being wrong.

    Args:
        function: backward of a Function.

    >>> import ndgrad
    >>> class Exp(ndgrad.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.result = x.exp()
    ...         return ctx.result
    ...     @staticmethod
    ...     @ndgrad.autograd.function.once_differentiable
    ...     def backward(ctx, g):
    ...         return g * ctx.result
    >>> x = ndgrad.zeros(1, requires_grad=True)
    >>> Exp.apply(x).backward()
    >>> x.grad
    tensor([1.])
    """

    @functools.wraps(function)
    def wrapper(ctx: FunctionNode, *args: Any) -> Any:
        outside = scope()
        recording = outside.modes.grad_enabled
        try:
            restore(outside.recording(False))
            outputs = function(ctx, *args)
        finally:
            restore(outside)
            del outside
        if not recording:
            return outputs
        message = (
            "trying to differentiate twice a function that was marked with @once_differentiable. "
            "Write its backward with differentiable ops and drop the decorator."
        )
        found = delay_error(outputs if isinstance(outputs, tuple) else (outputs,), message, ctx)
        return found if isinstance(outputs, tuple) else found[0]

    return wrapper  # type: ignore[return-value]  # the same signature


def delay_error(values: tuple[Any, ...], message: str, ctx: Any) -> tuple[Any, ...]:
    """Give the tensors among `values` a history that raises when backward passes through it to the inputs of the
    function of `ctx`."""
    out = []
    for value in values:
        if isinstance(value, Variable):
            edges = tuple(e for e in getattr(getattr(ctx, "_node", ctx), "next", ()) if e is not None)
            node = make_node(DelayedError, edges, tuple(value.shape), np_dtype(value))
            node.message = message
            value = value.detach()
            value._node = node
        out.append(value)
    return tuple(out)


@set_module("ndgrad.autograd.function")
class DelayedError(Node):
    """A node that raises when backward reaches it."""

    __slots__ = ("message",)
    message: str

    def apply(self, grads: Payload, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        """Raise the error of the node.

        Args:
            grads, ops, keep: accepted as for every node, and not used.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(self.message)

    def apply_tensors(self, grads: Payload) -> tuple[Any, ...]:
        """Raise the error of the node.

        Args:
            grads: accepted as for every node, and not used.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(self.message)


BackwardCFunction = FunctionNode
_SingleLevelFunction = Function


__all__ = [
    "BackwardCFunction", "Context", "DelayedError", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction",
    "once_differentiable",
]  # fmt: skip
