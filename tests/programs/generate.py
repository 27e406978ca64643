"""From a seed to a program: sentences of the grammar are drawn, filled, and tried on plain NumPy one after the other.

The writer keeps a NumPy run of the program so far, so it knows the shape of everything it may use. Inputs cannot be
written: they are read-only in that run, and so is every view of them.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.programs import grammar
from tests.programs.language import PLAIN, Tape, plain_words

INPUT_SHAPES = ((), (3,), (3,), (4,), (2, 3), (2, 2), (3, 3))
#: Values beyond this are left to tests of single ops: here they would only spoil the differences.
LARGEST = 30.0
MOST_ELEMENTS = 40


@dataclass(frozen=True)
class Program:
    source: str
    inputs: tuple[Any, ...]

    def arguments(self) -> list[Any]:
        return [x.copy() for x in self.inputs]


class Unfit(Exception):
    """A sentence for which there is nothing to fill in here."""


def generate(seed: int) -> Program:
    draw = random.Random(seed)
    shapes = [draw.choice(INPUT_SHAPES[1:])] + [draw.choice(INPUT_SHAPES) for _ in range(draw.choice((0, 1, 1, 2)))]
    values = np.random.default_rng(seed)
    inputs = {name: values.uniform(-1.2, 1.2, shape) for name, shape in zip("xyz", shapes)}
    writer = Writer(draw, inputs)
    for _ in range(draw.randint(4, 10)):
        writer.add()
    return Program(writer.source(), tuple(inputs.values()))


class Writer:
    """A program while it is being written."""

    def __init__(self, draw: random.Random, inputs: dict[str, Any]) -> None:
        self.draw, self.inputs = draw, inputs
        self.statements: list[str] = []
        #: names of plain ndarrays, which cannot hold derivatives
        self.constants: set[str] = set()
        self.counter = 0
        self.start()

    # ----- the run beside it -----

    def start(self) -> None:
        tape = Tape()
        tape.values, tape.noting = [], True
        inputs = {name: x.copy() for name, x in self.inputs.items()}
        for x in inputs.values():
            x.flags.writeable = False
        self.scope: dict[str, Any] = {"np": PLAIN, "numpy": np, **plain_words(tape), **inputs}
        for statement in self.statements:
            self.execute(statement)

    def execute(self, statement: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(statement, self.scope)

    def value(self, text: str) -> Any:
        """Evaluate an expression. No expression of the grammar writes."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return eval(text, self.scope)

    def variables(self) -> list[str]:
        """Names of numbers and arrays of real numbers."""
        return [name for name, v in self.scope.items() if re.fullmatch(r"[xyz]|t\d+", name) and is_real(v)]

    # ----- statements -----

    def add(self) -> None:
        """One more statement that runs."""
        kinds = list(grammar.STATEMENTS)
        weights = [grammar.STATEMENTS[kind][1] for kind in kinds]
        for _ in range(60):
            kind = self.draw.choices(kinds, weights)[0]
            if not self.statements and self.draw.random() < 0.6:
                kind = "buffer"
            try:
                statement = self.fill(self.draw.choice(grammar.STATEMENTS[kind][0]))
            except (Unfit, *REJECTED):
                continue
            if self.accept(statement):
                self.note_constants(kind, statement)
                return

    def accept(self, statement: str) -> bool:
        try:
            self.execute(statement)
            values = {name: self.scope[name] for name in self.variables()}
            fine = all(in_bounds(v) and (name in self.inputs or not is_rare(v)) for name, v in values.items())
        except REJECTED:
            fine = False
        if fine:
            self.statements.append(statement)
        else:
            self.start()  # a statement may fail half done
        return fine

    def note_constants(self, kind: str, statement: str) -> None:
        target, equals, text = statement.partition(" = ")
        if equals and re.fullmatch(r"t\d+", target):
            names = set(re.findall(r"\b(?:[xyz]|t\d+)\b", text))
            if kind == "constant" or (names and names <= self.constants and "np." not in text):
                self.constants.add(target)

    def source(self) -> str:
        """The program as text; it returns weighted sums of what it has, the youngest first."""
        names = [name for name in self.variables() if name not in self.constants and name not in self.inputs]
        chosen = names[::-1][:3] or list(self.inputs)
        chosen += [name for name in self.draw.sample(names, min(2, len(names))) if name not in chosen]
        result = f"return np.stack([{', '.join(f'mix({name})' for name in chosen)}])"
        body = "\n".join([*self.statements, result]).splitlines()
        text = f"def program({', '.join(self.inputs)}):\n" + "\n".join("    " + line for line in body)
        return ast.unparse(ast.parse(text)) + "\n"

    # ----- holes -----

    def fill(self, sentence: str, depth: int = 2, **known: str) -> str:
        """The sentence with its holes filled; `known` are those that are filled already."""

        def fill(match: re.Match[str]) -> str:
            hole = match[1]
            if hole not in known:
                known[hole] = getattr(self, f"hole_{hole}")(known, depth)
            text = known[hole]
            return text if hole in ("new", "part") or re.fullmatch(r"[\w.]+", text) else f"({text})"

        for hole, askers in FIRST.items():
            if hole not in known and any(f"{{{asker}}}" in sentence for asker in askers):
                known[hole] = getattr(self, f"hole_{hole}")(known, depth)
        return re.sub(r"\{(\w+)\}", fill, sentence)

    def hole_name(self, known: dict[str, str], depth: int) -> str:
        return self.draw.choice(self.variables())

    def hole_new(self, known: dict[str, str], depth: int) -> str:
        self.counter += 1
        return f"t{self.counter}"

    def hole_c(self, known: dict[str, str], depth: int) -> str:
        """A number: a literal, or one that the inputs decide."""
        scalars = [name for name in self.variables() if np.ndim(self.scope[name]) == 0]
        if scalars and self.draw.random() < 0.3:
            return self.draw.choice(scalars)
        if self.draw.random() < 0.3:
            return self.fill("{name}.ravel()[0]" if self.draw.random() < 0.5 else "np.sum({name})")
        return str(self.draw.choice((0.2, 0.5, -0.4, 0.7, 1.3, -1.1)))

    def hole_constant(self, known: dict[str, str], depth: int) -> str:
        found = [name for name in self.variables() if name in self.constants]
        if not found:
            raise Unfit
        return self.draw.choice(found)

    def hole_a(self, known: dict[str, str], depth: int) -> str:
        return self.expression(depth)

    def hole_b(self, known: dict[str, str], depth: int) -> str:
        return self.expression(depth, shape=np.shape(self.value(known["a"])))

    def hole_v(self, known: dict[str, str], depth: int) -> str:
        found = [name for name in self.variables() if name not in self.constants and is_buffer(self.scope[name])]
        if not found:
            raise Unfit
        return self.draw.choice(found)

    def hole_part(self, known: dict[str, str], depth: int) -> str:
        return self.fill(self.draw.choice(grammar.PARTS), 0, v=known["v"])

    def hole_w(self, known: dict[str, str], depth: int) -> str:
        return self.expression(depth, shape=np.shape(self.value(known.get("part", known["v"]))))

    def subject(self, known: dict[str, str]) -> str:
        """Return the array of masks, rows, axes and lengths."""
        return known["v"] if "v" in known else known["a"]

    def hole_mask(self, known: dict[str, str], depth: int) -> str:
        return self.fill(self.draw.choice(grammar.MASKS), 0, a=self.subject(known))

    def hole_rows(self, known: dict[str, str], depth: int) -> str:
        return self.fill(self.draw.choice(grammar.ROWS), 0, a=self.subject(known))

    def hole_row(self, known: dict[str, str], depth: int) -> str:
        return self.fill(self.draw.choice(grammar.ROW), 0, a=self.subject(known))

    def hole_axis(self, known: dict[str, str], depth: int) -> str:
        ndim = np.ndim(self.value(self.subject(known)))
        if not ndim:
            raise Unfit
        return str(self.draw.randrange(-ndim, ndim))

    def hole_n(self, known: dict[str, str], depth: int) -> str:
        shape = np.shape(self.value(self.subject(known)))
        if not shape:
            raise Unfit
        return str(shape[0])

    def hole_square(self, known: dict[str, str], depth: int) -> str:
        shapes = {name: np.shape(self.scope[name]) for name in self.variables()}
        found = [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == shape[1]]
        if found:
            return self.draw.choice(found)
        vectors = [name for name in self.variables() if np.ndim(self.scope[name]) == 1]
        if not vectors:
            raise Unfit
        return f"np.outer({self.draw.choice(vectors)}, np.arange({len(self.scope[vectors[0]])}))"

    def hole_vector(self, known: dict[str, str], depth: int) -> str:
        n = len(self.value(known["square"]))
        found = [name for name in self.variables() if np.shape(self.scope[name]) == (n,)]
        return self.draw.choice(found) if found else f"np.ones({n})"

    # ----- expressions -----

    def expression(self, depth: int, shape: tuple[int, ...] | None = None) -> str:
        """An expression, which broadcasts to a shape if one is given."""
        for _ in range(12):
            text = self.try_expression(depth, shape)
            try:
                found = self.value(text)
            except REJECTED:
                continue
            if in_bounds(found) and is_real(found) and (shape is None or fits(np.shape(found), shape)):
                return text
        if shape is None:
            return self.hole_name({}, 0)
        return str(self.draw.choice((0.3, -0.6, 1.4)))

    def try_expression(self, depth: int, shape: tuple[int, ...] | None) -> str:
        names = [name for name in self.variables() if shape is None or fits(np.shape(self.scope[name]), shape)]
        if depth == 0 or self.draw.random() < 0.35:
            return self.draw.choice(names) if names else "0.5"
        kinds = list(grammar.EXPRESSIONS)
        kind = self.draw.choices(kinds, [grammar.EXPRESSIONS[k][1] for k in kinds])[0]
        try:
            if shape is None or kind in ("view", "whole") or not names:
                return self.fill(self.draw.choice(grammar.EXPRESSIONS[kind][0]), depth - 1)
            return self.fill(self.draw.choice(grammar.EXPRESSIONS[kind][0]), depth - 1, a=self.draw.choice(names))
        except (Unfit, *REJECTED):
            return self.draw.choice(names) if names else "0.5"


#: Holes that are filled before all others, since the shapes of those depend on them.
FIRST = {"v": ("v", "part", "w"), "a": ("a", "b"), "square": ("square", "vector")}

#: Errors of plain NumPy for a sentence that does not fit.
REJECTED = (ArithmeticError, AttributeError, IndexError, TypeError, ValueError, Warning, np.linalg.LinAlgError)


def is_real(v: Any) -> bool:
    return isinstance(v, (float, np.ndarray)) and np.asarray(v).dtype == np.float64


def is_buffer(v: Any) -> bool:
    return isinstance(v, np.ndarray) and v.ndim > 0 and v.flags.writeable and v.size > 0


def is_rare(v: Any) -> bool:
    """An array without dimensions, which NumPy changes in place; an Array without dimensions behaves as a number."""
    return isinstance(v, np.ndarray) and v.ndim == 0


def in_bounds(v: Any) -> bool:
    return np.size(v) <= MOST_ELEMENTS and np.size(v) > 0 and bool(np.all(np.abs(v) < LARGEST))


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False
