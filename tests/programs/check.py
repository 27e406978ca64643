"""One program in one mode at one entry: right, refused, or a finding.

Right means equal to the oracle. Refused means an error that ndgrad itself raised: its message is counted, so that a
mode which refuses too much is seen. Everything else is a finding: a wrong number, an error from somewhere inside, or a
mode that was left open.
"""

from __future__ import annotations

import linecache
import random
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.compiler.runtime.backend import LoweringFailed
from ndgrad._src.core import modes as ndgrad_modes
from tests.programs import language, oracle
from tests.programs.generate import REJECTED, Program, generate
from tests.programs.minimise import minimise
from tests.programs.modes import COMPILED, MODES, SECOND, Found, Point, Unfit, flat, gradients

#: Differences are good to about 1e-8 of the scale of what is compared.
TOLERANCE = 2e-6
#: NumPy's message in place of our error, which NumPy drops, for `plain.flat[0] = tensor`.
HIDING = ("Error setting single item of array.",)
PACKAGE = str(Path(ndgrad.__file__).parent)


@dataclass(frozen=True)
class Outcome:
    kind: str  # right, refused, wrong, crashed, left open
    message: str = ""
    #: why a function that was compiled runs eagerly all the same, if it does
    eager: str = ""

    @property
    def is_finding(self) -> bool:
        return self.kind in ("wrong", "crashed", "left open")


class Reference:
    """NumPy's results of a program at its inputs. Second derivatives are computed when a mode needs them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tape = language.Tape()
        run = language.plain(program.source, self.tape)
        self.value = self.finite(run, program.arguments())
        draw = np.random.default_rng(len(program.source))
        direction = [draw.uniform(0.4, 1.0, x.shape) * draw.choice((-1.0, 1.0), x.shape) for x in program.inputs]
        self.point = Point(list(program.inputs), direction, draw.uniform(0.5, 1.5, self.value.shape), self.fails)
        self.tangent = oracle.directional(lambda *xs: self.finite(run, xs), self.point.inputs, direction, TOLERANCE)
        self.second: Found | None = None

    def finite(self, run: Callable[..., Any], xs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = self.tape.run(run, *(np.array(x) for x in xs))
            value = np.asarray(result, dtype=float)
        if isinstance(result, (list, tuple)) or value.size > 40 or not np.all(np.abs(value) < 1e4):
            raise oracle.NotSmooth
        return value

    def fails(self, *inputs: Any) -> bool:
        """Whether plain NumPy finds an index out of bounds at other inputs."""
        tape = language.Tape()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tape.run(language.plain(self.program.source, tape), *(np.array(x) for x in inputs))
            except IndexError:
                return True
            except Exception:
                return False
        return False

    def expected(self, name: str) -> Any:
        if name in ("value", "tangent"):
            return getattr(self, name)
        if name == "slope":
            return (self.tangent * self.point.weights).sum()
        if self.second is None:
            self.second = self.differences_of_gradients()
        return self.second[name]

    def differences_of_gradients(self) -> Found:
        f, at = language.frozen(self.program.source, self.tape), self.point
        weighted = at.scalar(lambda *xs: self.tape.run(f, *xs))

        def gradient(*inputs: Any) -> Any:
            xs = Point(list(inputs), at.direction, at.weights).leaves
            return flat(gradients(weighted(*xs), xs))

        if not close(gradient(*at.inputs) @ flat(at.direction), self.expected("slope"), TOLERANCE):
            raise oracle.NotSmooth  # a wrong gradient is found by the modes that ask for one
        curvature = oracle.directional(gradient, at.inputs, at.direction, TOLERANCE)
        # If branches touch with equal slopes, there are second derivatives along lines but no Hessian: it differs nearby.
        aside = oracle.move(at.inputs, [np.cos(np.arange(d.size).reshape(d.shape) + 1.0) for d in at.direction], 1e-3)
        ahead, behind = (gradient(*oracle.move(aside, at.direction, by)) for by in (2e-5, -2e-5))
        if not close((ahead - behind) / 4e-5, curvature, 3e-2):
            raise oracle.NotSmooth
        return {"curvature": curvature, "bend": curvature @ flat(at.direction)}


def reference(program: Program) -> Reference | None:
    """None if the point is no place for a comparison."""
    try:
        return Reference(program)
    except (oracle.NotSmooth, *REJECTED):
        return None


def check(known: Reference, mode: str, entry: str) -> Outcome:
    """Run the program in a mode at an entry, and compare."""
    if mode in SECOND:
        try:
            known.expected("curvature")
        except Exception as error:
            return Outcome("unknown", f"no second derivative to compare with ({type(error).__name__})")
    COMPILED.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = MODES[mode](language.ENTRIES[entry](known.program.source), known.point)
            outcome = compared(known, found)
        except Unfit:
            outcome = Outcome("unknown", "the program fails at another sample")
        except LoweringFailed as error:
            outcome = Outcome("crashed", shortened(error))
        except Exception as error:
            outcome = judged(error)
    if not closed():
        return Outcome("left open", f"a mode is still open after: {outcome.kind} {outcome.message}")
    return replace(outcome, eager=next(reasons_of(COMPILED), ""))


def reasons_of(functions: Iterable[Any]) -> Iterator[str]:
    """Why compiled functions, or what transforms made of them, run eagerly; not of those whose later calls are compiled, as
    a step is after the one that makes an optimizer's state."""
    for function in functions:
        broken = [entry.broken.reason for entry in function.entries[-1:] if entry.broken is not None]
        if broken or (function.traces and not function.entries):
            yield without_numbers((broken or [str(function._last_break)])[0])[:130]
        yield from reasons_of(function._transformed.values())


