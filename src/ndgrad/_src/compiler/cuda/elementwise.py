"""Write the source of an elementwise kernel for a formula, over operands of equal layout or with broadcasting.

    extern "C" __global__ void kernel(const Arguments a)

There are two forms. If all operands are dense in one order, a thread processes 16 bytes of each at a time, as full
memory bandwidth requires. Otherwise it processes one element, whose position in each operand follows from the index by
sizes and strides. Dimensions that can be merged have been merged before.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ndgrad._src.compiler.cuda import complex_elementwise
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED, CudaWriter, has_formula
from ndgrad._src.compiler.kernels.formula_values import write_formula
from ndgrad._src.compiler.kernels.maths.values import Mask, Real
from ndgrad._src.ops.formulas import Signature

#: Threads of a block.
THREADS = 256
#: Bytes that a thread reads at a time.
BYTES = 16
#: Number of elements from which on indices do not fit into 32 bits.
LARGEST = 1 << 31
#: Maximum number of dimensions of a kernel, after merging.
MOST_DIMS = 6


class Kind(NamedTuple):
    """Everything that the source of a kernel depends on.

    `dims` is 0 for operands of equal layout, else the number of dimensions. `dtype` is that of non-boolean results,
    `inputs` those of the operands, by their characters.
    """

    signature: Signature
    dtype: str
    inputs: tuple[str, ...]
    dims: int
    #: elements that a thread processes at a time
    width: int


def can_be_written(signature: Signature, dtype: str) -> bool:
    """True if there is CUDA code for all of a formula."""
    if dtype in complex_elementwise.PARTS:
        return complex_elementwise.can_be_written(signature)
    return dtype in COMPUTED and all(
        has_formula(node.op, **dict(node.settings)) for node in signature.nodes if node.op
    )


def result_dtypes(signature: Signature, dtype: str) -> list[str]:
    """Return the dtypes of a formula's results."""
    if dtype in complex_elementwise.PARTS:
        return complex_elementwise.result_dtypes(signature, dtype)
    w = CudaWriter(COMPUTED[dtype])
    inputs = [Real(w, "x") for _ in signature.inputs]
    outputs = write_formula(w, signature, inputs, [f"p{i}" for i in range(signature.numbers)])
    return ["?" if isinstance(out, Mask) else dtype for out in outputs]


def source(kind: Kind) -> str:
    """Return the text of a kernel."""
    signature = kind.signature
    if kind.dtype in complex_elementwise.PARTS:
        computed, prelude = complex_elementwise.PARTS[kind.dtype][1], complex_elementwise.PRELUDE
        results = complex_elementwise.result_dtypes(signature, kind.dtype)
        inputs, outputs = complex_elementwise.element_types(kind.dtype, len(kind.inputs), results)
    else:
        computed, prelude = COMPUTED[kind.dtype], PRELUDE
        outputs = [STORED[dtype] for dtype in result_dtypes(signature, kind.dtype)]
        inputs = [STORED[dtype] for dtype in kind.inputs]
    fields = ["long long n;"]
    fields += [f"{type}* o{i};" for i, type in enumerate(outputs)]
    fields += [f"const {type}* x{i};" for i, type in enumerate(inputs)]
    fields += [f"double p{i};" for i in range(signature.numbers)]
    if kind.dims:
        fields += [f"unsigned int sizes[{kind.dims}];", f"int strides[{len(inputs)}][{kind.dims}];"]
    head = [f"const {computed} p{i} = a.p{i};" for i in range(signature.numbers)]
    if kind.dims:
        body = _by_index(kind)
    else:
        body = _one_each(kind) if kind.dtype in complex_elementwise.PARTS else _in_order(kind, inputs, outputs)
    return "\n".join(
        [
            prelude,
            "struct Arguments {",
            *[f"    {field}" for field in fields],
            "};",
            f'extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{',
            *[f"    {line}" for line in [*head, *body]],
            "}",
        ]
    )


