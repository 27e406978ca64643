"""Loops over whole arrays whose sizes are known at run time: one function per formula, for any number of elements.

    void name(ptr argument, i64 chunk, i64 worker)

`argument` is a list of 8-byte words: the number of elements, the elements of a chunk, the address of each
operand, results first, and the parameters, numbers in double precision. An operand may be one number, which is the same for all elements.

The last vector of an array begins so that it ends with the array: some elements are computed twice, to the same values.
So there is one loop and no remainder, and outputs must not be inputs too. An array must have at least as many elements
as a vector, which the caller ensures (`native.SMALLEST`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ndgrad._src.compiler.native.ir import Function, Vector

#: Writes a formula, of operands and parameters in registers of so many lanes, and returns the names of the results.
Write = Callable[[Function, int, Sequence[str], Sequence[str]], Sequence[str]]


def word(f: Function, number: int, type: str = "i64") -> str:
    """Load a word of the argument."""
    return f.set(f"load {type}, ptr {f.ahead('%argument', 8 * number)}")


def data(f: Function, number: int) -> str:
    """Return a word that is the address of an array's first element."""
    return word(f, number, "ptr")


def parameter(f: Function, number: int, type: Vector) -> str:
    """Return a word that is a number in double precision, in all lanes."""
    value = word(f, number, "double")
    return f.splat(value if type.element == "double" else f.set(f"fptrunc double {value} to {type.element}"), type)


def loop_function(
    name: str, type: Vector, results: Sequence[str], operands: Sequence[tuple[str, bool]], parameters: int, write: Write
) -> Function:
    """Write a loop over vectors like `type`, the type of parameters.

    `results` and `operands` are LLVM's types; each operand comes with True if it is one number.
    """
    lanes = type.lanes
    f = Function(name, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    count, grain = word(f, 0), word(f, 1)
    targets = [data(f, 2 + n) for n in range(len(results))]
    sources = [data(f, 2 + len(results) + n) for n in range(len(operands))]
    numbers = [
        f.splat(f.load(Vector(e), p), Vector(e, lanes)) if one else ""
        for p, (e, one) in zip(sources, operands, strict=True)
    ]
    constants = [parameter(f, 2 + len(results) + len(operands) + n, type) for n in range(parameters)]
    begin = f.mul("%chunk", grain)
    last = f.sub(count, lanes)
    with f.loop(f.least(f.add(begin, grain), count), begin, str(lanes)) as i:
        at = f.least(i, last)
        values = [
            splat if one else f.load(Vector(e, lanes), f.address(e, p, at))
            for p, (e, one), splat in zip(sources, operands, numbers, strict=True)
        ]
        for element, pointer, value in zip(results, targets, write(f, lanes, values, constants), strict=True):
            f.store(Vector(element, lanes), value, f.address(element, pointer, at))
    f.returns()
    return f
