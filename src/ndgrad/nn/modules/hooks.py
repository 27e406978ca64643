"""Module hooks: functions called before and after forward and backward, of one module or of all.

Note [Order of module hooks]
A call runs the pre-forward hooks (those of all modules first, then the module's own), forward, the forward hooks (in
the same order). Backward hooks need to know when the gradient enters and leaves the module, and a module has no node
of its own. So its tensor arguments and its results pass through one identity node each. The gradient of the results
first reaches the second node, which runs the pre-backward hooks. The gradient of the arguments leaves through the
first, which runs the backward hooks.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable, requires_grad
from ndgrad._src.custom_functions.function import Function

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad.nn.modules.module import Module

Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]
Gradients = tuple[Any, ...]  # tensors or None
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class HasForward(Protocol[P, R_co]):
    """Protocol for calling a module: a call takes and returns the same as `forward`, for type checkers too."""

    @property
    def forward(self) -> Callable[P, R_co]: ...


class _HooksOfAllModules:
    """Hooks for the calls of all modules."""

    def __init__(self) -> None:
        self.forward_pre: Hooks = OrderedDict()
        self.forward: Hooks = OrderedDict()
        self.forward_with_kwargs: set[int] = set()
        self.forward_always: set[int] = set()
        self.backward_pre: Hooks = OrderedDict()
        self.backward: Hooks = OrderedDict()
        self.backward_is_full: bool | None = None

    def any(self) -> bool:
        return bool(self.forward_pre or self.forward or self.backward_pre or self.backward)


of_all = _HooksOfAllModules()


# ----- registering for all modules ------------------------------------------------------------------------------------


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, args)` before every module's forward; a result other than None replaces the arguments.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_forward_pre_hook
    >>> with register_module_forward_pre_hook(lambda module, args: print(type(module).__name__)):
    ...     _ = ndgrad.nn.ReLU()(ndgrad.ones(1))
    ReLU
    """
    return RemovableHandle(of_all.forward_pre, hook)


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after every module's forward; a result other than None replaces the output.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_forward_hook
    >>> with register_module_forward_hook(lambda module, args, output: output * 10):
    ...     ndgrad.nn.ReLU()(ndgrad.ones(1))
    tensor([10.])
    """
    flags = _flags((of_all.forward_with_kwargs, with_kwargs), (of_all.forward_always, always_call))
    return _register(of_all.forward, hook, False, *flags)


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` when a gradient reaches any module; a result other than None replaces it.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_full_backward_pre_hook
    >>> with register_module_full_backward_pre_hook(lambda module, grad_output: print(grad_output)):
    ...     ndgrad.nn.ReLU()(ndgrad.ones(1, requires_grad=True)).backward()
    (tensor([1.]),)
    """
    return RemovableHandle(of_all.backward_pre, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when the gradients of any module's inputs are known.

    >>> import ndgrad
    >>> from ndgrad.nn.modules.module import register_module_full_backward_hook
    >>> with register_module_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input)):
    ...     ndgrad.nn.ReLU()(ndgrad.ones(1, requires_grad=True)).backward()
    (tensor([1.]),)
    """
    _no_mixture(of_all.backward_is_full if of_all.backward else None, True, "module hook")
    of_all.backward_is_full = True
    return RemovableHandle(of_all.backward, hook)


def register_module_backward_hook(hook: Hook) -> RemovableHandle:
    """Deprecated form of `register_module_full_backward_hook`: its hook sees only the node of the output.

    >>> from ndgrad.nn.modules.module import register_module_backward_hook
    >>> register_module_backward_hook(lambda module, grad_input, grad_output: None).remove()
    """
    _no_mixture(of_all.backward_is_full if of_all.backward else None, False, "module hook")
    of_all.backward_is_full = False
    return RemovableHandle(of_all.backward, hook)


def _no_mixture(before: bool | None, full: bool, what: str) -> None:
    if before is not None and before is not full:
        raise RuntimeError(
            f"Cannot use both regular backward hooks and full backward hooks as a {what}: they see different "
            "gradients. Please use only one of them; register_full_backward_hook is the one to prefer. [nd-hook]"
        )


def _flags(*pairs: tuple[set[int], bool]) -> list[set[int]]:
    return [found for found, wanted in pairs if wanted]


def _register(hooks: Hooks, hook: Hook, prepend: bool, *flags: set[int]) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    number = handle.id
    for flag in flags:
        flag.add(number)

    def on_remove() -> None:
        for flag in flags:
            flag.discard(number)

    handle.on_remove = on_remove
    if prepend:
        hooks.move_to_end(number, last=False)
    return handle


class Hooked:
    """The part of `Module` that registers hooks and runs them."""

    _forward_pre_hooks: Hooks
    _forward_pre_hooks_with_kwargs: set[int]
    _forward_hooks: Hooks
    _forward_hooks_with_kwargs: set[int]
    _forward_hooks_always_called: set[int]
    _backward_pre_hooks: Hooks
    _backward_hooks: Hooks
    _is_full_backward_hook: bool | None

    def _init_hooks(self) -> None:
        for name in ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"):
            self.__dict__.setdefault(name, OrderedDict())
        for name in ("_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"):
            self.__dict__.setdefault(name, set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a result other than None replaces the positional arguments.

        With `with_kwargs` the call is `hook(module, args, kwargs)`, which returns both or None.

        >>> import ndgrad
        >>> layer = ndgrad.nn.ReLU()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (-args[0],))
        >>> layer(ndgrad.tensor([-1.0]))
        tensor([1.])
        """
        flags = _flags((self._forward_pre_hooks_with_kwargs, with_kwargs))
        return _register(self._forward_pre_hooks, hook, prepend, *flags)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a result other than None replaces the output.

        With `with_kwargs` the call is `hook(module, args, kwargs, output)`. With `always_call` the hook also runs if
        forward raises.

        >>> import ndgrad
        >>> layer = ndgrad.nn.ReLU()
        >>> handle = layer.register_forward_hook(lambda module, args, output: output * 10)
        >>> layer(ndgrad.tensor([1.0]))
        tensor([10.])
        """
        flags = _flags((self._forward_hooks_with_kwargs, with_kwargs), (self._forward_hooks_always_called, always_call))
        return _register(self._forward_hooks, hook, prepend, *flags)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the gradient enters the module; a result other than None replaces
        it.
        """
        return _register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the module's inputs are known.

        A result other than None replaces `grad_input` from then on.

        >>> import ndgrad
        >>> layer = ndgrad.nn.ReLU()
        >>> handle = layer.register_full_backward_hook(lambda module, grad_input, grad_output: print(grad_input))
        >>> layer(ndgrad.ones(1, requires_grad=True)).backward()
        (tensor([1.]),)
        """
        _no_mixture(self._is_full_backward_hook, True, "single Module")
        self._is_full_backward_hook = True
        return _register(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """Deprecated form of `register_full_backward_hook`: its hook sees only the node of the output."""
        _no_mixture(self._is_full_backward_hook, False, "single Module")
        self._is_full_backward_hook = False
        return RemovableHandle(self._backward_hooks, hook)

    # ----- calling -----

    #: Compiled form of `_call_impl`, for a module that was compiled in place (`Module.compile`).
    _compiled_call_impl: Any = None

    def _call_impl(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._backward_hooks
            or self._backward_pre_hooks
            or self._forward_hooks
            or self._forward_pre_hooks
            or of_all.any()
        ):
            return self.forward(*args, **kwargs)
        return _call_with_hooks(self, args, kwargs)

    if TYPE_CHECKING:

        def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            compiled = self._compiled_call_impl
            if compiled is not None:
                return compiled(*args, **kwargs)
            # Same lines as in `_call_impl`, to save a call.
            if not (
                self._backward_hooks
                or self._backward_pre_hooks
                or self._forward_hooks
                or self._forward_pre_hooks
                or of_all.any()
            ):
                return self.forward(*args, **kwargs)
            return _call_with_hooks(self, args, kwargs)


def _call_with_hooks(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    called: set[int] = set()
    try:
        return _call(module, args, kwargs, called)
    except Exception:
        _run_always_called(module, args, kwargs, called)
        raise


def _call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> Any:
    args, kwargs = _run_forward_pre_hooks(module, args, kwargs)
    full, partial = _backward_hooks(module)
    pre = [*of_all.backward_pre.values(), *module._backward_pre_hooks.values()]
    crossing = _Crossing(module, full, pre) if full or pre else None
    if crossing is not None:
        args = crossing.enter(args)
    result = module.forward(*args, **kwargs)
    for hooks, with_kwargs in (
        (of_all.forward, of_all.forward_with_kwargs),
        (module._forward_hooks, module._forward_hooks_with_kwargs),
    ):
        for number, hook in list(hooks.items()):
            called.add(number)
            answer = hook(module, args, kwargs, result) if number in with_kwargs else hook(module, args, result)
            if answer is not None:
                result = answer
    if crossing is not None:
        result = crossing.leave(result)
    if partial:
        _hook_last_node(module, result, partial)
    return result


def _run_forward_pre_hooks(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    with_kwargs = module._forward_pre_hooks_with_kwargs
    for number, hook in (*of_all.forward_pre.items(), *module._forward_pre_hooks.items()):
        if number not in with_kwargs:
            answer = hook(module, args)
            if answer is not None:
                args = answer if isinstance(answer, tuple) else (answer,)
            continue
        answer = hook(module, args, kwargs)
        if answer is None:
            continue
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise RuntimeError(
                f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer!r} "
                f"from a hook on {type(module).__name__} that was registered with with_kwargs=True. [nd-hook]"
            )
        args, kwargs = answer
    return args, kwargs


def _run_always_called(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]) -> None:
    """Run the hooks registered with always_call after an error in forward. Their own errors become warnings."""
    for hooks, with_kwargs, always in (
        (of_all.forward, of_all.forward_with_kwargs, of_all.forward_always),
        (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called),
    ):
        for number, hook in list(hooks.items()):
            if number in always and number not in called:
                try:
                    hook(module, args, kwargs, None) if number in with_kwargs else hook(module, args, None)
                except Exception as error:
                    warnings.warn(
                        (
                            "a forward hook registered with always_call=True raised another error after "
                            f"forward had failed: {error!s}"
                        ),
                        stacklevel=3,
                    )


def _backward_hooks(module: Module) -> tuple[list[Hook], list[Hook]]:
    """Return the full backward hooks and the deprecated ones, with those for all modules first."""
    full: list[Hook] = []
    old: list[Hook] = []
    (full if of_all.backward_is_full else old).extend(of_all.backward.values())
    (full if module._is_full_backward_hook else old).extend(module._backward_hooks.values())
    return full, old


def _hook_last_node(module: Module, result: Any, hooks: list[Hook]) -> None:
    """Register the deprecated backward hooks on the node of the (first) output."""
    found = result
    while not isinstance(found, Variable):
        if isinstance(found, dict):
            found = next((v for v in found.values() if isinstance(v, Variable)), None)
        elif isinstance(found, (tuple, list)) and found:
            found = found[0]
        else:
            return
    node = found.grad_fn
    if node is None:
        return
    if isinstance(result, (list, dict)):
        warnings.warn(
            (
                "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors "
                f"({type(module).__name__}) miss some gradients. Use register_full_backward_hook."
            ),
            FutureWarning,
            stacklevel=4,
        )
    elif sum(e is not None for e in node.next) > 1 or isinstance(result, tuple):
        warnings.warn(
            (
                f"non-full backward hooks when the forward of {type(module).__name__} contains several nodes see "
                "the last one alone, so grad_input is missing some gradients. Use register_full_backward_hook."
            ),
            FutureWarning,
            stacklevel=4,
        )
    for hook in hooks:
        node.register_hook(lambda grad_input, grad_output, hook=hook: hook(module, grad_input, grad_output))


# ----- gradients at the edges of a module -----------------------------------------------------------------------------


class _Passage(Function):
    """Identity on several tensors, with one node that sees all their gradients together."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*tensors: Any) -> Any:
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tuple(None if t is None else t.view_as(t) for t in tangents)


