"""From a seed to a program over tensors of any size: sentences of `tensor_grammar`, filled and tried eagerly.

Sizes go from 1 to a few hundred, odd ones among them, so that vectors have ends and rows have tails; a program has one
dtype for its inputs, real or complex; sentences about ordered numbers do not fit complex ones, and are not taken.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ndgrad
import ndgrad.nn.functional as F
from tests.programs import tensor_grammar as grammar

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 64, 65, 100, 130)
MOST_ELEMENTS = 6000
LARGEST = 40.0
SCOPE: dict[str, Any] = {"__name__": "generated_program", "nd": ndgrad, "F": F}


@dataclass(frozen=True)
class TensorProgram:
    source: str
    inputs: tuple[Any, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(ndgrad.tensor(x) for x in self.inputs)


class Unfit(Exception):
    """A sentence for which there is nothing to fill in here."""


def build(source: str) -> Callable[..., Any]:
    scope = dict(SCOPE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # while it is being minimised, a program may be nonsense
        exec(compile(source, "<program>", "exec"), scope)
    return scope["program"]


def generate(seed: int) -> TensorProgram:
    draw, values = random.Random(seed), np.random.default_rng(seed)
    dtype = draw.choice((np.float32, np.float32, np.float32, np.float64, np.float64, np.complex64, np.complex128))
    shapes = [shape_of(draw)]
    for _ in range(draw.choice((0, 1, 1, 2))):
        first = shapes[0]
        like = [first, first[-1:], (first[-1], draw.choice(SIZES)), shape_of(draw)]
        shapes.append(draw.choice([shape for shape in like if np.prod(shape) <= MOST_ELEMENTS]))
    inputs = {name: numbers(values, shape, dtype) for name, shape in zip("xyz", shapes)}
    writer = Writer(draw, inputs)
    for _ in range(draw.randint(3, 9)):
        writer.add()
    return TensorProgram(writer.source(), tuple(inputs.values()))


def numbers(values: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    found = values.uniform(-1.5, 1.5, shape)
    return (found + 1j * values.uniform(-1.5, 1.5, shape) if np.dtype(dtype).kind == "c" else found).astype(dtype)


def shape_of(draw: random.Random) -> tuple[int, ...]:
    while True:
        shape = tuple(draw.choice(SIZES) for _ in range(draw.choice((1, 2, 2, 2, 3, 3, 4))))
        if np.prod(shape) <= MOST_ELEMENTS:
            return shape


class Writer:
    """A program while it is being written, and its eager run so far."""

    def __init__(self, draw: random.Random, inputs: dict[str, Any]) -> None:
        self.draw, self.inputs = draw, inputs
        self.statements: list[str] = []
        self.counter = 0
        self.scope: dict[str, Any] = {**SCOPE, **{name: ndgrad.tensor(x) for name, x in inputs.items()}}

    def variables(self) -> dict[str, Any]:
        return {n: v for n, v in self.scope.items() if re.fullmatch(r"[xyz]|t\d+", n) and isinstance(v, ndgrad.Tensor)}

    def add(self) -> None:
        """One more statement that runs."""
        kinds = list(grammar.STATEMENTS)
        for _ in range(40):
            kind = self.draw.choices(kinds, [grammar.STATEMENTS[kind][1] for kind in kinds])[0]
            try:
                statement = self.fill(self.draw.choice(grammar.STATEMENTS[kind][0]))
            except Unfit:
                continue
            scope = dict(self.scope)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    exec(statement, scope)
            except Exception:  # it does not fit these shapes
                continue
            if all(fits(v) for n, v in scope.items() if re.fullmatch(r"t\d+", n)):
                self.scope = scope
                self.statements.append(statement)
                return

    def source(self) -> str:
        names = [n for n, v in self.variables().items() if is_inexact(v) and n not in self.inputs] or ["x"]
        chosen = names[::-1][:2] + self.draw.sample(names, 1)
        result = "return " + ", ".join(dict.fromkeys(chosen)) + ","
        body = "\n".join([*self.statements, result]).splitlines()
        return f"def program({', '.join(self.inputs)}):\n" + "\n".join("    " + line for line in body) + "\n"

    # ----- holes -----

    def fill(self, sentence: str) -> str:
        known: dict[str, str] = {}

        def fill(match: re.Match[str]) -> str:
            return self.hole(match[1], known)

        return re.sub(r"\{(\w+)\}", fill, sentence)

    def hole(self, name: str, known: dict[str, str]) -> str:
        if name not in known:
            if name in "bsdn" or name in ("rows", "mask"):
                self.hole("a", known)
            known[name] = getattr(self, f"hole_{name}")(known)
        return known[name]

    def pick(self, fits: Callable[[Any], bool]) -> str:
        """A variable for which something holds, a young one rather than an old one."""
        found = [name for name, v in self.variables().items() if is_inexact(v) and fits(v)]
        if not found:
            raise Unfit
        return self.draw.choice(found + found[-2:])

    def hole_new(self, known: dict[str, str]) -> str:
        self.counter += 1
        return f"t{self.counter}"

    def hole_a(self, known: dict[str, str]) -> str:
        return self.pick(lambda v: v.ndim > 0)

    def hole_s(self, known: dict[str, str]) -> str:
        return self.pick(lambda v: v.shape == self.scope[known["a"]].shape)

    def hole_b(self, known: dict[str, str]) -> str:
        shape = tuple(self.scope[known["a"]].shape)
        found = [n for n, v in self.variables().items() if is_inexact(v) and broadcasts(tuple(v.shape), shape)]
        d = self.draw.randrange(len(shape))
        a = known["a"]
        return self.draw.choice([*found, f"{a}.mean({d}, keepdim=True)", f"{a}.flip({d})", f"{a}.sum()", f"({a} * 0.7)"])

    def hole_d(self, known: dict[str, str]) -> str:
        return str(self.draw.randrange(self.scope[known["a"]].ndim))

    def hole_n(self, known: dict[str, str]) -> str:
        return str(self.scope[known["a"]].shape[int(self.hole("d", known))])

    def hole_rows(self, known: dict[str, str]) -> str:
        n = int(self.hole("n", known))
        return f"(nd.arange({self.draw.choice(SIZES[:10])}) * {self.draw.choice((1, 3, 7))} % {n})"

    def hole_mask(self, known: dict[str, str]) -> str:
        a = known["a"]
        return self.draw.choice([f"({a} > {self.draw.choice((0.1, -0.4))})", f"({a}.abs() < 0.6)", f"(({a} * 3).sin() >= 0.2)"])

    def hole_c(self, known: dict[str, str]) -> str:
        return str(self.draw.choice((0.5, -0.4, 1.3, 0.7, 2)))

    def hole_m(self, known: dict[str, str]) -> str:
        return self.pick(lambda v: v.ndim in (2, 3, 4))

    def hole_k(self, known: dict[str, str]) -> str:
        inner = self.scope[self.hole("m", known)].shape[-1]
        return self.pick(lambda v: v.ndim in (2, 3) and v.shape[-2] == inner)

    def hole_image(self, known: dict[str, str]) -> str:
        return self.pick(lambda v: v.ndim == 4)


def is_inexact(v: Any) -> bool:
    return v.is_floating_point() or v.is_complex()


def broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    return len(small) <= len(large) and all(a in (1, b) for a, b in zip(small[::-1], large[::-1]))


def fits(v: Any) -> bool:
    if not isinstance(v, ndgrad.Tensor):
        return False
    a = v.detach().numpy()
    return 0 < a.size <= MOST_ELEMENTS and (a.dtype.kind not in "fc" or bool(np.all(np.abs(a) < LARGEST)))
