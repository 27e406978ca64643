"""The walk of `split_complex_values`, which represents complex values by their parts or by pairs in memory.

    walk.parts(z)          the real and the imaginary part: values, or numbers
    walk.pairs(z)          both side by side in memory, as in NumPy: float64[..., 2]
    walk.pair(re, im, z)   a complex value of two parts, like z

No instruction of the new program defines a complex value. Readers ask for its parts or its pairs, which are split and
joined on demand. A part is a number if it is the same everywhere: the imaginary part of a real value is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.rewrite import Rules, Walk
from ndgrad._src.compiler.program.compiler_ops import as_pairs, op_named
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value

#: A computed value, or a number that is the same everywhere.
Part = Value | float
Pair = tuple[Part, Part]


def has_complex(program: Program) -> bool:
    """True if a program, or a program inside it, has complex values."""
    values = (*program.inputs, *program.constants, *[v for i in program.instructions for v in i.results])
    return any(v.dtype.kind == "c" for v in values) or any(
        has_complex(s) for i in program.instructions for s in i.settings.values() if isinstance(s, Program)
    )


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of a complex dtype."""
    return np.dtype(f"f{dtype.itemsize // 2}")


def is_complex(argument: Argument) -> bool:
    """True if an argument is a complex value."""
    return argument.__class__ is Value and argument.dtype.kind == "c"


