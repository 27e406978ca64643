"""Checks of eager ops run in a trace: a compiled call raises if an eager one does, with the same class and text.

The cases are made from the samples of the op table: another dtype, shape or setting, for each argument, as an op, as
its in-place form on a fresh tensor, on a view, on an argument, on expanded memory and on a leaf.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.core.op_observers import in_place_form
from ndgrad._src.ops.table import RANDOM
from ndgrad._src.ops.vocabulary import find
from tests.op_programs import SAMPLES, various

Outcome = tuple[str, Any]


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


def outcome(f: Callable[..., Any], arrays: list[Any], leaves: bool) -> tuple[str, Any]:
    """Return the error that a function raises, or its results and the final state of its arguments."""
    args = [ndgrad.tensor(a) if isinstance(a, np.ndarray) else a for a in arrays]
    tensors = [t for t in args if isinstance(t, ndgrad.Tensor)]
    for t in tensors if leaves else ():
        t.requires_grad_(t.is_floating_point() or t.is_complex())
    try:
        with np.errstate(all="ignore"):
            out = f(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    results = list(out) if isinstance(out, tuple) else [out]
    return "", [(np.asarray(t.detach()._array), t.requires_grad) for t in (*results, *tensors)]


def assert_same(found: Outcome, expected: Outcome, case: str) -> None:
    assert found[0] == expected[0], f"{case}: {expected} became {found}"
    if expected[0]:
        assert found[1] == expected[1], case
        return
    for (a, a_requires), (b, b_requires) in zip(found[1], expected[1], strict=True):
        assert (a.dtype, a.shape, a_requires) == (b.dtype, b.shape, b_requires), case
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=case)


def mutations(arrays: list[Any], settings: dict[str, Any]) -> Iterator[tuple[str, list[Any], dict[str, Any]]]:
    """Yield calls like a sample with a different dtype, shape or setting, which may be wrong."""
    for i, a in enumerate(arrays):
        if not isinstance(a, np.ndarray):
            continue

        def with_other(other: Any, i: int = i) -> list[Any]:
            return [*arrays[:i], other, *arrays[i + 1 :]]

        for dtype in ("int64", "bool", "complex128"):
            with np.errstate(all="ignore"):
                yield f"argument {i} of {dtype}", with_other(np.real(a).astype(dtype)), settings
        yield f"argument {i} twice", with_other(np.stack([a, a])), settings
        if a.ndim:
            yield f"row of argument {i}", with_other(np.array(a[0])), settings
    for name, value in settings.items():
        if type(value) is int:
            yield f"{name} of {value + 10}", arrays, {**settings, name: value + 10}


def forms(op: Any, settings: dict[str, Any]) -> Iterator[tuple[str, bool, Callable[..., Any]]]:
    """Yield an op and its in-place forms as functions, and whether arguments are leaves that require grad."""
    form = in_place_form(op)

    def fresh(x: Any, *others: Any) -> Any:
        return form(x.clone(), *others, **settings)

    def of_part(x: Any, *others: Any) -> Any:
        return form(ndgrad.stack([x, x])[0], *others, **settings)

    def of_expanded(x: Any, *others: Any) -> Any:
        return form(x[None].expand(2, *x.shape)[0:1], *others, **settings)

    yield "op", False, lambda *args: op(*args, **settings)
    if op.outputs == 1 and not op.view:
        yield "fresh", False, fresh
        yield "part", True, of_part
        yield "argument", False, lambda x, *others: form(x, *others, **settings)
        yield "leaf", True, lambda x, *others: form(x, *others, **settings)
        yield "expanded", False, of_expanded


def check(name: str, number_of_samples: int, some: slice) -> None:
    op = find(name)
    for sample in various(SAMPLES[name])[:number_of_samples]:
        if op.batch is RANDOM or sample.prepare is not None:
            continue
        for what, arrays, settings in [*mutations(list(sample.args), {**op.settings, **sample.settings})][some]:
            for form, leaves, f in forms(op, settings):
                expected = outcome(f, arrays, leaves)
                compiled = CompiledFunction(f)
                assert_same(outcome(compiled, arrays, leaves), expected, f"{name}, {what}, {form}")


#: Ops whose in-place forms differ in kind: with a kernel for writes or without, elementwise or not.
FEW = ("add", "addmm", "clamp", "copy", "index_add", "index_put", "lerp", "masked_fill", "pow", "scatter", "sigmoid")


@pytest.mark.parametrize("name", FEW)
def test_a_compiled_op_raises_what_the_eager_op_raises(name: str) -> None:
    check(name, 1, slice(0, None, 3))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_compiled_op_raises_what_the_eager_op_raises(name: str) -> None:
    check(name, 1, slice(None))


IN_PLACE = sorted(
    name for name in SAMPLES if find(name).outputs == 1 and not find(name).view and find(name).batch is not RANDOM
)


@pytest.mark.filterwarnings("ignore")
def test_an_in_place_form_whose_result_does_not_fit_raises_in_a_trace() -> None:
    """Every op with an in-place form on a fresh tensor of integers: the break is found during the trace."""
    refused = 0
    for name in IN_PLACE:
        op, sample = find(name), SAMPLES[name][0]
        first = sample.args[0] if sample.args else None
        if sample.prepare is not None or not isinstance(first, np.ndarray) or first.size > 1000:
            continue
        settings, form = {**op.settings, **sample.settings}, in_place_form(op)
        arrays = [np.nan_to_num(np.real(first)).astype("int64"), *sample.args[1:]]

        def f(x: Any, *others: Any, form: Any = form, settings: Any = settings) -> Any:
            return form(x.clone(), *others, **settings)

        expected = outcome(f, arrays, False)
        if expected[0]:
            refused += 1
            assert_same(outcome(CompiledFunction(f), arrays, False), expected, name)
    assert refused > 60


def w() -> Any:
    return ndgrad.tensor([0.5, 1.5, 2.5], requires_grad=True)


CASES: dict[str, Callable[[Any], Any]] = {
    "integers += floats": lambda x: ndgrad.zeros(3, dtype=ndgrad.int64).__iadd__(x),
    "real += complex": lambda x: ndgrad.zeros(3).__iadd__(x * 1j),
    "integers.div_": lambda x: ndgrad.ones(3, dtype=ndgrad.int64).div_(2),
    "integers.sigmoid_": lambda x: ndgrad.ones(3, dtype=ndgrad.int64).sigmoid_(),
    "bool.add_": lambda x: ndgrad.ones(3, dtype=ndgrad.bool).add_(1),
    "out of another dtype": lambda x: ndgrad.add(x.detach(), 1.0, out=ndgrad.zeros(3, dtype=ndgrad.int64)),
    "out with a gradient": lambda x: ndgrad.add(x, 1.0, out=ndgrad.zeros(3)),
    "leaf.add_": lambda x: x.add_(1),
    "view of a leaf": lambda x: x[0].add_(1),
    "expanded": lambda x: ndgrad.zeros(1).expand(3).add_(x.detach()),
    "one of several views": lambda x: (x * 2).unbind()[0].mul_(2),
    "setitem of another shape": lambda x: ndgrad.zeros(3).__setitem__(slice(0, 2), x),
    "overwritten before backward": lambda x: _overwritten(x),
}


def _overwritten(x: Any) -> Any:
    y = x.exp()
    z = y.sum()
    y.mul_(2)
    return ndgrad.autograd.grad(z, x)


@pytest.mark.parametrize("case", sorted(CASES))
def test_writes_that_eager_code_refuses(case: str) -> None:
    def raised(f: Any) -> tuple[type, str]:
        with pytest.raises(Exception) as found:
            f(w())
        return found.type, str(found.value)

    compiled = ndgrad.compile(CASES[case])
    expected = raised(CASES[case])
    assert raised(compiled) == expected
    assert raised(compiled) == expected


def test_a_result_that_is_overwritten_after_a_compiled_call_is_noticed_by_backward() -> None:
    f = ndgrad.compile(lambda x: x.exp())
    for _ in range(3):
        y = f(w())
        loss = (y * y).sum()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="mul_"):
            loss.backward()
