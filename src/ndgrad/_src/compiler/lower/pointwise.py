"""Recognise elementwise instructions, and write their machine instructions.

The formulas are those of `ndgrad._src.compiler.kernels.operations`. An op computes in the dtype of its result. A
comparison, or another op with a bool result, computes in the common dtype of its arguments. Arguments are converted to
it first, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.kernels import operations
from ndgrad._src.compiler.kernels.casts import cast
from ndgrad._src.compiler.kernels.error_notes import has_note, note, note_cast, note_division
from ndgrad._src.compiler.kernels.maths.functions import muladd
from ndgrad._src.compiler.kernels.reductions import REDUCTIONS, Reduction
from ndgrad._src.compiler.native.ir import SIZES, TYPES, Function, Vector, element_of
from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad._src.foundations.locks import compute_once
from ndgrad._src.ops.table import Op

#: Bytes of the smallest register of vectors.
_REGISTER = 16


def is_type(dtype: np.dtype[Any]) -> bool:
    """True if kernels support a dtype."""
    return _name(dtype) in TYPES and dtype.isnative


@compute_once
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name


def is_pointwise(instruction: Instruction) -> bool:
    """True if an instruction computes each element of its result from elements of its arguments, by an op with a
    formula here.
    """
    if instruction.op.name == "muladd":
        dtype = instruction.result.dtype
        return is_type(dtype) and all(v.dtype == dtype for v in instruction.values())
    return can_write(instruction, is_type, _has_code)


def can_write(
    instruction: Instruction,
    is_type: Callable[[np.dtype[Any]], bool],
    has_code: Callable[[Instruction, np.dtype[Any]], bool],
) -> bool:
    """True if a backend can write an elementwise instruction.

    `has_code` decides for the dtype in which the instruction computes. Copies and casts exist for all dtypes.
    """
    if len(instruction.results) != 1 or not is_type(instruction.result.dtype):
        return False
    for a in instruction.arguments:
        if not (is_type(a.dtype) if a.__class__ is Value else isinstance(a, (bool, int, float, np.generic))):
            return False
    if instruction.op.movement == "copy":
        return True
    if operations.operation_of(instruction.op.name) is None:
        return False
    dtype = computing_dtype(instruction)
    if dtype is None or not is_type(dtype) or not holds_numbers(instruction, dtype):
        return False
    return has_code(instruction, dtype)


def _has_code(instruction: Instruction, dtype: np.dtype[Any]) -> bool:
    name = instruction.op.name
    if not converts_first(instruction, dtype) or not operations.supports(name, _name(dtype), **instruction.settings):
        return False
    return operations.result(name, _name(dtype)) == _name(instruction.result.dtype)


def holds_numbers(instruction: Instruction, dtype: np.dtype[Any]) -> bool:
    """True if the numbers and argument values of an op are exact in the dtype in which it computes.

    Otherwise NumPy runs the op: it compares exactly, or raises OverflowError.
    """
    kinds = {a.dtype.kind for a in instruction.arguments if a.__class__ is Value}
    if dtype.kind == "f" and instruction.result.dtype.kind == "b" and kinds == {"i", "u"}:
        return False  # NumPy compares int64 with uint64 as integers
    if dtype.kind not in "iub":
        return True
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return all(
        a.__class__ is Value or (isinstance(a, (bool, int, np.bool_, np.integer)) and low <= int(a) <= high)
        for i, a in enumerate(instruction.arguments)
        if i not in operations.conditions_of(instruction.op.name)
    )


def converts_first(instruction: Instruction, dtype: np.dtype[Any]) -> bool:
    """True if an op on NumPy converts its arguments to one dtype before it computes.

    A ufunc does. A formula of several ufuncs does not, and computes part of it in a narrower dtype.
    """
    if not hasattr(instruction.op.forward, "__code__"):
        return True
    conditions = operations.conditions_of(instruction.op.name)
    return all(
        a.__class__ is not Value or i in conditions or a.dtype == dtype for i, a in enumerate(instruction.arguments)
    )


def _is_linear(op: Op, count: int) -> bool:
    """True if an op is linear in each argument, so that it sets no bit of the floating-point status for zeros in lanes that are
    not read.
    """
    return len(frozenset().union(*op.linear_in(count))) == count


def computing_dtype(instruction: Instruction) -> np.dtype[Any] | None:
    """Return the dtype in which an instruction computes: that of its result, or the common one of a comparison's
    arguments. None if there is no common one.
    """
    if not instruction.op.returns_bool:
        return instruction.result.dtype
    try:
        return np.result_type(*[a.dtype if a.__class__ is Value else a for a in instruction.arguments])
    except TypeError:
        return None


def emit(f: Function, instruction: Instruction, arguments: Sequence[Any], lanes: int) -> str:
    """Write an instruction. Arguments are registers with their dtypes, (dtype, name), or numbers."""
    name = instruction.op.name
    if instruction.op.movement in ("copy", "reshape"):
        _note_cast(f, arguments[0], instruction.result.dtype, lanes)
        return _converted(f, arguments[0], instruction.result.dtype, lanes)
    if name == "muladd":
        x, y, z = (_converted(f, a, instruction.result.dtype, lanes) for a in arguments)
        return muladd(f, Vector(element_of(instruction.result.dtype), lanes), x, y, z)
    dtype = computing_dtype(instruction)
    assert dtype is not None
    conditions = operations.conditions_of(name)
    values: list[Any] = []
    for position, a in enumerate(arguments):
        if position in conditions:
            values.append(_converted(f, a, np.dtype(bool), lanes) if isinstance(a, tuple) else bool(a))
        elif isinstance(a, tuple):
            values.append(_converted(f, a, dtype, lanes))
        else:
            values.append(a.item() if isinstance(a, np.generic) else a)
    if conditions and instruction.op.moves_values and dtype.kind == "f":
        # A processor with masks would compute only the chosen values, and miss the errors of the others.
        values = [_apart(f, v, Vector(element_of(dtype), lanes)) if i not in conditions else v for i, v in enumerate(values)]
    wide = _whole_register(element_of(dtype), lanes)
    if wide == lanes or conditions or instruction.op.returns_bool or _is_linear(instruction.op, len(arguments)):
        made = operations.emit(f, name, _name(dtype), lanes, *values, **instruction.settings)
    else:
        padded = [_pad(f, v, Vector(element_of(dtype), lanes), wide) for v in values]
        made = operations.emit(f, name, _name(dtype), wide, *padded, **instruction.settings)
        made = _shuffle(f, made, made, Vector(element_of(instruction.result.dtype), wide), range(lanes))
    if has_note(name):
        type = Vector(element_of(dtype), lanes)
        given = [v if isinstance(v, str) else type.constant(v) for v in values]
        if dtype.kind == "f":
            note(f, name, type, made, given)
        else:
            note_division(f, type, given[0], given[1], dtype.kind == "i")
    return made


def _whole_register(element: str, lanes: int) -> int:
    """Return the number of lanes that fill registers, at least `lanes`."""
    if lanes == 1:
        return 1
    return max(1 << (lanes - 1).bit_length(), _REGISTER // SIZES[element])


def _pad(f: Function, value: Any, type: Vector, lanes: int) -> Any:
    """Return a register with ones in further lanes.

    LLVM leaves the lanes open that a short vector does not have. A division finds zeros there, and sets bits of the
    floating-point status that no element has caused. The fence keeps LLVM from leaving the ones out.
    """
    if not isinstance(value, str):
        return value
    order = [*range(type.lanes), *[type.lanes] * (lanes - type.lanes)]
    wide = Vector(type.element, lanes)
    padded = _shuffle(f, value, type.constant(1), type, order)
    return _apart(f, padded, wide) if type.element in ("float", "double") else padded


def _shuffle(f: Function, a: str, b: str, type: Vector, order: Sequence[int]) -> str:
    """Return the vector of the chosen lanes of two vectors one after the other."""
    indices = ", ".join(f"i32 {k}" for k in order)
    return f.set(f"shufflevector {type} {a}, {type} {b}, <{len(order)} x i32> <{indices}>")


def _apart(f: Function, value: Any, type: Vector) -> Any:
    """Return a register that LLVM computes in all lanes, whichever are read."""
    return f.call(type, f"llvm.arithmetic.fence.{type.suffix}", f"{type} {value}") if isinstance(value, str) else value


def _note_cast(f: Function, argument: Any, target: np.dtype[Any], lanes: int) -> None:
    """Write the error note of a cast of floats to signed integers."""
    if isinstance(argument, tuple) and argument[0].kind == "f" and target.kind == "i":
        note_cast(f, Vector(element_of(argument[0]), lanes), argument[1], 64 if target.itemsize == 8 else 32)


def _converted(f: Function, argument: Any, target: np.dtype[Any], lanes: int) -> str:
    """Return a register, or a number, in a dtype."""
    if not isinstance(argument, tuple):
        return Vector(element_of(target), lanes).constant(
            argument.item() if isinstance(argument, np.generic) else argument
        )
    return cast(f, argument[1], _name(argument[0]), _name(target), lanes)


def convert(f: Function, value: str, source: np.dtype[Any], target: np.dtype[Any], lanes: int) -> str:
    """Convert a register from one dtype to another."""
    return cast(f, value, _name(source), _name(target), lanes)


def cost_alone(instruction: Instruction) -> int | None:
    """Return the cost of an op that computes each element separately, on slices as on the whole; None for others."""
    return instruction.op.cost if is_pointwise(instruction) and "shape" not in instruction.settings else None


# ----- reductions -----------------------------------------------------------------------------------------------------


def is_reduction(
    instruction: Instruction, is_type: Callable[[np.dtype[Any]], bool] = is_type, reductions: Container[str] = REDUCTIONS
) -> bool:
    """True if an instruction reduces dimensions of its argument by an op that a backend can write."""
    op, values = instruction.op, list(instruction.values())
    if op.reduces not in reductions or len(values) != 1 or not values[0].size:
        return False
    dtype = instruction.result.dtype
    if not is_type(values[0].dtype) or not is_type(dtype) or op.returns_bool != (dtype.kind == "b"):
        return False
    return op.name.endswith("_all") or instruction.settings.get("dim") not in (None, ())


def is_float_product(instruction: Instruction) -> bool:
    """True if the order of a reduction affects intermediate overflow."""
    return instruction.op.reduces == "prod" and instruction.result.dtype.kind == "f"


def reduced_dims(instruction: Instruction) -> tuple[int, ...]:
    """Return the dimensions that a reduction combines."""
    source = next(instruction.values())
    if instruction.op.name.endswith("_all"):
        return tuple(range(source.ndim))
    dims = instruction.settings["dim"]
    dims = dims if isinstance(dims, tuple) else (dims,)
    return tuple(sorted(d % source.ndim for d in dims))


class Accumulator(Reduction):
    """The reduction of one instruction, in registers."""

    def __init__(self, f: Function, value: Value, instruction: Instruction) -> None:
        super().__init__(f, instruction.op.reduces, value.dtype.name)
        self.value = value
