"""A compiled call recorded for `func.vjp`: its backward program pulls cotangents back."""

from __future__ import annotations

from typing import Any

from ndgrad._src.core.modes import modes
from ndgrad._src.core.variable import requires_grad
from ndgrad._src.engine.backward_api import grad
from ndgrad._src.foundations.pytree import TreeSpec, tree_unflatten
from ndgrad._src.ops.vocabulary import tensor_ops


class RecordedCall:
    """A call with new leaves in place of its arguments, so that its result depends on no other tensor that requires
    grad.
    """

    def __init__(self, leaves: list[Any], spec: TreeSpec, result: Any) -> None:
        self.leaves = leaves
        self.spec = spec
        self.result = result

    def value_of(self, output: Any) -> Any:
        """Return an output without its history."""
        return output.detach() if requires_grad(output) else output

    def pull_back(self, outputs: list[Any], cotangents: list[Any], *, keep: bool) -> Any:
        """Return gradients of the arguments, in their structure; zeros if no path leads to an argument. They have a
        history if the cotangents have one.
        """
        active = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if requires_grad(o)]
        found: Any = [None] * len(self.leaves)
        if active:
            recorded = modes().grad_enabled and any(requires_grad(c) for _, c in active)
            roots, given = zip(*active, strict=True)
            found = grad(
                roots, self.leaves, given, retain_graph=keep or recorded, create_graph=recorded, allow_unused=True
            )
        made = [
            tensor_ops.zeros_like(leaf).detach() if g is None else g for g, leaf in zip(found, self.leaves, strict=True)
        ]
        return tree_unflatten(made, self.spec)
