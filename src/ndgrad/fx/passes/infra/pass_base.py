"""The class of passes: a function of a graph module with checks before and after it."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from ndgrad.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """Result of a pass.

    Args:
        graph_module: module after the pass.
        modified: whether it was changed.
    """

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass. Subclasses define `call`, and may define checks.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class DropDeadCode(PassBase):
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, graph_module.graph.eliminate_dead_code())
    >>> DropDeadCode()(ndgrad.fx.symbolic_trace(lambda x: (x + 1, x)[1])).modified
    True
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> Any:
        """Change a module, and return a PassResult.

        Args:
            graph_module: module of the pass.
        """

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  # optional
        """Check the module before the pass.

        Args:
            graph_module: module of the pass.
        """

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027  # optional
        """Check the module after the pass.

        Args:
            graph_module: module of the pass.
        """
