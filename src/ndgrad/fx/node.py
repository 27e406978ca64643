"""A node of a graph: one operation, with its arguments, its users and its place in the list of nodes.

    placeholder     an input: `target` is the name of the parameter, `args` its default value
    get_attr        a value of the module: `target` is its path
    call_function   a call of the function `target`
    call_module     a call of the module at the path `target`
    call_method     a call of the method named `target`, on the first argument
    output          the result, `args[0]`

The nodes of a graph form a ring of links that starts at the graph's root node. Arguments may nest tuples, lists,
dictionaries and slices. Every node among them counts the node that reads it among its `users`.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.core.op_observers import InPlaceForm
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import devices, package_name
from ndgrad._src.ops.table import Op, table
from ndgrad._src.tensor.functions import describe
from ndgrad._src.tensor.public import publish
from ndgrad.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from ndgrad.fx.graph import Graph
    from ndgrad.fx.operator_schemas import ArgsKwargsPair
    from ndgrad.nn import Module

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

#: A function, the path of a module or value, or the name of a method or input.
Target: TypeAlias = Callable[..., Any] | str
#: An argument of a node: a node, a constant, or nested containers of them.
Argument: TypeAlias = Any
BaseArgumentTypes: TypeAlias = Any

#: Classes of constants that stand in a graph as they are.
base_types: tuple[type[Any], ...] = (
    str, int, float, bool, complex, dtype, Variable, devices.device, devices.memory_format, devices.layout,
)  # fmt: skip

#: The public function, under its name in the package.
_assert: Callable[..., Any] = publish(describe)[0]["_assert"]

_legal_ops = frozenset(("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"))
#: Functions that `eliminate_dead_code` keeps even if nothing reads their result.
_side_effectful_functions: set[Callable[..., Any]] = {operator.setitem, _assert}

#: Operators of `x += y` and the like, by the name of their function, with their text.
IN_PLACE_OPERATORS = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imatmul": "{} @= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])


def has_side_effect(fn: F) -> F:
    """Mark a function so that `eliminate_dead_code` keeps its calls. Usable as a decorator.

    Args:
        fn: function to mark.

    >>> import ndgrad
    >>> @ndgrad.fx.has_side_effect
    ... def log(x):
    ...     print(x)
    >>> ndgrad.fx.Graph().call_function(log).is_impure()
    True
    """
    _side_effectful_functions.add(fn)
    return fn


# ----- names ----------------------------------------------------------------------------------------------------------


def _is_own(module: str) -> bool:
    return module == "ndgrad" or module.startswith("ndgrad.")


def resolve_own(path: str) -> Any:
    """Return the object at a path such as `ndgrad.nn.functional.relu`, or None."""
    found: Any = sys.modules.get("ndgrad")
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def _get_qualified_name(func: Any) -> str:
    """Return the path of a function in printed code, under the package's printed name."""
    name = getattr(func, "__name__", type(func).__name__)
    if getattr(builtins, name, None) is func:
        return str(name)
    is_ours = isinstance(func, (Op, InPlaceForm)) or type(func).__name__ == "FunctionOverload"
    if not is_ours and hasattr(func, "overloadpacket"):
        return f"{package_name.package}.ops.{func}"
    if is_ours:
        whole = func.name.removesuffix("_all")
        if whole != func.name and whole in table:  # a reduction over all elements
            return f"{package_name.package}.ops.aten.{whole}.default"
        overload = "dim" if f"{func.name}_all" in table else "default"
        return f"{package_name.package}.ops.aten.{func.name}.{overload}"
    module = getattr(func, "__module__", None) or _find_module(func)
    if _is_own(module):
        for last in (getattr(func, "__qualname__", name), name):
            if resolve_own(f"{module}.{last}") is func:
                name = last
                break
        return f"{package_name.package}{module.removeprefix('ndgrad')}.{name}"
    return f"{module}.{name}"


