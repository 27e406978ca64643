"""Python code of a graph: names of values, the text of each node, and the forms of the function around them."""

from __future__ import annotations

import builtins
import cmath
import enum
import inspect
import keyword
import math
import re
import types
import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import ndgrad
from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.foundations import devices, package_name, pytree
from ndgrad._src.foundations.sizes import Size
from ndgrad.fx import _pytree as fx_pytree
from ndgrad.fx.node import IN_PLACE_OPERATORS, Argument, Node, _get_qualified_name, _is_own, _type_repr, map_arg

if TYPE_CHECKING:
    from ndgrad._src.foundations.pytree import TreeSpec

#: Operators of Python, by the name of their function in `operator`, with their text.
magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}",
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}",
    "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
#: Operators whose left operand may be a constant and whose right operand a proxy.
reflectable_magic_methods = {
    name: magic_methods[name]
    for name in "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split()
}
inplace_methods = IN_PLACE_OPERATORS

#: Abbreviations of dtypes in readable code.
_DTYPES = {
    "bfloat16": "bf16", "float64": "f64", "float32": "f32", "float16": "f16", "complex64": "c64", "complex128": "c128",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "bool": "b8", "uint8": "u8", "uint16": "u16",
    "uint32": "u32", "uint64": "u64",
}  # fmt: skip


class _CustomBuiltin(NamedTuple):
    """A name of every generated module: its import, and the object."""

    import_str: str
    obj: Any


def _names_of_all_code() -> dict[str, _CustomBuiltin]:
    package = package_name.package
    return {
        "inf": _CustomBuiltin("from math import inf", math.inf),
        "nan": _CustomBuiltin("from math import nan", math.nan),
        "NoneType": _CustomBuiltin("NoneType = type(None)", type(None)),
        package: _CustomBuiltin(f"import {package}", ndgrad),
        "device": _CustomBuiltin(f"from {package} import device", devices.device),
        "fx_pytree": _CustomBuiltin(f"import {package}.fx._pytree as fx_pytree", fx_pytree),
        "pytree": _CustomBuiltin(f"import {package}.utils._pytree as pytree", pytree),
    }


_RESERVED = frozenset(("inf", "nan", "NoneType", "ndgrad", "torch", "device", "fx_pytree", "pytree"))


class _Namespace:
    """Names that are taken, each by at most one object."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: object | None) -> str:
        """Return a valid name, unused so far, that resembles `candidate`; for a known object, its name."""
        if obj is not None and obj in self._names:
            return self._names[obj]
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        numbered = re.fullmatch(r"(.*)_(\d+)", name)
        base, number = (numbered[1], int(numbered[2])) if numbered else (name, 0)
        if name in self._used or self._is_illegal_name(name, obj):
            number = max(self._counts[base], 0 if name not in self._used else number)
            while name in self._used or self._is_illegal_name(name, obj):
                number += 1
                name = f"{base}_{number}"
        self._used.add(name)
        self._counts[base] = max(self._counts[base], number)
        if obj is not None:
            self._names[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Give an object the name it has."""
        self._names.setdefault(obj, name)

    def _rename_object(self, obj: object, name: str) -> None:
        self._names[obj] = name
        self._used.add(name)

    @staticmethod
    def _is_illegal_name(name: str, obj: object) -> bool:
        """True for keywords, and for names of builtins and of every generated module that mean another object."""
        if keyword.iskeyword(name):
            return True
        if name in vars(builtins):
            return vars(builtins)[name] is not obj
        if name in _RESERVED:
            known = _names_of_all_code().get(name)
            return known is None or obj is not known.obj
        return False


