"""Forms of Python loops, threads and interruptions while loops are rolled up: results are those of eager code."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as gnp
from ndgrad._src.compiler.capture import python_loops

N = 120


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape) * 0.5


def break_and_else(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i]
        if i == 110:
            break
    else:
        s = s * 100.0
    return s


def else_without_break(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        if i % 2:
            continue
        s = s * 0.9 + x[i]
    else:
        s = s * 2.0 + i
    return s


def returns_inside(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i]
        if i == 115:
            return s * 3.0
    return s


def tries_in_the_body(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        try:
            s = s * 0.9 + x[i + 5]
        except IndexError:
            s = s + 1.0
    return s


def index_of_a_caught_error(x: Any) -> Any:
    s = x[0]
    try:
        for i in range(N + 1):
            s = s * 0.9 + x[i]
    except IndexError:
        s = s * 5.0
    return s


def recursive(x: Any, depth: int = 2) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i] * depth
    return s if depth == 0 else s + recursive(x * 0.5, depth - 1)


def calls_itself_in_the_body(x: Any, depth: int = 1) -> Any:
    s = x[0]
    for i in range(N if depth else 2):
        s = s * 0.9 + x[i]
        if depth:
            s = s + 0.01 * calls_itself_in_the_body(x, depth - 1)
    return s


def rows_of(x: Any) -> Iterator[Any]:
    for i in range(N):
        yield x[i] * 2.0


def items_of_a_generator(x: Any) -> Any:
    s = x[0]
    for row in rows_of(x):
        s = s * 0.9 + row
    return s


def assigns_nonlocal(x: Any) -> Any:
    s = x[0]

    def add(v: Any) -> Any:
        nonlocal s
        for i in range(N):
            s = s * 0.9 + v[i]
        return s

    return add(x) + s


def calls_a_closure_that_assigns(x: Any) -> Any:
    s = x[0]

    def add(v: Any) -> Any:
        nonlocal s
        s = s * 0.9 + v
        return s

    total = x[0] * 0.0
    for i in range(N):
        total = total + add(x[i])
    return total + s


def a_closure_reads_the_variable(x: Any) -> Any:
    s = x[0]

    def half() -> Any:
        return s * 0.5

    for i in range(N):
        s = half() + x[i]
    return s + half()


def a_generator_expression_reads_the_variable(x: Any) -> Any:
    s = x[0]
    halves = (s * 0.5 for _ in range(1000))
    for i in range(N):
        s = next(halves) + x[i]
    return s


level = 1.0


def current_level() -> Any:
    return level


def assigns_a_global(x: Any) -> Any:
    global level
    level = x[0]
    for i in range(N):
        level = current_level() * 0.5 + x[i]
    found = level
    level = 1.0
    return found


def lambda_in_the_body(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        f = lambda v: v * s  # noqa: B023
        s = s * 0.9
        s = f(x[i]) + s
    return s


def makes_closures(x: Any) -> Any:
    made = []
    for i in range(N):
        made.append(lambda k=i: x[k] * 2.0)
    return made[3]() + made[-1]()


def late_binding(x: Any) -> Any:
    made = [(lambda: x[i]) for i in range(N)]  # noqa: B023
    for i in range(N):
        last = x[i]
    return made[0]() + last


def comprehension_in_the_body(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + sum([x[i] * k for k in range(3)])
    return s


def variables_after_the_loop(x: Any) -> Any:
    for i, row in enumerate(x):
        y = row * i
    return y + row + i


def default_arguments(x: Any, *, scale: float = 0.9, start: Any = None) -> Any:
    s = x[0] if start is None else start
    for i in range(N):
        s = s * scale + x[i]
    return s


def looks_at_its_variables(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i]
    return s + len(locals())


def executes_text(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i]
    space = {"s": s}
    exec("t = s * 2.0", space)
    return space["t"]


def doubled(f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def run(*args: Any) -> Any:
        return f(*args) * 2.0

    return run


@doubled
def decorated(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i]
    return s


def swallows(x: Any, i: Any) -> Any:
    try:
        return x * 2.0 if i % 3 else x * 0.5
    except BaseException:
        return x * 100.0


def catches_everything_in_a_helper(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + swallows(x[i], i)
    return s


def deletes(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        y = x[i] * 2.0
        s = s * 0.9 + y
        del y
    return s


def assigns_by_an_expression(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + (y := x[i] * 2.0) * y
    return s + y


class Model:
    def __init__(self) -> None:
        self.__rate = 0.9
        self.calls = 0

    def __call__(self, x: Any) -> Any:
        s = x[0]
        for i in range(N):
            s = s * self.__rate + x[i]
        return s

    def count(self, x: Any) -> Any:
        s = x[0]
        for i in range(N):
            self.calls += 1
            s = s * 0.9 + x[i]
        return s * self.calls


def a_method_with_private_names(x: Any) -> Any:
    return Model()(x)


def sets_an_attribute(x: Any) -> Any:
    return Model().count(x)


space: dict[str, Any] = {}
exec("def without_source(x):\n    s = x[0]\n    for i in range(120):\n        s = s * 0.9 + x[i]\n    return s", space)

FORMS = [
    break_and_else, else_without_break, returns_inside, tries_in_the_body, index_of_a_caught_error, recursive,
    calls_itself_in_the_body, items_of_a_generator, assigns_nonlocal, calls_a_closure_that_assigns,
    a_closure_reads_the_variable, a_generator_expression_reads_the_variable, assigns_a_global, lambda_in_the_body,
    makes_closures, late_binding, comprehension_in_the_body, variables_after_the_loop,
    default_arguments, looks_at_its_variables, executes_text, decorated, catches_everything_in_a_helper, deletes,
    assigns_by_an_expression, a_method_with_private_names, sets_an_attribute, space["without_source"],
]  # fmt: skip


@pytest.mark.parametrize("f", FORMS, ids=lambda f: f.__name__)
def test_forms_give_the_results_of_eager_code(f: Callable[..., Any]) -> None:
    x = gnp.array(numbers(N))
    code = f.__code__
    np.testing.assert_allclose(ndgrad.compile(f)(x).numpy(), f(x).numpy(), rtol=1e-12)
    gradient = ndgrad.func.grad(f)
    np.testing.assert_allclose(ndgrad.compile(gradient)(x).numpy(), gradient(x).numpy(), rtol=1e-10, atol=1e-14)
    assert f.__code__ is code


@pytest.mark.parametrize("f", [variables_after_the_loop, else_without_break, tries_in_the_body], ids=lambda f: f.__name__)
def test_results_under_a_debugger(f: Callable[..., Any]) -> None:
    x = gnp.array(numbers(N))
    lines: set[int] = set()

    def follow(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename == __file__ and event == "line":
            lines.add(frame.f_lineno)
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        found = ndgrad.compile(f)(x)
    finally:
        sys.settrace(before)
    np.testing.assert_allclose(found.numpy(), f(x).numpy(), rtol=1e-12)
    first = f.__code__.co_firstlineno
    assert first + 2 in lines  # the loop's body


# ----- breaks in a body -----------------------------------------------------------------------------------------------


def number_from_outside(x: Any) -> Any:
    scale = x.mean().item()
    for _ in range(N):
        x = x + 0.01 * scale * x.sin()
    return x.sum()


def number_in_each_round(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + x[i] * (x[i].item() * 0.5)
    return s


def result_that_is_not_used(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        ndgrad.linalg.inv(ndgrad.eye(2, dtype=x.dtype) * (2.0 + x[i] ** 2)).sum()
        _ = ndgrad.linalg.inv(ndgrad.eye(2, dtype=x.dtype) * (2.0 + x[i] ** 2))
        s = s * 0.9 + x[i]
    return s


def unused_in_an_assignment(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        _ = ndgrad.linalg.inv(ndgrad.eye(2, dtype=x.dtype) * (2.0 + x[i] ** 2))
        s = s * 0.9 + x[i]
    return s


def writes_an_array_and_a_view_of_it(x: Any) -> Any:
    y = x * 1.0
    z = y[3:]
    for i in range(N - 3):
        z[i] = z[i] * 0.5
        y[0] = y[0] + x[i]
    return y.sum()


def gradients_inside(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s * 0.9 + ndgrad.func.grad(lambda v: (v * v * v).sum())(x[i])
    return s


BREAKING = [
    number_from_outside, number_in_each_round, result_that_is_not_used, unused_in_an_assignment,
    writes_an_array_and_a_view_of_it, gradients_inside,
]  # fmt: skip


@pytest.mark.parametrize("f", BREAKING, ids=lambda f: f.__name__)
def test_a_break_in_a_round_refuses_the_loop_and_not_the_function(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace without rolled loops decides whether the function compiles."""
    x = ndgrad.tensor(numbers(N))

    def run() -> tuple[bool, Any]:
        compiled = ndgrad.compile(f)
        found = compiled(x)
        return compiled.entries[0].broken is None if compiled.entries else False, found.numpy()

    is_compiled, found = run()
    np.testing.assert_allclose(found, f(x).numpy(), rtol=1e-12)
    monkeypatch.setattr(python_loops, "LEAST", 10**9)
    expected, _ = run()
    assert is_compiled == expected


