"""The programs of the table at random sizes: chains, oscillators, LSTMs, a transformer block, Hessians,
gradients of samples, a mixture of Gaussians, bundle adjustment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.differentiate import compile_step
from benchmarks.libraries import Functional
from benchmarks.registry import Step
from benchmarks.workloads.bundle import residual
from benchmarks.workloads.chain import draw as draw_chain
from benchmarks.workloads.chain import numpy_functions
from benchmarks.workloads.drawn_cases import Case, Draw, Transform

EPSILON = 1e-5


def chain(d: Draw) -> Case:
    """Draw a long chain of elementwise ops on a vector; a single number in every third case."""
    size, length = d.batch(3000), d.size(20, 200)
    ops = draw_chain(length, int(d.random.integers(1 << 30)))
    arrays = [d.random.uniform(0.2, 0.8, size).astype(d.dtype) for _ in range(2)]

    def apply_chain(functions: dict[str, Any], x: Any, y: Any) -> Any:
        result = x * y  # gives both leaves a gradient
        for op in ops:
            x = functions[op.name](x, y) if op.operands == 2 else functions[op.name](x)
        return result + x

    def torch_loss(torch: Any, parameters: list[Any], _: Any) -> Any:
        return apply_chain({op.name: getattr(torch, op.name) for op in ops}, *parameters).mean()

    def functional_loss(dialect: Functional, parameters: list[Any], _: Any) -> Any:
        others = {"erf": dialect.erf, "sigmoid": dialect.sigmoid, "relu": dialect.relu}
        functions = numpy_functions(dialect.np, **others, rsqrt=lambda x: 1.0 / dialect.np.sqrt(x))
        return dialect.np.mean(apply_chain(functions, *parameters))

    return Case(f"{length} ops on {size}", arrays, ["plain", d.layout()], [], torch_loss, functional_loss)


def oscillators(d: Draw) -> Case:
    """Draw Van der Pol's equation by the midpoint rule, for one oscillator or several."""
    steps, size = d.size(10, 300), d.batch(60)
    arrays = [d.random.uniform(0.5, 1.5, size).astype(d.dtype) for _ in range(3)]

    def advance(damping: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        x, v = state
        xm, vm = x + 0.0025 * v, v + 0.0025 * (damping * (1.0 - x * x) * v - x)
        return x + 0.005 * vm, v + 0.005 * (damping * (1.0 - xm * xm) * vm - xm)

    def torch_loss(torch: Any, parameters: list[Any], _: Any) -> Any:
        damping, *state = parameters
        for _ in range(steps):
            state = advance(damping, state)
        return (state[0] * state[0] + state[1] * state[1]).sum()

    def functional_loss(dialect: Functional, parameters: list[Any], _: Any) -> Any:
        damping, x, v = parameters
        x, v = dialect.repeat(lambda state: advance(damping, state), (x, v), steps)
        return dialect.np.sum(x * x + v * v)

    return Case(f"{steps} steps of {size}", arrays, ["plain"] * 3, [], torch_loss, functional_loss)


def lstm(d: Draw) -> Case:
    """Draw an LSTM written by hand, with its gates in one product."""
    steps, batch, width = d.size(3, 60), d.batch(40), d.size(3, 100)
    arrays = [d.weight(width, 4 * width), d.weight(width, 4 * width), d.normal(4 * width, scale=0.1)]
    data = [d.normal(steps, batch, width), d.normal(steps, batch, width), np.zeros((batch, width), d.dtype)]

    def advance(sigmoid: Any, tanh: Any, gates: Any, cell: Any) -> tuple[Any, Any]:
        keep, write, show, candidate = (gates[:, i * width : (i + 1) * width] for i in range(4))
        cell = sigmoid(keep) * cell + sigmoid(write) * tanh(candidate)
        return sigmoid(show) * tanh(cell), cell

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        (w, u, b), (x, target, zeros) = parameters, data
        hidden, cell, outputs = zeros, zeros, []
        for t in range(steps):
            hidden, cell = advance(torch.sigmoid, torch.tanh, x[t] @ w + hidden @ u + b, cell)
            outputs.append(hidden)
        return (torch.stack(outputs) - target).square().mean()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        (w, u, b), (x, target, zeros), np_ = parameters, data, dialect.np

        def step(state: Any, x_t: Any) -> tuple[Any, Any]:
            gates = np_.matmul(x_t, w) + np_.matmul(state[0], u) + b
            hidden, cell = advance(dialect.sigmoid, np_.tanh, gates, state[1])
            return (hidden, cell), hidden

        return np_.mean((dialect.scan(step, (zeros, zeros), x) - target) ** 2)

    title = f"{steps} steps, {batch} x {width}"
    return Case(title, arrays, [d.layout(), d.layout(), "plain"], data, torch_loss, functional_loss)


def sequence(d: Draw) -> Case:
    """Draw ADBench's LSTM: gates of one weight per element, over characters of a few bits."""
    characters, bits = d.size(10, 200), d.size(3, 40)
    arrays = [d.normal(4, bits), d.normal(4, bits, scale=0.1), 1 + d.normal(3, bits, scale=0.1)]
    text = d.random.integers(0, 2, (characters, bits)).astype(d.dtype)
    data = [0.1 * d.normal(2, bits), np.stack([text[:-1], text[1:]], axis=1)]

    def advance(functions: tuple[Any, Any, Any, Any], parameters: list[Any], state: Any, pair: Any) -> Any:
        (gates, biases, outer), (hidden, cell), (sigmoid, tanh, exp, log) = parameters, state, functions
        x = pair[0] * outer[0]
        forget, enter = sigmoid(x * gates[0] + biases[0]), sigmoid(hidden * gates[1] + biases[1])
        show, candidate = sigmoid(x * gates[2] + biases[2]), tanh(hidden * gates[3] + biases[3])
        cell = cell * forget + enter * candidate
        hidden = show * tanh(cell)
        scores = hidden * outer[1] + outer[2]
        return (hidden, cell), (pair[1] * (scores - log(exp(scores).sum() + 2.0))).sum()

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        state, pairs = (data[0][0], data[0][1]), data[1]
        functions, total = (torch.sigmoid, torch.tanh, torch.exp, torch.log), 0.0
        for t in range(characters - 1):
            state, score = advance(functions, parameters, state, pairs[t])
            total = total + score
        return -total / characters

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        np_ = dialect.np
        functions = (dialect.sigmoid, np_.tanh, np_.exp, np_.log)
        start = data[0][0], data[0][1]
        scores = dialect.scan(lambda state, pair: advance(functions, parameters, state, pair), start, data[1])
        return -np_.sum(scores) / characters

    return Case(f"{characters} characters of {bits}", arrays, ["plain"] * 3, data, torch_loss, functional_loss)


def transformer(d: Draw) -> Case:
    """Draw a pre-norm transformer block."""
    batch, heads, length, each = d.batch(6), d.size(1, 6), d.size(3, 100), d.size(3, 32)
    width = heads * each
    arrays = [1 + d.normal(width, scale=0.1), d.normal(width, scale=0.1), d.weight(width, 3 * width)]
    arrays += [d.weight(width, width), d.weight(width, 2 * width), d.weight(2 * width, width)]
    x = d.normal(batch, length, width)

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        (gain, bias, qkv, out, up, down), (x,) = parameters, data
        normed = torch.nn.functional.layer_norm(x, (width,), gain, bias, EPSILON)
        q, k, v = (normed @ qkv).reshape(batch, length, 3, heads, each).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-2, -1) * each**-0.5, -1)
        x = x + (weights @ v).transpose(1, 2).reshape(batch, length, width) @ out
        return (x + torch.nn.functional.gelu(x @ up) @ down).square().mean()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        (gain, bias, qkv, out, up, down), (x,), np_ = parameters, data, dialect.np
        centred = x - np_.mean(x, axis=-1, keepdims=True)
        scale = np_.sqrt(np_.mean(centred * centred, axis=-1, keepdims=True) + EPSILON)
        projected = np_.reshape(np_.matmul(centred / scale * gain + bias, qkv), (batch, length, 3, heads, each))
        projected = np_.transpose(projected, (2, 0, 3, 1, 4))
        scores = np_.matmul(projected[0], np_.swapaxes(projected[1], -2, -1)) * each**-0.5
        weights = np_.exp(scores - np_.max(scores, axis=-1, keepdims=True))
        mixed = np_.matmul(weights / np_.sum(weights, axis=-1, keepdims=True), projected[2])
        x = x + np_.matmul(np_.reshape(np_.swapaxes(mixed, 1, 2), (batch, length, width)), out)
        return np_.mean((x + np_.matmul(dialect.gelu(np_.matmul(x, up)), down)) ** 2)

    layouts = ["plain", "plain", *[d.layout() for _ in arrays[2:]]]
    title = f"batch {batch}, {heads} heads, {length} x {width}"
    return Case(title, arrays, layouts, [x], torch_loss, functional_loss)


