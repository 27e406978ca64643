"""A backward pass in two parts: first the gradients of a stage's inputs, which another rank waits for, and later those
of its parameters, which fill the time in which the rank would wait.

The first part runs the nodes between results and inputs, and keeps the gradients that arrive at nodes with an edge to
parameters. The second part starts at these nodes, so no node's rule for its inputs runs twice. If a parameter is used
by several such nodes, or lies behind one of them too, the second part is an ordinary pass over the parameters instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.autograd import grad
from ndgrad.autograd.graph import GradientEdge


class SplitBackward:
    """The two parts of the backward pass from `outs` with gradients `grads`, to `inputs` and to parameters."""

    def __init__(self, outs: Sequence[Tensor], grads: Sequence[Any], inputs: Sequence[Tensor]) -> None:
        self._outs, self._grads = list(outs), list(grads)
        self._inputs = [t for t in inputs if t.requires_grad]
        self._kept: dict[Any, Any] = {}
        #: Nodes that lead to inputs, with the parameters behind their other edges; None if a parameter is shared.
        self._ends: list[tuple[Any, list[Tensor]]] | None = None

    def run_inputs(self) -> list[Any]:
        """Return the gradients of the inputs that require one."""
        if not self._inputs:
            return []
        self._ends = self._find_ends()
        handles = [node.register_prehook(self._keeper(node)) for node, _ in self._ends or ()]
        try:
            found = grad(self._outs, self._inputs, self._grads, retain_graph=True, allow_unused=True)
        finally:
            for handle in handles:
                handle.remove()
        return list(found)

    def _keeper(self, node: Any) -> Any:
        def keep(gradients: Any) -> None:
            self._kept[node] = gradients

        return keep

    def run_weights(self, params: Sequence[Tensor]) -> None:
        """Add the gradients of parameters to their `.grad`, and free the graph."""
        wanted = [p for p in params if p.requires_grad]
        if not wanted:
            return
        if self._ends is None:
            self._add(wanted, grad(self._outs, wanted, self._grads, allow_unused=True))
            return
        for node, behind in self._ends:
            given = self._kept.pop(node, None)
            if given is None:
                continue
            pairs = [(GradientEdge(node, i), g) for i, g in enumerate(given) if g is not None]
            if pairs:
                starts, values = zip(*pairs, strict=True)
                self._add(behind, grad(list(starts), behind, list(values), retain_graph=True, allow_unused=True))
        self._outs, self._ends = [], None

    @staticmethod
    def _add(params: Sequence[Tensor], found: Sequence[Any]) -> None:
        with no_grad():
            for p, g in zip(params, found, strict=True):
                if g is not None:
                    p.grad = g if p.grad is None else p.grad + g

    def _find_ends(self) -> list[tuple[Any, list[Tensor]]] | None:
        roots = [t.grad_fn for t in self._outs if t.grad_fn is not None]
        leads = _leads_to(roots, self._inputs)
        behind: dict[Any, list[Tensor]] = {}
        for node in (n for n, inside in leads.items() if inside):
            found = []
            for following, _ in node.next_functions:
                if following is not None and not leads.get(following, False):
                    found.extend(_leaves_behind(following))
            if found:
                behind[node] = found
        every = [id(p) for found in behind.values() for p in found]
        return None if len(set(every)) != len(every) else list(behind.items())


def _leads_to(roots: Sequence[Any], targets: Sequence[Tensor]) -> dict[Any, bool]:
    """Return the nodes behind `roots`, each with True if it leads to one of the targets."""
    wanted = {id(t) for t in targets}
    leads: dict[Any, bool] = {}
    stack = [(root, False) for root in roots]
    while stack:
        node, done = stack.pop()
        following = [n for n, _ in node.next_functions if n is not None]
        if done:
            leads[node] = id(getattr(node, "variable", None)) in wanted or any(leads.get(n, False) for n in following)
        elif node not in leads:
            leads[node] = False
            stack.append((node, True))
            stack.extend((n, False) for n in following if n not in leads)
    return leads


def _leaves_behind(node: Any) -> list[Tensor]:
    found: dict[int, Tensor] = {}
    stack, seen = [node], {node}
    while stack:
        now = stack.pop()
        leaf = getattr(now, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        for following, _ in now.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                stack.append(following)
    return list(found.values())
