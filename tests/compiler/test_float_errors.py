"""Floating-point errors: a compiled call warns and raises as the eager one does, under `np.errstate` and warning filters."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ng
from ndgrad._src.compiler.kernels.operations import every_operation
from ndgrad._src.compiler.lower.float_errors import SILENT, FloatFlags, default_settings, filter_version, settings
from ndgrad._src.compiler.lower.pointwise import is_pointwise
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of
from ndgrad._src.compiler.runtime.function import CompiledFunction

OPERATIONS = every_operation()


@pytest.fixture(autouse=True)
def nothing_is_set() -> Iterator[None]:
    """Use NumPy's settings of a new context, in which it warns."""
    token = settings.set(default_settings)
    yield
    settings.reset(token)


def t(*values: float) -> Any:
    return ndgrad.tensor(values)


#: Functions, with arguments for which an eager call reports nothing, and arguments for which it reports an error.
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "divide": (lambda x: 1 / x, t(1.0, 2.0), t(0.0, 1.0)),
    "log": (lambda x: x.log(), t(1.0, 2.0), t(0.0, 1.0)),
    "invalid": (lambda x: x.sqrt(), t(1.0, 2.0), t(-1.0, 1.0)),
    "overflow": (lambda x: x * 1e308, t(1.0, 0.5), t(1.0, 1e5)),
    "exp": (lambda x: x.exp(), t(1.0, 2.0), t(1.0, 1000.0)),
    "masked": (lambda x: ndgrad.where(x > 0, 1 / x, 0.0), t(1.0, 2.0), t(0.0, 1.0)),
    "never read": (lambda x: (1 / x, x * 2)[1], t(1.0, 2.0), t(0.0, 1.0)),
    "part": (lambda x: (1 / x)[1:] * 2, t(1.0, 2.0), t(0.0, 1.0)),
    "joined": (lambda x: ndgrad.cat([1 / x, x])[2:] * 2, t(1.0, 2.0), t(0.0, 1.0)),
    "integers": (lambda x: x // 0 if x.min() < 0 else x * 2, ndgrad.tensor([1, 2]), ndgrad.tensor([-1, 2])),
    "NumPy's tensor class": (lambda x: ng.log(x), ng.array([1.0, 2.0]), ng.array([0.0, 1.0])),
    "arrays": (lambda x: ng.log(x) + 1, np.array([1.0, 2.0]), np.array([0.0, 1.0])),
    "between kernels": (lambda x: ndgrad.linalg.inv(ndgrad.diag(x + 1)).sum() / x, t(1.0, 2.0), t(0.0, 1.0)),
}


