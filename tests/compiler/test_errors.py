"""Errors in compiled functions: those of eager code, with the user's line, and without damage to later calls."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ng
from ndgrad import func, nn
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.foundations.pytree import tree_flatten

MEANT = "the line that is meant"


def lines_of(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f.line or "" for f in frames if Path(f.filename) == Path(__file__)]


def raised(f: Callable[..., Any], *args: Any) -> Exception:
    with pytest.raises(Exception) as found:
        f(*args)
    return found.value


def arrays(values: Any) -> list[Any]:
    leaves = [v.detach().numpy() if isinstance(v, ndgrad.Tensor) else v for v in tree_flatten(values)[0]]
    return [np.array(v) for v in leaves]


def assert_same(found: Any, expected: Any) -> None:
    for a, b in zip(arrays(found), arrays(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


# ----- forms: a function, arguments that fit, arguments that do not ------------------------------------------------------


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)

    def forward(self, x: Any) -> Any:
        return self.inner(x * 2.0)  # the line that is meant


class Shifted(ndgrad.autograd.Function):
    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * 2.0 + y.sum()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y[:3], None  # the line that is meant


def product(x: Any, y: Any) -> Any:
    z = x.sin()
    return (z @ y).sum()  # the line that is meant


def of_numpy(x: Any, y: Any) -> Any:
    z = np.sin(x)
    z[0] = 1.0
    return np.sum(z + y)  # the line that is meant


def squares(x: Any, y: Any) -> Any:
    return ((x * y) ** 2).sum()  # the line that is meant


def rounds(x: Any, ys: Any) -> Any:
    def body(carry: Any, y: Any) -> Any:
        carry = carry * y  # the line that is meant
        return carry, carry.sum()

    return func.scan(body, x, ys)[1]


def in_backward(x: Any, y: Any) -> Any:
    return func.grad(lambda x: Shifted.apply(x, y).sum())(x)


def shape(*sizes: int) -> Any:
    return ndgrad.arange(float(np.prod(sizes))).reshape(sizes) / 7.0


FORMS: dict[str, tuple[Callable[[], Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "function": (lambda: product, (shape(2, 3), shape(3, 2)), (shape(2, 3), shape(4, 2))),
    "function of Arrays": (lambda: of_numpy, (ng.ones((2, 3)), ng.ones(3)), (ng.ones((2, 3)), ng.ones(4))),
    "function of NumPy's arrays": (lambda: of_numpy, (np.ones((2, 3)), np.ones(3)), (np.ones((2, 3)), np.ones(4))),
    "module": (Doubled, (shape(5, 3),), (shape(5, 4),)),
    "grad": (lambda: func.grad(squares), (shape(2, 3), shape(3)), (shape(2, 3), shape(4))),
    "vmap": (lambda: func.vmap(squares), (shape(2, 3), shape(2, 3)), (shape(2, 3), shape(2, 4))),
    "hessian": (lambda: func.hessian(squares), (shape(3), shape(3)), (shape(3), shape(2))),
    "scan": (lambda: rounds, (shape(3), shape(4, 3)), (shape(3), shape(4, 2))),
    "backward of a custom function": (lambda: in_backward, (shape(3), shape(4)), (shape(3), shape(2))),
}  # fmt: skip


def is_compiled(g: Any, *args: Any) -> bool:
    return bool(ndgrad.compiler.explain(g, *args).compiled)


@pytest.mark.parametrize("name", list(FORMS))
def test_errors_name_the_line_and_leave_the_function_compiled(name: str) -> None:
    make, good, bad = FORMS[name]
    ndgrad.manual_seed(0)
    f = make()
    g = ndgrad.compile(f)
    expected = raised(f, *bad)
    for calls in (0, 3):  # during a failing trace, and next to calls without Python
        for _ in range(calls):
            assert_same(g(*good), f(*good))
        before = arrays((good, bad))
        found = raised(g, *bad)
        assert type(found) is type(expected)
        assert str(found) == str(expected)
        assert any(MEANT in line for line in lines_of(found)), lines_of(found)
        for a, b in zip(arrays((good, bad)), before, strict=True):
            assert np.array_equal(a, b)
    assert_same(g(*good), f(*good))
    assert is_compiled(g, *good)


@pytest.mark.parametrize("transform", [func.grad, func.vmap, func.jacrev, func.jacfwd])
def test_errors_of_compiled_functions_inside_transforms(transform: Any) -> None:
    run = transform(ndgrad.compile(squares))
    good, bad = (shape(3, 3), shape(3, 3)), (shape(3, 3), shape(3, 4))
    assert_same(run(*good), transform(squares)(*good))
    expected, found = raised(transform(squares), *bad), raised(run, *bad)
    assert (type(found), str(found)) == (type(expected), str(expected))
    assert any(MEANT in line for line in lines_of(found))
    assert_same(run(*good), transform(squares)(*good))


def test_an_error_in_a_backward_pass_that_is_compiled() -> None:
    g = ndgrad.compile(lambda x, y: Shifted.apply(x, y).sum())
    x = shape(3).requires_grad_()
    g(x, shape(4)).backward()
    assert_same(x.grad, shape(4)[:3])
    for _ in range(30):  # also in generated code of frequent ops, which raises other errors
        h = ndgrad.compile(lambda x, y: Shifted.apply(x, y).sum())
        found = h(x, shape(2))  # the call succeeds, its gradient fails
        error = raised(found.backward)
        assert any(MEANT in line for line in lines_of(error)), error
    x.grad = None
    g(x, shape(4)).backward()
    assert_same(x.grad, shape(4)[:3])
    assert is_compiled(g, x, shape(4))


def test_a_gradient_of_another_shape_is_refused_and_the_next_pass_runs() -> None:
    g = ndgrad.compile(lambda x: x.sin())
    x = shape(3).requires_grad_()
    y = g(x)
    assert "shape" in str(raised(y.backward, ndgrad.ones(4)))
    assert x.grad is None
    y.backward(ndgrad.ones(3))
    assert_same(x.grad, shape(3).cos())


def test_a_step_that_fails_after_its_writes_leaves_what_eager_code_leaves() -> None:
    def make_model(c: Any) -> Any:
        model, seen = nn.Linear(3, 2), ndgrad.zeros(3)
        optimizer = ndgrad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @c
        def step(x: Any, y: Any) -> Any:
            seen.add_(x.sum(0))
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()  # the line that is meant
            loss.backward()
            optimizer.step()
            return loss

        return step, [*model.parameters(), seen], [p.grad for p in model.parameters()]

    ndgrad.manual_seed(0)
    eager, eager_state, _ = make_model(lambda f: f)
    ndgrad.manual_seed(0)
    step, state, _ = make_model(ndgrad.compile)
    good, bad = (shape(5, 3), shape(5, 2)), (shape(5, 3), shape(4, 2))
    for args in (good, good, good, bad, good, bad, good):
        if args is bad:
            expected, found = raised(eager, *args), raised(step, *args)
            assert (type(found), str(found)) == (type(expected), str(expected))
            assert any(MEANT in line for line in lines_of(found))
        else:
            assert_same(step(*args), eager(*args))
        assert_same(state, eager_state)
    assert is_compiled(step, *good)


def test_an_error_that_values_cause_while_a_program_runs() -> None:
    def f(t: Any, table: Any, i: Any) -> Any:
        t += 1.0
        return table[i].sum()  # the line that is meant

    g = ndgrad.compile(f)
    t, expected, table = ndgrad.zeros(2), ndgrad.zeros(2), shape(3, 2)
    for i in (1, 2, 0, 7, 1):
        index = ndgrad.tensor([0, i])
        if i == 7:
            a, b = raised(f, expected, table, index), raised(g, t, table, index)
            assert (type(b), str(b)) == (type(a), str(a))
            assert any(MEANT in line for line in lines_of(b))
        else:
            assert_same(g(t, table, index), f(expected, table, index))
        assert_same(t, expected)
    assert is_compiled(g, t, table, ndgrad.tensor([0, 1]))


def test_errors_in_fresh_threads_leave_other_threads_alone() -> None:
    g = ndgrad.compile(product)
    good, bad = (shape(2, 3), shape(3, 2)), (shape(2, 3), shape(4, 2))
    expected, outcomes = product(*good), []

    def work() -> None:
        for args in (bad, good, bad, good):
            try:
                assert_same(g(*args), expected)
                outcomes.append(args is good)
            except RuntimeError as error:
                outcomes.append(args is bad and any(MEANT in line for line in lines_of(error)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert outcomes == [True] * 16
    assert_same(g(*good), expected)
    assert is_compiled(g, *good)


# ----- lines of what is traced -------------------------------------------------------------------------------------------


def here(offset: int) -> str:
    return f"{Path(__file__).name}:{test_every_op_of_a_trace_has_the_line_that_asked_for_it.__code__.co_firstlineno + offset}"


def test_every_op_of_a_trace_has_the_line_that_asked_for_it() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * 2.0
        for _ in range(25):  # more calls than an op needs before its code is generated
            z = z + x * y
        return z.sin().sum()

    found = ndgrad.compiler.graph(f, shape(3).requires_grad_(), shape(3)).traced
    lines = [(i.op.name, i.where) for i in found.program.instructions]
    assert lines[0] == ("mul", here(2))
    assert lines[1:51] == [("mul", here(4)), ("add", here(4))] * 25
    assert lines[51:53] == [("sin", here(5)), ("sum_all", here(5))]
    assert {where for _, where in lines[53:]} == {None}  # gradients that the function does not compute itself


def test_lines_of_bodies_transforms_custom_functions_and_the_numpy_class() -> None:
    def lines(f: Any, *args: Any) -> set[str | None]:
        program = ndgrad.compiler.graph(f, *args).traced.program
        bodies = [p for i in program.instructions for p in i.settings.values() if hasattr(p, "instructions")]
        return {i.where for p in (program, *bodies) for i in p.instructions if i.op.name in ("mul", "sin", "add")}

    def line(f: Any, offset: int) -> str:
        return f"{Path(__file__).name}:{f.__code__.co_firstlineno + offset}"

    assert lines(func.vmap(squares), shape(2, 3), shape(2, 3)) == {line(squares, 1)}
    assert line(rounds, 2) in lines(rounds, shape(3), shape(4, 3))
    assert lines(of_numpy, ng.ones((2, 3)), ng.ones(3)) == {line(of_numpy, 1), line(of_numpy, 3)}
    assert line(Shifted.backward, 3) in lines(in_backward, shape(3), shape(4))


def test_kernels_know_the_lines_of_their_ops() -> None:
    found = ndgrad.compiler.kernel_list(product, shape(2, 3), shape(3, 2))
    first = product.__code__.co_firstlineno
    assert {line for step in found for line in step.lines} == {f"{Path(__file__).name}:{first + k}" for k in (1, 2)}
    assert f"{Path(__file__).name}:{first + 1}" in str(found)


def test_a_break_names_the_line_that_is_typed_into_an_interpreter() -> None:
    space: dict[str, Any] = {}
    exec(compile("def f(x):\n    y = x * 2\n    return x * float(y.sum())\n", "<stdin>", "exec"), space)
    error = raised(ndgrad.compile(space["f"], fullgraph=True), shape(3))
    assert isinstance(error, GraphBreak)
    assert error.where == "<stdin>:3"


def test_an_interrupt_while_a_function_is_traced_leaves_everything_as_it_was() -> None:
    w, x = shape(3).requires_grad_(), shape(3)

    def step(x: Any) -> Any:
        x.mul_(2.0)
        loss = (w * x).sum()
        loss.backward()
        if ndgrad.compiler.is_compiling() and interrupts:
            raise KeyboardInterrupt
        return loss

    interrupts: list[bool] = []
    g = ndgrad.compile(step)
    interrupts.append(True)
    with pytest.raises(KeyboardInterrupt):
        g(x)
    interrupts.clear()
    assert_same([x, w], [shape(3)] * 2)
    assert w.grad is None
    assert_same(g(x), (shape(3) ** 2).sum() * 2)
    assert_same([x, w.grad], [shape(3) * 2] * 2)
    assert is_compiled(g, x)
