"""Arguments of calls by the names of their parameters, from the signatures of functions and modules."""

from __future__ import annotations

import inspect
import typing
from typing import Any, NamedTuple

from ndgrad.nn.modules.module import Module

__all__ = [
    "ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint", "get_signature_for_torch_op",
    "normalize_function", "normalize_module", "type_matches",
]  # fmt: skip


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments.

    Args:
        args: positional arguments.
        kwargs: keyword arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """Return the signatures of one of the package's functions: a list with one of them, or None.

    Args:
        op: function of the package.
        return_schemas: whether to return a pair of signatures and None.

    >>> import ndgrad
    >>> from ndgrad.fx.operator_schemas import get_signature_for_torch_op
    >>> list(get_signature_for_torch_op(ndgrad.relu)[0].parameters)
    ['input', 'out']
    """
    found = _signature(op)
    signatures = None if found is None else [found]
    return (signatures, None) if return_schemas else signatures


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def normalize_function(
    target: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call with defaults filled in, by keyword where the function allows it; None if the
    signature is not known, or does not take the arguments.

    Args:
        target: function of the call.
        args: its arguments.
        kwargs: its keyword arguments.
        arg_types: accepted as in torch; has no effect, because functions have one signature.
        kwarg_types: accepted as in torch; has no effect.
        normalize_to_only_use_kwargs: whether all arguments are given by keyword.

    >>> import ndgrad
    >>> from ndgrad.fx.operator_schemas import normalize_function
    >>> normalize_function(ndgrad.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1, 'inplace': False})
    """
    module = getattr(target, "__module__", None)
    if module in ("_operator", "builtins", None) or not callable(target):
        return None
    signature = _signature(target)
    if signature is None:
        return None
    return _bind(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call of the module at a path, by the parameters of its forward.

    Args:
        root: module that contains the called one.
        target: path of the called module.
        args: its arguments.
        kwargs: its keyword arguments.
        normalize_to_only_use_kwargs: whether all arguments are given by keyword.

    >>> import ndgrad
    >>> from ndgrad.fx.operator_schemas import normalize_module
    >>> normalize_module(ndgrad.nn.Sequential(ndgrad.nn.ReLU()), "0", (1,), normalize_to_only_use_kwargs=True)
    ArgsKwargsPair(args=(), kwargs={'input': 1})
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target! [nd-fx-graph]"
        ) from error
    signature = _signature(module.forward)
    return None if signature is None else _bind(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bind(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], only_kwargs: bool
) -> ArgsKwargsPair | None:
    kinds = {p.kind for p in signature.parameters.values()}
    P = inspect.Parameter
    if kinds & {P.VAR_POSITIONAL, P.VAR_KEYWORD} or (only_kwargs and P.POSITIONAL_ONLY in kinds):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    # torch's signatures do not show `out=`; a call without it has none.
    given = {name: value for name, value in bound.arguments.items() if name != "out" or value is not None}
    if only_kwargs:
        return ArgsKwargsPair((), given)
    positional = [n for n, p in signature.parameters.items() if p.kind is not P.KEYWORD_ONLY and n in given]
    count = len(args)
    named = {name: value for name, value in given.items() if name not in positional[:count]}
    return ArgsKwargsPair(tuple(given[name] for name in positional[:count]), named)


def check_for_mutable_operation(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if a call writes one of its arguments in place.

    Args:
        target: function of the call.
        args: its arguments.
        kwargs: its keyword arguments.

    >>> import ndgrad
    >>> from ndgrad.fx.operator_schemas import check_for_mutable_operation
    >>> check_for_mutable_operation(ndgrad.relu, (1,), {})
    """
    name = str(getattr(target, "__name__", target))
    own = getattr(target, "__module__", None) not in ("_operator", "builtins")
    writes = own and name.endswith("_") and not name.endswith("__")
    if writes or kwargs.get("inplace") or kwargs.get("out") is not None:
        raise RuntimeError(
            f"Tried to trace mutable operation {name}. FX only supports functional code, so operations that mutate "
            "operands in-place (e.g. via `out` arguments) are not supported. Use the form without a trailing "
            "underscore. [nd-fx-trace]"
        )


def create_type_hint(x: Any) -> Any:
    """Return the type of a list or tuple of types of arguments.

    Args:
        x: list or tuple of types.

    >>> from ndgrad.fx.operator_schemas import create_type_hint
    >>> create_type_hint([int, int])
    typing.List[int]
    """
    if not isinstance(x, (list, tuple)):
        return x
    inner = [create_type_hint(item) for item in x]
    common: Any = next((t for t in inner if all(_is_subclass(s, t) for s in inner)), Any)
    if isinstance(x, list):
        return typing.List[common]  # noqa: UP006  # torch's form
    return typing.Tuple[common, ...]  # noqa: UP006  # torch's form


def _is_subclass(a: Any, b: Any) -> bool:
    return isinstance(a, type) and isinstance(b, type) and issubclass(a, b)


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """True if an argument of a type may be given for a parameter of another.

    Args:
        signature_type: type of the parameter.
        argument_type: type of the argument.

    >>> from ndgrad.fx.operator_schemas import type_matches
    >>> type_matches(float, int), type_matches(int, str)
    (True, False)
    """
    if signature_type is argument_type or signature_type is Any:
        return True
    origin = typing.get_origin(signature_type)
    if origin is typing.Union:
        return any(type_matches(t, argument_type) for t in typing.get_args(signature_type))
    if origin is list:
        (item,) = typing.get_args(signature_type) or (Any,)
        if argument_type is item:
            return True  # one number for a list, as in torch's signatures
        inner = typing.get_args(argument_type)
        return typing.get_origin(argument_type) in (list, tuple) and all(
            t is Ellipsis or type_matches(item, t) for t in inner
        )
    if signature_type is float and argument_type is int:
        return True
    return _is_subclass(argument_type, signature_type)
