"""A module that runs a graph by Python code written from it.

Every GraphModule has a class of its own, whose `forward` is the compiled code. After a change of the graph,
`recompile()` writes the code anew. The source is known to `linecache`, so tracebacks and debuggers show its lines.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import package_name
from ndgrad.fx._code import PythonCode, _names_of_all_code, _PyTreeCodeGen
from ndgrad.fx.graph import Graph
from ndgrad.nn.modules.module import Module
from ndgrad.nn.parameter import Parameter

__all__ = ["GraphModule"]

_numbers = itertools.count()


class _Source:
    """Compiled code with its text in `linecache`, which forgets it together with this object."""

    def __init__(self, code: PythonCode, function: str) -> None:
        self.code = code
        file = f"<eval_with_key>.{next(_numbers)}"
        lines = code.src.splitlines(keepends=True)
        linecache.cache[file] = (len(code.src), None, lines, file)
        weakref.finalize(self, linecache.cache.pop, file, None)
        scope = dict(code.globals)
        exec(compile(code.src, file, "exec"), scope)
        self.function: Callable[..., Any] = scope[function]


def _find(module: Any, path: str) -> Any:
    """Return the value at a path; AttributeError if there is none."""
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _copy_path(source: Module, target: Module, path: str) -> None:
    """Copy the value at a path to another module, with plain modules on the way."""
    *parents, name = path.split(".")
    for part in parents:
        inner = getattr(source, part)
        if inner is getattr(target, part, None):
            return  # the parent was copied as a whole
        if part not in target._modules:
            setattr(target, part, Module())
        source, target = inner, getattr(target, part)
    _assign(target, name, getattr(source, name), source)


def _assign(owner: Module, name: str, value: Any, source: Any = None) -> None:
    """Set an attribute of a module. A tensor that is no parameter becomes a buffer."""
    if isinstance(value, Variable) and not isinstance(value, Parameter):
        hidden = source is not None and name in getattr(source, "_non_persistent_buffers_set", ())
        owner.register_buffer(name, value, persistent=not hidden)
    else:
        setattr(owner, name, value)


def _assign_path(target: Module, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for part in parents:
        if not hasattr(target, part):
            setattr(target, part, Module())
        target = getattr(target, part)
    _assign(target, name, value)


class GraphModule(Module):
    """Module that runs a graph.

    Args:
        root: module, or dictionary by path, with the values that the graph reads.
        graph: graph to run.
        class_name: name of the class of the result.
        args, kwargs: arguments of the constructor of a subclass.

    >>> import ndgrad
    >>> traced = ndgrad.fx.symbolic_trace(ndgrad.nn.Sequential(ndgrad.nn.Linear(2, 2), ndgrad.nn.ReLU()))
    >>> isinstance(traced, ndgrad.fx.GraphModule)
    True
    >>> print(traced.code.strip())
    def forward(self, input):
        input_1 = input
        _0 = getattr(self, "0")(input_1);  input_1 = None
        _1 = getattr(self, "1")(_0);  _0 = None
        return _1
    """

    _source: _Source
    _graph: Graph

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # A class of its own carries the compiled forward, which must not be seen by other graph modules.
        base = next(c for c in cls.__mro__ if "_is_own_class" not in vars(c))
        made = type(base.__name__, (base,), {"_is_own_class": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        reads = [str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for path in dict.fromkeys(reads):
                _copy_path(root, self, path)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``! "
                        f"It has {', '.join(root) or 'no entries'}. [nd-fx-graph]"
                    )
            # Short paths first: an entry for a module must not replace one for a part of it.
            for path in sorted(dict.fromkeys(reads), key=lambda p: p.count(".")):
                _assign_path(self, path, root[path])
        else:
            raise RuntimeError(
                f"Unsupported type {type(root).__name__} passed for root! Give a module or a dictionary. [nd-fx-graph]"
            )
        self.graph = graph
        self._tracer_cls = graph._tracer_cls
        self._tracer_extras = graph._tracer_extras or {}
        self._set_hooks()

    def _set_hooks(self) -> None:
        self.__dict__.update(_replace_hooks=[], _create_node_hooks=[], _erase_node_hooks=[], _deepcopy_hooks=[])

    # ----- graph and code -----

    @property
    def graph(self) -> Graph:
        """The graph. Call `recompile()` after a change; an assignment does so by itself."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(
                f"Expected a Graph instance, but got {type(g).__name__}. Give a graph of {package_name.package}.fx. "
                "[nd-fx-graph]"
            )
        self.__dict__["_graph"] = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of `forward`."""
        return self._source.code.src

    def recompile(self) -> PythonCode:
        """Write and compile the code of the graph. Needed after every change of the graph.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: x + 1)
        >>> list(traced.graph.nodes)[1].update_arg(1, 10)
        >>> _ = traced.recompile()
        >>> traced(1)
        11
        """
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self.__dict__["_in_spec"] = codegen.pytree_info.in_spec
            self.__dict__["_out_spec"] = codegen.pytree_info.out_spec
        source = _Source(self._graph.python_code("self"), codegen._func_name)
        self.__dict__["_source"] = source
        type(self).forward = source.function  # the class is this module's own
        return source.code

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """Print the code as a class, with shapes and lines of the user where they are known; return it.

        Args:
            print_output: whether the text is printed.
            include_stride: whether comments show strides.
            include_device: whether comments show devices.
            colored: accepted as in torch; has no effect, because the text has no colors.

        >>> import ndgrad
        >>> text = ndgrad.fx.symbolic_trace(lambda x: x + 1).print_readable(print_output=False)
        >>> "add = x + 1" in text
        True
        """
        code = self._graph.python_code(
            "self", verbose=True, include_stride=include_stride, include_device=include_device
        )
        lines = code.src.lstrip("\n").rstrip(" ").splitlines()
        body = "\n".join(f"    {line}".rstrip() if line.strip() else "" for line in lines)
        text = f"class {self._get_name()}({package_name.package}.nn.Module):\n{body}\n"
        for module in self.children():
            if isinstance(module, GraphModule):
                inner = module.print_readable(False, include_stride, include_device)
                text += "\n".join(f"    {line}" if line else "" for line in f"\n{inner}".splitlines()) + "\n"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        shown = super().__repr__()
        return (
            f"{shown}\n{self.code}\n"
            "# To see more debug info, please use `graph_module.print_readable()`"
        )

    # ----- parts -----

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a path, with plain modules on the way; False if a part of the path is no module.

        Args:
            target: path of the new module.
            m: module to add.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: x)
        >>> traced.add_submodule("blocks.first", ndgrad.nn.ReLU()), traced.blocks.first
        (True, ReLU())
        """
        *parents, name = target.split(".")
        owner: Module = self
        for part in parents:
            inner = getattr(owner, part, None)
            if inner is None:
                inner = Module()
                setattr(owner, part, inner)
            if not isinstance(inner, Module):
                return False
            owner = inner
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Delete the module at a path; False if there is none.

        Args:
            target: path of the module.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(ndgrad.nn.Sequential(ndgrad.nn.ReLU()))
        >>> traced.delete_submodule("0"), traced.delete_submodule("0")
        (True, False)
        """
        *parents, name = target.split(".")
        owner: Any = self
        for part in parents:
            owner = getattr(owner, part, None)
            if not isinstance(owner, Module):
                return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Delete the modules that the graph does not read, and those that hold none that it reads.

        >>> import ndgrad
        >>> traced = ndgrad.fx.symbolic_trace(lambda x: x)
        >>> _ = traced.add_submodule("extra", ndgrad.nn.ReLU())
        >>> traced.delete_all_unused_submodules()
        >>> list(traced.children())
        []
        """
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            path = str(node.target).split(".")
            used.update(".".join(path[:i]) for i in range(1, len(path) + 1))
            if node.op == "call_module":
                # A called module needs its parts, and so does a list or dictionary that is read as a value.
                used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(str(node.target)).named_modules())
            elif isinstance(found := _find(self, str(node.target)), Module):
                used.update(f"{node.target}.{name}" for name, _ in found.named_modules())
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ----- copies and files -----

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        memo[id(self)] = None
        values = {k: v for k, v in self.__dict__.items() if k not in _OWN}
        root = Module()
        root.__dict__.update(copy.deepcopy(values, memo))
        graph = copy.deepcopy(self._graph)
        made = _with_values(type(self), root.__dict__, graph, type(self).__name__)
        memo[id(self)] = made
        made.__dict__["_deepcopy_hooks"] = list(self._deepcopy_hooks)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        # Own dictionaries of parts over the same parts: a change of the copy's parts leaves this module as it is.
        values = {k: copy.copy(v) if k.startswith("_") and isinstance(v, dict) else v for k, v in self.__dict__.items()}
        values = {k: v for k, v in values.items() if k not in _OWN}
        return _with_values(type(self), values, copy.deepcopy(self._graph), type(self).__name__)

    def __reduce__(self) -> Any:
        values = {k: v for k, v in self.__dict__.items() if k not in _OWN}
        return _restore, (_base_of(type(self)), values, self._graph, type(self).__name__)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a Python package: code, weights, and parts that are not plain layers as files.

        Args:
            folder: path of the package.
            module_name: name of the class in it.

        >>> import ndgrad, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ndgrad.fx.symbolic_trace(ndgrad.nn.Sequential(ndgrad.nn.ReLU())).to_folder(folder)
        """
        from ndgrad.serialization import save  # needed for files only

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        save(self.state_dict(), place / "state_dict.pt")
        package = package_name.package
        lines = [f"class {module_name}({package}.nn.Module):", "    def __init__(self):", "        super().__init__()"]
        here = "Path(__file__).with_name"
        for name, module in self.named_children():
            save(module, place / f"{name}.pt")
            lines.append(
                f"        self.add_module({name!r}, {package}.load({here}({f'{name}.pt'!r}), weights_only=False))"
            )
        for name, parameter in self._parameters.items():
            if parameter is not None:
                made = f"{package}.empty({list(parameter.shape)!r}, dtype={parameter.dtype!r})"
                lines.append(f"        self.register_parameter({name!r}, {package}.nn.Parameter({made}))")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                made = f"{package}.empty({list(buffer.shape)!r}, dtype={buffer.dtype!r})"
                lines.append(f"        self.register_buffer({name!r}, {made})")
        lines.append(f"        self.load_state_dict({package}.load({here}('state_dict.pt')))")
        code = self._source.code
        known = _names_of_all_code()
        imports = ["from pathlib import Path", f"import {package}"]
        imports += [_import_line(name, obj) for name, obj in code.globals.items() if name not in known]
        imports += [custom.import_str for custom in known.values()]
        body = "\n".join(f"    {line}" if line.strip() else "" for line in code.src.splitlines())
        (place / "module.py").write_text("\n".join([*dict.fromkeys(imports), "", *lines, body, ""]), encoding="utf-8")
        (place / "__init__.py").write_text("from .module import *\n", encoding="utf-8")

    # ----- hooks on changes of the graph -----

    _replace_hooks: list[Callable[..., object]]
    _create_node_hooks: list[Callable[..., object]]
    _erase_node_hooks: list[Callable[..., object]]
    _deepcopy_hooks: list[Callable[..., object]]

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[..., object]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[..., object]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[..., object]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[..., object]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[..., object]) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[..., object]) -> None:
        self._deepcopy_hooks.remove(f)


#: Entries of a graph module's dictionary that are made anew for a copy.
_OWN = frozenset(
    ("_graph", "_source", "_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks")
)


def _base_of(cls: type[Any]) -> type[Any]:
    return next(c for c in cls.__mro__ if "_is_own_class" not in vars(c))


def _with_values(cls: type[Any], values: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    """Return a graph module with these attributes, without copying the parts that its graph reads."""
    made: GraphModule = GraphModule.__new__(_base_of(cls))
    Module.__init__(made)
    type(made).__name__ = name
    made.__dict__.update(values)
    made._set_hooks()
    made.graph = graph
    return made


def _restore(cls: type[Any], values: dict[str, Any], graph: Graph, name: str) -> GraphModule:
    """Return a graph module from its pickled parts."""
    return _with_values(cls, values, graph, name)


def _import_line(name: str, obj: Any) -> str:
    """Return the line that imports a global variable of generated code."""
    module, own = getattr(obj, "__module__", None), getattr(obj, "__qualname__", getattr(obj, "_name", None))
    if module is None or own is None or not str(own).isidentifier():
        raise ValueError(
            f"to_folder: the code needs {name} = {obj!r}, which cannot be imported. Use functions and classes at the "
            "top level of a module. [nd-fx-graph]"
        )
    return f"from {module} import {own} as {name}"


#: Key of `meta` for attributes that passes of torch keep.
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Copy the value at a path to another module. Libraries with graph modules of their own call it."""
    _copy_path(from_module, to_module, target)


class _CodeOnlyModule(Module):
    """A module with the given attributes and no code of its own, from which a graph module is made again."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        vars(self).update(body)
