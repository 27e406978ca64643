"""Programs as text.

    program loss(%0: float64[3], %1: float64[3])
      constant %2: float64[2] = [1.0, 2.0]
      %3: float64[3] = mul(%0, %1)
      %4: float64[] = sum_all(%3)                     # model.py:12
      return %4

`str(program)` shows the text, and the tests of the passes compare it. Settings are Python literals, with `float64` for a
dtype and `1:5:2` written `slice(1, 5, 2)`. A constant of more than sixteen elements is written as its size alone, and a
setting that is no literal (the pattern of a sparse matrix, a rule of the user's) as its class: `<Pattern>`. The body of
a loop is a program of its own. It is written below the loop under the name of its setting:

      %3: float64[] = loop(%0, %1, count=10, carried=1, invariant=1, reads=(), last=0)
        program body(%0: float64[], %1: float64[])
          %2: float64[] = mul(%0, %1)
          return %2
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Program, Value

#: Elements of the largest constant that is written in full.
INLINE = 16


def print_program(program: Program) -> str:
    """Return the text of a program. Values are numbered in the order of their definitions."""
    names: dict[Value, str] = {}

    def define(value: Value) -> str:
        names[value] = f"%{len(names)}"
        return f"{names[value]}: {type_text(value)}"

    lines = [f"program {program.name}({', '.join([define(v) for v in program.inputs])})"]
    for value, array in program.constants.items():
        lines.append(f"  constant {define(value)} = {constant_text(array)}")
    for instruction in program.instructions:
        arguments = [_argument_text(a, names) for a in instruction.arguments]
        inner = [setting for setting in instruction.settings.values() if isinstance(setting, Program)]
        called = f"{instruction.op.name}({', '.join([*arguments, *settings_text(instruction)])})"
        line = f"  {', '.join([define(v) for v in instruction.results])} = {called}"
        lines.append(line if instruction.where is None else f"{line:<80}  # {instruction.where}")
        lines += [f"    {line}" for body in inner for line in print_program(body).splitlines()]
    lines.append(f"  return {', '.join([names[v] for v in program.outputs])}")
    return "\n".join(lines) + "\n"


def value_names(program: Program) -> dict[Value, str]:
    """Return the names of values in the text of a program."""
    values = [*program.inputs, *program.constants, *[v for i in program.instructions for v in i.results]]
    return {value: f"%{number}" for number, value in enumerate(values)}


def settings_text(instruction: Instruction) -> list[str]:
    """Return the settings of an instruction, each as name=value, without the programs inside it."""
    return [
        f"{name}={setting_text(value)}"
        for name, value in instruction.settings.items()
        if not isinstance(value, Program)
    ]


def type_text(value: Value) -> str:
    """Return the dtype and shape of a value: float64[3,4]."""
    return f"{value.dtype.name}[{','.join(map(str, value.shape))}]"


def constant_text(array: Any) -> str:
    """Return a constant as the text shows it: its elements, or its size."""
    if array.size > INLINE:
        return f"<{array.nbytes} bytes>"
    return setting_text(array.tolist())


def _argument_text(argument: Any, names: dict[Value, str]) -> str:
    return names[argument] if argument.__class__ is Value else setting_text(argument)


#: Classes written as Python literals.
_LITERAL = (bool, int, float, str, type(None), type(Ellipsis))


def setting_text(setting: Any) -> str:
    if setting.__class__ is complex and not _is_exact_literal(setting):
        return f"complex({setting.real!r}, {setting.imag!r})"
    if isinstance(setting, np.dtype):
        return setting.name
    if isinstance(setting, np.generic):
        return f"{setting.dtype.name}({setting_text(setting.item())})"
    if isinstance(setting, tuple) and not hasattr(setting, "_fields"):
        inner = [setting_text(s) for s in setting]
        return f"({inner[0]},)" if len(inner) == 1 else f"({', '.join(inner)})"
    if isinstance(setting, list):
        return f"[{', '.join(map(setting_text, setting))}]"
    if isinstance(setting, slice):
        return f"slice({setting.start}, {setting.stop}, {setting.step})"
    return repr(setting) if isinstance(setting, (*_LITERAL, complex)) else f"<{type(setting).__name__}>"


def _is_exact_literal(number: complex) -> bool:
    """True if Python's text for a complex number evaluates to that number. It does not for infinite parts and negative
    zeros.
    """
    parts = number.real, number.imag
    return all(math.isfinite(part) and (part != 0 or math.copysign(1.0, part) > 0) for part in parts)
