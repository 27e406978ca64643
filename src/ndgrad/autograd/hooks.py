"""Hooks on tensors and nodes, in torch's order.

Note [Order of hooks]
When a node has received its gradient: the hooks of the tensors it produced, in order of registration; then the retain_grad
hooks of these tensors; then captures for grad(inputs=...); then the node's pre-hooks; the node itself; its post-hooks. A
leaf's accumulator runs the leaf's hooks first, and its post-accumulate hooks after `.grad` is set.

A tensor's hooks live on the node that made it, under the tensor's output number, so they follow the value and not the Python
object: a hook registered before an in-place write sees the gradient of the value before it. A leaf's hooks live on the
leaf, since its accumulator comes and goes with graphs.
"""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from ndgrad.autograd.modes import enter, leave, process, thread
from ndgrad.autograd.node import Extra, Node, extra_of
from ndgrad.autograd.variable import AccumulateGrad, Meta, Variable, accumulator, meta_of, requires_grad, wrap

_numbers = itertools.count().__next__


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away, and so does leaving it as a context."""

    def __init__(self, hooks: dict[int, Any], hook: Any, on_remove: Callable[[], None] | None = None) -> None:
        self.id = _numbers()
        self.hooks = hooks
        self.on_remove = on_remove
        hooks[self.id] = hook

    def remove(self) -> None:
        if self.hooks.pop(self.id, None) is not None and self.on_remove is not None:
            self.on_remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def count_while_alive(owner: Any) -> Callable[[], None]:
    """Count one more reason for the engine to count gradients, until the returned function is called or `owner` dies."""
    with process.lock:
        process.leaf_hooks += 1
    return weakref.finalize(owner, _one_less)


def _one_less() -> None:
    with process.lock:
        process.leaf_hooks -= 1


# ----- registering -------------------------------------------------------------------------------------------------------


def register_tensor_hook(t: Any, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook` with the gradient of `t`; what it returns, if not None, takes the gradient's place."""
    if not requires_grad(t):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient. Call requires_grad_() first.")
    node = t.grad_fn
    if node is None:
        meta = meta_of(t)
        if meta.hooks is None:
            meta.hooks = {}
        return _on_leaf(t, meta.hooks, hook)
    hooks = extra_of(node).tensor_hooks.setdefault(0 if t._meta is None else t._meta.output_nr, {})
    return RemovableHandle(hooks, hook)


def _on_leaf(t: Any, hooks: dict[int, Any], hook: Any) -> RemovableHandle:
    made = accumulator(t)
    extra_of(made)  # the engine looks at hooks only where there is an `extra`
    return RemovableHandle(hooks, hook, count_while_alive(t))


