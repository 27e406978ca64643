"""Formulas (ndgrad._src.ops.formulas) as kernels: over new results, or in place over the memory of many arrays.

    void name(ptr argument, i64 chunk, i64 worker)

In place, a chunk is a piece of one of many arrays. The words of the argument are the addresses of two tables, then the
numbers of the formula:

    chunks    for each: the number of the arrays, the first element, the number of elements
    arrays    for each set of related arrays: the locations of their addresses, results first
"""

from __future__ import annotations

from collections.abc import Sequence

from ndgrad._src.compiler.kernels import operations
from ndgrad._src.compiler.kernels.elementwise import data, parameter
from ndgrad._src.compiler.kernels.formula_values import write_formula
from ndgrad._src.compiler.kernels.maths.values import Writer
from ndgrad._src.compiler.native.ir import TYPES, Function, Vector
from ndgrad._src.ops.formulas import Signature


def write_vectors(
    f: Function, type: Vector, signature: Signature, inputs: Sequence[str], numbers: Sequence[str]
) -> list[str]:
    """Write a formula of operands in vector registers, and return the names of its outputs."""
    w = Writer(f, type, fma=False)
    return [str(out) for out in write_formula(w, signature, [w.real(name) for name in inputs], numbers)]


def supports(signature: Signature, dtype: str) -> bool:
    """True if all of a formula has native code, and its results are numbers."""
    nodes = signature.nodes
    return all(operations.supports(n.op, dtype, **dict(n.settings)) for n in nodes if n.op) and not any(
        nodes[n].op and operations.result(nodes[n].op, dtype) == "bool" for n in signature.outputs
    )


def in_place_function(name: str, dtype: str, lanes: int, signature: Signature) -> Function:
    """Write a formula over many arrays, whose results replace some of its operands, or are new."""
    type = Vector(TYPES[dtype], lanes)
    inputs = len(signature.inputs)
    each = len(signature.outputs) + inputs
    f = Function(name, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    chunks, arrays = data(f, 0), data(f, 1)
    numbers = [parameter(f, 2 + n, type) for n in range(signature.numbers)]
    line = f.ahead(chunks, f.mul("%chunk", 24))
    which, first, count = (f.set(f"load i64, ptr {f.ahead(line, 8 * n)}") for n in range(3))
    table = f.ahead(arrays, f.mul(which, 8 * each))
    pointers = []
    for n in range(each):
        pointers.append(f.address(type.element, f.set(f"load ptr, ptr {f.ahead(table, 8 * n)}"), first))
    targets, sources = pointers[: len(signature.outputs)], pointers[len(signature.outputs) :]
    rest = f.set(f"urem i64 {count}, {lanes}")
    whole, mask = f.sub(count, rest), f.first_lanes(type, rest)
    with f.loop(whole, step=str(lanes)) as i:
        values = [f.load(type, f.address(type.element, p, i)) for p in sources]
        for p, value in zip(targets, write_vectors(f, type, signature, values, numbers), strict=True):
            f.store(type, value, f.address(type.element, p, i))
    with f.loop(count, whole, str(lanes)) as i:  # at most once
        values = [f.load_masked(type, f.address(type.element, p, i), mask) for p in sources]
        for p, value in zip(targets, write_vectors(f, type, signature, values, numbers), strict=True):
            f.store_masked(type, value, f.address(type.element, p, i), mask)
    f.returns()
    return f
