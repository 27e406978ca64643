"""Pictures of graphs, as text in Graphviz's language DOT."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.node import Node, _format_arg
from ndgrad.nn.modules.module import Module

__all__ = ["DotGraph", "FxGraphDrawer"]

_COLOURS = {
    "placeholder": "AliceBlue", "call_module": "LemonChiffon1", "get_param": "Yellow2", "get_attr": "LightGrey",
    "output": "PowderBlue",
}  # fmt: skip
_HASHED = ["CadetBlue1", "Coral", "DarkOliveGreen1", "DarkSeaGreen1", "GhostWhite", "Khaki1", "LavenderBlush1",
           "LightSkyBlue", "MistyRose1", "MistyRose2", "PaleTurquoise2", "PeachPuff1", "Salmon", "Thistle1", "Thistle3",
           "Wheat1"]  # fmt: skip


class DotGraph:
    """Picture as text, with pydot's names for the ways to get it.

    Args:
        text: text in Graphviz's language.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def to_string(self) -> str:
        """Return the text."""
        return self.text

    def write(self, path: str | os.PathLike[str], prog: Any = None, format: str = "raw") -> bool:
        """Write the text to a file. Graphviz makes pictures of it: `dot -Tsvg graph.dot`.

        Args:
            path: path of the file.
            prog: accepted as in pydot; has no effect, because no program runs.
            format: `"raw"` or `"dot"`.
        """
        if format not in ("raw", "dot"):
            raise NotImplementedError(
                f"a DotGraph is written as text, not as {format!r}. Write it, and run `dot -T{format}`. "
                "[nd-unsupported]"
            )
        Path(path).write_text(self.text, encoding="utf-8")
        return True

    def write_raw(self, path: str | os.PathLike[str]) -> bool:
        """Write the text to a file.

        Args:
            path: path of the file.
        """
        return self.write(path)

    write_dot = write_raw


class FxGraphDrawer:
    """Drawer of the graph of a module, and of graph modules in it.

    Args:
        graph_module: module to draw.
        name: name of the picture.
        ignore_getattr: whether reads of values are left out.
        ignore_parameters_and_buffers: whether parameters and buffers are left out.
        skip_node_names_in_args: whether names of nodes are left out of arguments.
        parse_stack_trace: whether lines of the user are shown.
        dot_graph_shape: shape of a node in Graphviz. The default is `"record"`.
        normalize_args: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.graph_drawer import FxGraphDrawer
    >>> drawer = FxGraphDrawer(ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x)), "example")
    >>> print(drawer.get_dot_graph().to_string().splitlines()[0])
    digraph "example" {
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        self._name = name
        self._shape = dot_graph_shape or "record"
        self._with_traces = parse_stack_trace
        self._skips_names = skip_node_names_in_args
        options = ignore_getattr, ignore_parameters_and_buffers
        self._graphs = {name: DotGraph(self._draw(graph_module, name, *options))}
        for path, module in graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                inner = f"{name}_{path.replace('.', '_')}"
                self._graphs[inner] = DotGraph(self._draw(module, inner, *options))

    def get_dot_graph(self, submod_name: str | None = None) -> DotGraph:
        """Return the picture of the module, or of one of its parts.

        Args:
            submod_name: path of a part, with underscores. None means the module.
        """
        return self.get_main_dot_graph() if submod_name is None else self.get_submod_dot_graph(submod_name)

    def get_main_dot_graph(self) -> DotGraph:
        """Return the picture of the module."""
        return self._graphs[self._name]

    def get_submod_dot_graph(self, submod_name: str) -> DotGraph:
        """Return the picture of a part.

        Args:
            submod_name: path of a part, with underscores.
        """
        return self._graphs[f"{self._name}_{submod_name}"]

    def get_all_dot_graphs(self) -> dict[str, DotGraph]:
        """Return the pictures of the module and its parts, by name."""
        return self._graphs

    def _draw(self, gm: GraphModule, name: str, ignore_getattr: bool, ignore_parameters: bool) -> str:
        skipped = {n for n in gm.graph.nodes if ignore_getattr and n.op == "get_attr"}
        lines = [f'digraph "{_escape(name)}" {{', "rankdir=TB;"]
        for node in gm.graph.nodes:
            if node in skipped:
                continue
            style = f'shape={self._shape}, fillcolor="{_colour(gm, node)}", style="filled,rounded", fontcolor="#000000"'
            lines.append(f'"{_escape(node.name)}" [label="{self._label(gm, node)}", {style}];')
            if node.op == "call_module" and not ignore_parameters:
                lines += _parameters(gm.get_submodule(str(node.target)), node)
        for node in gm.graph.nodes:
            lines += [
                f'"{_escape(read.name)}" -> "{_escape(node.name)}";'
                for read in node.all_input_nodes
                if read not in skipped
            ]
        return "\n".join([*lines, "}", ""])

    def _label(self, gm: GraphModule, node: Node) -> str:
        rows = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            module = gm.get_submodule(str(node.target))
            rows.append(f"{module.__module__}.{type(module).__name__}")
            rows += [f"{key}: {getattr(module, key)}" for key in getattr(module, "__constants__", ())]
        else:
            rows.append(f"target={Node._pretty_print_target(node.target)}")
            if node.args:
                shown = [a for a in node.args if not (self._skips_names and isinstance(a, Node))]
                rows.append(f"args={_format_arg(tuple(shown))}")
            if node.kwargs:
                rows.append(f"kwargs={_format_arg(node.kwargs)}")
        rows.append(f"num_users={len(node.users)}")
        meta = node.meta.get("tensor_meta")
        if meta is not None and hasattr(meta, "dtype"):
            rows += [f"dtype={meta.dtype}", f"shape={tuple(meta.shape)}", f"requires_grad={meta.requires_grad}"]
        if self._with_traces and node.stack_trace:
            rows.append(node.stack_trace.strip().splitlines()[-1].strip())
        return "{" + "|".join(map(_escape, rows)) + r"\n}"


def _parameters(module: Module, node: Node) -> list[str]:
    """Return boxes for the parameters and buffers of a called module."""
    lines = []
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        label = _escape(f"{node.name}.{name}")
        facts = _escape(f"op_code=get_parameter, {tensor.dtype}[{', '.join(map(str, tensor.shape))}]")
        lines.append(f'"{label}" [label="{{{label}|{facts}}}", shape=record, fillcolor="{_COLOURS["get_param"]}"];')
        lines.append(f'"{label}" -> "{_escape(node.name)}";')
    return lines


def _colour(gm: GraphModule, node: Node) -> str:
    if node.op in _COLOURS:
        return _COLOURS[node.op]
    # The same function has the same colour in every picture.
    number = hashlib.md5(Node._pretty_print_target(node.target).encode(), usedforsecurity=False).digest()[0]
    return _HASHED[number % len(_HASHED)]


def _escape(text: str) -> str:
    for character in '\\{}|<>"':
        text = text.replace(character, "\\" + character)
    return text.replace("\n", r"\n")
