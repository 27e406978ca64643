"""The graph as users see it: nodes, gradient edges, hooks over several tensors, hooks on saved tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from ndgrad._src.core.hooks import RemovableHandle
from ndgrad._src.core.modes import thread
from ndgrad._src.core.node import Node, edge_node, edge_number
from ndgrad._src.core.saved_hooks import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import AccumulateGrad, Variable, accumulator, edge, find_recorded
from ndgrad._src.core.versions import storage_of
from ndgrad._src.engine.callbacks import (
    current_execution_order,
    current_graph_task_id,
    current_node,
    queue_callback,
    will_run,
)
from ndgrad._src.engine.pass_logging import log_nodes
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.engine.engine import GraphTask
    from ndgrad._typing import GradNode, Payload, Tensor

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "current_execution_order", "current_graph_task_id",
    "current_node", "disable_saved_tensors_hooks", "get_gradient_edge", "increment_version", "queue_callback",
    "region_activation_memory_budget", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
    "set_override_stale_capture_stream", "set_warn_on_accumulate_grad_stream_mismatch", "walk",
]  # fmt: skip


@set_module("ndgrad.autograd.graph")
class GradientEdge(NamedTuple):
    """A place in the graph that gradients flow to: a root of backward, or an input of grad, without its tensor.

    It keeps the graph behind it alive, but not the tensor's values. `ownership_token` is None; torch has the field.

    Args:
        node: node of the graph.
        output_nr: number of the node's output.
        ownership_token: None. torch has the field.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> edge = ndgrad.autograd.graph.get_gradient_edge(x * 2)
    >>> ndgrad.autograd.grad(edge, x, ndgrad.ones(2))
    (tensor([2., 2.]),)
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None

    @property
    def input_nr(self) -> int:
        """The number of the node's output, under torch's older name."""
        return self.output_nr


@set_module("ndgrad.autograd.graph")
def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the gradient edge of a tensor that requires grad.

    Args:
        tensor: tensor that requires grad.

    Raises:
        RuntimeError: if the tensor does not require grad.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> ndgrad.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    found = edge(find_recorded(tensor))
    if found is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients. "
            "Call requires_grad_() first. [nd-no-graph]"
        )
    return GradientEdge(edge_node(found), edge_number(found))


@set_module("ndgrad.autograd.graph")
def walk(*roots: Tensor | GradientEdge | Node) -> Iterator[GradNode]:
    """Iterate over all nodes behind tensors, gradient edges or nodes, each once, starting at the outputs, at any depth.

    Args:
        *roots: tensors, gradient edges or nodes.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> [node.name() for node in ndgrad.autograd.graph.walk((x * x).sum())]
    ['SumBackward0', 'MulBackward0', 'AccumulateGrad']
    """
    found = [
        r if isinstance(r, Node) else r.node if isinstance(r, GradientEdge) else get_gradient_edge(r).node
        for r in roots
    ]
    return cast("Iterator[GradNode]", iterate_nodes(dict.fromkeys(found)))


@set_module("ndgrad.autograd.graph")
def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Record that the memory of one or several tensors was written without ndgrad.

    Args:
        tensor: tensor or tensors.

    >>> import ndgrad
    >>> x = ndgrad.ones(2)
    >>> ndgrad.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Variable) else tensor:
        storage_of(t).bump("increment_version")


class _MultiHandle(RemovableHandle):
    """Handle that removes several hooks at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, state: Any) -> None:
        self.handles = state


class _Place:
    """Weak reference to the destination of a tensor's gradient: a hook on the node must not hold the node."""

    def __init__(self, t: Variable) -> None:
        found = get_gradient_edge(t)
        self.leaf = weakref.ref(t) if isinstance(found.node, AccumulateGrad) else None
        self.node = weakref.ref(found.node)

    def is_reached(self, task: GraphTask) -> bool:
        if self.leaf is not None:
            t = self.leaf()
            return t is not None and will_run(task, accumulator(t))
        node = self.node()
        return node is not None and will_run(task, node)


