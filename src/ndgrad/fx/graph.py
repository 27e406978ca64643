"""A graph: a list of nodes, each of which reads only nodes before it, and the functions that change the list.

    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(ndgrad.relu, (x,)))

New nodes go to the insert point, which is the end unless `inserting_before` or `inserting_after` moves it. The code of
a graph is written by its `CodeGen` (see `ndgrad.fx._code`); `GraphModule` runs it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from ndgrad.fx._code import (
    CodeGen,
    PythonCode,
    _CustomBuiltin,
    _format_target,
    _is_from_torch,
    _Namespace,
    _PyTreeCodeGen,
    _PyTreeInfo,
    _snake_case,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from ndgrad.fx.node import Argument, Node, Target, _legal_ops, map_aggregate, map_arg

if TYPE_CHECKING:
    from types import TracebackType

    from ndgrad.fx._symbolic_trace import Tracer
    from ndgrad.fx.graph_module import GraphModule

__all__ = [
    "CodeGen", "Graph", "PythonCode", "_CustomBuiltin", "_Namespace", "_PyTreeCodeGen", "_PyTreeInfo",
    "_format_target", "_is_from_torch", "_legal_ops", "_snake_case", "inplace_methods", "magic_methods",
    "reflectable_magic_methods",
]  # fmt: skip


class _InsertPoint:
    """The place of new nodes. As a context manager, it restores the place before it."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self._before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.graph._insert = self._before


class _node_list:  # torch's name
    """The nodes of a graph in order. Nodes may be inserted or erased during iteration."""

    def __init__(self, graph: Graph, direction: Literal["_prev", "_next"] = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, step = self.graph._root, self.direction
        node: Node = getattr(root, step)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, step)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


