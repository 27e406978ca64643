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
from ndgrad._src.compiler.kernels.maths.values import Writer
from ndgrad._src.compiler.native.ir import TYPES, Function, Vector
from ndgrad._src.ops.formulas import NODE, Node, Signature


def write_formula(
    f: Function, dtype: str, lanes: int, signature: Signature, inputs: Sequence[str], numbers: Sequence[str]
) -> list[str]:
    """Write a formula of operands in registers, and return the names of its outputs."""
    waiting, w = iter(inputs), Writer(f, Vector(TYPES[dtype], lanes), fma=False)
    names: list[str] = []
    kinds: list[str] = []

    def operand(node: Node, place: int) -> str:
        kind, number = node.operands[place]
        if kind != NODE:
            return numbers[number]
        if place in operations.conditions_of(node.op) and kinds[number] != "bool":
            return operations.emit(f, "ne", dtype, lanes, names[number], 0.0)
        return names[number]

    for node in signature.nodes:
        if not node.op:
            names.append(next(waiting))
            kinds.append(dtype)
            continue
        values = [operand(node, place) for place in range(len(node.operands))]
        kind = _kind(node, dtype)
        given = {name: w.real(numbers[number]) for name, number in node.numbers}
        names.append(operations.emit(f, node.op, kind, lanes, *values, **dict(node.settings), **given))
        kinds.append(operations.result(node.op, kind))
    return [names[number] for number in signature.outputs]


def _kind(node: Node, dtype: str) -> str:
    """Return the dtype in which a node computes."""
    return "bool" if node.op.startswith("logical") else dtype


def supports(signature: Signature, dtype: str) -> bool:
    """True if all of a formula has native code."""
    return all(
        operations.supports(node.op, _kind(node, dtype), **dict(node.settings)) for node in signature.nodes if node.op
    )


def in_place_function(name: str, dtype: str, lanes: int, signature: Signature) -> Function:
    """Write a formula over many arrays, whose results replace some of its operands, or are new."""
    type = Vector(TYPES[dtype], lanes)
    inputs = sum(1 for node in signature.nodes if not node.op)
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
        for p, value in zip(targets, write_formula(f, dtype, lanes, signature, values, numbers), strict=True):
            f.store(type, value, f.address(type.element, p, i))
    with f.loop(count, whole, str(lanes)) as i:  # at most once
        values = [f.load_masked(type, f.address(type.element, p, i), mask) for p in sources]
        for p, value in zip(targets, write_formula(f, dtype, lanes, signature, values, numbers), strict=True):
            f.store_masked(type, value, f.address(type.element, p, i), mask)
    f.returns()
    return f
