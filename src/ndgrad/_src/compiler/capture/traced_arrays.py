"""Arrays without data, the payloads of a trace.

A `TracedArray` is the payload of a tensor during a trace. It knows shape, dtype and strides, and its value in the
program. Ops reach the tracer through the observer, which returns further traced arrays. All other uses that need data,
or that would write without the tracer's knowledge, raise `GraphBreak`.

Note [Memory of a trace]
A program has no writes, so the tracer turns them into ops. Traced arrays that share memory share a `Memory`, which
holds the value of the whole. Each array has a path of views from there. A write gives the memory a new value in which
that part is replaced. Later reads of another view take it from the new value. Strides decide whether the result of an
op shares memory, as in NumPy.

New memory is assumed to be in C order. That is certain for elementwise ops on such arrays. For other ops NumPy may
choose another order (that of the arguments, or of a library), and the strides are *assumed*. The order is visible in
one case only: a reshape of such an array is a view or a copy depending on its strides, and then one of the two is
written. So queries of the order of assumed memory are recorded, and a write to it checks the order
(ndgrad._src.compiler.capture.memory_order).
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
    """A view op on the path from the whole memory to a traced array: the op, its settings, the number of the result,
    the shape and dtype of the view, and whether a derivative rule takes the view.
    """

    op: Any
    settings: dict[str, Any]
    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    of_rule: bool = False


class Memory:
    """Memory that traced arrays show parts of: its current value, and the number of writes."""

    __slots__ = (
        "asked", "assumed", "constant", "picked", "place", "source", "tracer", "value", "values_at", "version", "written",
    )  # fmt: skip

    def __init__(
        self, tracer: Any, value: Value, source: Any = None, constant: Any = None, place: device | None = None
    ) -> None:
        self.tracer = tracer
        self.value = value
        #: Device of the memory; None for constants of a trace and values derived from them, which fit any device.
        self.place = place
        self.version = 0
        self.source = source  # argument or captured tensor that owns the memory; None if the function made it
        self.written = False
        #: Origin of memory whose order is assumed, and whether the order was queried.
        self.assumed: Any = None
        self.asked = False
        #: For a part picked by an index that only a call knows: the memory it belongs to, and the version of that
        #: memory. In eager code the part is a view.
        self.picked: tuple[Memory, int] | None = None
        #: The array that it holds, if known.
        self.constant = constant
        #: Values at versions that autograd has saved (see `TracedArray.copy_at_version`).
        self.values_at: dict[Any, Value] = {}


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of an array in C order."""
    step, out = itemsize, []
    for n in reversed(shape):
        out.append(step)
        step *= max(n, 1)
    return tuple(reversed(out))


