"""Generated code that launches a formula's kernel for operands of equal layout.

This is the path of most calls on a device, and all of it is CPU time. For a formula and the order of its operands
(arrays and numbers) the lines are written out, with one dictionary lookup and no calls except the library's own.
`print(start.__source__)` shows them. Other layouts, and new kinds of arrays, take the general path.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import Any

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, THREADS

#: Offset of the contents of a bytes object.
CONTENTS = bytes.__basicsize__ - 1
#: The kinds of operands.
ARRAY, NUMBER = "a", "n"


def starter(
    kinds: str,
    known: dict[Any, tuple[Any, ...]],
    general: Callable[[list[Any], list[Any]], Any],
    in_place: bool = False,
) -> Callable[..., Any]:
    """Return the launcher for operands of these kinds.

    `known` maps (device, dtypes, True if all are aligned) to a kernel's address, the packing of its argument, the
    elements of a block, the result's dtype and the bytes of an element. With `in_place` the result is written over the
    first operand. The launcher then returns True, or False if it has done nothing.
    """
    from cupy_backends.cuda.api import driver  # needs CuPy

    found, bare = library.device_library, launch.bare_array()
    text = _source(kinds, bare is not None, in_place)
    scope: dict[str, Any] = {
        "kernels": known.get, "general": general, "alloc": found.cuda.alloc, "ndarray": found.ndarray, "bare": bare,
        "pointer": struct.Struct("q").pack, "launch": driver.launchKernel, "stream": found.cuda.get_current_stream,
    }  # fmt: skip
    filename = f"<ndgrad generated start {kinds}{' in place' if in_place else ''}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), scope)
    start: Any = scope["start"]
    start.__source__ = text
    made: Callable[..., Any] = start
    return made


#: Lines that make an array over memory (see `launch.bare_array`).
_ARRAY_LINES = {True: ("out = bare(ndarray)", "out._init(shape, dtype, memory)"), False: ("out = ndarray(shape, dtype, memory)",)}


def _source(kinds: str, is_bare: bool, in_place: bool) -> str:
    names = [f"x{kinds[:i].count(ARRAY)}" if k == ARRAY else f"p{kinds[:i].count(NUMBER)}" for i, k in enumerate(kinds)]
    arrays = [name for name in names if name[0] == "x"]
    numbers = [name for name in names if name[0] == "p"]
    addresses = [f"a{name[1:]}" for name in arrays]
    alike = [f"{name}._c_contiguous" for name in arrays] + [f"{name}.shape == shape" for name in arrays[1:]]
    dtypes = ", ".join(f"{name}.dtype.char" for name in arrays)
    made: tuple[str, ...]
    if in_place:
        made = ("if dtype is not x0.dtype:", "    return False")
    else:
        made = ("memory = alloc(n * item)", *_ARRAY_LINES[is_bare])
    lines = [
        f"def start({', '.join(names)}):",
        "    d = x0.data",
        "    a0 = d.ptr",
        *[f"    {address} = {name}.data.ptr" for address, name in zip(addresses[1:], arrays[1:], strict=True)],
        "    shape = x0.shape",
        f"    if {' and '.join(alike)}:",
        f"        found = kernels((d.device_id, {dtypes}, ({' | '.join(addresses)}) % {BYTES} == 0))",
        "        n = x0.size",
        "        if found is not None and n:",
        "            address, pack, grain, dtype, item = found",
        *[f"            {line}" for line in made],
        f"            argument = pack({', '.join(['n', 'a0' if in_place else 'memory.ptr', *addresses, *numbers])})",
        f"            table = pointer(id(argument) + {CONTENTS})  # the driver copies the argument before it returns",
        (
            f"            launch(address, -(-n // grain), 1, 1, {THREADS}, 1, 1, 0, stream().ptr, "
            f"id(table) + {CONTENTS}, 0)"
        ),
        f"            return {'True' if in_place else 'out'}",
        "    return False" if in_place else f"    return general([{', '.join(arrays)}], [{', '.join(numbers)}])",
    ]
    return "\n".join(lines) + "\n"
