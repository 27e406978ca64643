"""Select the instructions for fused kernels on a device, and write their lines of CUDA C++.

The grouping is that of native code (ndgrad._src.compiler.lower.grouping); this file has the features of a device's
kernels. Formulas of floats are those of ndgrad._src.compiler.kernels.operations, written by
ndgrad._src.compiler.cuda.values. For integers and booleans a few operators are enough, since networks use them as
indices and masks. Halves are computed in single precision and rounded when they are stored, or when the program casts
to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.cuda.values import COMPUTED, STORED, CudaWriter, has_formula
from ndgrad._src.compiler.kernels.maths.values import Mask, Real
from ndgrad._src.compiler.kernels.operations import compute, conditions_of
from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.capabilities import Abilities
from ndgrad._src.compiler.program.program import Instruction

if TYPE_CHECKING:
    from ndgrad._src.compiler.lower.steps import Kernel

#: C types of integers by the characters of their dtypes.
_INTEGERS = {
    "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int", "I": "unsigned int",
    "l": "long long", "L": "unsigned long long", "q": "long long", "Q": "unsigned long long",
}  # fmt: skip
#: Maximum length of a row that is kept in registers: a block of 1024 threads, 16 elements each.
LONGEST_ROW = 16384
#: Elements of kept values for which a block of a thousand threads has registers.
_REGISTERS = 1024 * 80

#: Operators of integers, with numbers or booleans as results.
_OPERATORS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "neg": "-{0}", "abs": "({0} < 0 ? -{0} : {0})",
    "square": "{0} * {0}", "minimum": "({0} < {1} ? {0} : {1})", "maximum": "({0} > {1} ? {0} : {1})",
    "bitwise_and": "{0} & {1}", "bitwise_or": "{0} | {1}", "bitwise_xor": "{0} ^ {1}",
    "where": "({0} ? {1} : {2})", "keep": "({1} ? {0} : 0)", "masked_fill": "({1} ? {2} : {0})",
    "clamp_min": "({0} < {1} ? {1} : {0})", "clamp_max": "({0} > {1} ? {1} : {0})", "copy": "{1}",
    "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}", "ge": "{0} >= {1}",
    "logical_and": "{0} && {1}", "logical_or": "{0} || {1}", "logical_xor": "bool({0}) != bool({1})", "logical_not": "!{0}",
}  # fmt: skip

#: Reductions: the combination of two terms, and the neutral element.
REDUCTIONS = {
    "sum": ("a + b", "0"), "prod": ("a * b", "1"), "any": ("a || b", "false"), "all": ("a && b", "true"),
    "max": ("a != a || a > b ? a : b", "lowest"), "min": ("a != a || a < b ? a : b", "highest"),
}  # fmt: skip


def memory_type(dtype: np.dtype[Any]) -> str:
    """Return the C type of elements in memory."""
    return STORED.get(dtype.char) or _INTEGERS[dtype.char]


def computing_type(dtype: np.dtype[Any]) -> str:
    """Return the C type in which elements are computed."""
    return COMPUTED.get(dtype.char) or ("bool" if dtype.char == "?" else _INTEGERS[dtype.char])


def is_type(dtype: np.dtype[Any]) -> bool:
    """True if kernels support a dtype."""
    return (dtype.char in STORED or dtype.char in _INTEGERS) and dtype.isnative


# ----- selection ------------------------------------------------------------------------------------------------------


def is_pointwise(instruction: Instruction) -> bool:
    """True if an instruction computes each element of its result from elements of its arguments, by a known op."""
    return pointwise.can_write(instruction, is_type, _has_code)


def _has_code(instruction: Instruction, dtype: np.dtype[Any]) -> bool:
    op, name = instruction.op, instruction.op.name
    if op.returns_bool != (instruction.result.dtype.char == "?") and dtype.char != "?":
        return False
    if dtype.char in COMPUTED:
        return has_formula(name, **instruction.settings) and pointwise.converts_first(instruction, dtype)
    return name in _OPERATORS and not instruction.settings


def is_reduction(instruction: Instruction) -> bool:
    """True if an instruction reduces dimensions of its argument by a known op."""
    return pointwise.is_reduction(instruction, is_type, REDUCTIONS)


def _may_keep(row: int, scratch: int, count: int) -> bool:
    return row <= LONGEST_ROW and (count + 1) * row <= _REGISTERS


def _may_add(kernel: Kernel, dims: tuple[int, ...]) -> bool:
    """True for sums over all leading dimensions: the same for all sums of a kernel, and its rows, if it has rows."""
    count = len(dims)
    if dims != tuple(range(count)) or count == len(kernel.shape):
        return False
    if kernel.rows is not None:
        return kernel.rows == count and kernel.shape[-1] <= LONGEST_ROW
    return all(leading(kernel, place.strides) == count for place in kernel.targets.values())


def leading(kernel: Kernel, strides: Sequence[int]) -> int:
    """Return the number of leading dimensions that a sum combines, from the target of its terms."""
    count = 0
    while count < len(strides) and (strides[count] == 0 or kernel.shape[count] == 1):
        count += 1
    return count


DEVICE = Abilities(
    is_type, is_pointwise, is_reduction, _may_keep, _may_add, streams=0, is_sunk=True, has_routines=False
)


# ----- lines ----------------------------------------------------------------------------------------------------------


class Lines(CudaWriter):
    """The lines of a kernel, with unique names."""

    def __init__(self, fresh: Callable[[], str]) -> None:
        super().__init__("float")
        self._fresh = fresh

    def set(self, expression: str, type: str | None = None) -> str:
        name = self._fresh()
        self.lines.append(f"const {type or self.computed} {name} = {expression};")
        return name

    def cast(self, name: str, source: np.dtype[Any], target: np.dtype[Any], rounds: bool = False) -> str:
        """Convert a register from one dtype to another; `rounds`: to a half's digits, though it stays in single
        precision.
        """
        if rounds and target.char in "eE" and source.char != target.char:
            name = name if computing_type(source) == "float" else self.set(f"(float){name}", "float")
            return self.set(f"rounded<{memory_type(target)}>({name})", "float")
        if computing_type(source) == computing_type(target):
            return name
        if target.char == "?":
            return self.set(f"{name} != 0", "bool")
        return self.set(f"({computing_type(target)}){name}", computing_type(target))

    def item(self, instruction: Instruction, arguments: Sequence[Any]) -> str:
        """Write an instruction, and return the register of the result. Arguments are (dtype, register), or numbers."""
        op, name, dtype = instruction.op, instruction.op.name, instruction.result.dtype
        if op.movement in ("copy", "reshape"):
            a = arguments[0]
            if not isinstance(a, tuple):
                return self.set(literal(a, dtype), computing_type(dtype))
            return self.cast(a[1], a[0], dtype, rounds=True)
        computing = pointwise.computing_dtype(instruction)
        assert computing is not None
        if computing.char in COMPUTED:
            return self._formula(instruction, computing, arguments)
        boolean = np.dtype(bool)
        conditions = conditions_of(name)
        words = []
        for place, a in enumerate(arguments):
            wanted = boolean if place in conditions or op.of_truths else computing
            words.append(self.cast(a[1], a[0], wanted) if isinstance(a, tuple) else literal(a, wanted))
        if op.returns_bool:
            return self.set(_OPERATORS[name].format(*words), "bool")
        return self.set(f"({computing_type(dtype)})({_OPERATORS[name].format(*words)})", computing_type(dtype))

    def _formula(self, instruction: Instruction, computing: np.dtype[Any], arguments: Sequence[Any]) -> str:
        self.computed = COMPUTED[computing.char]
        values: list[Any] = []
        conditions = conditions_of(instruction.op.name)
        for place, a in enumerate(arguments):
            if not isinstance(a, tuple):
                values.append(a.item() if isinstance(a, np.generic) else a)
            elif a[0].char == "?":
                values.append(Mask(self, a[1]))
            elif place in conditions:
                values.append(Mask(self, self.cast(a[1], a[0], np.dtype(bool))))
            else:
                values.append(Real(self, self.cast(a[1], a[0], computing)))
        return str(compute(self, instruction.op.name, values, instruction.settings))


def literal(number: Any, dtype: np.dtype[Any]) -> str:
    """Return a number in a dtype."""
    number = number.item() if isinstance(number, np.generic) else number
    if dtype.char in COMPUTED:
        return CudaWriter(COMPUTED[dtype.char]).constant(float(number))
    if dtype.char == "?":
        return "true" if number else "false"
    value = int(number)
    text = f"{value}ll" if value > -(1 << 63) else "(-9223372036854775807ll - 1)"
    return f"({computing_type(dtype)}){text}" if value < 1 << 63 else f"{value}ull"