def test_the_reason_is_explained() -> None:
    x = ndgrad.tensor(numbers(N))
    compiled = ndgrad.compile(number_from_outside, fullgraph=True)
    compiled(x)
    (reason,) = compiled.entries[0].environment.loops.refused.values()
    assert "a number that is read of a tensor" in reason
    assert reason in str(ndgrad.compiler.explain(compiled, x))


def test_derivatives_of_gradients_of_a_refused_loop() -> None:
    def f(x: Any) -> Any:
        scale = x.mean().item()
        for _ in range(N):
            x = x + 0.01 * scale * x.sin()
        return x.sum()

    def second(g: Callable[..., Any]) -> Any:
        x = ndgrad.tensor(numbers(4), requires_grad=True)
        (first,) = ndgrad.autograd.grad(g(x), [x], create_graph=True)
        return ndgrad.autograd.grad((first * first).sum(), [x])[0].numpy()

    np.testing.assert_allclose(second(ndgrad.compile(f)), second(f), rtol=1e-10)


# ----- programs of tests/compiler/passes/test_reroll.py, rolled up before the trace ------------------------------------


def van_der_pol(p: Any, v: Any, mu: Any) -> Any:
    for _ in range(200):
        p, v = p + 0.01 * v, v + 0.01 * (mu * (1.0 - p * p) * v - p)
    return p * v


