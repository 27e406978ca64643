"""Symbolic tracing: run a function or module on proxies, and record its operations as a graph.

During a trace, calls of modules and reads of their parameters go through the tracer (see `ndgrad.fx._patches` for the
replaced names). A module that is a leaf (`Tracer.is_leaf_module`) becomes a `call_module` node; the forward of others
is traced. Python runs as it is, so a loop with a fixed number of steps is unrolled.
"""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import itertools
import math
import operator
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import pytree
from ndgrad.fx._code import _PyTreeCodeGen, _PyTreeInfo
from ndgrad.fx._patches import Patches, wrapped_functions, wrapped_methods
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.node import Argument, Node, _assert, _is_own
from ndgrad.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from ndgrad.nn.modules.container import Sequential
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter

__all__ = ["PH", "PHBase", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

F = TypeVar("F", bound=Callable[..., Any])

#: Flags of code with *args and **kwargs.
_REST = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_is_tracing: ContextVar[bool] = ContextVar("fx_is_tracing", default=False)


def is_fx_tracing() -> bool:
    """True while this thread traces a function.

    >>> import ndgrad
    >>> from ndgrad.fx._symbolic_trace import is_fx_tracing
    >>> is_fx_tracing()
    False
    """
    return _is_tracing.get()


is_fx_symbolic_tracing = is_fx_tracing


class PHBase:
    """A place in `concrete_args` whose value is not fixed.

    >>> import ndgrad
    >>> traced = ndgrad.fx.symbolic_trace(lambda d: d["a"] + d["b"], concrete_args={"d": {"a": ndgrad.fx.PH, "b": 3}})
    >>> traced({"a": 1, "b": 3})
    4
    """

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` whose placeholder takes metadata, and a name."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


#: Objects of classes of `ProxyableClassMeta` that hold proxies: identity -> (object, class, args, kwargs).
_Proxyable = tuple[Any, type[Any], tuple[Any, ...], dict[str, Any]]
_proxyable_classes: dict[type[Any], None] = {}


class ProxyableClassMeta(type):
    """Metaclass of objects that a trace records, if they are made with proxies, as a call of the class.

    Args:
        name: name of the class.
        bases: bases of the class.
        attrs: attributes of the class.

    >>> import ndgrad
    >>> class Pair(metaclass=ndgrad.fx.ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> ndgrad.fx.symbolic_trace(lambda x: Pair(x, 2 * x))(3).right
    6
    """

    def __init__(cls, name: str, bases: tuple[type[Any], ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if is_fx_tracing():
            found = [a for a in (*args, *kwargs.values()) if isinstance(a, Proxy)]
            if found:
                tracer = found[0].tracer
                if isinstance(tracer, Tracer):
                    tracer._made_objects[id(made)] = (made, cls, args, kwargs)
        return made


def _assert_is_none(value: Any, msg: str) -> None:
    """Raise AssertionError unless a value is None."""
    assert value is None, msg


class Tracer(TracerBase):
    """Recorder of functions and modules as graphs. Subclasses choose leaves and the form of arguments.

    Args:
        autowrap_modules: Python modules whose functions are recorded as single calls, as with `wrap`.
        autowrap_functions: functions that are recorded as single calls.
        param_shapes_constant: whether shapes of parameters are constants of the trace, so that code may branch on them.

    >>> import ndgrad
    >>> class Deep(ndgrad.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> print(Deep().trace(ndgrad.nn.ReLU()))
    graph():
        %input_1 : [num_users=1] = placeholder[target=input]
        %relu : [num_users=1] = call_function[target=ndgrad.nn.functional.relu](args = (%input_1,), kwargs = {...})
        return relu
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(f) for f in autowrap_functions}
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.root: Module = Module()
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = collections.defaultdict(int)
        self.node_name_to_scope: dict[str, tuple[str, Any]] = {}
        self.tensor_attrs: dict[int, tuple[Variable, str]] = {}
        self._made_objects: dict[int, _Proxyable] = {}
        self._names: dict[str, int] = collections.defaultdict(int)

    # ----- choices of subclasses -----

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """True if calls of a module are single nodes: by default, those of `nn`, except Sequential.

        Args:
            m: module that is called.
            module_qualified_name: its path in the root.
        """
        own = m.__module__.startswith(("ndgrad.nn", "ndgrad.ao.nn"))
        return own and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the path of a module in the root.

        Args:
            mod: module of the root.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError(
                    f"module is not installed as a submodule: {type(mod).__name__} is called, but is not a part of "
                    f"{type(self.root).__name__}. Assign it as an attribute of the module. [nd-fx-trace]"
                )
            return path
        found = next((name for name, module in self.root.named_modules() if module is mod), None)
        if found is None:
            raise NameError(
                f"module is not installed as a submodule: {type(mod).__name__} is called by a traced function. Trace a "
                "module that has it as an attribute. [nd-fx-trace]"
            )
        return found

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Record the call of a module: as one node if it is a leaf, else by running `forward`.

        Args:
            m: module that is called.
            forward: function that runs its forward.
            args: arguments of the call.
            kwargs: keyword arguments of the call.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            number = self.num_calls[path]
            self.num_calls[path] += 1
            key = path if number == 0 else f"{path}@{number}"
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return the value of a module's attribute during the trace: a proxy for a parameter.

        Args:
            attr: name of the attribute.
            attr_val: its value.
            parameter_proxy_cache: proxies of parameters so far, by path.
        """
        if isinstance(attr_val, Parameter):
            for name, parameter in self.root.named_parameters():
                if attr_val is parameter:
                    if name not in parameter_proxy_cache:
                        parameter_proxy_cache[name] = self._proxy_of_value(name, attr_val)
                    return parameter_proxy_cache[name]
        if self.proxy_buffer_attributes and isinstance(attr_val, Variable):
            for name, buffer in self.root.named_buffers():
                if attr_val is buffer:
                    if name not in parameter_proxy_cache:
                        parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {})
                    return parameter_proxy_cache[name]
        return attr_val

    def _proxy_of_value(self, name: str, value: Variable) -> Proxy:
        if not self.param_shapes_constant:
            return self.create_proxy("get_attr", name, (), {})
        return self.create_proxy(
            "get_attr", name, (), {}, proxy_factory_fn=lambda node: ParameterProxy(self, node, name, value)
        )

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return an unused name of the root: the prefix and a number.

        Args:
            prefix: beginning of the name.
        """
        while True:
            name = f"{prefix}{self._names[prefix]}"
            self._names[prefix] += 1
            if not hasattr(self.root, name):
                return name

    def create_arg(self, a: Any) -> Argument:
        """Return a value as an argument of a node. Tensors become reads of an attribute of the root.

        Args:
            a: Python value.
        """
        if isinstance(a, Parameter):
            name = next((n for n, p in self.root.named_parameters() if p is a), None)
            if name is None:
                raise NameError(
                    f"parameter is not a member of this module: a parameter of shape {tuple(a.shape)} is used by "
                    f"{type(self.root).__name__}. Assign it as an attribute of the module. [nd-fx-trace]"
                )
            return self.create_node("get_attr", name, (), {})
        if isinstance(a, Variable):
            return self._node_of_tensor(a)
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        if type(a) in _proxyable_classes and id(a) in self._made_objects:
            _, cls, args, kwargs = self._made_objects[id(a)]
            given, named = super().create_arg(args), super().create_arg(kwargs)
            return self.create_node("call_function", cls, given, named)
        return super().create_arg(a)

    def _node_of_tensor(self, tensor: Variable) -> Node:
        name = next((n for n, b in self.root.named_buffers() if b is tensor), None)
        if name is None and id(tensor) in self.tensor_attrs:
            name = self.tensor_attrs[id(tensor)][1]
        if name is None:
            name = self.get_fresh_qualname("_tensor_constant")
            self.tensor_attrs[id(tensor)] = (tensor, name)
            setattr(self.root, name, tensor)
        return self.create_node("get_attr", name, (), {})

    # ----- the trace -----

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """Return the graph of a module or function. `concrete_args` fixes arguments, by name.

        Args:
            root: module or function to trace.
            concrete_args: values of fixed arguments, by name.

        >>> import ndgrad
        >>> print(ndgrad.fx.Tracer().trace(lambda x, n: x if n > 2 else -x, {"n": 3}))
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %n_1 : [num_users=1] = placeholder[target=n_1]
            %eq : [num_users=1] = call_function[target=operator.eq](args = (%n_1, 3), kwargs = {})
            %_assert : [num_users=0] = call_function[target=...](args = (%eq, n has been specialized to have value 3 ...
            return x
        """
        token = _is_tracing.set(True)
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_tracing.reset(token)
            self.submodule_paths = None

    def _trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None) -> Graph:
        function: Any
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}. [nd-fx-trace]"
                )
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            self.root = Module()
            function = root
        self.graph = Graph(tracer_cls=type(self) if type(self) is Tracer else _picklable(type(self)))
        if hasattr(function, "__code__"):
            self.graph._co_fields = (
                function.__code__.co_name,
                function.__code__.co_filename,
                function.__code__.co_firstlineno,
            )
        self.num_calls.clear()
        self.tensor_attrs = {id(t): (t, name) for name, t in _plain_tensors(self.root)}
        if not isinstance(function, FunctionType):
            function = _as_function(function)
        scope = function.__globals__
        is_own = _is_own(str(function.__module__))
        function, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
        with Patches() as patches:
            self._patch_modules(patches)
            patches.replace_wrapped()
            patches.replace_recorded(scope, self._autowrap_function_ids)
            for module in self._autowrap_search:
                patches.replace_recorded(vars(module), self._autowrap_function_ids)
            result = function(*args)
            returned = None if is_own else getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=returned)
        return self.graph

    def _patch_modules(self, patches: Patches) -> None:
        """Send calls and attributes of modules in this thread through the tracer."""
        read, call = Module.__getattr__, Module.__call__
        thread = threading.get_ident()
        cache: dict[str, Any] = {}

        def module_getattr(module: Module, name: str) -> Any:
            value = read(module, name)
            return self.getattr(name, value, cache) if threading.get_ident() == thread else value

        def module_call(module: Module, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != thread:
                return call(module, *args, **kwargs)
            scope = getattr(getattr(module, "forward", module), "__globals__", None)
            if scope is not None:
                patches.replace_recorded(scope, self._autowrap_function_ids)
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        patches.replace_method(Module, "__getattr__", module_getattr)
        patches.replace_method(Module, "__call__", module_call)

    # ----- arguments -----

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """Add placeholders for the parameters of a function; return the function to call and its arguments.

        Args:
            root_fn: function to trace.
            is_module: whether the first parameter is the module.
            concrete_args: values of fixed arguments, by name or in order.
        """
        inner = inspect.unwrap(root_fn)
        code: CodeType = inner.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = iter(code.co_varnames)
        args: list[Any] = []
        skipped = 0
        if is_module:
            if total == 0:
                raise RuntimeError(
                    "``self`` argument cannot be part of *args expansion! Name it in the forward of the module. "
                    "[nd-fx-trace]"
                )
            skipped = 1
            next(names)
            args.append(self.root)
        signature = inspect.signature(inner)
        if _is_own(str(inner.__module__)):
            # Annotations of the package's own modules are texts for type checkers.
            bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
            signature = signature.replace(parameters=bare)
        own = [next(names) for _ in range(skipped, total)]
        if isinstance(concrete_args, tuple):
            if len(own) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(own)} arguments but got {len(concrete_args)} concrete arguments. "
                    "[nd-fx-trace]"
                )
            concrete_args = dict(zip(own, concrete_args, strict=True))
        args += [self._proxy_placeholder(name, concrete_args, signature) for name in own]
        if (code.co_kwonlyargcount == 0 and not code.co_flags & _REST) or (
            code.co_kwonlyargcount and not code.co_flags & _REST and concrete_args is None
        ):
            function: Any = _call_with_keywords(root_fn, code.co_argcount, own[len(own) - code.co_kwonlyargcount :])
        else:
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._proxy_placeholder("*" + next(names), concrete_args, signature))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._proxy_placeholder("**" + next(names), concrete_args, signature))
            function = _with_plain_parameters(inner, len(args))
        if concrete_args is not None and any(_is_nested(args[i]) for i in range(skipped, len(args))):
            return self._flatten_args(function, args, skipped, ["self", *own] if is_module else own)
        return function, args

    def _flatten_args(
        self, function: Callable[..., Any], args: list[Any], skipped: int, names: list[str]
    ) -> tuple[Any, list[Any]]:
        """Return a function of the leaves of nested arguments, and let the code of the graph flatten its arguments."""
        flat, in_spec = pytree.tree_flatten(list(args[skipped:]))
        leaves = [leaf for leaf in flat if isinstance(leaf, Proxy)]
        if len(leaves) != len(flat):
            raise AssertionError(
                "concrete_args: a leaf of a nested argument is not a placeholder. [nd-fx-trace]"
            )
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(list(names), in_spec, None))

        def flatten_fn(*values):  # type: ignore[no-untyped-def]  # annotations would be the graph's
            tree = pytree.tree_unflatten(list(values[skipped:]), in_spec)
            out, out_spec = pytree.tree_flatten(function(*values[:skipped], *tree))
            codegen = self.graph._codegen
            if isinstance(codegen, _PyTreeCodeGen):
                codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        fixed = [self._concrete_leaves.get(id(leaf), leaf) for leaf in flat]
        return flatten_fn, [*args[:skipped], *fixed]

    def _proxy_placeholder(
        self, name: str, concrete_args: dict[str, Any] | None, signature: inspect.Signature
    ) -> Any:
        """Return the argument for a parameter: a proxy, or a fixed value with a placeholder that checks it."""
        parameter = signature.parameters.get(name)
        default: tuple[Any, ...] = ()
        if name[0] != "*" and parameter is not None and parameter.default is not parameter.empty:
            default = (parameter.default,)
        if concrete_args is not None and name in concrete_args:
            return self._fix_argument(name, concrete_args[name], default)
        annotation = None if parameter is None or parameter.annotation is parameter.empty else parameter.annotation
        return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)

    def _fix_argument(self, name: str, value: Any, default: tuple[Any, ...]) -> Any:
        """Add placeholders for the leaves of a fixed argument; nodes check that later calls give the same values."""
        numbers = itertools.count(1)
        is_nested = _is_nested(value)

        def fix(leaf: Any) -> Any:
            if isinstance(leaf, PHWithMeta):
                made = self.create_proxy("placeholder", leaf.ph_key or f"{name}_{next(numbers)}", (), {})
                made.node.meta.update({k: v for k, v in vars(leaf).items() if k != "ph_key"})
                return made
            made = self.create_proxy("placeholder", f"{name}_{next(numbers)}", () if is_nested else default, {})
            if leaf is PH:
                return made
            text = f"{name} has been specialized to have value {leaf} but got another value"
            if leaf is None:
                self.create_proxy("call_function", _assert_is_none, (made, text), {})
            elif isinstance(leaf, (bool, int, float, str)):
                self.create_proxy("call_function", _assert, (operator.eq(made, leaf), text), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is "
                    "up to the user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            if not is_nested:
                return leaf
            self._concrete_leaves[id(made)] = leaf
            return made

        return pytree.tree_map(fix, value)

    @functools.cached_property
    def _concrete_leaves(self) -> dict[int, Any]:
        """Fixed values of leaves of nested arguments, by the identity of their proxy."""
        return {}


def _picklable(cls: type[Any]) -> type[Any] | None:
    """Return a class, or None if a pickled graph could not name it."""
    return None if "<locals>" in cls.__qualname__ else cls


def _plain_tensors(root: Module) -> Iterator[tuple[str, Variable]]:
    """Yield the tensors that are plain attributes of modules, with their paths."""
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Variable):
                yield f"{path}.{name}" if path else name, value


def _is_nested(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict)) or (
        not isinstance(value, (Proxy, Module)) and not pytree.tree_structure(value).is_leaf()
    )


def _as_function(function: Any) -> FunctionType:
    """Return a bound method, a partial or a callable object as a function with the same parameters."""
    if isinstance(function, MethodType):
        signature = inspect.signature(function)
    elif isinstance(function, functools.partial):
        signature = inspect.signature(function)
        fixed = {k for k in function.keywords if k in signature.parameters}
        signature = signature.replace(parameters=[p for n, p in signature.parameters.items() if n not in fixed])
    elif callable(function):
        signature = inspect.signature(function)
    else:
        raise AssertionError(
            f"Expected FunctionType, got {type(function)}. Give a module or a function. [nd-fx-trace]"
        )
    shown, given = [], []
    for p in signature.parameters.values():
        star = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        shown.append(f"{star}{p.name}" + ("" if p.default is p.empty else f"=_defaults[{p.name!r}]"))
        given.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else f"{star}{p.name}")
        if p.kind is p.KEYWORD_ONLY and not any(s.startswith("*") for s in shown[:-1]):
            shown.insert(-1, "*")
    scope: dict[str, Any] = {
        "_function": function,
        "_defaults": {p.name: p.default for p in signature.parameters.values()},
        "__name__": getattr(function, "__module__", "") or "",
    }
    exec(f"def forward({', '.join(shown)}):\n    return _function({', '.join(given)})", scope)
    made: FunctionType = scope["forward"]
    return made


def _call_with_keywords(function: Callable[..., Any], positional: int, keywords: list[str]) -> Callable[..., Any]:
    """Return a function of positional arguments, of which the last are keywords of `function`."""
    if not keywords:
        return function

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args[: len(args) - len(keywords)], **dict(zip(keywords, args[-len(keywords) :], strict=True)))

    return call


def _with_plain_parameters(function: Any, count: int) -> FunctionType:
    """Return a function whose *args and **kwargs are plain parameters, so that one proxy can stand for each."""
    code: CodeType = function.__code__
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_REST
    )
    made = FunctionType(plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__annotations__ = function.__annotations__
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def wrap(fn_or_name: str | F) -> Any:
    """Record calls of a global function as one node instead of tracing into it. Call it at the top level of a module,
    with the function or its name; usable as a decorator.

    Args:
        fn_or_name: global function, or its name.

    >>> import ndgrad
    >>> ndgrad.fx.wrap("len")  # doctest: +SKIP
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name, got "
            f"{type(fn_or_name).__name__}. [nd-fx-trace]"
        )
    name: str = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError(
            f"wrap must be called at the top level of a module, and this call is in {frame.f_code.co_name}. "
            "[nd-fx-trace]"
        )
    scope = frame.f_globals
    if isinstance(fn_or_name, str) and name not in scope and not hasattr(builtins, name):
        raise RuntimeError(f"wrap: this module has no function {name!r}. [nd-fx-trace]")
    wrapped_functions[(id(scope), name)] = scope
    return fn_or_name


def wrap_method(cls: type[Any], name: str) -> None:
    """Record calls of a method on proxies as `call_method` nodes."""
    wrapped_methods.append((cls, name))


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """Return a module that runs the recorded graph of a module or function.

    Args:
        root: module or function to trace.
        concrete_args: values of fixed arguments, by name or in order. The function may branch on them.

    >>> import ndgrad
    >>> traced = ndgrad.fx.symbolic_trace(lambda x, flag: x.sin() if flag else x.cos(), concrete_args={"flag": True})
    >>> print(traced.code.strip().splitlines()[-1].strip())
    return sin
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]  # a tuple is accepted too
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)
