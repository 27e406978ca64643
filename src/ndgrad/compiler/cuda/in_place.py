"""Formulas over the memory of many arrays at once: the step of an optimizer is one kernel, however many parameters there
are. The functions have the names and the meaning of those in ndgrad.compiler.kernels.eager.

A block takes a piece of one array. Which one, and where the arrays lie, it reads from two tables on the device; the one
with the addresses is sent again when gradients lie elsewhere than they did in the step before.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad.arrays import library
from ndgrad.arrays.formulas import Signature
from ndgrad.compiler.cuda import launch
from ndgrad.compiler.cuda.elementwise import BYTES, THREADS, can_be_written, formula_lines
from ndgrad.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Elements of a piece.
_PIECE = 4096
_TO_DEVICE = 1


class Table:
    """Numbers in the host's memory, and a copy of them on the device."""

    def __init__(self, numbers: NDArray[np.int64]) -> None:
        self.host = np.ascontiguousarray(numbers)
        self.device = launch.new(numbers.shape, numbers.dtype)
        self.send()

    def send(self) -> None:
        """Have the device's copy hold what the host's does, for the kernels that are started from now on."""
        cuda = library.device_library.cuda
        cuda.runtime.memcpyAsync(
            self.device.data.ptr, self.host.ctypes.data, self.host.nbytes, _TO_DEVICE, cuda.get_current_stream().ptr
        )  # the driver has taken the numbers over when it returns


def has_formula(signature: Signature, dtype: np.dtype[Any]) -> bool:
    """Whether `formula_in_place` takes a formula."""
    return can_be_written(signature, dtype.char)


def formula_memory(sets: Sequence[Sequence[Any]]) -> tuple[Table, Table]:
    """Where sets of arrays lie and in which pieces they are worked through, for `formula_in_place`. In each set the first are what
    the formula's outputs are written to, the others its inputs; all are contiguous, of one dtype, and in each set of one size."""
    addresses = Table(np.array([[a.data.ptr for a in arrays] for arrays in sets], np.int64))
    return addresses, _pieces(tuple([arrays[0].size for arrays in sets]), sets[0][0].data.device_id)


def formula_in_place(
    signature: Signature,
    numbers: Sequence[float],
    dtype: np.dtype[Any],
    table: Table,
    pieces: Table,
    place: int = 0,
    others: Sequence[Any] = (),
) -> None:
    """Run a formula on the sets of arrays of a table, with other arrays at one place of each set if there are any."""
    if others:
        addresses = [a.data.ptr for a in others]
        if addresses != table.host[:, place].tolist():
            table.host[:, place] = addresses
            table.send()
    kernel = _kernel(signature, dtype.char, table.device.data.device_id)
    kernel(len(pieces.host), THREADS, table.device.data.ptr, pieces.device.data.ptr, *numbers)


@functools.lru_cache(maxsize=64)
def _pieces(sizes: tuple[int, ...], device: int) -> Table:
    """Pieces of arrays of these sizes: which array, the first element, the number of elements."""
    pieces = [(n, begin, min(_PIECE, size - begin)) for n, size in enumerate(sizes) for begin in range(0, size, _PIECE)]
    return Table(np.array(pieces, np.int64).reshape(-1, 3))


@functools.lru_cache(maxsize=256)
def _kernel(signature: Signature, char: str, device: int) -> launch.Kernel:
    return launch.Kernel(source(signature, char), f"2q{signature.numbers}d")


def source(signature: Signature, char: str) -> str:
    """The text of a kernel. Results may lie where operands do: a thread has read its elements when it writes them."""
    inputs = sum(not node.op for node in signature.nodes)
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
    numbers = "".join(f" double p{i};" for i in range(signature.numbers))
    return f"""{PRELUDE}typedef {COMPUTED[char]} T; typedef {STORED[char]} S; typedef Pack<S, {width}> Some;
struct Arguments {{ const long long* table; const long long* pieces;{numbers} }};
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
    const long long* piece = a.pieces + 3ll * blockIdx.x;
    const long long* table = a.table + piece[0] * {outputs + inputs};
    const long long begin = piece[1];
    const int count = (int)piece[2];
    long long gaps = 0;
    for (int k = 0; k < {outputs + inputs}; ++k) gaps |= table[k] + begin * sizeof(S);
    {" ".join(f"S* const o{i} = (S*)table[{i}] + begin;" for i in results)}
    {" ".join(f"const S* const x{i} = (const S*)table[{outputs + i}] + begin;" for i in arrays)}
    {" ".join(f"const T p{i} = a.p{i};" for i in range(signature.numbers))}
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