@dataclass
class PythonCode:
    """Code of a graph, and the global variables that it needs.

    Args:
        src: text of the function.
        globals: global variables of the function.

    >>> import ndgrad
    >>> code = ndgrad.fx.symbolic_trace(lambda x: x + 1).graph.python_code("self")
    >>> print(code.src.strip())
    def forward(self, x):
        add = x + 1;  x = None
        return add
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


def _format_target(base: str, target: str) -> str:
    """Return the expression of the attribute at a path: `self.a.b`, or getattr for parts that are no identifiers."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def _snake_case(text: str) -> str:
    """Return `BatchNorm2d` as `batch_norm2d`."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


def _last_uses(nodes: Sequence[Node]) -> dict[Node, list[Node]]:
    """Return for each node the values that nothing after it reads."""
    found: dict[Node, list[Node]] = defaultdict(list)
    seen: set[Node] = set()
    for node in reversed(nodes):
        dead: list[Node] = []

        def note(n: Node, dead: list[Node] = dead) -> Node:
            if n not in seen:
                seen.add(n)
                dead.append(n)
            return n

        map_arg(node.args, note)
        map_arg(node.kwargs, note)
        if not node.users and node.op not in ("placeholder", "output"):
            dead.append(node)
        found[node] = dead
    return found


@dataclass
class _Writer:
    """State of one generation of code: names of values, and the global variables met so far."""

    namespace: _Namespace
    globals: dict[str, Any] = field(default_factory=dict)
    wrapped: dict[str, None] = field(default_factory=dict)

    def name(self, node: Node) -> str:
        return self.namespace.create_name(node.name, node)

    def add_global(self, hint: str, obj: Any) -> str:
        """Return the expression of an object that the code needs."""
        if self._is_reachable(obj, hint):
            return hint
        name = self.namespace.create_name(hint.replace(".", "_"), obj if _is_hashable(obj) else None)
        if self.globals.get(name) is not obj and name in self.globals:
            name = self.namespace.create_name(name, None)
        self.globals[name] = obj
        return name

    @staticmethod
    def _is_reachable(obj: Any, path: str) -> bool:
        """True if the path, which starts at the package, leads to the object."""
        first, *parts = path.split(".")
        if first != package_name.package or obj is devices.device:
            return first == path and vars(builtins).get(path) is obj
        found: Any = ndgrad
        for part in parts:
            found = getattr(found, part, None)
        return found is obj

    def type_text(self, annotation: Any) -> str:
        """Return a type annotation as an expression."""
        if isinstance(annotation, list):  # parameters of a Callable
            return f"[{','.join(map(self.type_text, annotation))}]"
        if isinstance(annotation, types.UnionType):
            return "|".join(map(self.type_text, typing.get_args(annotation)))
        origin = getattr(annotation, "__origin__", None)
        if origin is None or isinstance(annotation, str):
            return self.add_global(_type_repr(annotation), annotation)
        alias = getattr(annotation, "__name__", None) or getattr(annotation, "_name", None)
        if getattr(annotation, "__module__", "") == "typing" and alias is not None:
            owner = getattr(typing, "Union" if origin is typing.Union else alias, origin)
            name = self.add_global(f"typing.{'Union' if origin is typing.Union else alias}", owner)
        else:
            name = self.add_global(_type_repr(origin), origin)
        inner = ",".join("..." if a is Ellipsis else self.type_text(a) for a in typing.get_args(annotation))
        return f"{name}[{inner}]" if inner else name

    def show(self, value: Argument) -> str:
        """Return an argument as an expression."""
        if isinstance(value, Node):
            return self.name(value)
        if isinstance(value, enum.Enum):
            return f"{self.add_global(_type_repr(type(value)), type(value))}.{value.name}"
        if value is None or value is Ellipsis or type(value) in (str, int, bool, float, bytes, range):
            return repr(value)
        if isinstance(value, tuple):
            if isinstance(value, Size):
                return f"({''.join(f'{n}, ' for n in value).strip()})" if len(value) == 1 else repr(tuple(value))
            items = [self.show(item) for item in value]
            if hasattr(value, "_fields"):
                return f"{self.add_global(_get_qualified_name(type(value)), type(value))}({', '.join(items)})"
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.show, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{self.show(key)}: {self.show(item)}' for key, item in value.items())}}}"
        if isinstance(value, slice):
            return f"slice({self.show(value.start)}, {self.show(value.stop)}, {self.show(value.step)})"
        if type(value) is complex:
            return repr(value) if cmath.isfinite(value) else f"complex({value.real!r}, {value.imag!r})"
        if isinstance(value, (dtype, devices.device, devices.layout, devices.memory_format)):
            return repr(value)
        if isinstance(value, type) or inspect.isroutine(value):
            return self.add_global(_get_qualified_name(value), value)
        if isinstance(value, np.generic):
            return self.add_global(f"_{type(value).__name__}_constant", value)
        return self.add_global(f"_{_snake_case(type(value).__name__)}", value)

    def call(self, function: str, args: Iterable[Argument], kwargs: dict[str, Argument]) -> str:
        given = [self.show(a) for a in args] + [f"{key} = {self.show(a)}" for key, a in kwargs.items()]
        return f"{function}({', '.join(given)})"


def _is_hashable(obj: Any) -> bool:
    try:
        hash(obj)
    except TypeError:
        return False
    return True


def _tensor_text(meta: Any, include_stride: bool, include_device: bool) -> str | None:
    """Return shape and dtype of a tensor, or of its metadata, as in `f32[2, 3]`."""
    if not hasattr(meta, "shape") or not hasattr(meta, "dtype"):
        return None
    text = f"{_DTYPES.get(str(meta.dtype).rpartition('.')[2], meta.dtype)}[{', '.join(map(str, meta.shape))}]"
    stride = getattr(meta, "stride", None)
    if include_stride and stride is not None:
        text += f"[{', '.join(map(str, stride() if callable(stride) else stride))}]"
    if include_device and hasattr(meta, "device"):
        text += str(meta.device)
    return text


class CodeGen:
    """Writes the Python function of a graph. Subclasses change its signature, its result, or the form of its inputs.

    >>> import ndgrad
    >>> class Boxed(ndgrad.fx.CodeGen):
    ...     def gen_fn_def(self, free_vars, returns):
    ...         return f"def forward(self, args_list){returns}:\\n    {', '.join(free_vars)} = args_list"
    ...     def process_inputs(self, *inputs):
    ...         return inputs[0]
    >>> traced = ndgrad.fx.symbolic_trace(lambda x, y: x - y)
    >>> traced.graph.set_codegen(Boxed())
    >>> _ = traced.recompile()
    >>> traced([5, 3])
    2
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the line that starts the function. `free_vars` are its parameters, with annotations and defaults.

        Args:
            free_vars: parameters of the function, with annotations and defaults.
            maybe_return_annotation: text of the return annotation, or an empty text.
        """
        if not free_vars or free_vars[0].split(" ")[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: str) -> str:
        """Return the statement that returns the result, given as an expression.

        Args:
            output_args: expression of the result.
        """
        return f"return {output_args}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for the arguments of a call.

        Args:
            args: arguments of a call.
        """
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result of a call for the value of the output node.

        Args:
            outputs: value of the output node.
        """
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return further global variables of the code, as pairs of a name and an object."""
        return []

    def _gen_python_code(
        self,
        nodes: Sequence[Node],
        root_module: str,
        namespace: _Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
    ) -> PythonCode:
        writer = _Writer(namespace)
        for name, custom in _names_of_all_code().items():
            writer.globals[name] = custom.obj
        for name, obj in self.additional_globals():
            writer.add_global(name, obj)
        free_vars: list[str] = []
        body: list[str] = []
        returns = ""
        last = _last_uses(nodes)
        trace: str | None = ""
        for node in nodes:
            note = _tensor_text(node.meta.get("val", node.meta.get("tensor_meta")), include_stride, include_device)
            written = f': "{note}"' if verbose and note else ""
            if not written and node.type is not None:
                written = f" : {writer.type_text(node.type)}"
            if verbose and node.op not in ("placeholder", "output"):
                if node.stack_trace != trace:
                    trace = node.stack_trace
                    body.append(f"\n# {_summarize_trace(trace)}\n" if trace else _NO_TRACE)
            if node.op == "placeholder":
                default = "" if not node.args else f" = {writer.show(node.args[0])}"
                free_vars.append(f"{node.target}{written}{default}")
                raw = str(node.target).replace("*", "")
                if raw != writer.name(node):
                    body.append(f"{writer.name(node)} = {raw}\n")
                continue
            if node.op == "output":
                if node.type is not None:
                    returns = f" -> {writer.type_text(node.type)}"
                body.append(self._write_output(writer, node))
                continue
            line = _write_node(writer, node, root_module, written)
            dead = [writer.name(n) for n in last[node]]
            body.append(line + (f";  {' = '.join([*dead, 'None'])}\n" if dead else "\n"))
        if not body:
            body.append("pass\n")
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        wraps = "\n".join(
            f'{package_name.package}.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped
        )
        head = self.gen_fn_def(free_vars, returns)
        lines = "".join(body).split("\n")
        text = "\n".join(f"    {line}" for line in lines)
        return PythonCode(f"\n{wraps}\n\n{head}\n{text}", writer.globals)

    def _write_output(self, writer: _Writer, node: Node) -> str:
        return f"{self.generate_output(writer.show(node.args[0]))}\n"


