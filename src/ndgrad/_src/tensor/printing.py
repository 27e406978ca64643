"""The text of a tensor, character for character as torch prints it.

These texts are read, diffed, pasted and compared by doctests, so torch's choices are kept even if odd: widths ignore
zeros and infinities; the `...` of a summary has a leading space. Only shown elements are read. For a large array, the
code first takes its corner, a small array of the edge items along every axis, and everything else works on that
corner.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import device_faults
from ndgrad._src.foundations.public_path import set_module

__all__ = [
    "append_suffixes",
    "format_array",
    "format_tensor",
    "get_printoptions",
    "printoptions",
    "set_printoptions",
]


# ----- options ----------------------------------------------------------------------------------------------


class _Options(NamedTuple):
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}

# Options of set_printoptions hold for the process, options of `with printoptions()` for its thread or task.
_process_options = _Options()
_block_options: ContextVar[_Options | None] = ContextVar("ndgrad_print_options", default=None)


def _current_options() -> _Options:
    return _block_options.get() or _process_options


def _update_options(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> _Options:
    if profile is not None and profile not in _PROFILES:
        raise ValueError(
            f"unknown print profile {profile!r} given to set_printoptions(). "
            f"Use one of {', '.join(map(repr, _PROFILES))}. [nd-option]"
        )
    base = _current_options() if profile is None else _PROFILES[profile]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    # sci_mode is replaced even by None, "choose from the values": torch has no other way to reset it.
    return base._replace(**changes, sci_mode=sci_mode)


@set_module("ndgrad")
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print, in the whole process or, within `with printoptions()`, in that block.

    Args:
        precision: number of digits after the point.
        threshold: number of elements above which a tensor is summarised.
        edgeitems: number of elements shown at each end of a dimension of a summary.
        linewidth: number of characters of a line.
        profile: set of options to start from: `"default"`, `"short"` or `"full"`. The default is the current options.
        sci_mode: whether numbers are in scientific notation. None leaves it to the values, even if it was set before.

    >>> set_printoptions(precision=2)
    >>> format_array(np.array([0.123456]))
    '[0.12]'
    >>> set_printoptions(profile="default")
    """
    global _process_options
    new = _update_options(precision, threshold, edgeitems, linewidth, profile, sci_mode)
    if _block_options.get() is None:
        _process_options = new
    else:
        _block_options.set(new)


def get_printoptions() -> dict[str, Any]:
    """Return the current options, as keyword arguments for `set_printoptions`.

    >>> import ndgrad
    >>> ndgrad.get_printoptions()["precision"]
    4
    """
    return _current_options()._asdict()


@contextmanager
def printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> Iterator[None]:
    """Set print options for one block of code, in this thread only.

    Args:
        precision: number of digits after the point.
        threshold: number of elements above which a tensor is summarised.
        edgeitems: number of elements shown at each end of a dimension of a summary.
        linewidth: number of characters of a line.
        profile: set of options to start from: `"default"`, `"short"` or `"full"`. The default is the current options.
        sci_mode: whether numbers are in scientific notation. None leaves it to the values, even if it was set before.

    >>> with printoptions(threshold=4, edgeitems=1):
    ...     format_array(np.arange(9))
    '[0,  ..., 8]'
    """
    token = _block_options.set(_update_options(precision, threshold, edgeitems, linewidth, profile, sci_mode))
    try:
        yield
    finally:
        _block_options.reset(token)


# ----- elements ---------------------------------------------------------------------------------------------


def _integer_texts(values: np.ndarray[Any, Any]) -> tuple[list[str], int]:
    texts = [str(value) for value in values.tolist()]
    return texts, max(map(len, texts), default=1)


def _floating_texts(values: np.ndarray[Any, Any], options: _Options) -> tuple[list[str], int]:
    # Every supported floating type widens to float64 exactly.
    values = values.astype(np.float64)
    counted = np.isfinite(values) & (values != 0)
    deciding = np.abs(values[counted])
    whole, scientific = bool((deciding == np.ceil(deciding)).all()), False
    if deciding.size and options.sci_mode is None:
        smallest, largest = float(deciding.min()), float(deciding.max())
        scientific = largest > 1.0e8 or smallest < 1.0e-4 or largest / smallest > 1000.0
    elif deciding.size:
        scientific = bool(options.sci_mode)
    if scientific:
        texts = [f"{value:.{options.precision}e}" for value in values.tolist()]
    elif whole:
        texts = [f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}" for value in values.tolist()]
    else:
        texts = [f"{value:.{options.precision}f}" for value in values.tolist()]
    width = max((len(text) for text, counts in zip(texts, counted.tolist()) if counts), default=1)
    return texts, width


