"""The meaning of the names in a program: for NumPy, the oracle, and for each entry point of ndgrad.

Beside `np` and `numpy` a program knows a few words. Each has a plain meaning and a recorded one:

    mix(a)              a weighted sum of all elements, the same for every tensor class
    cube(a), grow(a)    a custom function that saves its input, one that saves its output
    stop(a)             the value without its history
    unrecorded(f)       f() under no_grad, without its history
    recomputed(f, ...)  f(...) under checkpoint

A derivative does not see what happens inside `stop` and `unrecorded`, but a finite difference would. So a plain run
notes these values on a `Tape`, and the runs at neighbouring points are handed the noted ones.
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy

import ndgrad
import ndgrad.numpy
from ndgrad._src.checkpoint import checkpoint
from tests.core.functions import Cube

WEIGHTS = numpy.cos(numpy.arange(64) * 1.7 + 0.4)

#: Functions that make an array without NumPy's protocols on their arguments.
MAKERS = "arange array asarray ascontiguousarray empty eye full identity linspace ones zeros".split()


class Growth(ndgrad.autograd.Function):
    """exp(a / 2); saves its output."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Any) -> Any:
        return numpy.exp(a * 0.5)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return ctx.saved_tensors[0] * g * 0.5

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        return ctx.saved_tensors[0] * t * 0.5


def mix(a: Any) -> Any:
    return numpy.sum(a * WEIGHTS[: numpy.size(a)].reshape(numpy.shape(a)))


# ----- values that no derivative sees ---------------------------------------------------------------------------------


class Tape:
    """The values behind `stop` and `unrecorded`: noted in the first run, handed out in the others."""

    def __init__(self) -> None:
        self.values: list[Any] | None = None
        self.reading = 0

    def run(self, f: Callable[..., Any], *args: Any) -> Any:
        self.reading = 0
        if self.values is not None:
            return f(*args)
        self.values, self.noting = [], True
        try:
            return f(*args)
        finally:
            self.noting = False

    def pass_on(self, compute: Callable[[], Any]) -> Any:
        assert self.values is not None
        if self.noting:
            place = len(self.values)
            value = numpy.array(compute())
            self.values[place:] = [value]  # values noted meanwhile are part of this one
        else:
            value = self.values[self.reading]  # an IndexError here means that a neighbouring point takes another branch
            self.reading += 1
        return value.copy()[()]


def plain_words(tape: Tape) -> dict[str, Any]:
    return {
        "mix": mix,
        "cube": lambda a: a * a * a,
        "grow": lambda a: numpy.exp(a * 0.5),
        "stop": lambda a: tape.pass_on(lambda: a),
        "unrecorded": tape.pass_on,
        "recomputed": lambda f, *args: f(*args),
    }


def stop(a: Any) -> Any:
    return a.detach().clone() if isinstance(a, ndgrad.Tensor) else numpy.copy(a)[()]


def unrecorded(f: Callable[[], Any]) -> Any:
    with ndgrad.no_grad():
        result = f()
    return stop(result)  # tangents of forward mode go through a no_grad block


def as_array(a: Any) -> Any:
    """Values that a custom function may save."""
    return a if isinstance(a, ndgrad.Tensor) else ndgrad.numpy.array(a)


def recorded_words() -> dict[str, Any]:
    return {
        "mix": mix,
        "cube": lambda a: Cube.apply(as_array(a)),
        "grow": lambda a: Growth.apply(as_array(a)),
        "stop": stop,
        "unrecorded": unrecorded,
        "recomputed": lambda f, *args: checkpoint(f, *args, use_reentrant=False),
    }


# ----- namespaces -----------------------------------------------------------------------------------------------------


def _namespace(base: Any, **replaced: Any) -> Any:
    found = types.SimpleNamespace(**{name: getattr(base, name) for name in dir(base) if not name.startswith("__")})
    found.__dict__.update(replaced)
    return found


def symmetric(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that looks at one triangle of a matrix. Its derivative is that of symmetric matrices, so it is tried
    on no others."""

    def check_symmetry(a: Any) -> Any:
        if not numpy.array_equal(a, numpy.swapaxes(a, -1, -2)):
            raise numpy.linalg.LinAlgError("not symmetric")
        return f(a)

    return check_symmetry


#: NumPy in which what was never written is NaN, so that no value depends on what memory happened to hold.
PLAIN = _namespace(
    numpy,
    linalg=_namespace(
        numpy.linalg, cholesky=symmetric(numpy.linalg.cholesky), eigvalsh=symmetric(numpy.linalg.eigvalsh)
    ),
    empty=lambda shape, dtype=float: numpy.full(shape, numpy.nan, dtype),
    empty_like=lambda a: numpy.full_like(a, numpy.nan),
)
#: NumPy's own functions, with buffers made by ndgrad.numpy.
PROTOCOLS = _namespace(numpy, **{name: getattr(ndgrad.numpy, name) for name in MAKERS})


def build(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `program` of a source text, in which names mean what they are told to mean."""
    scope = {"__name__": "generated_program", "numpy": numpy, **names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # while it is being minimised, a program may be nonsense
        exec(compile(source, "<program>", "exec"), scope)
    return scope["program"]


def plain(source: str, tape: Tape) -> Callable[..., Any]:
    return build(source, {"np": PLAIN, **plain_words(tape)})


#: The entries to ndgrad: each makes a function of Arrays out of a source text.
ENTRIES: dict[str, Callable[[str], Callable[..., Any]]] = {
    "namespace": lambda source: build(source, {"np": ndgrad.numpy, **recorded_words()}),
    "protocols": lambda source: build(source, {"np": PROTOCOLS, **recorded_words()}),
    "lift": lambda source: ndgrad.lift(build(source, {"np": numpy, **recorded_words()})),
}


def frozen(source: str, tape: Tape) -> Callable[..., Any]:
    """The program at the first entry, with the values that a plain run has noted: for differences of gradients."""
    words = recorded_words() | {"stop": lambda a: tape.pass_on(lambda: a), "unrecorded": tape.pass_on}
    return build(source, {"np": ndgrad.numpy, **words})
