"""Proxies: values during a trace. Each operation on a proxy adds a node to the graph and returns another proxy.

Operators of Python are methods of `Proxy`. The package's functions reach it by `__torch_function__`. Attributes are
proxies of their own, and become a node when they are used: `x.shape` reads an attribute, `x.view(2)` calls a method.
A proxy has no value, so a branch or a loop that depends on one cannot be recorded, and raises.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import dis
import enum
import itertools
import operator
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Self

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import package_name
from ndgrad.fx._call_forms import normalize_call
from ndgrad.fx._code import magic_methods, reflectable_magic_methods
from ndgrad.fx.graph import Graph
from ndgrad.fx.node import Argument, Node, Target, _assert, base_types, map_aggregate
from ndgrad.fx.traceback import get_current_meta, has_preserved_node_meta

__all__ = [
    "Attribute", "GraphAppendingTracer", "MetaProxy", "ParameterProxy", "Proxy", "Scope", "ScopeContextManager",
    "TraceError", "TracerBase",
]  # fmt: skip


class TraceError(ValueError):
    """A function does something with a proxy that a graph cannot record.

    >>> import ndgrad
    >>> ndgrad.fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    Traceback (most recent call last):
    ...
    ndgrad.fx.proxy.TraceError: symbolically traced variables cannot be used as inputs to control flow...
    """


class Scope:
    """Path and class of the module whose forward is being traced.

    Args:
        module_path: path of the module.
        module_type: class of the module.
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Block in which a tracer's scope is another one.

    Args:
        scope: scope of the tracer, which is changed.
        current_scope: scope in the block.
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._previous = copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.module_path = self._previous.module_path
        self._scope.module_type = self._previous.module_type


