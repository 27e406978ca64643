"""Formulas over the memory of many arrays at once: the step of an optimizer is one kernel, for any number of
parameters.

The functions have the names and the meaning of those in ndgrad._src.compiler.kernels.eager. A block processes a piece
of one array. It reads its array and the arrays' addresses from two tables on the device. The table of addresses is sent
again when gradients have moved since the previous step.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, THREADS, can_be_written, formula_lines
from ndgrad._src.compiler.cuda.index_faults import notes
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED
from ndgrad._src.ops.formulas import Signature

#: Elements of a piece.
_PIECE = 4096
_TO_DEVICE = 1


class Table:
    """Numbers in the host's memory, and a copy of them on the device."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.host = np.ascontiguousarray(numbers)
        if graph_recording.active is None:
            self.device = launch.new(numbers.shape, numbers.dtype)
            self.send()
            return
        # Use memory outside the graph, because earlier kernels of the graph may write its own. The table is sent before
        # they run.
        found = library.device_library
        with found.cuda.using_allocator(found.get_default_memory_pool().malloc):
            self.device = launch.new(numbers.shape, numbers.dtype)
        graph_recording.active.before_replay.append(self.send)

    def send(self) -> None:
        """Update the device's copy from the host's, for the kernels that are started from now on."""
        cuda = library.device_library.cuda
        cuda.runtime.memcpyAsync(
            self.device.data.ptr, self.host.ctypes.data, self.host.nbytes, _TO_DEVICE, cuda.get_current_stream().ptr
        )  # the driver has copied the numbers when it returns


def has_formula(signature: Signature, dtype: np.dtype[Any]) -> bool:
    """True if `formula_in_place` supports a formula."""
    return can_be_written(signature, dtype.char)


def formula_memory(sets: Sequence[Sequence[Any]]) -> tuple[Table, Table]:
    """Return the addresses of sets of arrays, and the pieces of their processing, for `formula_in_place`.

    In each set the formula's outputs are written to the first arrays, and the others are its inputs. All are
    contiguous, of one dtype, and in each set of one size.
    """
    addresses = Table(np.array([[a.data.ptr for a in arrays] for arrays in sets], np.int64))
    return addresses, _pieces(tuple([arrays[0].size for arrays in sets]), sets[0][0].data.device_id)


def formula_in_place(
    signature: Signature,
    numbers: Sequence[float] | Table,
    dtype: np.dtype[Any],
    table: Table,
    pieces: Table,
    place: int = 0,
    others: Sequence[Any] = (),
) -> None:
    """Run a formula on the sets of arrays of a table, with other arrays at one position of each set if given. Numbers
    may be on the device.
    """
    if others:
        table = _with_others(table, place, [a.data.ptr for a in others])
    device = table.device.data.device_id
    places = table.device.data.ptr, pieces.device.data.ptr, notes(device).flag.data.ptr
    kernel = _kernel(signature, dtype.char, device, isinstance(numbers, Table))
    given = [numbers.device.data.ptr] if isinstance(numbers, Table) else numbers
    kernel(len(pieces.host), THREADS, *places, *given)


def _with_others(table: Table, place: int, addresses: list[int]) -> Table:
    """Return a table with these addresses at one position. A recording gets its own table, which later steps do not
    change.
    """
    if graph_recording.active is not None:
        numbers = table.host.copy()
        numbers[:, place] = addresses
        return Table(numbers)
    if addresses != table.host[:, place].tolist():
        table.host[:, place] = addresses
        table.send()
    return table


def rouse(chunks: Any) -> None:
    """Do nothing: a GPU has no worker threads to wake."""


def later_numbers(count: int) -> Table:
    """Return numbers for `formula_in_place` that become known when the recorded work is run."""
    return Table(np.zeros(count))


@functools.lru_cache(maxsize=64)
def _pieces(sizes: tuple[int, ...], device: int) -> Table:
    """Return pieces of arrays of these sizes: the array, the first element, the number of elements."""
    pieces = [(n, begin, min(_PIECE, size - begin)) for n, size in enumerate(sizes) for begin in range(0, size, _PIECE)]
    return Table(np.array(pieces, np.int64).reshape(-1, 3))


@functools.lru_cache(maxsize=256)
def _kernel(signature: Signature, char: str, device: int, from_memory: bool) -> launch.Kernel:
    return launch.Kernel(source(signature, char, from_memory), "4q" if from_memory else f"3q{signature.numbers}d")


