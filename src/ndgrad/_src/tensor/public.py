"""Wrappers that publish functions: keyword names of torch and NumPy, and overrides.

Families of functions (the files of this folder) are plain Python. The function in a namespace (`ndgrad.sum`) and the
method of the tensor class (`Tensor.sum`) are wrappers around it. The wrapper

    renames keywords   from NumPy to torch (`axis` to `dim`), if the function is marked by `both_worlds`
    checks overrides   by modes that see every call and by classes of arguments (see ndgrad.overrides)

A family declares its public names:
    __all__            functions defined there, which become `ndgrad.<name>`
    METHODS            functions that are also, or only, methods of tensors (the first argument is the tensor)
    RENAMED_METHODS    methods whose function has another name: method -> function
    ALIASES      other name -> name
    ABOUT_THE_LIBRARY  functions about the library, not about tensors; they cannot be overridden

Elementwise ops without special arguments are declared by `@pointwise(op)` over a signature and a docstring. They have
no wrapper: the code generated for the op renames nothing and checks overrides outside its fast path.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from types import ModuleType
from typing import Any, TypeVar

from ndgrad._src.core.dispatch import dispatch, dispatch_operator
from ndgrad._src.core.generate import make_eager, public_name
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.out_argument import write_out
from ndgrad._src.core.promotion import require_one_dtype
from ndgrad._src.core.subclass import KNOWN, ask, overriding_types
from ndgrad._src.foundations import registry
from ndgrad._src.ops.deferred import make_deferred
from ndgrad._src.ops.table import Op

F = TypeVar("F", bound=Callable[..., Any])


def public(function: F, home: str = "ndgrad", name: str | None = None, shown: Callable[[], Any] | None = None) -> F:
    """Wrap a function as the public function `home.name`. `shown` returns the function reported to overrides, if it
    is another one."""
    rename = getattr(function, "renames", None)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs and rename is not None:
            kwargs = rename(kwargs)
        if not (process.overriding and process.busy):  # fast path
            for value in args:
                if type(value) not in KNOWN and (type(value) is not tuple or not KNOWN.issuperset(map(type, value))):
                    break
            else:
                if not kwargs:
                    return function(*args)
                for value in kwargs.values():
                    if type(value) not in KNOWN:
                        break
                else:
                    return function(*args, **kwargs)
        elif modes().is_alone_with_autocast() and _are_known(args) and _are_known(kwargs.values()):
            other = registry.autocast.autocast_call(call if shown is None else shown(), args, kwargs, UNASKED)
            return function(*args, **kwargs) if other is UNASKED else other
        if may_be_overridden((*args, *kwargs.values())):
            if is_bound(call, args):
                return call(*args[1:], **kwargs)
            other = answer(call if shown is None else shown(), args, kwargs)
            if other is not UNASKED:
                return other
        return function(*args, **kwargs)

    call.asks = True  # type: ignore[attr-defined]  # functions take attributes
    call.__module__ = home
    call.__name__ = call.__qualname__.rpartition(".")[2] if name is None else name
    call.__qualname__ = name or function.__qualname__
    return call  # type: ignore[return-value]  # the same signature, and more keywords


def method(function: F) -> F:
    """Decorate a method written in the tensor class: wrap it as a public function."""
    made = public(function)
    made.__qualname__ = f"Tensor.{function.__name__}"
    return made


def answer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of overrides, or of autocast below them; UNASKED if there are none."""
    state = modes()
    types = () if state.functions_disabled else overriding_types((*args, *kwargs.values()))
    if types or state.function_modes:
        return ask(function, types, args, kwargs)
    return UNASKED if state.autocast is None else registry.autocast.autocast_call(function, args, kwargs, UNASKED)


#: No mode and no class overrides the call.
UNASKED = object()


def may_be_overridden(values: tuple[Any, ...]) -> bool:
    """True if a mode, autocast or the class of an argument may override a call. A class that is not in KNOWN may,
    also inside a list of tensors."""
    for value in values:
        cls = value.__class__
        if cls not in KNOWN and not ((cls is tuple or cls is list) and KNOWN.issuperset(map(type, value))):
            return True
    if not (process.overriding and process.busy):
        return False
    state = modes()
    return bool(state.function_modes) or state.autocast is not None


