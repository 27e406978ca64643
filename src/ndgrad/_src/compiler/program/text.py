"""Programs read back from their text (ndgrad._src.compiler.program.printing).

`parse_program(str(program))` is an equal program. If the text omits objects, such as large constants, they are passed
in the order of the text, as returned by `left_out(program)`.
"""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.dtypes import bfloat16
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.printing import INLINE, setting_text
from ndgrad._src.compiler.program.program import Instruction, Program, Value


def left_out(program: Program) -> list[Any]:
    """Return the objects that the text of a program omits, in its order: large constants, and settings that are no
    literals.

    `parse_program(str(program), left_out(program))` is the program again.
    """
    found: list[Any] = [array for array in program.constants.values() if array.size > INLINE]
    for instruction in program.instructions:
        settings = instruction.settings.values()
        for given in (*instruction.arguments, *[s for s in settings if not isinstance(s, Program)]):
            if given.__class__ is not Value:
                found += _objects(given)
        for inner in settings:
            if isinstance(inner, Program):
                found += left_out(inner)
    return found


def _objects(setting: Any) -> list[Any]:
    """Return the parts of a setting that are no literals."""
    if isinstance(setting, list) or (isinstance(setting, tuple) and not hasattr(setting, "_fields")):
        return [found for part in setting for found in _objects(part)]
    return [setting] if setting_text(setting).startswith("<") else []


_HEAD = re.compile(r"program (\S*)\((.*)\)$")
_TYPED = re.compile(r"(%\d+): (\w+)\[([\d,]*)\]")


def parse_program(text: str, constants: Sequence[Any] = ()) -> Program:
    """Return the program that a text describes. `constants` are the objects that it omits (`left_out`), in its order.
    """
    lines = deque(
        (number, line.strip()) for number, line in enumerate(text.strip().splitlines(), start=1) if line.strip()
    )
    return _parse_lines(lines, iter(constants))


def _parse_lines(lines: deque[tuple[int, str]], given: Iterator[Any]) -> Program:
    """Parse the program at the head of the lines, up to its `return`."""
    values: dict[str, Value] = {}
    program = Program([], [])
    number, line = lines.popleft()
    head = _HEAD.match(line)
    if head is None:
        raise ValueError(
            f"line {number} of a program cannot be read: {line!r} (a program begins with `program name(...)`). "
            "[nd-compiler]"
        )
    program.name, program.inputs = head[1], _define_values(head[2], values)
    while lines:
        if lines[0][1].startswith("program "):
            inner = _parse_lines(lines, given)
            program.instructions[-1].settings[inner.name] = inner
            continue
        number, line = lines.popleft()
        code, _, where = line.partition("  # ")
        code = code.strip()
        try:
            if code.startswith("return"):
                program.outputs = [values[name] for name in re.findall(r"%\d+", code)]
                break
            if code.startswith("constant "):
                target, _, written = code.removeprefix("constant ").partition(" = ")
                (value,) = _define_values(target, values)
                array = next(given) if written.startswith("<") else np.array(_literal(written), value.dtype)
                program.constants[value] = array.reshape(value.shape)
            else:
                targets, _, called = code.partition(" = ")
                op, _, rest = called.partition("(")
                arguments, settings = _call(rest.removesuffix(")"), values, given)
                results = tuple(_define_values(targets, values))
                program.instructions.append(
                    Instruction(op_named(op), arguments, settings, results, where.strip() or None)
                )
        except Exception as error:
            raise ValueError(f"line {number} of a program cannot be read: {line!r} ({error}). [nd-compiler]") from error
    program.check()
    return program


def _define_values(text: str, values: dict[str, Value]) -> list[Value]:
    made = []
    for name, dtype, shape in _TYPED.findall(text):
        value = values[name] = Value(tuple(int(n) for n in shape.split(",") if n), _dtype(dtype))
        made.append(value)
    return made


def _dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of a name. NumPy does not know bfloat16 before its first use."""
    return bfloat16.numpy if name == "bfloat16" else np.dtype(name)


def _call(text: str, values: dict[str, Value], given: Iterator[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Parse the arguments and settings in the parentheses of a call."""
    named = re.sub(r"<\w+>", "_given_", re.sub(r"%(\d+)", r"_value_\1", text))
    expression = ast.parse(f"f({named})", mode="eval").body
    assert isinstance(expression, ast.Call)
    arguments = tuple(_evaluate(a, values, given) for a in expression.args)
    return arguments, {str(k.arg): _evaluate(k.value, values, given) for k in expression.keywords}


def _literal(text: str) -> Any:
    return _evaluate(ast.parse(text, mode="eval").body, {}, iter(()))


def _evaluate(node: ast.expr, values: dict[str, Value], given: Iterator[Any]) -> Any:
    """Evaluate a literal: numbers, strings, tuples, lists, dtypes, slices, Ellipsis, nan and inf."""
    match node:
        case ast.Name(id="_given_"):
            return next(given)
        case ast.Constant():
            return node.value
        case ast.Name(id=name) if name.startswith("_value_"):
            return values["%" + name.removeprefix("_value_")]
        case ast.Name(id="Ellipsis"):
            return Ellipsis
        case ast.Name(id="nan" | "inf" as name):
            return float(name)
        case ast.Name(id=name):
            return _dtype(name)
        case ast.Tuple(elts=parts):
            return tuple(_evaluate(p, values, given) for p in parts)
        case ast.List(elts=parts):
            return [_evaluate(p, values, given) for p in parts]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values, given)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):  # a complex number
            a, b = _evaluate(left, values, given), _evaluate(right, values, given)
            return a + b if isinstance(sign, ast.Add) else a - b
        case ast.Call(func=ast.Name(id="slice"), args=parts):
            return slice(*[_evaluate(p, values, given) for p in parts])
        case ast.Call(func=ast.Name(id="complex"), args=parts):
            return complex(*[_evaluate(p, values, given) for p in parts])
        case ast.Call(func=ast.Name(id=name), args=[part]):
            return _dtype(name).type(_evaluate(part, values, given))
    raise ValueError(f"{ast.unparse(node)} is no literal of a program [nd-compiler]")
