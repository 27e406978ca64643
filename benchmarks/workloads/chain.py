"""Chains of 200 elementwise ops: the cost of one op, from overhead to arithmetic.

One kind of chain is drawn by seed from 30 ops, most of them transcendental. For long arrays, arithmetic dominates. The
other repeats a block of four cheap ops, so overhead dominates, and a compiler can find the loop.

The draw follows the values. On a grid of inputs an op is admissible only if it is smooth enough, keeps the
state bounded, does not flatten it, and (relu, maximum, minimum) does not cut the path back to the first leaf.
So every library computes finite, comparable gradients. The binary ops mix in a second leaf.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

LENGTH = 200
SEED = int(os.environ.get("NDGRAD_BENCH_SEED", "1"))  # an environment variable, so that all workers draw alike
LOW, HIGH = 0.2, 0.8  # interval of both inputs
LARGEST, FLATTEST = 6.0, 0.02  # upper bound of the state's magnitude, lower bound of its spread
CONNECTED = 0.3  # least share of the grid on which the result depends on the first leaf


@dataclass(frozen=True)
class Op:
    """An elementwise op by its torch name, with the interval of `x` in which the draw may use it."""

    name: str
    operands: int = 1
    low: float = -math.inf
    high: float = math.inf


OPS: tuple[Op, ...] = (
    Op("abs"),
    Op("asinh"),
    Op("atan"),
    Op("cos"),
    Op("erf"),
    Op("exp", high=1.7),
    Op("exp2", high=2.5),
    Op("expm1", high=1.7),
    Op("log", low=0.1),
    Op("log1p", low=-0.8),
    Op("neg"),
    Op("reciprocal", low=0.2),
    Op("relu"),
    Op("rsqrt", low=0.1),
    Op("sigmoid"),
    Op("sin"),
    Op("sinh", low=-2.4, high=2.4),
    Op("sqrt", low=0.05),
    Op("square", low=-2.4, high=2.4),
    Op("tan", low=-1.2, high=1.2),
    Op("tanh"),
    Op("add", 2),
    Op("atan2", 2),
    Op("div", 2, low=-1.2, high=1.2),
    Op("logaddexp", 2),
    Op("maximum", 2),
    Op("minimum", 2),
    Op("mul", 2),
    Op("pow", 2, low=0.1),
    Op("sub", 2),
)

SELECTING = ("relu", "maximum", "minimum")

NUMPY_NAMES = {
    "asinh": "arcsinh",
    "atan": "arctan",
    "neg": "negative",
    "atan2": "arctan2",
    "div": "divide",
    "mul": "multiply",
    "pow": "power",
    "sub": "subtract",
}


def numpy_functions(np_namespace: Any, **others: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
    """Return each op in a NumPy namespace; `others` gives those that NumPy lacks (erf, sigmoid, relu, rsqrt)."""
    return {
        op.name: others[op.name] if op.name in others else getattr(np_namespace, NUMPY_NAMES.get(op.name, op.name))
        for op in OPS
    }


def draw(length: int, seed: int, leaves: int = 2) -> list[Op]:
    """Draw ops uniformly among those admissible for the current values; for one leaf, only ops of one operand."""
    functions = numpy_functions(
        np,
        erf=np.vectorize(math.erf),
        sigmoid=lambda x: 1.0 / (1.0 + np.exp(-x)),
        relu=lambda x: np.maximum(x, 0.0),
        rsqrt=lambda x: 1.0 / np.sqrt(x),
    )
    random = np.random.default_rng(seed)
    x, y = (grid.ravel() for grid in np.meshgrid(*[np.linspace(LOW, HIGH, 25)] * 2))
    drawn: list[Op] = []
    connected = np.ones(x.shape, dtype=bool)
    while len(drawn) < length:
        op = OPS[random.integers(len(OPS))]
        if op.operands <= leaves and op.low <= x.min() and x.max() <= op.high:
            result = functions[op.name](*(x, y)[: op.operands])
            reached = connected & (result == x) if op.name in SELECTING else connected
            bounded = np.abs(result).max() <= LARGEST and np.std(result) >= FLATTEST
            if bounded and reached.mean() >= CONNECTED:
                x, connected = result, reached
                drawn.append(op)
    return drawn


def inputs(size: int, dtype: type[np.floating[Any]] = np.float64, count: int = 2) -> list[np.ndarray]:
    """Return the leaves of a chain."""
    random = np.random.default_rng(SEED)
    return [random.uniform(LOW, HIGH, size).astype(dtype) for _ in range(count)]


def repeat_block(length: int) -> list[Op]:
    """Return |x y - y| + y, repeated. The value stays between the leaves and 2."""
    block = [next(op for op in OPS if op.name == name) for name in ("mul", "sub", "abs", "add")]
    return block * (length // len(block))


def chain_step(torch: Any, arrays: list[np.ndarray], ops: Sequence[Op]) -> Step:
    """Return a step forward and backward through a chain, in torch's dialect."""
    parameters = leaves(torch, arrays)
    calls = [(getattr(torch, op.name), op.operands) for op in ops]

    def loss() -> Any:
        state, others = parameters[0], parameters[1:]
        for function, operands in calls:
            state = function(state, *others[: operands - 1])
        return state.sum()

    return backward_step(loss, parameters)


def chain_functional_step(dialect: Functional, arrays: list[np.ndarray], ops: Sequence[Op]) -> Step:
    """Return the same step in the functional dialect."""
    functions = numpy_functions(
        dialect.np,
        erf=dialect.erf,
        sigmoid=dialect.sigmoid,
        relu=dialect.relu,
        rsqrt=lambda x: 1.0 / dialect.np.sqrt(x),
    )
    calls = [(functions[op.name], op.operands) for op in ops]

    def loss(parameters: list[Any]) -> Any:
        state, others = parameters[0], parameters[1:]
        for function, operands in calls:
            state = function(state, *others[: operands - 1])
        return dialect.np.sum(state)

    return functional_step(dialect, loss, arrays)


def _register(name: str, title: str, ops: list[Op], size: int, goal: float | None, compiled_goal: float) -> None:
    @workload(f"{name}-{size}", title=f"{title}, size {size:,}", goal=goal, compiled_goal=compiled_goal)
    def program(torch: Any) -> Step:
        return chain_step(torch, inputs(size), ops)

    @program.functional
    def functional_program(dialect: Functional) -> Step:
        return chain_functional_step(dialect, inputs(size), ops)


for _name, _title, _ops in (
    ("chain", f"{LENGTH} drawn elementwise ops", draw(LENGTH, SEED)),
    ("repeated", f"mul, sub, abs, add, {LENGTH // 4} times", repeat_block(LENGTH)),
):
    _register(_name, _title, _ops, 1, 0.5, 0.004)
    _register(_name, _title, _ops, 100, 0.5, 0.006)
    _register(_name, _title, _ops, 10_000, None, 0.09)