_NO_TRACE = "# No stacktrace found for following nodes\n"


def _summarize_trace(trace: str) -> str:
    """Return the last of the user's lines in a recorded trace, as one comment."""
    found = re.findall(r'File "(.+)", line (\d+), in (\S+)\n\s*(.*)', trace)
    if not found:
        return trace.strip().splitlines()[-1]
    file, line, function, code = found[-1]
    return f"File: {file}:{line} in {function}, code: {code.strip()}"


def _write_node(writer: _Writer, node: Node, root: str, annotation: str) -> str:
    """Return the statement of a call or of a value of the module."""
    name = f"{writer.name(node)}{annotation}"
    if node.op == "call_method":
        receiver = writer.show(node.args[0])
        if not isinstance(node.args[0], Node):
            receiver = f"({receiver})"
        return f"{name} = {writer.call(_format_target(receiver, str(node.target)), node.args[1:], node.kwargs)}"
    if node.op == "call_module":
        return f"{name} = {writer.call(_format_target(root, str(node.target)), node.args, node.kwargs)}"
    if node.op == "get_attr":
        return f"{name} = {_format_target(root, str(node.target))}"
    function: Any = node.target
    short = getattr(function, "__name__", "")
    if getattr(function, "__module__", None) == "_operator" and not node.kwargs:
        shown = [writer.show(a) for a in node.args]
        if short == "pow" and shown[0].startswith("-"):
            shown[0] = f"({shown[0]})"  # a sign binds less tightly than the power
        if short in magic_methods and len(shown) == magic_methods[short].count("{}"):
            return f"{name} = {magic_methods[short].format(*shown)}"
        if short in inplace_methods and len(shown) == inplace_methods[short].count("{}"):
            return f"{inplace_methods[short].format(*shown)};  {name} = {shown[0]}"
    if function is getattr and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
        return f"{name} = {_format_target(writer.show(node.args[0]), node.args[1])}"
    called = writer.add_global(_get_qualified_name(function), function)
    if node.meta.get("is_wrapped", False):
        writer.wrapped[called] = None
    return f"{name} = {writer.call(called, node.args, node.kwargs)}"


# ----- nested arguments -----------------------------------------------------------------------------------------------


class _PyTreeInfo(NamedTuple):
    """Parameters of the traced function, and the structures of its arguments and result."""

    orig_args: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec | None


class _PyTreeCodeGen(CodeGen):
    """Code for a function whose arguments are nested containers: placeholders are their leaves."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return fx_pytree.tree_flatten_spec(inputs, self.pytree_info.in_spec)

    def process_outputs(self, out: Any) -> Any:
        if self.pytree_info.out_spec is None:
            return out
        leaves = list(out) if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = self.pytree_info.orig_args
        leaves = [v.partition(" ")[0].partition(":")[0] for v in free_vars]
        has_self = bool(names) and names[0] == "self"
        own = names[1:] if has_self else names
        head = super().gen_fn_def(list(names), maybe_return_annotation)
        if not leaves:
            return head
        given = f"fx_pytree.tree_flatten_spec([{', '.join(own)}], self._in_spec)"
        return f"{head}\n    {', '.join(leaves)}, = {given}"

    def generate_output(self, output_args: str) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args}, self._out_spec)"


def _is_from_torch(obj: Any) -> bool:
    """True if an object is the package's own."""
    return _is_own(str(getattr(obj, "__module__", "")))
