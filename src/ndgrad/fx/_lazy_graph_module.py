"""torch's class of modules that write their code on first use. Here every GraphModule writes its code at once."""

from __future__ import annotations

from typing import Any

from ndgrad.fx.graph_module import GraphModule

__all__ = ["_LazyGraphModule", "_make_graph_module"]


class _LazyGraphModule(GraphModule):
    """A GraphModule under torch's name for the lazy form."""

    @classmethod
    def force_recompile(cls, gm: Any) -> None:
        """Do nothing: the code is up to date."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """Return the module itself."""
        return gm

    def real_recompile(self) -> None:
        """Write the code anew."""
        self.recompile()


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> GraphModule:
    return (graph_module_cls or GraphModule)(*args, **kwargs)


def _get_graph_module_cls() -> type[GraphModule]:
    return GraphModule