class Graph:
    """Operations in order, from placeholders to the output.

    Args:
        owning_module: module whose graph it is.
        tracer_cls: class of the tracer that recorded it.
        tracer_extras: further arguments of the tracer.

    >>> import ndgrad
    >>> graph = ndgrad.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(ndgrad.relu, (x,)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %relu : [num_users=1] = call_function[target=ndgrad.relu](args = (%x,), kwargs = {})
        return relu
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._is_ordered = True
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        #: Name, file and line of the traced function.
        self._co_fields: tuple[str, str, int] | None = None

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that runs this graph, if there is exactly one."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, module: GraphModule | None) -> None:
        self._owning_module = module

    @property
    def nodes(self) -> _node_list:
        """The nodes, in order."""
        return _node_list(self)

    def _number_nodes(self) -> None:
        for i, node in enumerate(self.nodes):
            node._order = i
        self._is_ordered = True

    def output_node(self) -> Node:
        """Return the node of the result.

        >>> import ndgrad
        >>> ndgrad.fx.symbolic_trace(lambda x: x).graph.output_node()
        output
        """
        node = next(iter(reversed(self.nodes)), None)
        if node is None or node.op != "output":
            raise AssertionError(
                f"Expected output node, got {'no node' if node is None else node.op} at the end of the graph. "
                "Call graph.output(...) last. [nd-fx-graph]"
            )
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of an op, in order; with `target`, those of that target.

        Args:
            op: kind of the node: `"placeholder"`, `"get_attr"`, `"call_function"`, `"call_method"`, `"call_module"` or
                `"output"`.
            target: target of the nodes. Required for `"call_function"`.
            sort: accepted as in torch; has no effect, because nodes are always in order.

        >>> import ndgrad
        >>> graph = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(ndgrad.relu(x))).graph
        >>> graph.find_nodes(op="call_function", target=ndgrad.relu)
        [relu, relu_1]
        """
        if op == "call_function" and target is None:
            raise AssertionError(
                "target must not be None for call_function op: find_nodes finds the calls of one function. "
                "[nd-fx-graph]"
            )
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # ----- making nodes -----

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a node at the insert point. `name` is changed where it is taken.

        Args:
            op: kind of the node: `"placeholder"`, `"get_attr"`, `"call_function"`, `"call_method"`, `"call_module"` or
                `"output"`.
            target: function, name of a method, or path of a module or value.
            args: arguments, in which nodes stand for their results.
            kwargs: keyword arguments.
            name: name of the node. It is changed if it is taken. The default comes from the target.
            type_expr: type annotation of the result.

        >>> import ndgrad
        >>> ndgrad.fx.Graph().create_node("placeholder", "x")
        x
        """
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(
                f"args must be a tuple and kwargs a dict, got {type(args).__name__} and {type(kwargs).__name__} for "
                f"{op}[{target}]. [nd-fx-graph]"
            )
        candidate = name if name is not None else self._target_to_str(target)
        unique = self._graph_namespace.create_name(candidate, None)
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(unique, node)
        self._insert(node)
        self._len += 1
        for hook in getattr(self._owning_module, "_create_node_hooks", ()):
            hook(node)
        return node

    def placeholder(self, name: str, type_expr: Any | None = None, default_value: Any = ...) -> Node:
        """Add an input. `*args` and `**kwargs` are names of the rest of the arguments.

        Args:
            name: name of the input.
            type_expr: type annotation of the result.
            default_value: default of the input. `...` means none.

        >>> import ndgrad
        >>> ndgrad.fx.Graph().placeholder("x", default_value=1.0).args
        (1.0,)
        """
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Add a read of a parameter, buffer or other value of the module.

        Args:
            qualified_name: path of the value in the module.
            type_expr: type annotation of the result.

        >>> import ndgrad
        >>> ndgrad.fx.Graph().get_attr("layer.weight")
        layer_weight
        """
        if self._owning_module is not None and not _has_path(self._owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule: "
                f"{qualified_name!r}. Assign it, or call add_submodule, before recompile().",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of the module at a path.

        Args:
            module_name: path of the module.
            args: arguments, in which nodes stand for their results.
            kwargs: keyword arguments.
            type_expr: type annotation of the result.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> graph.call_module("layers.0", (graph.placeholder("x"),)).args
        (x,)
        """
        if self._owning_module is not None and not _has_path(self._owning_module, module_name):
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule: "
                f"{module_name!r}. Call GraphModule.add_submodule to add the necessary submodule.",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a call of a method of the first argument.

        Args:
            method_name: name of the method.
            args: object, followed by the arguments of the method.
            kwargs: keyword arguments.
            type_expr: type annotation of the result.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> graph.call_method("sum", (graph.placeholder("x"), 0)).target
        'sum'
        """
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function.

        Args:
            the_function: function to call.
            args: arguments, in which nodes stand for their results.
            kwargs: keyword arguments.
            type_expr: type annotation of the result.
            name: name of the node. It is changed if it is taken. The default comes from the target.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> graph.call_function(ndgrad.relu, (graph.placeholder("x"),))
        relu
        """
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Add the output, which may nest nodes in containers.

        Args:
            result: node, or containers of nodes.
            type_expr: type annotation of the result.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> graph.output({"x": graph.placeholder("x")}).args
        ({'x': x},)
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Add a copy of a node of any graph. `arg_transform` maps its arguments to nodes of this graph.

        Args:
            node: node of any graph.
            arg_transform: function from nodes in its arguments to nodes of this graph.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> graph.node_copy(ndgrad.fx.Graph().placeholder("x"))
        x
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | tuple[Argument, Node] | None:
        """Add copies of all nodes of another graph except the output; return its result as nodes of this graph.

        Args:
            g: graph to copy.
            val_map: nodes of this graph for nodes of `g`. The copies are added to it.
            return_output_node: whether the output node of `g` is returned too.

        >>> import ndgrad
        >>> graph, other = ndgrad.fx.Graph(), ndgrad.fx.symbolic_trace(lambda x: x + 1).graph
        >>> x = graph.placeholder("input")
        >>> graph.graph_copy(other, {list(other.nodes)[0]: x})
        add
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        result = made.graph_copy(self, {}, return_output_node=True)
        made._codegen = copy.copy(self._codegen)
        if result is not None:
            value, old = result
            output = made.output(value, type_expr=old.type)
            output.meta = copy.copy(old.meta)
        if memo is not None:
            memo[id(self)] = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Nodes as plain tuples, with numbers in place of nodes."""
        numbers = {node: i for i, node in enumerate(self.nodes)}
        rows = [
            (n.name, n.op, n.target, _without_nodes(n.args, numbers), _without_nodes(n.kwargs, numbers), n.type)
            for n in self.nodes
        ]
        kept = {"is_wrapped": [i for i, n in enumerate(self.nodes) if n.meta.get("is_wrapped")]}
        return {"nodes": rows, "meta": kept, "codegen": self._codegen, "tracer_cls": self._tracer_cls}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(tracer_cls=state["tracer_cls"])  # type: ignore[misc]  # every attribute starts anew
        self._codegen = state["codegen"]
        made: list[Node] = []
        for name, op, target, args, kwargs, type_expr in state["nodes"]:
            given, named = _with_nodes(args, made), _with_nodes(kwargs, made)
            made.append(self.create_node(op, target, given, dict(named), name, type_expr))
        for i in state["meta"]["is_wrapped"]:
            made[i].meta["is_wrapped"] = True

    # ----- changing the list -----

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Make new nodes go before a node, or to the start; as a context manager, until its end.

        Args:
            n: node of this graph. None means the start.

        >>> import ndgrad
        >>> graph = ndgrad.fx.symbolic_trace(lambda x: x + 1).graph
        >>> with graph.inserting_before(graph.output_node()):
        ...     node = graph.call_function(ndgrad.relu, (list(graph.nodes)[1],))
        >>> list(graph.nodes)
        [x, add, relu, output]
        """
        if n is None:
            return self.inserting_after(self._root)
        self._check_own(n)
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Make new nodes go after a node, or to the end; as a context manager, until its end.

        Args:
            n: node of this graph. None means the end.

        >>> import ndgrad
        >>> graph = ndgrad.fx.symbolic_trace(lambda x: x + 1).graph
        >>> with graph.inserting_after(list(graph.nodes)[0]):
        ...     node = graph.placeholder("y")
        >>> list(graph.nodes)
        [x, y, add, output]
        """
        if n is None:
            return self.inserting_before(self._root)
        self._check_own(n)
        return _InsertPoint(self, n.append)

    def _check_own(self, n: Node) -> None:
        if n.graph is not self:
            raise AssertionError(f"Node {n} to insert at is not in this graph. [nd-fx-graph]")

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that no other node reads.

        Args:
            to_erase: node to remove.

        >>> import ndgrad
        >>> graph = ndgrad.fx.symbolic_trace(lambda x: x).graph
        >>> graph.erase_node(graph.output_node())
        >>> list(graph.nodes)
        [x]
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}! Give them another input first: replace_all_uses_with. [nd-fx-graph]"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph! [nd-fx-graph]")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self._owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True  # iterators that stand on it skip it
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove the nodes that neither are read nor have side effects; True if there were any.

        Args:
            is_impure_node: function that returns whether a node must stay. The default is `Node.is_impure`.

        >>> import ndgrad
        >>> graph = ndgrad.fx.symbolic_trace(lambda x: (x + 1, x * 2)[0]).graph
        >>> graph.eliminate_dead_code(), list(graph.nodes)
        (True, [x, add, output])
        """
        self.lint()
        must_stay = Node.is_impure if is_impure_node is None else is_impure_node
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not must_stay(node):
                self.erase_node(node)
                changed = True
        return changed

    def _call_replace_hooks(self, old: Node, new: Node, user: Node) -> None:
        for hook in getattr(self._owning_module, "_replace_hooks", ()):
            hook(old=old, new=new.name, user=user)

    # ----- checks -----

    def lint(self) -> None:
        """Raise if a node reads a later one, a name is taken twice, or a target is missing in the owning module.

        >>> import ndgrad
        >>> ndgrad.fx.symbolic_trace(lambda x: x + 1).graph.lint()
        """
        seen: set[Node] = set()
        names: set[str] = set()

        for node in self.nodes:
            if node.op not in _legal_ops:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}! [nd-fx-graph]")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph! [nd-fx-graph]")
            for read in node.all_input_nodes:
                if read.graph is not self:
                    raise RuntimeError(
                        f"Argument '{read}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        "node_copy() to remap values [nd-fx-graph]"
                    )
                if read not in seen:
                    raise RuntimeError(
                        f"Argument '{read}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}\n[nd-fx-graph]"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}! [nd-fx-graph]")
            seen.add(node)
            names.add(node.name)
            if self._owning_module is not None and node.op in ("call_module", "get_attr"):
                self._check_target(node)

    def _check_target(self, node: Node) -> None:
        from ndgrad.nn import Module  # needed for checks only

        found: Any = self._owning_module
        path = str(node.target).split(".")
        for i, part in enumerate(path):
            if not hasattr(found, part):
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{'.'.join(path[:i])} [nd-fx-graph]"
                )
            found = getattr(found, part)
        if node.op == "call_module" and not isinstance(found, Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {'.'.join(path)} of {'.'.join(path[:-1])} does not reference an "
                "nn.Module [nd-fx-graph]"
            )

    # ----- code and text -----

    def _target_to_str(self, target: Target | None) -> str:
        """Return the candidate for the name of a node."""
        if callable(target):
            name = getattr(target, "__name__", type(target).__name__)
        else:
            name = str(target)
            if name.startswith("__") and name.endswith("__") and len(name) > 4:
                name = name[2:-2]
        return _snake_case(name)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Let another `CodeGen` write the code of this graph.

        Args:
            codegen: writer of code.

        >>> import ndgrad
        >>> ndgrad.fx.Graph().set_codegen(ndgrad.fx.CodeGen())
        """
        self._codegen = codegen

    @contextmanager
    def _restoring_transformer(self, old: Callable[[list[str]], list[str]] | None) -> Iterator[None]:
        try:
            yield
        finally:
            self._codegen._body_transformer = old

    def on_generate_code(self, make_transformer: Callable[[Any], Callable[[list[str]], list[str]]]) -> Any:
        """Register a function of the lines of generated code; as a context manager, until its end.

        Args:
            make_transformer: function from the current transformer, or None, to the new one.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: x + 1)
        >>> with traced.graph.on_generate_code(lambda current: lambda lines: ["# added\\n", *lines]):
        ...     _ = traced.recompile()
        >>> "# added" in traced.code
        True
        """
        old = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(old)
        return self._restoring_transformer(old)

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of a call.

        Args:
            args: arguments of a call.
        """
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the result of a call for the value of the output.

        Args:
            out: value of the output.
        """
        return self._codegen.process_outputs(out)

    def python_code(
        self, root_module: str, *, verbose: bool = False, include_stride: bool = False, include_device: bool = False
    ) -> PythonCode:
        """Return the code of this graph, in which `root_module` is the expression of the module.

        Args:
            root_module: expression of the module, such as `"self"`.
            verbose: whether comments show shapes, and lines of the user.
            include_stride: whether these comments show strides.
            include_device: whether these comments show devices.

        >>> import ndgrad
        >>> graph = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x)).graph
        >>> "relu = ndgrad.relu(x)" in graph.python_code("self").src
        True
        """
        return self._codegen._gen_python_code(
            list(self.nodes),
            root_module,
            _Namespace(),
            verbose=verbose,
            include_stride=include_stride,
            include_device=include_device,
        )

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *(line for line in lines if line)])

    def print_tabular(self) -> None:
        """Print the nodes as a table.

        >>> import ndgrad
        >>> ndgrad.fx.symbolic_trace(lambda x: x.relu()).graph.print_tabular()
        opcode       name    target    args     kwargs
        -----------  ------  --------  -------  --------
        placeholder  x       x         ()       {}
        call_method  relu    relu      (x,)     {}
        output       output  output    (relu,)  {}
        """
        rows: list[tuple[str, ...]] = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        # As the package tabulate sets its plain tables: a heading is at least two shorter than its column.
        widths = [max(max(len(row[i]) for row in rows), len(rows[0][i]) + 2) for i in range(5)]
        rows.insert(1, tuple("-" * width for width in widths))
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _has_path(module: Any, path: str) -> bool:
    for part in path.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


class _Number(int):
    """The number of a node in a pickled graph."""


def _without_nodes(value: Argument, numbers: dict[Node, int]) -> Argument:
    return map_arg(value, lambda n: _Number(numbers[n]))


def _with_nodes(value: Argument, nodes: list[Node]) -> Argument:
    return map_aggregate(value, lambda leaf: nodes[leaf] if type(leaf) is _Number else leaf)