def lstm(x: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
    out = []
    for t in range(x.shape[0]):
        i, f, o, u = (x[t] @ wx + h @ wh + b).chunk(4, 1)
        c = ndgrad.sigmoid(f) * c + ndgrad.sigmoid(i) * ndgrad.tanh(u)
        h = ndgrad.sigmoid(o) * ndgrad.tanh(c)
        out.append(h)
    return ndgrad.stack(out).sum()


@pytest.mark.parametrize(
    ("f", "arrays"),
    [
        (van_der_pol, [np.array(1.5), np.array(1.0), np.array(0.5)]),
        (lstm, [numbers(100, 4, 3), numbers(4, 5), numbers(4, 5), numbers(3, 20), numbers(5, 20), numbers(20)]),
    ],
)
def test_an_integrator_and_a_recurrent_network(f: Callable[..., Any], arrays: list[Any]) -> None:
    def run(g: Callable[..., Any]) -> list[Any]:
        tensors = [ndgrad.tensor(a, requires_grad=True) for a in arrays]
        loss = g(*tensors)
        loss.backward()
        return [loss.detach().numpy(), *[t.grad.numpy() for t in tensors]]

    compiled = ndgrad.compile(f, fullgraph=True)
    for a, b in zip(run(compiled), run(f), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert compiled.entries[0].environment.loops.rolled


# ----- threads and interruptions --------------------------------------------------------------------------------------



def fill_rows(x: Any) -> Any:
    u = gnp.zeros(N)
    out = []
    for i in range(1, N):
        u[i] = 0.5 * u[i - 1] + x[i]
        if i % 2:
            continue
        out.append(u[i] * i)
    else:
        u[0] = x[0]
    return u.sum() + sum(out) + i


@pytest.mark.parametrize("kind", ["eager", "compiled"])
def test_other_threads_run_the_loop_as_written_while_one_traces(kind: str) -> None:
    x = gnp.array(numbers(N))
    code = fill_rows.__code__
    expected = fill_rows(x).numpy()
    ready, is_done = threading.Barrier(3), threading.Event()
    errors: list[BaseException] = []
    calls = [0, 0]
    theirs = ndgrad.compile(fill_rows)
    theirs(x)

    def call(n: int) -> None:
        f = fill_rows if kind == "eager" else theirs
        try:
            ready.wait(60)
            while not is_done.is_set():
                np.testing.assert_allclose(f(x).numpy(), expected, rtol=1e-12)
                calls[n] += 1
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(2)]
    for t in threads:
        t.start()
    ready.wait(60)
    try:
        for _ in range(3):
            compiled = ndgrad.compile(fill_rows)
            np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-12)
    finally:
        is_done.set()
        for t in threads:
            t.join(60)
    assert not errors, errors
    assert all(calls)
    assert fill_rows.__code__ is code
    assert theirs.traces == 1  # the other traces did not change the function in its eyes


def test_threads_that_trace_the_same_function_leave_its_code() -> None:
    x = gnp.array(numbers(N))
    code = fill_rows.__code__
    expected = fill_rows(x).numpy()
    made: list[Any] = []
    errors: list[BaseException] = []
    ready = threading.Barrier(3)

    def trace() -> None:
        try:
            ready.wait(60)
            compiled = ndgrad.compile(fill_rows)
            for _ in range(3):
                np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-12)
            made.append(compiled)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=trace) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not errors, errors
    assert fill_rows.__code__ is code
    assert [compiled.traces for compiled in made] == [1, 1, 1]
    assert all(entry.broken is None for compiled in made for entry in compiled.entries)


class Interrupting:
    """A number whose arithmetic raises in a trace."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __rmul__(self, other: Any) -> Any:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ValueError("no")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["in the body", "after the loop"])
def test_an_exception_in_a_trace_restores_the_code(error: BaseException, place: str) -> None:
    factor = Interrupting(error)

    def f(x: Any) -> Any:
        s = x[0]
        for i in range(N):
            s = s * 0.9 + x[i]
            if place == "in the body":
                s = s + 2.0 * factor
        return s + 2.0 * factor

    code = f.__code__
    with pytest.raises(type(error)):
        ndgrad.compile(f)(gnp.array(numbers(N)))
    assert f.__code__ is code
    x = gnp.array(numbers(N))
    np.testing.assert_allclose(ndgrad.compile(fill_rows)(x).numpy(), fill_rows(x).numpy(), rtol=1e-12)
