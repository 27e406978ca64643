"""Write LLVM IR: types, constants, and one function at a time, line by line.

IR is text here, as in LLVM's manual, so that generated code can be printed, read and compared. A `Function` assigns
names to results and writes loops. Everything else is an instruction given as a string:

    f = Function("scale", "ptr %x, double %a, i64 %n")
    with f.loop("%n") as i:
        p = f.set(f"getelementptr double, ptr %x, i64 {i}")
        v = f.set(f"load double, ptr {p}")
        f.do(f"store double {f.set(f'fmul double {v}, %a')}, ptr {p}")
    f.returns()
    text = f.text()

Vectors are written explicitly (`<8 x double>`). LLVM's own loop vectoriser takes minutes for code that takes
milliseconds without it.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

#: LLVM's name of a NumPy dtype, by the dtype's own name.
TYPES = {
    "bool": "i8",
    "int8": "i8",
    "uint8": "i8",
    "int16": "i16",
    "uint16": "i16",
    "int32": "i32",
    "uint32": "i32",
    "int64": "i64",
    "uint64": "i64",
    "float32": "float",
    "float64": "double",
}



@functools.cache
def element_of(dtype: Any) -> str:
    """Return LLVM's name of a NumPy dtype that kernels support. (Reading a dtype's own name takes microseconds.)"""
    return TYPES[dtype.name]


#: Bytes of an LLVM type.
SIZES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}

#: Spelling of a type in the name of an intrinsic: llvm.fma.v8f64.
_SUFFIX = {"float": "f32", "double": "f64", "i1": "i1", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64"}


@dataclass(frozen=True, slots=True)
class Vector:
    """The type of a value: `lanes` elements of an LLVM type; one lane is the scalar itself."""

    element: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """Return its spelling in the names of intrinsics."""
        return _SUFFIX[self.element] if self.lanes == 1 else f"v{self.lanes}{_SUFFIX[self.element]}"

    @property
    def mask(self) -> Vector:
        """Return the type of a comparison."""
        return Vector("i1", self.lanes)

    @property
    def integer(self) -> Vector:
        """Return integers of the same width, for bit operations."""
        return Vector({"float": "i32", "double": "i64"}.get(self.element, self.element), self.lanes)

    @property
    def bytes(self) -> int:
        return SIZES[self.element] * self.lanes

    def constant(self, value: float) -> str:
        """Return a number in all lanes, exactly."""
        text = number(self.element, value)
        return text if self.lanes == 1 else f"splat ({self.element} {text})"


def number(element: str, value: float) -> str:
    """Return a constant of a scalar type. Floats are written by their bits, as LLVM requires: a float as the double of
    the same value.
    """
    if element in ("float", "double"):
        if element == "float":
            value = struct.unpack("<f", struct.pack("<f", value))[0] if abs(value) < 3.5e38 else value
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    return str(int(value))


class Function:
    """A function under construction. `calls` declares intrinsics and other functions, and the module collects them."""

    def __init__(
        self, name: str, parameters: str, returns: str = "void", attributes: str = "", linkage: str = ""
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.declared: dict[str, str] = {}
        #: functions of the maths library called here, by name and type; `maths.library` has their definitions
        self.needed: list[tuple[str, Vector]] = []
        self.linkage = linkage
        self._head = f"{returns} @{name}({parameters})"
        self.attributes = attributes
        self._lines = ["entry:"]
        self._count = 0
        self.block = "entry"

    def set(self, instruction: str) -> str:
        """Write an instruction, and return the name of its result."""
        self._count += 1
        self._lines.append(f"  %r{self._count} = {instruction}")
        return f"%r{self._count}"

    def do(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self._lines.append("  " + instruction)

    def fresh(self, stem: str) -> str:
        """Return an unused label."""
        self._count += 1
        return f"{stem}{self._count}"

    def label(self, name: str) -> None:
        """Begin a block."""
        self._lines.append(f"{name}:")
        self.block = name

    def jump(self, name: str) -> None:
        self.do(f"br label %{name}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def returns(self, value: str = "void") -> None:
        self.do(f"ret {value}")

    def call(self, returns: object, name: str, *arguments: str) -> str:
        """Call a function that returns a value, declared if it is an intrinsic; arguments are `type value`."""
        self._declare(returns, name, arguments)
        return self.set(f"call {returns} @{name}({', '.join(arguments)})")

    def call_void(self, name: str, *arguments: str) -> None:
        self._declare("void", name, arguments)
        self.do(f"call void @{name}({', '.join(arguments)})")

    def call_outside(self, name: str, *arguments: str) -> None:
        """Call a function of another module, whose address is given when this one is linked."""
        self.declared[name] = f"declare void @{name}({', '.join(_type_of(a) for a in arguments)})"
        self.do(f"call void @{name}({', '.join(arguments)})")

    def _declare(self, returns: object, name: str, arguments: Sequence[str]) -> None:
        if name.startswith("llvm."):
            self.declared[name] = f"declare {returns} @{name}({', '.join(_type_of(a) for a in arguments)})"

    def loop(
        self, stop: str, start: str = "0", step: str = "1", carried: Sequence[Carried] = ()
    ) -> AbstractContextManager[str]:
        """Open a loop over an i64 index, tested before each turn. The names in `carried` hold their last values after
        it.
        """
        return self.loop_while(lambda index: self.set(f"icmp slt i64 {index}, {stop}"), carried, start, step)

    @contextmanager
    def loop_while(
        self, condition: Callable[[str], str], carried: Sequence[Carried] = (), start: str = "0", step: str = "1"
    ) -> Iterator[str]:
        """Open a loop with any condition, which is evaluated before each turn."""
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        before, index = self.block, "%" + self.fresh("i")
        self.jump(head)
        self.label(head)
        place = len(self._lines)
        self.branch(condition(index), body, after)
        self.label(body)
        yield index
        following = self.set(f"add i64 {index}, {step}")
        end = self.block
        self.jump(head)
        lines = [f"  {index} = phi i64 [{start}, %{before}], [{following}, %{end}]"]
        for value in carried:
            lines.append(f"  {value.name} = phi {value.type} [{value.first}, %{before}], [{value.next}, %{end}]")
        self._lines[place:place] = lines
        self.label(after)

    @contextmanager
    def repeat(self, count: str, carried: Sequence[Carried] = ()) -> Iterator[str]:
        """Open a loop over an i64 index from 0 that runs at least once and is tested after each turn, the form that
        processors run best.

        After it the names in `carried` hold the values at the beginning of the last turn; their `next` is the result of
        the last turn.
        """
        body, after = self.fresh("body"), self.fresh("after")
        before, index = self.block, "%" + self.fresh("i")
        self.jump(body)
        self.label(body)
        place = len(self._lines)
        yield index
        following = self.set(f"add nuw nsw i64 {index}, 1")
        lines = [f"  {index} = phi i64 [0, %{before}], [{following}, %{self.block}]"]
        for value in carried:
            lines.append(f"  {value.name} = phi {value.type} [{value.first}, %{before}], [{value.next}, %{self.block}]")
        self._lines[place:place] = lines
        self.branch(self.set(f"icmp slt i64 {following}, {count}"), body, after)
        self.label(after)

    @contextmanager
    def until(self, carried: Sequence[Carried]) -> Iterator[Ending]:
        """Open a loop that runs at least once and ends with the turn that sets `stop` of the yielded object, an i1, to
        true.
        """
        body, after, before, ending = self.fresh("body"), self.fresh("after"), self.block, Ending()
        self.jump(body)
        self.label(body)
        place = len(self._lines)
        yield ending
        self._lines[place:place] = [
            f"  {value.name} = phi {value.type} [{value.first}, %{before}], [{value.next}, %{self.block}]"
            for value in carried
        ]
        self.branch(ending.stop, after, body)
        self.label(after)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Open a block of instructions that run only if an i1 holds."""
        then, after = self.fresh("then"), self.fresh("after")
        self.branch(condition, then, after)
        self.label(then)
        yield
        self.jump(after)
        self.label(after)

    def carried(self, type: object, first: str, stem: str = "c") -> Carried:
        """Return a value that a loop passes from turn to turn: give it to `loop` and set its `next` inside."""
        return Carried("%" + self.fresh(stem), str(type), first)

    # ----- vectors -----

    def splat(self, value: str, type: Vector) -> str:
        """Return a scalar in all lanes."""
        if type.lanes == 1:
            return value
        one = self.set(f"insertelement {type} poison, {type.element} {value}, i64 0")
        return self.set(f"shufflevector {type} {one}, {type} poison, <{type.lanes} x i32> zeroinitializer")

    # ----- sizes: i64 arithmetic -----

    def add(self, a: str | int, b: str | int) -> str:
        return str(a) if b == 0 else str(b) if a == 0 else self.set(f"add i64 {a}, {b}")

    def sub(self, a: str | int, b: str | int) -> str:
        return str(a) if b == 0 else self.set(f"sub i64 {a}, {b}")

    def mul(self, a: str | int, b: str | int) -> str:
        return str(a) if b == 1 else str(b) if a == 1 else self.set(f"mul i64 {a}, {b}")

    def div(self, a: str | int, b: str | int) -> str:
        """Return the quotient of sizes, which are nonnegative."""
        return str(a) if b == 1 else self.set(f"udiv i64 {a}, {b}")

    def least(self, a: str | int, b: str | int) -> str:
        return self.call("i64", "llvm.smin.i64", f"i64 {a}", f"i64 {b}")

    def most(self, a: str | int, b: str | int) -> str:
        return self.call("i64", "llvm.smax.i64", f"i64 {a}", f"i64 {b}")

    def compare(self, how: str, a: str | int, b: str | int) -> str:
        """Return `slt`, `eq`, ... of two i64."""
        return self.set(f"icmp {how} i64 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.set(f"and i1 {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.set(f"or i1 {a}, {b}")

    def negated(self, a: str) -> str:
        return self.set(f"xor i1 {a}, true")

    def choose(self, condition: str, a: str | int, b: str | int, type: str = "i64") -> str:
        return self.set(f"select i1 {condition}, {type} {a}, {type} {b}")

    def ahead(self, pointer: str, offset: str | int) -> str:
        """Return a pointer moved by some bytes."""
        return pointer if offset == 0 else self.set(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def address(self, element: str, pointer: str, index: str) -> str:
        return self.set(f"getelementptr {element}, ptr {pointer}, i64 {index}")

    def load(self, type: Vector, pointer: str) -> str:
        """Load a vector from memory aligned to its elements."""
        return self.set(f"load {type}, ptr {pointer}, align {SIZES[type.element]}")

    def store(self, type: Vector, value: str, pointer: str) -> None:
        self.do(f"store {type} {value}, ptr {pointer}, align {SIZES[type.element]}")

    # ----- vectors with only some lanes active -----

    def first_lanes(self, type: Vector, count: str) -> str:
        """Return the mask of the first `count` lanes, an i64."""
        counts = self.splat(self.set(f"trunc i64 {count} to i32"), Vector("i32", type.lanes))
        numbers = ", ".join(f"i32 {i}" for i in range(type.lanes))
        return self.set(f"icmp sgt <{type.lanes} x i32> {counts}, <{numbers}>")

    def load_masked(self, type: Vector, pointer: str, mask: str) -> str:
        """Load the lanes of a mask. The others are zero, and their memory is not touched."""
        size = SIZES[type.element]
        return self.call(
            type,
            f"llvm.masked.load.{type.suffix}.p0",
            f"ptr {pointer}",
            f"i32 {size}",
            f"{type.mask} {mask}",
            f"{type} zeroinitializer",
        )

    def store_masked(self, type: Vector, value: str, pointer: str, mask: str) -> None:
        size = SIZES[type.element]
        self.call_void(
            f"llvm.masked.store.{type.suffix}.p0",
            f"{type} {value}",
            f"ptr {pointer}",
            f"i32 {size}",
            f"{type.mask} {mask}",
        )

    def body(self) -> str:
        """Return its instructions."""
        return "\n".join(self._lines)

    def text(self) -> str:
        head = " ".join(filter(None, ["define", self.linkage, self._head, self.attributes, "{"]))
        return "\n".join([head, *self._lines, "}"])


class Carried:
    """A value that a loop passes from turn to turn. After the loop, `name` is its last value."""

    def __init__(self, name: str, type: str, first: str) -> None:
        self.name = name
        self.type = type
        self.first = first
        self.next = name  # unchanged, unless the body sets it

    def __str__(self) -> str:
        return self.name


class Ending:
    """The end condition of a loop of `Function.until`."""

    stop = "true"


def module(functions: Sequence[Function | str]) -> str:
    """Return the text of a module: every declaration once, then the functions."""
    declared: dict[str, str] = {}
    for f in functions:
        if isinstance(f, Function):
            declared.update(f.declared)
    bodies = [f if isinstance(f, str) else f.text() for f in functions]
    return "\n".join([*declared.values(), *bodies]) + "\n"


def _type_of(argument: str) -> str:
    """Return the type in `type value`: everything before the value, whose spelling has no blank outside a constant
    vector.
    """
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    return argument.split(" ", 1)[0]