def _element_texts(values: np.ndarray[Any, Any], options: _Options) -> tuple[list[str], int]:
    """Return the padded text of each of the values (one-dimensional), and the width used to fill lines."""
    kind = values.dtype.kind
    if kind == "c":
        real, real_width = _element_texts(values.real, options)
        imaginary, imaginary_width = _element_texts(values.imag, options)
        signed = [text if text[0] == "-" else "+" + text for text in map(str.lstrip, imaginary)]
        return [a + b + "j" for a, b in zip(real, signed)], real_width + imaginary_width + 1
    texts, width = _integer_texts(values) if kind in "biu" else _floating_texts(values, options)
    return [text.rjust(width) for text in texts], width


# ----- arrays -----------------------------------------------------------------------------------------------


def format_array(array: Any, *, indent: int = 0) -> str:
    """Return the nested brackets of an array, with each line after the first indented by `indent`.

    `array` is a NumPy or CuPy array; only the shown elements are copied from the GPU.

    >>> print("x = " + format_array(np.eye(2), indent=4))
    x = [[1., 0.],
         [0., 1.]]
    """
    if device_faults.pending and not isinstance(array, np.ndarray):
        device_faults.settle()
    options = _current_options()
    size = math.prod(array.shape)
    if size == 0:
        return "[]"
    edge = options.edgeitems
    summarize = size > options.threshold
    if summarize and array.ndim and not edge:
        return "[...]"
    cut = [summarize and length > 2 * edge for length in array.shape]
    shown = _corner(array, cut, edge)
    texts, width = _element_texts(shown.reshape(-1), options)
    if shown.ndim == 0:
        return texts[0]
    per_line = max(1, math.floor((options.linewidth - indent - shown.ndim + 1) / (width + 2)))
    return _nest(texts, shown.shape, cut, edge, indent, per_line)


def _corner(array: Any, cut: Sequence[bool], edge: int, axis: int = 0) -> np.ndarray[Any, Any]:
    """Return the first and last `edge` items along each axis that is cut, as a NumPy array."""
    while axis < array.ndim and not cut[axis]:
        axis += 1
    if axis == array.ndim:
        return array.get() if hasattr(array, "get") else np.asarray(array)
    before = (slice(None),) * axis
    ends = (array[*before, :edge], array[*before, -edge:])
    return np.concatenate([_corner(end, cut, edge, axis + 1) for end in ends], axis)


def _nest(texts: list[str], shape: Sequence[int], cut: Sequence[bool], edge: int, indent: int, per_line: int) -> str:
    if len(shape) == 1:
        row = [*texts[:edge], " ...", *texts[-edge:]] if cut[0] else texts
        lines = (", ".join(row[i : i + per_line]) for i in range(0, len(row), per_line))
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    stride = len(texts) // shape[0]
    blocks = [
        _nest(texts[i : i + stride], shape[1:], cut[1:], edge, indent + 1, per_line)
        for i in range(0, len(texts), stride)
    ]
    if cut[0]:
        blocks.insert(edge, "...")
    # One empty line more between blocks for each dimension inside them.
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(blocks) + "]"


# ----- tensors ----------------------------------------------------------------------------------------------


def append_suffixes(text: str, suffixes: Iterable[str], *, indent: int, force_newline: bool = False) -> str:
    """Return `text`, the suffixes and the closing parenthesis, with a line break before a suffix that would not fit."""
    linewidth = _current_options().linewidth
    # torch counts two more than the last line's length.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or column + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
            force_newline = False
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"


def format_tensor(
    array: Any,
    *,
    default_dtype: Any,
    dtype_name: str,
    requires_grad: bool = False,
    grad_fn_name: str | None = None,
    device: object | None = None,
    extra: Iterable[str] = (),
    name: str = "tensor",
) -> str:
    """Return the `repr` of a tensor that holds `array`.

    `default_dtype` is compared with the array's; `dtype_name` is printed if they differ. For an array
    on the device `meta` only shape and dtype are used. `extra` holds further suffixes, such as `"tangent=1."`.

    >>> format_tensor(np.ones(2, "f4"), default_dtype=np.float64, dtype_name="f4", extra=["tangent=0."])
    'tensor([1., 1.], dtype=f4, tangent=0.)'
    """
    indent = len(name) + 1
    place = "cpu" if device is None else str(device)
    is_meta = place.partition(":")[0] == "meta"
    is_empty = 0 in array.shape
    # A dtype that Python literals would produce is omitted. An empty tensor has no literal that implies its type.
    hidden = [default_dtype]
    if not is_meta and not is_empty:
        hidden += [np.complex128 if default_dtype == np.float64 else np.complex64, np.int64, np.bool_]

    suffixes = []
    if place.partition(":")[0] != "cpu":
        suffixes.append(f"device='{place}'")
    if is_meta or (is_empty and array.ndim != 1) or (not is_empty and not _current_options().edgeitems):
        suffixes.append(f"size={tuple(array.shape)}")
    if not any(array.dtype == d for d in hidden):
        suffixes.append(f"dtype={dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    suffixes.extend(extra)
    contents = "..." if is_meta else format_array(array, indent=indent)
    return append_suffixes(f"{name}({contents}", suffixes, indent=indent)