def compared(known: Reference, found: Found) -> Outcome:
    pairs = [("batch", together, apart) for together, apart in found.pop("batch", [])]
    pairs += [(name, ours, known.expected(name)) for name, ours in found.items()]
    for name, ours, expected in pairs:
        if np.shape(ours) != np.shape(expected):
            return Outcome("wrong", f"{name}: shape {np.shape(ours)} instead of {np.shape(expected)}")
        if not close(ours, expected, 1e-9 if name == "value" else 1e-7 if name == "batch" else 3 * TOLERANCE):
            return Outcome("wrong", f"{name}:\n{np.asarray(ours)}\ninstead of\n{np.asarray(expected)}")
    return Outcome("right")


def close(ours: Any, expected: Any, tolerance: float) -> bool:
    """Within a part of the largest number that is expected."""
    return bool(np.all(np.abs(ours - expected) <= tolerance * (1.0 + np.max(np.abs(expected), initial=0.0))))


def judged(error: BaseException) -> Outcome:
    """Whether an error is ndgrad's own: from a `raise` of the package, though NumPy may have put its own over it."""
    chain: BaseException | None = error
    while chain is not None:
        trace = chain.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            path, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
            if path.startswith(PACKAGE) and re.match(r"\s*raise\b", statement_at(path, line)):
                return Outcome("refused", shortened(chain))
        chain = chain.__cause__ or chain.__context__
    if str(error) in HIDING:
        return Outcome("refused", shortened(error))
    return Outcome("crashed", f"{type(error).__name__}: {error}"[:300])


def statement_at(path: str, line: int) -> str:
    """The line, or the one above it that begins the statement: an error's text often goes over several."""
    while line > 1 and not re.match(r"\s*(raise|return|if|for|with|def)\b", linecache.getline(path, line)):
        line -= 1
    return linecache.getline(path, line)


def shortened(error: BaseException) -> str:
    """The beginning of a message, with numbers and shapes taken out, to be counted."""
    return without_numbers(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")[:130]


def without_numbers(text: str) -> str:
    return re.sub(r"[(][#, ]*[)]", "(#)", re.sub(r"\d+(\.\d+)?", "#", text))


def closed() -> bool:
    """Whether every mode was left; if not, it is left now, so that the next program is not blamed."""
    modes = ndgrad_modes.modes()
    if modes.grad_enabled and not modes.entered:
        return True
    ndgrad_modes.restore(ndgrad_modes.NONE)
    return False


def same_finding(program: Program, mode: str, entry: str, outcome: Outcome) -> Callable[[str], bool]:
    """Whether another source, with the same inputs, goes wrong in the same way: what `minimise` asks."""

    def holds(source: str) -> bool:
        try:
            known = reference(Program(source, program.inputs))
        except Exception:
            return False  # no longer a program
        if known is None:
            return False
        found = check(known, mode, entry)
        same_message = without_numbers(found.message) == without_numbers(outcome.message)
        return found.kind == outcome.kind and (found.kind != "crashed" or same_message)

    return holds


# ----- programs by seed -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """Result of the program of a seed in one mode."""

    seed: int
    mode: str
    entry: str
    outcome: Outcome


def examine(seed: int, modes: Sequence[str], most: int) -> list[Result]:
    """The program of a seed in some of the modes, `most` of them at the most, each at one of the entries; the seed
    decides which."""
    known = reference(generate(seed))
    if known is None:
        return []
    draw = random.Random(seed)
    chosen = [name for name in MODES if name in set(draw.sample(list(modes), min(most, len(modes))))]
    return [Result(seed, name, entry := draw.choice(list(language.ENTRIES)), check(known, name, entry)) for name in chosen]


def report(result: Result) -> str:
    """A finding as a program to paste: minimised, with its inputs and what was expected."""
    program = generate(result.seed)
    source = minimise(program.source, same_finding(program, result.mode, result.entry, result.outcome))
    known = reference(Program(source, program.inputs))
    outcome = check(known, result.mode, result.entry) if known else result.outcome
    names = re.findall(r"[xyz]", source.partition(":")[0].partition("(")[2])
    inputs = "".join(f"{name} = np.array({x.tolist()})\n" for name, x in zip(names, program.inputs))
    verdict = f"{outcome.kind}: {outcome.message}".replace("\n", "\n# ")
    return f"# seed {result.seed}: {result.mode}, through {result.entry}\n{inputs}{source}# {verdict}"
