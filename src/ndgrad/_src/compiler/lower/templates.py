"""Share machine code between modules that differ only in numbers.

    mul i64 %i, 64  }                                    %p0 = load i64, ptr %parameters
    icmp slt i64 %i, 16     in one, 24 in the other  ->   icmp slt i64 %i, %p0      and 16 or 24 in the memory of the program

Note [Dynamic sizes] A function that is called with tensors of another size is traced again, since Python code may do
anything with a size. Nearly always only sizes of its program change, and only numbers in the text of its module: the
ends of loops, strides, offsets. So a module is split into a *skeleton* and its numbers. Numbers in which two modules of
one skeleton differ, and those that follow sizes known to vary, become parameters. The code reads them from memory of
each program. It also runs all further modules of that skeleton whose other numbers are the same. Nothing is
extrapolated from two sizes to a third, because every module states its own numbers. So this is exact for every program,
whatever it does with sizes. Kernels are written so that their skeleton does not depend on sizes that vary (with a loop
for the rest, and for the workers). If a skeleton does depend on them, it is compiled separately.

Sharing saves the compilation, which takes some five times as long as tracing and writing the module.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from ndgrad._src.compiler.native.phases import note_object
from ndgrad._src.compiler.native.target import Code, Target
from ndgrad._src.foundations.locks import make_lock

#: Sizes of tensors.
Sizes = frozenset[int]

#: Maximum number of skeletons that are remembered.
_MOST = 128
#: Multiples of a varying size larger than this are assumed to vary, too.
_SMALL = 8

#: The number of a `splat (i64 3)` must stay in the text, because the form is for constants alone.
_SLOTS = r"(?<!splat \(i64 )(?<=i64 )(-?\d+)(?=[,)]|$)"
#: Instruction name -> pattern of the numbers that could also be registers.
_PLACES = {
    **dict.fromkeys(
        ["add", "sub", "mul", "udiv", "sdiv", "urem", "srem"], re.compile(r"(?<=[ ,] )(-?\d+)(?=,|$)|" + _SLOTS)
    ),
    "icmp": re.compile(r"(?<=, )(-?\d+)$|" + _SLOTS),
    "getelementptr": re.compile(r"(?<=, i64 )(-?\d+)$"),
    "phi": re.compile(r"(?<=\[)(-?\d+)(?=, %)"),
    "select": re.compile(_SLOTS),
    "call": re.compile(_SLOTS),
    **dict.fromkeys(
        ["fadd", "fsub", "fmul", "fdiv"], re.compile(r"(?<=, )(?:0x[0-9A-F]{16}|splat \(\w+ 0x[0-9A-F]{16}\))$")
    ),
}
_INSTRUCTION = re.compile(r"  (?:%\S+ = )?(?:tail )?(\w+) (?:(?:nuw|nsw|contract|reassoc|fast) )*(<\d+ x \w+>|\S+)")
#: Calls whose arguments must stay in the text.
_IMMEDIATE = ("@llvm.lifetime", "@llvm.prefetch", "@llvm.assume")


class Number(NamedTuple):
    """A number of a module that could be a parameter: its line, columns, type and value, and True if it is an offset in
    scratch memory.
    """

    line: int
    begin: int
    end: int
    type: str
    text: str
    is_offset: bool = False

    def varies(self, sizes: Sizes) -> bool:
        """True if the number is likely to change with sizes."""
        if self.type == "i64":
            return varies(int(self.text), sizes) or (self.is_offset and bool(sizes) and self.text != "0")
        number = abs(self._float)
        near = [n for n in (number, 1 / number if number else 0.5) if n < 1e15 and n == round(n)]
        return any(varies(int(n), sizes) for n in near)

    @property
    def _float(self) -> float:
        """True for a floating-point number, which is written as the bits of a double."""
        found: float = struct.unpack("<d", struct.pack("<Q", int(self.text.rstrip(")").split()[-1], 16)))[0]
        return found

    @property
    def element(self) -> str:
        """Return the type of one number."""
        return self.type.rstrip(">").split()[-1]

    @property
    def bits(self) -> int:
        """Return the number as a word of memory."""
        if self.type == "i64":
            return int(self.text)
        narrow = self.element == "float"
        return int.from_bytes(struct.pack("<f" if narrow else "<d", self._float), "little", signed=True)

    def read(self, word: int) -> str:
        """Return the code that reads it into the register %p{word}."""
        address = f"  %a{word} = getelementptr i64, ptr %parameters, i64 {word}\n"
        if self.element == self.type:
            return f"{address}  %p{word} = load {self.type}, ptr %a{word}"
        mask = self.type.replace(self.element, "i32")
        return address + "\n".join([
            f"  %l{word} = load {self.element}, ptr %a{word}",
            f"  %v{word} = insertelement {self.type} poison, {self.element} %l{word}, i64 0",
            f"  %p{word} = shufflevector {self.type} %v{word}, {self.type} poison, {mask} zeroinitializer",
        ])  # fmt: skip


def varies(number: int, sizes: Sizes) -> bool:
    """True if a number is likely to change with sizes.

    An error is harmless. Code with a needless parameter is slower, and a number that was assumed fixed becomes a
    parameter once it changes.
    """
    return any(abs(number - n) <= 2 or (n > _SMALL and number and number % n == 0) for n in sizes)


def numbers_of(text: str) -> tuple[str, list[Number]]:
    """Return a module without the numbers that could be parameters, and these numbers."""
    lines, found = text.splitlines(), []
    readable = False  # true if parameters can be read at this line
    for row, line in enumerate(lines):
        if line.startswith("define"):
            readable = "ptr %table" in line
        elif line.startswith("  %parameters ="):
            readable = True
        elif readable and line.startswith("  "):
            is_offset = "getelementptr i8," in line or " %worker, " in line
            inside = [Number(row, *m.span(), kind, m.group(), is_offset) for kind, m in _places(line)]
            for n in reversed(inside):
                line = f"{line[: n.begin]}#{line[n.end :]}"
            lines[row] = line
            found += inside
    return "\n".join(lines), found


def _places(line: str) -> list[tuple[str, re.Match[str]]]:
    instruction = _INSTRUCTION.match(line)
    if instruction is None:
        return []
    name, kind = instruction.groups()
    places = _PLACES.get(name)
    if places is None or any(word in line for word in _IMMEDIATE):
        return []
    if name in ("getelementptr", "call", "select") or (name == "icmp" and " i64 " in line):
        kind = "i64"
    fits = kind.rstrip(">").endswith(("double", "float")) if name.startswith("f") else kind == "i64"
    return [(kind, m) for m in places.finditer(line)] if fits else []


def with_parameters(text: str, numbers: list[Number], chosen: list[int]) -> str:
    """Return the module with some of its numbers read from memory, word by word in their order."""
    lines = text.splitlines()
    registers: dict[int, list[str]] = {}
    start = dict(_beginnings(lines))
    for word in reversed(range(len(chosen))):
        n = numbers[chosen[word]]
        lines[n.line] = f"{lines[n.line][: n.begin]}%p{word}{lines[n.line][n.end :]}"
        begin = max(row for row in start if row < n.line)
        registers.setdefault(begin, []).append(n.read(word))
    for row, reads in registers.items():
        lines[row] = "\n".join([lines[row], *([start[row]] if start[row] else []), *reads])
    return "\n".join(lines) + "\n"


def _beginnings(lines: list[str]) -> list[tuple[int, str]]:
    """Return the lines after which parameters can be read, and the code that must precede the reads."""
    address = "  %parameter.slot = getelementptr ptr, ptr %table, i64 -1\n  %parameters = load ptr, ptr %parameter.slot"
    found = []
    for row, line in enumerate(lines):
        if line.startswith("define") and "ptr %table" in line:
            found.append((row + 1, address))  # the label
        elif line.startswith("  %parameters ="):
            found.append((row, ""))
    return found


# ----- compiled code --------------------------------------------------------------------------------------------------


class Variant(NamedTuple):
    """Machine code for modules of one skeleton: the positions of its parameters, and the values of the other numbers.
    """

    parameters: tuple[int, ...]
    numbers: tuple[str, ...]
    code: Code

    def fits(self, numbers: list[Number]) -> bool:
        """True if it is the code of a module with these numbers."""
        free = set(self.parameters)
        return all(k in free or n.text == own for k, (n, own) in enumerate(zip(numbers, self.numbers, strict=True)))


_families: OrderedDict[object, list[Variant]] = OrderedDict()
_lock = make_lock()


def code_for(text: str, target: Target, symbols: Mapping[str, int], sizes: Sizes | None) -> tuple[Code, list[int]]:
    """Return machine code for a module, and its parameters (see Note [Dynamic sizes]).

    `sizes` are those known to vary, None if code must not be shared.
    """
    if sizes is None:
        return Code(text, target, symbols=symbols), []
    skeleton, numbers = numbers_of(text)
    key = hashlib.sha256(skeleton.encode()).digest(), target, tuple(sorted(symbols.items()))
    with _lock:
        family = _families.setdefault(key, [])
        _families.move_to_end(key)
        if len(_families) > _MOST:
            _families.popitem(last=False)
        known = list(family)
    variant = next((v for v in known if v.fits(numbers)), None)
    if variant is not None:
        note_object(True)
    else:
        chosen = [k for k, n in enumerate(numbers) if n.varies(sizes)]
        if known:
            before = known[-1]
            changed = [k for k, (n, own) in enumerate(zip(numbers, before.numbers, strict=True)) if n.text != own]
            chosen = sorted({*before.parameters, *changed, *chosen})
        written = with_parameters(text, numbers, chosen) if chosen else text
        variant = Variant(tuple(chosen), tuple([n.text for n in numbers]), Code(written, target, symbols=symbols))
        with _lock:
            family.append(variant)
            del family[:-4]
    return variant.code, [numbers[k].bits for k in variant.parameters]
