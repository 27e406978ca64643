"""Signatures of ops in torch's notation: `f(Tensor x, int[2] size=[1, 2], *, float eps=1e-05) -> Tensor`.

A schema is parsed from text (`parse_schema`) or read from the annotations of a function (`infer_schema`). It binds the
arguments of a call, converts them to the declared types, and prints as torch prints it.
"""

from __future__ import annotations

import collections.abc
import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ndgrad
from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.devices import device

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "SchemaType", "infer_schema", "parse_schema"]

#: Types of the notation, with their name in the printed form of a type.
_BASES = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool", "str": "str",
    "Scalar": "number", "complex": "complex", "ScalarType": "int", "Device": "Device", "Layout": "int",
    "MemoryFormat": "int", "Generator": "Generator", "DeviceIndex": "int", "Any": "Any",
}  # fmt: skip
_REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class SchemaType:
    """A type of a schema: a base type, or `Optional` or `List` of another one.

    >>> from ndgrad.library.schema import parse_schema
    >>> str(parse_schema("f(int[2]? size) -> Tensor").arguments[0].type)
    'Optional[List[int]]'
    """

    name: str
    of: SchemaType | None = None
    size: int | None = None

    def __str__(self) -> str:
        return _BASES[self.name] if self.of is None else f"{self.name}[{self.of}]"

    __repr__ = __str__

    @property
    def annotation_str(self) -> str:
        """The type in Python's notation."""
        return str(self)

    def kind(self) -> str:
        """Return torch's name for the kind of type."""
        return f"{self.name}Type"

    def getElementType(self) -> SchemaType:
        """Return the type inside `Optional` or `List`."""
        if self.of is None:
            raise RuntimeError(f"{self} has no element type [nd-type]")
        return self.of

    def text(self, alias: AliasInfo | None = None) -> str:
        """Return the type in the notation of schemas."""
        if self.of is None:
            return self.name + (str(alias) if alias is not None else "")
        if self.name == "Optional":
            return self.of.text(alias) + "?"
        return f"{self.of.text(alias)}[{'' if self.size is None else self.size}]"

    @property
    def base(self) -> str:
        """The base type inside all brackets."""
        return self.name if self.of is None else self.of.base

    @property
    def holds_tensors(self) -> bool:
        """True for tensors, and for optional tensors and lists of them."""
        return self.base == "Tensor"

    def convert(self, value: Any) -> Any:
        """Return a value as this type; raise TypeError for values that do not fit."""
        if self.of is not None:
            if self.name == "Optional":
                return None if value is None else self.of.convert(value)
            if self.size is not None and not isinstance(value, (list, tuple)):
                return [self.of.convert(value)] * self.size
            if not isinstance(value, (list, tuple)):
                raise _mismatch(f"{value!r} is no list")
            return [self.of.convert(v) for v in value]
        return _convert_base(self.name, value)


def _mismatch(reason: str) -> TypeError:
    """Return the exception for a value of another type; the error of the call quotes the reason."""
    return TypeError(reason)


def _convert_base(name: str, value: Any) -> Any:
    if name in ("int", "SymInt", "DeviceIndex"):
        return operator.index(value)
    if name == "float":
        if isinstance(value, (Variable, str, bytes)) or not hasattr(type(value), "__float__"):
            raise _mismatch(f"{value!r} is no float")
        return float(value)
    if name == "Device" and isinstance(value, (str, int)):
        return device(value)
    if name == "ScalarType" and isinstance(value, type) and value in (float, int, bool, complex):
        return {float: ndgrad.get_default_dtype(), int: ndgrad.int64, bool: ndgrad.bool}.get(value, ndgrad.complex64)
    if name == "Scalar" and isinstance(value, Variable) and value.dim() == 0:
        return value.item()
    classes: dict[str, Any] = {
        "Tensor": Variable, "bool": bool, "str": str, "Scalar": (int, float, complex, bool),
        "complex": (int, float, complex), "ScalarType": dtype, "Device": device, "Layout": type(ndgrad.strided),
        "MemoryFormat": type(ndgrad.contiguous_format), "Generator": Generator, "Any": object,
    }  # fmt: skip
    if not isinstance(value, classes[name]):
        raise _mismatch(f"Unable to cast {value!r} to {name}")
    return value


@dataclass(frozen=True)
class AliasInfo:
    """The annotation `(a!)` of an argument: its alias set, and `!` if the op writes to it."""

    name: str
    is_write: bool

    @property
    def before_set(self) -> set[str]:
        """The names of the alias sets before the call."""
        return {self.name}

    after_set = before_set

    def __str__(self) -> str:
        return f"({self.name}{'!' if self.is_write else ''})"


