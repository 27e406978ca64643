"""Memory order of results during a trace, as NumPy would leave them.

Elementwise ops keep the order of their arguments, and many other ops give C order. For the rest (a reduction, a linear
algebra library) the order is known only after the op has run. So C order is assumed first (see Note [Memory of a
trace]). The order matters if memory is written that may be shared with a reshaped tensor. The op then runs once on
arrays in the order of its arguments. If the assumption was wrong, the function is traced again with the order found.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.traced_arrays import Memory, TracedArray, contiguous_strides
from ndgrad._src.compiler.program.program import settings_key
from ndgrad._src.core.record import run_forward
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.devices import device

#: Largest size of arguments in bytes for which an op runs to find the order.
MOST = 1 << 28
#: Limit for a result that must have the order of an eager call, which needs as much memory.
MOST_OF_RESULT = 1 << 33


class Origin(NamedTuple):
    """Origin of memory with an assumed order: result `number` of an op, and the assumed strides."""

    op: Any
    arrays: tuple[Any, ...]
    settings: dict[str, Any]
    number: int
    strides: tuple[int, ...]


#: Origin of results of a derivative rule. Eager rules compute on arrays, by code that a trace does not see, so their order
#: is unknown. Gradients that a pass returns, and `.grad`, have the order of the inputs.
OF_RULE = Origin(None, (), {}, 0, ())

#: Strides of results, by op, layouts of the arguments, and settings.
_found: dict[Any, tuple[tuple[int, ...], ...]] = {}


def is_orderly(op: Any, arrays: Sequence[Any], settings: dict[str, Any], place: device | None) -> bool:
    """True if the results of an op are certainly in C order."""
    if op.name == "contiguous" or op.memory_order == "contiguous":
        return True
    if op.name == "matmul" and all(a.ndim <= 2 for a in arrays) and place in (None, CPU):
        return True  # for any order of the matrices; for a batch, the order of the products follows theirs
    if op.memory_order is None or settings.get("reverse"):
        return False
    for a in arrays:
        if isinstance(a, TracedArray):
            if a.ndim > 1 and (a.is_assumed or not a.is_in_order):
                return False
        elif isinstance(a, np.ndarray) and a.ndim > 1 and not a.flags.c_contiguous:
            return False
    return True


def arrange(op: Any, arrays: Sequence[Any], settings: dict[str, Any], made: Sequence[TracedArray]) -> None:
    """Set the order of results: the order of the arguments if NumPy keeps it, or the order found earlier; otherwise
    assume one.
    """
    if op.name == "clone_ordered":
        (array,), order = made, settings["order"]
        steps = contiguous_strides(tuple([array.shape[d] for d in order]), array.itemsize)
        array.strides = tuple([steps[order.index(d)] for d in range(array.ndim)])
        return
    if op.name == "clone" and 0 in arrays[0].strides:
        return
    follows = op.memory_order == "kept"
    is_certain = not any(isinstance(a, TracedArray) and a.ndim > 1 and a.is_assumed for a in arrays)
    found = _found.get(_key(op, arrays, settings)) if is_certain and not follows and _found else None
    if found is not None:
        for array, strides in zip(made, found, strict=True):
            array.strides = strides
        return
    if not (is_certain and follows):
        for number, array in enumerate(made):
            if array.ndim > 1:
                array.memory.assumed = Origin(op, tuple(arrays), settings, number, array.strides)
        return
    given = [(a.shape, a.strides) for a in arrays if isinstance(a, (TracedArray, np.ndarray))]
    for array in made:
        kept = _kept_order(array.shape, tuple(given))
        array.strides = tuple([s * array.itemsize for s in kept])


@functools.lru_cache(maxsize=4096)
def _kept_order(shape: tuple[int, ...], given: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of NumPy's elementwise result for arrays of these shapes and strides."""
    one = np.zeros(1, np.int8)
    arrays = [np.lib.stride_tricks.as_strided(one, *layout, writeable=False) for layout in given]
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    found = np.nditer([*arrays, None], ["zerosize_ok"], flags, order="K").operands[-1]
    return tuple(found.strides) if found.shape == shape else contiguous_strides(shape, 1)


# ----- checking the order ---------------------------------------------------------------------------------------------


def order_of(array: TracedArray) -> tuple[int, ...] | None:
    """Return the dimensions of a dense array from the outermost in memory to the innermost, () for C order; None if the
    array is not dense. Raise as `settle` does.
    """
    settle_array(array, MOST_OF_RESULT)
    if not array.size or array.is_in_order:
        return ()
    order = sorted(range(array.ndim), key=lambda d: (array.shape[d] == 1, -array.strides[d]))
    steps = contiguous_strides(tuple([array.shape[d] for d in order]), array.itemsize)
    is_dense = all(array.shape[d] == 1 or array.strides[d] == step for d, step in zip(order, steps, strict=True))
    return tuple(order) if is_dense else None