def source(signature: Signature, char: str, from_memory: bool = False) -> str:
    """Return the text of a kernel, whose numbers are in its argument or in the device's memory.

    Results may overwrite operands: a thread has read its elements when it writes them.
    """
    inputs = len(signature.inputs)
    outputs, width = len(signature.outputs), BYTES * 8 // {"d": 64, "f": 32}.get(char, 16)
    lines, names = formula_lines(signature, char, (char,) * inputs)
    arrays, results = range(inputs), range(outputs)
    computing = "\n".join(f"                {line}" for line in lines)
    reading = "\n".join(f"            const Some r{i} = *(const Some*)(x{i} + i);" for i in arrays)
    one_of_some = "\n".join(f"                const T e{i} = wide(r{i}.at[k]);" for i in arrays)
    keeping = "\n".join(f"                put(w{i}.at[k], {name});" for i, name in enumerate(names))
    writing = "\n".join(f"            *(Some*)(o{i} + i) = w{i};" for i in results)
    one = "\n".join(f"                const T e{i} = wide(x{i}[i]);" for i in arrays)
    writing_one = "\n".join(f"                put(o{i}[i], {name});" for i, name in enumerate(names))
    named = [f"p{i}" for i in range(signature.numbers)]
    numbers = " const double* p;" if from_memory else "".join(f" double {name};" for name in named)
    reads = [f"a.p[{i}]" if from_memory else f"a.{name}" for i, name in enumerate(named)]
    return f"""{PRELUDE}typedef {COMPUTED[char]} T; typedef {STORED[char]} S; typedef Pack<S, {width}> Some;
struct Arguments {{ const long long* table; const long long* pieces; const long long* fault;{numbers} }};
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
    if (*a.fault) return;  // its gradients may come from an index out of bounds
    const long long* piece = a.pieces + 3ll * blockIdx.x;
    const long long* table = a.table + piece[0] * {outputs + inputs};
    const long long begin = piece[1];
    const int count = (int)piece[2];
    long long gaps = 0;
    for (int k = 0; k < {outputs + inputs}; ++k) gaps |= table[k] + begin * sizeof(S);
    {" ".join(f"S* const o{i} = (S*)table[{i}] + begin;" for i in results)}
    {" ".join(f"const S* const x{i} = (const S*)table[{outputs + i}] + begin;" for i in arrays)}
    {" ".join(f"const T {name} = {read};" for name, read in zip(named, reads, strict=True))}
    const int whole = gaps % {BYTES} ? 0 : count / {width} * {width};
    for (int i = threadIdx.x * {width}; i < whole; i += {THREADS * width}) {{
{reading}
            Some {", ".join(f"w{i}" for i in results)};
            #pragma unroll
            for (int k = 0; k < {width}; ++k) {{
{one_of_some}
{computing}
{keeping}
            }}
{writing}
    }}
    for (int i = whole + threadIdx.x; i < count; i += {THREADS}) {{
{one}
{computing}
{writing_one}
    }}
}}
"""


# ----- running statistics ---------------------------------------------------------------------------------------------

_BLEND = """
struct Arguments { long long n; T* to[2]; const T* given[2]; double factors[2]; double share; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.n) return;
    const T share = (T)a.share, rest = (T)(1.0 - a.share);
    for (int k = 0; k < 2; ++k) if (a.to[k]) a.to[k][i] = a.to[k][i] * rest + a.given[k][i] * (T)a.factors[k] * share;
}
"""


@functools.lru_cache(maxsize=16)
def _blending(char: str, device: int) -> launch.Kernel:
    return launch.Kernel(f"typedef {COMPUTED[char]} T;\n{_BLEND}", "5q3d")


def blend_into(targets: Sequence[Any], given: Sequence[Any], factors: Sequence[float], share: float) -> bool:
    """Move up to two arrays towards others by a share: to += share (factor given - to). Return False if that is not
    supported. Arrays are contiguous, of one dtype and of one number of elements; a target may be None.
    """
    like = given[0]
    for to, x in zip(targets, given, strict=True):
        for a in (x,) if to is None else (to, x):
            if a.__class__ is not like.__class__ or a.dtype.char != like.dtype.char or a.size != like.size or not a._c_contiguous:
                return False
    if like.dtype.char not in "fd" or not like.size:
        return False
    places = [0 if a is None else a.data.ptr for a in (*targets, *given)]
    count = like.size
    _blending(like.dtype.char, like.data.device_id)(-(-count // THREADS), THREADS, count, *places, *factors, share)
    return True