class TracerBase:
    """Base of tracers: turns Python values into arguments of nodes, and nodes into proxies."""

    graph: Graph
    #: True: nodes keep the user's lines in `meta["stack_trace"]`.
    record_stack_traces: bool = False
    #: True: raise if a traced call writes an argument in place.
    check_mutable_operations: bool = False
    #: True: `assert` on a proxy becomes a node.
    trace_asserts: bool = False
    #: True: reads of buffers become nodes.
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    #: Modules whose forward is being traced: path -> (path, class).
    module_stack: collections.OrderedDict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a node to the graph. Override it to see, check or change every node.

        Args:
            kind: kind of the node.
            target: function, name of a method, or path of a module or value.
            args: arguments, in which nodes stand for their results.
            kwargs: keyword arguments.
            name: name of the node. The default comes from the target.
            type_expr: type annotation of the result.
        """
        if kind == "call_function" and self.check_mutable_operations:
            from ndgrad.fx.operator_schemas import check_for_mutable_operation  # optional

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if getattr(self, "module_stack", None) and kind != "placeholder":
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if has_preserved_node_meta():
            node.meta.update({key: copy.copy(value) for key, value in get_current_meta().items()})
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy of a node. Override it to use another class.

        Args:
            node: node of the graph.
        """
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a node for Python values, and return its proxy.

        Args:
            kind: kind of the node.
            target: function, name of a method, or path of a module or value.
            args: arguments, with proxies and other Python values.
            kwargs: keyword arguments.
            name: name of the node. The default comes from the target.
            type_expr: type annotation of the result.
            proxy_factory_fn: function that makes the proxy of the node. The default is `proxy`.
        """
        given, named = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(given, tuple) or not isinstance(named, dict):
            raise AssertionError(
                f"create_arg returned {type(given).__name__} for the arguments of {target}, and a tuple and a dict are "
                "expected. Override it for single values only. [nd-fx-trace]"
            )
        node = self.create_node(kind, target, given, named, name, type_expr)
        made = self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)
        if self.record_stack_traces and not made.node.stack_trace:
            lines = self._user_lines()
            if lines:
                made.node.stack_trace = "".join(traceback.format_list(lines)).strip()
        return made

    def _user_lines(self) -> list[traceback.FrameSummary]:
        """Return the frames of the traced code, outermost first, without those of this package."""
        frames: list[traceback.FrameSummary] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            name = str(frame.f_globals.get("__name__", ""))
            if code.co_name == "trace" and name == "ndgrad.fx._symbolic_trace":
                return frames[::-1]
            if not name.startswith("ndgrad.") and not code.co_filename.startswith("<ndgrad"):
                frames.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return frames[::-1]

    def create_arg(self, a: Any) -> Argument:
        """Return a Python value as an argument of a node: proxies as nodes, containers item by item.

        A class may define `__fx_create_arg__(tracer)`. A named tuple or dataclass with proxies becomes a node that
        makes it. Other classes raise NotImplementedError; override this method to record them.

        Args:
            a: Python value.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(type(a), "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = tuple([self.create_arg(item) for item in a])
            if hasattr(a, "_fields"):
                return self.create_node("call_function", type(a), items, {})
            return items
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, Mapping):
            return {self._create_key(key): self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            parts = [self.create_arg(part) for part in (a.start, a.stop, a.step)]
            return range(*parts)
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            named = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), named)
        if a is None or a is ... or isinstance(a, (*base_types, np.generic, enum.Enum)):
            return a
        raise NotImplementedError(
            f"argument of type: {type(a)} cannot stand in a graph. Override Tracer.create_arg, define "
            "__fx_create_arg__(tracer) in the class, or pass the value in as an argument of the traced function. "
            "[nd-fx-trace]"
        )

    def _create_key(self, key: Any) -> Argument:
        found = self.create_arg(key)

        def refuse(leaf: Any) -> Any:
            if isinstance(leaf, Node):
                raise RuntimeError(
                    f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {found}. Use a list of "
                    "pairs. [nd-fx-trace]"
                )
            return leaf

        return map_aggregate(found, refuse)

    def to_bool(self, obj: Proxy) -> bool:
        """Return the truth value of a proxy. Override it to choose a branch.

        Args:
            obj: proxy in question.
        """
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow: the branch depends on "
            f"{obj.node.format_node()}. Fix the argument with concrete_args=, use ndgrad.where or "
            f"{package_name.package}.cond, or make the module a leaf of the tracer. [nd-fx-trace]"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return an iterator over a proxy. Override it if the number of items is known.

        Args:
            obj: proxy in question.
        """
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            f"**kwargs function argument: {obj.node.format_node()} has no length during a trace. Index it (x[0], "
            "x[1]), unpack it into names (a, b = x), or override Tracer.iter. [nd-fx-trace]"
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a proxy that is used as **kwargs. Override it if they are known.

        Args:
            obj: proxy in question.
        """
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Tracer that adds nodes to an existing graph, for proxies made from its nodes.

    Args:
        graph: graph to extend.

    >>> import ndgrad
    >>> graph = ndgrad.fx.Graph()
    >>> x = ndgrad.fx.Proxy(graph.placeholder("x"))
    >>> (ndgrad.relu(x) + 1).node.args
    (relu, 1)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}


