"""Parsing of arguments of public functions: dims, shapes, and keyword names of torch and NumPy.

Ops in the table take normalised settings, produced here. Torch says `dim`, `keepdim`, `input`, `other`; NumPy says
`axis`, `keepdims`, `a`, `x1`, `x2`. Functions of torch's namespace are written with torch's names and decorated by
`@both_worlds`; functions of NumPy's namespace accept torch's names through `torch_names`.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar

if TYPE_CHECKING:
    from ndgrad._typing import Dims

F = TypeVar("F", bound=Callable[..., Any])

#: Keyword in the other library -> possible names here, likelier first.
_FROM_NUMPY = {
    "axis": ("dim", "dims"), "keepdims": ("keepdim",), "axes": ("dims",), "a": ("input",), "x": ("input",),
    "x1": ("input",),
    "x2": ("other",),
}  # fmt: skip
_FROM_TORCH = {
    "dim": ("axis", "axes"), "dims": ("axes", "axis"), "keepdim": ("keepdims",), "dim1": ("axis1",), "dim2": ("axis2",),
    "input": ("a", "x", "x1"), "other": ("b", "x2"),
}  # fmt: skip


def both_worlds(function: F) -> F:
    """Mark a function with torch's keyword names that also accepts NumPy's when called through its public wrapper
    (see ndgrad._src.tensor.public)."""
    known = keywords_of(function)

    def rename(given: dict[str, Any]) -> dict[str, Any]:
        return given if known.issuperset(given) else rename_keywords(function, known, given, _FROM_NUMPY)

    function.renames = rename  # type: ignore[attr-defined]  # functions take attributes
    return function


def torch_names(function: F) -> F:
    """Make a function with NumPy's keyword names accept torch's too."""
    known = keywords_of(function)

    @functools.wraps(function)
    def accepting(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not kwargs.keys() <= known:
            kwargs = rename_keywords(function, known, kwargs)
        return function(*args, **kwargs)

    return accepting  # type: ignore[return-value]  # the same signature, and more keywords


def keywords_of(function: Callable[..., Any]) -> frozenset[str]:
    """Return the names of a Python function's parameters."""
    code: Any = function.__code__
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def takes_any_keyword(function: Callable[..., Any]) -> bool:
    """True if a Python function takes **options, which may be meant for another function."""
    return bool(function.__code__.co_flags & inspect.CO_VARKEYWORDS)


def rename_keywords(
    function: Callable[..., Any],
    known: frozenset[str],
    given: dict[str, Any],
    names: dict[str, tuple[str, ...]] = _FROM_TORCH,
) -> dict[str, Any]:
    """Return keyword arguments with those of the other library renamed to the function's own names."""
    found = {name: value for name, value in given.items() if name in known}
    for other in given.keys() - known:
        name = next((n for n in names.get(other, ()) if n in known), None)
        if name is None:
            raise TypeError(
                f"{function.__name__}() got an unexpected keyword argument {other!r}. It takes: "
                f"{', '.join(sorted(known))}. [nd-arguments]"
            )
        if name in found:
            raise TypeError(
                f"{function.__name__}() got both {other!r} and {name!r}, which mean the same. Give one. [nd-exclusive]"
            )
        found[name] = given[other]
    return found


def warn_user(message: str) -> None:
    """Warn at the user's line that called ndgrad, skipping ndgrad's own frames."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "ndgrad":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def as_dim(dim: SupportsIndex, ndim: int, what: str = "dim") -> int:
    """Return a non-negative dimension number. A 0-d tensor has, as in torch, dimensions 0 and -1."""
    try:
        number = operator.index(dim)
    except TypeError:
        raise TypeError(
            f"{what} must be an int, but is {dim!r} ({type(dim).__name__}). Pass the number of a dimension. [nd-type]"
        ) from None
    size = max(ndim, 1)
    if not -size <= number < size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {number}): "
            f"the tensor has {ndim} dimensions. Pass a {what} within that range. [nd-dim]"
        )
    return number % size


def as_integer(function: str, name: str, value: Any) -> int:
    """Return a whole number, or raise an error that names the function and its argument."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{function}(): argument {name!r} must be int, not {type(value).__name__} ({value!r}). "
            "Give a whole number. [nd-type]"
        ) from None


def as_dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """Return dimension numbers as a tuple; None means all. Duplicates raise. A 0-d tensor gives ()."""
    if dim is None:
        return tuple(range(ndim))
    given = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    dims = tuple(as_dim(d, ndim) for d in given)
    if len(set(dims)) != len(dims):
        raise RuntimeError(
            f"dim {tuple(given)} names a dimension twice (the tensor has {ndim} dimensions). Name each once. [nd-dim]"
        )
    return dims if ndim else ()


def as_shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Return a shape given as separate ints or as one sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(sizes[0], "__iter__"):
        if getattr(sizes[0], "ndim", 1):  # a tensor or array without dimensions is one size
            sizes = tuple(sizes[0])
    try:
        return tuple([s if s.__class__ is int else operator.index(s) for s in sizes])
    except TypeError:
        wrong = ", ".join(type(s).__name__ for s in sizes)
        raise TypeError(
            f"sizes must be ints, but are {tuple(sizes)} ({wrong}). Pass ints, or one tuple of them. [nd-type]"
        ) from None


def infer_shape(shape: tuple[int, ...], numel: int, old: tuple[int, ...]) -> tuple[int, ...]:
    """Return `shape` with a -1 replaced by the size that the number of elements implies."""
    if shape.count(-1) > 1:
        raise RuntimeError(
            f"only one dimension can be inferred, but shape {shape} has several -1. Give all sizes but one. "
            "[nd-reshape]"
        )
    known = 1
    for s in shape:
        if s < -1:
            raise RuntimeError(
                f"invalid shape dimension {s} in {shape}. Sizes are non-negative, or -1 once. [nd-reshape]"
            )
        if s != -1:
            known *= s
    if -1 in shape:
        if known == 0:
            if numel != 0 or shape.count(-1):
                raise RuntimeError(
                    f"cannot reshape a tensor of shape {tuple(old)} into {shape}: with a size of 0, "
                    "the -1 can be any value. Give all sizes. [nd-reshape]"
                )
        elif numel % known == 0:
            return tuple(numel // known if s == -1 else s for s in shape)
    elif known == numel:
        return shape
    raise RuntimeError(
        f"shape '{list(shape)}' is invalid for input of size {numel} (shape {tuple(old)}). "
        "The number of elements must agree. [nd-reshape]"
    )
