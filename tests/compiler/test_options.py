"""The options of compile: `strict` and `threads` work as documented, and torch's arguments have a meaning or are
refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.runtime.function import CompiledFunction


def find_executable(compiled: Any, *args: Any) -> Any:
    """Return the executable of the forward program of a call."""
    compiled(*args)
    return compiled.entries[-1].specialisation.plan.run_forward.executable


def native() -> None:
    """Skip if programs run on NumPy."""
    pytest.importorskip("llvmlite")
    if os.environ.get("NDGRAD_COMPILE_REPLAY"):
        pytest.skip("programs run on NumPy")


def total(x: Any) -> Any:
    return (x * 1.1 + x).sum()


def large() -> Any:
    return ndgrad.tensor(np.random.default_rng(0).normal(size=100_001).astype(np.float32))


def test_strict_adds_in_numpys_order_and_contracts_nothing() -> None:
    x = large()
    assert isinstance(find_executable(ndgrad.compile(total, strict=True), x), Replay)
    assert ndgrad.compile(total, strict=True)(x).item() == total(x).item()
    w = x.clone().requires_grad_()
    strict = ndgrad.compile(lambda w: (w * w).sum().tanh() * (w.exp() / 3).mean(), strict=True)
    for _ in range(5):  # for any number of calls
        w.grad = None
        strict(w).backward()
    mine, w.grad = w.grad.numpy(), None
    strict.function(w).backward()
    np.testing.assert_array_equal(mine, w.grad.numpy())


def test_threads_limits_native_code() -> None:
    native()
    x = ndgrad.ones(1 << 20)
    one, all_of_them = (find_executable(ndgrad.compile(total, threads=n), x) for n in (1, None))
    assert one.assembly.threads == 1
    assert all_of_them.assembly.threads >= 1
    calls = [line for line in one.text.splitlines() if "call void @ndgrad_run" in line]
    assert all(line.endswith("i64 1)") for line in calls)
    assert ndgrad.compile(total, threads=1)(x).item() == pytest.approx(2.1 * (1 << 20))


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_threads_that_are_none_are_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match="positive int"):
        ndgrad.compile(total, threads=threads)


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_are_one(mode: str | None) -> None:
    assert isinstance(ndgrad.compile(total, mode=mode), CompiledFunction)


def test_backends_are_native_numpy_or_none() -> None:
    x = ndgrad.ones(3)
    for backend in ("numpy", "aot_eager"):
        assert isinstance(find_executable(ndgrad.compile(total, backend=backend), x), Replay)
    assert ndgrad.compile(total, backend="eager") is total
    assert ndgrad.compile(total, disable=True) is total
    native()
    for backend in ("ndgrad", "inductor"):
        assert isinstance(find_executable(ndgrad.compile(total, backend=backend), x), NativeProgram)


def test_options_of_torch_work_in_decorators() -> None:
    @ndgrad.compile(mode="reduce-overhead", fullgraph=True)
    def f(x: Any) -> Any:
        return x * 2

    @ndgrad.compile(options={"threads": 1, "strict": True})
    def g(x: Any) -> Any:
        return x * 2

    assert f(ndgrad.ones(2)).tolist() == g(ndgrad.ones(2)).tolist() == [2, 2]
    assert (f.fullgraph, g.threads, g.strict) == (True, 1, True)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"mode": "fast"}, RuntimeError, "no such mode"),
        ({"backend": "tvm"}, RuntimeError, "no such backend"),
        ({"backend": lambda graph, inputs: graph}, TypeError, "other compilers"),
        ({"options": {"triton.cudagraphs": True}}, RuntimeError, "unknown option 'triton.cudagraphs'"),
        ({"options": {"threads": 0}}, ValueError, "positive int"),
        ({"options": ["threads"]}, TypeError, "takes a dict"),
        ({"mode": "default", "options": {}}, RuntimeError, "both can't be specified"),
    ],
)
def test_what_has_no_meaning_is_refused_in_a_sentence(given: Any, error: Any, says: str) -> None:
    with pytest.raises(error, match=says):
        ndgrad.compile(total, **given)


def test_without_llvmlite_a_compiled_function_warns_once_and_explain_says_so(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, warnings\n"
        "sys.modules['llvmlite'] = None\n"
        "import ndgrad\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    for scale in (2.0, 3.0):\n"
        "        f = ndgrad.compile(lambda x: (x * scale).sin())\n"
        "        f(ndgrad.ones(3))\n"
        "print(*[str(w.message) for w in caught], sep='\\n')\n"
        "print(ndgrad.compiler.explain(f, ndgrad.ones(3)))\n"
    )
    out = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert out.count("pip install llvmlite") == 1
    assert "on NumPy, op by op: llvmlite is not installed" in out
