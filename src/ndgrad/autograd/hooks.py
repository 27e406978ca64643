"""Hooks on tensors and nodes, in torch's order.

Note [Order of hooks]
When a node is about to run: the hooks of the tensors it produced (in order of registration), then their retain_grad hooks,
then captures for grad(inputs=...), then the node's pre-hooks; the node; then its post-hooks. A leaf's accumulator also
runs the leaf's post-accumulate hooks after `.grad` is set.
"""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count().__next__


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away, and so does leaving it as a context."""

    def __init__(self, hooks: dict[int, Any], hook: Any, on_remove: Any = None) -> None:
        self.id = _numbers()
        self.hooks = hooks
        self.on_remove = on_remove
        hooks[self.id] = hook

    def remove(self) -> None:
        if self.hooks.pop(self.id, None) is not None and self.on_remove is not None:
            self.on_remove()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


def run_pre_hooks(task: Any, node: Any, g: Any) -> Any:
    return g


def run_post_hooks(task: Any, node: Any, outs: Any, g: Any) -> Any:
    return outs