@functools.lru_cache(maxsize=1024)
def _stand_in(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return an array with this layout. It must not be read or written."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides)


class TracedArray:
    """The payload of a tensor during a trace."""

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
        """Mark the array as a part of another array, picked by a computed index (see ndgrad._src.core.batched_parts).
        """
        if isinstance(source, TracedArray):
            self.memory.picked = source.memory, source.memory.version

    @property
    def stands_on(self) -> device:
        """Device of the array."""
        return self.memory.place or CPU

    @property
    def base(self) -> Memory:
        """Identity shared by arrays over the same memory."""
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
        """True if the array is in C order, as far as known."""
        return _lies(self.shape, self.strides, self.itemsize)

    @property
    def is_of_rule(self) -> bool:
        """True for a view taken by a derivative rule. In eager code the rule may copy instead."""
        return any(step.of_rule for step in self.path)

    @property
    def is_assumed(self) -> bool:
        """True if the order of the array is only assumed."""
        return self.memory.assumed is not None or self.is_of_rule

    def settle(self) -> None:
        """Check the assumed order of the memory; raise if it is wrong."""
        if self.is_assumed:
            from ndgrad._src.compiler.capture.memory_order import settle_array  # avoids an import cycle

            settle_array(self)

    def stand_in(self) -> Any:
        """Return a NumPy array with the same layout, without values."""
        return _stand_in(self.shape, self.strides, self.dtype)

    @property
    def constant_array(self) -> Any:
        """The array that it holds if it depends on no input of the program; else None."""
        memory = self.memory
        if memory.constant is not None and not memory.written and not self.path:
            return memory.constant
        return memory.tracer.find_constant(self)

    def copy(self, order: str = "C") -> TracedArray:
        """Return the same value in memory of its own."""
        tracer = self.memory.tracer
        return tracer.array(tracer.value_of(self), self.memory.place)

    def __eq__(self, other: object) -> Any:  # a comparison by identity would silently be False
        return self is other or self._values() == other

    __hash__ = object.__hash__

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor [nd-one-value]")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"TracedArray(shape={self.shape}, dtype={self.dtype})"

    def copy_at_version(self, version: Any) -> TracedArray:
        """Return a copy of the array at a version of the storage that autograd has saved."""
        value = self.memory.values_at.get(version)
        if value is None:
            raise Unrecorded(None if version.next is None else version.next.writer)
        tracer = self.memory.tracer
        for step in self.path:
            value = tracer.emit(step.op, (value,), step.settings)[step.number]
        return tracer.array(value, self.memory.place)

    def make_checked(self) -> Any:
        """Return its values for argument checks (see ndgrad._src.compiler.capture.branch_conditions)."""
        from ndgrad._src.compiler.capture.branch_conditions import Checked  # rarely needed

        tracer = self.memory.tracer
        return self.constant_array if self.constant_array is not None else Checked(tracer, tracer.value_of(self), self.stands_on)

    # ----- values, available for constants only -----

    def _values(self) -> Any:
        known = self.constant_array
        if known is None:
            raise GraphBreak(f"the function asks for the values of a tensor of shape {self.shape} ({self.dtype})")
        return known

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._values(), dtype)

    def __bool__(self) -> bool:
        if self.constant_array is None and self.size == 1 and self.stands_on is CPU:
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
        if args or self.size != 1 or self.constant_array is not None:
            return self._values().item(*args)
        if self.dtype.kind == "b":
            return bool(self)
        number = self.memory.tracer.read_number(self) if self.stands_on is CPU else None
        return self._values().item() if number is None else number

    def tolist(self) -> Any:
        return self._values().tolist() if self.shape else self.item()

    def tobytes(self, *args: Any) -> Any:
        return self._values().tobytes(*args)

    # ----- operations that need data -----

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
        if self.constant_array is None:
            self._bare()
        return np.array(self.constant_array[index])

    __setitem__ = _bare

    def __iadd__(self, other: Any) -> Self:  # type: ignore[misc]  # the only supported addition
        """Add in place. Gradients are accumulated in this way, below all ops."""
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
        if name.startswith("_") or not hasattr(np.ndarray, name):  # a test for a tensor or a protocol
            raise AttributeError(name)
        if name in _READING:
            return getattr(self._values(), name)
        raise GraphBreak(f"the function uses {name!r} of NumPy's array under a tensor, which there is none of in a trace")


class Flags:
    """NumPy's flags of a traced array."""

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


#: Methods of arrays that read values and return new objects.
_READING = frozenset("all any argmax argmin argsort astype cumsum max mean min nonzero prod round sum".split())

#: NumPy functions that inspect shapes, dtypes and strides only.
_ABOUT_SHAPES = frozenset([
    np.empty_like, np.zeros_like, np.ones_like, np.full_like, np.shape, np.ndim, np.size, np.result_type,
    np.iscomplexobj, np.isrealobj, np.can_cast, np.common_type, np.min_scalar_type,
])  # fmt: skip


def _plain(value: Any) -> Any:
    """Return an argument of a NumPy function, or a nested list or tuple, with traced constants as arrays."""
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([_plain(v) for v in value])
    if not isinstance(value, TracedArray):
        return value
    known = value.constant_array
    if known is None:
        value._bare()
    return known


def _lies(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """True if the array is contiguous in this order of dimensions."""
    expected = itemsize
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n != 1:
            if step != expected:
                return False
            expected *= n
    return True


# A traced array passes as a NumPy array. Functions that need its data refuse it.
libraries._known[TracedArray] = np