def _are_known(values: Iterable[Any]) -> bool:
    """True if no value is of a class that overrides functions, nor a list or tuple of such values."""
    for value in values:
        cls = type(value)
        if cls not in KNOWN and not ((cls is tuple or cls is list) and KNOWN.issuperset(map(type, value))):
            return False
    return True


def is_bound(function: Any, args: tuple[Any, ...]) -> bool:
    """True if a call comes from a class that keeps the function as an attribute: `class A: act = torch.tanh`.

    torch's functions are compiled and do not become methods, so that `A().act(x)` passes `x` alone. Python passes
    the object first to a function written in Python. Such an object has no meaning as an argument, unless its class
    overrides functions.
    """
    if not args or hasattr(cls := type(args[0]), "__torch_function__"):
        return False
    return any(value is function for base in cls.__mro__ for value in vars(base).values())


def _given_settings(op: Op, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from their defaults."""
    return {name: value for name, value in settings.items() if value is not op.settings.get(name)}


def pointwise(op: Op) -> Callable[[F], F]:
    """Decorate the declaration of a function that is exactly an op: return the op's generated function, with
    `out=`."""
    return lambda declaration: _pointwise(op, declaration, declaration.__name__)


def _pointwise(op: Op, declaration: F, name: str, home: str = "ndgrad") -> F:
    run = require_one_dtype(dispatch) if op.one_dtype else dispatch

    def call_with_overrides(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        too_many = not op.variadic and len(args) > len(op.args)
        if too_many or may_be_overridden(args):
            if is_bound(function, args):
                return function(*args[1:], **settings)
            if too_many:
                known = f"{len(op.args)} positional argument{'s' * (len(op.args) > 1)}"
                raise TypeError(f"{name}() takes {known} but {len(args)} were given [nd-arguments]")
            if (other := answer(function, args, _given_settings(op, settings))) is not UNASKED:
                return other
        return run(op, args, settings)

    def call_out_with_overrides(op: Op, args: tuple[Any, ...], settings: dict[str, Any], out: Any) -> Any:
        if (
            may_be_overridden((*args, out))
            and (other := answer(function, args, {**_given_settings(op, settings), "out": out})) is not UNASKED
        ):
            return other
        return write_out(op, args, settings, out)

    def make() -> Callable[..., Any]:
        return make_eager(op, public=True, slow=call_with_overrides, into=call_out_with_overrides)

    function: Any = make_deferred(_PREFIXES.get(home, "") + declaration.__name__, make)
    function.__doc__, function.__wrapped__ = declaration.__doc__, declaration
    function.__module__, function.__qualname__ = home, name
    function.op, function.asks = op, True
    return function


def operator(op: Op, shown: Callable[[], Any], name: str, *, reflected: bool = False) -> Any:
    """Return the method of a Python operator: an op's generated function, which returns NotImplemented for
    unknown operands.

    `shown` returns the function reported to overrides: the method behind the operator. A reflected operator passes the
    tensor first, in the order of its call.
    """
    run = require_one_dtype(dispatch_operator) if op.one_dtype else dispatch_operator

    def call_with_overrides(op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        if may_be_overridden(args):
            # Restore the method's order: `2 - x` calls x.__rsub__(2), while the op receives (2, x).
            other = answer(shown(), args[::-1] if reflected else args, {})
            if other is not UNASKED:
                return other
        return run(op, args, settings)

    function: Any = make_deferred(
        name, lambda: make_eager(op, operator=True, reflected=reflected, slow=call_with_overrides)
    )
    function.__module__, function.__qualname__ = "ndgrad", f"Tensor.{name}"
    function.op, function.asks = op, True
    return function


def in_place(function: Any) -> Callable[..., Any]:
    """Return the trailing-underscore form of a function made by `pointwise`."""
    op: Op = function.op

    def method(self: Any, *args: Any, **settings: Any) -> Any:
        return write(op, self, args, {**op.settings, **settings} if op.settings else settings)

    method.of = op  # type: ignore[attr-defined]  # functions take attributes
    method.__name__ = method.__qualname__ = op.name + "_"
    method.__doc__ = f"In-place version of `{op.name}`.\n\n{_describe_in_place(function)}"
    either, keyword = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    parameters = [Parameter("self" if i == 0 else public_name(name), either) for i, name in enumerate(op.args)]
    parameters += [Parameter(name, keyword, default=value) for name, value in op.settings.items()]
    # mypy does not know that functions accept attributes.
    method.__signature__ = Signature(parameters, __validate_parameters__=False)  # type: ignore[attr-defined]
    return method


def _describe_in_place(function: Any) -> str:
    """Return the section `Args` of a function's docstring for its in-place form: `self` is the first parameter, and
    there is no `out`."""
    described = re.search(r"^ *Args:\n((?: {4,}.*\n)+)", function.__doc__ or "", flags=re.MULTILINE)
    items = re.split(r"\n(?=\S)", inspect.cleandoc(described[1])) if described else []
    kept = [item.replace("`input`", "`self`") for item in items[1:] if not item.startswith("out:")]
    return "Args:\n" + textwrap.indent("\n".join(["self: tensor to change.", *kept]), "    ")


# ----- publishing a family --------------------------------------------------------------------------------------------


def asks_itself(name: str) -> Callable[[F], F]:
    """Decorate a function that checks overrides itself, so that its common case passes no wrapper. It is published
    as `Tensor.name`."""

    def decorate(function: F) -> F:
        function.asks = True  # type: ignore[attr-defined]  # functions take attributes
        function.__module__, function.__name__, function.__qualname__ = "ndgrad", name, f"Tensor.{name}"
        return function

    return decorate


def publish(module: ModuleType, home: str = "ndgrad") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the public functions and tensor methods of a family, by name. Repeated calls return the same objects."""
    made: tuple[dict[str, Any], dict[str, Any]] | None = module.__dict__.get("_published")
    if made is not None:
        return made
    functions: dict[str, Any] = {}
    methods: dict[str, Any] = {}
    plain = getattr(module, "ABOUT_THE_LIBRARY", ())
    for name in getattr(module, "__all__", ()):
        functions[name] = getattr(module, name) if name in plain else _wrap_public(getattr(module, name), home, name)
    for name in getattr(module, "METHODS", ()):
        methods[name] = _wrap_public(getattr(module, name), home, f"Tensor.{name}")
    for name, other in getattr(module, "RENAMED_METHODS", {}).items():
        methods[name] = _wrap_public(getattr(module, other), home, f"Tensor.{name}")
    for other, name in getattr(module, "ALIASES", {}).items():
        if name in functions:
            functions[other] = functions[name]
        if name in methods:
            methods[other] = methods[name]
    module.__dict__["_published"] = made = functions, methods
    return made


#: Public names of functions in these namespaces carry a prefix, as in torch.
_PREFIXES = {
    "ndgrad.linalg": "linalg_", "ndgrad.fft": "fft_", "ndgrad.special": "special_", "ndgrad.sparse": "sparse_",
    "ndgrad.nested": "nested_",
}  # fmt: skip


def _wrap_public(thing: Any, home: str, name: str) -> Any:
    """Wrap a function. Classes, and functions that check overrides themselves, are returned unchanged."""
    if isinstance(thing, type) or not callable(thing):
        return thing
    if hasattr(thing, "asks"):
        is_another = name.startswith("Tensor.") or home != "ndgrad"
        return _pointwise(thing.op, thing.__wrapped__, name, home) if is_another and hasattr(thing, "op") else thing
    made = public(thing, home, _PREFIXES.get(home, "") + name.rpartition(".")[2])
    made.__qualname__ = name
    return made


def publish_namespace(namespace: dict[str, Any]) -> None:
    """Wrap the functions of a submodule (`ndgrad.linalg`), given its globals."""
    for name in namespace["__all__"]:
        namespace[name] = _wrap_public(namespace[name], namespace["__name__"], name)


def is_public(thing: Any) -> bool:
    """True if a thing is a public function of the package that can be overridden."""
    return getattr(thing, "asks", False) is True
