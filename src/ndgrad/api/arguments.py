"""How public functions read their arguments: dims, shapes, and the keyword names of both worlds.

Ops in the table take normalised settings; these functions make them. Torch says `dim`, `keepdim`, `input`, `other`; NumPy says
`axis`, `keepdims`, `a`, `x1`, `x2`. Public functions are written with torch's names and wear `@both_worlds`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "axes": "dims", "a": "input", "x": "input", "x1": "input", "x2": "other"}


def both_worlds(function: F) -> F:
    """Let a function written with torch's keyword names take NumPy's too."""
    known = frozenset(function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount])

    @functools.wraps(function)
    def accepting(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not kwargs.keys() <= known:
            for name in kwargs.keys() - known:
                torch_name = _NUMPY_NAMES.get(name)
                if torch_name == "dim" and "dim" not in known:
                    torch_name = "dims"
                if torch_name not in known:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}. It takes: {', '.join(sorted(known))}."
                    )
                if torch_name in kwargs:
                    raise TypeError(f"{function.__name__}() got both {name!r} and {torch_name!r}, which mean the same. Give one.")
                kwargs[torch_name] = kwargs.pop(name)
        return function(*args, **kwargs)

    return accepting  # type: ignore[return-value]


def as_dim(dim: Any, ndim: int, what: str = "dim") -> int:
    """A non-negative dimension number; a 0-d tensor has, as in torch, dimensions 0 and -1."""
    try:
        number = operator.index(dim)
    except TypeError:
        raise TypeError(f"{what} must be an int, and is {dim!r} ({type(dim).__name__}). Pass the number of a dimension.") from None
    size = max(ndim, 1)
    if not -size <= number < size:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-size}, {size - 1}], but got {number}): "
            f"the tensor has {ndim} dimensions. Pass a {what} within that range."
        )
    return number % size


def as_dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimension numbers as a tuple; None means all. Duplicates raise. A 0-d tensor gives ()."""
    if dim is None:
        return tuple(range(ndim))
    given = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    dims = tuple(as_dim(d, ndim) for d in given)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim {tuple(given)} names a dimension twice (the tensor has {ndim} dimensions). Name each once.")
    return dims if ndim else ()


def as_shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as separate ints or as one sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], int) and hasattr(sizes[0], "__iter__"):
        sizes = tuple(sizes[0])
    try:
        return tuple(operator.index(s) for s in sizes)
    except TypeError:
        wrong = ", ".join(type(s).__name__ for s in sizes)
        raise TypeError(f"sizes must be ints, and are {tuple(sizes)} ({wrong}). Pass ints, or one tuple of them.") from None


def infer_shape(shape: tuple[int, ...], numel: int, old: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with a -1 replaced by what the number of elements leaves."""
    if shape.count(-1) > 1:
        raise RuntimeError(f"only one dimension can be inferred, and shape {shape} has several -1. Give all sizes but one.")
    known = 1
    for s in shape:
        if s < -1:
            raise RuntimeError(f"invalid shape dimension {s} in {shape}. Sizes are non-negative, or -1 once.")
        if s != -1:
            known *= s
    if -1 in shape:
        if known == 0:
            if numel != 0 or shape.count(-1):
                raise RuntimeError(
                    f"cannot reshape a tensor of shape {tuple(old)} into {shape}: with a size of 0, the -1 can be any value. "
                    "Give all sizes."
                )
        elif numel % known == 0:
            return tuple(numel // known if s == -1 else s for s in shape)
    elif known == numel:
        return shape
    raise RuntimeError(f"shape {list(shape)} is invalid for input of size {numel} (shape {tuple(old)}). The number of elements must agree.")
