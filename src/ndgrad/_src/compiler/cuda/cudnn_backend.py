"""Convolution by cuDNN's backend, called by ctypes, if its library is installed without the Python front end.

An operation is described by descriptors with numbered attributes. cuDNN names engines for it, and the first that
accepts it becomes a plan, which is kept. A call passes a pack of addresses. The packs of the last calls are kept too,
since training steps use the same addresses again. (cuDNN's older functions search for a plan at each call, which takes
100 us.)
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda import launch

_int, _long, _pointer = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
#: cuDNN's numbers of dtypes, by their characters.
_TYPES = {"f": 0, "d": 1, "e": 2, "E": 9}
#: cuDNN's numbers of descriptors.
_CONVOLUTION, _ENGINE, _CHOICE, _ADVICE, _PLAN, _GRAPH, _PACK, _TENSOR = 1, 2, 3, 4, 5, 15, 16, 17
#: Types of attributes: a handle, a dtype, integers, floats, doubles, addresses, modes, descriptors.
_HANDLES, _DTYPES, _LONGS, _FLOATS, _DOUBLES, _ADDRESSES, _CONVOLUTION_MODES, _ADVICE_MODES = 0, 1, 3, 4, 5, 6, 7, 8
_NOTES, _DESCRIPTORS = 11, 15
#: Notes of engines: uses tensor cores, which round single precision; results vary from run to run.
_TENSOR_CORES, _VARYING = 0, 4
_CORRELATION = 1
#: Sources of engines: heuristics, and engines that accept everything.
_ADVISED, _FALLBACK = 3, 2
#: Maximum number of engines requested, and of packs of addresses that are kept.
_MOST_ENGINES, _MOST_PACKS = 16, 64
#: Kind -> its descriptor, and the attributes for factors (one and zero), convolution, and (x, w, y).
_KINDS = {
    "forward": (10, 700, 701, 702, (704, 703, 705)),
    "input": (12, 706, 707, 708, (710, 709, 711)),
    "weight": (11, 712, 713, 714, (716, 715, 717)),
}


@functools.lru_cache(maxsize=1)
def functions() -> Any:
    """Return the library; None if it is not installed."""
    places = []
    try:
        spec = importlib.util.find_spec("nvidia.cudnn")
    except ImportError:
        spec = None
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        places += sorted(str(p) for p in Path(folder).glob("lib/libcudnn.so*"))
    found = ctypes.util.find_library("cudnn")
    for place in [*places, *([] if found is None else [found])]:
        try:
            made = ctypes.CDLL(place)
            made.cudnnGetVersion.restype = ctypes.c_size_t
            made.cudnnBackendSetAttribute.argtypes = [_pointer, _int, _int, _long, _pointer]
            made.cudnnBackendGetAttribute.argtypes = [_pointer, _int, _int, _long, _pointer, _pointer]
            made.cudnnBackendExecute.argtypes = [_pointer, _pointer, _pointer]
            for name in ("Finalize", "DestroyDescriptor"):
                getattr(made, f"cudnnBackend{name}").argtypes = [_pointer]
        except (OSError, AttributeError):
            continue
        return made
    return None


class _Here(threading.local):
    """The handles of a thread by device, each with the stream that was last set."""

    def __init__(self) -> None:
        self.handles: dict[int, list[Any]] = {}


_here = _Here()


def handle(device: int) -> int:
    """Return a handle of this thread on the current stream."""
    stream = library.device_library.cuda.get_current_stream().ptr
    found = _here.handles.get(device)
    if found is None:
        made = _pointer()
        _succeed(functions().cudnnCreate(ctypes.byref(made)))
        found = _here.handles[device] = [made.value, None]
    if found[1] != stream:
        _succeed(functions().cudnnSetStream(_pointer(found[0]), _pointer(stream)))
        found[1] = stream
    address: int = found[0]
    return address


class Descriptor:
    """A descriptor of cuDNN, with its attributes."""

    def __init__(self, kind: int) -> None:
        made = _pointer()
        _succeed(functions().cudnnBackendCreateDescriptor(_int(kind), ctypes.byref(made)))
        self.address = made.value
        #: referenced objects, kept alive
        self._refers: list[Any] = []

    def set(self, name: int, kind: int, values: Any) -> Descriptor:
        """Set an attribute to the values of a ctypes array."""
        status = functions().cudnnBackendSetAttribute(self.address, name, kind, len(values), ctypes.addressof(values))
        _succeed(status)
        return self

    def longs(self, name: int, *values: int) -> Descriptor:
        return self.set(name, _LONGS, (_long * len(values))(*values))

    def number(self, name: int, kind: int, value: int) -> Descriptor:
        return self.set(name, kind, (_int * 1)(value))

    def refer(self, name: int, *others: Descriptor) -> Descriptor:
        self._refers += others
        return self.set(name, _DESCRIPTORS, (_pointer * len(others))(*[other.address for other in others]))

    def set_handle(self, name: int, device: int) -> Descriptor:
        return self.set(name, _HANDLES, (_pointer * 1)(handle(device)))

    def got(self, name: int, kind: int, values: Any) -> int:
        """Read an attribute into a ctypes array. Return the number of values."""
        count = _long()
        _succeed(
            functions().cudnnBackendGetAttribute(
                self.address, name, kind, len(values), ctypes.addressof(count), ctypes.addressof(values)
            )
        )
        return min(int(count.value), len(values))

    def finalize(self) -> Descriptor:
        _succeed(functions().cudnnBackendFinalize(self.address))
        return self

    def __del__(self) -> None:
        if getattr(self, "address", None) is not None:
            functions().cudnnBackendDestroyDescriptor(self.address)


class Convolution:
    """One kind of convolution on one device, or of its adjoints (see ndgrad._src.compiler.cuda.cudnn.convolution)."""

    def __init__(
        self, kind: str, char: str, device: int, shapes: Sequence[Sequence[int]], before: Sequence[int],
        after: Sequence[int], stride: Sequence[int], dilation: Sequence[int], exactly: bool, repeatably: bool,
    ) -> None:  # fmt: skip
        """Make a plan for the `shapes` of x, w and y; raise LookupError if no engine accepts it."""
        self._device = device
        type, double = _TYPES[char], char == "d"
        tensors = [_tensor(uid, type, shape) for uid, shape in enumerate(shapes, 1)]
        how = Descriptor(_CONVOLUTION).longs(106, len(before)).number(100, _DTYPES, int(double))
        how.number(101, _CONVOLUTION_MODES, _CORRELATION).longs(105, *before).longs(104, *after)
        how.longs(103, *stride).longs(102, *dilation).finalize()
        number, one, zero, through, places = _KINDS[kind]
        operation, factor = Descriptor(number).refer(through, how), ctypes.c_double if double else ctypes.c_float
        for place, tensor in zip(places, tensors, strict=True):
            operation.refer(place, tensor)
        for place, value in ((one, 1.0), (zero, 0.0)):
            operation.set(place, _DOUBLES if double else _FLOATS, (factor * 1)(value))
        graph = Descriptor(_GRAPH).set_handle(800, device).refer(801, operation.finalize()).finalize()
        self._plan = _planned(graph, device, exactly, repeatably)
        size = (_long * 1)()
        self._plan.got(402, _LONGS, size)
        self._workspace = int(size[0])
        self._packs: dict[tuple[int, ...], Descriptor] = {}

    def __call__(self, *arrays: Any) -> None:
        """Run it on (x, w, y)."""
        workspace = launch.allocate(self._workspace) if self._workspace else None
        places = (*[a.data.ptr for a in arrays], 0 if workspace is None else workspace.ptr)
        pack = self._packs.get(places)
        if pack is None:
            if len(self._packs) >= _MOST_PACKS:
                self._packs.clear()
            pack = Descriptor(_PACK).longs(1000, 1, 2, 3).set(1001, _ADDRESSES, (_pointer * 3)(*places[:3]))
            self._packs[places] = pack.set(1003, _ADDRESSES, (_pointer * 1)(places[3])).finalize()
        status = functions().cudnnBackendExecute(handle(self._device), self._plan.address, pack.address)
        if status:
            _succeed(status)


def _tensor(uid: int, type: int, shape: Sequence[int]) -> Descriptor:
    """Return the descriptor of a tensor without gaps."""
    steps = [1]
    for n in reversed(shape[1:]):
        steps.append(steps[-1] * n)
    made = Descriptor(_TENSOR).number(901, _DTYPES, type).longs(902, *shape).longs(903, *reversed(steps))
    return made.longs(906, uid).longs(900, 16).finalize()


def _planned(graph: Descriptor, device: int, exactly: bool, repeatably: bool) -> Descriptor:
    """Return a plan of the first engine that accepts a graph.

    `exactly`: without rounding single precision for tensor cores; `repeatably`: with the same result in every run.
    """
    for mode in (_ADVISED, _FALLBACK):
        advice = Descriptor(_ADVICE).refer(201, graph).number(200, _ADVICE_MODES, mode)
        choices = [Descriptor(_CHOICE) for _ in range(_MOST_ENGINES)]
        try:
            found = advice.finalize().got(202, _DESCRIPTORS, (_pointer * len(choices))(*[c.address for c in choices]))
        except RuntimeError:
            continue
        for choice in choices[:found]:
            notes = _notes(choice)
            if (exactly and _TENSOR_CORES in notes) or (repeatably and _VARYING in notes):
                continue
            try:
                return Descriptor(_PLAN).set_handle(400, device).refer(401, choice).finalize()
            except RuntimeError:
                continue  # try the next engine
    raise LookupError("cuDNN has no engine for such a convolution [nd-gpu]")


def _notes(choice: Descriptor) -> set[int]:
    """Return the notes of the engine of a choice."""
    engine, notes = Descriptor(_ENGINE), (_int * 16)()
    choice.got(300, _DESCRIPTORS, (_pointer * 1)(engine.address))
    return set(notes[: engine.got(1303, _NOTES, notes)])


def _succeed(status: int) -> None:
    if status:
        raise RuntimeError(f"cuDNN answers with status {status}. Check that the GPU has memory left. [nd-gpu]")