def register_post_accumulate_grad_hook(t: Any, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call `hook` with the leaf `t` after its `.grad` has been set."""
    if not requires_grad(t):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient. Call requires_grad_() first.")
    if t.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors. Use register_hook() there.")
    meta = meta_of(t)
    if meta.post_accumulate_hooks is None:
        meta.post_accumulate_hooks = {}
    return _on_leaf(t, meta.post_accumulate_hooks, hook)


def retain_grad(t: Any) -> None:
    """Keep the gradient of a result in its `.grad`, as if it were a leaf."""
    if not requires_grad(t):
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False. Call requires_grad_() before the computation.")
    node = t.grad_fn
    if node is None:
        return
    meta = meta_of(t)
    if meta.retains_grad:
        return
    meta.retains_grad = True
    extra_of(node).retain[meta.output_nr] = weakref.ref(t)


def move_retained(t: Any, old: Any, new: Any, new_number: int = 0) -> None:
    """After an in-place write: the retained gradient is the one of the newest value."""
    extra = old.extra
    if not isinstance(extra, Extra):
        return
    for number, ref in list(extra.retain.items()):
        if ref() is t:
            del extra.retain[number]
            extra_of(new).retain[new_number] = ref


def register_node_hook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_inputs, grad_outputs)` after the node has run; a returned tuple replaces the gradients it made."""
    return _on_node(node, extra_of(node).post_hooks, hook)


def register_node_prehook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(grad_outputs)` before the node runs; a returned tuple replaces them."""
    return _on_node(node, extra_of(node).pre_hooks, hook)


def _on_node(node: Node, hooks: dict[int, Any], hook: Any) -> RemovableHandle:
    if isinstance(node, AccumulateGrad):
        return RemovableHandle(hooks, hook, count_while_alive(node))
    return RemovableHandle(hooks, hook)


# ----- running -----------------------------------------------------------------------------------------------------------


@contextmanager
def _grad_mode_of(task: Any) -> Iterator[None]:
    """Hooks run in the pass's grad mode: what they compute is recorded under create_graph alone. The lane on raw arrays, whose
    rules cannot be recorded anyway, does not set it for the whole pass."""
    if task.lane != "arrays":
        yield
        return
    was = thread.grad_enabled
    thread.grad_enabled = False
    enter()
    try:
        yield
    finally:
        leave()
        thread.grad_enabled = was


def run_pre_hooks(task: Any, node: Any, g: Any) -> Any:
    """The hooks of the tensors that the node produced, then retained gradients (see Note [Order of hooks])."""
    if node.outputs != 1:
        return [g_i if g_i is None else _tensor_hooks(task, node, i, g_i) for i, g_i in enumerate(g)]
    return _tensor_hooks(task, node, 0, g)


def _tensor_hooks(task: Any, node: Any, number: int, g: Any) -> Any:
    extra = node.extra
    hooks: dict[int, Any] | None = extra.tensor_hooks.get(number)
    if isinstance(node, AccumulateGrad):
        meta: Meta = node.variable._meta
        hooks = {**(meta.hooks or {}), **(hooks or {})}
    ref = extra.retain.get(number)
    if not hooks and ref is None:
        return g
    t = as_tensor(task, node, g)
    if hooks:
        with _grad_mode_of(task):
            for hook in list(hooks.values()):
                t = _replacement(hook, t, hook(t), node)
    retained = None if ref is None else ref()
    if retained is not None:
        meta = meta_of(retained)
        meta.grad = t.clone() if meta.grad is None else meta.grad + t
    return from_tensor(task, t)


def run_node_prehooks(task: Any, node: Any, g: Any) -> Any:
    hooks = node.extra.pre_hooks
    if not hooks:
        return g
    several = node.outputs != 1
    grads = tuple(None if p is None else as_tensor(task, node, p) for p in (g if several else (g,)))
    with _grad_mode_of(task):
        for hook in list(hooks.values()):
            made = hook(grads)
            if made is not None:
                grads = _as_tuple(made, len(grads), hook)
    raw = [None if t is None else from_tensor(task, t) for t in grads]
    return raw if several else raw[0]


def run_post_hooks(task: Any, node: Any, outs: Any, g: Any) -> Any:
    grads = tuple(None if p is None else as_tensor(task, node, p) for p in (g if node.outputs != 1 else (g,)))
    made = tuple(None if o is None else as_tensor(task, node, o) for o in outs)
    with _grad_mode_of(task):
        for hook in list(node.extra.post_hooks.values()):
            answer = hook(made, grads)
            if answer is not None:
                made = _as_tuple(answer, len(made), hook)
    return tuple(None if t is None else from_tensor(task, t) for t in made)


def run_post_accumulate_hooks(task: Any, node: Any) -> None:
    for hook in list(node.variable._meta.post_accumulate_hooks.values()):
        with _grad_mode_of(task):
            answer = hook(node.variable)
        if answer is not None:
            warnings.warn("a post-accumulate-grad hook returned a value, which is ignored; change .grad instead", stacklevel=2)


def as_tensor(task: Any, node: Any, g: Any) -> Any:
    """A gradient as hooks see it."""
    if isinstance(g, Variable):
        return g
    from ndgrad.tensor import Tensor

    return wrap(Tensor, g)


def from_tensor(task: Any, t: Any) -> Any:
    return t._array if task.lane == "arrays" and not isinstance(t._array, Variable) else t


def _replacement(hook: Any, before: Any, answer: Any, node: Any) -> Any:
    if answer is None:
        return before
    if not isinstance(answer, Variable):
        raise TypeError(
            f"a hook ({getattr(hook, '__name__', hook)}) on a tensor made by {node.name()} returned {type(answer).__name__}. "
            "Return None to keep the gradient, or a tensor to replace it."
        )
    if tuple(answer.shape) != tuple(before.shape):
        raise RuntimeError(
            f"a hook ({getattr(hook, '__name__', hook)}) has changed the size of value: it got a gradient of shape {tuple(before.shape)} "
            f"and returned {tuple(answer.shape)}. Return a gradient of the same shape."
        )
    return answer


def _as_tuple(answer: Any, count: int, hook: Any) -> tuple[Any, ...]:
    made = answer if isinstance(answer, tuple) else (answer,)
    if len(made) != count:
        raise RuntimeError(
            f"a hook ({getattr(hook, '__name__', hook)}) has returned an incorrect number of values (got {len(made)}, but "
            f"expected {count})."
        )
    return made
