"""Families of workloads whose shapes, dtypes and layouts are drawn by seed, so that no code is tuned for them.

`python -m benchmarks.drawn --seed S` runs them. Sizes are drawn on a logarithmic scale, most of them odd. Every third
case has a batch of one. Leaves are read directly, through a transpose, or at every second element.

The environment variable NDGRAD_BENCH_DRAWN="seed,count" selects the draws, so that all workers draw alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload
from benchmarks.workloads.chain import draw as draw_chain
from benchmarks.workloads.chain import numpy_functions
from benchmarks.workloads.drawn_cases import Case, Draw, Transform, read_in_layout, store_in_layout
from benchmarks.workloads.drawn_programs import PROGRAMS

# ----- families ------------------------------------------------------------------------------------------


def elementwise(d: Draw) -> Case:
    """Draw a chain of ops on matrices; the second may be a row."""
    rows, columns = d.size(), d.size(3, 300)
    length = d.size(3, 40)
    ops = draw_chain(length, int(d.random.integers(1 << 30)))
    while all(op.operands == 1 for op in ops):  # otherwise the second leaf would have no gradient
        ops = draw_chain(length, int(d.random.integers(1 << 30)))
    x, y = (
        d.random.uniform(0.2, 0.8, shape).astype(d.dtype)
        for shape in ((rows, columns), (d.random.choice([1, rows]), columns))
    )

    def apply_chain(functions: dict[str, Any], x: Any, y: Any) -> Any:
        for op in ops:
            x = functions[op.name](x, y) if op.operands == 2 else functions[op.name](x)
        return x

    def torch_loss(torch: Any, parameters: list[Any], _: Any) -> Any:
        return apply_chain({op.name: getattr(torch, op.name) for op in ops}, *parameters).mean()

    def functional_loss(dialect: Functional, parameters: list[Any], _: Any) -> Any:
        others = {
            "erf": dialect.erf,
            "sigmoid": dialect.sigmoid,
            "relu": dialect.relu,
            "rsqrt": lambda x: 1.0 / dialect.np.sqrt(x),
        }
        return dialect.np.mean(apply_chain(numpy_functions(dialect.np, **others), *parameters))

    title = f"{length} ops, {rows} x {columns} and {y.shape[0]} x {columns}"
    return Case(title, [x, y], [d.layout(), d.layout()], [], torch_loss, functional_loss)


def rows(d: Draw) -> Case:
    """Draw softmax, log-softmax, layer norm or standard deviation along either dimension."""
    kind, axis = str(d.random.choice(["softmax", "log_softmax", "norm", "std"])), int(d.random.integers(2))
    m, n = d.size(), d.size(3, 1000)
    x, weights = d.normal(m, n), d.normal(m, n)

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        (x,), (w,) = parameters, data
        if kind == "std":
            return x.std(axis).square().sum()
        if kind == "norm":
            centred = x - x.mean(axis, keepdim=True)
            return (centred / torch.sqrt(centred.square().mean(axis, keepdim=True) + 1e-5) * w).sum()
        return (getattr(torch, kind)(x, axis) * w).sum()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        (x,), (w,), np_ = parameters, data, dialect.np
        if kind in ("std", "norm"):
            centred = x - np_.mean(x, axis=axis, keepdims=True)
            if kind == "std":
                return np_.sum(np_.sum(centred**2, axis=axis) / (x.shape[axis] - 1))
            return np_.sum(centred / np_.sqrt(np_.mean(centred**2, axis=axis, keepdims=True) + 1e-5) * w)
        shifted = x - np_.max(x, axis=axis, keepdims=True)
        total = np_.sum(np_.exp(shifted), axis=axis, keepdims=True)
        return np_.sum((np_.exp(shifted) / total if kind == "softmax" else shifted - np_.log(total)) * w)

    return Case(f"{kind} of {m} x {n} along {axis}", [x], [d.layout()], [weights], torch_loss, functional_loss)


def product(d: Draw) -> Case:
    """Draw a matrix product with a bias and an activation."""
    m, k, n = d.batch(3000), d.size(), d.size()
    while m * k * n > 1.5e8:
        m, k, n = d.batch(3000), d.size(), d.size()
    arrays = [d.normal(m, k), d.weight(k, n), d.normal(n)]

    def torch_loss(torch: Any, parameters: list[Any], _: Any) -> Any:
        a, b, c = parameters
        return torch.tanh(a @ b + c).square().sum()

    def functional_loss(dialect: Functional, parameters: list[Any], _: Any) -> Any:
        a, b, c = parameters
        return dialect.np.sum(dialect.np.tanh(dialect.np.matmul(a, b) + c) ** 2)

    return Case(f"{m} x {k} x {n}", arrays, [d.layout(), d.layout(), "plain"], [], torch_loss, functional_loss)


def mlp(d: Draw) -> Case:
    """Draw a network with one to three hidden layers."""
    batch = d.batch(300)
    widths = [d.size(3, 800) for _ in range(int(d.random.integers(3, 6)))]
    arrays = [d.weight(a, b) for a, b in pairwise(widths)]
    x = d.normal(batch, widths[0])

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        hidden = data[0]
        for weight in parameters[:-1]:
            hidden = torch.relu(hidden @ weight)
        return torch.logsumexp(hidden @ parameters[-1], 1).mean()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        hidden = data[0]
        for weight in parameters[:-1]:
            hidden = dialect.relu(dialect.np.matmul(hidden, weight))
        return dialect.np.mean(dialect.logsumexp(dialect.np.matmul(hidden, parameters[-1]), axis=1))

    title = f"{'-'.join(map(str, widths))}, batch {batch}"
    return Case(title, arrays, [d.layout() for _ in arrays], [x], torch_loss, functional_loss)


def convolution(d: Draw) -> Case:
    """Draw two convolutions of 3 x 3 with relu; the images are read directly."""
    batch, side = d.batch(16), d.size(5, 64)
    channels = [d.size(1, 8), d.size(3, 48), d.size(3, 48)]
    arrays = [d.normal(b, a, 3, 3, scale=(9 * a) ** -0.5) for a, b in pairwise(channels)]
    x = d.normal(batch, channels[0], side, side)

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        hidden = data[0]
        for weight in parameters:
            hidden = torch.relu(torch.nn.functional.conv2d(hidden, weight, padding=1))
        return hidden.square().mean()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        hidden = data[0]
        for weight in parameters:
            hidden = dialect.relu(dialect.conv3x3(hidden, weight))
        return dialect.np.mean(hidden**2)

    title = f"{'-'.join(map(str, channels))} on {side} x {side}, batch {batch}"
    return Case(title, arrays, ["plain"] * len(arrays), [x], torch_loss, functional_loss)


def recurrence(d: Draw) -> Case:
    """Draw a plain recurrent network."""
    steps, batch, width = d.size(3, 60), d.batch(40), d.size(3, 120)
    arrays = [d.weight(width, width), d.weight(width, width)]
    data = [d.normal(steps, batch, width), np.zeros((batch, width), d.dtype)]

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        (w, u), (x, state) = parameters, data
        outputs = []
        for t in range(steps):
            state = torch.tanh(x[t] @ w + state @ u)
            outputs.append(state)
        return torch.stack(outputs).square().mean()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        (w, u), (x, state), np_ = parameters, data, dialect.np

        def step(state: Any, x_t: Any) -> tuple[Any, Any]:
            state = np_.tanh(np_.matmul(x_t, w) + np_.matmul(state, u))
            return state, state

        return np_.mean(dialect.scan(step, state, x) ** 2)

    title = f"{steps} steps, {batch} x {width}"
    return Case(title, arrays, [d.layout(), d.layout()], data, torch_loss, functional_loss)


def attention(d: Draw) -> Case:
    """Draw softmax(q k' s) v over batches and heads."""
    batch, heads, length, width = d.batch(8), d.size(1, 8), d.size(3, 200), d.size(3, 64)
    arrays = [d.normal(batch, heads, length, width) for _ in range(3)]
    scale = width**-0.5

    def torch_loss(torch: Any, parameters: list[Any], _: Any) -> Any:
        q, k, v = parameters
        return (torch.softmax(q @ k.transpose(-2, -1) * scale, -1) @ v).square().mean()

    def functional_loss(dialect: Functional, parameters: list[Any], _: Any) -> Any:
        (q, k, v), np_ = parameters, dialect.np
        scores = np_.matmul(q, np_.swapaxes(k, -2, -1)) * scale
        weights = np_.exp(scores - np_.max(scores, axis=-1, keepdims=True))
        return np_.mean(np_.matmul(weights / np_.sum(weights, axis=-1, keepdims=True), v) ** 2)

    title = f"batch {batch}, {heads} heads, {length} x {width}"
    return Case(title, arrays, [d.layout() for _ in arrays], [], torch_loss, functional_loss)


def gather(d: Draw) -> Case:
    """Draw a lookup of rows of a table by index, some of them several times."""
    words, width, count = d.size(), d.size(3, 200), d.size()
    table, places = d.normal(words, width), d.random.integers(0, words, count)
    weights = d.normal(count, width)

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        return (parameters[0][data[1]] * data[0]).sum(1).square().mean()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        return dialect.np.mean(dialect.np.sum(parameters[0][data[1]] * data[0], axis=1) ** 2)

    return Case(
        f"{count} rows of {words} x {width}", [table], ["plain"], [weights, places], torch_loss, functional_loss
    )


def scalars(d: Draw) -> Case:
    """Draw a loop over small vectors."""
    steps, size = d.size(10, 300), d.batch(30)
    arrays = [d.random.uniform(0.5, 1.5, 1).astype(d.dtype), d.random.uniform(0.5, 1.5, size).astype(d.dtype)]

    def advance(sin: Any, rate: Any, x: Any) -> Any:
        return x + 0.01 * rate * (sin(x) - 0.1 * x * x)

    def torch_loss(torch: Any, parameters: list[Any], _: Any) -> Any:
        rate, x = parameters
        for _ in range(steps):
            x = advance(torch.sin, rate, x)
        return x.square().sum()

    def functional_loss(dialect: Functional, parameters: list[Any], _: Any) -> Any:
        rate, x = parameters
        x = dialect.repeat(lambda x: advance(dialect.np.sin, rate, x), x, steps)
        return dialect.np.sum(x**2)

    return Case(f"{steps} steps of {size}", arrays, ["plain", "plain"], [], torch_loss, functional_loss)


FAMILIES: dict[str, Callable[[Draw], Case | Transform]] = {
    f.__name__: f
    for f in (elementwise, rows, product, mlp, convolution, recurrence, attention, gather, scalars, *PROGRAMS)
}


def drawn_name(family: str, number: int) -> str:
    """Return the name of a drawn workload."""
    return f"drawn-{family}-{number}"


def _register(family: str, number: int, seed: int) -> None:
    def draw_case() -> tuple[Case | Transform, np.dtype[Any]]:
        d = Draw((seed, number, list(FAMILIES).index(family)))
        return FAMILIES[family](d), d.dtype

    case, dtype = draw_case()
    unusual = [layout for layout in getattr(case, "layouts", ()) if layout != "plain"]
    title = f"{family}: {case.title}, {dtype}" + (f", {', '.join(unusual)}" if unusual else "")
    del case

    @workload(drawn_name(family, number), title=title, tolerance=1e-3 if dtype == np.float32 else 1e-8, group="drawn")
    def program(torch: Any) -> Step:
        case, _ = draw_case()
        return case.program(torch) if isinstance(case, Transform) else _loss_step(case, torch)

    @program.functional
    def functional_program(dialect: Functional) -> Step:
        case, _ = draw_case()
        return case.functional(dialect) if isinstance(case, Transform) else _functional_loss_step(case, dialect)


def _loss_step(case: Case, torch: Any) -> Step:
    parameters = leaves(
        torch, [store_in_layout(a, layout) for a, layout in zip(case.arrays, case.layouts, strict=True)]
    )
    data = [torch.tensor(a) for a in case.data]
    # Use names instead of `case`: a compiled function would have to compare the arrays of a captured `case`.
    own_loss, layouts = case.torch_loss, tuple(case.layouts)

    def loss() -> Any:
        return own_loss(torch, [read_in_layout(p, layout) for p, layout in zip(parameters, layouts, strict=True)], data)

    return backward_step(loss, parameters)


def _functional_loss_step(case: Case, dialect: Functional) -> Step:
    def loss(parameters: list[Any], *data: Any) -> Any:
        seen = [read_in_layout(p, layout) for p, layout in zip(parameters, case.layouts, strict=True)]
        return case.functional_loss(dialect, seen, list(data))

    given = [store_in_layout(a, layout) for a, layout in zip(case.arrays, case.layouts, strict=True)]
    return functional_step(dialect, loss, given, *case.data)


def register_drawn(seed: int, count: int) -> None:
    """Register `count` workloads of each family."""
    for family in FAMILIES:
        for number in range(count):
            _register(family, number, seed)


if _wanted := os.environ.get("NDGRAD_BENCH_DRAWN"):
    register_drawn(*map(int, _wanted.split(",")))