class ByParts(Walk):
    """A walk that represents a complex value by its parts. No instruction defines the complex value itself."""

    def __init__(self, program: Program, rules: Rules) -> None:
        super().__init__(program, rules)
        self._inside = rules
        self._parts: dict[Value, Pair] = {}
        #: complex values whose pairs are in memory
        self._pairs: dict[Value, Value] = {}
        #: transposed or conjugated view -> (source, is transposed, is conjugated)
        self.seen_as: dict[Value, tuple[Value, bool, bool]] = {}

    def run_by_parts(self) -> Program:
        """Return the whole program by parts."""
        program, inputs, replaced = self._program, [], {}
        for value in program.inputs:
            if value.dtype.kind == "c":
                pairs = Value((*value.shape, 2), real_dtype(value.dtype))
                inputs.append(pairs)
                replaced[value] = self.join_pairs(pairs)
            else:
                inputs.append(value)
        for value, array in program.constants.items():
            if value.dtype.kind == "c":
                del self.constants[value]
                replaced[value] = self._constant(value, np.asarray(array, value.dtype))
        walked = self.run(replaced)
        outputs = [self.pairs(v) if v.dtype.kind == "c" else v for v in walked.outputs]
        return Program(inputs, outputs, self.instructions, self.constants, program.name)

    def _constant(self, value: Value, array: Any) -> Value:
        if not value.shape:
            return self.number_pair(complex(array), value.dtype)
        dtype = real_dtype(value.dtype)
        made = self.pair(self.constant(array.real.copy(), dtype), self.constant(array.imag.copy(), dtype), value)
        self._pairs[made] = self.constant(as_pairs(array), dtype)
        return made

    # ----- queries for rules ------------------------------------------------------------------------------------------

    def parts(self, argument: Argument, dtype: np.dtype[Any] | None = None) -> Pair:
        """Return the real and the imaginary part of a value or number, in a dtype if one is given."""
        if argument.__class__ is not Value:
            number = complex(argument)
            return number.real, number.imag
        if argument.dtype.kind != "c":
            return self._as_real(argument, dtype), 0.0
        found = self._parts.get(argument)
        if found is None:
            pairs = self._pairs[argument]
            whole = tuple([slice(0, n, 1) for n in argument.shape])
            first, second = (self.emit("getitem", pairs, index=(*whole, k)) for k in (0, 1))
            found = self._parts[argument] = first, second
        re, im = found
        return self._as_real(re, dtype), self._as_real(im, dtype)

    def _as_real(self, part: Part, dtype: np.dtype[Any] | None) -> Part:
        if part.__class__ is not Value or dtype is None or part.dtype == dtype:
            return part
        return self.emit("cast", part, dtype=dtype)

    def both(self, z: Value) -> tuple[Value, Value]:
        """Return the parts of a complex value, both as values of its shape."""
        re, im = (self.value(p, z.shape, real_dtype(z.dtype)) for p in self.parts(z))
        return re, im

    def value(self, part: Part, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
        """Return a part as a value of a shape."""
        if not isinstance(part, Value):
            part = self.constant(part, dtype)
        return part if part.shape == shape else self.emit("expand", part, shape=shape)

    def pairs(self, z: Value) -> Value:
        """Return the pairs of a complex value in memory."""
        found = self._pairs.get(z)
        if found is None:
            found = self._pairs[z] = self.emit("stack", *self.both(z), dim=z.ndim)
        return found

    def has_pairs(self, z: Value) -> bool:
        """True if the pairs of a complex value are in memory already."""
        return z in self._pairs

    # ----- results of rules -------------------------------------------------------------------------------------------

    def pair(self, re: Part, im: Part, like: Value) -> Value:
        """Return a complex value of two parts, in the shape and dtype of another."""
        made = Value(like.shape, like.dtype)
        dtype = real_dtype(like.dtype)
        re, im = (self._as_real(p, dtype) for p in (re, im))
        re, im = (self.value(p, like.shape, dtype) if isinstance(p, Value) else p for p in (re, im))
        self._parts[made] = re, im
        return made

    def number_pair(self, number: complex, dtype: np.dtype[Any], shape: tuple[int, ...] = ()) -> Value:
        """Return a complex number as a value."""
        return self.pair(number.real, number.imag, Value(shape, dtype))

    def join_pairs(self, pairs: Value) -> Value:
        """Return the complex value represented by pairs. They are split when they are read."""
        made = Value(pairs.shape[:-1], np.result_type(pairs.dtype, np.complex64))
        self._pairs[made] = pairs
        return made

    def apply(self, op: str, *parts: Part, dtype: np.dtype[Any], **settings: Any) -> Part:
        """Apply an op to parts. Return a value, or a number if all of them are numbers."""
        if any(p.__class__ is Value for p in parts):
            return self.emit(op, *parts, **settings)
        with np.errstate(all="ignore"):
            arrays = [np.asarray(p, bool if isinstance(p, bool) else dtype) for p in parts]
            found: float = op_named(op).forward_for(np)(*arrays, **settings).item()
        return found

    # ----- walking ----------------------------------------------------------------------------------------------------

    def _add(self, instruction: Instruction) -> tuple[Value, ...]:
        settings = instruction.settings.values()
        if not (
            any(v.dtype.kind == "c" for v in (*instruction.values(), *instruction.results))
            or any(isinstance(s, Program) and has_complex(s) for s in settings)
        ):
            return self.append(instruction)
        for found_rule in self._rules.rules_of(instruction.op):
            found = found_rule(self, instruction)
            if found is not None:
                return (found,) if found.__class__ is Value else found  # type: ignore[return-value]
        return self._call_on_pairs(instruction)

    def _call_on_pairs(self, instruction: Instruction) -> tuple[Value, ...]:
        """Emit an op without a rule, on pairs. Programs inside it are rewritten by parts."""
        op, settings = instruction.op, instruction.settings
        arguments = tuple([self.pairs(a) if is_complex(a) else a for a in instruction.arguments])
        results = tuple([self._pairs_like(v) for v in instruction.results])
        if getattr(op, "programs", ()):
            settings = {k: self._rewrite_inner(s) if isinstance(s, Program) else s for k, s in settings.items()}
        else:
            given = tuple([i for i, a in enumerate(instruction.arguments) if is_complex(a)])
            made = tuple([i for i, v in enumerate(instruction.results) if v.dtype.kind == "c"])
            settings = {"op": op.name, "given": given, "made": made, **settings}
            op = op_named("interleaved")
        self.append(Instruction(op, arguments, settings, results, instruction.where))
        return tuple(
            [self.join_pairs(r) if v.dtype.kind == "c" else r for v, r in zip(instruction.results, results, strict=True)]
        )

    def _rewrite_inner(self, program: Program) -> Program:
        return ByParts(program, self._inside).run_by_parts() if has_complex(program) else program

    def _pairs_like(self, value: Value) -> Value:
        if value.dtype.kind != "c":
            return Value(value.shape, value.dtype)
        return Value((*value.shape, 2), real_dtype(value.dtype))
