"""The graph as users see it: nodes, gradient edges, hooks over several tensors, hooks on saved tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from ndgrad.autograd.hooks import RemovableHandle
from ndgrad.autograd.node import Node, edge_node, edge_number
from ndgrad.autograd.saved_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from ndgrad.autograd.variable import Variable, edge
from ndgrad.autograd.versions import is_inference, storage_of

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class GradientEdge(NamedTuple):
    """A place in the graph that gradients flow to: usable as a root of backward, or as an input of grad, without its tensor."""

    node: Node
    output_nr: int

    @property
    def input_nr(self) -> int:
        return self.output_nr


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The gradient edge of a tensor that requires grad."""
    found = edge(tensor)
    if found is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients. Call "
            "requires_grad_() first.")
    return GradientEdge(edge_node(found), edge_number(found))


def increment_version(tensor: Any) -> None:
    """Note that the memory of a tensor (or of several) was written behind the library's back."""
    for t in (tensor,) if isinstance(tensor, Variable) else tensor:
        if is_inference(t):
            raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed: its version is not tracked.")
        storage_of(t).bump("increment_version")


class _MultiHandle:
    """Removes several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call `fn` once per backward: with all gradients when the last has arrived ("all"), or with the first that arrives ("any").

    >>> import ndgrad
    >>> a, b = ndgrad.ones(1, requires_grad=True), ndgrad.ones(1, requires_grad=True)
    >>> handle = ndgrad.autograd.graph.register_multi_grad_hook([a, b], lambda grads: print([g.item() for g in grads]))
    >>> (a * 2 + b * 3).sum().backward()
    [2.0, 3.0]
    """
    from ndgrad.autograd.engine import current_task, gradients_expected

    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    seen: dict[int, Any] = {}  # id of the task -> what has arrived in it

    def of_all(position: int) -> Callable[[Any], None]:
        def hook(g: Any) -> None:
            task = current_task()
            with lock:
                state = seen.get(id(task))
                if state is None:
                    expected = gradients_expected(task, tensors)
                    state = seen[id(task)] = [expected, [None] * len(tensors)]
                    task.callbacks.append(lambda: seen.pop(id(task), None))
                state[0] -= 1
                state[1][position] = g
                complete = state[0] == 0
            if complete:
                fn(list(state[1]))

        return hook

    def of_any(g: Any) -> None:
        task = current_task()
        with lock:
            if id(task) in seen:
                return
            seen[id(task)] = True
            task.callbacks.append(lambda: seen.pop(id(task), None))
        fn(g)

    if mode == "all":
        return _MultiHandle([t.register_hook(of_all(i)) for i, t in enumerate(tensors)])
    return _MultiHandle([t.register_hook(of_any) for t in tensors])
