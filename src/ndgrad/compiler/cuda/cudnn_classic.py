"""Convolution by cuDNN's older functions, called by ctypes, where its library is installed without the Python front end.

They know one algorithm per call and padding that is the same on both sides; what they have none for is answered with None.
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

import numpy as np

from ndgrad.arrays import library
from ndgrad.compiler.cuda import launch

_int, _pointer, _size = ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t
#: cuDNN's numbers of dtypes, by their characters; of its order of dimensions, of correlation, and of sums without tensor cores.
_TYPES = {"f": 0, "d": 1, "e": 2, "E": 9}
_IN_ORDER, _CORRELATION, _DEFAULT, _EXACTLY = 0, 1, 0, 3
_BYTE = np.dtype(np.uint8)
#: Algorithms that are asked for: of the first that work, the one with the best prospects.
_ASKED = 8
_NUMBERS: list[Any] = [np.array([1, 0], np.float32), np.array([1, 0], np.float64)]


class _Found(ctypes.Structure):
    """An algorithm (cudnnConvolution...AlgoPerf_t, which are alike)."""

    _fields_ = [
        ("algorithm", _int), ("status", _int), ("time", ctypes.c_float), ("memory", _size), ("determinism", _int),
        ("math", _int), ("reserved", _int * 3),
    ]  # fmt: skip


#: Of each kind: cuDNN's word for it, its operands in the order of the question, which of (x, w, y) they are, and the result.
_KINDS = {"forward": ("Forward", (0, 1), 2), "input": ("BackwardData", (1, 2), 0), "weight": ("BackwardFilter", (0, 2), 1)}


@functools.lru_cache(maxsize=1)
def functions() -> Any:
    """The library; None if it is not installed."""
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
            made.cudnnGetVersion.restype = _size
            for word, _, _ in _KINDS.values():
                getattr(made, f"cudnnConvolution{word}").argtypes = [
                    *[_pointer] * 7, _int, _pointer, _size, _pointer, _pointer, _pointer,
                ]  # fmt: skip
        except (OSError, AttributeError):
            continue
        return made
    return None


class _Here(threading.local):
    """The handles of a thread by device, each with the stream that it was last told."""

    def __init__(self) -> None:
        self.handles: dict[int, list[Any]] = {}


_here = _Here()


def handle(device: int) -> int:
    """A handle of this thread on the current stream."""
    stream = library.device_library.cuda.get_current_stream().ptr
    found = _here.handles.get(device)
    if found is None:
        made = _pointer()
        _succeed(functions().cudnnCreate(ctypes.byref(made)))
        found = _here.handles[device] = [made.value, None]
    if found[1] != stream:
        _succeed(functions().cudnnSetStream(_pointer(found[0]), _pointer(stream)))
        found[1] = stream
    made_for: int = found[0]
    return made_for


class Convolution:
    """One kind of convolution on one device, or of its adjoints (see ndgrad.compiler.cuda.cudnn.convolution)."""

    def __init__(
        self, kind: str, char: str, device: int, shapes: Sequence[Sequence[int]], padding: Sequence[int],
        stride: Sequence[int], dilation: Sequence[int], groups: int, exactly: bool,
    ) -> None:  # fmt: skip
        """`shapes` of x, w and y; LookupError where there is no algorithm."""
        lib = functions()
        self._device, self._destroy = device, []
        word, operands, result = _KINDS[kind]
        type, double = _TYPES[char], char == "d"
        x, w, y = self._tensor(lib, type, shapes[0]), self._filter(lib, type, shapes[1]), self._tensor(lib, type, shapes[2])
        conv = self._made(lib, "Convolution")
        axes = len(padding)
        _succeed(
            lib.cudnnSetConvolutionNdDescriptor(
                _pointer(conv), _int(axes), _ints(padding), _ints(stride), _ints(dilation), _int(_CORRELATION), _int(int(double))
            )
        )
        _succeed(lib.cudnnSetConvolutionGroupCount(_pointer(conv), _int(groups)))
        _succeed(lib.cudnnSetConvolutionMathType(_pointer(conv), _int(_EXACTLY if exactly else _DEFAULT)))
        described = (x, w, y)
        a, b = (described[i] for i in operands)
        question = [_pointer(p) for p in (handle(device), a, b, conv, described[result])]
        self._algorithm = self._chosen(lib, word, question, exactly)
        room = _size()
        size_of = getattr(lib, f"cudnnGetConvolution{word}WorkspaceSize")
        _succeed(size_of(*question, _int(self._algorithm), ctypes.byref(room)))
        self._room = room.value
        self._call = getattr(lib, f"cudnnConvolution{word}")
        self._a, self._b, self._conv, self._out = a, b, conv, described[result]
        self._operands, self._result = operands, result
        numbers = _NUMBERS[double]
        self._one, self._zero = numbers.ctypes.data, numbers.ctypes.data + numbers.itemsize

    def _made(self, lib: Any, what: str) -> int:
        made = _pointer()
        _succeed(getattr(lib, f"cudnnCreate{what}Descriptor")(ctypes.byref(made)))
        self._destroy.append((getattr(lib, f"cudnnDestroy{what}Descriptor"), made))
        assert made.value is not None
        return made.value

    def _tensor(self, lib: Any, type: int, shape: Sequence[int]) -> int:
        made, steps = self._made(lib, "Tensor"), [1]
        for n in reversed(shape[1:]):
            steps.append(steps[-1] * n)
        _succeed(
            lib.cudnnSetTensorNdDescriptor(_pointer(made), _int(type), _int(len(shape)), _ints(shape), _ints(steps[::-1]))
        )
        return made

    def _filter(self, lib: Any, type: int, shape: Sequence[int]) -> int:
        made = self._made(lib, "Filter")
        _succeed(
            lib.cudnnSetFilterNdDescriptor(_pointer(made), _int(type), _int(_IN_ORDER), _int(len(shape)), _ints(shape))
        )
        return made

    def _chosen(self, lib: Any, word: str, question: list[Any], exactly: bool) -> int:
        """The algorithm, one that gives the same in every run; it may change how sums are taken, as it was found with it."""
        found, count = (_Found * _ASKED)(), _int()
        ask = getattr(lib, f"cudnnGetConvolution{word}Algorithm_v7")
        _succeed(ask(*question, _int(_ASKED), ctypes.byref(count), found))
        for one in found[: count.value]:
            if one.status or not one.determinism or (exactly and one.math not in (_DEFAULT, _EXACTLY)):
                continue
            if one.math != _DEFAULT and not exactly:
                _succeed(lib.cudnnSetConvolutionMathType(question[3], _int(one.math)))
            return int(one.algorithm)
        raise LookupError("cuDNN has no algorithm for such a convolution")

    def __call__(self, *arrays: Any) -> None:
        """Run it on (x, w, y)."""
        a, b = (arrays[i].data.ptr for i in self._operands)
        room = launch.room(self._room) if self._room else None
        status = self._call(
            handle(self._device), self._one, self._a, a, self._b, b, self._conv, self._algorithm,
            0 if room is None else room.ptr, self._room, self._zero, self._out, arrays[self._result].data.ptr,
        )  # fmt: skip
        if status:
            _succeed(status)

    def __del__(self) -> None:
        for destroy, made in getattr(self, "_destroy", ()):
            destroy(made)


def _ints(numbers: Sequence[int]) -> Any:
    return (_int * len(numbers))(*numbers)


def _succeed(status: int) -> None:
    if status:
        raise RuntimeError(f"cuDNN answers with status {status}. Check that the GPU has memory left.")
