"""Split a graph by tags of its nodes, and read or set values by path."""

from __future__ import annotations

from typing import Any

from ndgrad.fx.graph_module import GraphModule, _assign_path, _find
from ndgrad.fx.passes.split_module import split_module

__all__ = ["getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """Return the value at a path.

    Args:
        obj: object to start from.
        name: path of names, separated by points.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.split_utils import getattr_recursive
    >>> getattr_recursive(ndgrad.nn.Sequential(ndgrad.nn.ReLU()), "0")
    ReLU()
    """
    return _find(obj, name)


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Set the value at a path.

    Args:
        obj: object to start from.
        attr: path of names, separated by points.
        value: new value.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.split_utils import setattr_recursive
    >>> model = ndgrad.nn.Sequential(ndgrad.nn.ReLU())
    >>> setattr_recursive(model, "0", ndgrad.nn.Tanh())
    >>> model[0]
    Tanh()
    """
    _assign_path(obj, attr, value)


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,  # torch's name
) -> Any:
    """Return a module with one part per tag; each node says its part in `node.tag`.

    Args:
        gm: module to split.
        tags: all tags.
        return_fqn_mapping: whether a dict from new to old paths is returned too.
        return_tuple: accepted as in torch; has no effect.
        GraphModuleCls: accepted as in torch; has no effect, because the result is a GraphModule.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.split_utils import split_by_tags
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x) + 1)
    >>> for node in traced.graph.nodes:
    ...     node.tag = "first" if node.name == "relu" else "second"
    >>> [name for name, _ in split_by_tags(traced, ["first", "second"]).named_children()]
    ['first', 'second']
    """
    paths: dict[str, str] = {}
    made = split_module(gm, gm, lambda node: node.tag, paths)  # type: ignore[attr-defined]  # set by the caller
    unknown = [n for n, _ in made.named_children() if n.removeprefix("submod_") not in tags]
    if unknown:
        raise AssertionError(f"Nodes have tags that are not in {tags}: {', '.join(unknown)}. [nd-fx-graph]")
    for name in [n for n, _ in made.named_children()]:
        made.add_submodule(name.removeprefix("submod_"), made.get_submodule(name))
        made.delete_submodule(name)
    for node in made.graph.nodes:
        if node.op == "call_module":
            node.target = str(node.target).removeprefix("submod_")
            node._rename(node.target)
    made.recompile()
    mapping = {path.removeprefix("submod_"): old for path, old in paths.items()}
    return (made, mapping) if return_fqn_mapping else made
