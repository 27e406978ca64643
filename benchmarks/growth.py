"""Growth of the cost of one step with the size of the array of which it touches a part. There should be none.

A step reads or writes a part of an array of n elements. Its cost is the difference between a program of many steps and
one of few, divided by the difference of their numbers. So work done once per array (zeros, the gradient of the whole)
does not count. Programs that overwrite a saved value run only on NumPy's namespace, because torch's rule rejects them.

A second table is about compiling: the processor's seconds for the first call of a loop's gradient, by its rounds. The
time per round should not grow with them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy

SIZES = (1_000, 30_000, 1_000_000)
FEW, MANY = 20, 60
#: A step on the largest array counts as growth if it costs more than this many times a step on the smallest.
TOLERANCE = 1.8

#: Numbers of rounds of the compiled loops.
LENGTHS = (100, 300, 1_000, 3_000)

Program = Callable[[Any, Any, int], Any]


class Case(NamedTuple):
    """A program of (namespace, x, steps)."""

    program: Program
    dims: int = 1
    namespaces: tuple[str, ...] = ("numpy", "torch")


def _index(np: Any, *places: int) -> Any:
    array = numpy.array(places)
    return array if np.__name__ == "ndgrad.numpy" else np.tensor(array)


def _reading(read: Callable[[Any, Any, int], Any]) -> Program:
    def program(np: Any, x: Any, steps: int) -> Any:
        total: Any = 0.0
        for i in range(steps):
            total = total + (read(np, x, i) ** 2).sum()
        return total

    return program


def _buffer(write: Callable[[Any, Any, Any, int], None]) -> Program:
    def program(np: Any, x: Any, steps: int) -> Any:
        u = np.zeros(tuple(x.shape), dtype=np.float64)
        u[0] = x[0]
        for i in range(1, steps):
            write(np, u, x, i)
        return (u[steps - 1] ** 2).sum()

    return program


def _element(np: Any, u: Any, x: Any, i: int) -> None:
    u[i] = np.sin(u[i - 1]) * 0.9


def _stencil(np: Any, u: Any, x: Any, i: int) -> None:
    u[i] = u[i - 1] * 0.9 - u[i - 2] * 0.1 + x[i]


def _slice(np: Any, u: Any, x: Any, i: int) -> None:
    u[i : i + 3] = u[i - 1 : i + 2] * 0.9


def _augmented(np: Any, u: Any, x: Any, i: int) -> None:
    u[i] += u[i - 1] * 0.5


def _fancy(np: Any, u: Any, x: Any, i: int) -> None:
    u[_index(np, i, i + 1)] = u[_index(np, i - 1, i)] * 0.9


def _transposed(np: Any, u: Any, x: Any, i: int) -> None:
    u.T[0, i] = u.T[0, i - 1] * 0.9


CASES = {
    "read element": Case(_reading(lambda np, x, i: x[i])),
    "read slice": Case(_reading(lambda np, x, i: x[i : i + 3])),
    "read by an array": Case(_reading(lambda np, x, i: x[_index(np, i, i + 1)])),
    "read by two arrays": Case(_reading(lambda np, x, i: x[_index(np, i, i + 1), _index(np, 0, 1)]), dims=2),
    "read by array and slice": Case(_reading(lambda np, x, i: x[_index(np, i, i + 1), 1:]), dims=2),
    "read row": Case(_reading(lambda np, x, i: x[i]), dims=2),
    "read of a reshaped": Case(_reading(lambda np, x, i: x.reshape((-1, 2))[i])),
    "read of a slice": Case(_reading(lambda np, x, i: x[1:][i])),
    "take": Case(_reading(lambda np, x, i: np.take(x, _index(np, i)))),
    "u[i] = sin(u[i-1])": Case(_buffer(_element), namespaces=("numpy",)),
    "stencil": Case(_buffer(_stencil)),
    "write slice": Case(_buffer(_slice)),
    "u[i] += u[i-1]": Case(_buffer(_augmented)),
    "write by an array": Case(_buffer(_fancy)),
    "write row": Case(_buffer(_element), dims=2, namespaces=("numpy",)),
    "write through a transpose": Case(_buffer(_transposed), dims=2),
}


def _leaf(np: Any, values: Any, requires_grad: bool) -> Any:
    x = np.array(values) if np.__name__ == "ndgrad.numpy" else np.tensor(values)
    return x.requires_grad_() if requires_grad else x


def _eager(np: Any, program: Program, values: Any, steps: int) -> Callable[[], Any]:
    x = _leaf(np, values, True)
    return lambda: program(np, x, steps).backward()


def _func(transform: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, Program, Any, int], Callable[[], Any]]:
    from ndgrad import func

    def prepare(np: Any, program: Program, values: Any, steps: int) -> Callable[[], Any]:
        x, v = _leaf(np, values, False), _leaf(np, values, False)
        return lambda: transform(func, lambda z: program(np, z, steps), x, v)

    return prepare


def modes() -> dict[str, Callable[[Any, Program, Any, int], Callable[[], Any]]]:
    """Return the timed modes: a name, and a function that prepares a call."""
    return {
        "backward": _eager,
        "grad": _func(lambda func, f, x, v: func.grad(f)(x)),
        "jvp": _func(lambda func, f, x, v: func.jvp(f, (x,), (v,))),
        "jvp of grad": _func(lambda func, f, x, v: func.jvp(func.grad(f), (x,), (v,))),
        "grad of grad": _func(lambda func, f, x, v: func.grad(lambda y: (func.grad(f)(y) * v).sum())(x)),
    }


def _fastest(call: Callable[[], Any], repetitions: int) -> float:
    best = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def step_cost(prepare: Any, np: Any, case: Case, size: int, repetitions: int) -> float:
    """Return the microseconds of one more step."""
    values = numpy.random.default_rng(0).normal(size=size)
    values = values if case.dims == 1 else values.reshape(-1, 4)
    few, many = (_fastest(prepare(np, case.program, values, steps), repetitions) for steps in (FEW, MANY))
    return (many - few) / (MANY - FEW) * 1e6


def measure(repetitions: int) -> Iterator[tuple[str, str, str, list[float]]]:
    """Yield (mode, namespace, case, microseconds per step for each of SIZES)."""
    import ndgrad
    import ndgrad.numpy

    for mode, prepare in modes().items():
        for namespace, np in (("numpy", ndgrad.numpy), ("torch", ndgrad)):
            for name, case in CASES.items():
                if namespace in case.namespaces:
                    yield mode, namespace, name, [step_cost(prepare, np, case, size, repetitions) for size in SIZES]


def _compound(np: Any, rounds: int) -> tuple[Callable[[Any], Any], Any]:
    def f(rate: Any) -> Any:
        balance = np.ones(rounds)
        for i in range(1, rounds):
            balance[i] = balance[i - 1] * (1 + rate)
        return balance[-1]

    return f, np.array(0.001)


def _heat(np: Any, rounds: int) -> tuple[Callable[[Any], Any], Any]:
    def f(u: Any) -> Any:
        u = u.copy()
        for _ in range(rounds):
            u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return (u * u).sum()

    return f, np.linspace(0.0, 1.0, 16)


def _kept_states(np: Any, rounds: int) -> tuple[Callable[[Any], Any], Any]:
    def f(x: Any) -> Any:
        states = []
        for _ in range(rounds):
            x = np.tanh(0.9 * x + 0.1)
            states.append(x)
        return np.stack(states).sum()

    return f, np.linspace(0.0, 1.0, 3)


def _scattered(np: Any, rounds: int) -> tuple[Callable[[Any], Any], Any]:
    places = numpy.random.default_rng(0).integers(0, rounds, (rounds, 2)).tolist()

    def f(x: Any) -> Any:
        u = np.zeros(rounds) + x
        for j, k in places:
            u[j] = np.sin(u[k]) * x
        return u.sum()

    return f, np.array(0.3)


LOOPS = {"compound": _compound, "heat in place": _heat, "states in a list": _kept_states, "scattered": _scattered}


def measure_compiling() -> Iterator[tuple[str, list[tuple[float, int]]]]:
    """Yield (loop, processor seconds of the first call and instructions of the program, for each of LENGTHS)."""
    import ndgrad
    import ndgrad.numpy
    from ndgrad import func

    for name, make in LOOPS.items():
        found = []
        for length in (LENGTHS[0], *LENGTHS):  # the first, discarded run does the work that is done once
            f, x = make(ndgrad.numpy, length)
            compiled = ndgrad.compile(func.grad(f), fullgraph=True)
            start = time.process_time()
            compiled(x)
            program = compiled.entries[0].specialisation.plan.forward
            found.append((time.process_time() - start, len(program.instructions)))
        yield name, found[1:]


def report(output: Path, repetitions: int) -> None:
    """Measure everything, print it row by row, and write it to `growth.md`."""
    head = ["mode", "namespace", "step", *(f"n = {size:,}" for size in SIZES), ""]
    lines = [
        "# Microseconds of one step, by the size of the array of which it touches a part",
        "",
        _row(head),
    ]
    lines.append(_row(["---"] * len(head)))
    grown = 0
    for mode, namespace, name, costs in measure(repetitions):
        grows = costs[-1] > TOLERANCE * max(costs[0], 1.0)
        grown += grows
        lines.append(_row([mode, namespace, name, *(f"{cost:.0f}" for cost in costs), "grows" if grows else ""]))
        print(lines[-1], flush=True)
    lines += ["", f"{grown} rows grow by more than {TOLERANCE} times."]
    print(lines[-1])
    head = ["loop", *(f"{length:,} rounds" for length in LENGTHS), "instructions", ""]
    lines += ["", "# Seconds to compile the gradient of a loop, by its rounds", "", _row(head)]
    lines.append(_row(["---"] * len(head)))
    for name, found in measure_compiling():
        grows = found[-1][0] / LENGTHS[-1] > TOLERANCE * found[1][0] / LENGTHS[1]
        seconds = [f"{taken:.2f}" for taken, _ in found]
        lines.append(_row([name, *seconds, str(found[-1][1]), "grows" if grows else ""]))
        print(lines[-1], flush=True)
    path = output / "growth.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
