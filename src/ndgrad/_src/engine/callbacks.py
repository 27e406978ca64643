"""What code that runs inside a backward pass may ask of it: which pass, which node, what comes next,
and to be called at its end.

A pass belongs to the thread that runs it, and inside a nested pass the answers are about the nested one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.core.modes import thread
from ndgrad._src.core.node import Node
from ndgrad._src.core.traversal import count_gradients, execution_order


def queue_callback(callback: Callable[[], Any]) -> None:
    """Call `callback()` when the pass that is running has accumulated all its gradients.

    Callbacks run in the order in which they were queued, and may queue more. If the pass fails, none runs.

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
            "Final callbacks can only be installed during backward pass, and this thread runs none. "
            "Call queue_callback() from a hook or a custom backward. [nd-hook]"
        )
    task.callbacks.append(callback)


def is_checkpoint_valid() -> bool:
    """Whether a reentrant checkpoint may run here: not in a pass that wants the gradients of certain inputs alone."""
    return thread.task is None or thread.task.wanted is None


def current_graph_task_id() -> int:
    """The number of the pass that this thread is running, larger in younger ones; -1 outside backward.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.current_graph_task_id()
    -1
    """
    return -1 if thread.task is None else int(thread.task.number)


def current_node() -> Node | None:
    """The node whose hooks or backward is running, None outside of these.

    >>> import ndgrad
    >>> ndgrad.autograd.graph.current_node() is None
    True
    """
    return None if thread.task is None else thread.task.node


def current_execution_order() -> list[Node]:
    """All nodes that the pass of this thread runs, in its order; for code that runs inside it.

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


def will_run(task: Any, node: Node) -> bool:
    """Whether a pass reaches a node: what hooks over several tensors must know to tell when the
    last gradient has come."""
    reached = task.notes.get(will_run)
    if reached is None:
        reached = set(count_gradients(task.roots)) if task.needed is None else task.needed
        task.notes[will_run] = reached
    return node in reached


_is_checkpoint_valid = is_checkpoint_valid


class _Engine:
    """The engine as torch's `Variable._execution_engine`, which libraries reach for."""

    queue_callback = staticmethod(queue_callback)
    is_checkpoint_valid = staticmethod(is_checkpoint_valid)


execution_engine = _Engine()
