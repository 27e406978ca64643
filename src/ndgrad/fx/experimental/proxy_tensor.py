"""Trace a function to a graph of ops, as torch's `make_fx` does: the compiler's tracer runs it on real values.

All Python around the ops is gone from the graph: modules, methods, gradients and transforms appear as the ops that they
ran. Sizes are constants, and writes in place appear as ops that return a new value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import ndgrad
from ndgrad._src.compiler.capture.graph_break import current_tracer
from ndgrad._src.core.op_observers import in_place_form
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import pytree
from ndgrad._src.ops.vocabulary import find
from ndgrad.fx._code import _PyTreeCodeGen, _PyTreeInfo
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.node import Node
from ndgrad.fx.programs import _add_instructions, _describe, trace_program
from ndgrad.nn.parameter import Parameter

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> Any:
    """Return the tracer that records the calling code, or None.

    >>> from ndgrad.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
    return current_tracer.get()


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Any] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
) -> Callable[..., GraphModule]:
    """Return a function that traces `f` with its arguments, and returns the graph of ops as a module.

    Args:
        f: function of tensors.
        decomposition_table: must be empty: ops are not decomposed further.
        tracing_mode: `"real"` or `"fake"`. Sizes of the graph are fixed in both.
        pre_dispatch: accepted as in torch; has no effect.
        record_module_stack: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> from ndgrad.fx.experimental.proxy_tensor import make_fx
    >>> print(make_fx(lambda x: ndgrad.sin(x) * 2)(ndgrad.ones(2)).code.strip())
    def forward(self, x_1):
        sin = ndgrad.ops.aten.sin.default(x_1);  x_1 = None
        mul = ndgrad.ops.aten.mul.default(sin, 2);  sin = None
        return mul
    """
    if tracing_mode not in ("real", "fake"):
        raise NotImplementedError(
            f"make_fx: tracing_mode={tracing_mode!r} would keep sizes open, and a graph of ops has fixed sizes here. "
            "Use 'real', and trace again for other sizes. [nd-unsupported]"
        )
    if decomposition_table:
        raise NotImplementedError(
            "make_fx: ops of the table are not decomposed further. Leave decomposition_table out, and rewrite the "
            "graph with fx.replace_pattern. [nd-unsupported]"
        )

    @functools.wraps(f)
    def trace(*args: Any, **kwargs: Any) -> GraphModule:
        return _trace(f, args, kwargs)

    return trace


def _parameter_names(f: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        parameters = []  # type: ignore[assignment]  # names are made up below
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [*names, *(f"arg{i}" for i in range(len(names), count))][:count]


def _with_distinct_tensors(tree: Any) -> Any:
    """Return arguments in which a tensor that occurs again is a copy, since each is an input of its own."""
    seen: set[int] = set()

    def separate(leaf: Any) -> Any:
        if not isinstance(leaf, Variable):
            return leaf
        if id(leaf) in seen:
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        seen.add(id(leaf))
        return leaf

    return pytree.tree_map(separate, tree)


def _trace(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> GraphModule:
    args, kwargs = _with_distinct_tensors((args, kwargs))
    found = trace_program(f, args, kwargs, getattr(f, "__name__", "function"), allow_writes=True)
    out_spec = found.result
    names = [*_parameter_names(f, len(args)), *kwargs]
    graph = Graph()
    values: dict[str, Any] = {}
    nodes: dict[Any, Node] = {}
    inputs = iter(found.program.inputs)
    trees = [*args, *kwargs.values()]
    for name, tree in zip(names, trees, strict=True):
        for i, leaf in enumerate(pytree.tree_leaves(tree)):
            node = graph.placeholder(f"{name}_{i + 1}")
            if isinstance(leaf, Variable):
                nodes[next(inputs)] = node
    for value, tensor in zip(inputs, found.held, strict=True):
        kind = "_param_constant" if isinstance(tensor, Parameter) else "_tensor_constant"
        name = f"{kind}{sum(key.startswith(kind) for key in values)}"
        values[name] = tensor
        nodes[value] = graph.get_attr(name)
    for value, array in found.program.constants.items():
        name = f"_tensor_constant{sum(key.startswith('_tensor_constant') for key in values)}"
        values[name] = ndgrad.as_tensor(array)
        nodes[value] = graph.get_attr(name)
    _add_instructions(graph, found.program, nodes)
    inputs_of_program = [nodes[v] for v in found.program.inputs]
    for number, value in found.written.items():
        graph.call_function(in_place_form(find("copy")), (inputs_of_program[number], nodes[value]))
    results = [nodes[v] for v in found.program.outputs]
    for value, node in nodes.items():
        node.meta["val"] = _describe(value)
    if any(not pytree.tree_structure(tree).is_leaf() for tree in trees) or not out_spec.is_leaf():
        in_spec = pytree.tree_structure(list(trees))
        graph.output(results)
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec)))
    else:
        graph.output(results[0])
    graph.eliminate_dead_code()
    for name in [n for n in values if not graph.find_nodes(op="get_attr", target=n)]:
        del values[name]
    return GraphModule(values, graph, getattr(f, "__name__", "GraphModule"))
