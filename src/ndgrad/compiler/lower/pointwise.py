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

_REDUCTIONS = frozenset(["sum", "sum_all"])


def is_reduction(instruction: Instruction) -> bool:
    """Whether an instruction reduces dimensions of its argument by an op that is known here."""
    if instruction.op.name not in _REDUCTIONS or len(list(instruction.values())) != 1:
        return False
    (source,) = instruction.values()
    return is_type(source.dtype) and is_type(instruction.result.dtype) and instruction.result.dtype.kind == "f"


def reduced_dims(instruction: Instruction) -> tuple[int, ...]:
    """The dimensions that a reduction takes together."""
    (source,) = instruction.values()
    dims = instruction.settings.get("dim")
    if instruction.op.name.endswith("_all") or dims is None or dims == ():
        return tuple(range(source.ndim))
    dims = dims if isinstance(dims, tuple) else (dims,)
    return tuple(d % source.ndim for d in dims)