def settle_array(array: TracedArray, most: int = MOST) -> None:
    """Check the assumed order of an array as `settle` does."""
    if array.is_of_rule:
        _refuse()
    if array.memory.assumed is not None and len(array.memory.value.shape) > 1:
        settle(array.memory, most)


def _refuse() -> NoReturn:
    raise GraphBreak("memory is written or returned of which it is not known in which order it lies")


def settle(memory: Memory, most: int = MOST) -> None:
    """Check the assumed order of memory. Raise if it is wrong or cannot be checked. No op with more than `most` bytes
    of arguments runs for this.
    """
    waiting = [memory]
    while waiting:
        made = waiting[-1].assumed
        if made is not None and (made is OF_RULE or any(isinstance(a, TracedArray) and a.is_of_rule for a in made.arrays)):
            _refuse()
        before = () if made is None else [a.memory for a in made.arrays if isinstance(a, TracedArray) and a.ndim > 1]
        unknown = [m for m in before if m.assumed is not None]
        if unknown:
            waiting += unknown
            continue
        if made is not None and made.op.name != "reshape":  # depends on its argument alone
            _check(made, waiting[-1], most)
        waiting.pop().assumed = None


def _check(made: Origin, memory: Memory, most: int) -> None:
    strides = _strides_of(made, most, memory.place)
    if strides is None:
        _refuse()
    if any(n != 1 and a != b for n, a, b in zip(memory.value.shape, strides, made.strides, strict=True)):
        broken = GraphBreak("memory lies in another order than was assumed")
        broken.is_cured = True
        raise broken


def _strides_of(made: Origin, most: int, place: device | None) -> tuple[int, ...] | None:
    """Return the strides that an op gives a result in reality; None if they cannot be found."""
    op, settings = made.op, made.settings
    if sum(a.nbytes for a in made.arrays if isinstance(a, TracedArray)) > most:
        return None
    is_host = place in (None, CPU)
    if not is_host and graph_recording.active is not None:  # the run would become a part of the graph
        return None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = _run_on_host(op, made.arrays, settings) if is_host else _run_on_device(op, made.arrays, settings, place)
    except Exception:  # the stand-ins may have unsuitable values
        return None
    found = tuple([tuple(o.strides) for o in (out if op.outputs != 1 else (out,))])
    key = _key(op, made.arrays, settings)
    if key is not None:
        make_room(_found, 20_000)
        _found[key] = found
    return found[made.number]


def _run_on_host(op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
    """Return the result of an op for arrays in the layouts of traced ones."""
    given = [_stand_in(a) if isinstance(a, TracedArray) else a for a in arrays]
    return run_forward(op, np, tuple(given), given, settings)


def _run_on_device(op: Any, arrays: Sequence[Any], settings: dict[str, Any], place: device | None) -> Any:
    """Return the same by the functions and kernels of a device. Their results often have another order than NumPy's."""
    found = library.device_library
    with found.cuda.Device(getattr(place, "index", None) or 0):
        given = [_stand_in_on_device(found, a) if isinstance(a, TracedArray) else a for a in arrays]
        return run_forward(op, found, tuple(given), given, settings)


def _stand_in_on_device(found: Any, array: TracedArray) -> Any:
    """Return an array of a device's library for a traced one, with the values of `_stand_in`."""
    below, above = _extent(array)
    memory = found.zeros(above - below + array.itemsize, np.uint8)
    made = found.ndarray(array.shape, array.dtype, memory.data + -below, array.strides)
    if array.dtype.kind in "fcV":
        made[...] = 0.1
        if array.ndim > 1 and array.shape[-1] == array.shape[-2]:
            at = found.arange(array.shape[-1])
            made[..., at, at] = 1.0 + array.shape[-1]
    return made


def _extent(array: TracedArray) -> tuple[int, int]:
    """Return the first and the last byte of an array's elements, from its first element on."""
    steps = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True) if n]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)


def _key(op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Hashable | None:
    known = settings_key(settings)
    lying = [
        (a.shape, a.strides, a.dtype) if isinstance(a, (TracedArray, np.ndarray)) else (a.__class__, a) for a in arrays
    ]
    places = {a.memory.place for a in arrays if isinstance(a, TracedArray)} - {None, CPU}
    key = op, tuple(lying), known, *places
    try:
        hash(key)
    except TypeError:
        return None
    return None if known is None else key


def _stand_in(array: TracedArray) -> Any:
    """Return an array with the layout of a traced one. Matrices can be inverted and factorised, and indices are in
    range.
    """
    below, above = _extent(array)
    memory = np.zeros(above - below + array.itemsize, np.uint8)
    made: Any = np.ndarray(array.shape, array.dtype, memory, -below, array.strides)
    if array.dtype.kind in "fcV":
        made[...] = 0.1
        if array.ndim > 1 and array.shape[-1] == array.shape[-2]:
            at = range(array.shape[-1])
            made[..., at, at] = 1.0 + len(at)
    return made
