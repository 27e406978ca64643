"""Programs as pictures: a box for each value, an arrow from each value to its readers, a loop as a box around its body.

The drawing is that of graphs of nodes (ndgrad._src.debug.drawing): text, DOT and SVG, in Python alone. The numbers in
the boxes are those of the program's text. Boxes that only gradients need have a colour of their own.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from ndgrad._src.compiler.program.printing import constant_text, settings_text, type_text, value_names
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.debug.drawing import GraphPicture
from ndgrad._src.debug.drawing.contents import Box, Contents
from ndgrad._src.debug.source_lines import Place

_LONGEST_SETTING = 40


@dataclass
class ProgramContents(Contents):
    """The boxes of a program, starting at its outputs."""

    name: str = "program"
    subject = "Program"

    @property
    def caption(self) -> str:
        ops = self.node_count - self.leaf_count
        return f"{self.name}: {ops:,} op{'s' * (ops != 1)}"


class ProgramPicture(GraphPicture):
    """A program as text and as a picture: `str` is its text, and a notebook shows the SVG."""

    def __init__(self, program: Program, backward: Collection[Instruction] = (), limit: int | None = 300) -> None:
        super().__init__(contents_of(program, frozenset(backward)), limit)
        #: The program itself.
        self.program = program

    @property
    def text(self) -> str:
        return str(self.program)


class CompiledGraph:
    """Stages of a compiled function, from the trace to the programs that run. `print` shows the texts, a notebook the
    picture of `program`.

    Each part is a picture with `text`, `dot`, `svg` and `save(path)`; the same attributes here are those of `program`.
    """

    def __init__(self, traced: Program, program: Program, forward: Program, backward: Program | None) -> None:
        own = set(forward.instructions)
        #: The program before all passes, including its gradients.
        self.traced = ProgramPicture(traced)
        #: The program after all passes.
        self.program = ProgramPicture(program, [i for i in program.instructions if i not in own])
        #: The two halves; backward is None if there are no gradients.
        self.forward = ProgramPicture(forward)
        self.backward = (
            None if backward is None else ProgramPicture(backward, [i for i in backward.instructions if i not in own])
        )

    @property
    def text(self) -> str:
        parts = {
            "as it was traced": self.traced,
            "after the passes": self.program,
            "forward": self.forward,
            "backward": self.backward,
        }
        return "\n".join(f"# ----- {title}\n{picture.text}" for title, picture in parts.items() if picture is not None)

    @property
    def dot(self) -> str:
        return self.program.dot

    @property
    def svg(self) -> str:
        return self.program.svg

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file: .svg, .html, .dot (or .gv); .txt has all texts."""
        if os.path.splitext(os.fspath(path))[1].lower() == ".txt":
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.text)
        else:
            self.program.save(path)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.program._repr_svg_()

    def _repr_html_(self) -> str:
        return self.program._repr_html_()


def contents_of(program: Program, backward: frozenset[Instruction]) -> ProgramContents:
    """Return the boxes of a program; `backward` are the instructions that only gradients need."""
    names = value_names(program)
    boxes: dict[Value, Box] = {}
    order: list[Box] = []

    def add(box: Box, *values: Value) -> None:
        order.append(box)
        boxes.update(dict.fromkeys(values, box))

    for number, value in enumerate(program.inputs):
        add(Box(len(order), f"input {number}", "leaf", [names[value]], *_type(value)), value)
    for value, array in program.constants.items():
        add(Box(len(order), constant_text(array)[:_LONGEST_SETTING], "constant", [names[value]], *_type(value)), value)
    numbers: dict[Value, int] = {}
    for instruction in program.instructions:
        box = _box(instruction, len(order), names, instruction in backward)
        box.inputs = [(boxes[v], numbers.get(v, 0)) for v in instruction.values()]
        numbers.update({value: number for number, value in enumerate(instruction.results)})
        add(box, *instruction.results)
    roots = list(dict.fromkeys(boxes[v] for v in program.outputs))
    for root in roots:
        root.is_root = True
    used = set(roots) | {entry[0] for box in order for entry in box.inputs if entry is not None}
    shown = [box for box in reversed(order) if box in used or box.kind not in ("leaf", "constant")]
    leaves = sum(box.kind in ("leaf", "constant") for box in shown)
    return ProgramContents(shown, roots, len(shown), leaves, 0, program.name)


def _box(instruction: Instruction, number: int, names: dict[Value, str], backward: bool) -> Box:
    body = instruction.settings.get("body")
    results = instruction.results
    box = Box(number, instruction.op.name, "backward" if backward else "op", [names[v] for v in results])
    if isinstance(body, Program):
        box.kind = "loop"
        rounds = instruction.settings.get("count")
        box.title = instruction.op.name if rounds is None else f"loop, {rounds} rounds"
        box.inner = contents_of(body, frozenset())
    else:
        plain = [repr(a) for a in instruction.arguments if a.__class__ is not Value]
        box.contained = [text[:_LONGEST_SETTING] for text in (*plain, *settings_text(instruction))][:4]
    if len(results) == 1:
        box.shape, box.dtype = _type(results[0])
    else:
        box.shape = ", ".join(type_text(v) for v in results[:3]) + ("..." if len(results) > 3 else "")
    box.place = _place(instruction.where)
    return box


def _type(value: Value) -> tuple[str, str]:
    return str(value.shape), value.dtype.name


def _place(where: str | None) -> Place | None:
    """Return the source line of an instruction, parsed from its text."""
    file, _, line = (where or "").rpartition(":")
    return Place(file, int(line), "") if file and line.isdecimal() else None
