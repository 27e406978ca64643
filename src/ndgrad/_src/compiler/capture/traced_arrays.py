"""Arrays without data, of which a trace is made.

A `TracedArray` is the payload of a tensor while a function is traced. It knows shape, dtype and strides, and which
value of the program it is. Ops reach the tracer through the observer, which answers with further traced arrays, so
nothing else may touch one: whatever would need data, or would write without the tracer's knowledge, raises
`GraphBreak`.

Note [Memory of a trace]
Writes are seen as ops, and a program has none. So the traced arrays that share memory share a `Memory`, which holds
the value of the whole; each knows by which views it is reached from there. A write gives the memory another value, in
which that part is replaced, and whoever reads another view of it afterwards takes it from that value. Whether an op's
result shares memory follows from strides, as in NumPy.

New memory is taken to lie in C order. That is certain for elementwise ops on arrays that do; for others NumPy may
choose another order (that of the arguments, or what a library has left), and the strides are *assumed*. Nobody notices,
but in one case: a reshape of such an array is a view or a copy by its strides, and then one of the two is written. So
what has asked for the order of assumed memory is noted, and a write to it finds out (ndgrad._src.compiler.capture.memory_order).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from ndgrad._src.arrays import library as libraries
from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.versions import Unrecorded
from ndgrad._src.foundations.devices import device


class Step(NamedTuple):
    """A view op on the way from the whole memory to a traced array: the op, its settings, which of its
    results, and what it shows."""

    op: Any
    settings: dict[str, Any]
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Memory:
    """What several traced arrays show parts of: its value now, and how often it was written."""

    __slots__ = (
        "asked", "assumed", "constant", "picked", "place", "source", "tracer", "value", "values_at", "version", "written",
    )  # fmt: skip

    def __init__(
        self, tracer: Any, value: Value, source: Any = None, constant: Any = None, place: device | None = None
    ) -> None:
        self.tracer = tracer
        self.value = value
        #: the device that it is on; None for constants of a trace and what is made of them, which can be anywhere
        self.place = place
        self.version = 0
        self.source = source  # the argument or captured tensor whose memory it is; None for what the function made
        self.written = False
        #: by which op it was made, where the order in which it lies is assumed, and whether somebody has asked for that
        self.assumed: Any = None
        self.asked = False
        #: the memory of which it is a part that an index picks which only a call will know, and how often that had been
        #: written by then: eagerly, it is a view
        self.picked: tuple[Memory, int] | None = None
        #: the array that it holds, where that is known
        self.constant = constant
        #: the values that it had at versions that are known to autograd (see `TracedArray.at_version`)
        self.values_at: dict[Any, Value] = {}


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The strides of an array in C order."""
    step, out = itemsize, []
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