class Proxy:
    """Value of a trace, which stands for the result of a node.

    Args:
        node: node of the graph.
        tracer: tracer that records operations. The default adds nodes to the graph of the node.

    >>> import ndgrad
    >>> graph = ndgrad.fx.Graph()
    >>> x = ndgrad.fx.Proxy(graph.placeholder("x"))
    >>> y = ndgrad.sum(x.float() * 2, dim=0)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %float_1 : [num_users=1] = call_method[target=float](args = (%x,), kwargs = {})
        %mul : [num_users=1] = call_function[target=operator.mul](args = (%float_1, 2), kwargs = {})
        %sum_1 : [num_users=0] = call_function[target=ndgrad.sum](args = (%mul,), kwargs = {dim: 0})
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        # Names that a tracer sets in __init__ are missing while an object is copied or unpickled.
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {k!r}")
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # A copy stands for the same value: the graph has no node for a copy of unknown data.
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Proxy]:
        frame = sys._getframe(1)
        count = _unpacked_count(frame)
        if count is not None:
            made = [self.tracer.create_proxy("call_function", operator.getitem, (self, i), {}) for i in range(count)]
            return iter(made)
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        if self.tracer.trace_asserts and _is_assert(frame):
            self.tracer.create_proxy("call_function", _assert, (self, _assert_message(frame)), {})
            return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            f"{package_name.package}.fx.wrap('len') at module scope, or use x.size(0). [nd-fx-trace]"
        )

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def keys(self) -> Any:
        """Keys of the value, for `**x`."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: tuple[type[Any], ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Proxy:
        """Record a call of one of the package's functions, or of a method of a tensor, on proxies."""
        kwargs = {} if kwargs is None else kwargs
        tracers: dict[TracerBase, None] = {}

        def note(leaf: Any) -> Any:
            if isinstance(leaf, Proxy):
                tracers[leaf.tracer] = None
            return leaf

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}. "
                "Use proxies of one graph in a call. [nd-fx-trace]"
            )
        tracer = next(iter(tracers))
        qualified = str(getattr(orig_method, "__qualname__", ""))
        name = str(getattr(orig_method, "__name__", type(orig_method).__name__))
        if qualified.startswith("Tensor."):
            return tracer.create_proxy("call_method", qualified.partition(".")[2], args, kwargs)
        args, kwargs = normalize_call(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=tracer.graph._target_to_str(name))


class MetaProxy(Proxy):
    """Proxy that also holds an example of its value, for tracers that look at shapes.

    Args:
        node: node of the graph.
        tracer: tracer that records operations. The default adds nodes to the graph of the node.
        fake_mode: mode in which the example was made.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode


class Attribute(Proxy):
    """Attribute of a proxy. It becomes a node when it is used, so that a method call is a single node.

    Args:
        root: proxy with the attribute.
        attr: name of the attribute.
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # made on first use
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Proxy of a parameter whose shape is known: `shape`, `size`, `dim`, `ndim`, `numel` are constants.

    Args:
        tracer: tracer that records operations.
        node: node of the graph.
        name: path of the parameter.
        param: the parameter.
    """

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Variable) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: int) -> Any:
        """Return the sizes of the parameter, or the size of a dimension.

        Args:
            args: dimension, if any.
        """
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.ndim

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.numel()


# ----- operators ------------------------------------------------------------------------------------------------------


def _define_operator(name: str) -> None:
    function = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (self, *args), {})

    method.__name__ = method.__qualname__ = f"__{name.strip('_')}__"
    setattr(Proxy, method.__name__, method)


def _define_reflected_operator(name: str) -> None:
    function = getattr(operator, name)

    def method(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    method.__name__ = method.__qualname__ = f"__r{name.strip('_')}__"
    setattr(Proxy, method.__name__, method)


for _name in magic_methods:
    _define_operator(_name)
for _name in reflectable_magic_methods:
    _define_reflected_operator(_name)


# ----- the statement around a proxy -----------------------------------------------------------------------------------


def _instructions_from(frame: FrameType) -> list[dis.Instruction]:
    """Return the current instruction of a frame and those after it."""
    found = list(dis.get_instructions(frame.f_code))
    at = next((i for i, instruction in enumerate(found) if instruction.offset == frame.f_lasti), len(found))
    return found[at:]


def _unpacked_count(frame: FrameType) -> int | None:
    """Return the number of names if the frame runs `a, b = proxy`, else None."""
    instructions = _instructions_from(frame)
    if instructions and instructions[0].opname == "UNPACK_SEQUENCE":
        return int(instructions[0].argval)
    return None


def _is_assert(frame: FrameType) -> bool:
    """True if the frame tests the condition of an assert statement."""
    following = [i.opname for i in _instructions_from(frame)[:6]]
    return any("JUMP" in name for name in following[:3]) and any(
        name in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT") for name in following
    )


def _assert_message(frame: FrameType) -> str:
    """Return the constant message of an assert statement, or an empty text."""
    following = _instructions_from(frame)[:9]
    for before, after in itertools.pairwise(following):
        if before.opname in ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT") and after.opname == "LOAD_CONST":
            return str(after.argval)
    return ""