def _in_order(kind: Kind, inputs: Sequence[str], outputs: Sequence[str]) -> list[str]:
    """Write the form in which a thread's elements are contiguous in every operand."""
    width = kind.width
    arrays = range(len(kind.inputs))
    step = [f"const auto e{i} = wide(r{i}.at[k]);" for i in arrays]
    rest = [f"const auto e{i} = wide(a.x{i}[i]);" for i in arrays]
    lines, names = formula_lines(kind.signature, kind.dtype, kind.inputs)
    lines = [f"    {line}" for line in lines]
    types = [f"Pack<{inputs[i]}, {width}>" for i in arrays]
    packs = [f"const {type} r{i} = *(const {type}*)(a.x{i} + i);" for i, type in enumerate(types)]
    made = [f"Pack<{type}, {width}> w{i};" for i, type in enumerate(outputs)]
    kept = [f"*(Pack<{type}, {width}>*)(a.o{i} + i) = w{i};" for i, type in enumerate(outputs)]
    return [
        f"long long i = ((long long)blockIdx.x * {THREADS} + threadIdx.x) * {width};",
        f"if (i + {width} <= a.n) {{",
        *[f"    {line}" for line in [*packs, *made]],
        "    #pragma unroll",
        f"    for (int k = 0; k < {width}; ++k) {{",
        *[f"        {line}" for line in step],
        *[f"    {line}" for line in lines],
        *[f"        put(w{i}.at[k], {name});" for i, name in enumerate(names)],
        "    }",
        *[f"    {line}" for line in kept],
        "} else {",
        "    for (; i < a.n; ++i) {",
        *[f"        {line}" for line in rest],
        *[f"    {line}" for line in lines],
        *[f"        put(a.o{i}[i], {name});" for i, name in enumerate(names)],
        "    }",
        "}",
    ]


def _by_index(kind: Kind) -> list[str]:
    """Write the form that finds the position of an element in each operand from its index. Results are contiguous."""
    arrays = range(len(kind.inputs))
    walk = ["unsigned int rest = (unsigned int)i, at;", *[f"long long t{i} = 0;" for i in arrays]]
    for d in reversed(range(kind.dims)):
        walk += [f"at = rest % a.sizes[{d}]; rest /= a.sizes[{d}];"] if d else ["at = rest;"]
        walk += [f"t{i} += (long long)at * a.strides[{i}][{d}];" for i in arrays]
    return _one_element(kind, walk, [f"t{i}" for i in arrays])


def _one_each(kind: Kind) -> list[str]:
    """Write the form in which a thread computes one element, at the same position in every operand."""
    return _one_element(kind, [], ["i"] * len(kind.inputs))


def _one_element(kind: Kind, walk: list[str], places: list[str]) -> list[str]:
    is_complex = kind.dtype in complex_elementwise.PARTS
    if is_complex:
        lines, names = complex_elementwise.formula_lines(kind.signature, kind.dtype, len(kind.inputs))
    else:
        lines, names = formula_lines(kind.signature, kind.dtype, kind.inputs)
    read, write = ("{}", "{} = {};") if is_complex else ("wide({})", "put({}, {});")
    return [
        f"const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;",
        "if (i >= a.n) return;",
        *walk,
        *[f"const auto e{i} = {read.format(f'a.x{i}[{place}]')};" for i, place in enumerate(places)],
        *lines,
        *[write.format(f"a.o{i}[i]", name) for i, name in enumerate(names)],
    ]


def formula_lines(signature: Signature, dtype: str, inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines that compute one element from operands e0, e1, ... and numbers p0, p1, ..., and the names of the
    results.
    """
    w = CudaWriter(COMPUTED[dtype])
    values: list[Any] = [(Mask if char == "?" else Real)(w, f"e{i}") for i, char in enumerate(inputs)]
    outputs = write_formula(w, signature, values, [f"p{i}" for i in range(signature.numbers)])
    return w.lines, [str(out) for out in outputs]


def walked(shape: tuple[int, ...], arrays: Sequence[Any]) -> tuple[list[int], list[list[int]]]:
    """Return sizes, and the strides of each array in elements, with as few dimensions as possible. Do not modify them.
    """
    return walk(shape, tuple([(a.shape, a.strides, a.dtype.itemsize) for a in arrays]))


@functools.lru_cache(maxsize=4096)
def walk(
    shape: tuple[int, ...], arrays: tuple[tuple[tuple[int, ...], tuple[int, ...], int], ...]
) -> tuple[list[int], list[list[int]]]:
    """Return the same for arrays given by shapes, strides and the size of an element."""
    rows = []
    for own_shape, own_strides, item in arrays:
        own = [0 if n == 1 else s // item for n, s in zip(own_shape, own_strides)]
        rows.append([0] * (len(shape) - len(own_shape)) + own)
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in arrays]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(k[-1] == row[d] * n for k, row in zip(kept, rows)):
            sizes[-1] *= n
            for k, row in zip(kept, rows):
                k[-1] = row[d]
            continue
        sizes.append(n)
        for k, row in zip(kept, rows):
            k.append(row[d])
    return (sizes, kept) if sizes else ([1], [[0] for _ in arrays])
