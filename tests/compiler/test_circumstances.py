"""Compiling with missing or failing parts: results are right, errors name their source line, and everything stays
usable.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.runtime import backend

PROGRAM = """
import os, sys, warnings
warnings.simplefilter("error")
{before}
import numpy as np, ndgrad
w = ndgrad.tensor(np.linspace(0.1, 0.9, 6).reshape(2, 3), requires_grad=True)
f = lambda x: ((x @ w).tanh() * x.sum()).sum()
g = ndgrad.compile(f, fullgraph=True)
for _ in range(4):
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal((5, 2)))
    found = [v.detach().numpy() for v in (g(x), *ndgrad.autograd.grad(g(x), w))]
    expected = [v.detach().numpy() for v in (f(x), *ndgrad.autograd.grad(f(x), w))]
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12)
{after}
"""

NO_LLVMLITE = """
import importlib.abc
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "llvmlite":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""
RUNS_ON_NUMPY = "assert type(g.entries[0].specialisation.ran[0]).__name__ == 'Replay'"
ONE_CORE = "if hasattr(os, 'sched_setaffinity'): os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"


@pytest.mark.parametrize(
    ("before", "after", "variables"),
    [
        (NO_LLVMLITE, RUNS_ON_NUMPY, {}),
        ("", "", {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "NDGRAD_CACHE_DIR": "/proc/nowhere/cache"}),
        (ONE_CORE, "", {"NDGRAD_COMPILE_CPU": "generic"}),
    ],
    ids=["no llvmlite", "nowhere to keep objects", "one core and another processor"],
)
def test_a_process_in_which_something_is_missing(before: str, after: str, variables: dict[str, str]) -> None:
    program = PROGRAM.format(before=before, after=after)
    kept = {k: v for k, v in os.environ.items() if k not in ("NDGRAD_COMPILE_REPLAY", "NDGRAD_CACHE_DIR")}
    ran = subprocess.run([sys.executable, "-c", program], env={**kept, **variables}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_shape_error_inside_compiled_code_names_the_line() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.sin()
        return (z @ y).sum()  # the line that is meant

    g = ndgrad.compile(f)
    for y in (ndgrad.ones(3, 2), ndgrad.ones(4, 2)):
        try:
            g(ndgrad.ones(2, 3), y)
        except RuntimeError as error:
            frames = traceback.extract_tb(error.__traceback__)
            assert any(Path(f.filename) == Path(__file__) and "the line that is meant" in (f.line or "") for f in frames)
            break
    else:
        pytest.fail("no error")
    assert g(ndgrad.ones(2, 3), ndgrad.ones(3, 2)).item() == pytest.approx(6 * 2 * np.sin(1.0), rel=1e-6)


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
@pytest.mark.parametrize("failure", [KeyboardInterrupt, MemoryError])
def test_what_ends_the_making_of_code_leaves_inputs_and_function_usable(
    failure: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    w = ndgrad.tensor([1.0, 2.0], requires_grad=True)

    def step(x: Any) -> Any:
        x.mul_(2.0)
        loss = (w * x).sum()
        loss.backward()
        return loss

    g, x = ndgrad.compile(step), ndgrad.tensor([3.0, 4.0])
    good = backend.NativeProgram

    def fails(*args: Any) -> Any:
        raise failure

    monkeypatch.setattr(backend, "NativeProgram", fails)
    if failure is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            g(x)
        assert x.tolist() == [3.0, 4.0]
        assert w.grad is None
    else:  # the program runs on NumPy, with a warning
        monkeypatch.delenv("NDGRAD_COMPILE_RAISE", raising=False)
        with pytest.warns(UserWarning, match="runs on NumPy instead"):
            assert g(x).item() == 22.0
        x, w.grad = ndgrad.tensor([3.0, 4.0]), None
    monkeypatch.setattr(backend, "NativeProgram", good)
    assert g(x).item() == 22.0
    assert x.tolist() == [6.0, 8.0]
    assert w.grad.tolist() == [6.0, 8.0]


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
def test_in_our_tests_no_code_is_an_error_and_no_eager_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.setattr(backend, "NativeProgram", lambda *args: {}["nothing"])
    with pytest.raises(backend.LoweringFailed):
        ndgrad.compile(lambda x: x.sin())(ndgrad.ones(3))


@pytest.mark.skipif(not available(), reason="llvmlite is not installed")
def test_an_error_while_running_has_written_nothing_and_is_the_functions_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)

    def f(t: Any, table: Any, i: Any) -> Any:
        t.add_(1.0)
        return ndgrad.nn.functional.embedding(i, table).sum() + t.sum()

    g = ndgrad.compile(f)
    t, table, inside, outside = ndgrad.zeros(2), ndgrad.ones(3, 2), ndgrad.tensor([0, 2]), ndgrad.tensor([0, 7])
    for _ in range(3):
        g(t, table, inside)
    expected = t.clone()
    with pytest.raises(IndexError) as eager:
        f(expected, table, outside)
    with pytest.raises(IndexError) as compiled:
        g(t, table, outside)
    assert str(compiled.value) == str(eager.value)
    assert t.tolist() == expected.tolist()  # written once by the function, before it failed
    assert g(t, table, inside).item() == 4.0 + 2 * (expected[0].item() + 1)
