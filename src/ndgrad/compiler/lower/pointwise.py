"""Which instructions are element by element, and the machine instructions of each.

An op computes in the dtype of its result (comparisons in that which their arguments have in common), as NumPy does; arguments are
converted to it first. A bool is a byte that is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad.compiler.kernels import maths
from ndgrad.compiler.native.ir import TYPES, Function, Vector
from ndgrad.compiler.program import Instruction, Value


def is_type(dtype: np.dtype[Any]) -> bool:
    """Whether kernels know a dtype."""
    return dtype.name in TYPES and dtype.isnative


def vector(dtype: np.dtype[Any], lanes: int) -> Vector:
    return Vector(TYPES[dtype.name], lanes)


def is_pointwise(instruction: Instruction) -> bool:
    """Whether an instruction computes each element of its result from elements of its arguments, by an op that is known here."""
    name = instruction.op.name
    if name not in _OPS or len(instruction.results) != 1 or not is_type(instruction.result.dtype):
        return False
    if not all(is_type(a.dtype) if a.__class__ is Value else isinstance(a, (bool, int, float, np.generic)) for a in instruction.arguments):
        return False
    return _OPS[name].takes(instruction)


def computing_dtype(instruction: Instruction) -> np.dtype[Any]:
    """The dtype in which an instruction computes."""
    if _OPS[instruction.op.name].compares:
        kinds = [a.dtype if a.__class__ is Value else a for a in instruction.arguments]
        return np.result_type(*kinds)
    return instruction.result.dtype


def emit(f: Function, instruction: Instruction, arguments: Sequence[tuple[np.dtype[Any], str] | Any], lanes: int) -> str:
    """Write an instruction; arguments are registers with their dtypes, or numbers."""
    op = _OPS[instruction.op.name]
    dtype = computing_dtype(instruction)
    kind = vector(dtype, lanes)
    if op.converts:
        values = [_number(kind, a) if not isinstance(a, tuple) else convert(f, a[1], a[0], dtype, lanes) for a in arguments]
    else:
        values = list(arguments)
    return op.write(f, dtype, lanes, values, instruction)


def _number(kind: Vector, number: Any) -> str:
    return kind.constant(number.item() if isinstance(number, np.generic) else number)


def cost(instruction: Instruction) -> int:
    """About how many machine instructions an element takes."""
    name = instruction.op.name
    return 12 if name in maths.FORMULAS and maths.FORMULAS[name].place != "here" else 4 if name == "div" else 1


# ----- conversions -------------------------------------------------------------------------------------------------------


def convert(f: Function, value: str, source: np.dtype[Any], target: np.dtype[Any], lanes: int) -> str:
    """A register of one dtype in another."""
    if source == target:
        return value
    a, b = vector(source, lanes), vector(target, lanes)
    if target.kind == "b":
        return _truth(f, value, source, lanes)
    if source.kind == "f" and target.kind == "f":
        return f.set(f"{'fpext' if target.itemsize > source.itemsize else 'fptrunc'} {a} {value} to {b}")
    if source.kind == "f":
        return f.set(f"{'fptoui' if target.kind == 'u' else 'fptosi'} {a} {value} to {b}")
    if target.kind == "f":
        return f.set(f"{'uitofp' if source.kind in 'ub' else 'sitofp'} {a} {value} to {b}")
    if a == b:
        return value
    if target.itemsize < source.itemsize:
        return f.set(f"trunc {a} {value} to {b}")
    return f.set(f"{'zext' if source.kind in 'ub' else 'sext'} {a} {value} to {b}")


def _truth(f: Function, value: str, dtype: np.dtype[Any], lanes: int) -> str:
    """1 where a number is not zero."""
    kind = vector(dtype, lanes)
    compare = "fcmp une" if dtype.kind == "f" else "icmp ne"
    mask = f.set(f"{compare} {kind} {value}, zeroinitializer" if lanes > 1 else f"{compare} {kind} {value}, {kind.constant(0)}")
    return f.set(f"zext {kind.mask} {mask} to {Vector('i8', lanes)}")


def mask_of(f: Function, value: str, lanes: int) -> str:
    """A bool in a register as a mask."""
    return f.set(f"trunc {Vector('i8', lanes)} {value} to {Vector('i1', lanes)}")


# ----- ops ----------------------------------------------------------------------------------------------------------------

Write = Callable[[Function, "np.dtype[Any]", int, list[Any], Instruction], str]


class _Op:
    """How one op is written."""

    def __init__(self, write: Write, kinds: str = "fiu", compares: bool = False, converts: bool = True, settings: bool = False) -> None:
        self.write = write
        self.kinds = kinds
        self.compares = compares
        self.converts = converts
        self.settings = settings

    def takes(self, instruction: Instruction) -> bool:
        dtype = np.dtype(computing_dtype(instruction))
        if dtype.kind not in self.kinds or not is_type(dtype):
            return False
        return self.settings or not instruction.settings


def _binary(floats: str, integers: str | None = None) -> _Op:
    def write(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
        name = floats if dtype.kind == "f" else integers
        return f.set(f"{name} {vector(dtype, lanes)} {values[0]}, {values[1]}")

    return _Op(write, "f" if integers is None else "fiu")


def _comparison(floats: str, signed: str, unsigned: str) -> _Op:
    def write(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
        kind = vector(dtype, lanes)
        name = f"fcmp {floats}" if dtype.kind == "f" else f"icmp {signed if dtype.kind == 'i' else unsigned}"
        mask = f.set(f"{name} {kind} {values[0]}, {values[1]}")
        return f.set(f"zext {kind.mask} {mask} to {Vector('i8', lanes)}")

    return _Op(write, "fiub", compares=True)


def _negated(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
    kind = vector(dtype, lanes)
    return f.set(f"fneg {kind} {values[0]}" if dtype.kind == "f" else f"sub {kind} {kind.constant(0)}, {values[0]}")


def _squared(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
    name = "fmul" if dtype.kind == "f" else "mul"
    return f.set(f"{name} {vector(dtype, lanes)} {values[0]}, {values[0]}")


def _cast(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
    return str(values[0])


def _copied(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
    return str(values[1])


_OPS: dict[str, _Op] = {
    "add": _binary("fadd", "add"),
    "sub": _binary("fsub", "sub"),
    "mul": _binary("fmul", "mul"),
    "div": _binary("fdiv"),
    "neg": _Op(_negated),
    "square": _Op(_squared),
    "cast": _Op(_cast, "fiub", settings=True),
    "clone": _Op(_cast, "fiub"),
    "copy": _Op(_copied, "fiub"),
    "expand": _Op(_cast, "fiub", settings=True),
    "eq": _comparison("oeq", "eq", "eq"),
    "ne": _comparison("une", "ne", "ne"),
    "lt": _comparison("olt", "slt", "ult"),
    "le": _comparison("ole", "sle", "ule"),
    "gt": _comparison("ogt", "sgt", "ugt"),
    "ge": _comparison("oge", "sge", "uge"),
}


def _formula(name: str) -> _Op:
    def write(f: Function, dtype: np.dtype[Any], lanes: int, values: list[Any], instruction: Instruction) -> str:
        return maths.emit(f, name, vector(dtype, lanes), *values)

    return _Op(write, "f")


_OPS.update({name: _formula(name) for name in maths.FORMULAS if name not in _OPS})


# ----- reductions ---------------------------------------------------------------------------------------------------------

_SUMS = frozenset(["sum", "sum_all"])
_EXTREMES = {"amax": "maximum", "max_all": "maximum", "amin": "minimum", "min_all": "minimum"}


def is_reduction(instruction: Instruction) -> bool:
    """Whether an instruction reduces dimensions of its argument by an op that is known here."""
    name = instruction.op.name
    if name not in _SUMS and not (name in _EXTREMES and _EXTREMES[name] in maths.FORMULAS):
        return False
    values = list(instruction.values())
    dtype = instruction.result.dtype
    if len(values) != 1 or not is_type(values[0].dtype) or dtype.kind != "f" or not is_type(dtype):
        return False
    return name in _SUMS or _is_row_wise(instruction)


def _is_row_wise(instruction: Instruction) -> bool:
    """Whether a reduction takes trailing dimensions together: only sums are added up in memory."""
    source, dims = next(instruction.values()), reduced_dims(instruction)
    return all(d in dims or source.shape[d] == 1 for d in range(min(dims, default=0), source.ndim)) and source.size <= 1 << 14


def reduced_dims(instruction: Instruction) -> tuple[int, ...]:
    """The dimensions that a reduction takes together."""
    source = next(instruction.values())
    dims = instruction.settings.get("dim")
    if instruction.op.name.endswith("_all") or dims is None or dims == ():
        return tuple(range(source.ndim))
    dims = dims if isinstance(dims, tuple) else (dims,)
    return tuple(sorted(d % source.ndim for d in dims))


class Accumulator:
    """A reduction in registers: of a sum, the total so far and what its additions have lost."""

    def __init__(self, f: Function, value: Value, instruction: Instruction) -> None:
        self.f = f
        self.value = value
        self.kind = TYPES[value.dtype.name]
        self.is_sum = instruction.op.name in _SUMS
        self.formula = _EXTREMES.get(instruction.op.name, "")

    def identity(self, lanes: int) -> str:
        number = 0.0 if self.is_sum else float("-inf") if self.formula == "maximum" else float("inf")
        return Vector(self.kind, lanes).constant(number)

    def start(self) -> list[str]:
        return [self.identity(1)] * (2 if self.is_sum else 1)

    def combined(self, a: str, b: str, lanes: int) -> str:
        """Of two vectors, lane by lane."""
        kind = Vector(self.kind, lanes)
        return self.f.set(f"fadd {kind} {a}, {b}") if self.is_sum else maths.emit(self.f, self.formula, kind, a, b)

    def across(self, vector: str, lanes: int) -> str:
        """Of the lanes of a vector, in a tree."""
        f = self.f
        if lanes == 1:
            return vector
        parts = [f.set(f"extractelement {Vector(self.kind, lanes)} {vector}, i64 {k}") for k in range(lanes)]
        while len(parts) > 1:
            pairs = [self.combined(a, b, 1) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[len(pairs) * 2 :]
        return parts[0]

    def added(self, state: list[str], term: str) -> list[str]:
        """The state with another term: of a sum, with the error of the addition kept; an infinite sum has none."""
        if not self.is_sum:
            return [self.combined(state[0], term, 1)]
        f, kind = self.f, self.kind
        total, error = state
        new = f.set(f"fadd {kind} {total}, {term}")
        part = f.set(f"fsub {kind} {new}, {total}")
        left = f.set(f"fsub {kind} {total}, {f.set(f'fsub {kind} {new}, {part}')}")
        lost = f.set(f"fadd {kind} {left}, {f.set(f'fsub {kind} {term}, {part}')}")
        summed = f.set(f"fadd {kind} {error}, {lost}")
        finite = f.set(f"fcmp ord {kind} {f.set(f'fsub {kind} {new}, {new}')}, {self.identity(1)}")
        return [new, f.set(f"select i1 {finite}, {kind} {summed}, {kind} {self.identity(1)}")]

    def finished(self, state: list[str]) -> str:
        return self.f.set(f"fadd {self.kind} {state[0]}, {state[1]}") if self.is_sum else state[0]