class _OfAll:
    """Hook of one of several tensors: stores its gradient, and calls the function after the last expected gradient."""

    takes_none = True

    def __init__(self, several: _Several, position: int) -> None:
        self.several, self.position = several, position

    def __call__(self, g: Payload) -> None:
        several = self.several
        task = thread.task
        with several.lock:
            state = task.notes.get(several)
            if state is None:
                expected = sum(place.is_reached(task) for place in several.places)
                state = task.notes[several] = [expected, [None] * len(several.places)]
            state[0] -= 1
            state[1][self.position] = g
            complete = state[0] == 0
        if complete:
            several.function(list(state[1]))


class _OfAny:
    """Hook of one of several tensors: calls the function if its gradient is the first of the pass."""

    def __init__(self, several: _Several) -> None:
        self.several = several

    def __call__(self, g: Payload) -> None:
        several = self.several
        task = thread.task
        with several.lock:
            if several in task.notes:
                return
            task.notes[several] = True
        several.function(g)


class _Several:
    """Shared state of the hooks of one `register_multi_grad_hook`."""

    def __init__(self, tensors: Sequence[Any], function: Callable[..., Any]) -> None:
        self.places = [_Place(t) for t in tensors]
        self.function = function
        self.lock = make_lock()


@set_module("ndgrad.autograd.graph")
def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], object] | Callable[[Tensor], object],
    *,
    mode: str = "all",
) -> RemovableHandle:
    """Call `fn` once per backward: with all gradients after the last has arrived ("all"), or with the first ("any").

    Only gradients that the pass computes are awaited; the others are None.

    Args:
        tensors: tensors whose gradients are awaited.
        fn: function of the list of gradients, or of the first gradient.
        mode: `"all"` or `"any"`.

    Returns:
        A handle, whose `remove()` ends the calls.

    >>> import ndgrad
    >>> a, b = ndgrad.ones(1, requires_grad=True), ndgrad.ones(1, requires_grad=True)
    >>> handle = ndgrad.autograd.graph.register_multi_grad_hook([a, b], lambda grads: print([g.item() for g in grads]))
    >>> (a * 2 + b * 3).sum().backward()
    [2.0, 3.0]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode} [nd-option]")
    several = _Several(tensors, fn)
    hooks = [_OfAll(several, i) if mode == "all" else _OfAny(several) for i in range(len(several.places))]
    return _MultiHandle([t.register_hook(hook) for t, hook in zip(tensors, hooks, strict=True)])


# ----- torch's switches for GPU streams and its compiler --------------------------------------------------------------


@set_module("ndgrad.autograd.graph")
def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Switch torch's warning about gradients accumulated on another GPU stream: no effect, a pass has one stream.

    Args:
        enabled: not used.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """


@set_module("ndgrad.autograd.graph")
def set_override_stale_capture_stream(enabled: bool) -> None:
    """Switch torch's handling of nodes with the stream of a finished capture: no effect, because no node has one.

    Args:
        enabled: not used.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.set_override_stale_capture_stream(True)
    """


@set_module("ndgrad.autograd.graph")
def region_activation_memory_budget(budget: float) -> NoReturn:
    """Set torch's compiler hint for the share of values kept for backward; as in torch, refused in eager code.

    Args:
        budget: share of values that are kept.

    Raises:
        RuntimeError: in eager code.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.region_activation_memory_budget(0.5)
    Traceback (most recent call last):
    ...
    RuntimeError: ndgrad.autograd.graph.region_activation_memory_budget can only be used inside a compiled region...
    """
    name = "ndgrad.autograd.graph.region_activation_memory_budget"
    if not 0 <= budget <= 1:
        raise ValueError(
            f"{name} must be in [0, 1], got {budget}. Give the share of the values that may be kept. [nd-range]"
        )
    raise RuntimeError(
        f"{name} can only be used inside a compiled region, of torch's compiler: ndgrad.compile chooses what to keep "
        "by itself. Use ndgrad.utils.checkpoint to keep less. [nd-unsupported]"
    )


def _register_logging_hooks_on_whole_graph(t_outputs: Sequence[Tensor | GradientEdge]) -> Callable[[], None]:
    """Log every node behind tensors or edges when it runs. Return a function that ends the logging."""
    return log_nodes(t_outputs)