def _find_module(func: Any) -> str:
    """Return the module of a function that does not name it, such as a method of a C type."""
    owner = getattr(func, "__objclass__", None) or getattr(func, "__self__", None)
    return str(getattr(owner, "__module__", None) or type(func).__module__)


def _type_repr(obj: Any) -> str:
    """Return the text of a type annotation."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        if _is_own(obj.__module__):
            short = f"ndgrad.{obj.__qualname__}"
            path = short if resolve_own(short) is obj else f"{obj.__module__}.{obj.__qualname__}"
            return package_name.package + path.removeprefix("ndgrad")
        return f"{obj.__module__}.{obj.__qualname__}"
    if obj is Ellipsis:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


# ----- arguments ------------------------------------------------------------------------------------------------------


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """Return an argument with `fn` applied to every node in it.

    Args:
        a: argument of a node.
        fn: function of a node.

    >>> import ndgrad
    >>> x = ndgrad.fx.Graph().placeholder("x")
    >>> ndgrad.fx.map_arg((x, [x, 1]), lambda node: node.name)
    ('x', ['x', 1])
    """
    return map_aggregate(a, lambda leaf: fn(leaf) if isinstance(leaf, Node) else leaf)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """Return an argument with `fn` applied to every leaf of its tuples, lists, dictionaries and slices.

    Args:
        a: argument of a node.
        fn: function of a leaf.

    >>> from ndgrad.fx.node import map_aggregate
    >>> map_aggregate({"a": [1, (2, slice(3, None))]}, lambda n: n and n * 10)
    {'a': [10, (20, slice(30, None, None))]}
    """
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict([(key, map_aggregate(item, fn)) for key, item in a.items()])
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def _format_arg(arg: Argument) -> str:
    """Return an argument as a printed graph shows it: nodes as `%name`, strings without quotes."""
    if isinstance(arg, tuple) and not hasattr(arg, "_fields"):
        items = ", ".join(map(_format_arg, arg))
        return f"({items},)" if len(arg) == 1 else f"({items})"
    if isinstance(arg, list):
        return f"[{', '.join(map(_format_arg, arg))}]"
    if isinstance(arg, dict):
        return f"{{{', '.join(f'{key}: {_format_arg(item)}' for key, item in arg.items())}}}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


# ----- nodes ----------------------------------------------------------------------------------------------------------


class Node:
    """One operation of a graph. `Graph` makes nodes; see the docstring of this file for the kinds.

    Args:
        graph: graph of the node.
        name: its unique name.
        op: its kind.
        target: function, name of a method, or path of a module or value.
        args: arguments, in which nodes stand for their results.
        kwargs: keyword arguments.
        return_type: type annotation of the result.

    >>> import ndgrad
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x) + 1)
    >>> relu = list(traced.graph.nodes)[1]
    >>> relu.op, relu.name, relu.args, list(relu.users)
    ('call_function', 'relu', (x,), [add])
    """

    graph: Graph
    name: str
    op: str
    target: Target
    users: dict[Node, None]
    type: Any | None
    meta: dict[str, Any]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = {name!r}] target {target} has type {type(target).__name__} but a "
                    "Callable is expected. Give the function itself. [nd-fx-graph]"
                )
        elif op not in _legal_ops:
            raise AssertionError(
                f"op {op!r} is not in _legal_ops. Use one of {', '.join(sorted(_legal_ops - {'root'}))}. [nd-fx-graph]"
            )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = {name!r}] target {target} has type {type(target).__name__} but a str "
                f"is expected. A node of op {op!r} is given the name or path of its target. [nd-fx-graph]"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users = {}
        self.meta = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self._order = 0
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._input_nodes: dict[Node, None] = {}
        self._update_args_kwargs(args, kwargs)

    # ----- place in the list -----

    @property
    def next(self) -> Node:
        """The following node."""
        return self._next

    @property
    def prev(self) -> Node:
        """The preceding node."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move a node of the same graph to the place before this one.

        Args:
            x: node to move.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> x.prepend(y)
        >>> list(graph.nodes)
        [y, x]
        """
        if self.graph is not x.graph:
            raise AssertionError(
                f"Attempting to move a Node into a different Graph: {x} and {self}. Use graph.node_copy. [nd-fx-graph]"
            )
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._is_ordered = False

    def append(self, x: Node) -> None:
        """Move a node of the same graph to the place after this one.

        Args:
            x: node to move.

        >>> import ndgrad
        >>> graph = ndgrad.fx.Graph()
        >>> x, y = graph.placeholder("x"), graph.placeholder("y")
        >>> y.append(x)
        >>> list(graph.nodes)
        [y, x]
        """
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    @property
    def _sort_key(self) -> int:
        """Position in the graph."""
        if not self.graph._is_ordered:
            self.graph._number_nodes()
        return self._order

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # ----- arguments -----

    @property
    def args(self) -> tuple[Argument, ...]:
        """Positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, new: Sequence[Argument]) -> None:
        self._update_args_kwargs(tuple(new), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """Keyword arguments. Assign a new dictionary to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, new: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, new)

    def _update_args_kwargs(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        """Set the arguments, and update the users of the nodes in the old and the new ones."""
        for old in self._input_nodes:
            old.users.pop(self, None)
        found: dict[Node, None] = {}

        def note(node: Node) -> Node:
            found[node] = None
            node.users.setdefault(self)
            return node

        self._args = tuple([map_arg(a, note) for a in args])
        self._kwargs = map_arg(dict(kwargs), note)
        self._input_nodes = found

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument.

        Args:
            idx: position of the argument.
            arg: new argument.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: x + 1)
        >>> node = list(traced.graph.nodes)[1]
        >>> node.update_arg(1, 5)
        >>> node.args
        (x, 5)
        """
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument before the position `idx`.

        Args:
            idx: position of the new argument.
            arg: new argument.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.sum(x))
        >>> node = list(traced.graph.nodes)[1]
        >>> node.insert_arg(1, 0)
        >>> node.args
        (x, 0)
        """
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args) (index {idx} of {len(self.args)} arguments of "
                f"node {self}). [nd-fx-graph]"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one keyword argument.

        Args:
            key: name of the argument.
            arg: new argument.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.sum(x))
        >>> node = list(traced.graph.nodes)[1]
        >>> node.update_kwarg("dim", 0)
        >>> node.kwargs
        {'dim': 0}
        """
        self.kwargs = {**self.kwargs, key: arg}

    def _replace(self, old: Node, new: Argument) -> None:
        args = map_arg(self._args, lambda n: new if n is old else n)
        kwargs = map_arg(self._kwargs, lambda n: new if n is old else n)
        self._update_args_kwargs(args, kwargs)

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Replace a node among the arguments by another one.

        Args:
            old_input: node to replace.
            new_input: node in its place.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x, y: x + x)
        >>> x, y, add, _ = traced.graph.nodes
        >>> add.replace_input_with(x, y)
        >>> add.args
        (y, y)
        """
        self.graph._call_replace_hooks(old_input, new_input, self)
        self._replace(old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Replace this node by another one in the arguments of its users; return the changed users.

        Args:
            replace_with: node that replaces this one.
            delete_user_cb: function that returns whether a user changes. The default is all users.
            propagate_meta: whether `meta` is copied to the other node, which must have none.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x) * 2)
        >>> x, relu, mul, _ = traced.graph.nodes
        >>> relu.replace_all_uses_with(x)
        [mul]
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    f"has .meta keys ({', '.join(replace_with.meta)}). Clear them first. [nd-fx-graph]"
                )
            replace_with.meta.update(self.meta)
        changed = []
        for user in list(self.users):
            if delete_user_cb is None or delete_user_cb(user):
                self.graph._call_replace_hooks(self, replace_with, user)
                user._replace(self, replace_with)
                changed.append(user)
        return changed

    # ----- facts -----

    @property
    def stack_trace(self) -> str | None:
        """The user's lines that led to this node, if the tracer recorded them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """True if the node must stay even if nothing reads its result.

        In addition to torch's rules, calls that write their argument in place count: removing `x.add_(1)` would change
        the values that later nodes read.

        Args:
            impure_random: accepted as in torch; has no effect, because random functions have no other side effect.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x))
        >>> [node.is_impure() for node in traced.graph.nodes]
        [True, False, True]
        """
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            is_mutable = schema is not None and schema.is_mutable
            return is_mutable or self.target in _side_effectful_functions or _writes(self, _written_name(self.target))
        if self.op == "call_method":
            return _writes(self, str(self.target))
        if self.op == "call_module":
            owner = self.graph.owning_module
            if owner is None:
                raise AssertionError(
                    f"self.graph.owning_module not set for purity check of {self}. Make a GraphModule of the graph. "
                    "[nd-fx-graph]"
                )
            module = owner.get_submodule(str(self.target))
            return bool(getattr(module, "_is_impure", False) or getattr(module, "inplace", False))
        return False

    def normalized_arguments(
        self,
        root: Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """Return the arguments by the names of the function's parameters, or None if they are not known.

        Args:
            root: module of the graph.
            arg_types: accepted as in torch; has no effect, because functions have one signature.
            kwarg_types: accepted as in torch; has no effect.
            normalize_to_only_use_kwargs: whether all arguments are given by keyword.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.sum(x, 0))
        >>> list(traced.graph.nodes)[1].normalized_arguments(traced, normalize_to_only_use_kwargs=True).kwargs["dim"]
        0
        """
        from ndgrad.fx.operator_schemas import normalize_function, normalize_module  # it imports this module

        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs
            )
        if self.op == "call_module":
            return normalize_module(root, str(self.target), self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    # ----- text -----

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    @staticmethod
    def _pretty_print_target(target: Any) -> str:
        """Return a function's path as a printed graph shows it."""
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) in ("builtins", "_operator"):
            return f"{target.__module__.removeprefix('_')}.{target.__name__}"
        return _get_qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the node as a line of a printed graph.

        Args:
            placeholder_names: list to which a placeholder adds its name.
            maybe_return_typename: list whose first item receives the annotation of the output.
            include_tensor_metadata: whether dtype and shape are shown, if they are known.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x))
        >>> list(traced.graph.nodes)[1].format_node()
        '%relu : [num_users=1] = call_function[target=ndgrad.relu](args = (%x,), kwargs = {})'
        """
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        meta = self.meta.get("tensor_meta") if include_tensor_metadata else None
        shown = "" if self.type is None else f"{_type_repr(self.type)} "
        if meta is not None and hasattr(meta, "dtype"):
            shown = f"{meta.dtype}{list(meta.shape)} "
        head = f"%{self.name} : {shown}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target}{f' : {_type_repr(self.type)}' if self.type else ''}")
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        target = f"[target={self._pretty_print_target(self.target)}]"
        if self.op == "get_attr":
            return head + target
        return f"{head}{target}(args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"


def _written_name(function: Any) -> str:
    """Return the name of a function that tells whether it writes; `iadd_` for `operator.iadd`, and "" for `and_`."""
    name = str(getattr(function, "__name__", ""))
    if getattr(function, "__module__", None) != "_operator":
        return name
    return f"{name}_" if name in IN_PLACE_OPERATORS else ""


def _writes(node: Node, name: str) -> bool:
    """True if a call writes one of its arguments: `x.add_(1)`, `relu(x, inplace=True)`, `out=`."""
    in_place = (name.endswith("_") and not name.endswith("__")) or name in ("__setitem__", "set_", "setattr", "delattr")
    return in_place or bool(node.kwargs.get("inplace")) or node.kwargs.get("out") is not None