def mixture(d: Draw) -> Case:
    """Draw the likelihood of a mixture of Gaussians with lower triangular inverse roots."""
    points, width, components = d.size(3, 1000), d.size(3, 40), d.size(3, 60)
    while points * width * width * components > 4e7:
        points, width, components = d.size(3, 1000), d.size(3, 40), d.size(3, 60)
    arrays = [d.normal(components), d.normal(components, width), d.normal(components, width, scale=0.3)]
    arrays += [d.normal(components, width, width, scale=0.3)]
    data = [d.normal(points, width), np.tril(np.ones((width, width)), -1).astype(d.dtype), np.eye(width, dtype=d.dtype)]

    def torch_loss(torch: Any, parameters: list[Any], data: list[Any]) -> Any:
        (alpha, mu, q, l), (x, below, diagonal) = parameters, data
        root = l * below + torch.exp(q)[:, :, None] * diagonal
        distances = ((x - mu[:, None, :]) @ root.transpose(1, 2)).square().sum(2)
        terms = (alpha + q.sum(1))[:, None] - 0.5 * distances
        return torch.logsumexp(terms, 0).sum() - points * torch.logsumexp(alpha, 0) - l.square().sum()

    def functional_loss(dialect: Functional, parameters: list[Any], data: list[Any]) -> Any:
        (alpha, mu, q, l), (x, below, diagonal), np_ = parameters, data, dialect.np
        root = l * below + np_.exp(q)[:, :, None] * diagonal
        distances = np_.sum(np_.matmul(x - mu[:, None, :], np_.swapaxes(root, 1, 2)) ** 2, axis=2)
        terms = (alpha + np_.sum(q, axis=1))[:, None] - 0.5 * distances
        likelihood = np_.sum(dialect.logsumexp(terms, axis=0)) - points * dialect.logsumexp(alpha, axis=0)
        return likelihood - np_.sum(l**2)

    title = f"{points} points of {width}, {components} components"
    return Case(title, arrays, ["plain"] * 3 + [d.layout()], data, torch_loss, functional_loss)