@functools.lru_cache(maxsize=1024)
def _stand_in(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array that lies in memory like that; nothing may be read of it or written to it."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides)


class TracedArray:
    """The payload of a tensor that is being traced."""

    __slots__ = ("__weakref__", "_value", "dtype", "memory", "path", "shape", "strides", "version")

    is_meta = is_traced = True
    is_sparse = is_structured = is_jagged = False
    __array_priority__ = 1000.0

    def __init__(
        self, value: Value, memory: Memory, path: tuple[Step, ...] = (), strides: tuple[int, ...] | None = None
    ) -> None:
        self.shape = value.shape
        self.dtype = value.dtype
        self.strides = contiguous_strides(value.shape, value.dtype.itemsize) if strides is None else strides
        self.memory = memory
        self.path = path
        self._value = value
        self.version = memory.version

    def note_pick(self, source: Any) -> None:
        """It is what a computed index picks of another array, as that is now (see ndgrad._src.core.batched_parts)."""
        if isinstance(source, TracedArray):
            self.memory.picked = source.memory, source.memory.version

    @property
    def stands_on(self) -> device:
        """The device that it is on."""
        return self.memory.place or CPU

    @property
    def base(self) -> Memory:
        """What arrays over the same memory have in common."""
        return self.memory

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for k in self.shape:
            n *= k
        return n

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> Flags:
        return Flags(self.is_in_order, _lies(self.shape[::-1], self.strides[::-1], self.itemsize), self.memory)

    @property
    def is_in_order(self) -> bool:
        """Whether it lies in C order, as far as that is known."""
        return _lies(self.shape, self.strides, self.itemsize)

    def settle(self) -> None:
        """Find out in which order the memory lies, where that is assumed; raises if it is another order."""
        if self.memory.assumed is not None and len(self.memory.value.shape) > 1:
            from ndgrad._src.compiler.capture.memory_order import settle  # which is about these arrays

            settle(self.memory)

    def stand_in(self) -> Any:
        """A NumPy array that lies in memory as this one does, without values."""
        return _stand_in(self.shape, self.strides, self.dtype)

    @property
    def known(self) -> Any:
        """The array that it holds, where no input of the program has a part in that; else None."""
        memory = self.memory
        if memory.constant is not None and not memory.written and not self.path:
            return memory.constant
        return memory.tracer.known(self)

    def copy(self, order: str = "C") -> TracedArray:
        """The same value in memory of its own."""
        tracer = self.memory.tracer
        return tracer.array(tracer.value_of(self), self.memory.place)

    def __eq__(self, other: object) -> Any:  # a comparison by identity would be a silent False
        return self is other or self._values() == other

    __hash__ = object.__hash__

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor [nd-one-value]")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"TracedArray(shape={self.shape}, dtype={self.dtype})"

    def at_version(self, version: Any) -> TracedArray:
        """A copy as it was at a version of the storage that autograd has saved."""
        value = self.memory.values_at.get(version)
        if value is None:
            raise Unrecorded(None if version.next is None else version.next.writer)
        tracer = self.memory.tracer
        for step in self.path:
            value = tracer.emit(step.op, (value,), step.settings)[step.number]
        return tracer.array(value, self.memory.place)

    def checked(self) -> Any:
        """Its values, for those who check them (see ndgrad._src.compiler.capture.branch_conditions)."""
        from ndgrad._src.compiler.capture.branch_conditions import Checked  # which few functions need

        tracer = self.memory.tracer
        return self.known if self.known is not None else Checked(tracer, tracer.value_of(self), self.stands_on)

    # ----- values, which there are only of constants -----

    def _values(self) -> Any:
        known = self.known
        if known is None:
            raise GraphBreak(f"the function asks for the values of a tensor of shape {self.shape} ({self.dtype})")
        return known

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._values(), dtype)

    def __bool__(self) -> bool:
        if self.known is None and self.size == 1 and self.stands_on is CPU:
            return bool(self.memory.tracer.truth_of(self))
        return bool(self._values())

    def __int__(self) -> int:
        return int(self._values())

    def __float__(self) -> float:
        return float(self._values())

    def __complex__(self) -> complex:
        return complex(self._values())

    def __index__(self) -> int:
        return int(self._values().__index__())

    def __iter__(self) -> Any:
        return iter(self._values().copy())

    def item(self, *args: Any) -> Any:
        if args or self.size != 1 or self.known is not None:
            return self._values().item(*args)
        if self.dtype.kind == "b":
            return bool(self)
        number = self.memory.tracer.read(self) if self.stands_on is CPU else None
        return self._values().item() if number is None else number

    def tolist(self) -> Any:
        return self._values().tolist() if self.shape else self.item()

    def tobytes(self, *args: Any) -> Any:
        return self._values().tobytes(*args)

    # ----- what there is not -----

    def _bare(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise GraphBreak(
            f"NumPy itself is to compute with a tensor of shape {self.shape} ({self.dtype}), whose values are not known before "
            "a call"
        )

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in (np.may_share_memory, np.shares_memory):
            a, b = (x.memory if isinstance(x, TracedArray) else self.memory.tracer.memory_of(x) for x in args[:2])
            return a is b
        if function in _ABOUT_SHAPES:
            return function(*[a.stand_in() if isinstance(a, TracedArray) else a for a in args], **kwargs)
        return function(*_plain(args), **{name: _plain(a) for name, a in kwargs.items()})

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            self._bare()
        return getattr(ufunc, method)(*_plain(args), **{name: _plain(a) for name, a in kwargs.items()})

    def __getitem__(self, index: Any) -> Any:
        if self.known is None:
            self._bare()
        return np.array(self.known[index])

    __setitem__ = _bare

    def __iadd__(self, other: Any) -> Self:  # type: ignore[misc]  # there is no addition but this
        """Gradients are added where they lie, below all ops."""
        self.memory.tracer.add_into(self, other)
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __neg__ = __matmul__ = (
        _bare
    )

    def __lt__(self, other: Any) -> Any:
        return self._values() < other

    def __le__(self, other: Any) -> Any:
        return self._values() <= other

    def __gt__(self, other: Any) -> Any:
        return self._values() > other

    def __ge__(self, other: Any) -> Any:
        return self._values() >= other

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):  # asked whether it is a tensor, or follows a protocol
            raise AttributeError(name)
        if name in _READING:
            return getattr(self._values(), name)
        raise GraphBreak(f"the function uses {name!r} of NumPy's array under a tensor, which there is none of in a trace")


class Flags:
    """What NumPy's flags say of a traced array."""

    writeable = owndata = aligned = behaved = True

    def __init__(self, c_order: bool, f_order: bool, memory: Memory) -> None:
        self._c_order = c_order
        self._f_order = f_order
        self._memory = memory

    @property
    def c_contiguous(self) -> bool:
        self._memory.asked = True
        return self._c_order

    @property
    def f_contiguous(self) -> bool:
        self._memory.asked = True
        return self._f_order

    contiguous, fortran = c_contiguous, f_contiguous

    @property
    def forc(self) -> bool:
        return self.c_contiguous or self.f_contiguous

    @property
    def fnc(self) -> bool:
        return self.f_contiguous and not self.c_contiguous

    def __getitem__(self, name: str) -> bool:
        return bool(getattr(self, name.lower()))


#: Methods of arrays that read values and give others.
_READING = frozenset("all any argmax argmin argsort astype cumsum max mean min nonzero prod round sum".split())

#: NumPy's functions that look at shapes, dtypes and strides alone.
_ABOUT_SHAPES = frozenset([
    np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.shape, np.ndim, np.size, np.result_type,
    np.iscomplexobj, np.isrealobj, np.can_cast, np.common_type, np.min_scalar_type,
])  # fmt: skip


def _plain(value: Any) -> Any:
    """An argument of a function of NumPy's, or a structure of them, with what traced arrays are known to hold."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([_plain(v) for v in value])
    if not isinstance(value, TracedArray):
        return value
    known = value.known
    if known is None:
        value._bare()
    return known


def _lies(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether elements lie one behind the other."""
    expected = itemsize
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n != 1:
            if step != expected:
                return False
            expected *= n
    return True


# A traced array goes where NumPy's would; whatever function it reaches then, refuses it.
libraries._known[TracedArray] = np
