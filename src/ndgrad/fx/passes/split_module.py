"""Split a graph into several modules, which a new graph calls in turn."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule, _assign_path
from ndgrad.fx.node import Node, map_arg
from ndgrad.nn.modules.module import Module

__all__ = ["Partition", "split_module"]


@dataclass
class Partition:
    """One part of a split module.

    Args:
        name: name from the callback.
        submod_name: name of the submodule.
        nodes: nodes of the part.
        inputs: nodes of other parts that it reads.
        outputs: its nodes that other parts read.
        dependencies: names of the parts that it reads.
        graph: graph of the submodule.
        environment: nodes of this graph for nodes of the whole.
        targets: modules and values by their paths in the part.
    """

    name: str
    submod_name: str = ""
    nodes: list[Node] = field(default_factory=list)
    inputs: dict[Node, None] = field(default_factory=dict)
    outputs: dict[Node, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    #: Node of the original graph -> its copy in this part.
    environment: dict[Node, Node] = field(default_factory=dict)
    #: Path in this part -> module or value.
    targets: dict[str, Any] = field(default_factory=dict)


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
) -> GraphModule:
    """Return a module of parts: `split_callback(node)` names the part of each node, which `submod_<name>` holds.

    Values of the module stay outside and are passed in.

    Args:
        m: module to split.
        root_m: module with the values that the graph reads.
        split_callback: function that returns the name of the part of a node.
        qualname_map: dict that receives the old path of every moved module.
        keep_original_order: whether parts run in the order of their first nodes, instead of sorted by what they read.
        keep_original_node_name: whether nodes keep their names.
        keep_original_input_name: accepted as in torch; has no effect.
        partition_affix: text between `submod_` and the name of a part.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.split_module import split_module
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x) + 1)
    >>> parts = split_module(traced, traced, lambda node: 0 if node.name == "relu" else 1)
    >>> [name for name, _ in parts.named_children()], parts(ndgrad.tensor([-1.0]))
    (['submod_0', 'submod_1'], tensor([1.]))
    """
    parts: dict[str, Partition] = {}
    part_of: dict[Node, Partition] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        affix = "" if partition_affix is None else f"{partition_affix}_"
        part = parts.setdefault(name, Partition(name, f"submod_{affix}{name}"))
        part.nodes.append(node)
        part_of[node] = part
    _connect(m.graph, parts, part_of)
    order = [parts[name] for name in parts] if keep_original_order else _sort(parts)
    for part in parts.values():
        _write_part(part, m, qualname_map, bool(keep_original_node_name))
    return _stitch(m, root_m, order)


def _connect(graph: Graph, parts: dict[str, Partition], part_of: dict[Node, Partition]) -> None:
    """Find the inputs and outputs of the parts, and the parts that each reads."""
    for node in graph.nodes:
        here = part_of.get(node)
        if node.op in ("placeholder", "get_attr"):
            continue
        for read in node.all_input_nodes:
            there = part_of.get(read)
            if here is not None and there is not here:
                here.inputs[read] = None
            if there is not None and there is not here:
                there.outputs[read] = None
                if here is not None:
                    here.dependencies[there.name] = None


def _sort(parts: dict[str, Partition]) -> list[Partition]:
    """Return the parts in an order in which each comes after those that it reads."""
    found: list[Partition] = []
    done: set[str] = set()
    while len(found) < len(parts):
        ready = [p for p in parts.values() if p.name not in done and all(d in done for d in p.dependencies)]
        if not ready:
            left = [p.name for p in parts.values() if p.name not in done]
            raise RuntimeError(
                f"cycle exists between partitions! The parts {', '.join(left)} read each other's results. Choose "
                "another callback. [nd-fx-graph]"
            )
        found.append(ready[0])
        done.add(ready[0].name)
    return found


def _write_part(part: Partition, m: GraphModule, qualname_map: dict[str, str] | None, keep_name: bool) -> None:
    for read in part.inputs:
        made = part.graph.placeholder(read.name, type_expr=read.type)
        made.meta = dict(read.meta)
        part.environment[read] = made
    for node in part.nodes:
        args = map_arg(node.args, lambda n: part.environment[n])
        kwargs = map_arg(node.kwargs, lambda n: part.environment[n])
        target = node.target
        if node.op == "call_module":
            path = str(node.target)
            target = path.replace(".", "_")
            part.targets[target] = m.get_submodule(path)
            if qualname_map is not None:
                qualname_map[f"{part.submod_name}.{target}"] = path
        name = node.name if keep_name else None
        made = part.graph.create_node(node.op, target, args, dict(kwargs), name, node.type)
        made.meta = dict(node.meta)
        part.environment[node] = made
    results = tuple([part.environment[n] for n in part.outputs])
    part.graph.output(results[0] if len(results) == 1 else results)


def _stitch(m: GraphModule, root_m: Module, order: list[Partition]) -> GraphModule:
    """Return the module whose graph calls the parts."""
    base = Graph()
    environment: dict[Node, Node] = {}
    values: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            environment[node] = base.node_copy(node)
        if node.op == "get_attr":
            found: Any = m
            for name in str(node.target).split("."):
                found = getattr(found, name)
            values[str(node.target)] = found
    for part in order:
        made = GraphModule(part.targets, part.graph)
        values[part.submod_name] = made
        call = base.call_module(part.submod_name, tuple([environment[n] for n in part.inputs]))
        outputs = list(part.outputs)
        if len(outputs) == 1:
            environment[outputs[0]] = call
        else:
            for i, node in enumerate(outputs):
                environment[node] = base.call_function(operator.getitem, (call, i))
    output = m.graph.output_node()
    made_output = base.output(map_arg(output.args[0], lambda n: environment[n]), type_expr=output.type)
    made_output.meta = dict(output.meta)
    holder = Module()
    for path, value in values.items():
        _assign_path(holder, path, value)
    holder.training = m.training
    return GraphModule(holder, base)
