"""Fused kernels of elementwise ops: a thread processes a pack of neighbouring elements, 16 bytes of the narrowest
operand. Several similar kernels can be merged.
"""

from __future__ import annotations

from dataclasses import dataclass

from ndgrad._src.compiler.cuda.fused_form import THREADS, Affine, Form
from ndgrad._src.compiler.lower.steps import Kernel
from ndgrad._src.compiler.program.program import Value


class Flat(Form):
    """Form in which a thread processes a pack."""

    def write(self) -> None:
        lines, inner = self.inner_index("n")
        body = self.per_pack(self.items, ["0"], inner, {}, {}, {})
        start = f"const {self.index} n = ({self.index})blockIdx.x * {THREADS} + threadIdx.x;"
        self.launch([start, f"if (n >= {self.packs}) return;", *lines, *body], -(-self.packs // THREADS), THREADS)


@dataclass(eq=False)
class Line:
    """A kernel over operands that are dense in one order: its text for operands of any length, its pointers, and its
    number of packs.

    Several with the same text can be started together.
    """

    text: str
    pointers: list[Value | int]
    packs: int


def as_line(kernel: Kernel, affine: Affine, guarded: bool = False) -> Line | None:
    """Return an elementwise kernel for operands of any length; None for one that uses indices."""
    if kernel.rows is not None or kernel.targets or kernel.puts:
        return None
    form = Flat(kernel, affine, guarded)
    if len(form.inner_sizes) > 1 or any(key[0] in form.affine or key[1] for key in form.strides):
        return None
    body = form.per_pack(form.items, ["0"], form.inner_index("n")[1], {}, {}, {})
    form.launch(body, 0, THREADS)
    (made,) = form.out.launches
    head = made.text.replace("NAME(const Pointers<", "NAME(const __grid_constant__ Many<ENTRIES, ", 1)
    head = head.replace("a.at[", "a.at[entry][")
    first, rest = head.split("\n", 1)
    search = [
        "int entry = 0, last = (int)a.count - 1;",
        "while (entry < last) {",
        "    const int middle = (entry + last + 1) / 2;",
        "    if (a.first[middle] <= blockIdx.x) entry = middle; else last = middle - 1;",
        "}",
        f"const {form.index} n = ({form.index})(blockIdx.x - a.first[entry]) * {THREADS} + threadIdx.x;",
        "if (n >= a.packs[entry]) return;",
    ]
    entries = entries_of(len(made.pointers))
    return Line("\n".join([first.replace("ENTRIES", str(entries)), *search, rest]), made.pointers, form.packs)


def entries_of(pointers: int) -> int:
    """Return the number of kernels of so many pointers in one launch, whose argument has 4096 bytes."""
    return 500 // (pointers + 2)