_Passage._backward_cls.__name__ = "BackwardHookFunctionBackward"


class _Crossing:
    """A call of a module, as backward will see it (see Note [Order of module hooks])."""

    def __init__(self, module: Module, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: Gradients | None = None
        self.inputs: list[int] | None = None  # positions of tensors among the arguments; None if none requires grad
        self.count_inputs = 0
        self.outputs: list[int] = []
        self.count_outputs = 0

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count_inputs = len(args)
        made, places, node = _pass(args)
        if node is not None:
            self.inputs = places
            node.register_hook(self._leaving)
        return made

    def leave(self, result: Any) -> Any:
        outputs = result if isinstance(result, tuple) else (result,)
        if not isinstance(result, (Variable, tuple)):
            warnings.warn(
                (
                    f"For backward hooks to be called, the output of {type(self.module).__name__} should be a Tensor "
                    f"or a tuple of Tensors, but it is {type(result).__name__}."
                ),
                stacklevel=5,
            )
        self.count_outputs = len(outputs)
        made, self.outputs, node = _pass(outputs)
        if node is None:
            return result
        node.register_prehook(self._entering)
        return made if isinstance(result, tuple) else made[0]

    def _entering(self, grads: Gradients) -> Gradients:
        """Run the hooks when the gradients of the outputs have arrived."""
        whole = _place_gradients(grads, self.outputs, self.count_outputs)
        for hook in self.pre_hooks:
            answer = hook(self.module, whole)
            if answer is not None:
                whole = _checked_answer(answer, len(whole), "Backward pre hook", "grad_output")
        self.grad_outputs = whole
        if self.inputs is None:
            nothing = (None,) * self.count_inputs
            for hook in self.hooks:
                answer = hook(self.module, nothing, whole)
                if answer is not None and not (isinstance(answer, tuple) and all(g is None for g in answer)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None "
                        f"for all gradients: one on {type(self.module).__name__} returned {type(answer).__name__}. "
                        "[nd-hook]"
                    )
            self.grad_outputs = None
        return tuple(whole[i] for i in self.outputs)

    def _leaving(self, grad_inputs: Gradients, _: Gradients) -> Gradients | None:
        """Run the hooks when the gradients of the inputs are known."""
        if self.grad_outputs is None:
            # This gradient bypassed the output, as in a double backward: hooks do not apply to it.
            return None
        assert self.inputs is not None
        whole = _place_gradients(grad_inputs, self.inputs, self.count_inputs)
        for hook in self.hooks:
            answer = hook(self.module, whole, self.grad_outputs)
            if answer is not None:
                whole = _checked_answer(answer, len(whole), "Backward hook", "grad_input")
        self.grad_outputs = None
        return tuple(whole[i] for i in self.inputs)


def _pass(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Node | None]:
    """Pass the tensors among the values through one node. Return the values, the positions of tensors, and the node
    (None if nothing is recorded).
    """
    places = [i for i, v in enumerate(values) if isinstance(v, Variable)]
    if not (thread.grad_enabled and any(requires_grad(values[i]) for i in places)):
        return values, places, None
    through = _Passage.apply(*(values[i] for i in places))
    made = list(values)
    node = None
    for place, t in zip(places, through, strict=True):
        made[place] = t
        node = t.grad_fn if node is None else node
    return type(values)(*made) if hasattr(values, "_fields") else tuple(made), places, node


def _place_gradients(grads: Gradients, places: list[int], count: int) -> Gradients:
    out: list[Any] = [None] * count
    for place, g in zip(places, grads, strict=True):
        out[place] = g
    return tuple(out)


def _checked_answer(answer: Any, count: int, what: str, name: str) -> Gradients:
    made = answer if isinstance(answer, tuple) else (answer,)
    if len(made) != count:
        raise RuntimeError(
            f"{what} returned an invalid number of {name}: got {len(made)}, but expected {count}. "
            "Return one per gradient. [nd-hook]"
        )
    return made
