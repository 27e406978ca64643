"""Programs over tensors (`tensors`) and loops (`loops`), compiled beside eager.

The eager run is the oracle. The program itself gives the allowed difference: a few times the change of the eager result
when the inputs move by a few units in the last place, plus a small part of the largest number. So a branch on values
that are almost equal is no finding.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import ndgrad
from ndgrad import func
from ndgrad._src.compiler.runtime.backend import LoweringFailed
from ndgrad._src.foundations.pytree import tree_flatten
from tests.programs import check as numpy_programs
from tests.programs import loops, tensors
from tests.programs.check import Outcome, Result, closed, judged, reasons_of, without_numbers
from tests.programs.minimise import minimise
from tests.programs.modes import COMPILED, MODES, compiled
from tests.programs.tensors import TensorProgram

F = Callable[..., Any]
#: Units in the last place by which inputs are moved, and how much further than that results may be apart.
MOVED, FURTHER = 4, 30
#: The part of the largest number by which results may differ in any case: what `1 - tanh(x) ** 2` makes of one unit in the
#: last place grows from derivative to derivative.
PART = {"float32": 1e-4, "float64": 1e-9, "float16": 1e-1}


def weighted(results: Any) -> Any:
    """A number of all results, with other weights for each element, and for each part of a complex one."""
    results = [ndgrad.view_as_real(r) if r.is_complex() else r for r in results]
    parts = [(r * ndgrad.cos(ndgrad.arange(r.numel(), dtype=r.dtype)).reshape(r.shape)).sum() for r in results]
    return sum(parts[1:], parts[0])


def leaves(xs: Any) -> list[Any]:
    return [x.detach().clone().requires_grad_() for x in xs]


def gradients(loss: Any, xs: Any, **settings: Any) -> list[Any]:
    if not loss.requires_grad:
        return [ndgrad.zeros_like(x) for x in xs]
    return list(ndgrad.autograd.grad(loss, xs, allow_unused=True, materialize_grads=True, **settings))


# ----- ways to run a program, where `c` compiles or does nothing -------------------------------------------------------


def backward(f: F, xs: Any, c: Any) -> Any:
    """Three calls: the first is traced, the third finds its way without Python."""
    run, found = c(f), []
    for _ in range(3):
        inner = leaves(xs)
        results = run(*inner)
        found += [*results, *gradients(weighted(results), inner)]
    return found


def double_backward(f: F, xs: Any, c: Any) -> Any:
    inner = leaves(xs)
    first = gradients(weighted(c(f)(*inner)), inner, create_graph=True)
    return [*first, *gradients(weighted(first), inner)]


def whole(f: F, xs: Any, c: Any) -> Any:
    """A number and its gradient in one program."""
    run, found = c(lambda *xs: weighted(f(*xs))), []
    for _ in range(3):
        inner = leaves(xs)
        loss = run(*inner)
        if loss.requires_grad:
            loss.backward()
        found += [loss, *[ndgrad.zeros_like(x) if x.grad is None else x.grad for x in inner]]
    return found


def step(f: F, xs: Any, c: Any) -> Any:
    """A training step with a momentum of its own: parameters and state are written."""
    parameters = leaves(xs)
    optimizer = ndgrad.optim.SGD(parameters, lr=1e-3, momentum=0.5)

    @c
    def run() -> Any:
        optimizer.zero_grad()
        loss = weighted(f(*[p * 1.0 for p in parameters])) * 1e-2
        if loss.requires_grad:
            loss.backward()
        optimizer.step()
        return loss

    losses = [run() for _ in range(3)]
    return [*losses, *parameters]


def grad(f: F, xs: Any, c: Any) -> Any:
    return c(func.grad(lambda *xs: weighted(f(*xs)), tuple(range(len(xs)))))(*xs)


def jvp(f: F, xs: Any, c: Any) -> Any:
    return c(lambda *xs: func.jvp(f, xs, tuple(x * 0.5 + 1.0 for x in xs)))(*xs)


def hvp(f: F, xs: Any, c: Any) -> Any:
    inner = func.grad(lambda *xs: weighted(f(*xs)), tuple(range(len(xs))))
    return c(lambda *xs: func.jvp(inner, xs, tuple(x * 0.5 + 1.0 for x in xs)))(*xs)


def vmap(f: F, xs: Any, c: Any) -> Any:
    return c(func.vmap(f))(*[ndgrad.stack([x, x * 0.9, -x]) for x in xs])


def vmap_of_grad(f: F, xs: Any, c: Any) -> Any:
    inner = func.grad(lambda *xs: weighted(f(*xs)), tuple(range(len(xs))))
    return c(func.vmap(inner))(*[ndgrad.stack([x, x * 0.9]) for x in xs])


#: By name: the way, and the options of `compile`.
WAYS: dict[str, tuple[Callable[[F, Any, Any], Any], dict[str, Any]]] = {
    "tensors: backward": (backward, {}),
    "tensors: backward, two threads": (backward, {"threads": 2}),
    "tensors: backward, sizes open": (backward, {"dynamic": True}),
    "tensors: whole": (whole, {}),
    "tensors: double backward": (double_backward, {}),
    "tensors: step": (step, {}),
    "tensors: compile of grad": (grad, {}),
    "tensors: compile of jvp": (jvp, {}),
    "tensors: compile of hvp": (hvp, {}),
    "tensors: compile of vmap": (vmap, {}),
    "tensors: compile of vmap of grad": (vmap_of_grad, {}),
}
LOOPS = [f"loops: {name}" for name in loops.TRANSFORMS]


# ----- comparing --------------------------------------------------------------------------------------------------------


def arrays(found: Any) -> list[Any]:
    return [np.asarray(t.detach().numpy()) for t in tree_flatten(found)[0]]


def move(xs: Any, by: float) -> list[Any]:
    """The same tensors, each element a few units in the last place away."""
    found = []
    for x in xs:
        a = x.detach().numpy()
        signs = np.where(np.arange(a.size).reshape(a.shape) % 2, 1.0, -1.0)
        found.append(ndgrad.tensor((a * (1 + by * np.finfo(a.dtype).eps * signs)).astype(a.dtype)))
    return found


def in_double(run: Callable[[Any, Any], Any], xs: Any, like: list[Any]) -> list[Any] | None:
    """The results in double precision, rounded: what eager code in single precision is away from by roundings of its own. None
    if they are others, or were of double precision already."""
    if not any(x.dtype == ndgrad.float32 for x in xs):
        return None
    try:
        found = arrays(run([x.detach().double() if x.dtype == ndgrad.float32 else x for x in xs], lambda f: f))
    except Exception:  # a program of two dtypes may not do
        return None
    if [a.shape for a in found] != [b.shape for b in like]:
        return None
    return [a.astype(b.dtype) for a, b in zip(found, like, strict=True)]


def compare_compiled(run: Callable[[Any, Any], Any], xs: Any, options: dict[str, Any]) -> Outcome:
    """Whether `run(xs, c)` is the same where `c` compiles."""
    COMPILED.clear()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected, *others = (arrays(run(x, lambda f: f)) for x in (xs, move(xs, MOVED), move(xs, -MOVED)))
        except Exception as error:
            closed()
            return Outcome("unknown", f"eager raises {type(error).__name__}")
        try:
            found = arrays(run(xs, lambda f: compiled(f, **options)))
            outcome = same(found, expected, others)
            if outcome.kind == "wrong" and (exact := in_double(run, xs, expected)) is not None:
                outcome = same(found, expected, [*others, exact])
        except (Exception, LoweringFailed) as error:
            outcome = judged(error)
            outcome = replace(outcome, kind="crashed")  # eager did not refuse
    if not closed():
        return Outcome("left open", f"a mode is still open after: {outcome.kind} {outcome.message}")
    return replace(outcome, eager=next(reasons_of(COMPILED), ""))


def same(found: list[Any], expected: list[Any], others: list[list[Any]]) -> Outcome:
    if len(found) != len(expected):
        return Outcome("wrong", f"{len(found)} results instead of {len(expected)}")
    for i, (a, b, *near) in enumerate(zip(found, expected, *others, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return Outcome("wrong", f"result {i}: {a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}")
        if not np.all(np.isfinite(b)):
            if not np.array_equal(np.isfinite(a), np.isfinite(b)) and all(
                np.array_equal(np.isfinite(n), np.isfinite(b)) for n in near
            ):
                return Outcome("wrong", f"result {i}: other elements are finite")
            continue
        if b.dtype.kind not in "fc":
            if not np.array_equal(a, b) and all(np.array_equal(n, b) for n in near):
                return Outcome("wrong", f"result {i}: {a.ravel()[:9]} instead of {b.ravel()[:9]}")
            continue
        noise = max(float(np.max(np.abs(n - b), initial=0.0)) for n in near)
        scale = 1.0 + float(np.max(np.abs(b), initial=0.0))
        bound = FURTHER * noise + PART[b.real.dtype.name] * scale
        error = np.abs(a - b)
        if not np.all(error <= bound):
            worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
            return Outcome(
                "wrong",
                f"result {i}, element {worst} of {b.shape}: {a.ravel()[worst]!r} instead of {b.ravel()[worst]!r}; "
                f"at most {bound:.2g} apart",
            )
    return Outcome("right")


# ----- programs by seed -------------------------------------------------------------------------------------------------


def check(program: TensorProgram, way: str) -> Outcome:
    run, options = WAYS[way]
    f = tensors.build(program.source)
    return compare_compiled(lambda xs, c: run(f, xs, c), program.arguments, options)


def examine_tensors(seed: int, most: int) -> list[Result]:
    """The program of a seed in some of the ways; the seed decides which."""
    program = tensors.generate(seed)
    chosen = random.Random(seed).sample(list(WAYS), min(most, len(WAYS)))
    return [Result(seed, way, "tensors", check(program, way)) for way in WAYS if way in chosen]


def examine_loop(seed: int) -> list[Result]:
    name, f, args = loops.transformed(seed)
    return [Result(seed, f"loops: {name}", "loops", compare_compiled(lambda xs, c: c(f)(*xs), args, {}))]


def report(result: Result) -> str:
    """A finding as a program to paste; a loop's by its seed, which has no text."""
    title = f"# seed {result.seed}: {result.mode}\n"
    if result.entry == "loops":
        return f"{title}# tests.programs.loops.transformed({result.seed})\n# {result.outcome.kind}: {result.outcome.message}"
    program = tensors.generate(result.seed)

    def holds(source: str) -> bool:
        try:
            found = check(replace(program, source=source), result.mode)
        except Exception:
            return False  # no longer a program
        same_message = without_numbers(found.message) == without_numbers(result.outcome.message)
        return found.kind == result.outcome.kind and (found.kind != "crashed" or same_message)

    source = minimise(program.source, holds)
    outcome = check(replace(program, source=source), result.mode)
    names = source.partition("(")[2].partition(")")[0].split(", ")
    shapes = ", ".join(f"{name}: {x.dtype}{list(x.shape)}" for name, x in zip(names, program.inputs))
    verdict = f"{outcome.kind}: {outcome.message}".replace("\n", "\n# ")
    return f"{title}# of tests.programs.tensors.generate({result.seed}).arguments, {shapes}\n{source}# {verdict}"


# ----- all kinds --------------------------------------------------------------------------------------------------------

#: Modes that compile: each is a program of its own to make, so a program of the grammar is tried in two of them.
COMPILING = [name for name in MODES if "compile" in name]


def examine_any(seed: int, modes: Sequence[str], most: int) -> list[Result]:
    """Of four seeds, two are programs of NumPy's grammar, one is over tensors, and one a loop."""
    if seed % 4 == 3:
        return examine_loop(seed)
    return examine_tensors(seed, most) if seed % 4 == 2 else numpy_programs.examine(seed, modes, most)


def report_any(finding: Result) -> str:
    return report(finding) if finding.entry in ("tensors", "loops") else numpy_programs.report(finding)


def begin_process() -> None:
    """One process of many: one thread of its own, nothing left on disk, and a program that cannot be lowered is an error."""
    warnings.simplefilter("ignore")
    os.environ.update({"NDGRAD_COMPILE_RAISE": "1", "NDGRAD_CACHE_DIR": ""})
    os.environ.setdefault("NDGRAD_NUM_THREADS", "1")