@dataclass(frozen=True)
class Argument:
    """An argument or a result of a schema."""

    name: str
    type: SchemaType
    default_value: Any = None
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    required: bool = True

    @property
    def real_type(self) -> SchemaType:
        """The type as declared."""
        return self.type

    @property
    def N(self) -> int | None:
        """The length that a single number is repeated to, for `int[2]`."""
        inner = self.type.of if self.type.name == "Optional" else self.type
        return None if inner is None else inner.size

    @property
    def is_write(self) -> bool:
        """True if the op writes to the argument."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """True for a tensor that takes a result."""
        return self.kwarg_only and self.is_write

    def has_default_value(self) -> bool:
        """True if the argument may be left out."""
        return not self.required

    def __str__(self) -> str:
        text = self.type.text(self.alias_info) + (f" {self.name}" if self.name else "")
        return text if self.required else f"{text}={_format_default(self.default_value)}"


def _format_default(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, float):
        text = f"{value:.17g}"
        return text if any(c in text for c in ".en") else text + "."
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_format_default, value)) + "]"
    return repr(value).replace("ndgrad.", "")


@dataclass(frozen=True)
class FunctionSchema:
    """Name, arguments and results of an op.

    >>> from ndgrad.library.schema import parse_schema
    >>> schema = parse_schema("mylib::f(Tensor x, int n=3, *, float eps=1.0) -> (Tensor, Tensor)")
    >>> print(schema)
    mylib::f(Tensor x, int n=3, *, float eps=1.) -> (Tensor, Tensor)
    >>> schema.arguments[1].default_value, len(schema.returns), schema.is_mutable
    (3, 2, False)
    """

    name: str
    overload_name: str
    arguments: list[Argument]
    returns: list[Argument]
    positional: list[Argument] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "positional", [a for a in self.arguments if not a.kwarg_only])

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def is_mutable(self) -> bool:
        """True if the op writes to an argument."""
        return any(a.is_write for a in self.arguments)

    @property
    def written(self) -> list[int]:
        """The positions of the arguments that the op writes to."""
        return [i for i, a in enumerate(self.arguments) if a.is_write]

    @property
    def is_functional(self) -> bool:
        """True if the op writes to nothing, and no result is an alias of an argument."""
        return all(a.alias_info is None for a in (*self.arguments, *self.returns))

    def __str__(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        returns = [str(r) for r in self.returns]
        result = returns[0] if len(returns) == 1 and not self.returns[0].name else f"({', '.join(returns)})"
        name = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        return f"{name}({', '.join(parts)}) -> {result}"

    __repr__ = __str__

    def bind(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the values of all arguments of a call, converted, with defaults filled in."""
        if len(args) > len(self.positional):
            raise RuntimeError(
                f"{self.name}() takes {len(self.positional)} positional argument(s) but {len(args)} was/were given.  "
                f"Declaration: {self} [nd-arguments]"
            )
        values: list[Any] = []
        used = 0
        for position, argument in enumerate(self.arguments):
            if position < len(args) and not argument.kwarg_only:
                value = args[position]
            elif argument.name in kwargs:
                value = kwargs[argument.name]
                used += 1
            elif argument.required:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self} [nd-arguments]"
                )
            else:
                value = argument.default_value
            try:
                values.append(argument.type.convert(value))
            except TypeError as error:
                raise RuntimeError(
                    f"{self.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but "
                    f"instead found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\n"
                    f"Declaration: {self}\nCast error details: {error} [nd-type]"
                ) from None
        if used != len(kwargs):
            known = {a.name for a in self.arguments[len(args) :]} | {a.name for a in self.arguments if a.kwarg_only}
            unknown = next(name for name in kwargs if name not in known)
            raise RuntimeError(
                f"Unknown keyword argument '{unknown}' for operator '{self.name}'. Schema: {self} [nd-arguments]"
            )
        return values

    def unbind(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the positional and keyword arguments of a call, without defaults at the end."""
        count = len(self.positional)
        positional = list(values[:count])
        while positional and _is_default(self.arguments[len(positional) - 1], positional[-1]):
            positional.pop()
        named = {
            a.name: v for a, v in zip(self.arguments[count:], values[count:], strict=True) if not _is_default(a, v)
        }
        return tuple(positional), named


def _is_default(argument: Argument, value: Any) -> bool:
    if argument.required or isinstance(value, Variable):
        return False
    default = argument.default_value
    if isinstance(default, (list, tuple)) or isinstance(value, (list, tuple)):
        if argument.type.holds_tensors and value:
            return False
        if not isinstance(default, (list, tuple)) or not isinstance(value, (list, tuple)):
            return False
        return list(default) == list(value)
    return bool(value == default) and value.__class__ in (default.__class__, int, float)


# ----- from text ------------------------------------------------------------------------------------------------------

_TYPE = re.compile(
    r"\s*([A-Za-z]\w*)\s*(\(\s*(\w+|\*)(!?)\s*(->[^)]*)?\))?((?:\?|\[\d*\])*)(\(\s*(\w+)(!?)\s*\))?(!)?\s*"
)


def _parse_type(text: str, whole: str) -> tuple[SchemaType, AliasInfo | None, str]:
    """Return the type at the start of a text, its alias annotation, and the rest of the text."""
    found = _TYPE.match(text)
    if found is None or found[1] not in _BASES:
        raise RuntimeError(
            "\nunknown type specifier. Common valid schema types include Tensor, SymInt, int, float, bool, Scalar, "
            f"str, ScalarType, Device :\n{whole}\n at {text[:30]!r} [nd-op-block]"
        )
    made = SchemaType(found[1])
    for mark in re.findall(r"\?|\[\d*\]", found[6]):
        size = mark.strip("[]")
        made = SchemaType("Optional", made) if mark == "?" else SchemaType("List", made, int(size) if size else None)
    name, write = (found[3], found[4]) if found[2] else (found[8], found[9])
    if found[10] and not name:  # `Tensor! out`: an alias set of its own, named after the argument
        name, write = f"${text[found.end() :].strip()}", "!"
    return made, AliasInfo(name, bool(write)) if name else None, text[found.end() :]


def _parse_value(text: str, kind: SchemaType) -> Any:
    text = text.strip()
    constants: dict[str, Any] = {"None": None, "True": True, "False": False, "[]": []}
    constants |= {"inf": float("inf"), "nan": float("nan")}
    if text in constants:
        return constants[text]
    if text.startswith("["):
        return [_parse_value(part, kind) for part in _split(text[1:-1])]
    if text[:1] in "'\"":
        return text[1:-1]
    if kind.base in ("ScalarType", "Layout", "MemoryFormat") and text.isidentifier():
        return getattr(ndgrad, {"long": "int64", "int": "int32", "float": "float32"}.get(text, text))
    if kind.base == "Device":
        return device(text)
    try:
        number: Any = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            number = complex(text)
    return float(number) if kind.base == "float" else number


def _split(text: str) -> list[str]:
    """Split at commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _parse_argument(text: str, whole: str, kwarg_only: bool = False) -> Argument:
    kind, alias, rest = _parse_type(text, whole)
    name, separator, default = rest.strip().partition("=")
    name = name.strip()
    if name and not name.isidentifier():
        raise RuntimeError(f"\nexpected the name of an argument, got {name!r}:\n{whole} [nd-op-block]")
    value = _parse_value(default, kind) if separator else None
    return Argument(name, kind, value, kwarg_only, alias, not separator)


def parse_schema(schema: str) -> FunctionSchema:
    """Return a schema given as text, with or without the name of its namespace.

    >>> from ndgrad.library.schema import parse_schema
    >>> print(parse_schema("f.out(Tensor x, Tensor[] ys, *, Tensor(a!) out) -> Tensor(a!)"))
    f.out(Tensor x, Tensor[] ys, *, Tensor(a!) out) -> Tensor(a!)
    """
    found = re.fullmatch(r"\s*([\w:]*)(?:\.(\w+))?\s*\((.*)\)\s*->\s*(.+?)\s*", schema, re.DOTALL)
    if found is None:
        raise RuntimeError(
            f"a schema has the form 'name(Tensor x, int n=1) -> Tensor', but this one is {schema!r} [nd-op-block]"
        )
    arguments: list[Argument] = []
    only = False
    for part in _split(found[3]):
        if part == "*":
            only = True
            continue
        argument = _parse_argument(part, schema, only)
        if not argument.name:
            raise RuntimeError(f"\nan argument of the schema has no name:\n{schema} [nd-op-block]")
        arguments.append(argument)
    result = found[4]
    parts = _split(result[1:-1]) if result.startswith("(") else [result]
    returns = [_parse_argument(part, schema) for part in parts]
    return FunctionSchema(found[1], found[2] or "", arguments, returns)


# ----- from annotations -----------------------------------------------------------------------------------------------

_LISTS = (list, collections.abc.Sequence)
_NUMBER = frozenset((int, float, bool))


def _annotated_type(annotation: Any) -> str | None:
    """Return the type of an annotation in the notation of schemas; None if there is none."""
    simple = {int: "SymInt", float: "float", bool: "bool", str: "str", device: "Device", dtype: "ScalarType"}
    if annotation in simple:
        return simple[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Variable):
        return "Tensor"
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        if frozenset(args) == _NUMBER:
            return "Scalar"
        rest = [a for a in args if a is not type(None)]
        inner = _annotated_type(rest[0]) if len(rest) == 1 else "Scalar" if frozenset(rest) == _NUMBER else None
        return None if inner is None or len(rest) == len(args) or inner.endswith("?") else inner + "?"
    if origin in _LISTS and len(args) == 1:
        inner = _annotated_type(args[0])
        return None if inner is None or inner.endswith("]") or inner in ("str", "Device") else inner + "[]"
    return None


def _resolve(annotation: Any, function: Callable[..., Any]) -> Any:
    """Return an annotation; one that is a string is evaluated where the function was written."""
    if not isinstance(annotation, str):
        return annotation
    inner: Any = inspect.unwrap(function)
    cells = inspect.getclosurevars(inner).nonlocals if isinstance(inner, types.FunctionType) else {}
    try:
        return eval(annotation, {**vars(typing), **getattr(inner, "__globals__", {})}, dict(cells))
    except Exception as error:
        raise ValueError(
            f"infer_schema(func): Unsupported type annotation {annotation}. It is not a type, or not known where the "
            f"function is written. Got func with signature {inspect.signature(function)}) [nd-op-block]"
        ) from error


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """Return the schema of a function from its annotations, as text.

    Args:
        prototype_function: function with an annotation for each parameter and for its result.
        mutates_args: names of the arguments that the function writes to. `"unknown"` means all tensors.
        op_name: name in front of the schema.

    Raises:
        ValueError: if an annotation is missing or not supported.

    >>> import ndgrad
    >>> def f(x: ndgrad.Tensor, n: int = 2, *, mode: str = "a") -> ndgrad.Tensor: ...
    >>> ndgrad.library.infer_schema(f, mutates_args=())
    '(Tensor x, SymInt n=2, *, str mode="a") -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def refuse(text: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {text} Got func with signature {signature}) [nd-op-block]")

    parameters: list[str] = []
    names: set[str] = set()
    given = (
        set() if mutates_args == "unknown" else {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    )
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        if parameter.annotation is parameter.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        kind = _annotated_type(_resolve(parameter.annotation, prototype_function))
        if kind is None:
            refuse(
                f"Parameter {name} has unsupported type {parameter.annotation}. The valid types are Tensor, int, "
                "float, bool, str, dtype, device, their Optional and List forms, and Union[int, float, bool]."
            )
        names.add(name)
        if name in given or (mutates_args == "unknown" and kind.startswith("Tensor")):
            if not kind.startswith("Tensor"):
                refuse(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
            kind = f"Tensor(a{number}!){kind.removeprefix('Tensor')}"
        text = f"{kind} {name}"
        if parameter.default is not parameter.empty:
            if not (parameter.default is None or isinstance(parameter.default, (int, float, bool, str, dtype, device))):
                refuse(f"Parameter {name} has an unsupported default value type {type(parameter.default)}.")
            is_float = isinstance(parameter.default, float)
            text += f"={parameter.default if is_float else _format_default(parameter.default)}"
        parameters.append(text)
    if missing := given - names:
        refuse(
            f"{missing} in mutates_args were not found in the custom op's signature. mutates_args should contain the "
            "names of all args that the custom op mutates, or just the string 'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        refuse("No return type annotation was provided. Please add one.")
    result = _infer_returns(_resolve(signature.return_annotation, prototype_function))
    if result is None:
        refuse(
            f"Return has unsupported type {signature.return_annotation}. The valid types are Tensor, List[Tensor], "
            "int, float, bool, Union[int, float, bool], tuples of these, and None."
        )
    return f"{op_name or ''}({', '.join(parameters)}) -> {result}"


def _infer_returns(annotation: Any) -> str | None:
    if annotation is None:
        return "()"
    if typing.get_origin(annotation) is tuple:
        parts = [_return_type(a) for a in typing.get_args(annotation)]
        return None if None in parts else f"({', '.join(map(str, parts))})" if len(parts) > 1 else parts[0]
    return _return_type(annotation)


def _return_type(annotation: Any) -> str | None:
    found = _annotated_type(annotation)
    return found if found in ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar") else None
