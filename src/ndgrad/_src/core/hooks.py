"""Hooks on tensors and nodes, in torch's order.

Note [Order of hooks]
After a node has received its gradient, the order is: the hooks of the tensors it produced, tensor by tensor in the
order of their first hook, and for each tensor in order of registration; the retain_grad hooks of these tensors;
captures for grad(inputs=...); the node's pre-hooks; the node itself; for a leaf, its post-accumulate hooks, after
`.grad` is set; the node's post-hooks. The table of all rules is docs/hooks.md.

A tensor's hooks are stored on the node that made it, under the tensor's output number, so they follow the value and not
the Python object: a hook registered before an in-place write sees the gradient of the value before it. A leaf's hooks
are stored on the leaf, because its accumulator may be made again for each graph.

Hooks run without recording, except under create_graph. A hook that adds or removes hooks changes the next pass, not the
current one.
"""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Self

from ndgrad._src.core.modes import process, restore, scope, thread
from ndgrad._src.core.node import Node, extra_of, output_count
from ndgrad._src.core.sparse_gradients import wrap_gradient
from ndgrad._src.core.variable import (
    AccumulateGrad,
    Variable,
    accumulator,
    find_recorded,
    meta_of,
    np_dtype,
    requires_grad,
)
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._typing import GraphTask, Payload, Tensor

_numbers = itertools.count().__next__


class Hooks(OrderedDict[int, Any]):
    """The hooks of one tensor by handle number, and the class of the gradients that they receive."""

    tensor_type: Any = None


@set_module("ndgrad.utils.hooks")
class RemovableHandle:
    """Handle of a registered hook: `remove()`, or leaving the handle as a context manager, removes the hook.

    It keeps neither the hook nor its owner alive.

    Args:
        hooks: mapping from numbers to hooks, from which `remove()` takes the hook.
        hook: the hook, if it is added now.
        on_remove: function without arguments that `remove()` calls.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with x.register_hook(lambda g: g * 10):
    ...     x.sum().backward()
    >>> x.sum().backward()
    >>> x.grad
    tensor([11., 11.])
    """

    def __init__(
        self,
        hooks: MutableMapping[int, Any],
        hook: Callable[..., Any] | None = None,
        on_remove: Callable[[], Any] | None = None,
    ) -> None:
        self.id = _numbers()
        while self.id in hooks:  # an unpickled module has hooks numbered by another process
            self.id = _numbers()
        self.on_remove = on_remove
        self.hooks = _reference(hooks)
        if hook is not None:
            hooks[self.id] = hook

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        hooks = self.hooks()
        if hooks is not None:
            hooks.pop(self.id, None)
        on_remove, self.on_remove = self.on_remove, None
        if on_remove is not None:
            on_remove()

    def __getstate__(self) -> tuple[Any, int]:
        return self.hooks(), self.id

    def __setstate__(self, state: tuple[Any, int]) -> None:
        hooks, self.id = state
        self.hooks = _reference(OrderedDict() if hooks is None else hooks)
        self.on_remove = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def _reference(hooks: MutableMapping[int, Any]) -> Callable[[], Any]:
    try:
        return weakref.ref(hooks)
    except TypeError:  # a plain dict
        return lambda: hooks


def count_while_alive(owner: Node | Variable) -> Callable[[], Any]:
    """Make the engine count gradients until the returned function is called or `owner` dies."""
    token = object()
    process.leaf_hooks.add(token)
    made = weakref.finalize(owner, process.leaf_hooks.discard, token)
    made.atexit = False
    return made


# ----- registration ---------------------------------------------------------------------------------------------------


def register_tensor_hook(t: Tensor, hook: Callable[[Any], Tensor | None]) -> RemovableHandle:
    """Call `hook` with the gradient of `t`; a result other than None replaces the gradient."""
    t = find_recorded(t)
    if not requires_grad(t):
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient. Call requires_grad_() first. "
            "[nd-no-graph]"
        )
    if t.grad_fn is None:
        meta = meta_of(t)
        if meta.hooks is None:
            meta.hooks = _hooks_for(t)
        return _on_leaf(t, meta.hooks, hook)
    by_output = extra_of(t.grad_fn).tensor_hooks
    number = t.output_nr
    if number not in by_output:
        by_output[number] = _hooks_for(t)
    return RemovableHandle(by_output[number], hook)


def _hooks_for(t: Variable) -> Hooks:
    made = Hooks()
    made.tensor_type = t.tensor_type
    return made