def messages(f: Any, x: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(x)
    return [str(w.message) for w in found]


def raised(f: Any, x: Any) -> Any:
    try:
        f(x)
    except Exception as error:
        return type(error), str(error)
    return None


SEEN = list(CASES)


@pytest.mark.parametrize("name", SEEN)
def test_warnings_that_are_all_shown(name: str) -> None:
    f, fine, wrong = CASES[name]
    compiled = CompiledFunction(f)
    for x in (fine, wrong, fine, wrong, wrong, fine):
        assert messages(compiled, x) == messages(f, x)
    assert any(messages(f, wrong))


@pytest.mark.parametrize("name", sorted(CASES))
def test_errors_that_errstate_raises(name: str) -> None:
    f, fine, wrong = CASES[name]
    compiled = CompiledFunction(f)
    with np.errstate(all="ignore"):
        for x in (fine, fine, fine, wrong):
            assert raised(compiled, x) is None
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        for x in (fine, wrong, wrong, fine):
            assert raised(compiled, x) == raised(f, x)
    before = np.seterr(divide="raise", over="raise", invalid="raise")
    try:
        assert raised(compiled, wrong) == raised(f, wrong)
    finally:
        np.seterr(**before)


@pytest.mark.parametrize("name", SEEN)
def test_warnings_that_filters_make_errors(name: str) -> None:
    f, fine, wrong = CASES[name]
    compiled = CompiledFunction(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (fine, wrong, wrong, fine, fine):
            compiled(x)
        warnings.simplefilter("error")
        for x in (wrong, fine, wrong):
            assert raised(compiled, x) == raised(f, x)


def test_functions_that_errstate_calls() -> None:
    found: list[str] = []
    compiled = CompiledFunction(lambda x: 1 / x)
    for _ in range(4):
        compiled(t(1.0))
    with np.errstate(all="call", call=lambda kind, flag: found.append(kind)):
        compiled(t(0.0))
    assert found == ["divide by zero"]


def test_a_warning_that_is_shown_once_is_shown_and_does_not_slow_later_calls_down() -> None:
    compiled = CompiledFunction(lambda x: 1 / x)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for _ in range(8):
            compiled(t(0.0))
    assert [str(w.message) for w in shown] == ["divide by zero encountered in divide"]
    assert compiled.entries[0].specialisation is not None
    assert not available() or compiled.entries[0].native is not None


@pytest.mark.parametrize("name", ["divide", "log", "exp", "invalid", "masked", "never read", "integers", "cast"])
def test_an_error_that_comes_late_is_shown(name: str) -> None:
    f, fine, wrong = {**CASES, "cast": (lambda x: x.long(), t(1.0, 2.0), t(1e30, 1.0))}[name]
    compiled = CompiledFunction(f)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for x in (fine, fine, fine, fine, wrong):
            compiled(x)
    assert {str(w.message) for w in shown} == {*messages(f, wrong)}


@pytest.mark.parametrize("action", ["always", "default", "error"])
def test_errors_of_programs_that_write_inputs(action: str) -> None:
    """Eager code is the oracle for each warning. With a filter that shows the first warning, only the kind is compared.
    """
    size = 40_000  # from a certain size on, programs write inputs themselves
    total = ndgrad.zeros(size)

    def f(x: Any) -> Any:
        total.add_(1 / x)
        return x.sum()

    compiled = CompiledFunction(f)
    fine, wrong = ndgrad.ones(size), ndgrad.ones(size)
    wrong[7] = 0.0
    for x in (fine, fine, fine, wrong):
        before = total.clone()
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            error = raised(compiled, x)
        after = total.clone()
        total.copy_(before)
        with warnings.catch_warnings(record=True) as expected:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            assert error == raised(f, x)
        np.testing.assert_array_equal(after.numpy(), total.numpy())
        kinds = [[str(w.message).partition(" encountered")[0] for w in found] for found in (shown, expected)]
        assert kinds[0] == kinds[1]
        if action == "always":
            assert [str(w.message) for w in shown] == [str(w.message) for w in expected]


def test_an_error_that_leaves_no_trace_in_written_inputs_is_reported_by_the_next_call() -> None:
    size = 40_000
    total = ndgrad.zeros(size)

    def f(x: Any) -> Any:
        total.add_(ndgrad.where(x > 0, 1 / x, 0.0))
        return x.sum()

    compiled, wrong = CompiledFunction(f), ndgrad.ones(size)
    wrong[7] = 0.0
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for x in (ndgrad.ones(size), ndgrad.ones(size), ndgrad.ones(size), wrong):
            compiled(x)
        assert not shown
        for _ in range(3):
            compiled(wrong)
    assert [str(w.message) for w in shown] == ["divide by zero encountered in divide"]
    assert total[6:8].tolist() == [7.0, 3.0]


#: Formulas that divide, take roots and logarithms of positive numbers.
QUIET = {
    "divide": lambda a, b: a / b,
    "root": lambda a, b: (a + b).sqrt() * a.log(),
    "normalised": lambda a, b: ((a - a.mean(-1, keepdim=True)) / (a + b).sqrt()).sum(0),
    "reduced": lambda a, b: (a / b).amax(-1) + ndgrad.logsumexp(a / b, -1),
}


@pytest.mark.parametrize("dtype", [ndgrad.float32, ndgrad.float64])
@pytest.mark.parametrize("shapes", [((2,), (2,)), ((3,), ()), ((19,), (19,)), ((33, 2), (33, 1)), ((4, 3), (3,)), ((2, 7), (2, 7))])
def test_positive_numbers_in_short_rows_set_no_bit(shapes: Any, dtype: Any) -> None:
    """Registers that a row does not fill have lanes without elements, which must not divide by zero."""
    for f in QUIET.values():
        for grad in (False, True):
            compiled = CompiledFunction(lambda a, b, f=f, grad=grad: _with_gradients(f, a, b) if grad else f(a, b))
            a, b = (ndgrad.linspace(0.5, 1.5, int(np.prod(s)), dtype=dtype).reshape(s).requires_grad_(grad) for s in shapes)
            for _ in range(2):
                compiled(a, b)
            made = [entry.specialisation for entry in compiled.entries if entry.specialisation is not None]
            assert made
            assert all(s.float_reports.flags == 0 for s in made)


def _with_gradients(f: Any, a: Any, b: Any) -> Any:
    return ndgrad.autograd.grad(f(a, b).sum(), (a, b))


def test_a_program_that_computes_gradients_at_once_warns_as_often() -> None:
    def f(x: Any) -> Any:
        return (x * 0).log().sum()

    compiled = CompiledFunction(f)
    for _ in range(4):
        assert messages(compiled, ndgrad.ones(3, requires_grad=True)) == messages(f, ndgrad.ones(3, requires_grad=True))


def test_errors_of_workers_are_seen() -> None:
    compiled = CompiledFunction(lambda x: (1 / x + 1) * 2)
    x = ndgrad.ones(1 << 20)
    for position in (0, 700_000, (1 << 20) - 1):
        assert messages(compiled, x) == []
        wrong = x.clone()
        wrong[position] = 0.0
        assert messages(compiled, wrong) == ["divide by zero encountered in divide"]


def test_backward_passes_report_nothing() -> None:
    def f(x: Any) -> Any:
        return x.sqrt().sum()

    compiled = CompiledFunction(f)
    for _ in range(8):
        x = ndgrad.zeros(2, requires_grad=True)

        def both(g: Any, x: Any = x) -> None:
            g(x).backward()

        assert messages(lambda _, x=x: both(compiled, x), None) == messages(lambda _, x=x: both(f, x), None)


FLOATS = (0.0, -0.0, 1.0, -2.5, 0.5, 1e30, -1e30, 100.0)
INTEGERS = (0, 1, -1, 127)


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_native_code_sets_a_bit_or_is_known_to_be_silent(name: str) -> None:
    """Finite arguments: if NumPy reports an error, a program sets a bit or has an op of SILENT."""
    if name in SILENT:
        return
    op = op_named(name)
    for dtype in ("float32", "int32"):
        conditions = OPERATIONS[name].conditions
        inputs = [Value((5,), np.dtype(bool if i in conditions else dtype)) for i in range(len(op.args))]
        try:
            _, types = infer(op, inputs, dict(op.settings))
        except Exception:
            continue
        made = Instruction(op, tuple(inputs), dict(op.settings), tuple(Value(*kind) for kind in types))
        if not is_pointwise(made):
            continue
        from ndgrad._src.compiler.lower.native_program import NativeProgram

        program = NativeProgram(Program(inputs, list(made.results), [made], {}, name))
        program.look_for(13)
        for values in itertools.product(FLOATS if dtype == "float32" else INTEGERS, repeat=len(inputs)):
            arrays = [np.full(5, value).astype(v.dtype) for value, v in zip(values, inputs, strict=True)]
            with warnings.catch_warnings(record=True) as reports:
                warnings.simplefilter("always")
                forward_of(op)(*arrays, **op.settings)
            if reports:
                with pytest.raises(FloatFlags):
                    program(arrays)


def test_other_filters_show_a_warning_again() -> None:
    """Python forgets the shown warnings when filters change, and so does a compiled call."""

    def f(x: Any) -> Any:
        return (x * 0 - 1).sqrt()

    counts: list[list[int]] = []
    for called in (f, ndgrad.compile(f)):
        counts.append([])
        for action in ("default", "default", "once", "once", "ignore", "default"):
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter(action)
                called(ndgrad.ones(2))
                called(ndgrad.ones(2))
            counts[-1].append(len(shown))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("action", ["default", "once", "module"])
def test_filters_that_change_to_an_equal_list_show_a_warning_again(action: Any) -> None:
    def run(compile: Callable[..., Any]) -> list[int]:
        f, counts = compile(lambda x: 1 / x), []
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter(action)
            for turn in range(12):
                if turn == 4:
                    warnings.simplefilter(action)  # leaves the same list
                if turn == 8:
                    with warnings.catch_warnings():
                        pass
                f(t(0.0))
                counts.append(len(shown))
        return counts

    assert run(CompiledFunction) == run(lambda f: f) == [1] * 4 + [2] * 4 + [3] * 4


def test_the_version_of_the_filters_is_found_without_a_warning() -> None:
    for action in ("default", "once", "module", "ignore", "error"):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            before = filter_version()
            assert isinstance(before, int)
            assert before == filter_version()
            warnings.simplefilter(action)  # type: ignore[arg-type]
            assert before != filter_version()
            assert not shown
            warnings.filterwarnings("always", category=RuntimeWarning)
            assert filter_version() is None
            assert not shown


SCALARS: dict[str, Callable[[], Any]] = {
    "division": lambda: np.float32(1.0) / np.float32(0.0),
    "integers": lambda: np.int8(-128) - np.int8(1),
    "overflow": lambda: np.float32(3e38) * np.float32(2.0),
    "array": lambda: np.log(np.zeros(2))[0],
    "cast": lambda: np.float32(1e38).astype(np.float16),
}


@pytest.mark.parametrize("action", ["default", "always", "ignore"])
@pytest.mark.parametrize("name", SCALARS)
def test_errors_of_numpy_itself_are_reported_by_each_call(name: str, action: Any) -> None:
    compute = SCALARS[name]

    def run(compile: Callable[..., Any]) -> list[Any]:
        f, seen = compile(lambda x: x * bool(compute() > 0)), []
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter(action)
            for turn in range(8):
                if turn == 4:
                    warnings.simplefilter("always")
                with np.errstate(all="ignore" if turn == 1 else "warn", under="ignore"):
                    f(t(1.0))
                seen.append([str(w.message) for w in shown])
        with np.errstate(all="raise"), pytest.raises(FloatingPointError) as error:
            f(t(1.0))
        return [seen, str(error.value)]

    assert run(CompiledFunction) == run(lambda f: f)


def test_a_warning_that_ends_a_trace_is_shown_by_the_eager_call() -> None:
    def f(x: Any) -> Any:
        return x * (2.0 if bool(NotImplemented) else 1.0)  # C code warns

    def run(compile: Callable[..., Any]) -> int:
        g = compile(f)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("default")
            for _ in range(3):
                try:
                    g(t(1.0))
                except TypeError:  # from Python 3.14 on
                    pytest.skip("a truth value of NotImplemented is an error")
        return len(shown)

    assert run(CompiledFunction) == run(lambda f: f) == 1
