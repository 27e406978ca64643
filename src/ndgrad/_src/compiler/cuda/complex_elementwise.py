"""Write the source of an elementwise kernel for a formula of complex numbers, over operands of equal layout or with
broadcasting.

    extern "C" __global__ void kernel(const Arguments a)

A value of the formula is a pair of registers, or one register if its imaginary part is zero by construction (a number,
a modulus). Products are those of NumPy, without a special treatment of infinities. All operands have one dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.ops.formulas import NODE, Signature

#: Character of a complex dtype -> the character and the type of its parts.
PARTS = {"F": ("f", "float"), "D": ("d", "double")}

#: A value: real part, and imaginary part or None.
_Value = tuple[str, str | None]

PRELUDE = """
template <typename T> struct __align__(2 * sizeof(T)) Complex { T re, im; };
"""


class _Lines:
    """The lines of a kernel."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.lines: list[str] = []

    def set(self, expression: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {self.part} {name} = {expression};")
        return name


def _add(w: _Lines, x: _Value, y: _Value) -> _Value:
    imaginary = w.set(f"{x[1]} + {y[1]}") if x[1] and y[1] else x[1] or y[1]
    return w.set(f"{x[0]} + {y[0]}"), imaginary


def _neg(w: _Lines, x: _Value) -> _Value:
    return w.set(f"-{x[0]}"), w.set(f"-{x[1]}") if x[1] else None


def _sub(w: _Lines, x: _Value, y: _Value) -> _Value:
    if x[1] and y[1]:
        imaginary: str | None = w.set(f"{x[1]} - {y[1]}")
    else:
        imaginary = w.set(f"-{y[1]}") if y[1] else x[1]
    return w.set(f"{x[0]} - {y[0]}"), imaginary


def _mul(w: _Lines, x: _Value, y: _Value) -> _Value:
    (a, b), (c, d) = x, y
    if b and d:
        return w.set(f"{a} * {c} - {b} * {d}"), w.set(f"{a} * {d} + {b} * {c}")
    imaginary = w.set(f"{a} * {d}") if d else w.set(f"{b} * {c}") if b else None
    return w.set(f"{a} * {c}"), imaginary


def _conj(w: _Lines, x: _Value) -> _Value:
    return x[0], w.set(f"-{x[1]}") if x[1] else None


def _abs(w: _Lines, x: _Value) -> _Value:
    return (w.set(f"hypot({x[0]}, {x[1]})") if x[1] else w.set(f"fabs({x[0]})")), None


def _copy(w: _Lines, x: _Value) -> _Value:
    return x


_OPS: dict[str, tuple[int, Callable[..., _Value]]] = {
    "add": (2, _add), "sub": (2, _sub), "mul": (2, _mul), "neg": (1, _neg), "conj": (1, _conj), "abs": (1, _abs),
    "clone": (1, _copy), "square": (1, lambda w, x: _mul(w, x, x)),
}  # fmt: skip


def can_be_written(signature: Signature) -> bool:
    """True if there is complex code for all of a formula."""
    return all(
        not node.op or (node.op in _OPS and len(node.operands) == _OPS[node.op][0] and not node.settings and not node.numbers)
        for node in signature.nodes
    )


def _write(w: _Lines, signature: Signature, inputs: Sequence[_Value]) -> list[_Value]:
    """Write a formula, and return its outputs."""
    waiting = iter(inputs)
    values: list[_Value] = []
    for node in signature.nodes:
        if node.op:
            operands = [values[number] if kind == NODE else (f"p{number}", None) for kind, number in node.operands]
            values.append(_OPS[node.op][1](w, *operands))
        else:
            values.append(next(waiting))
    return [values[number] for number in signature.outputs]


@functools.lru_cache(maxsize=256)
def result_dtypes(signature: Signature, dtype: str) -> list[str]:
    """Return the dtypes of a formula's results: complex, or real for moduli."""
    real, part = PARTS[dtype]
    inputs = [(f"e{i}", f"f{i}") for i, node in enumerate(n for n in signature.nodes if not n.op)]
    return [dtype if imaginary else real for _, imaginary in _write(_Lines(part), signature, inputs)]


def element_types(dtype: str, inputs: int, outputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the types in memory of operands and of results."""
    part = PARTS[dtype][1]
    return [f"Complex<{part}>"] * inputs, [f"Complex<{part}>" if char == dtype else part for char in outputs]


def formula_lines(signature: Signature, dtype: str, count: int) -> tuple[list[str], list[str]]:
    """Return the lines that compute one element from operands e0, e1, ... and numbers p0, p1, ..., and the expressions
    of the results.
    """
    part = PARTS[dtype][1]
    w = _Lines(part)
    outputs = _write(w, signature, [(f"e{i}.re", f"e{i}.im") for i in range(count)])
    return w.lines, [f"Complex<{part}>{{{re}, {im}}}" if im else re for re, im in outputs]


def is_complex(chars: Sequence[Any]) -> bool:
    """True if operands have one complex dtype."""
    return len({*chars}) == 1 and chars[0] in PARTS
