"""Queries by code inside a backward pass: the pass, the node, the order of nodes, and callbacks at the end.

A pass belongs to the thread that runs it. Inside a nested pass the results are about the nested pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import thread
from ndgrad._src.core.node import Node
from ndgrad._src.core.traversal import count_gradients, execution_order
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._src.engine.engine import GraphTask


@set_module("ndgrad.autograd.graph")
def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback()` after the running pass has accumulated all its gradients.

    Callbacks run in the order in which they were queued, and may queue more. If the pass fails, none runs.

    Args:
        callback: function without arguments.

    Raises:
        RuntimeError: if no backward is running.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> handle = y.register_hook(lambda g: ndgrad.autograd.graph.queue_callback(lambda: print("done", x.grad.tolist())))
    >>> y.sum().backward()
    done [3.0, 3.0]
    """
    task = thread.task
    if task is None:
        raise RuntimeError(
            "Final callbacks can only be installed during backward pass, but this thread runs none. "
            "Call queue_callback() from a hook or a custom backward. [nd-hook]"
        )
    task.callbacks.append(callback)


def is_checkpoint_valid() -> bool:
    """True if a reentrant checkpoint may run here: not in a pass that computes the gradients of given inputs only."""
    return thread.task is None or thread.task.wanted is None


@set_module("ndgrad.autograd.graph")
def current_graph_task_id() -> int:
    """Return the number of the pass that this thread is running, larger for younger passes; -1 outside backward.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.current_graph_task_id()
    -1
    """
    return -1 if thread.task is None else int(thread.task.number)


@set_module("ndgrad.autograd.graph")
def current_node() -> Node | None:
    """Return the node whose hooks or backward is running; None if there is none.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.current_node() is None
    True
    """
    return None if thread.task is None else thread.task.node


@set_module("ndgrad.autograd.graph")
def current_execution_order() -> list[Node]:
    """Return all nodes that the pass of this thread runs, in order; for code that runs inside it.

    >>> import ndgrad
    >>> from ndgrad.autograd.graph import current_execution_order
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> y = (x * x).sum()
    >>> handle = y.register_hook(lambda g: print([node.name() for node in current_execution_order()]))
    >>> y.backward()
    ['SumBackward0', 'MulBackward0', 'AccumulateGrad']
    """
    task = thread.task
    if task is None:
        raise RuntimeError(
            "the order of execution can only be asked for during the backward pass: from a hook or a custom backward. "
            "[nd-hook]"
        )
    return execution_order(task.roots, task.wanted)


def will_run(task: GraphTask, node: Node) -> bool:
    """True if a pass reaches a node. Hooks over several tensors need this to detect the last gradient."""
    reached = task.notes.get(will_run)
    if reached is None:
        reached = set(count_gradients(task.roots)) if task.needed is None else task.needed
        task.notes[will_run] = reached
    return node in reached


def will_engine_execute_node(node: Node) -> bool:
    """True if the pass of this thread reaches a node; for code that runs inside it.

    >>> import ndgrad
    >>> x = ndgrad.ones(1, requires_grad=True)
    >>> used, unused = x.exp(), x.sin()
    >>> y = used * 2
    >>> asked = lambda g: print([ndgrad._C._will_engine_execute_node(t.grad_fn) for t in (used, unused)])
    >>> handle = y.register_hook(asked)
    >>> y.backward()
    [True, False]
    """
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}. [nd-type]")
    if thread.task is None:
        raise RuntimeError(
            "_will_engine_execute_node can only be called during the backward pass: from a hook or a custom backward. "
            "[nd-hook]"
        )
    return will_run(thread.task, node)


_is_checkpoint_valid = is_checkpoint_valid


class _Engine:
    """The engine as torch's `Variable._execution_engine`, which some libraries use."""

    queue_callback = staticmethod(queue_callback)
    is_checkpoint_valid = staticmethod(is_checkpoint_valid)


execution_engine = _Engine()
