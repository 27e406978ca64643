"""Errors of ops with unread results: a compiled call raises them like an eager one. Also the facts of ops that declare
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import func
from ndgrad._src.compiler.lower.float_errors import may_raise, may_report
from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad._src.compiler.program.replay import forward_of
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.ops.table import RANDOM
from ndgrad._src.ops.vocabulary import find
from tests.op_programs import SAMPLES

F = ndgrad.nn.functional


def t(*values: float) -> Any:
    return ndgrad.tensor(values)


#: Functions that do not use a result, arguments that are fine, and arguments for which an eager call raises.
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "index": (lambda x: (x[x.long()], x * 2)[1], t(0.0, 1.0, 2.0), t(0.0, 1.0, 7.0)),
    "index of an index": (lambda x: (x[x.long()][:1].exp(), x * 2)[1], t(0.0, 1.0, 2.0), t(0.0, 1.0, 7.0)),
    "gather": (lambda x: (x.gather(0, x.long()), x * 2)[1], t(0.0, 1.0, 2.0), t(0.0, 1.0, 7.0)),
    "embedding": (lambda x: (F.embedding(x.long(), x.reshape(3, 1)), x * 2)[1], t(0.0, 1.0, 2.0), t(0.0, 1.0, 7.0)),
    "factor": (lambda x: (ndgrad.linalg.cholesky(ndgrad.diag(x)), x * 2)[1], t(1.0, 2.0), t(1.0, -2.0)),
    "inverse": (lambda x: (ndgrad.linalg.inv(ndgrad.diag(x)), x * 2)[1], t(1.0, 2.0), t(0.0, 2.0)),
    "power": (lambda x: (2**x, x * 2)[1], ndgrad.tensor([1, 2]), ndgrad.tensor([1, -2])),
    "target": (lambda x: (F.cross_entropy(x.reshape(1, 3), x.long()[2:]), x)[1] * 2, t(0.0, 1.0, 2.0), t(0.0, 1.0, 7.0)),
    "in a loop": (lambda x: func.scan(lambda c, y: (c + y, (x[y.long()], y)[1]), x.sum(), x)[0], t(0.0, 1.0), t(0.0, 7.0)),
}  # fmt: skip


def outcome(f: Callable[[Any], Any], x: Any) -> Any:
    try:
        return f(x).tolist()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("is_native", [False, True], ids=["numpy", "native"])
@pytest.mark.parametrize("name", list(CASES))
def test_errors_of_results_that_nothing_reads(name: str, is_native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "" if is_native else "1")
    f, fine, wrong = CASES[name]
    compiled = CompiledFunction(f)
    assert isinstance(outcome(f, wrong), tuple)
    for x in (fine, fine, wrong, fine, fine, wrong, wrong, fine):
        assert outcome(compiled, x) == outcome(f, x)


def test_results_that_nothing_reads_and_that_cannot_fail_are_left_out() -> None:
    compiled = CompiledFunction(lambda x: (x.flip(0), x.T, x > 0, x * 2)[3])
    compiled(t(1.0, 2.0))
    made = compiled.entries[0].specialisation
    assert made is not None
    assert [i.op.name for i in made.plan.forward.instructions] == ["mul"]


# ----- facts ----------------------------------------------------------------------------------------------------------

WRONG: dict[str, list[Any]] = {"i": [-(10**6), 10**6, 0], "f": [0, np.nan, np.inf, -1, 1e300], "c": [0, np.nan], "b": [False, True]}


def arguments(op: Any, sample: Any) -> list[Any]:
    given = [np.array(a) if isinstance(a, (np.ndarray, np.generic)) else a for a in sample.args]
    if sample.prepare is None:
        return given
    made = sample.prepare(*[ndgrad.tensor(a) if isinstance(a, np.ndarray) else a for a in given])
    return [np.array(a._array) if isinstance(a, ndgrad.Tensor) else a for a in (made if isinstance(made, tuple) else (made,))]


def with_wrong_values(given: list[Any]) -> Iterator[list[Any]]:
    """Yield the arguments with the last element, or all elements, of one of them replaced by unusual values."""
    for i, a in enumerate(given):
        if isinstance(a, np.ndarray) and 0 < a.size <= 200:
            for value in WRONG.get(a.dtype.kind, []):
                for part in (slice(-1, None), slice(None)):
                    other = np.array(a)
                    with np.errstate(all="ignore"):
                        other.reshape(-1)[part] = np.asarray(value).astype(a.dtype)
                    yield [*given[:i], other, *given[i + 1 :]]


@pytest.mark.one_in(20)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_ops_say_whether_values_make_them_raise_or_report(name: str) -> None:
    op = find(name)
    if op.batch is RANDOM:
        return
    run = forward_of(op)
    for sample in SAMPLES[name][:2]:
        settings = {**op.settings, **sample.settings}
        given = arguments(op, sample)
        try:
            out = run(*given, **settings)
        except Exception:
            continue
        values = [Value(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in given]
        results = [Value(np.shape(o), np.asarray(o).dtype) for o in (out if op.outputs != 1 else (out,))]
        made = Instruction(op, tuple(values), settings, tuple(results))
        for other in [*with_wrong_values(given)][:24]:
            raised = None
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                try:
                    run(*other, **settings)
                except Exception as error:
                    raised = error
            assert raised is None or may_raise(made) or op.needs_values, f"{name} raises {raised!r}: say may_raise in its block"
            reports = [str(w.message) for w in found if issubclass(w.category, RuntimeWarning) and "encountered" in str(w.message)]
            assert may_report(made) or not reports, f"{name} reports {reports}: it does not only move values"