# ----- transforms -----------------------------------------------------------------------------------------------------


def hessian(d: Draw) -> Transform:
    """Draw the Hessian of Rosenbrock's function, or of a logistic regression."""
    size, samples = d.size(3, 100), d.size(3, 500)
    is_chain = bool(d.random.integers(2))
    x = d.normal(size, scale=0.5)
    inputs, labels = d.normal(samples, size), d.random.integers(0, 2, samples).astype(d.dtype)

    def rosenbrock(x: Any) -> Any:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()

    def program(torch: Any) -> Step:
        given, targets, w = torch.tensor(inputs), torch.tensor(labels), torch.tensor(x)

        def logistic(w: Any) -> Any:
            z = given @ w
            return (torch.nn.functional.softplus(z) - targets * z).sum() + 0.5 * (w * w).sum()

        found = compile_step(torch.func.hessian(rosenbrock if is_chain else logistic))
        return lambda: [found(w)]

    def functional(dialect: Functional) -> Step:
        np_ = dialect.np

        def logistic(w: Any) -> Any:
            z = np_.matmul(inputs, w)
            return np_.sum(np_.logaddexp(z, 0.0) - labels * z) + 0.5 * np_.sum(w * w)

        found, w = dialect.compile(dialect.hessian(rosenbrock if is_chain else logistic)), dialect.array(x)
        return lambda: [dialect.wait(found(w))]

    title = f"Rosenbrock, {size}" if is_chain else f"logistic regression, {samples} x {size}"
    return Transform(title, program, functional)


