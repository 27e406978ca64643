"""Run a graph node by node: `Interpreter` on values, `Transformer` on proxies, which makes another graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad._src.foundations.pytree import tree_map
from ndgrad.fx import traceback as fx_traceback
from ndgrad.fx._symbolic_trace import Tracer
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.node import Argument, Node, Target, map_arg
from ndgrad.fx.proxy import Proxy
from ndgrad.nn.modules.module import Module

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Interpreter of the graph of a module. Subclasses override the method of a kind of node, or `run_node` for all.

    Args:
        module: module of the graph.
        garbage_collect_values: whether values are freed after their last use.
        graph: graph to run. The default is that of the module.

    >>> import ndgrad
    >>> class Log(ndgrad.fx.Interpreter):
    ...     def run_node(self, n):
    ...         print(n.op, n.name)
    ...         return super().run_node(n)
    >>> Log(ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x) + 1)).run(ndgrad.tensor([-1.0, 2.0]))
    placeholder x
    call_function relu
    call_function add
    output output
    tensor([1., 3.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            last: dict[Node, Node] = {node: user for user in self.graph.nodes for node in user.all_input_nodes}
            for node, user in last.items():
                self.user_to_last_uses.setdefault(user, []).append(node)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Return the result of the graph. `initial_env` gives values of nodes, which then do not run.

        Args:
            args: arguments of the graph.
            initial_env: values of nodes, which then do not run.
            enable_io_processing: whether the graph's CodeGen converts arguments and result.

        >>> import ndgrad
        >>> ndgrad.fx.Interpreter(ndgrad.fx.symbolic_trace(lambda x, y: x - y)).run(5, 3)
        2
        """
        self.env = {} if initial_env is None else dict(initial_env)
        if enable_io_processing:
            args = tuple(self.graph.process_inputs(*args))
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue  # its value was given
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _name_node(error, node)
                raise
            if self.garbage_collect_values:
                for dead in self.user_to_last_uses.get(node, ()):
                    del self.env[dead]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Return the result for a list of arguments. The list is emptied, so that each argument is freed after use.

        Args:
            args_list: arguments of the graph.

        >>> import ndgrad
        >>> ndgrad.fx.Interpreter(ndgrad.fx.symbolic_trace(lambda x, y: x - y)).boxed_run([5, 3])
        2
        """
        values = iter(args_list)
        environment = {n: next(values) for n in self.graph.nodes if n.op == "placeholder"}
        args_list.clear()
        return self.run(initial_env=environment, enable_io_processing=False)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Return the value of a node: by the method named like its op.

        Args:
            n: node of the graph.
        """
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # ----- kinds of nodes -----

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument, the rest of them for `*args`, or the default.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        name = str(target)
        if name.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {name}, but one was not passed in! [nd-arguments]"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the module's value at a path.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a function.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        assert not isinstance(target, str)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a method of the first argument.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        receiver, *rest = args
        return getattr(receiver, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a module.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the graph.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        return args[0]

    # ----- values -----

    def fetch_attr(self, target: str) -> Any:
        """Return the module's value at a path.

        Args:
            target: path of the value.
        """
        found: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}; the full target is {target}. "
                    "[nd-fx-graph]"
                )
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node, with values in place of nodes.

        Args:
            n: node of the graph.
        """
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return arguments with values in place of nodes.

        Args:
            args: arguments that contain nodes.
            n: node whose arguments they are.
        """

        def load(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues "
                    "[nd-fx-graph]"
                )
            return self.env[node]

        return map_arg(args, load)


def _name_node(error: Exception, node: Node) -> None:
    """Add the failing node to the text of an error."""
    text = f"While executing {node.format_node()}"
    if node.stack_trace:
        text += f"\nOriginal traceback:\n{node.stack_trace}"
    if not any(note.startswith("While executing") for note in getattr(error, "__notes__", ())):
        error.add_note(text)


class _TransformerTracer(Tracer):
    """Adds the nodes of a Transformer to its new graph. Every module is a leaf."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Interpreter that runs a graph on proxies, and so makes another graph. Subclasses override the methods of kinds of
    nodes.

    Args:
        module: module to transform.

    >>> import ndgrad
    >>> class NegSigmoid(ndgrad.fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         if target is ndgrad.sigmoid:
    ...             return ndgrad.neg(*args, **kwargs)
    ...         return super().call_function(target, args, kwargs)
    >>> made = NegSigmoid(ndgrad.fx.symbolic_trace(lambda x: ndgrad.sigmoid(x))).transform()
    >>> made(ndgrad.tensor([1.0]))
    tensor([-1.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        """Add the placeholder to the new graph.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        default = args[0] if args else ...
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add the read of a value to the new graph.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call of a module to the new graph.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add the call of a function to the new graph.

        Args:
            target: target of the node.
            args: arguments of the node, with values in place of nodes.
            kwargs: keyword arguments of the node.
        """
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return a module with the new graph."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            old = self.module.graph.output_node()
            made = self.new_graph.output(
                tree_map(lambda a: a.node if isinstance(a, Proxy) else a, result), type_expr=old.type
            )
            made.meta.update(old.meta)
        return GraphModule(self.module, self.new_graph)