def _on_leaf(t: Variable, hooks: dict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    extra_of(accumulator(t))  # the engine checks hooks only on nodes with an `extra`
    return RemovableHandle(hooks, hook, count_while_alive(t))


def tensor_hooks_of(t: Variable) -> dict[int, Any] | None:
    """Return the hooks of a tensor by number, None if it never had one."""
    node = t.grad_fn
    if node is None:
        return None if t._meta is None else t._meta.hooks
    return node.extra.tensor_hooks.get(t.output_nr) if node.extra is not None else None


def set_tensor_hooks(t: Variable, hooks: dict[int, Any] | None) -> None:
    """Replace the hooks of a tensor by a dict of hooks, for code that rebuilds tensors."""
    if hooks is not None and not isinstance(hooks, MutableMapping):
        raise TypeError(f"_backward_hooks is a dict of hooks by number or None, not {type(hooks).__name__}. [nd-hook]")
    node = t.grad_fn
    made = None
    if hooks is not None:
        made = _hooks_for(t)
        made.update(hooks)
    if node is None:
        meta_of(t).hooks = made
        if made is not None and requires_grad(t):
            extra_of(accumulator(t))
            count_while_alive(t)
    elif made is None:
        extra_of(node).tensor_hooks.pop(t.output_nr, None)
    else:
        extra_of(node).tensor_hooks[t.output_nr] = made


def register_post_accumulate_grad_hook(t: Variable, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook` with the leaf `t` after its `.grad` has been set."""
    if not requires_grad(t):
        raise RuntimeError(
            "cannot register a hook on a tensor that doesn't require gradient. Call requires_grad_() first. "
            "[nd-no-graph]"
        )
    if t.grad_fn is not None:
        raise RuntimeError(
            "post accumulate grad hooks cannot be registered on non-leaf tensors. Use register_hook() there. "
            "[nd-not-leaf]"
        )
    meta = meta_of(t)
    if meta.post_accumulate_hooks is None:
        meta.post_accumulate_hooks = Hooks()
    return _on_leaf(t, meta.post_accumulate_hooks, hook)


def retain_grad(t: Variable) -> None:
    """Store the gradient of a result in its `.grad`, as for a leaf."""
    if not requires_grad(t):
        raise RuntimeError(
            "can't retain_grad on Tensor that has requires_grad=False. Call requires_grad_() before the computation. "
            "[nd-no-graph]"
        )
    node = t.grad_fn
    if node is None:
        return
    meta = meta_of(t)
    if meta.retains_grad:
        return
    meta.retains_grad = True
    extra_of(node).retain[meta.output_nr] = weakref.ref(t)


def move_retained(t: Variable, old: Any, new: Any, new_number: int = 0) -> None:
    """Move retained gradients after an in-place write: the newest value keeps its gradient."""
    extra = old.extra
    if extra is None:
        return
    for number, ref in list(extra.retain.items()):
        if ref() is t:
            del extra.retain[number]
            extra_of(new).retain[new_number] = ref


def register_node_hook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)` after the node has run; a returned tuple replaces the input gradients."""
    extra = extra_of(node)
    if extra.post_hooks is None:
        extra.post_hooks = Hooks()
    return _on_node(node, extra.post_hooks, hook)


def register_node_prehook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_outputs)` before the node runs; a returned tuple replaces them."""
    extra = extra_of(node)
    if extra.pre_hooks is None:
        extra.pre_hooks = Hooks()
    return _on_node(node, extra.pre_hooks, hook)


def _on_node(node: Node, hooks: Hooks, hook: Callable[..., Any]) -> RemovableHandle:
    return RemovableHandle(hooks, hook, count_while_alive(node) if isinstance(node, AccumulateGrad) else None)


# ----- execution ------------------------------------------------------------------------------------------------------


def call(task: GraphTask, hook: Callable[..., Any], *args: Any) -> Any:
    """Call a hook in the pass's grad mode: its ops are recorded only under create_graph."""
    outside = scope()
    try:
        restore(outside.recording(task.create_graph or (task.path == "payloads" and thread.grad_enabled)))
        return hook(*args)
    finally:
        restore(outside)
        del outside


def run_pre_hooks(task: GraphTask, node: Any, g: Any) -> Any:
    """Run the hooks of the tensors that the node produced, then store retained gradients (Note [Order of hooks])."""
    extra = node.extra
    several = node.outputs != 1
    if isinstance(node, AccumulateGrad):
        meta = meta_of(node.variable)
        if meta.hooks:
            g = _tensor_hooks(task, node, meta.hooks, g)
    if extra.tensor_hooks:
        if several:
            g = list(g)
            for number, hooks in list(extra.tensor_hooks.items()):
                g[number] = _tensor_hooks(task, node, hooks, g[number])
        else:
            for hooks in list(extra.tensor_hooks.values()):
                g = _tensor_hooks(task, node, hooks, g)
    for number, ref in list(extra.retain.items()):
        part = g if g is None or not several else g[number]
        retained = ref()
        if part is not None and retained is not None:
            retain(task, retained, part)
    return g


def _tensor_hooks(task: GraphTask, node: Node, hooks: dict[int, Any], g: Payload) -> Payload:
    """Return the gradient of a tensor after its hooks. Without a gradient, only hooks with `takes_none` run."""
    if g is None:
        for hook in list(hooks.values()):
            if getattr(hook, "takes_none", False):
                call(task, hook, None)
        return None
    t = as_tensor(g, getattr(hooks, "tensor_type", None))
    for hook in list(hooks.values()):
        t = _replacement(hook, t, call(task, hook, t), node)
    return from_tensor(task, t)


def retain(task: GraphTask, t: Variable, g: Payload) -> None:
    """Add a gradient to the `.grad` of a result, out of place as in torch."""
    meta = meta_of(t)
    g = as_tensor(g, t.tensor_type)
    outside = scope()
    try:
        restore(outside.recording(task.create_graph))
        meta.grad = g.clone() if meta.grad is None else meta.grad + g
    finally:
        restore(outside)
        del outside


def run_node_prehooks(task: GraphTask, node: Any, g: Any) -> Any:
    several = node.outputs != 1
    grads = _tensors(g if several else (g,), output_count(node))
    for hook in list(node.extra.pre_hooks.values()):
        grads = _replacements(hook, grads, call(task, hook, grads), node)
    raw = [None if t is None else from_tensor(task, t) for t in grads]
    return raw if several else raw[0]


def run_post_hooks(task: GraphTask, node: Any, outs: tuple[Payload, ...], g: Any) -> tuple[Payload, ...]:
    grads = _tensors(g if node.outputs != 1 else (g,), output_count(node))
    made = _tensors(outs, len(node.next))
    for hook in list(node.extra.post_hooks.values()):
        made = _replacements(hook, made, call(task, hook, made, grads), node)
    return tuple(None if t is None else from_tensor(task, t) for t in made)


def run_post_accumulate_hooks(task: GraphTask, node: AccumulateGrad) -> None:
    for hook in list(node.variable._meta.post_accumulate_hooks.values()):
        answer = call(task, hook, node.variable)
        if answer is not None:
            if isinstance(answer, Variable):
                raise RuntimeError(
                    "Tensor post accumulate grad hooks should return None. Change .grad instead. [nd-hook]"
                )
            raise TypeError(
                f"expected Variable, but hook returned '{type(answer).__name__}': post accumulate grad hooks should "
                "return None. Change .grad instead. [nd-hook]"
            )


# ----- gradients of hooks and their results ---------------------------------------------------------------------------


def as_tensor(g: Payload, tensor_type: Any = None) -> Variable:
    """Return a gradient as hooks see it."""
    if isinstance(g, Variable):
        return g
    if tensor_type is None:
        from ndgrad._src.foundations.registry import Tensor as tensor_type  # the class lies above the core
    return wrap_gradient(tensor_type, g)


def _tensors(grads: Payload, count: int) -> tuple[Any, ...]:
    return (None,) * count if grads is None else tuple(None if g is None else as_tensor(g) for g in grads)


def from_tensor(task: GraphTask, t: Variable) -> Payload:
    return t._array if task.path == "arrays" and not isinstance(t._array, Variable) else t


def _replacement(hook: Callable[..., Any], before: Variable, answer: object, node: Node) -> Variable:
    """Return the gradient after one hook: the hook's result, if it is a gradient of the same shape and dtype."""
    if answer is None:
        return before
    name = getattr(hook, "__name__", hook)
    if not isinstance(answer, Variable):
        raise TypeError(
            f"expected Variable, but hook returned '{type(answer).__name__}' ({name}, on a value made by "
            f"{node.name()}). Return None to keep the gradient, or a tensor to replace it. [nd-hook]"
        )
    if before is None:
        return answer
    if tuple(answer.shape) != tuple(before.shape):
        raise RuntimeError(
            f"hook '{name}' has changed the size of value (made by {node.name()}): it got a gradient of "
            f" shape {tuple(before.shape)} and returned {tuple(answer.shape)}. Return a gradient of the same shape. "
            "[nd-hook]"
        )
    if np_dtype(answer) != np_dtype(before):
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (made by {node.name()}): it got a gradient of "
            f" dtype {np_dtype(before)} and returned {np_dtype(answer)}. Convert it back: return g.to(grad.dtype). "
            "[nd-hook]"
        )
    return answer


def _replacements(hook: Callable[..., Any], before: tuple[Any, ...], answer: object, node: Node) -> tuple[Any, ...]:
    """Return the gradients after one hook on a node."""
    if answer is None:
        return before
    name = getattr(hook, "__name__", hook)
    if not isinstance(answer, tuple):
        raise TypeError(
            f"expected tuple, but hook returned '{type(answer).__name__}' ({name}, on {node.name()}). Return None to "
            f"keep the gradients, or a tuple with {len(before)} of them: return (g,). [nd-hook]"
        )
    if len(answer) != len(before):
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(answer)}, but expected "
            f"{len(before)}, on {node.name()}). Return one gradient, or None, for each it was given. [nd-hook]"
        )
    return tuple(None if a is None else _replacement(hook, b, a, node) for a, b in zip(answer, before, strict=True))