def samples(d: Draw) -> Transform:
    """Draw gradients of a network with one hidden layer for each sample of a batch."""
    batch, widths = d.batch(60), [d.size(3, 300), d.size(3, 100), d.size(3, 20)]
    arrays = [d.weight(widths[0], widths[1]), d.weight(widths[1], widths[2])]
    x, target = d.normal(batch, widths[0]), d.normal(batch, widths[2])

    def program(torch: Any) -> Step:
        parameters, given, wanted = [torch.tensor(a) for a in arrays], torch.tensor(x), torch.tensor(target)

        def loss(parameters: Any, x: Any, y: Any) -> Any:
            return (torch.tanh(x @ parameters[0]) @ parameters[1] - y).square().sum()

        found = compile_step(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))
        return lambda: list(found(parameters, given, wanted))

    def functional(dialect: Functional) -> Step:
        np_ = dialect.np

        def loss(parameters: Any, x: Any, y: Any) -> Any:
            return np_.sum((np_.matmul(np_.tanh(np_.matmul(x, parameters[0])), parameters[1]) - y) ** 2)

        found = dialect.compile(dialect.row_gradients(loss))
        parameters, given, wanted = [dialect.array(a) for a in arrays], dialect.array(x), dialect.array(target)
        return lambda: list(dialect.wait(found(parameters, given, wanted)))

    return Transform(f"{'-'.join(map(str, widths))}, batch {batch}", program, functional)


def bundle(d: Draw) -> Transform:
    """Draw Jacobians of reprojection errors, one block for each observation."""
    count = d.size(3, 3000)
    centre = np.array([0.2, 0.1, -0.1, 0.0, 0.0, -5.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    cameras = (centre + 0.05 * d.random.standard_normal((count, 11))).astype(d.dtype)
    arrays = [cameras, d.normal(count, 3), d.normal(count), d.normal(count, 2)]

    def program(torch: Any) -> Step:
        given = [torch.tensor(a) for a in arrays]

        def one(*row: Any) -> Any:
            return residual(torch.sqrt, torch.cos, torch.sin, torch.stack, *row)

        found = compile_step(torch.func.vmap(torch.func.jacrev(one, argnums=(0, 1, 2))))
        return lambda: list(found(*given))

    def functional(dialect: Functional) -> Step:
        np_ = dialect.np
        found = dialect.compile(
            dialect.row_jacobians(lambda *row: residual(np_.sqrt, np_.cos, np_.sin, np_.stack, *row), 3)
        )
        given = [dialect.array(a) for a in arrays]
        return lambda: list(dialect.wait(found(*given)))

    return Transform(f"{count} observations", program, functional)


PROGRAMS: tuple[Callable[[Draw], Case | Transform], ...] = (
    chain, oscillators, lstm, sequence, transformer, mixture, hessian, samples, bundle,
)  # fmt: skip
