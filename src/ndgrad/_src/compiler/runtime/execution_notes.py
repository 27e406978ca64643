"""Descriptions of the execution of loops and branches: natively, or round by round with the reason."""

from __future__ import annotations

from typing import Any

from ndgrad._src.compiler.lower.loops import Loop
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.steps import Call
from ndgrad._src.compiler.program.program import Instruction, Program
from ndgrad._src.compiler.runtime.backend import Runner


def describe_control_flow(*runners: Runner) -> list[str]:
    """Return a line for each loop and branch of some programs, and for each program that is too long. Code is generated
    for programs with loops or branches.
    """
    lines = [line for runner in runners if _control_flow(runner.program) for line in _describe_runner(runner)]
    return lines + [
        f"on NumPy, op by op: {r.reason_for_numpy} ({r.program.name})" for r in runners if r.reason_for_numpy is not None
    ]


def _control_flow(program: Program) -> list[Instruction]:
    return [i for i in program.instructions if _is_control(i)]


def _is_control(instruction: Instruction) -> bool:
    return bool(getattr(instruction.op, "programs", None))


def _describe_runner(runner: Runner) -> list[str]:
    made = runner.executable
    where = f" ({runner.program.name})"
    if not isinstance(made, NativeProgram):
        return [f"{_name_instruction(i)}: on NumPy, op by op{where}" for i in _control_flow(runner.program)]
    steps = [s for s in made.groups.steps if isinstance(s, (Call, Loop)) and _is_control(s.instruction)]
    return [
        f"{_name_instruction(s.instruction)}: {'native' if isinstance(s, Loop) else _describe(s.instruction)}{where}" for s in steps
    ]


def _name_instruction(instruction: Instruction) -> str:
    return f"loop of {instruction.settings['count']} rounds" if instruction.op.name == "loop" else instruction.op.name


def _describe(instruction: Instruction) -> str:
    """Describe the execution of a loop or branch that is no native loop."""
    if instruction.op.name == "branch":
        return "its condition is read by the program, and one of two programs runs"
    if instruction.op.name == "sweeps":
        return f"runs round by round, {len(instruction.settings['carried'])} times to and fro"
    body = Runner(instruction.settings["body"]).executable
    steps: list[Any] = body.groups.steps if isinstance(body, NativeProgram) else []
    names = sorted({s.instruction.op.name for s in steps if isinstance(s, Call)})
    if not names and instruction.op.name == "while":
        return "native, as long as it goes on"
    return f"runs round by round: it calls {', '.join(names) or 'NumPy'}"
