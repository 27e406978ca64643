"""Builtins that read, write or add elements of small arrays by an index along a dimension.

A builtin serves one combination of shapes. It checks its arrays and the range of the index, makes the result, and runs
the loop of ndgrad._src.compiler.kernels.indexed_lines, all in about a microsecond; the same steps in Python take ten.
It fails for an index out of range, before anything is written.

    read, kept             whole, index -> part
    write, add "base"      whole, index, part -> a new whole
    write, add "zeros"     index, part -> zeros with the part
    write, add "place"     whole, index, part, in place

The index has the part's shape, or is one list of slices: the part then has its elements in place of the dimension.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.kernels.indexed_lines import line_function
from ndgrad._src.compiler.native.calls import Input, Output, Scratch, make_call
from ndgrad._src.compiler.native.ir import Function, Vector, element_of, module
from ndgrad._src.compiler.native.target import Code

_INDEX = np.dtype(np.int64)
#: Words of the description: those of a line function without addresses, then elements of the index and bytes of whole.
_LINE = 10


@functools.cache
def _code(how: str, onto: str, element: str, is_last: bool) -> tuple[Code, int]:
    line = line_function(how, element, is_last)
    line.linkage = "internal"
    f = Function("run_indexed", "ptr %pointers", "i64")
    given = {"": ("whole", "index", "part"), "base": ("base", "index", "part", "whole")}.get(onto)
    given = given or (("index", "part", "whole") if onto == "zeros" else ("whole", "index", "part"))

    def pointer(number: int) -> str:
        return f.set(f"load ptr, ptr {f.address('ptr', '%pointers', str(number))}")

    places = {name: pointer(n) for n, name in enumerate(given)}
    description, scratch = pointer(len(given)), pointer(len(given) + 1)

    def word(number: int) -> str:
        return f.load(Vector("i64"), f.address("i64", description, str(number)))

    size = word(6)
    wrong = f.carry("i1", "false")
    with f.loop(word(_LINE), carried=[wrong]) as i:
        number = f.load(Vector("i64"), f.address("i64", places["index"], i))
        wrong.next = f.either(wrong.name, f.compare("uge", number, size))
    with f.when(wrong.name):
        f.returns("i64 1")
        f.label(f.fresh("unreached"))
    if onto == "base":
        source = f"ptr {places['base']}"
        f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {places['whole']}", source, f"i64 {word(_LINE + 1)}", "i1 false")
    elif onto == "zeros":
        f.call_void("llvm.memset.p0.i64", f"ptr {places['whole']}", "i8 0", f"i64 {word(_LINE + 1)}", "i1 false")
    words = f.set("alloca i64, i64 16")
    for n in range(_LINE):
        f.store(Vector("i64"), word(n), f.address("i64", words, str(n)))
    for n, place in enumerate((places["whole"], places["part"], places["index"], scratch)):
        f.do(f"store ptr {place}, ptr {f.address('i64', words, str(_LINE + n))}")
    f.store(Vector("i64"), "0", f.address("i64", words, str(_LINE + 4)))
    f.do(f"call void @{how}(ptr {words}, i64 0, i64 0)")
    f.returns("i64 0")
    code = Code(module([line, f]))
    return code, code.address("run_indexed")


def make_indexed(
    how: str, onto: str, dtype: np.dtype[Any], whole: tuple[int, ...], part: tuple[int, ...], index: tuple[int, ...],
    dim: int,
) -> Callable[..., Any]:  # fmt: skip
    """Return the builtin for arrays of these shapes. The part has as many elements along `dim` as the index has, or the
    shape of the index.
    """
    of_slices = index != part or len(part) != len(whole)
    outer, inner = math.prod(whole[:dim]), math.prod(whole[dim + 1 :])
    count = math.prod(index)
    length = count if of_slices else part[dim]
    steps = (0, 1, 0) if of_slices else (length * inner, inner, 1)
    element = element_of(dtype) if how == "add" else f"i{8 * dtype.itemsize}"
    size = whole[dim]
    code, address = _code(how, onto, element, inner == 1)
    nbytes = math.prod(whole) * dtype.itemsize
    words = [max(outer, 1), max(outer, 1), inner, max(inner, 1), 1, length, size, *steps, count, nbytes]
    description = np.array(words, np.int64)
    positions, values = Input(_INDEX, index), Input(dtype, part)
    inputs = {
        "": [Input(dtype, whole), positions],
        "base": [Input(dtype, whole), positions, values],
        "zeros": [positions, values],
        "place": [Input(dtype, whole, is_written=True), positions, values],
    }[onto]
    outputs = [] if onto == "place" else [Output(dtype, whole if onto else part)]
    return make_call(
        "indexed", inputs, outputs, address, [description.ctypes.data],
        scratch=Scratch(4 * size * max(inner, 1)) if how == "kept" else None,
        release=False, are_apart=onto == "place", keeps=(code, description),
    )  # fmt: skip
